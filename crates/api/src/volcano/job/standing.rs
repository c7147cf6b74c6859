//! How far a job is: its status as it was written, and as it is to be written.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::declared::{Declared, task_of};
use super::{JobPhase, JobState};

/// What of the status decides what happens next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub phase: JobPhase,
    /// How often its pods were given up.
    pub version: u64,
    pub retry_count: u64,
    /// While it restarts: only some of its pods were given up.
    pub restarts_in_part: bool,
    /// What it asks for is beyond a limit.
    pub problem: Option<String>,
}

/// Why a job waits that asks for more than a limit.
const BEYOND: &str = "InvalidRequest";

/// Why a job restarts of which only some pods were given up.
const IN_PART: &str = "SomePods";

impl Standing {
    pub fn of(job: &Value) -> Self {
        let number = |pointer: &str| job.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
        Standing {
            phase: JobPhase::of(job.pointer("/status/state/phase").and_then(Value::as_str)),
            version: number("/status/version"),
            retry_count: number("/status/retryCount"),
            restarts_in_part: job.pointer("/status/state/reason").is_some_and(|reason| reason == IN_PART),
            problem: None,
        }
    }
}

/// Pods by how they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub pending: u64,
    pub running: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub terminating: u64,
    pub unknown: u64,
}

impl Counts {
    pub fn of(pods: &[&Value]) -> Self {
        let mut counts = Counts::default();
        for pod in pods {
            let count = match phase_of(pod) {
                _ if is_leaving(pod) => &mut counts.terminating,
                Some("Pending") | None => &mut counts.pending,
                Some("Running") => &mut counts.running,
                Some("Succeeded") => &mut counts.succeeded,
                Some("Failed") => &mut counts.failed,
                Some(_) => &mut counts.unknown,
            };
            *count += 1;
        }
        counts
    }

    /// Those that hold something, or may.
    pub fn unended(&self) -> u64 {
        self.pending + self.running + self.terminating + self.unknown
    }

    /// Those that have come to run, whatever became of them.
    pub fn started(&self) -> u64 {
        self.running + self.succeeded + self.failed
    }
}

pub(super) fn phase_of(pod: &Value) -> Option<&str> {
    pod.pointer("/status/phase").and_then(Value::as_str)
}

pub(super) fn is_leaving(pod: &Value) -> bool {
    pod.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null())
}

pub(super) fn has_ended(pod: &Value) -> bool {
    matches!(phase_of(pod), Some("Succeeded" | "Failed"))
}

/// The whole status. What is there and is nobody's here stays.
pub(super) fn status(
    state: &JobState<'_>,
    declared: &Declared<'_>,
    before: &Standing,
    after: &Standing,
    controlled: &Map<String, Value>,
    now: &str,
) -> Value {
    let Counts { pending, running, succeeded, failed, terminating, unknown } = Counts::of(state.pods);
    let mut status: Map<String, Value> =
        state.job.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    let is_new = !status.contains_key("state");
    if is_new || before.phase != after.phase {
        let phase = after.phase.name();
        let mut state = json!({"phase": phase, "lastTransitionTime": now});
        if after.phase == JobPhase::Restarting && after.restarts_in_part {
            state["reason"] = json!(IN_PART);
        }
        status.insert("state".to_string(), state);
        let mut conditions = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        conditions.push(json!({"status": phase, "lastTransitionTime": now}));
        status.insert("conditions".to_string(), Value::Array(conditions));
    }
    note_problem(&mut status, after.problem.as_deref(), now);
    let fields = [
        ("minAvailable", declared.min_available),
        ("pending", pending),
        ("running", running),
        ("succeeded", succeeded),
        ("failed", failed),
        ("terminating", terminating),
        ("unknown", unknown),
        ("version", after.version),
        ("retryCount", after.retry_count),
    ];
    status.extend(fields.map(|(name, value)| (name.to_string(), json!(value))));
    status.insert("taskStatusCount".to_string(), by_task(state.pods));
    if !controlled.is_empty() {
        status.insert("controlledResources".to_string(), Value::Object(controlled.clone()));
    }
    Value::Object(status)
}

/// Says in the state of a job, and as a condition, that what it asks for is beyond a limit; or no longer.
fn note_problem(status: &mut Map<String, Value>, problem: Option<&str>, now: &str) {
    let Some(state) = status.get_mut("state").and_then(Value::as_object_mut) else { return };
    let was_told = state.get("reason").is_some_and(|reason| reason == BEYOND);
    match problem {
        None if was_told => {
            state.shift_remove("reason");
            state.shift_remove("message");
        }
        Some(message) if !was_told || state.get("message").is_none_or(|told| told != message) => {
            state.insert("reason".to_string(), json!(BEYOND));
            state.insert("message".to_string(), json!(message));
            let phase = state.get("phase").cloned().unwrap_or_default();
            let mut conditions = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
            let condition = json!({"status": phase, "reason": BEYOND, "message": message, "lastTransitionTime": now});
            conditions.push(condition);
            status.insert("conditions".to_string(), Value::Array(conditions));
        }
        None | Some(_) => {}
    }
}

fn by_task(pods: &[&Value]) -> Value {
    let mut tasks: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for pod in pods {
        let phase = if is_leaving(pod) { "Terminating" } else { phase_of(pod).unwrap_or("Pending") };
        *tasks.entry(task_of(pod).unwrap_or_default()).or_default().entry(phase).or_default() += 1;
    }
    tasks.into_iter().map(|(task, phases)| (task.to_string(), json!({"phase": phases}))).collect::<Map<_, _>>().into()
}
