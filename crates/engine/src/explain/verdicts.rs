//! What each node says to a waiting pod, with numbers.

use crate::engine::Engine;
use crate::fact::{Name, PodKey};
use crate::filter::{Filter, node_cap, resources_fit};
use crate::nodes::NodeId;
use crate::place::Question;
use crate::pods::Place;
use crate::reason::Numbers;
use crate::resources::ResourceId;
use crate::sign::Sign;
use crate::world::World;

/// What one node says to a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeVerdict {
    pub node: Name,
    /// The first filter that closes it; `None` where the node would take the pod.
    pub closed_by: Option<Filter>,
    /// What the node has too little of, whichever filter closes it first.
    pub short: Vec<Numbers>,
    /// What its cap on pods without GPUs has too little of, likewise.
    pub cap: Vec<Numbers>,
    /// Nothing but the cap is in the way.
    pub cap_alone: bool,
}

impl Engine {
    /// What each node says to a waiting pod: first those that would take it, then those that only their cap closes,
    /// then by filter; among those that one filter closes the nearest first. Nothing for a pod that does not wait, or
    /// whose request cannot be read.
    pub fn verdicts(&self, pod: &PodKey) -> Vec<NodeVerdict> {
        let Some((world, question)) = self.asked_for(pod) else { return Vec::new() };
        let mut verdicts: Vec<_> = world.nodes.by_name().map(|node| world.verdict(&question, node)).collect();
        verdicts.sort_by_key(|(nearness, _)| *nearness);
        verdicts.into_iter().map(|(_, verdict)| verdict).collect()
    }

    /// What one node says to a waiting pod; nothing where there is no such node.
    pub fn verdict(&self, pod: &PodKey, node: &Name) -> Option<NodeVerdict> {
        let (world, question) = self.asked_for(pod)?;
        let node = world.nodes.find_present(node)?;
        Some(world.verdict(&question, node).1)
    }

    /// The question that a waiting pod asks nodes, in a copy: to ask prepares answers for the next who asks.
    fn asked_for(&self, pod: &PodKey) -> Option<(World, Question)> {
        let id = self.world.pods.find(pod)?;
        let waiting = self.world.pods.get(id);
        if waiting.place != Place::Waiting || waiting.problem.is_some() || waiting.is_leaving() {
            return None;
        }
        let mut world = self.world.clone();
        // What is kept for the pod itself is not in its way.
        world.count_reservation(id, Sign::Take);
        let question = world.question(id);
        Some((world, question))
    }
}

/// How far a node is from taking a pod, the nearest first.
type Nearness = (Option<(bool, Filter)>, bool, i128, u64);

impl World {
    fn verdict(&self, question: &Question, node: NodeId) -> (Nearness, NodeVerdict) {
        let demand = &self.shapes.get(question.shape).demand;
        let cap = &self.nodes.get(node).cap;
        let closed_by = self.closed_by(question, node);
        let cap_alone = self.closed_by_cap_alone(question, node);
        let (short, over_cap) = (resources_fit::missing(&self.nodes, node, demand), node_cap::missing(cap, demand));
        let would_do_empty = self.would_do_empty(question, node);
        let lack = self.lack(node, &short) + self.lack(node, &over_cap);
        let nearness = (closed_by.map(|filter| (!cap_alone, filter)), !would_do_empty, lack, self.nodes.rank(node));
        let numbers = |resource: ResourceId, used: i128, limit: i128| Numbers {
            resource: self.names.name(resource).clone(),
            used,
            requested: i128::from(demand.get(resource)),
            limit,
        };
        let of_node = |(resource, _): &(ResourceId, i128)| {
            let used = self.nodes.held(*resource, node) + self.nodes.reserved(*resource, node);
            numbers(*resource, used, i128::from(self.nodes.allocatable(*resource, node)))
        };
        let of_cap = |(resource, over): &(ResourceId, i128)| {
            let (used, requested) = (cap.used(*resource), i128::from(demand.get(*resource)));
            numbers(*resource, used, used + requested - over)
        };
        let verdict = NodeVerdict {
            node: self.nodes.get(node).name.clone(),
            closed_by,
            short: short.iter().map(of_node).collect(),
            cap: over_cap.iter().map(of_cap).collect(),
            cap_alone,
        };
        (nearness, verdict)
    }
}
