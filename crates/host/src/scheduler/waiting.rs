//! The pods that wait, and what is to be remembered of each until it is bound.

use std::sync::Arc;

use quotient_api::ties::NO_TIES;
use quotient_engine::fact::{Name, PodFact};
use quotient_engine::{Code, Fact, Reason, Tick};

use super::Scheduler;
use crate::write::Waited;

/// A pod that waits.
#[derive(Debug, Clone)]
pub struct Waiting {
    pub created_us: i64,
    pub uid: Name,
    /// The version of the pod as it was last seen.
    pub version: u64,
    /// Why, as far as we said, and by which word its condition says so.
    pub held: Option<Code>,
    pub word: &'static str,
    /// Until when nothing is said again while the code stays the same, and what is to be said then.
    pub quiet_until: Tick,
    pub unsaid: Option<Arc<Reason>>,
    /// Why, as the pod itself says: the reason and the message of its condition.
    pub shown: Option<(String, String)>,
    /// What it answers to, as a bind records it, if to anything.
    pub ties: Option<Box<str>>,
    /// It says what it was bound as before it was bound, which only a Binding says.
    pub is_forged: bool,
    /// What it is being bound as.
    pub bound_as: Option<Box<str>>,
}

impl Waiting {
    fn new(pod: &PodFact) -> Self {
        Waiting {
            created_us: pod.created.0,
            uid: pod.uid.clone(),
            version: 0,
            held: None,
            word: "",
            quiet_until: Tick(0),
            unsaid: None,
            shown: None,
            ties: None,
            is_forged: false,
            bound_as: None,
        }
    }

    /// It is being bound. Returns the record that its Binding leaves on it: none on a pod without ties, but where it
    /// has one that somebody else wrote.
    pub fn bind(&mut self) -> Option<Box<str>> {
        let record = self.ties.clone().or_else(|| self.is_forged.then(|| NO_TIES.into()));
        self.bound_as = Some(record.clone().unwrap_or_else(|| NO_TIES.into()));
        record
    }

    pub fn waited(&self) -> Waited {
        // What the last leader held says so itself.
        let is_shown = self.shown.as_ref().is_some_and(|(reason, _)| !reason.is_empty());
        Waited { created_us: self.created_us, was_held: self.held.is_some() || is_shown }
    }
}

fn waits(pod: &PodFact) -> bool {
    pod.ours && pod.node.is_none() && pod.leaving_since.is_none() && !pod.phase.is_over()
}

impl Scheduler {
    /// Keeps who waits, by a fact about a pod.
    pub(super) fn note_waiting(&mut self, fact: &Fact) {
        match fact {
            Fact::Pod(pod) if waits(pod) => {
                let key = pod.key();
                if self.waiting.get(&key).is_none_or(|known| known.uid != pod.uid) {
                    self.waiting.insert(key, Waiting::new(pod));
                }
            }
            Fact::Pod(pod) => {
                self.waiting.remove(&pod.key());
            }
            Fact::PodGone(key) => {
                self.waiting.remove(key);
                self.unrecorded.remove(key);
                self.gone.insert(key.clone());
            }
            _ => {}
        }
    }
}
