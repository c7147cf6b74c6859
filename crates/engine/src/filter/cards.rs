//! The kinds of card that a pod accepts.

use crate::fact::{Amount, PodSpec};
use crate::nodes::Node;
use crate::resources::ResourceNames;

/// The cards that the node would give to a pod of this spec, as places in the list of those it accepts.
fn accepted<'a>(
    node: &'a Node,
    spec: &'a PodSpec,
    names: &'a ResourceNames,
) -> impl Iterator<Item = Option<usize>> + 'a {
    let asked = node.cards.iter().filter(|(resource, _)| spec.requests.get(names.name(*resource)) > 0);
    asked.map(|(_, card)| spec.cards.iter().position(|name| name == names.name(*card)))
}

/// A pod that names cards wants one of them; one that is only kept from some takes any other, or none.
pub(crate) fn closes(node: &Node, spec: &PodSpec, names: &ResourceNames) -> bool {
    if spec.cards.is_empty() {
        return false;
    }
    let mut accepted = accepted(node, spec, names);
    if spec.any_card { accepted.any(|place| place.is_none()) } else { !accepted.any(|place| place.is_some()) }
}

/// 100 for the card that is preferred, and half as much for each that comes after it.
pub(crate) fn preference(node: &Node, spec: &PodSpec, names: &ResourceNames) -> Amount {
    if spec.any_card || spec.cards.len() < 2 {
        return 0;
    }
    let best = accepted(node, spec, names).flatten().min();
    best.map_or(0, |place| 100i64.checked_shr(place as u32).unwrap_or(0))
}
