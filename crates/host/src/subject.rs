//! What a watch looks at.

use quotient_api::{Kind, ObjectKey, field, kinds};
use serde_json::Value;

/// What a watch looks at: a kind, or some of the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// All objects of a kind; of pods, those that have not ended.
    Kind(&'static Kind),
    /// The pods of jobs of several tasks, whatever became of them: a job has to know how its pods ended.
    JobPods,
    /// Pods that have ended: a group counts them. By default a cluster keeps 12,500 of them at most.
    EndedPods,
}

/// Pods that have ended hold nothing; when one ends, a watch with this selector says that it is gone.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// The rest.
const ENDED: &str = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown";

/// The label that every pod of a job of several tasks has.
const JOB_NAME: &str = "volcano.sh/job-name";

impl Subject {
    /// The kind of the objects.
    pub fn kind(self) -> &'static Kind {
        match self {
            Subject::Kind(kind) => kind,
            Subject::JobPods | Subject::EndedPods => kinds::find("", "Pod").expect("pods are a known kind"),
        }
    }

    /// The fields that objects are selected by.
    pub fn field_selector(self) -> Option<&'static str> {
        match self {
            Subject::Kind(kind) if kind.group.is_empty() && kind.kind == "Pod" => Some(NOT_ENDED),
            Subject::EndedPods => Some(ENDED),
            Subject::Kind(_) | Subject::JobPods => None,
        }
    }

    /// The labels that objects are selected by.
    pub fn label_selector(self) -> Option<&'static str> {
        (self == Subject::JobPods).then_some(JOB_NAME)
    }

    /// Whether an object is among what is looked at.
    pub fn includes(self, key: &ObjectKey, object: &Value) -> bool {
        let is_pod = (key.group, key.kind) == ("", "Pod");
        let has_ended = || matches!(field::text(object, "/status/phase"), Some("Succeeded" | "Failed"));
        let is_of_job = || {
            let labels = field::at(object, "/metadata/labels");
            labels.and_then(|labels| field::of(labels, JOB_NAME)).is_some_and(|job| !job.is_null())
        };
        match self {
            Subject::Kind(kind) => key.kind_entry() == Some(kind) && !(is_pod && has_ended()),
            Subject::JobPods => is_pod && is_of_job(),
            Subject::EndedPods => is_pod && has_ended(),
        }
    }

    /// What it is called in the log.
    pub fn name(self) -> &'static str {
        match self {
            Subject::Kind(kind) => kind.kind,
            Subject::JobPods => "Pod (of jobs)",
            Subject::EndedPods => "Pod (ended)",
        }
    }
}
