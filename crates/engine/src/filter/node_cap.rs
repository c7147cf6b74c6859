//! On a GPU node, pods without GPUs may hold only so much together.

use crate::cap::Cap;
use crate::resources::{Demand, ResourceId};

pub(crate) fn closes(cap: &Cap, demand: &Demand) -> bool {
    demand.capped && short(cap, demand).next().is_some()
}

/// What is missing under the cap, by resource: how much more than it allows would be held.
pub(crate) fn missing(cap: &Cap, demand: &Demand) -> Vec<(ResourceId, i128)> {
    if demand.capped { short(cap, demand).collect() } else { Vec::new() }
}

/// Whether the cap would allow the pod if no other held anything under it.
pub(crate) fn is_large_enough(cap: &Cap, demand: &Demand) -> bool {
    let fits = |(resource, limit): &(ResourceId, i64)| demand.get(*resource) <= *limit;
    !demand.capped || cap.limits().unwrap_or_default().iter().all(fits)
}

/// Only what the pod asks for counts: a cap that others passed is not in its way.
fn short<'a>(cap: &'a Cap, demand: &'a Demand) -> impl Iterator<Item = (ResourceId, i128)> + 'a {
    cap.limits().unwrap_or_default().iter().filter_map(|(resource, limit)| {
        let requested = demand.get(*resource);
        let over = cap.used(*resource) + i128::from(requested) - i128::from(*limit);
        (requested > 0 && over > 0).then_some((*resource, over))
    })
}
