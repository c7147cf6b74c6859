//! Evictions that were written and whose pods were not seen to leave.
//!
//! A server that accepts a deletion sets the pod's deletion time at once. A pod without one after a minute was not
//! deleted, whatever was answered: a proxy answered in the server's place, or the storage was restored from before. Its
//! claimant would wait for ever, so the engine is told that the eviction failed, and decides again.

use std::collections::BTreeMap;
use std::time::Duration;

use quotient_api::{ObjectKey, Problem, field};
use quotient_engine::fact::{Name, PodKey};
use quotient_engine::{Fact, Tick};

use crate::scheduler::Seen;
use crate::write::{PodRef, Write};

/// A victim is seen to leave within this time. Requests take seconds with all their retries; an eviction that still
/// waits to be sent then is decided again, which changes nothing about it.
pub const LEAVES_WITHIN: Duration = Duration::from_secs(60);

/// Victims by name, each with when it must have been seen to leave.
#[derive(Debug, Clone, Default)]
pub struct Victims(BTreeMap<PodKey, (Name, Tick)>);

impl Victims {
    /// Takes in what is about to be written.
    pub fn note(&mut self, write: &Write, now: Tick) {
        match write {
            Write::Evict { pod: PodRef { key, uid }, .. } => {
                let due = Tick(now.0.saturating_add(LEAVES_WITHIN.as_millis() as u64));
                self.0.insert(key.clone(), (uid.clone(), due));
            }
            // A pod of that name that is bound is another one.
            Write::Bind { pod, .. } => drop(self.0.remove(&pod.key)),
            _ => {}
        }
    }

    /// Takes in what a watch saw.
    pub fn see(&mut self, seen: &Seen) {
        if self.0.is_empty() {
            return;
        }
        let Some((key, pod)) = seen.pod() else { return };
        let is_still_there = pod.is_some_and(|pod| {
            let text = |pointer: &str| field::text(pod, pointer).unwrap_or_default();
            let is_same = self.0.get(&key).is_some_and(|(uid, _)| **uid == *text("/metadata/uid"));
            let leaves = !text("/metadata/deletionTimestamp").is_empty()
                || matches!(text("/status/phase"), "Succeeded" | "Failed");
            is_same && !leaves
        });
        if !is_still_there {
            self.0.remove(&key);
        }
    }

    /// Forgets an eviction that is known to have failed.
    pub fn failed(&mut self, fact: &Fact) {
        if let Fact::EvictFailed { pod, .. } = fact {
            self.0.remove(pod);
        }
    }

    /// Those that should have left by now: what to tell the engine, and people.
    pub fn overdue(&mut self, now: Tick) -> Vec<(Fact, Problem)> {
        let overdue = self.0.extract_if(.., |_, (_, due)| *due <= now);
        let told = overdue.map(|(pod, (uid, _))| {
            let message = format!(
                "was evicted {} s ago, and the API server shows no deletion: it is decided again",
                LEAVES_WITHIN.as_secs()
            );
            let problem = Problem::new(message).of_object(ObjectKey::pod(&pod.namespace, &pod.name));
            (Fact::EvictFailed { pod, uid }, problem)
        });
        told.collect()
    }

    /// When the next one is overdue.
    pub fn next_due(&self) -> Option<Tick> {
        self.0.values().map(|(_, due)| *due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Subject;
    use serde_json::{Value, json};

    fn evict(name: &str) -> Write {
        let pod = PodRef { key: PodKey { namespace: "a".into(), name: name.into() }, uid: "1".into() };
        Write::Evict { pod, claimant: None, message: String::new() }
    }

    fn seen(name: &str, uid: &str, leaves: Value) -> Seen {
        let kind = quotient_api::kinds::find("", "Pod").expect("it is known");
        let metadata = json!({"name": name, "namespace": "a", "uid": uid, "deletionTimestamp": leaves});
        Seen::Object(Subject::Kind(kind), json!({"metadata": metadata}))
    }

    #[test]
    fn a_victim_that_is_not_seen_to_leave_is_decided_again() {
        let mut victims = Victims::default();
        for name in ["left", "gone", "replaced", "stays", "failed"] {
            victims.note(&evict(name), Tick(5_000));
        }
        victims.see(&seen("left", "1", json!("2026-01-01T00:00:00Z")));
        let kind = quotient_api::kinds::find("", "Pod").expect("it is known");
        victims.see(&Seen::Gone(Subject::Kind(kind), ObjectKey::pod("a", "gone")));
        victims.see(&seen("replaced", "2", Value::Null));
        victims.see(&seen("stays", "1", Value::Null));
        let failed = PodKey { namespace: "a".into(), name: "failed".into() };
        victims.failed(&Fact::EvictFailed { pod: failed, uid: "1".into() });
        assert_eq!(victims.overdue(Tick(64_999)).len(), 0);
        assert_eq!(victims.next_due(), Some(Tick(65_000)));
        let overdue = victims.overdue(Tick(65_000));
        let [(Fact::EvictFailed { pod, .. }, problem)] = &overdue[..] else { panic!("{overdue:?}") };
        assert_eq!(&*pod.name, "stays");
        assert!(problem.to_string().starts_with("Pod/a/stays: was evicted 60 s ago"), "{problem}");
        assert_eq!((victims.overdue(Tick(99_000)).len(), victims.next_due()), (0, None));
    }
}
