//! Who may evict whom. A policy answers this; nothing else in the search knows why.

use crate::decision::Rule;
use crate::pods::Pod;

/// The rule by which the claimant may evict the victim, if one gives the right to it.
///
/// Without quotas it is priority alone, and strictly lower: a pod that was evicted can never evict its evictor.
pub(crate) fn to_evict(claimant: &Pod, victim: &Pod) -> Option<Rule> {
    (victim.priority < claimant.priority).then_some(Rule::Priority)
}
