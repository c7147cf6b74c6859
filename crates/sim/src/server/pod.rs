//! How a pod is, as its object says, and how it begins and ends: the simulated kubelet.

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

/// Lets a pod run since `now_us`.
pub fn run(pod: &mut Value, now_us: i64) {
    let now = json!(time::format_timestamp(now_us));
    field::put(pod, &["status", "phase"], json!("Running"));
    if field::text(pod, "/status/startTime").is_none() {
        field::put(pod, &["status", "startTime"], now.clone());
    }
    for kind in ["PodScheduled", "Initialized", "ContainersReady", "Ready"] {
        field::set_condition(pod, kind, &[("status", json!("True")), ("lastTransitionTime", now.clone())]);
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
