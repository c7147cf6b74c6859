//! What is to be written: decisions as values that wait for their turn, replace each other and can be looked at.

use std::collections::BTreeMap;

use quotient_api::ObjectKey;
use quotient_engine::ClaimBinding;
use quotient_engine::device::ExtendedRequest;
use quotient_engine::fact::{Name, PodKey};
use serde_json::Value;

use crate::event::EventNote;
use crate::patch::{difference, followed_by, same_but_for_time};

/// A pod at one time of its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRef {
    pub key: PodKey,
    pub uid: Name,
}

/// One thing to be written about one object.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Bind the pod, its claims first. `bound_as` is the record of what it answers to, if to anything.
    Bind {
        pod: PodRef,
        node: Name,
        claims: Vec<ClaimBinding>,
        devices: DeviceWrites,
        bound_as: Option<Box<str>>,
        waited: Option<Waited>,
    },
    /// Send a pod away: for a claimant by deletion, without one by the eviction API.
    Evict { pod: PodRef, claimant: Option<PodKey>, message: String },
    /// Say which node is kept for the pod.
    Nominate { pod: PodRef, node: Option<Name> },
    /// Leave the record of what the pod was bound as: it has none or another one.
    Record { pod: PodRef, record: Box<str> },
    /// Set labels of a pod, or take them off.
    Label { pod: PodRef, labels: BTreeMap<String, Option<String>> },
    /// Say why the pod waits. `since`: when it began to, where that is now.
    Condition { pod: PodRef, reason: &'static str, message: String, since: Option<String> },
    /// Tell people.
    Event(EventNote),
    /// Change parts of an object, by merge patches.
    Amend(Box<Amendment>),
    /// Make an object, if it is not there.
    Make { key: ObjectKey, object: Value },
    /// Make a Secret with an SSH key pair, if it is not there. The keys are drawn when it is sent.
    MakeWithKeys { key: ObjectKey, object: Value },
    /// Make an object, or replace the `data` of one that is there, if the same owner made it.
    Renew { key: ObjectKey, object: Value },
    /// Let a group of pods into its queue.
    Admit { group: ObjectKey },
    /// Take the devices from a claim that no pod uses, and that keeps this pod from every node.
    Deallocate { claim: ObjectKey, uid: Name, pod: PodRef },
    /// Take out an object, if it is the one with this uid.
    Delete { object: ObjectKey, uid: Option<Name> },
}

/// Since when a pod is pending, for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waited {
    pub created_us: i64,
    /// Whether it was held for a reason meanwhile: then the time is that of its quota, not ours.
    pub was_held: bool,
}

/// What is to be written about devices before a pod is bound.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeviceWrites {
    pub claims: Vec<ClaimWrite>,
    pub extended: Option<Box<ExtendedWrite>>,
}

/// A claim that is reserved for a pod, with the devices that it gets if it has none.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimWrite {
    pub claim: Name,
    pub uid: Name,
    /// `status.allocation`.
    pub allocation: Option<Value>,
}

/// A claim that is made for the extended resources of a pod.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtendedWrite {
    pub name: Name,
    pub claim: Value,
    /// `status.allocation`.
    pub allocation: Value,
    pub served: Vec<ExtendedRequest>,
}

/// What is to be changed about an object, if it is the one with this uid.
#[derive(Debug, Clone, PartialEq)]
pub struct Amendment {
    pub object: ObjectKey,
    pub uid: Option<Name>,
    pub metadata: Option<Value>,
    pub spec: Option<Value>,
    pub status: Option<Value>,
}

impl Amendment {
    /// What makes `old` to `new`, if they differ.
    pub fn between(key: &ObjectKey, old: &Value, new: &Value) -> Option<Box<Self>> {
        let part = |part: &str| difference(old.get(part), new.get(part));
        let uid = old.pointer("/metadata/uid").and_then(Value::as_str).map(Name::from);
        let (metadata, spec, status) = (part("metadata"), part("spec"), part("status"));
        let is_something = metadata.is_some() || spec.is_some() || status.is_some();
        is_something.then(|| Box::new(Amendment { object: key.clone(), uid, metadata, spec, status }))
    }
}

/// What a write is about. Of two writes for one slot the later counts, and never are two under way at once.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Slot {
    Bind(PodKey),
    Evict(PodKey),
    Nominate(PodKey),
    Record(PodKey),
    Label(PodKey),
    Condition(PodKey),
    Event(ObjectKey, &'static str),
    Amend(ObjectKey),
    Make(ObjectKey),
    Admit(ObjectKey),
    Delete(ObjectKey),
}

