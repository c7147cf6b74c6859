//! Who has waited for long holds a node.

use std::collections::BTreeSet;

use quotient_engine::Filter;
use quotient_engine::fact::{Name, NodeFact, PodFact, PodKey, Tick};

use super::filters;
use super::world::{ClaimKind, World};
use super::{node_cap, order};

/// Who claims a node because of a long wait, and which: the first that waited for long enough and for which a node
/// would do if it were empty; of these nodes the one where the least is missing.
pub fn reserve(world: &World, now: Tick) -> Option<(PodKey, Name)> {
    let mut reserves = world.claims.iter().filter(|(_, claim)| claim.kind == ClaimKind::Reserve);
    if reserves.any(|(holder, _)| world.waits(&world.pods[holder])) {
        return None;
    }
    order::candidates(world).into_iter().find_map(|key| {
        let pod = &world.pods[&key];
        let waited = now.0.saturating_sub(world.first_seen[&key].0) >= world.reserve_after_ms;
        let node = node_for(world, pod).filter(|_| waited && !world.claims.contains_key(&key))?;
        Some((key, node))
    })
}

fn node_for(world: &World, pod: &PodFact) -> Option<Name> {
    let view = world.view(pod, &BTreeSet::new());
    let full = world
        .nodes
        .values()
        .filter(|n| filters::closed_by(&view, n).is_some() && filters::closing(&view, n).all(is_lack_of_room));
    // What victims leave for stays with their claimant.
    let is_held = |node: &NodeFact| {
        let claims =
            world.claims.iter().filter(|(_, claim)| claim.kind != ClaimKind::Reserve && claim.node == node.name);
        claims.into_iter().any(|(holder, _)| world.waits(&world.pods[holder]))
    };
    let possible = full.filter(|node| large_enough(pod, node) && !is_held(node));
    possible.min_by_key(|node| (missing(world, pod, node), node.name.clone())).map(|node| node.name.clone())
}

fn is_lack_of_room(filter: Filter) -> bool {
    matches!(filter, Filter::NodeResourcesFit | Filter::NodeCap)
}

fn large_enough(pod: &PodFact, node: &NodeFact) -> bool {
    let pods = node.allocatable.get(quotient_engine::fact::PODS) >= 1;
    pods && node_cap::large_enough(pod, node)
        && pod.spec.requests.iter().all(|(resource, amount)| *amount <= node.allocatable.get(resource))
}

/// Whether the pod can go on holding the node: it is large enough, and room is what is missing there.
pub fn still_does(world: &World, pod: &PodFact, node: &NodeFact) -> bool {
    let view = world.view(pod, &BTreeSet::new());
    filters::closed_by(&view, node).is_none_or(is_lack_of_room) && large_enough(pod, node)
}

/// How much is missing: over the resources asked for, the shares of the node's that it lacks, in 1/100,000.
fn missing(world: &World, pod: &PodFact, node: &NodeFact) -> i128 {
    let view = world.view(pod, &BTreeSet::new());
    let lack = |resource: &str| {
        let allocatable = i128::from(node.allocatable.get(resource));
        (filters::held_with(&view, node, resource) - allocatable).max(0) * 100_000 / allocatable.max(1)
    };
    filters::asked(pod).into_iter().map(lack).sum::<i128>() + node_cap::missing(&view, node)
}
