//! What the engine answers: binds, evictions, nominations and holds, in the order they were decided.
//!
//! A decision is taken into the engine's own state at once: a bound pod counts on its node, a
//! victim counts as leaving, a claimant holds what was freed for it. Whoever carries decisions out
//! tells the outcome back as facts.

use std::sync::Arc;

use crate::device::{Allocation, ClaimSpec, ExtendedRequest};
use crate::fact::{GroupKey, Name, PodKey, Tick};
use crate::reason::Reason;
use crate::reason::eviction::EvictionReason;

/// How much one call of `decide` may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The most pods it looks at before it returns.
    pub pods_max: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { pods_max: usize::MAX }
    }
}

/// Why a pod may be evicted: the rule that gave the right to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// A lower-priority pod without a quota makes room for one without a quota.
    Priority,
    /// A lower-priority pod makes room for one of its own quota.
    OwnQuota,
    /// A pod of an elastic quota above its min makes room for one within its own.
    ElasticReclaim,
    /// An over-quota pod of a quota above its fair share makes room for one within its own.
    ElasticFairShare,
    /// A pod of a quota above its runtime makes room for one within its min, in the same tree.
    TreeReclaim,
    /// A quota of a tree stayed above its runtime for too long.
    TreeOveruse,
    /// A pod of a queue above what it deserves makes room for one of a queue below.
    QueueReclaim,
}

/// Whether a pod is within its quota's min, or borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Capacity {
    InQuota,
    OverQuota,
}

impl Capacity {
    /// The value, as pods are labelled with it.
    pub fn name(self) -> &'static str {
        match self {
            Capacity::InQuota => "in-quota",
            Capacity::OverQuota => "over-quota",
        }
    }
}

impl Rule {
    pub const ALL: [Rule; 7] = [
        Rule::Priority,
        Rule::OwnQuota,
        Rule::ElasticReclaim,
        Rule::ElasticFairShare,
        Rule::TreeReclaim,
        Rule::TreeOveruse,
        Rule::QueueReclaim,
    ];

    /// The rule's name, as it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Priority => "priority.preempt",
            Rule::OwnQuota => "quota.preempt",
            Rule::ElasticReclaim => "elastic.reclaim",
            Rule::ElasticFairShare => "elastic.fairshare",
            Rule::TreeReclaim => "tree.reclaim",
            Rule::TreeOveruse => "tree.overuse",
            Rule::QueueReclaim => "queue.reclaim",
        }
    }

    /// What it gives a claimant the right to, in one sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Rule::Priority => "a pod without a quota preempts pods of lower priority that have none",
            Rule::OwnQuota => "a pod preempts pods of lower priority under its own quota",
            Rule::ElasticReclaim => "a quota within its min reclaims from quotas above theirs",
            Rule::ElasticFairShare => "a quota within its fair share reclaims from quotas above theirs",
            Rule::TreeReclaim => "a quota within its min reclaims from quotas of its tree above their runtime",
            Rule::TreeOveruse => "a quota stayed above its runtime for too long",
            Rule::QueueReclaim => "a queue below what it deserves reclaims from queues above theirs",
        }
    }

    /// For a reclaim: what the claimant's quota stays within, and what the victim's quota is above.
    pub fn bounds(self) -> (&'static str, &'static str) {
        match self {
            Rule::ElasticReclaim => ("its quota's min", "its min"),
            Rule::ElasticFairShare => ("its quota's fair share", "its own"),
            Rule::TreeReclaim => ("its quota's min", "its runtime"),
            Rule::QueueReclaim => ("what its queue deserves", "what it deserves"),
            Rule::Priority | Rule::OwnQuota | Rule::TreeOveruse => ("its entitlement", "its entitlement"),
        }
    }
}

/// What to do about a claim of a pod that is about to be bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimBinding {
    /// Bind this claim to this volume.
    Volume { claim: Name, volume: Name },
    /// Have a volume made for this claim on the pod's node.
    Provision { claim: Name },
}

impl ClaimBinding {
    /// The claim it is about.
    pub fn claim(&self) -> &Name {
        match self {
            ClaimBinding::Volume { claim, .. } | ClaimBinding::Provision { claim } => claim,
        }
    }
}

/// What a pod that is about to be bound gets of devices. Its claims are written before it is bound.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceGrants {
    pub claims: Vec<ClaimGrant>,
    /// Devices for its extended resources, for which a claim is made.
    pub extended: Option<ExtendedGrant>,
}

impl DeviceGrants {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.extended.is_none()
    }
}

/// A claim that is reserved for a pod, and the devices that it gets if it has none yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimGrant {
    pub claim: Name,
    pub allocation: Option<Arc<Allocation>>,
}

/// Devices for the extended resources of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtendedGrant {
    pub spec: Arc<ClaimSpec>,
    pub allocation: Arc<Allocation>,
    /// Which requests of which containers they serve.
    pub served: Vec<ExtendedRequest>,
}

/// One thing to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Bind the pod to the node, its claims first.
    Bind { pod: PodKey, uid: Name, node: Name, claims: Vec<ClaimBinding>, devices: DeviceGrants },
    /// Evict the pod. `claimant` is who gets what it held; without one the eviction is voluntary, and goes the way on
    /// which disruption budgets can refuse it.
    Evict {
        pod: PodKey,
        uid: Name,
        node: Name,
        claimant: Option<PodKey>,
        /// Whether it passes over a disruption budget, because no other set of victims would do.
        violates_budget: bool,
        /// Why, with exact numbers.
        reason: Arc<EvictionReason>,
    },
    /// Write the node that is kept for the pod into its status; `None` takes it out.
    Nominate { pod: PodKey, uid: Name, node: Option<Name> },
    /// Mark a running pod as within its quota or over it, in the quota's API group; `None` takes the mark off.
    Mark { pod: PodKey, uid: Name, group: Name, capacity: Option<Capacity> },
    /// Let a group into its queue: its pods may be made.
    Admit(GroupKey),
    /// The pod waits, and why. Said again only when the reason changes.
    Hold { pod: PodKey, uid: Name, reason: Arc<Reason> },
}

/// The outcome of a cycle.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decisions {
    pub list: Vec<Decision>,
    /// The budget was used up and there is more to decide: call again.
    pub more: bool,
    /// When time alone will change something next.
    pub wake_at: Option<Tick>,
    /// Pods that went round in a circle and were left out of the rest of the cycle: a defect of the engine.
    pub endless: Vec<PodKey>,
}
