//! What a pod asks for must be free, and so must a place for one more pod.

use crate::nodes::{NodeId, Nodes};
use crate::resources::{Demand, ResourceId};

pub(crate) fn closes(nodes: &Nodes, node: NodeId, demand: &Demand) -> bool {
    demand.amounts.iter().any(|(resource, amount)| nodes.free(*resource, node) < *amount)
}

/// What is missing on a node, by resource: how much more than what is free is asked for.
pub(crate) fn missing(nodes: &Nodes, node: NodeId, demand: &Demand) -> Vec<(ResourceId, i128)> {
    let short = |(resource, amount): &(ResourceId, i64)| {
        let used = nodes.held(*resource, node) + nodes.reserved(*resource, node);
        let over = used + i128::from(*amount) - i128::from(nodes.allocatable(*resource, node));
        (over > 0).then_some((*resource, over))
    };
    demand.amounts.iter().filter_map(short).collect()
}
