//! A workload trace: what is submitted when, and how long it runs.

use quotient_api::ObjectKey;
use serde_json::Value;

/// Why a trace cannot be read: file, line, and what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct TraceError {
    pub place: String,
    pub message: String,
}

impl TraceError {
    pub fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        TraceError { place: place.into(), message: message.into() }
    }
}

/// How long a pod runs once it is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// This long from its start; it waits for its start without end.
    Runs { ms: u64 },
    /// Until this moment of the trace, whether it runs then or still waits.
    Until { at_ms: u64 },
    /// Until it is deleted.
    Open,
}

/// Something that happens at a moment of the trace.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// An object is applied. `life` is meant for pods.
    Apply { object: Value, life: Life },
    /// An object is deleted.
    Delete(ObjectKey),
}

/// What is submitted when. Events are in order of time; those of one moment keep their order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// What reports call it.
    pub name: String,
    /// The QuotientConfiguration that it was recorded under, if it says so.
    pub configuration: Option<Value>,
    /// Objects that exist before the trace begins: nodes, quotas.
    pub objects: Vec<Value>,
    /// Milliseconds since the trace began, and what happens then.
    pub events: Vec<(u64, Event)>,
    /// What a reader of the figures should know about how the trace was read.
    pub notes: Vec<String>,
}

impl Trace {
    /// Submits everything `factor` times as fast; pods run as long as before. This raises the load.
    pub fn faster(&mut self, factor: u32) {
        let factor = u64::from(factor.max(1));
        for (at, event) in &mut self.events {
            *at /= factor;
            if let Event::Apply { life: Life::Until { at_ms }, .. } = event {
                *at_ms /= factor;
            }
        }
        if factor > 1 {
            self.notes.push(format!("pods are submitted {factor} times as fast as in the trace"));
        }
    }

    /// How many pods are submitted.
    pub fn pods(&self) -> usize {
        self.events.iter().filter(|(_, event)| matches!(event, Event::Apply { object, .. } if is_pod(object))).count()
    }
}

/// Whether an object is a pod.
pub(crate) fn is_pod(object: &Value) -> bool {
    object["kind"] == "Pod" && object["apiVersion"] == "v1"
}
