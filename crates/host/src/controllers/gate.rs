//! Pods that wait behind the gate by which Volcano hides from autoscalers what a queue does not admit. A pod that a
//! quota keeps out says so itself here, which no autoscaler takes for a lack of nodes: the gate is lifted at once.

use std::collections::BTreeMap;

use quotient_api::ObjectKey;
use quotient_api::volcano::ALLOCATION_GATE;
use serde_json::{Value, json};

use super::{Moment, Settings, Wanted};
use crate::asked::Asked;
use crate::write::{Amendment, Write};

/// Pods with the gate, and what was asked for.
#[derive(Debug, Clone, Default)]
pub struct Gates {
    pub asked: Asked,
    due: BTreeMap<ObjectKey, Value>,
}

impl Gates {
    /// A pod was seen. One that waits behind other gates too is left to whoever set them.
    pub fn seen(&mut self, settings: &Settings, key: &ObjectKey, pod: &Value) {
        self.asked.seen(key);
        let gates = pod.pointer("/spec/schedulingGates").and_then(Value::as_array);
        let is_ours = |gate: &Value| gate["name"] == ALLOCATION_GATE;
        let is_due = gates.is_some_and(|gates| !gates.is_empty() && gates.iter().all(is_ours));
        if is_due && settings.is_our_pod(pod) {
            self.due.insert(key.clone(), pod.clone());
        } else {
            self.due.remove(key);
        }
    }

    /// A pod is gone.
    pub fn gone(&mut self, key: &ObjectKey) {
        self.asked.seen(key);
        self.due.remove(key);
    }

    /// Lifts the gates.
    pub fn follow(&mut self, now: &Moment, wanted: &mut Wanted) {
        for (key, pod) in &self.due {
            let mut lifted = pod.clone();
            lifted["spec"]["schedulingGates"] = json!([]);
            let write = Amendment::between(key, pod, &lifted).map(Write::Amend);
            wanted.writes.extend(write.and_then(|write| self.asked.ask(write, now.tick)));
        }
    }
}
