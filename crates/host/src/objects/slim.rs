//! Objects without what nobody asks for of those that are kept.

use quotient_api::field;
use serde_json::{Value, json};

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

/// A pod without what nobody asks for here.
pub(super) fn slim_pod(pod: &Value) -> Value {
    let part = |of: &str, fields: &[&str]| -> Value {
        let of = pod.get(of).and_then(Value::as_object).into_iter().flatten();
        let kept = of.filter(|(field, _)| fields.contains(&field.as_str()));
        Value::Object(kept.map(|(field, value)| (field.clone(), value.clone())).collect())
    };
    let mut spec =
        part("spec", &["schedulerName", "nodeName", "priorityClassName", "resources", "overhead", "schedulingGroup"]);
    for list in ["containers", "initContainers"] {
        let containers = field::at(pod, &format!("/spec/{list}")).and_then(Value::as_array);
        let slim = |container: &Value| json!({"resources": container["resources"], "restartPolicy": container["restartPolicy"]});
        if let Some(containers) = containers {
            spec[list] = containers.iter().map(slim).collect();
        }
    }
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": pod["metadata"], "spec": spec, "status": part("status", &["phase"]),
    })
}
