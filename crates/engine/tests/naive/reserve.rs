//! Who has waited for long holds a node.

use std::collections::BTreeSet;

use quotient_engine::fact::{Name, NodeFact, PodFact, Tick};

use super::filters;
use super::world::{ClaimKind, World};

/// The node that a pod claims because it has waited for long: the one where the least is missing.
pub fn reserve(world: &World, now: Tick, pod: &PodFact) -> Option<Name> {
    let waited = now.0.saturating_sub(world.first_seen[&pod.key()].0) >= world.reserve_after_ms;
    let mut reserves = world.claims.iter().filter(|(_, claim)| claim.kind == ClaimKind::Reserve);
    if !waited || reserves.any(|(holder, _)| world.waits(&world.pods[holder])) {
        return None;
    }
    let possible = world.nodes.values().filter(|node| would_do(world, pod, node));
    possible.min_by_key(|node| (missing(world, pod, node), node.name.clone())).map(|node| node.name.clone())
}

/// Whether the node would take the pod if nobody was on it and nobody claimed it.
pub fn would_do(world: &World, pod: &PodFact, node: &NodeFact) -> bool {
    let there: BTreeSet<_> = world.placed().iter().filter(|p| p.node.name == node.name).map(|p| p.pod.key()).collect();
    let mut view = world.view(pod, &there);
    view.claimants.retain(|(_, claimed)| **claimed != node.name);
    filters::closed_by(&view, node).is_none()
}

/// How much is missing: over the resources asked for, the shares of the node's that it lacks, in 1/100,000.
fn missing(world: &World, pod: &PodFact, node: &NodeFact) -> i128 {
    let view = world.view(pod, &BTreeSet::new());
    let lack = |resource: &str| {
        let allocatable = i128::from(node.allocatable.get(resource));
        (filters::held_with(&view, node, resource) - allocatable).max(0) * 100_000 / allocatable.max(1)
    };
    filters::asked(pod).into_iter().map(lack).sum()
}
