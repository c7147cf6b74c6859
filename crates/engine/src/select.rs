//! Whether labels meet conditions.

use crate::fact::{Labels, Name, NodeTerm, Operator, Requirement, Selector};

/// One condition on labels.
pub(crate) fn meets(labels: &Labels, requirement: &Requirement) -> bool {
    compare(labels.get(&requirement.key), requirement)
}

fn compare(value: Option<&Name>, requirement: &Requirement) -> bool {
    match requirement.operator {
        Operator::In => value.is_some_and(|v| requirement.values.contains(v)),
        Operator::NotIn => value.is_none_or(|v| !requirement.values.contains(v)),
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
        Operator::Gt => integers(value, requirement).is_some_and(|(label, bound)| label > bound),
        Operator::Lt => integers(value, requirement).is_some_and(|(label, bound)| label < bound),
    }
}

/// The label and the one value it is compared with, where both are integers.
fn integers(value: Option<&Name>, requirement: &Requirement) -> Option<(i64, i64)> {
    let [bound] = requirement.values.as_slice() else { return None };
    Some((value?.parse().ok()?, bound.parse().ok()?))
}

/// Whether all conditions hold.
pub fn selects(selector: &Selector, labels: &Labels) -> bool {
    selector.requirements.iter().all(|requirement| meets(labels, requirement))
}

/// Whether a node's name and labels match a term.
pub(crate) fn term_matches(term: &NodeTerm, name: &Name, labels: &Labels) -> bool {
    if term.labels.is_empty() && term.fields.is_empty() {
        return false;
    }
    term.labels.iter().all(|requirement| meets(labels, requirement))
        && term.fields.iter().all(|field| &*field.key == "metadata.name" && compare(Some(name), field))
}

/// Whether one of the terms matches.
pub fn any_term_matches(terms: &[NodeTerm], name: &Name, labels: &Labels) -> bool {
    terms.iter().any(|term| term_matches(term, name, labels))
}
