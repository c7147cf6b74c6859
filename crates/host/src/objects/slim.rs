//! Objects without what nobody asks for of those that are kept.

use quotient_api::field;
use serde_json::{Map, Value, json};

/// A node without what nobody asks for here: the engine is told of it by other ways.
pub(super) fn slim_node(node: &Value) -> Value {
    let at = |pointer: &str| field::at(node, pointer).cloned().unwrap_or_default();
    let conditions = field::at(node, "/status/conditions").and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().filter(|condition| condition["type"] == "Ready");
    let ready: Vec<Value> = ready.map(|condition| json!({"type": "Ready", "status": condition["status"]})).collect();
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": at("/metadata/name"), "labels": at("/metadata/labels")},
        "spec": {"unschedulable": at("/spec/unschedulable")},
        "status": {"allocatable": at("/status/allocatable"), "capacity": at("/status/capacity"), "conditions": ready},
    })
}

/// A pod without what nobody asks for here. There are many of them: nothing is read twice, nor by way of text.
pub(super) fn slim_pod(pod: &Value) -> Value {
    let part = |of: &str, fields: &[&str]| -> Map<String, Value> {
        let of = pod.get(of).and_then(Value::as_object).into_iter().flatten();
        let kept = of.filter(|(field, _)| fields.contains(&field.as_str()));
        kept.map(|(field, value)| (field.clone(), value.clone())).collect()
    };
    let mut spec =
        part("spec", &["schedulerName", "nodeName", "priorityClassName", "resources", "overhead", "schedulingGroup"]);
    for list in ["containers", "initContainers"] {
        let containers = pod.get("spec").and_then(|spec| spec.get(list)).and_then(Value::as_array);
        let slim = |container: &Value| {
            let kept = |field: &str| (field.to_string(), container.get(field).cloned().unwrap_or_default());
            Value::Object(["resources", "restartPolicy"].map(kept).into_iter().collect())
        };
        if let Some(containers) = containers {
            spec.insert(list.to_string(), containers.iter().map(slim).collect());
        }
    }
    let parts = [
        ("apiVersion", Value::from("v1")),
        ("kind", Value::from("Pod")),
        ("metadata", pod.get("metadata").cloned().unwrap_or_default()),
        ("spec", Value::Object(spec)),
        ("status", Value::Object(part("status", &["phase"]))),
    ];
    Value::Object(parts.map(|(field, value)| (field.to_string(), value)).into_iter().collect())
}
