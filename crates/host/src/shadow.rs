//! Decisions of a scheduler that writes nothing: what no other scheduler does within a minute is undone.
//!
//! The engine takes its own binds and evictions for done, and waits for the cluster to show them. In shadow mode
//! another scheduler decides: it binds the pod elsewhere, which the engine sees, or it does not. Pods that only we
//! would have bound must not fill nodes and quotas for days, so they are left out until they are seen to change.

use std::collections::BTreeMap;
use std::time::Duration;

use quotient_api::field;
use quotient_engine::fact::{Name, PodKey};
use quotient_engine::{Fact, Tick};

use crate::scheduler::Seen;
use crate::write::{PodRef, Write};

/// How long the other scheduler has to do the same.
pub const DONE_WITHIN: Duration = Duration::from_secs(60);

/// What was decided and is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Undone {
    uid: Name,
    due: Tick,
    decided: Decided,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Decided {
    Bind,
    Evict { claimant: Option<PodKey> },
}

/// Decisions that were not written, by the pod that they are about.
#[derive(Debug, Clone, Default)]
pub struct Shadow(BTreeMap<PodKey, Undone>);

impl Shadow {
    /// Takes in what would be written.
    pub fn note(&mut self, write: &Write, now: Tick) {
        let due = Tick(now.0.saturating_add(DONE_WITHIN.as_millis() as u64));
        match write {
            Write::Bind { pod: PodRef { key, uid }, .. } => {
                self.0.insert(key.clone(), Undone { uid: uid.clone(), due, decided: Decided::Bind });
            }
            Write::Evict { pod: PodRef { key, uid }, claimant, .. } => {
                let decided = Decided::Evict { claimant: claimant.clone() };
                self.0.insert(key.clone(), Undone { uid: uid.clone(), due, decided });
            }
            _ => {}
        }
    }

    /// Takes in what a watch saw.
    pub fn see(&mut self, seen: &Seen) {
        if self.0.is_empty() {
            return;
        }
        let Some((key, pod)) = seen.pod() else { return };
        let Some(undone) = self.0.get(&key) else { return };
        let is_still_undone = pod.is_some_and(|pod| {
            let text = |pointer: &str| field::text(pod, pointer).unwrap_or_default();
            let is_over = matches!(text("/status/phase"), "Succeeded" | "Failed");
            let is_done = match undone.decided {
                Decided::Bind => !text("/spec/nodeName").is_empty(),
                Decided::Evict { .. } => !text("/metadata/deletionTimestamp").is_empty(),
            };
            !is_done && !is_over && *undone.uid == *text("/metadata/uid")
        });
        if !is_still_undone {
            self.0.remove(&key);
        }
    }

    /// What is to be undone by now, as facts: pods that were not bound, and claimants whose victims stay, are left out
    /// until they are seen again; victims stay where they are.
    pub fn overdue(&mut self, now: Tick) -> Vec<Fact> {
        let overdue = self.0.extract_if(.., |_, undone| undone.due <= now);
        let facts = overdue.flat_map(|(pod, Undone { uid, decided, .. })| match decided {
            Decided::Bind => vec![Fact::PodGone(pod)],
            Decided::Evict { claimant } => {
                let failed = Fact::EvictFailed { pod, uid };
                [Some(failed), claimant.map(Fact::PodGone)].into_iter().flatten().collect()
            }
        });
        facts.collect()
    }

    /// When the next one is overdue.
    pub fn next_due(&self) -> Option<Tick> {
        self.0.values().map(|undone| undone.due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Subject;
    use quotient_api::ObjectKey;
    use serde_json::{Value, json};

    fn key(name: &str) -> PodKey {
        PodKey { namespace: "a".into(), name: name.into() }
    }

    fn evict(name: &str, claimant: &str) -> Write {
        let pod = PodRef { key: key(name), uid: "1".into() };
        Write::Evict { pod, claimant: Some(key(claimant)), message: String::new() }
    }

    fn bind(name: &str) -> Write {
        Write::Bind {
            pod: PodRef { key: key(name), uid: "1".into() },
            node: "n".into(),
            claims: Vec::new(),
            devices: Default::default(),
            bound_as: None,
            waited: None,
        }
    }

    fn seen(name: &str, more: Value) -> Seen {
        let kind = quotient_api::kinds::find("", "Pod").expect("it is known");
        let mut pod = json!({"metadata": {"name": name, "namespace": "a", "uid": "1"}});
        for (pointer, value) in more.as_object().expect("fields") {
            let (part, field) = pointer.split_once('.').expect("two parts");
            pod[part][field] = value.clone();
        }
        Seen::Object(Subject::Kind(kind), pod)
    }

    #[test]
    fn what_the_other_scheduler_does_not_do_is_undone() {
        let mut shadow = Shadow::default();
        for name in ["elsewhere", "pending", "gone"] {
            shadow.note(&bind(name), Tick(1_000));
        }
        for name in ["deleted", "stays"] {
            shadow.note(&evict(name, "claimant"), Tick(1_000));
        }
        shadow.see(&seen("elsewhere", json!({"spec.nodeName": "m"})));
        shadow.see(&seen("pending", json!({"status.phase": "Pending"})));
        shadow.see(&seen("deleted", json!({"metadata.deletionTimestamp": "2026-01-01T00:00:00Z"})));
        shadow.see(&seen("stays", json!({"spec.nodeName": "n"})));
        let kind = quotient_api::kinds::find("", "Pod").expect("it is known");
        shadow.see(&Seen::Gone(Subject::Kind(kind), ObjectKey::pod("a", "gone")));
        assert!(shadow.overdue(Tick(60_999)).is_empty());
        assert_eq!(shadow.next_due(), Some(Tick(61_000)));
        let facts = shadow.overdue(Tick(61_000));
        let [Fact::PodGone(pending), Fact::EvictFailed { pod, .. }, Fact::PodGone(claimant)] = &facts[..] else {
            panic!("{facts:?}")
        };
        assert_eq!((&*pending.name, &*pod.name, &*claimant.name), ("pending", "stays", "claimant"));
        assert_eq!(shadow.next_due(), None);
    }
}
