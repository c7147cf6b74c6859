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
    /// When those who leave anyway are gone, there is room.
    Wait,
    /// It claims the node, and these have to go; each with whether a disruption budget is passed over.
    Evict { node: Name, victims: Vec<(PodKey, bool)> },
}

/// What a set of victims costs. Lists of equal length compare from their start, so that the derived order is the
/// rule's.
type Cost = (u64, Option<i32>, usize, Vec<Reverse<Created>>, Vec<PodKey>);

pub fn preempt(world: &World, claimant: &PodFact) -> Outcome {
    let leaving: BTreeSet<PodKey> = world.placed().iter().filter(|p| p.leaving).map(|p| p.pod.key()).collect();
    let mut victims: Vec<&PodFact> = Vec::new();
    for placed in world.placed() {
        if placed.pod.node.is_some() && !placed.leaving && placed.pod.priority < claimant.priority {
            victims.push(placed.pod);
        }
    }
    assert!(victims.len() < 16, "too many pods for every set of them");
    let mut sets: Vec<(Cost, Vec<&PodFact>)> = (0..1u32 << victims.len())
        .map(|bits| victims.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1).map(|(_, pod)| *pod).collect())
        .map(|set: Vec<&PodFact>| (cost(world, &set), set))
        .collect();
    sets.sort_by(|a, b| a.0.cmp(&b.0));
    // The empty set costs nothing and is looked at first; Never-preempters look at no other.
    for (_, set) in sets {
        if claimant.never_preempts && !set.is_empty() {
            return Outcome::Hopeless;
        }
        let mut gone = leaving.clone();
        gone.extend(set.iter().map(|pod| pod.key()));
        let view = world.view(claimant, &gone);
        let Some(node) = scores::best(&view, &filters::open(&view)) else { continue };
        if set.is_empty() {
            return Outcome::Wait;
        }
        let over: Vec<_> = world.budgets.values().filter(|b| excess(world, b, &set) > 0).collect();
        let victims = set.iter().map(|pod| (pod.key(), over.iter().any(|b| covers(b, pod)))).collect();
        return Outcome::Evict { node: node.name.clone(), victims };
    }
    Outcome::Hopeless
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

pub fn cost(world: &World, set: &[&PodFact]) -> Cost {
    let violations = world.budgets.values().map(|budget| excess(world, budget, set)).sum();
    let mut created: Vec<Reverse<Created>> = set.iter().map(|pod| Reverse(pod.created)).collect();
    created.sort();
    let mut names: Vec<PodKey> = set.iter().map(|pod| pod.key()).collect();
    names.sort();
    (violations, set.iter().map(|pod| pod.priority).max(), set.len(), created, names)
}
