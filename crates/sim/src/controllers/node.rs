//! Taints of nodes that are not well, as the node lifecycle controller sets them.

use quotient_api::ObjectKey;
use serde_json::{Value, json};

use crate::field;
use crate::server::Server;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

pub(super) fn reconcile(server: &mut Server, key: &ObjectKey, node: &Value) {
    let ready = field::list(node, "/status/conditions").iter().find(|c| c["type"] == "Ready");
    // A node that says nothing about its state is taken as it is, with the taints it was given.
    let Some(ready) = ready else { return };
    let wanted = match field::text(ready, "/status") {
        Some("False") => Some(NOT_READY),
        Some("Unknown") => Some(UNREACHABLE),
        _ => None,
    };
    server.amend(key, |node| {
        let before = field::list(node, "/spec/taints").to_vec();
        let is_ours = |taint: &Value| {
            taint["effect"] == "NoSchedule" && (taint["key"] == NOT_READY || taint["key"] == UNREACHABLE)
        };
        let mut taints = before.clone();
        taints.retain(|taint| !is_ours(taint) || Some(taint["key"].as_str().unwrap_or_default()) == wanted);
        if let Some(taint) = wanted.filter(|wanted| !taints.iter().any(|t| is_ours(t) && t["key"] == *wanted)) {
            taints.push(json!({"key": taint, "effect": "NoSchedule"}));
        }
        if taints != before {
            field::put(node, &["spec", "taints"], Value::Array(taints));
        }
    });
}
