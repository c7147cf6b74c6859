//! Groups of pods: counts that make sense, and a queue that takes them.

use serde_json::Value;

use super::metadata::is_label_key;
use super::{Context, Rejection, object_in, pod_priority, queue};
use crate::cursor::Cursor;
use crate::pod::usage::unit;
use crate::volcano::DEFAULT_QUEUE;

/// Writes the queue of a new group that names none: that of its namespace.
pub(super) fn set_queue(object: &mut Value, context: &Context<'_>) -> Result<(), Rejection> {
    let named = object.pointer("/spec/queue").and_then(Value::as_str);
    let queue = queue::of_workload(named, None, context).to_string();
    if queue != DEFAULT_QUEUE
        && let Some(spec) = object_in(object, "spec")
    {
        spec.insert("queue".to_string(), Value::from(queue));
    }
    Ok(())
}

/// Checks a PodGroup.
pub(super) fn check(root: &Cursor<'_, '_>, context: &Context<'_>) {
    let spec = root.field("spec");
    spec.field("minMember").int::<u32>();
    for (_, count) in spec.field("minTaskMember").entries() {
        count.int::<u32>();
    }
    for (resource, value) in spec.field("minResources").entries() {
        if !is_label_key(resource) {
            value.note(format!("{resource:?} is no name of a resource: expected name or domain/name"));
        }
        value.amount(unit(resource));
    }
    check_class(&spec.field("priorityClassName"), context);
    // A group that is there stays in its queue when that is closed.
    let at = spec.field("queue");
    let before = context.old.map(|old| old.pointer("/spec/queue"));
    if before.is_none_or(|before| before.filter(|queue| !queue.is_null()) != at.value()) {
        queue::check_open(&at, context);
    }
}

/// Warns of a class that does not exist: until it does, the group's pods have their own priorities.
fn check_class(at: &Cursor<'_, '_>, context: &Context<'_>) {
    let Some(name) = at.non_empty_str() else { return };
    if !pod_priority::is_class(name, context) {
        context.warn(format!("PriorityClass {name:?} does not exist: the pods' own priorities count"));
    }
}
