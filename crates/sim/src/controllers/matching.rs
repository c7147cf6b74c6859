//! Who is meant: selectors, node terms and tolerations held against labels and taints.
//!
//! Controllers ask this of single objects, in the engine's own words for them. The engine answers the same
//! questions about whole clusters with indexes of its own; scenarios hold the two together.

use quotient_engine::fact::{Labels, NodeTerm, Operator, Requirement, Selector, Taint, Toleration, TolerationOperator};

/// Whether all conditions hold for these labels.
pub fn selector_matches(selector: &Selector, labels: &Labels) -> bool {
    selector.requirements.iter().all(|requirement| holds(requirement, labels.get(&requirement.key).map(|v| &**v)))
}

/// Whether the labels have all these values (`nodeSelector`).
pub fn selector_matches_labels(wanted: &Labels, labels: &Labels) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// Whether one of the terms selects the node. A term without conditions selects nothing.
pub fn node_terms_match(terms: &[NodeTerm], name: &str, labels: &Labels) -> bool {
    terms.iter().any(|term| {
        let NodeTerm { labels: on_labels, fields } = term;
        let is_empty = on_labels.is_empty() && fields.is_empty();
        !is_empty
            && on_labels.iter().all(|r| holds(r, labels.get(&r.key).map(|v| &**v)))
            && fields.iter().all(|r| holds(r, (&*r.key == "metadata.name").then_some(name)))
    })
}

/// Whether one of the tolerations puts up with the taint.
pub fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| {
        let Toleration { key, operator, value, effect } = toleration;
        effect.is_none_or(|effect| effect == taint.effect)
            && key.as_ref().is_none_or(|key| *key == taint.key)
            && match operator {
                TolerationOperator::Exists => true,
                TolerationOperator::Equal => *value == taint.value,
                TolerationOperator::Lt => compare(&taint.value, value, |taint, own| taint < own),
                TolerationOperator::Gt => compare(&taint.value, value, |taint, own| taint > own),
            }
    })
}

/// Whether one condition holds for a value that may be absent.
fn holds(requirement: &Requirement, found: Option<&str>) -> bool {
    let Requirement { key: _, operator, values } = requirement;
    let listed = || found.is_some_and(|found| values.iter().any(|value| **value == *found));
    let compared = |by: fn(i64, i64) -> bool| match (found, &values[..]) {
        (Some(found), [value]) => compare(found, value, by),
        _ => false,
    };
    match operator {
        Operator::In => listed(),
        Operator::NotIn => !listed(),
        Operator::Exists => found.is_some(),
        Operator::DoesNotExist => found.is_none(),
        Operator::Gt => compared(|found, value| found > value),
        Operator::Lt => compared(|found, value| found < value),
    }
}

/// Compares two texts as integers; false where either is none.
fn compare(left: &str, right: &str, by: impl Fn(i64, i64) -> bool) -> bool {
    match (left.parse(), right.parse()) {
        (Ok(left), Ok(right)) => by(left, right),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn requirement(operator: Operator, values: &[&str]) -> Requirement {
        Requirement { key: Arc::from("k"), operator, values: values.iter().map(|v| Arc::from(*v)).collect() }
    }

    #[test]
    fn conditions_hold_as_kubernetes_has_them() {
        let cases = [
            (Operator::In, &["a", "b"][..], Some("a"), true),
            (Operator::In, &["a"], None, false),
            (Operator::NotIn, &["a"], None, true),
            (Operator::NotIn, &["a"], Some("a"), false),
            (Operator::Exists, &[], Some(""), true),
            (Operator::DoesNotExist, &[], Some("x"), false),
            (Operator::Gt, &["4"], Some("5"), true),
            (Operator::Gt, &["4"], Some("x"), false),
            (Operator::Lt, &["4"], Some("3"), true),
            (Operator::Lt, &["4"], None, false),
        ];
        for (operator, values, found, expected) in cases {
            assert_eq!(holds(&requirement(operator, values), found), expected, "{operator:?} {values:?} {found:?}");
        }
    }

    #[test]
    fn a_term_without_conditions_selects_nothing() {
        assert!(!node_terms_match(&[NodeTerm::default()], "n", &Labels::default()));
    }
}
