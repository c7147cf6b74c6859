//! Policies: what follows when something happens to a pod or a task of a job.

use std::time::Duration;

use serde_json::Value;

use super::declared::{Declared, Task, task_of, version_of};
use super::standing::{Standing, has_ended, is_leaving, phase_of};
use super::{JobPhase, JobState};
use crate::time::parse_duration;
use crate::volcano::group::GroupPhase;

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A pod ended as `Failed`.
    PodFailed,
    /// A pod is gone that had not ended.
    PodEvicted,
    /// A task's pods all succeeded.
    TaskCompleted,
    /// A task's pods have all ended, and not all of them succeeded; or their containers were restarted too often.
    TaskFailed,
    /// A pod is there and does not run yet.
    PodPending,
    /// Fewer of its pods have a node than it takes, though some do.
    JobUnknown,
}

/// What can be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    AbortJob,
    RestartJob,
    RestartTask,
    RestartPod,
    TerminateJob,
    CompleteJob,
}

impl Action {
    const ALL: [Action; 6] = [
        Action::AbortJob,
        Action::RestartJob,
        Action::RestartTask,
        Action::RestartPod,
        Action::TerminateJob,
        Action::CompleteJob,
    ];

    /// The action's name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            Action::AbortJob => "AbortJob",
            Action::RestartJob => "RestartJob",
            Action::RestartTask => "RestartTask",
            Action::RestartPod => "RestartPod",
            Action::TerminateJob => "TerminateJob",
            Action::CompleteJob => "CompleteJob",
        }
    }

    /// The action of that name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }
}

impl Event {
    fn name(self) -> &'static str {
        match self {
            Event::PodFailed => "PodFailed",
            Event::PodEvicted => "PodEvicted",
            Event::TaskCompleted => "TaskCompleted",
            Event::TaskFailed => "TaskFailed",
            Event::PodPending => "PodPending",
            Event::JobUnknown => "JobUnknown",
        }
    }
}

/// Names of events that are acted upon; `*` is any of them but `PodPending`, which every pod is at first. `Unknown` is
/// another name of `JobUnknown`.
pub const EVENTS: [&str; 8] =
    ["*", "PodFailed", "PodEvicted", "TaskCompleted", "TaskFailed", "PodPending", "JobUnknown", "Unknown"];

/// Names of events that a policy may have and that do not come about here.
pub const IDLE_EVENTS: [&str; 4] = ["PodRunning", "OutOfSync", "CommandIssued", "JobUpdated"];

/// Names of actions that are carried out; `SyncJob` lets things go on as they would.
pub const ACTIONS: [&str; 7] =
    ["AbortJob", "RestartJob", "RestartTask", "RestartPod", "TerminateJob", "CompleteJob", "SyncJob"];

/// Something that happened, and what a policy wants to be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cause {
    pub action: Action,
    pub task: String,
    /// The pod it happened to; empty where it happened to a task.
    pub pod: String,
    pub message: String,
}

