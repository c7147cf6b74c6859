//! Conditions on labels, node terms, taints and tolerations.

use quotient_engine::fact::{
    Effect, Labels, NodeFact, NodeTerm, Operator, PodSpec, Requirement, Selector, Taint, Toleration, TolerationOperator,
};

/// Whether a condition holds for a value that may be absent.
fn holds(requirement: &Requirement, value: Option<&str>) -> bool {
    let listed = |value: &str| requirement.values.iter().any(|v| &**v == value);
    match (requirement.operator, value) {
        (Operator::In, Some(value)) => listed(value),
        (Operator::NotIn, Some(value)) => !listed(value),
        (Operator::Exists, value) => value.is_some(),
        (Operator::DoesNotExist | Operator::NotIn, None) => true,
        (Operator::DoesNotExist, Some(_)) => false,
        (Operator::Gt, Some(value)) => compare(value, &requirement.values).is_some_and(|o| o.is_gt()),
        (Operator::Lt, Some(value)) => compare(value, &requirement.values).is_some_and(|o| o.is_lt()),
        (Operator::In | Operator::Gt | Operator::Lt, None) => false,
    }
}

fn compare(value: &str, values: &[quotient_engine::fact::Name]) -> Option<std::cmp::Ordering> {
    let [limit] = values else { return None };
    Some(value.parse::<i64>().ok()?.cmp(&limit.parse::<i64>().ok()?))
}

/// A selector of pods (or of namespaces, or of volumes) by their labels.
pub fn selects(selector: &Selector, labels: &Labels) -> bool {
    selector.requirements.iter().all(|r| holds(r, labels.get(&r.key).map(|v| &**v)))
}

/// The same where the selector may be missing, and then selects nothing.
pub fn selects_some(selector: &Option<Selector>, labels: &Labels) -> bool {
    selector.as_ref().is_some_and(|s| selects(s, labels))
}

/// A term of a node selector. Without conditions it selects nothing.
pub fn term_selects(term: &NodeTerm, node: &NodeFact) -> bool {
    if term.labels.is_empty() && term.fields.is_empty() {
        return false;
    }
    let labels = term.labels.iter().all(|r| holds(r, node.labels.get(&r.key).map(|v| &**v)));
    let fields = term.fields.iter().all(|r| holds(r, (&*r.key == "metadata.name").then_some(&*node.name)));
    labels && fields
}

/// The pod's node selector and required terms.
pub fn node_matches(spec: &PodSpec, node: &NodeFact) -> bool {
    let selector = spec.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value));
    let terms = spec.required_nodes.as_ref().is_none_or(|terms| terms.iter().any(|t| term_selects(t, node)));
    selector && terms
}

pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    if toleration.effect.is_some_and(|effect| effect != taint.effect) {
        return false;
    }
    if toleration.key.as_ref().is_some_and(|key| *key != taint.key) {
        return false;
    }
    let numbers = || Some((taint.value.parse::<i64>().ok()?, toleration.value.parse::<i64>().ok()?));
    match toleration.operator {
        TolerationOperator::Exists => true,
        TolerationOperator::Equal => toleration.value == taint.value,
        TolerationOperator::Gt => numbers().is_some_and(|(taint, toleration)| taint > toleration),
        TolerationOperator::Lt => numbers().is_some_and(|(taint, toleration)| taint < toleration),
    }
}

pub fn tolerated(spec: &PodSpec, taint: &Taint) -> bool {
    spec.tolerations.iter().any(|t| tolerates(t, taint))
}

/// Whether a taint that keeps pods off is not tolerated.
pub fn repelled(spec: &PodSpec, node: &NodeFact) -> bool {
    node.taints.iter().any(|t| matches!(t.effect, Effect::NoSchedule | Effect::NoExecute) && !tolerated(spec, t))
}
