//! What the statuses of groups and queues say.

use std::collections::BTreeMap;

use quotient_engine::quantity::canonical;
use quotient_engine::{GroupReport, QuotaReport};
use serde_json::{Map, Value, json};

use super::command::QueueCommand;
use super::group::GroupPhase;
use crate::gpu_memory::GPU_MEMORY;

/// Something to tell about an object: `Normal` or `Warning`, a reason, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub kind: &'static str,
    pub reason: &'static str,
    pub message: String,
}

/// How many pods of a group have come to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ended {
    pub succeeded: u32,
    pub failed: u32,
}

/// The status that a group should have, and what is worth an event since the one it has. `report` is how the engine has
/// the group.
pub fn group_status(group: &Value, report: &GroupReport, ended: Ended, now: &str) -> (Value, Option<Told>) {
    let GroupReport { admitted, members, placed, running, min_member, reason, .. } = report;
    let started = placed.saturating_add(ended.succeeded);
    let is_scheduled = started > 0 && started >= *min_member;
    let phase = match () {
        () if !admitted => GroupPhase::Pending,
        () if is_scheduled && *members == 0 => GroupPhase::Completed,
        () if is_scheduled => GroupPhase::Running,
        () if *placed > 0 => GroupPhase::Unknown,
        () => GroupPhase::Inqueue,
    };
    let mut status: Map<String, Value> = group.get("status").and_then(Value::as_object).cloned().unwrap_or_default();
    status.insert("phase".to_string(), json!(phase.name()));
    for (name, count) in [("running", *running), ("succeeded", ended.succeeded), ("failed", ended.failed)] {
        status.insert(name.to_string(), json!(count));
    }
    let mut conditions = Conditions::of(&status);
    let told = match reason {
        _ if is_scheduled => {
            let message = "tasks in gang are ready to be scheduled".to_string();
            conditions.end(UNSCHEDULABLE, now);
            let told = Told { kind: "Normal", reason: SCHEDULED, message };
            conditions.set(SCHEDULED, "tasks in gang are ready to be scheduled", "", now).then_some(told)
        }
        Some(reason) => {
            let missing = min_member.saturating_sub(started);
            let message = match admitted {
                true => format!("{missing}/{members} tasks in gang unschedulable: {}", reason.message),
                false => reason.message.clone(),
            };
            conditions.end(SCHEDULED, now);
            let changed = conditions.set(UNSCHEDULABLE, "NotEnoughResources", &message, now);
            changed.then_some(Told { kind: "Warning", reason: UNSCHEDULABLE, message })
        }
        None => None,
    };
    if !conditions.0.is_empty() {
        status.insert("conditions".to_string(), Value::Array(conditions.0));
    }
    (Value::Object(status), told)
}

const UNSCHEDULABLE: &str = "Unschedulable";
const SCHEDULED: &str = "Scheduled";

/// The conditions of a status, one of each type.
struct Conditions(Vec<Value>);

impl Conditions {
    fn of(status: &Map<String, Value>) -> Self {
        Conditions(status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// Sets a condition, and says whether it said something else before.
    fn set(&mut self, kind: &str, reason: &str, message: &str, now: &str) -> bool {
        let condition = |since: &Value| json!({"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since});
        match self.0.iter_mut().find(|condition| condition["type"] == kind) {
            Some(known) => {
                let since = if known["status"] == "True" { known["lastTransitionTime"].clone() } else { json!(now) };
                let new = condition(&since);
                let changed = *known != new;
                *known = new;
                changed
            }
            None => {
                self.0.push(condition(&json!(now)));
                true
            }
        }
    }

    /// Says that a condition no longer holds, where it was there.
    fn end(&mut self, kind: &str, now: &str) {
        if let Some(known) =
            self.0.iter_mut().find(|condition| condition["type"] == kind && condition["status"] != "False")
        {
            known["status"] = json!("False");
            known["lastTransitionTime"] = json!(now);
        }
    }
}

/// The fields that the status of a queue should have. `report` is how the engine has the queue, `groups` are the phases
/// of the groups in it, and `command` is what somebody wants to be done about it.
pub fn queue_status(
    queue: &Value,
    report: Option<&QuotaReport>,
    groups: &BTreeMap<&'static str, u32>,
    command: Option<QueueCommand>,
) -> Vec<(&'static str, Value)> {
    let count = |phase: GroupPhase| groups.get(phase.name()).copied().unwrap_or(0);
    let used = report.map(|report| report.used.as_slice()).unwrap_or_default();
    let used = used.iter().filter(|(resource, amount)| *amount != 0 && !GPU_MEMORY.contains(&&**resource));
    let allocated: Map<String, Value> =
        used.map(|(resource, amount)| (resource.to_string(), json!(canonical(resource, *amount)))).collect();
    let phases = [GroupPhase::Pending, GroupPhase::Inqueue, GroupPhase::Running, GroupPhase::Unknown].map(&count);
    let is_idle = allocated.is_empty() && phases.iter().all(|count| *count == 0);
    let state = match queue.pointer("/status/state").and_then(Value::as_str) {
        _ if command == Some(QueueCommand::Open) => "Open",
        // One that is being closed is closed when nothing is left in it.
        Some("Closing") if is_idle => "Closed",
        Some("Closed") => "Closed",
        _ if command == Some(QueueCommand::Close) => {
            if is_idle {
                "Closed"
            } else {
                "Closing"
            }
        }
        None | Some("") => "Open",
        Some(state) => state,
    };
    vec![
        ("state", json!(state)),
        ("allocated", Value::Object(allocated)),
        ("pending", json!(count(GroupPhase::Pending))),
        ("inqueue", json!(count(GroupPhase::Inqueue))),
        ("running", json!(count(GroupPhase::Running))),
        ("unknown", json!(count(GroupPhase::Unknown))),
        ("completed", json!(count(GroupPhase::Completed))),
    ]
}
