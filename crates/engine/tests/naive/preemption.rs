//! Who is evicted for whom: every set of victims, the cheapest first, until one makes room.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use quotient_engine::fact::{BudgetFact, Created, Name, PodFact, PodKey};

use super::world::World;
use super::{filters, labels, scores};

/// What a claimant does about the pods in its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing can be done.
    Hopeless,
    /// When those who leave anyway are gone, the node takes it.
    Wait { node: Name },
    /// It claims the node, and these have to go, each with whether a disruption budget is passed over; and the claims
    /// of these are taken over.
    Evict { node: Name, victims: Vec<(PodKey, bool)>, holders: Vec<PodKey> },
}

/// What a set of victims costs. Lists of equal length compare from their start, so that the derived order is the
/// rule's.
type Cost = (u64, Option<i32>, usize, Vec<Reverse<Created>>, Vec<PodKey>);

/// Pods that go, and pods whose claims go.
type Set<'a> = (Vec<&'a PodFact>, Vec<&'a PodFact>);

pub fn preempt(world: &World, claimant: &PodFact) -> Outcome {
    if claimant.never_preempts {
        return Outcome::Hopeless;
    }
    if let Some(node) = node_without(world, claimant, &(Vec::new(), Vec::new())) {
        return Outcome::Wait { node };
    }
    let lower = |pod: &&PodFact| pod.priority < claimant.priority;
    let placed = world.placed();
    let there = placed.iter().filter(|placed| !placed.leaving);
    let victims: Vec<&PodFact> = there.map(|placed| placed.pod).filter(lower).collect();
    let on_node = |holder: &&PodKey| world.nodes.contains_key(&world.claims[*holder].node);
    let holders = world.claims.keys().filter(|holder| **holder != claimant.key()).filter(on_node);
    let holders: Vec<&PodFact> =
        holders.map(|key| &world.pods[key]).filter(|pod| world.waits(pod)).filter(lower).collect();
    // What is kept for one that it may evict once it runs is taken over, before anybody goes.
    cheapest(world, claimant, &[], &holders)
        .or_else(|| cheapest(world, claimant, &victims, &holders))
        .unwrap_or(Outcome::Hopeless)
}

fn cheapest(world: &World, claimant: &PodFact, victims: &[&PodFact], holders: &[&PodFact]) -> Option<Outcome> {
    assert!(victims.len() + holders.len() < 16, "too many pods for every set of them");
    let chosen = |bits: u32, from: usize, pods: &[&'_ PodFact]| -> Vec<usize> {
        (0..pods.len()).filter(|i| bits >> (from + i) & 1 == 1).collect()
    };
    let mut sets: Vec<(Cost, Set<'_>)> = (1..1u32 << (victims.len() + holders.len()))
        .map(|bits| {
            let go = chosen(bits, 0, victims).into_iter().map(|i| victims[i]).collect();
            let hold = chosen(bits, victims.len(), holders).into_iter().map(|i| holders[i]).collect();
            (go, hold)
        })
        .map(|set: Set<'_>| (cost(world, &set), set))
        .collect();
    sets.sort_by(|a, b| a.0.cmp(&b.0));
    for (_, set) in sets {
        let Some(node) = node_without(world, claimant, &set) else { continue };
        let over: Vec<_> = world.budgets.values().filter(|b| excess(world, b, &set.0) > 0).collect();
        let victims = set.0.iter().map(|pod| (pod.key(), over.iter().any(|b| covers(b, pod)))).collect();
        return Some(Outcome::Evict { node, victims, holders: set.1.iter().map(|pod| pod.key()).collect() });
    }
    None
}

/// The best node once a set, and all who leave, are gone.
fn node_without(world: &World, claimant: &PodFact, (victims, holders): &Set<'_>) -> Option<Name> {
    let leaving = world.placed().into_iter().filter(|p| p.leaving).map(|p| p.pod.key());
    let gone: BTreeSet<PodKey> = leaving.chain(victims.iter().map(|pod| pod.key())).collect();
    let dropped = holders.iter().map(|pod| pod.key()).collect();
    let view = world.view_without(claimant, &gone, &dropped);
    scores::best(&view, &filters::open(&view)).map(|node| node.name.clone())
}

fn covers(budget: &BudgetFact, pod: &PodFact) -> bool {
    budget.namespace == pod.namespace && labels::selects_some(&budget.selector, &pod.labels)
}

/// How many more victims a budget selects than it allows to go now. Evictions that were decided and that its status
/// cannot know of yet, because the pod is neither seen to leave nor to have ended, use up what it allows.
fn excess(world: &World, budget: &BudgetFact, set: &[&PodFact]) -> u64 {
    let on_their_way = |pod: &&PodFact| pod.leaving_since.is_none() && !pod.phase.is_over();
    let unseen = world.evicting.keys().map(|key| &world.pods[key]).filter(on_their_way);
    let unseen = unseen.filter(|pod| covers(budget, pod)).count() as u64;
    let selected = set.iter().filter(|pod| covers(budget, pod)).count() as u64;
    selected.saturating_sub(u64::from(budget.allowed).saturating_sub(unseen))
}

fn cost(world: &World, (victims, holders): &Set<'_>) -> Cost {
    let violations = world.budgets.values().map(|budget| excess(world, budget, victims)).sum();
    let all = || victims.iter().chain(holders);
    let mut created: Vec<Reverse<Created>> = all().map(|pod| Reverse(pod.created)).collect();
    created.sort();
    let mut names: Vec<PodKey> = all().map(|pod| pod.key()).collect();
    names.sort();
    // Where pods go, those who only lose a claim are none of them.
    let counted = if victims.is_empty() { holders } else { victims };
    (violations, counted.iter().map(|pod| pod.priority).max(), names.len(), created, names)
}
