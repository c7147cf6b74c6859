//! Required affinity and anti-affinity between pods.

use crate::relations::Counter;
use crate::topology::{DomainId, NO_DOMAIN};

/// Whether a pod is kept away because those it must be near are not in the node's domains. `near` has, for each
/// term, the node's domain and the count of pods that match all terms.
pub(crate) fn lacks_company(mut near: impl Iterator<Item = (DomainId, i64)>) -> bool {
    near.any(|(domain, count)| domain == NO_DOMAIN || count == 0)
}

/// Whether nobody anywhere is of the kind that the pod must be near, and it is of that kind itself: then it may be
/// the first, on any node that has the keys.
pub(crate) fn may_be_first(affine_to_itself: bool, mut totals: impl Iterator<Item = i64>) -> bool {
    affine_to_itself && totals.all(|total| total == 0)
}

/// Whether one that the pod must not be near is in the domain.
pub(crate) fn meets_adversary(domain: DomainId, counter: &Counter) -> bool {
    domain != NO_DOMAIN && counter.at(domain) > 0
}