/// The first thing that happened for which a policy wants something to be done: in the order of tasks, and within a
/// task pods that are gone, pods that failed, and the task as a whole. Of the task's policies and the job's, the task's
/// count first. Pods that a policy waits for are `awaited`: where one is back before the policy's time is up, nothing
/// is done.
pub(super) fn cause(
    declared: &Declared<'_>,
    state: &JobState<'_>,
    standing: &Standing,
    awaited: &mut Vec<String>,
) -> Option<Cause> {
    if declared.policies.is_empty() && declared.tasks.iter().all(|task| task.policies.is_empty()) {
        return None;
    }
    let is_current = |pod: &Value| version_of(pod).is_none_or(|version| version == standing.version);
    let mut gone: Vec<&Value> = state.gone.iter().copied().filter(|pod| is_current(pod) && !has_ended(pod)).collect();
    let mut pods: Vec<&Value> = state.pods.iter().copied().filter(|pod| is_current(pod) && !is_leaving(pod)).collect();
    gone.sort_by_key(|pod| name_of(pod));
    pods.sort_by_key(|pod| name_of(pod));
    for task in &declared.tasks {
        let of_task = |pod: &&&Value| task_of(pod) == Some(&*task.name);
        let failed = pods.iter().filter(of_task).filter(|pod| phase_of(pod) == Some("Failed"));
        let pending = pods.iter().filter(of_task).filter(|pod| matches!(phase_of(pod), Some("Pending") | None));
        let happened = gone.iter().filter(of_task).map(|pod| (Event::PodEvicted, *pod));
        let happened = happened.chain(failed.map(|pod| (Event::PodFailed, *pod)));
        for (event, pod) in happened.chain(pending.map(|pod| (Event::PodPending, *pod))) {
            let exit_code = if event == Event::PodFailed { exit_code(pod) } else { None };
            if let Some((action, timeout)) = action(task, declared, event, exit_code) {
                let is_back = |other: &&Value| name_of(other) == name_of(pod) && phase_of(other) == Some("Running");
                if timeout > Duration::ZERO && event == Event::PodEvicted && pods.iter().any(is_back) {
                    continue;
                }
                let uid = pod.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
                if timeout > (state.known_for)(uid) {
                    awaited.push(uid.to_string());
                    continue;
                }
                let message = format!("{} {}: {}", name_of(pod), event.name(), action.name());
                return Some(Cause { action, task: task.name.clone(), pod: name_of(pod).to_string(), message });
            }
        }
        let phases: Vec<Option<&str>> = pods.iter().filter(of_task).map(|pod| phase_of(pod)).collect();
        let is_complete = u64::try_from(phases.len()).is_ok_and(|count| count >= task.replicas) && task.replicas > 0;
        let ended = phases.iter().all(|phase| matches!(phase, Some("Succeeded" | "Failed")));
        let restarts = pods.iter().filter(of_task).map(|pod| restarts(pod)).fold(0, u64::saturating_add);
        let is_worn_out = restarts > 0 && task.max_retry.is_some_and(|most| restarts >= most);
        if is_complete && (ended || is_worn_out) {
            let all_succeeded = phases.iter().all(|phase| *phase == Some("Succeeded"));
            let event = if all_succeeded { Event::TaskCompleted } else { Event::TaskFailed };
            if let Some((action, _)) = action(task, declared, event, None) {
                let message = format!("task {} {}: {}", task.name, event.name(), action.name());
                return Some(Cause { action, task: task.name.clone(), pod: String::new(), message });
            }
        }
    }
    job_unknown(declared, state, standing, awaited)
}

/// What follows where the group has lost some of the pods that it takes, and others still run.
fn job_unknown(
    declared: &Declared<'_>,
    state: &JobState<'_>,
    standing: &Standing,
    awaited: &mut Vec<String>,
) -> Option<Cause> {
    let group = state.group.filter(|_| standing.phase == JobPhase::Running)?;
    let phase = GroupPhase::of(group.pointer("/status/phase").and_then(Value::as_str));
    if phase != GroupPhase::Unknown {
        return None;
    }
    let policy = declared.policies.iter().find(|policy| matches(policy, Event::JobUnknown, None))?;
    let (action, timeout) = outcome(policy)?;
    let uid = group.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
    if timeout > (state.known_for)(uid) {
        awaited.push(uid.to_string());
        return None;
    }
    let message = format!("group {}: {}", Event::JobUnknown.name(), action.name());
    Some(Cause { action, task: String::new(), pod: String::new(), message })
}

fn name_of(pod: &Value) -> &str {
    pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// What the policies want to be done, and after how long. An action that is not known, or lets things go on, wants
/// nothing.
fn action(
    task: &Task<'_>,
    declared: &Declared<'_>,
    event: Event,
    exit_code: Option<i64>,
) -> Option<(Action, Duration)> {
    let policies = task.policies.iter().chain(declared.policies);
    outcome(policies.into_iter().find(|policy| matches(policy, event, exit_code))?)
}

/// What a policy wants to be done, and after how long.
fn outcome(policy: &Value) -> Option<(Action, Duration)> {
    let timeout = policy.get("timeout").and_then(Value::as_str).and_then(|text| parse_duration(text).ok());
    Some((Action::of(policy.get("action")?.as_str()?)?, timeout.unwrap_or_default()))
}

fn matches(policy: &Value, event: Event, exit_code: Option<i64>) -> bool {
    let one = policy.get("event").and_then(Value::as_str);
    let several = policy.get("events").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let is_event = |name: &str| match name {
        "*" => event != Event::PodPending,
        "Unknown" => event == Event::JobUnknown,
        name => name == event.name(),
    };
    let by_event = one.into_iter().chain(several).any(is_event);
    let code = policy.get("exitCode").and_then(Value::as_i64);
    by_event || (code.is_some() && code == exit_code)
}

/// How often the containers of a pod were restarted.
fn restarts(pod: &Value) -> u64 {
    let containers = pod.pointer("/status/containerStatuses").and_then(Value::as_array);
    let counts = containers.into_iter().flatten().filter_map(|container| container["restartCount"].as_u64());
    counts.fold(0, u64::saturating_add)
}

/// The exit code of the first container that ended with one other than 0.
fn exit_code(pod: &Value) -> Option<i64> {
    let containers = pod.pointer("/status/containerStatuses")?.as_array()?;
    containers.iter().filter_map(|c| c.pointer("/state/terminated/exitCode")?.as_i64()).find(|code| *code != 0)
}
