//! Required spread: no domain may be too far ahead of the emptiest.

use crate::relations::Counter;
use crate::shape::Spread;
use crate::topology::{DomainId, NO_DOMAIN};

/// Whether one more pod in the domain would make the spread too uneven. A node without the key cannot be counted.
pub(crate) fn closes(domain: DomainId, counter: &Counter, rule: &Spread) -> bool {
    domain == NO_DOMAIN || too_many(domain, counter, rule, 0) > 0
}

/// How many pods too many the domain would have, with so many more there than are counted.
pub(crate) fn too_many(domain: DomainId, counter: &Counter, rule: &Spread, more: i64) -> i64 {
    let least = counter.least_with(domain, more, rule.min_domains);
    counter.at(domain) + more + rule.itself - least - i64::from(rule.max_skew)
}
