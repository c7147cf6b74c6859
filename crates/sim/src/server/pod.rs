//! How a pod is, as its object says, and how it begins and ends: the simulated kubelet.

use std::sync::LazyLock;

use quotient_api::field::{get, make_room as make_room_for, of_mut};
use quotient_api::{ObjectKey, at, time};
use serde_json::{Value, json};

use crate::field;

/// Whether the key is of a pod.
pub fn is_pod(key: &ObjectKey) -> bool {
    key.group.is_empty() && key.kind == "Pod"
}

/// Whether a pod has ended.
pub fn is_over(pod: &Value) -> bool {
    matches!(field::text(pod, "/status/phase"), Some("Succeeded" | "Failed"))
}

/// Whether a pod is on its way out.
pub fn is_leaving(pod: &Value) -> bool {
    at(pod, "/metadata/deletionTimestamp").is_some_and(|at| !at.is_null())
}

/// Whether a pod runs and is ready.
pub fn is_ready(pod: &Value) -> bool {
    !is_over(pod) && field::has_condition(pod, "Ready")
}

/// The conditions of a pod that runs, to be copied: that takes less time than to make them.
static RUNNING: LazyLock<[(&str, Value); 4]> = LazyLock::new(|| {
    ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
        .map(|kind| (kind, json!({"type": kind, "status": "True", "lastTransitionTime": null})))
});

/// Lets a pod run since `now_us`.
pub fn run(pod: &mut Value, now_us: i64) {
    let now = json!(time::format_timestamp(now_us));
    field::put(pod, &["status", "phase"], json!("Running"));
    if field::text(pod, "/status/startTime").is_none() {
        field::put(pod, &["status", "startTime"], now.clone());
    }
    for (kind, condition) in RUNNING.iter() {
        let mut condition = condition.clone();
        field::put(&mut condition, &["lastTransitionTime"], now.clone());
        field::put_condition(pod, kind, condition);
    }
}

/// What a pod without a node is given on its way to one, and where.
const GIVEN: [(&[&str], &[&str]); 3] = [
    (&[], &["status"]),
    (&["metadata"], &["uid", "creationTimestamp", "generation", "resourceVersion", "annotations"]),
    (&["spec"], &["priority", "tolerations", "nodeName"]),
];

/// Makes room for what a pod is given on its way to a node: there are thousands of pods.
pub fn make_room(pod: &mut Value) {
    for (way, fields) in GIVEN {
        let part = way.iter().try_fold(&mut *pod, |part, name| of_mut(part, name));
        if let Some(part) = part.and_then(Value::as_object_mut) {
            let missing = fields.iter().filter(|name| get(part, name).is_none()).count();
            if missing > 0 {
                make_room_for(part, missing);
            }
        }
    }
}

/// Ends a pod as `Succeeded` or `Failed`.
pub fn end(pod: &mut Value, phase: &str, now_us: i64) {
    let now = json!(time::format_timestamp(now_us));
    field::put(pod, &["status", "phase"], json!(phase));
    let reason = if phase == "Succeeded" { "PodCompleted" } else { "PodFailed" };
    for kind in ["ContainersReady", "Ready"] {
        let fields = [("status", json!("False")), ("reason", json!(reason)), ("lastTransitionTime", now.clone())];
        field::set_condition(pod, kind, &fields);
    }
}