/// The ways to the API server. A lane has a limit of its own, so that a flood of one class of writes does not hold up
/// another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Decisions: binds, evictions, nominations.
    Place,
    /// Objects that controllers create and delete.
    Make,
    /// Conditions, labels and statuses.
    Status,
    /// Events.
    Event,
}

/// All lanes.
pub const LANES: [Lane; 4] = [Lane::Place, Lane::Make, Lane::Status, Lane::Event];

impl Lane {
    /// The lane's name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Lane::Place => "place",
            Lane::Make => "make",
            Lane::Status => "status",
            Lane::Event => "event",
        }
    }
}

impl Slot {
    pub fn lane(&self) -> Lane {
        match self {
            Slot::Bind(_) | Slot::Evict(_) | Slot::Nominate(_) => Lane::Place,
            Slot::Make(_) | Slot::Delete(_) => Lane::Make,
            Slot::Record(_) | Slot::Label(_) | Slot::Condition(_) | Slot::Amend(_) | Slot::Admit(_) => Lane::Status,
            Slot::Event(..) => Lane::Event,
        }
    }

    /// Of writes whose turn is the same the lower goes first. Nominations go before all other decisions: they are what
    /// a claim survives a restart by, and evictions wait for them. Binds and evictions do not pass each other: a steady
    /// flow of either would hold up the other without end.
    pub fn priority(&self) -> u8 {
        match self {
            Slot::Nominate(_) | Slot::Record(_) | Slot::Admit(_) | Slot::Delete(_) | Slot::Event(..) => 0,
            Slot::Bind(_) | Slot::Evict(_) | Slot::Label(_) | Slot::Make(_) => 1,
            Slot::Condition(_) => 2,
            Slot::Amend(_) => 3,
        }
    }

    /// The namespace of what is written about; `None` for objects of the cluster.
    pub fn namespace(&self) -> Option<&Name> {
        match self {
            Slot::Bind(pod) | Slot::Evict(pod) | Slot::Nominate(pod) => Some(&pod.namespace),
            Slot::Record(pod) | Slot::Label(pod) | Slot::Condition(pod) => Some(&pod.namespace),
            Slot::Event(key, _) => key.namespace.as_ref(),
            Slot::Amend(key) | Slot::Make(key) | Slot::Admit(key) | Slot::Delete(key) => key.namespace.as_ref(),
        }
    }
}

impl Write {
    pub fn slot(&self) -> Slot {
        match self {
            Write::Bind { pod, .. } => Slot::Bind(pod.key.clone()),
            Write::Evict { pod, .. } => Slot::Evict(pod.key.clone()),
            Write::Nominate { pod, .. } => Slot::Nominate(pod.key.clone()),
            Write::Record { pod, .. } => Slot::Record(pod.key.clone()),
            Write::Label { pod, .. } => Slot::Label(pod.key.clone()),
            Write::Condition { pod, .. } => Slot::Condition(pod.key.clone()),
            Write::Event(note) => Slot::Event(note.about.clone(), note.reason),
            Write::Amend(amendment) => Slot::Amend(amendment.object.clone()),
            Write::Deallocate { claim, .. } => Slot::Amend(claim.clone()),
            Write::Make { key, .. } | Write::MakeWithKeys { key, .. } | Write::Renew { key, .. } => {
                Slot::Make(key.clone())
            }
            Write::Admit { group } => Slot::Admit(group.clone()),
            Write::Delete { object, .. } => Slot::Delete(object.clone()),
        }
    }

    /// Whether it asks for the same, but for the time at which something is said to have changed.
    pub fn says_the_same(&self, other: &Write) -> bool {
        match (self, other) {
            (Write::Amend(one), Write::Amend(other)) => {
                let same = |one: &Option<Value>, other: &Option<Value>| match (one, other) {
                    (Some(one), Some(other)) => same_but_for_time(one, other),
                    (one, other) => one == other,
                };
                let parts = [(&one.metadata, &other.metadata), (&one.spec, &other.spec), (&one.status, &other.status)];
                one.object == other.object && one.uid == other.uid && parts.iter().all(|(a, b)| same(a, b))
            }
            (one, other) => one == other,
        }
    }

    /// What is to be written when `later` comes before this was.
    pub fn followed_by(self, later: Write) -> Write {
        match (self, later) {
            (Write::Label { pod, mut labels }, Write::Label { pod: same, labels: later }) if pod == same => {
                labels.extend(later);
                Write::Label { pod, labels }
            }
            // Two controllers may have something to say about one object.
            (Write::Amend(first), Write::Amend(later)) if first.uid == later.uid => {
                let (first, later) = (*first, *later);
                Write::Amend(Box::new(Amendment {
                    metadata: followed_by(first.metadata, later.metadata),
                    spec: followed_by(first.spec, later.spec),
                    status: followed_by(first.status, later.status),
                    ..later
                }))
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
