//! Required spread: no domain may be too far ahead of the emptiest.

use crate::relations::Counter;
use crate::shape::Spread;
use crate::topology::{DomainId, NO_DOMAIN};

/// Whether one more pod in the domain would make the spread too uneven. A node without the key cannot be counted.
pub(crate) fn closes(domain: DomainId, counter: &Counter, rule: &Spread) -> bool {
    domain == NO_DOMAIN || too_many(domain, counter, rule) > 0
}

/// How many pods too many the domain would have.
pub(crate) fn too_many(domain: DomainId, counter: &Counter, rule: &Spread) -> i64 {
    counter.at(domain) + rule.itself - counter.least(rule.min_domains) - i64::from(rule.max_skew)
}
