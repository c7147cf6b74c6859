//! Queues: those that exist always, and what their owners are warned of.

use quotient_api::ObjectKey;
use quotient_api::volcano::{DEFAULT_QUEUE, ROOT_QUEUE, events, queue, queue_key};
use serde_json::Value;

use crate::server::Server;

/// Makes the queues that exist always, where they are not there.
pub(super) fn ensure_standing(server: &mut Server) {
    // Looked at with every group that changes.
    if server.store().contains(&queue_key(DEFAULT_QUEUE)) && server.store().contains(&queue_key(ROOT_QUEUE)) {
        return;
    }
    for queue in queue::standing_queues() {
        let is_there = quotient_api::key_of(&queue).is_ok_and(|key| server.store().contains(&key));
        if !is_there {
            // There is nothing in them that admission could refuse.
            let _ = server.create(queue);
        }
    }
}

pub(super) fn reconcile(server: &mut Server, key: &ObjectKey, queue: &Value) {
    let Some((reason, message)) = events::of_queue(queue) else { return };
    let is_told = server.events(key).any(|(told, _)| told == reason);
    if !is_told {
        server.event(key, "Warning", reason, &message);
    }
}
