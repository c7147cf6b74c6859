//! What a composite quota does to the quotas of its namespaces: it takes their place.

use serde_json::Value;

use super::consent::is_given;
use super::{COMPOSITE, PLAIN, is_elastic};
use crate::admission::View;
use crate::object::{ObjectKey, key_of};

/// The plain quotas that are to be deleted because this composite governs their namespaces, by namespace and name:
/// none of a namespace that has to agree and does not. No
/// use is lost with them: what a quota uses is what its pods hold, and the pods are the composite's from the moment
/// it is seen.
pub fn takeover(composite: &Value, view: &dyn View) -> Vec<ObjectKey> {
    let Ok(key) = key_of(composite) else { return Vec::new() };
    if key.kind != COMPOSITE || !is_elastic(&key) {
        return Vec::new();
    }
    let mut taken: Vec<ObjectKey> = namespaces(composite)
        .filter(|namespace| is_given(composite, &key, namespace, view))
        .flat_map(|namespace| view.list(key.group, PLAIN, Some(namespace)))
        .filter_map(|quota| key_of(quota).ok())
        .collect();
    taken.sort();
    taken.dedup();
    taken
}

/// The namespaces that a composite lists, as far as they can be read.
pub(crate) fn namespaces(composite: &Value) -> impl Iterator<Item = &str> {
    let listed = composite.pointer("/spec/namespaces").and_then(Value::as_array).into_iter().flatten();
    listed.filter_map(Value::as_str)
}
