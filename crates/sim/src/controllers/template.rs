//! Pods from templates.

use quotient_api::field::of;
use quotient_api::{ObjectKey, time};
use serde_json::{Map, Value, json};

use super::adoption::is_made_here;
use crate::field;
use crate::server::{is_leaving, is_over};
use crate::store::Store;

/// How many fields the metadata of a pod get besides those of its template: its name and namespace, its owner, what an
/// API server assigns, and annotations when it is bound. A map that grows by itself ends with room for as many again.
const METADATA_ROOM: usize = 8;

/// How many fields the spec of a pod gets besides those of its template: priority, tolerations, node.
const SPEC_ROOM: usize = 3;

/// A pod of this name as the template says.
pub fn pod(template: &Value, name: &str) -> Value {
    let given = ["labels", "annotations", "finalizers"].map(|part| {
        let value = of(template, "metadata").and_then(|metadata| of(metadata, part));
        value.filter(|value| !value.is_null()).map(|value| (part, value))
    });
    let given = given.into_iter().flatten();
    let mut metadata = Map::with_capacity(given.clone().count() + METADATA_ROOM);
    metadata.insert("name".to_string(), Value::from(name));
    metadata.extend(given.map(|(part, value)| (part.to_string(), value.clone())));
    let spec = match of(template, "spec") {
        Some(Value::Object(spec)) => {
            let mut copy = Map::with_capacity(spec.len() + SPEC_ROOM);
            copy.clone_from(spec);
            Value::Object(copy)
        }
        Some(other) => other.clone(),
        None => json!({}),
    };
    let parts = [
        ("apiVersion", Value::from("v1")),
        ("kind", Value::from("Pod")),
        ("metadata", Value::Object(metadata)),
        ("spec", spec),
    ];
    let mut pod = Map::with_capacity(parts.len() + 1);
    pod.extend(parts.map(|(part, value)| (part.to_string(), value)));
    Value::Object(pod)
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
