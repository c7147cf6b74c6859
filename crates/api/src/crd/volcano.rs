//! Queues, groups and jobs of several tasks. Manifests for the originals hold more than is read here, so what is not
//! described is kept as it is.

use serde_json::{Value, json};

use super::schema::{amounts, not_below};
use super::{Column, Definition};
use crate::kinds;
use crate::limits::{JOB_PODS_MAX, JOB_TASKS_MAX};
use crate::volcano::command::{BUS, COMMAND};
use crate::volcano::{BATCH, JOB, POD_GROUP, QUEUE, SCHEDULING};

pub(crate) fn definitions() -> Vec<Definition> {
    [queue(), pod_group(), job(), command()].into_iter().flatten().collect()
}

fn column(name: &'static str, path: &'static str, description: &'static str) -> Column {
    Column { name, path, description, is_wide: false }
}

/// A map of which only these fields are described.
fn open(properties: Value) -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": properties})
}

fn count(description: &str) -> Value {
    json!({"type": "integer", "format": "int32", "minimum": 0, "description": description})
}

/// The same with a bound.
fn at_most(mut schema: Value, most: u64) -> Value {
    schema["maximum"] = json!(most);
    schema
}

fn queue() -> Option<Definition> {
    let mut spec = open(json!({
        "weight": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
        "capability": amounts("What may be held in all. A resource that is left out has no limit but that of the queue above."),
        "deserved": amounts("What can be claimed back from queues that hold more than they deserve."),
        "guarantee": open(json!({"resource": amounts("What is kept free for this queue.")})),
        "parent": {"type": "string", "description": "The queue above it; root where it is left out."},
        "reclaimable": {"type": "boolean", "description": "Whether others may take back what it holds beyond what it deserves."},
        "priority": {"type": "integer", "format": "int32", "minimum": 0},
    }));
    spec["x-kubernetes-validations"] = json!([not_below("capability", "deserved")]);
    let status = open(json!({
        "state": {"type": "string", "enum": ["", "Open", "Closed", "Closing", "Unknown"]},
        "allocated": amounts("What its pods hold, cards by name too."),
        "pending": count("Groups that wait to be let in."),
        "inqueue": count("Groups that were let in."),
        "running": count("Groups that run."),
        "unknown": count("Groups of which too few pods run."),
        "completed": count("Groups that are done."),
    }));
    Some(Definition {
        kind: kinds::find(SCHEDULING, QUEUE)?,
        singular: "queue",
        short_names: &["q", "queue-v1beta1"],
        description: "A queue: what the pods in it may hold, deserve and are guaranteed, by resource and by card.",
        spec,
        status,
        has_status_subresource: true,
        top_level: Vec::new(),
        columns: vec![
            column("Parent", ".spec.parent", "The queue above it"),
            column("State", ".status.state", "Whether it starts new pods"),
            column("Capability", ".spec.capability", "What may be held"),
            column("Deserved", ".spec.deserved", "What can be claimed back"),
            column("Allocated", ".status.allocated", "What its pods hold"),
        ],
    })
}

fn pod_group() -> Option<Definition> {
    let spec = open(json!({
        "minMember": count("So many pods must be able to run."),
        "minTaskMember": {"type": "object", "additionalProperties": count("So many pods of this task must be able to run.")},
        "minResources": amounts("What its queue must have room for before it is let in."),
        "queue": {"type": "string"},
        "priorityClassName": {"type": "string"},
    }));
    let status = open(json!({
        "phase": {"type": "string"},
        "running": count("Pods that run."),
        "succeeded": count("Pods that succeeded."),
        "failed": count("Pods that failed."),
        "conditions": {"type": "array", "items": open(json!({}))},
    }));
    Some(Definition {
        kind: kinds::find(SCHEDULING, POD_GROUP)?,
        singular: "podgroup",
        short_names: &["pg", "podgroup-v1beta1"],
        description: "Pods that start together or not at all.",
        spec,
        status,
        // Programs that know this kind write the status with the object.
        has_status_subresource: false,
        top_level: Vec::new(),
        columns: vec![
            column("Status", ".status.phase", "Where it is in its life"),
            column("MinMember", ".spec.minMember", "So many pods must be able to run"),
            column("Running", ".status.running", "Pods that run"),
            column("Queue", ".spec.queue", "Its queue"),
        ],
    })
}

fn job() -> Option<Definition> {
    let task = open(json!({
        "name": {"type": "string"},
        "replicas": at_most(count("How many pods it has."), JOB_PODS_MAX),
        "minAvailable": count("How many of them must be able to run."),
        "template": open(json!({"metadata": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}})),
        "policies": {"type": "array", "items": open(json!({}))},
        "dependsOn": open(json!({
            "name": {"type": "array", "items": {"type": "string"}},
            "iteration": {"type": "string", "enum": ["", "any", "all"]},
        })),
        "maxRetry": {"type": "integer", "format": "int32"},
    }));
    let spec = open(json!({
        "queue": {"type": "string"},
        "minAvailable": count("How many pods must be able to run."),
        "maxRetry": count("How often it is tried."),
        "ttlSecondsAfterFinished": count("After so many seconds it is deleted when it is done."),
        "volumes": {"type": "array", "items": open(json!({
            "mountPath": {"type": "string"},
            "volumeClaimName": {"type": "string"},
            "volumeClaim": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }))},
        "tasks": {"type": "array", "items": task, "maxItems": JOB_TASKS_MAX},
        "policies": {"type": "array", "items": open(json!({}))},
    }));
    let status = open(json!({"state": open(json!({"phase": {"type": "string"}}))}));
    Some(Definition {
        kind: kinds::find(BATCH, JOB)?,
        singular: "job",
        short_names: &["vcjob", "vj"],
        description: "A job of several tasks, whose pods start together.",
        spec,
        status,
        has_status_subresource: true,
        top_level: Vec::new(),
        columns: vec![
            column("Status", ".status.state.phase", "Where it is in its life"),
            column("MinAvailable", ".status.minAvailable", "How many pods must be able to run"),
            column("Running", ".status.running", "Pods that run"),
            column("Queue", ".spec.queue", "Its queue"),
        ],
    })
}

fn command() -> Option<Definition> {
    let mut target = open(json!({}));
    target["description"] = json!("The job or queue, by apiVersion, kind, name and uid.");
    Some(Definition {
        kind: kinds::find(BUS, COMMAND)?,
        singular: "command",
        short_names: &[],
        description: "What is to be done about a job or a queue, once; it is deleted when that was done.",
        spec: open(json!({})),
        status: open(json!({})),
        has_status_subresource: false,
        top_level: vec![
            ("action", json!({"type": "string", "description": "What is to be done, such as AbortJob or CloseQueue."})),
            ("target", target),
            ("reason", json!({"type": "string"})),
            ("message", json!({"type": "string"})),
        ],
        columns: vec![column("Action", ".action", "What is to be done")],
    })
}
