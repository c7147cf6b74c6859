//! Caps on what pods without GPUs hold on GPU nodes, in fractions where the engine has integers.

use quotient_engine::CapSettings;
use quotient_engine::fact::{CapStrategy, Name, NodeFact, PODS, PodFact};

use super::world::{View, World};

/// What the score weighs in these tests: little enough that other scores have a say.
const WEIGHT: i128 = 2;

const WEIGHTS: [(&str, i128); 2] = [("cpu", 5), ("memory", 3)];

pub fn settings() -> CapSettings {
    let resource_weights = WEIGHTS.iter().map(|(name, weight)| (Name::from(*name), *weight as i64)).collect();
    CapSettings { weight: WEIGHT as i64, resource_weights, prefer_cpu_nodes: true }
}

fn asks(pod: &PodFact, resource: &str) -> i128 {
    if resource == PODS { 1 } else { i128::from(pod.spec.requests.get(resource)) }
}

/// For each resource that is capped on the node and that the pod asks for: what would be held with it, and the cap.
fn with_pod(view: &View<'_>, node: &NodeFact) -> Vec<(Name, i128, i128)> {
    let Some(cap) = node.cap.as_ref().filter(|_| view.pod.spec.capped.is_some()) else { return Vec::new() };
    let asked = cap.iter().filter(|(resource, _)| asks(view.pod, resource) > 0);
    let held = |resource: &str| -> i128 {
        let others = view.placed_on(node).map(|p| p.pod).chain(view.claimants_of(node));
        others.chain([view.pod]).filter(|pod| pod.spec.capped.is_some()).map(|pod| asks(pod, resource)).sum()
    };
    asked.map(|(resource, limit)| (resource.clone(), held(resource), i128::from(*limit))).collect()
}

pub fn exceeded(view: &View<'_>, node: &NodeFact) -> bool {
    with_pod(view, node).iter().any(|(_, held, limit)| held > limit)
}

/// Whether the cap alone is as large as what the pod asks for.
pub fn large_enough(pod: &PodFact, node: &NodeFact) -> bool {
    let cap = node.cap.iter().filter(|_| pod.spec.capped.is_some());
    cap.flat_map(|cap| cap.iter()).all(|(resource, limit)| asks(pod, resource) <= i128::from(*limit))
}

/// How much is missing under the cap, in 1/100,000 of what the node has.
pub fn missing(view: &View<'_>, node: &NodeFact) -> i128 {
    let short = with_pod(view, node).into_iter().filter(|(_, held, limit)| held > limit);
    short.map(|(r, held, limit)| (held - limit) * 100_000 / i128::from(node.allocatable.get(&r)).max(1)).sum()
}

/// The points of a node that passes the filters.
pub fn points(view: &View<'_>, node: &NodeFact) -> i128 {
    let Some(strategy) = view.pod.spec.capped else { return 0 };
    if node.cap.is_none() {
        // All other scores have weights of 12 together.
        return (WEIGHT + 12 + 1) * 100_000;
    }
    let weight = |resource: &str| WEIGHTS.iter().find(|(name, _)| *name == resource).map_or(1, |(_, weight)| *weight);
    let parts = with_pod(view, node);
    let sum = parts.iter().fold((0, 1), |(above, below), (resource, held, limit)| {
        let part = match strategy {
            CapStrategy::MostAllocated => *held,
            CapStrategy::LeastAllocated => limit - held,
        };
        (above * limit + part * weight(resource) * below, below * limit)
    });
    let weights: i128 = parts.iter().map(|(resource, ..)| weight(resource)).sum();
    if weights == 0 { 0 } else { sum.0 * WEIGHT * 100_000 / (sum.1 * weights) }
}

/// Amounts by resource.
type Held = Vec<(Name, i128)>;

impl World {
    /// What is capped on each node, and held under the cap: what `Engine::nodes` reports.
    pub fn caps(&self) -> Vec<(Name, Held, Held)> {
        let limits = |node: &NodeFact| {
            node.cap.iter().flat_map(|cap| cap.iter()).map(|(r, limit)| (r.clone(), i128::from(*limit))).collect()
        };
        self.nodes.values().map(|node| (node.name.clone(), limits(node), self.cap_used(node))).collect()
    }

    /// What pods that are subject to caps hold on a node, of what is capped there; nothing that is 0.
    fn cap_used(&self, node: &NodeFact) -> Held {
        let placed = self.placed();
        let held = |resource: &str| -> i128 {
            let here = placed.iter().filter(|p| p.node.name == node.name && p.pod.spec.capped.is_some());
            here.map(|p| asks(p.pod, resource)).sum()
        };
        let capped = node.cap.iter().flat_map(|cap| cap.iter());
        capped.map(|(resource, _)| (resource.clone(), held(resource))).filter(|(_, held)| *held != 0).collect()
    }
}
