//! Objects as the API server and the kubelets change them: a pod that runs or ends, a replacement, an owner.

use quotient_api::{ObjectKey, kinds, time};
use serde_json::{Value, json};

use crate::field;
use crate::server::NAMESPACE_NAME_LABEL;

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
    pod.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null())
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

/// What an object becomes when `new` is applied over it: the new object with the old one's identity,
/// with its status where the new one gives none, and with what only the cluster itself sets.
pub fn replacement(old: &Value, mut new: Value) -> Value {
    let given = new.get("metadata").cloned().unwrap_or(Value::Null);
    let mut metadata = old["metadata"].clone();
    for part in ["labels", "annotations"] {
        field::remove(&mut metadata, &[part]);
    }
    for part in ["labels", "annotations", "ownerReferences", "finalizers"] {
        if let Some(value) = given.get(part).filter(|value| !value.is_null()) {
            field::put(&mut metadata, &[part], value.clone());
        }
    }
    field::put(&mut new, &["metadata"], metadata);
    if new.get("status").is_none_or(Value::is_null)
        && let Some(status) = old.get("status")
    {
        field::put(&mut new, &["status"], status.clone());
    }
    if new["kind"] == "Namespace" {
        let name = new["metadata"]["name"].clone();
        field::put(&mut new, &["metadata", "labels", NAMESPACE_NAME_LABEL], name);
    }
    // Where a pod runs and which volume a claim has is written by the cluster, never taken back by a user.
    for (kind, part) in [("Pod", "nodeName"), ("PersistentVolumeClaim", "volumeName"), ("PersistentVolume", "claimRef")]
    {
        if new["kind"] == kind
            && new["spec"].get(part).is_none_or(Value::is_null)
            && let Some(value) = old["spec"].get(part)
        {
            field::put(&mut new, &["spec", part], value.clone());
        }
    }
    new
}

/// A reference that makes `owner` the controller of an object.
pub fn controlled_by(owner: &ObjectKey, object: &Value) -> Value {
    let api_version = kinds::find(owner.group, owner.kind).map(kinds::Kind::api_version).unwrap_or_default();
    json!([{
        "apiVersion": api_version, "kind": owner.kind, "name": *owner.name, "uid": object["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }])
}
