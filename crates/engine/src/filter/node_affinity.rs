//! The pod's node selector and required node affinity.

use crate::fact::PodSpec;
use crate::nodes::Node;
use crate::select::{any_term_matches, term_matches};

pub(crate) fn closes(node: &Node, spec: &PodSpec) -> bool {
    let selected = spec.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value));
    let required = spec.required_nodes.as_ref().is_none_or(|terms| any_term_matches(terms, &node.name, &node.labels));
    !(selected && required)
}

/// The sum of the weights of the preferred terms that match; what the score counts.
pub(crate) fn preference(node: &Node, spec: &PodSpec) -> i64 {
    let matching = spec.preferred_nodes.iter().filter(|(_, term)| term_matches(term, &node.name, &node.labels));
    matching.map(|(weight, _)| i64::from(*weight)).sum()
}
