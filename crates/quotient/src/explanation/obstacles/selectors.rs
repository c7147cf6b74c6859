//! Labels, and what asks for them.

use serde_json::Value;

/// The text at a place, unless it is empty.
pub fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The label of an object.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("labels")?.get(key)?.as_str()
}

/// What of a pod's node selector and required affinity a node does not match.
pub fn node_affinity(pod: &Value, node: &Value) -> Option<String> {
    let selector = pod.pointer("/spec/nodeSelector").and_then(Value::as_object);
    let unmet = selector.into_iter().flatten().filter_map(|(key, value)| {
        let wanted = value.as_str().unwrap_or_default();
        (label(node, key) != Some(wanted)).then(|| format!("node selector {key}={wanted}"))
    });
    let unmet: Vec<String> = unmet.collect();
    if !unmet.is_empty() {
        return Some(unmet.join(" and "));
    }
    let pointer = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = pod.pointer(pointer).and_then(Value::as_array)?;
    let unmet: Vec<String> = terms.iter().filter_map(|term| unmet_of_term(term, node)).collect();
    (!unmet.is_empty()).then(|| format!("node affinity {}", unmet.join(" or ")))
}

/// The first expression of a term that a node does not match.
fn unmet_of_term(term: &Value, node: &Value) -> Option<String> {
    let list = |name: &str| term.get(name).and_then(Value::as_array).into_iter().flatten();
    let of_fields = list("matchFields").find(|expression| !matches(expression, text(node, "/metadata/name")));
    let of_labels = || {
        list("matchExpressions")
            .find(|expression| !matches(expression, label(node, text(expression, "/key").unwrap_or(""))))
    };
    of_fields.or_else(of_labels).map(show_expression)
}

/// Whether a value, or its absence, is what an expression asks for.
fn matches(expression: &Value, value: Option<&str>) -> bool {
    let values: Vec<&str> =
        expression.get("values").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let number = |text: &str| text.parse::<i64>().ok();
    match text(expression, "/operator").unwrap_or_default() {
        "In" => value.is_some_and(|value| values.contains(&value)),
        "NotIn" => value.is_none_or(|value| !values.contains(&value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => value.and_then(number) > values.first().and_then(|value| number(value)),
        "Lt" => value
            .and_then(number)
            .is_some_and(|it| values.first().and_then(|value| number(value)).is_some_and(|than| it < than)),
        _ => false,
    }
}

fn show_expression(expression: &Value) -> String {
    let values: Vec<&str> =
        expression.get("values").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let (key, operator) = (text(expression, "/key").unwrap_or(""), text(expression, "/operator").unwrap_or(""));
    if values.is_empty() { format!("{key} {operator}") } else { format!("{key} {operator} [{}]", values.join(", ")) }
}

/// Whether a label selector selects an object.
pub fn labels_match(selector: &Value, object: &Value) -> bool {
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    labels.into_iter().flatten().all(|(key, value)| label(object, key) == value.as_str())
        && expressions
            .into_iter()
            .flatten()
            .all(|expression| matches(expression, label(object, text(expression, "/key").unwrap_or(""))))
}

/// A label selector as people write it: `app=web, tier In [a, b]`.
pub fn show(selector: &Value) -> String {
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let labels =
        labels.into_iter().flatten().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    labels.chain(expressions.into_iter().flatten().map(show_expression)).collect::<Vec<_>>().join(", ")
}
