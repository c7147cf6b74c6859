//! What is to be written: decisions as values that wait for their turn, replace each other and can be looked at.

use std::collections::BTreeMap;

use quotient_api::ObjectKey;
use quotient_engine::ClaimBinding;
use quotient_engine::fact::{Name, PodKey};
use serde_json::Value;

use crate::event::EventNote;

/// A pod at one time of its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRef {
    pub key: PodKey,
    pub uid: Name,
}

/// One thing to be written about one object.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Bind the pod, its claims first. `created_us`: when it was made, for the metrics.
    Bind { pod: PodRef, node: Name, claims: Vec<ClaimBinding>, created_us: Option<i64> },
    /// Send a pod away: for a claimant by deletion, without one by the eviction API.
    Evict { pod: PodRef, claimant: Option<PodKey>, message: String },
    /// Say which node is kept for the pod.
    Nominate { pod: PodRef, node: Option<Name> },
    /// Set labels of a pod, or take them off.
    Label { pod: PodRef, labels: BTreeMap<String, Option<String>> },
    /// Say why the pod waits. `since`: when it began to, where that is now.
    Condition { pod: PodRef, reason: &'static str, message: String, since: Option<String> },
    /// Tell people.
    Event(EventNote),
    /// Change parts of an object's metadata and status, by merge patches.
    Amend { object: ObjectKey, metadata: Option<Value>, status: Option<Value> },
    /// Make an object, if it is not there.
    Make { object: Value },
    /// Let a group of pods into its queue.
    Admit { group: ObjectKey },
    /// Take out a quota whose place another one takes.
    DeleteQuota { quota: ObjectKey },
}

/// What a write is about. Of two writes for one slot the later counts, and never are two under way at once.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Slot {
    Bind(PodKey),
    Evict(PodKey),
    Nominate(PodKey),
    Label(PodKey),
    Condition(PodKey),
    Event(ObjectKey, &'static str),
    Amend(ObjectKey),
    Make(String),
    Admit(ObjectKey),
    DeleteQuota(ObjectKey),
}

/// The ways to the API server. A lane has a client and a limit of its own, so that a flood of one does not hold up the
/// other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// What decides where pods run.
    Place,
    /// What tells of it.
    Tell,
}

/// All lanes.
pub const LANES: [Lane; 2] = [Lane::Place, Lane::Tell];

impl Slot {
    pub fn lane(&self) -> Lane {
        match self {
            Slot::Bind(_) | Slot::Evict(_) | Slot::Nominate(_) => Lane::Place,
            _ => Lane::Tell,
        }
    }

    /// Within a lane the lower goes first. Nominations go before binds and evictions: they are what a claim survives a
    /// restart by, and evictions wait for them.
    pub fn priority(&self) -> u8 {
        match self {
            Slot::Nominate(_) => 0,
            Slot::Bind(_) => 1,
            Slot::Evict(_) => 2,
            Slot::DeleteQuota(_) | Slot::Make(_) | Slot::Admit(_) => 0,
            Slot::Label(_) => 1,
            Slot::Condition(_) => 2,
            Slot::Amend(_) => 3,
            Slot::Event(..) => 4,
        }
    }
}

impl Write {
    pub fn slot(&self) -> Slot {
        match self {
            Write::Bind { pod, .. } => Slot::Bind(pod.key.clone()),
            Write::Evict { pod, .. } => Slot::Evict(pod.key.clone()),
            Write::Nominate { pod, .. } => Slot::Nominate(pod.key.clone()),
            Write::Label { pod, .. } => Slot::Label(pod.key.clone()),
            Write::Condition { pod, .. } => Slot::Condition(pod.key.clone()),
            Write::Event(note) => Slot::Event(note.about.clone(), note.reason),
            Write::Amend { object, .. } => Slot::Amend(object.clone()),
            Write::Make { object } => {
                let named = quotient_api::key_of(object).map(|key| key.qualified());
                Slot::Make(named.unwrap_or_else(|problem| problem.to_string()))
            }
            Write::Admit { group } => Slot::Admit(group.clone()),
            Write::DeleteQuota { quota } => Slot::DeleteQuota(quota.clone()),
        }
    }

    /// What is to be written when `later` comes before this was.
    pub fn followed_by(self, later: Write) -> Write {
        match (self, later) {
            (Write::Label { pod, mut labels }, Write::Label { pod: same, labels: later }) if pod == same => {
                labels.extend(later);
                Write::Label { pod, labels }
            }
            // A pod waits since the first time that was to be said.
            (
                Write::Condition { pod, since: Some(since), .. },
                Write::Condition { pod: same, reason, message, since: None },
            ) if pod == same => Write::Condition { pod, reason, message, since: Some(since) },
            (_, later) => later,
        }
    }
}
