//! Pods from templates.

use quotient_api::field::of;
use quotient_api::{ObjectKey, time};
use serde_json::{Value, json};

use super::adoption::is_made_here;
use crate::field;
use crate::server::{is_leaving, is_over};
use crate::store::Store;

/// A pod of this name as the template says.
pub fn pod(template: &Value, name: &str) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}});
    for part in ["labels", "annotations", "finalizers"] {
        if let Some(value) =
            of(template, "metadata").and_then(|metadata| of(metadata, part)).filter(|value| !value.is_null())
        {
            field::put(&mut pod, &["metadata", part], value.clone());
        }
    }
    field::put(&mut pod, &["spec"], template.get("spec").cloned().unwrap_or_else(|| json!({})));
    pod
}

/// The pods of an owner that have not ended and are not leaving, in the order they were made; those that another
/// cluster made come first.
pub fn active<'a>(store: &'a Store, owner: &ObjectKey) -> Vec<(&'a ObjectKey, &'a Value)> {
    let mut pods: Vec<(&ObjectKey, &Value)> = active_unsorted(store, owner).collect();
    pods.sort_by_cached_key(|(key, pod)| (is_made_here(pod), created(pod), *key));
    pods
}

/// The same in no certain order, which takes less time where there are many.
pub fn active_unsorted<'a>(store: &'a Store, owner: &ObjectKey) -> impl Iterator<Item = (&'a ObjectKey, &'a Value)> {
    let pods = store.controlled(owner, "Pod").into_iter().map(|(key, pod)| (key, pod.as_ref()));
    pods.filter(|(_, pod)| !is_over(pod) && !is_leaving(pod))
}

/// When an object was made, in microseconds since the Unix epoch.
pub fn created(object: &Value) -> i64 {
    let text = field::text(object, "/metadata/creationTimestamp").unwrap_or_default();
    time::parse_timestamp(text).unwrap_or_default()
}

/// Whether a pod is on a node.
pub fn is_assigned(pod: &Value) -> bool {
    field::text(pod, "/spec/nodeName").is_some()
}
