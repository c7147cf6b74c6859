//! A node must declare the features that the pod needs.

use crate::fact::PodSpec;
use crate::nodes::Node;

pub(crate) fn closes(node: &Node, spec: &PodSpec) -> bool {
    !spec.features.iter().all(|feature| node.features.contains(feature))
}
