//! A cordoned node takes only pods that tolerate being there.

use crate::fact::{Effect, Name, Taint, Toleration};
use crate::filter::taints::tolerates;
use crate::nodes::Node;

/// The taint a cordoned node is taken to have.
const CORDON: &str = "node.kubernetes.io/unschedulable";

pub(crate) fn closes(node: &Node, tolerations: &[Toleration]) -> bool {
    if !node.unschedulable {
        return false;
    }
    let cordon = Taint { key: Name::from(CORDON), value: Name::from(""), effect: Effect::NoSchedule };
    !tolerations.iter().any(|toleration| tolerates(toleration, &cordon))
}
