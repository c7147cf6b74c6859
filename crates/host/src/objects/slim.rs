//! Objects without what nobody asks for of those that are kept.

use quotient_api::field;
use serde_json::{Map, Value};

/// A node without what nobody asks for here: the engine is told of it by other ways.
pub(super) fn slim_node(node: &Value) -> Value {
    let at = |pointer: &str| field::at(node, pointer).cloned().unwrap_or_default();
    let conditions = field::at(node, "/status/conditions").and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().filter(|condition| condition["type"] == "Ready");
    let ready = ready.map(|condition| map([("type", "Ready".into()), ("status", condition["status"].clone())]));
    let ready: Vec<Value> = ready.collect();
    map([
        ("apiVersion", "v1".into()),
        ("kind", "Node".into()),
        ("metadata", map([("name", at("/metadata/name")), ("labels", at("/metadata/labels"))])),
        ("spec", map([("unschedulable", at("/spec/unschedulable"))])),
        (
            "status",
            map([
                ("allocatable", at("/status/allocatable")),
                ("capacity", at("/status/capacity")),
                ("conditions", ready.into()),
            ]),
        ),
    ])
}

/// A map without room to spare: there are thousands of them.
fn map<const COUNT: usize>(fields: [(&str, Value); COUNT]) -> Value {
    let mut map = Map::with_capacity(COUNT);
    map.extend(fields.map(|(field, value)| (field.to_string(), value)));
    Value::Object(map)
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
    map([
        ("apiVersion", "v1".into()),
        ("kind", "Pod".into()),
        ("metadata", pod.get("metadata").cloned().unwrap_or_default()),
        ("spec", Value::Object(spec)),
        ("status", Value::Object(part("status", &["phase"]))),
    ])
}
