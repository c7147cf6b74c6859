//! Claims: what a claimant holds, and for how long.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use quotient_engine::fact::{NodeFact, PodFact, PodKey};

use super::filters;
use super::world::{ClaimKind, World};

/// Whether pods are still on their way out for the claimant.
pub fn awaits_victims(world: &World, claimant: &PodFact) -> bool {
    let key = claimant.key();
    world.placed().iter().filter(|p| p.leaving).any(|p| {
        let decided = world.evicting.get(&p.pod.key());
        let decided = decided.is_some_and(|e| e.claimant == key && e.claimant_uid == claimant.uid);
        decided || (p.pod.leaving_since.is_some() && p.pod.victim_of.as_ref() == Some(&key))
    })
}

/// Whether evictions were decided for the claimant that are not seen under way yet.
pub fn awaits_unseen(world: &World, claimant: &PodFact) -> bool {
    world.placed().iter().filter(|p| p.leaving && p.pod.leaving_since.is_none()).any(|p| {
        let decided = world.evicting.get(&p.pod.key());
        decided.is_some_and(|e| e.claimant == claimant.key() && e.claimant_uid == claimant.uid)
    })
}

/// Whether the node takes the claimant once every pod that is leaving now is gone, for whomever it goes.
pub fn opens_once_left(world: &World, claimant: &PodFact, node: &NodeFact) -> bool {
    let leaving = world.placed().iter().filter(|p| p.leaving).map(|p| p.pod.key()).collect();
    filters::closed_by(&world.view(claimant, &leaving), node).is_none()
}

/// What a scheduler that starts anew makes of the claims that it reads: one for which pods leave, or that could have
/// evicted some, is taken to have done so.
pub fn recall(world: &mut World) {
    let could = |key: &PodKey| {
        let pod = &world.pods[key];
        let is_lower = world.placed().iter().any(|placed| placed.pod.priority < pod.priority);
        awaits_victims(world, pod) || !pod.never_preempts && is_lower
    };
    let read = world.claims.iter().filter(|(_, claim)| claim.kind == ClaimKind::Room).map(|(key, _)| key);
    let found: Vec<PodKey> = read.filter(|key| could(key)).cloned().collect();
    for key in found {
        world.claims.entry(key).and_modify(|claim| claim.kind = ClaimKind::Preemption);
    }
}

/// The waiting pods that claim room which does not come, the least important and then the youngest first: what one
/// gives up counts for the next.
pub fn baseless(world: &World) -> Vec<PodKey> {
    let leaving: BTreeSet<PodKey> = world.placed().iter().filter(|p| p.leaving).map(|p| p.pod.key()).collect();
    let holders = world.claims.iter().filter(|(_, claim)| claim.kind != ClaimKind::Reserve);
    let mut holders: Vec<(&PodFact, &NodeFact)> = holders
        .filter_map(|(key, claim)| Some((&world.pods[key], world.nodes.get(&claim.node)?)))
        .filter(|(pod, _)| world.waits(pod) && !awaits_victims(world, pod))
        .collect();
    holders.sort_by_key(|(pod, _)| (pod.priority, Reverse((pod.created, pod.key()))));
    let mut dropped = BTreeSet::new();
    let mut found = Vec::new();
    for (pod, node) in holders {
        if filters::closed_by(&world.view_without(pod, &leaving, &dropped), node).is_some() {
            dropped.insert(pod.key());
            found.push(pod.key());
        }
    }
    found
}

/// The waiting pods whose claim is on a node that is not there, in order.
pub fn homeless(world: &World) -> Vec<PodKey> {
    let waiting = super::order::waiting(world).into_iter();
    let homeless =
        waiting.filter(|pod| world.claims.get(&pod.key()).is_some_and(|c| !world.nodes.contains_key(&c.node)));
    homeless.map(PodFact::key).collect()
}
