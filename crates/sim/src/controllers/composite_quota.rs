//! Composite quotas take the place of the quotas of their namespaces.

use quotient_api::ObjectKey;
use quotient_api::elastic::takeover::takeover;
use serde_json::Value;

use crate::server::Server;

/// Deletes the quotas whose place the composite takes.
pub fn reconcile(server: &mut Server, key: &ObjectKey, composite: &Value) {
    for taken in takeover(composite, server.store()) {
        server.remove(&taken);
        let namespace = taken.namespace.as_deref().unwrap_or_default();
        server.event(key, "Normal", "TookOver", &format!("{taken} was deleted: {key} governs {namespace} now"));
    }
}
