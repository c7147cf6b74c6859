//! A cluster of which the caller sees only a part.
//!
//! What is decided there follows from all nodes, pods and quotas: with a part of them it cannot be worked out, and it
//! is not guessed. What the scheduler wrote on a pod is told instead.

use std::collections::BTreeMap;

use quotient_api::{ObjectKey, field};
use quotient_sim::Input;
use serde::Serialize;
use serde_json::Value;

use crate::live::Unseen;

/// What the scheduler wrote on a pending pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Said {
    pub message: String,
    /// Since when it has been pending.
    pub since: Option<String>,
}

impl Said {
    /// What the condition `PodScheduled` of a pod says, if it is false.
    fn of_pod(pod: &Value) -> Option<Said> {
        let conditions = pod.pointer("/status/conditions").and_then(Value::as_array)?;
        let text = |condition: &Value, pointer: &str| field::text(condition, pointer).map(str::to_owned);
        let is_it = |condition: &&Value| condition["type"] == "PodScheduled" && condition["status"] == "False";
        let condition = conditions.iter().find(is_it)?;
        Some(Said { message: text(condition, "/message")?, since: text(condition, "/lastTransitionTime") })
    }
}

/// What is known of such a cluster besides the objects that are seen.
#[derive(Debug, Clone)]
pub struct Partial {
    /// What is not seen, one line each.
    pub unseen: Vec<String>,
    said: BTreeMap<ObjectKey, Said>,
}

impl Partial {
    /// What is left to tell of a cluster that was read with these rights; `None` where all is seen that decides.
    /// Nodes are taken out of the input: on what is seen of them, pods would seem to fit.
    pub fn of(unseen: &Unseen, input: &mut Input) -> Option<Partial> {
        if !unseen.hides_decisions() {
            return None;
        }
        let documents = &mut input.read.documents;
        documents.retain(|document| (document.key.group, document.key.kind) != ("", "Node"));
        let pods = documents.iter().filter(|document| (document.key.group, document.key.kind) == ("", "Pod"));
        let said = pods.filter_map(|pod| Some((pod.key.clone(), Said::of_pod(&pod.value)?))).collect();
        Some(Partial { unseen: unseen.lines(), said })
    }

    pub fn said(&self, namespace: &str, name: &str) -> Option<&Said> {
        self.said.get(&ObjectKey::pod(namespace, name))
    }

    /// Why a question is not answered, in one line.
    pub fn refusal(&self) -> String {
        format!(
            "not answered, since it would be a guess: not seen: {}; expected rights to list them, or a snapshot of somebody who has: --from FILE",
            self.unseen.join("; ")
        )
    }
}
