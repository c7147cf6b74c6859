//! Groups of pods with `minMember`, as Coscheduling and Koordinator have them.

use serde_json::json;

use super::schema::amounts;
use super::{Column, Definition};
use crate::gangs::POD_GROUP;
use crate::kinds::KINDS;

pub(super) fn definitions() -> Vec<Definition> {
    let is_ours = |group: &str| matches!(group, "scheduling.x-k8s.io" | "scheduling.sigs.k8s.io");
    KINDS.iter().filter(|kind| kind.kind == POD_GROUP && is_ours(kind.group)).map(definition).collect()
}

fn definition(kind: &'static crate::kinds::Kind) -> Definition {
    let count =
        |description: &str| json!({"type": "integer", "format": "int32", "minimum": 0, "description": description});
    let column = |name, path, description| Column { name, path, description, is_wide: false };
    Definition {
        kind,
        singular: "podgroup",
        short_names: &["pg", "pgs"],
        description: "Pods that start together or not at all.",
        spec: json!({
            "type": "object",
            "properties": {
                "minMember": {"type": "integer", "format": "int32", "minimum": 1,
                    "description": "So many pods must be able to run."},
                "minResources": amounts("What the pods of the minimum need together. Not needed here: pods are placed exactly."),
                "scheduleTimeoutSeconds": {"type": "integer", "format": "int32",
                    "description": "For how long pods hold places for the others. Nothing is held here."},
            },
        }),
        status: json!({
            "type": "object",
            "properties": {
                "phase": {"type": "string"},
                "occupiedBy": {"type": "string", "description": "What made the pods, as namespace/name."},
                "running": count("Pods that run."),
                "succeeded": count("Pods that succeeded."),
                "failed": count("Pods that failed."),
                "scheduleStartTime": {"type": "string", "format": "date-time"},
            },
        }),
        has_status_subresource: true,
        top_level: Vec::new(),
        columns: vec![
            column("Phase", ".status.phase", "Where it is in its life"),
            column("MinMember", ".spec.minMember", "So many pods must be able to run"),
            column("Running", ".status.running", "Pods that run"),
            column("Succeeded", ".status.succeeded", "Pods that succeeded"),
            column("Failed", ".status.failed", "Pods that failed"),
        ],
    }
}
