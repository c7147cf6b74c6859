//! How much is simulated at most: what a slip of the keyboard asks for must not fill the memory.

use quotient_api::{ObjectKey, volcano};
use serde_json::Value;

use crate::field;

/// The most pods of one owner, and the most objects of one short form of a scenario.
pub const PODS_OF_ONE_MAX: usize = 100_000;

/// The most objects of a cluster when a controller makes more. 200,000 pods with what goes with them stay below.
pub const OBJECTS_MAX: usize = 1_000_000;

/// Why an object asks for more pods than are simulated, if it does.
pub fn beyond(key: &ObjectKey, object: &Value) -> Option<String> {
    let count = |pointer: &str| field::integer(object, pointer);
    let (field, wanted) = match (key.group, key.kind) {
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") | ("", "ReplicationController") => {
            ("spec.replicas", count("/spec/replicas")?)
        }
        ("batch", "Job") => {
            let parallelism = count("/spec/parallelism")?;
            ("spec.parallelism", count("/spec/completions").map_or(parallelism, |most| most.min(parallelism)))
        }
        (volcano::BATCH, volcano::JOB) => {
            let replicas =
                field::list(object, "/spec/tasks").iter().filter_map(|task| field::integer(task, "/replicas"));
            ("spec.tasks", replicas.fold(0_i64, i64::saturating_add))
        }
        _ => return None,
    };
    let is_beyond = usize::try_from(wanted).is_ok_and(|wanted| wanted > PODS_OF_ONE_MAX);
    is_beyond.then(|| format!("{field}: {wanted}: at most {PODS_OF_ONE_MAX} pods of one object are simulated"))
}
