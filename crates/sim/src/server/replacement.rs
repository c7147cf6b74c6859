//! An object that is applied over one of its name.

use serde_json::Value;

use super::NAMESPACE_NAME_LABEL;
use crate::field;

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
