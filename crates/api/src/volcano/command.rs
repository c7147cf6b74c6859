//! Commands of `bus.volcano.sh`: what is to be done about a job or a queue, once. `vcctl` makes them.

use serde_json::Value;

use super::job::policy::Action;
use super::{BATCH, JOB, QUEUE, SCHEDULING};
use crate::object::ObjectKey;

/// The API group of commands.
pub const BUS: &str = "bus.volcano.sh";
/// Their kind.
pub const COMMAND: &str = "Command";

/// What is to be done about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobCommand {
    Act(Action),
    /// An aborted job starts again.
    Resume,
}

/// What is to be done about a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueCommand {
    Open,
    Close,
}

/// Whether the key is of a command.
pub fn is_command(key: &ObjectKey) -> bool {
    (key.group, key.kind) == (BUS, COMMAND)
}

fn action(command: &Value) -> &str {
    command.get("action").and_then(Value::as_str).unwrap_or_default()
}

impl JobCommand {
    /// What a command says; `None` where that is not about a job as a whole.
    pub fn of(command: &Value) -> Option<Self> {
        match action(command) {
            "ResumeJob" => Some(JobCommand::Resume),
            name => Action::of(name)
                .filter(|action| !matches!(action, Action::RestartTask | Action::RestartPod))
                .map(JobCommand::Act),
        }
    }
}

impl QueueCommand {
    pub fn of(command: &Value) -> Option<Self> {
        match action(command) {
            "OpenQueue" => Some(QueueCommand::Open),
            "CloseQueue" => Some(QueueCommand::Close),
            _ => None,
        }
    }
}

/// The namespace of commands about queues. Who may make commands for the jobs of another must not close queues.
const OF_QUEUES: &str = "default";

/// The object that a command is about: a job of the command's namespace, or a queue.
pub fn target(key: &ObjectKey, command: &Value) -> Option<ObjectKey> {
    let target = command.get("target")?;
    let text = |field: &str| target.get(field).and_then(Value::as_str);
    let name = text("name")?.into();
    let group = text("apiVersion").and_then(|version| version.split_once('/')).map(|(group, _)| group);
    match text("kind")? {
        JOB if group.is_none_or(|group| group == BATCH) => {
            Some(ObjectKey { group: BATCH, kind: JOB, namespace: key.namespace.clone(), name })
        }
        QUEUE if group.is_none_or(|group| group == SCHEDULING) && key.namespace.as_deref() == Some(OF_QUEUES) => {
            Some(ObjectKey { group: SCHEDULING, kind: QUEUE, namespace: None, name })
        }
        _ => None,
    }
}

/// Whether a command is about this very object, and not about an earlier one of its name.
pub fn is_about(command: &Value, object: &Value) -> bool {
    let uid = command.pointer("/target/uid").and_then(Value::as_str).filter(|uid| !uid.is_empty());
    uid.is_none_or(|uid| object.pointer("/metadata/uid").and_then(Value::as_str) == Some(uid))
}
