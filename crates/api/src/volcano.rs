//! Queues, groups of pods that start together, jobs of several tasks, and quotas by kind of card.
//!
//! The objects are those of Volcano: `Queue` and `PodGroup` of `scheduling.volcano.sh`, `Job` of `batch.volcano.sh`,
//! labels of nodes, and annotations of pods and of whatever makes pods. Everything here is a function of objects; who
//! runs it (the virtual cluster, the live program) carries out what it answers.

pub mod cards;
pub mod command;
pub mod discovery;
pub mod events;
pub mod gang;
pub mod group;
pub mod job;
pub(crate) mod membership;
pub mod metrics;
pub(crate) mod priority;
pub mod queue;
pub mod status;
pub mod traps;

use serde_json::Value;

use crate::field::{at, get, of};
use crate::object::ObjectKey;

/// The API group of queues and groups.
pub const SCHEDULING: &str = "scheduling.volcano.sh";
/// The API group of jobs.
pub const BATCH: &str = "batch.volcano.sh";
/// The kind of queues.
pub const QUEUE: &str = "Queue";
/// The kind of groups.
pub const POD_GROUP: &str = "PodGroup";
/// The kind of jobs, and of Kubernetes' own.
pub const JOB: &str = "Job";

/// The queue above all others.
pub const ROOT_QUEUE: &str = "root";
/// The queue of whoever names none.
pub const DEFAULT_QUEUE: &str = "default";

/// How many cards of each kind a queue may hold, as JSON.
pub const CARD_QUOTA: &str = "volcano.sh/card.quota";
/// How many cards of each kind a job or group takes in all, as JSON.
pub const CARD_REQUEST: &str = "volcano.sh/card.request";
/// The kinds of card that will do for a pod, `A|B`, the preferred first.
pub const CARD_NAME: &str = "volcano.sh/card.name";
/// The pods of a job or group may hold different kinds of card.
pub const MIXED_CARDS: &str = "quotient.dev/mixed-cards";
/// `"false"` on a pod that is never evicted for another.
pub const PREEMPTABLE: &str = "volcano.sh/preemptable";
/// The queue of a pod, or of the pods of a namespace.
pub const QUEUE_NAME: &str = "scheduling.volcano.sh/queue-name";
/// How many pods of an owner, or of a named group, must be able to run.
pub const GROUP_MIN_MEMBER: &str = "scheduling.volcano.sh/group-min-member";
/// The group of a pod. Both names are in use; the first is what is written.
pub const GROUP_NAMES: [&str; 2] = ["scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"];
/// The scheduling gate, and the annotation that asks for it, that hides a pod until its queue admits it.
pub const ALLOCATION_GATE: &str = "scheduling.volcano.sh/queue-allocation-gate";
/// The task of a pod within its job.
pub const TASK_SPEC: &str = "volcano.sh/task-spec";

/// Whether the key is of a queue.
pub fn is_queue(key: &ObjectKey) -> bool {
    (key.group, key.kind) == (SCHEDULING, QUEUE)
}

/// Whether the key is of a job of several tasks.
pub fn is_job(key: &ObjectKey) -> bool {
    (key.group, key.kind) == (BATCH, JOB)
}

/// The key of a queue.
pub fn queue_key(name: &str) -> ObjectKey {
    ObjectKey { group: SCHEDULING, kind: QUEUE, namespace: None, name: name.into() }
}

/// An annotation of an object that is there and not empty.
pub(crate) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    let annotations = of(of(object, "metadata")?, "annotations")?;
    of(annotations, name)?.as_str().filter(|text| !text.is_empty())
}

/// Whether an object makes use of queues, groups or cards: with the first that does, the queues that always exist are
/// made.
pub fn uses_queues(key: &ObjectKey, object: &Value) -> bool {
    const MARKS: [&str; 5] = [QUEUE_NAME, GROUP_MIN_MEMBER, GROUP_NAMES[0], GROUP_NAMES[1], CARD_NAME];
    match (key.group, key.kind) {
        (SCHEDULING, QUEUE | POD_GROUP) | (BATCH, JOB) => true,
        ("", "Pod" | "Namespace") => {
            let annotations = at(object, "/metadata/annotations").and_then(Value::as_object);
            let is_given = |name: &&str| {
                let value = annotations.and_then(|annotations| get(annotations, name)).and_then(Value::as_str);
                value.is_some_and(|text| !text.is_empty())
            };
            MARKS.iter().any(is_given)
        }
        _ => false,
    }
}
