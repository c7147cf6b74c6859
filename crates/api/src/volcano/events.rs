//! Events that say of a pod or queue what users of capacity-card look for, beside the usual ones.

use quotient_engine::fact::{CPU, MEMORY};
use quotient_engine::{Code, PolicyKind, Reason};
use serde_json::Value;

use super::{CARD_NAME, CARD_QUOTA, DEFAULT_QUEUE, GROUP_NAMES, QUEUE_NAME, ROOT_QUEUE, annotation};

/// A pod's request cannot be read.
pub const GET_TASK_REQUEST_RESOURCE_FAILED: &str = "GetTaskRequestResourceFailed";
/// A queue has neither a capability nor a card quota.
pub const EMPTY_QUEUE_CAPABILITY: &str = "EmptyQueueCapability";

/// The further event of a pod that waits for this reason, if it has one.
pub fn of_pod(pod: &Value, reason: &Reason) -> Option<&'static str> {
    match reason.code {
        Code::InvalidRequest => {
            let marks = [CARD_NAME, QUEUE_NAME, GROUP_NAMES[0], GROUP_NAMES[1]];
            let is_queued = marks.iter().any(|name| annotation(pod, name).is_some());
            is_queued.then_some(GET_TASK_REQUEST_RESOURCE_FAILED)
        }
        Code::QuotaMaxExceeded | Code::CardQuotaExceeded => {
            let of_queue = reason.quota.as_ref().is_some_and(|quota| quota.policy == PolicyKind::Queue);
            let resource = reason.numbers.as_ref().map(|numbers| &*numbers.resource);
            of_queue.then_some(match resource {
                Some(CPU) => "InsufficientCPUQuota",
                Some(MEMORY) => "InsufficientMemoryQuota",
                _ => "InsufficientScalarQuota",
            })
        }
        _ => None,
    }
}

/// What a queue's owner is warned of: a queue that limits nothing. Its pods run all the same.
pub fn of_queue(queue: &Value) -> Option<(&'static str, String)> {
    let name = queue.pointer("/metadata/name").and_then(Value::as_str)?;
    let has_capability =
        queue.pointer("/spec/capability").and_then(Value::as_object).is_some_and(|map| !map.is_empty());
    if matches!(name, ROOT_QUEUE | DEFAULT_QUEUE) || has_capability || annotation(queue, CARD_QUOTA).is_some() {
        return None;
    }
    let message = format!(
        "queue {name} has neither spec.capability nor {CARD_QUOTA}: its pods may hold whatever is free, within what the \
         queues above it allow"
    );
    Some((EMPTY_QUEUE_CAPABILITY, message))
}
