//! Groups of Kubernetes' own that were deleted: they stay while pods name them that have not ended.

use quotient_api::{ObjectKey, gangs};
use serde_json::Value;

use crate::server::{Server, is_leaving, is_over};

/// Lets a deleted group go with the last of its pods.
pub(super) fn reconcile(server: &mut Server, key: &ObjectKey, group: &Value) {
    if !is_leaving(group) {
        return;
    }
    let names_it = |(pod, object): (&ObjectKey, &std::sync::Arc<Value>)| {
        !is_over(object) && gangs::of_pod(pod, object).as_ref() == Some(key)
    };
    let is_named = server.store().of_kind("", "Pod", key.namespace.as_deref()).any(names_it);
    if !is_named {
        server.remove(key);
    }
}
