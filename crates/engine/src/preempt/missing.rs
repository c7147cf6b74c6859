//! What a claimant is short of on a node, as amounts that victims can give.

use crate::filter::{node_cap, resources_fit};
use crate::nodes::NodeId;
use crate::resources::{Demand, ResourceId};
use crate::world::World;

/// What is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Short {
    /// The node's own.
    Node(ResourceId),
    /// What pods without GPUs may hold there; only such pods can give of it.
    Cap(ResourceId),
}

impl Short {
    /// What a pod of this size gives when it goes.
    pub fn given_by(self, demand: &Demand) -> i128 {
        match self {
            Short::Cap(_) if !demand.capped => 0,
            Short::Node(resource) | Short::Cap(resource) => i128::from(demand.get(resource)),
        }
    }
}

impl World {
    /// All that is missing on a node for a pod of this size.
    pub fn missing(&self, node: NodeId, demand: &Demand) -> Vec<(Short, i128)> {
        let of_node = resources_fit::missing(&self.nodes, node, demand).into_iter();
        let of_cap = node_cap::missing(&self.nodes.get(node).cap, demand).into_iter();
        of_node.map(|(r, by)| (Short::Node(r), by)).chain(of_cap.map(|(r, by)| (Short::Cap(r), by))).collect()
    }
}
