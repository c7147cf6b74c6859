//! Why a pod waits, or is evicted: one value that everything renders.

pub mod eviction;

use crate::fact::Name;
use crate::filter::Filter;
use crate::policy::PolicyKind;

/// What kind of reason it is. Where several apply, the first in this order counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    InvalidRequest,
    SchedulingGated,
    ClaimNotReady,
    AwaitingVictims,
    QueueClosed,
    QueueNotFound,
    QueueNotLeaf,
    QuotaNotFound,
    QuotaNotAllowed,
    QuotaMaxExceeded,
    PoolExhausted,
    RuntimeExceeded,
    NonPreemptibleMinExceeded,
    CardQuotaExceeded,
    GangIncomplete,
    CardUnavailable,
    NodeCapExceeded,
    NoFittingNode,
}

impl Code {
    /// All of them, in order.
    pub const ALL: [Code; 18] = [
        Code::InvalidRequest,
        Code::SchedulingGated,
        Code::ClaimNotReady,
        Code::AwaitingVictims,
        Code::QueueClosed,
        Code::QueueNotFound,
        Code::QueueNotLeaf,
        Code::QuotaNotFound,
        Code::QuotaNotAllowed,
        Code::QuotaMaxExceeded,
        Code::PoolExhausted,
        Code::RuntimeExceeded,
        Code::NonPreemptibleMinExceeded,
        Code::CardQuotaExceeded,
        Code::GangIncomplete,
        Code::CardUnavailable,
        Code::NodeCapExceeded,
        Code::NoFittingNode,
    ];

    /// The code's name, as it is shown.
    pub fn name(self) -> &'static str {
        match self {
            Code::InvalidRequest => "InvalidRequest",
            Code::SchedulingGated => "SchedulingGated",
            Code::ClaimNotReady => "ClaimNotReady",
            Code::AwaitingVictims => "AwaitingVictims",
            Code::QueueClosed => "QueueClosed",
            Code::QueueNotFound => "QueueNotFound",
            Code::QueueNotLeaf => "QueueNotLeaf",
            Code::QuotaNotFound => "QuotaNotFound",
            Code::QuotaNotAllowed => "QuotaNotAllowed",
            Code::QuotaMaxExceeded => "QuotaMaxExceeded",
            Code::PoolExhausted => "PoolExhausted",
            Code::RuntimeExceeded => "RuntimeExceeded",
            Code::NonPreemptibleMinExceeded => "NonPreemptibleMinExceeded",
            Code::CardQuotaExceeded => "CardQuotaExceeded",
            Code::GangIncomplete => "GangIncomplete",
            Code::CardUnavailable => "CardUnavailable",
            Code::NodeCapExceeded => "NodeCapExceeded",
            Code::NoFittingNode => "NoFittingNode",
        }
    }
}

/// The numbers behind a reason: what of a resource is used, asked for and allowed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Numbers {
    pub resource: Name,
    pub used: i128,
    pub requested: i128,
    pub limit: i128,
}

impl Numbers {
    /// How much is missing.
    pub fn short_by(&self) -> i128 {
        (self.used + self.requested - self.limit).max(0)
    }
}

/// A quota with those above it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuotaPath {
    pub policy: PolicyKind,
    /// The quotas from the root down to this one, which is the last: `Kind/namespace/name`, with the group where
    /// another group has one of the same name. Never empty.
    pub path: Vec<Name>,
}

impl QuotaPath {
    /// How far below the root it is; the root is at level 0.
    pub fn level(&self) -> usize {
        self.path.len() - 1
    }
}

/// The quota's own name, without those above it.
impl std::fmt::Display for QuotaPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.path.last().map_or("", |name| name))
    }
}

impl Reason {
    /// Whether room is what is missing, so that another node might help: a pod fits nowhere, or a gang that could start
    /// otherwise.
    pub fn lacks_room(&self) -> bool {
        match self.code {
            Code::CardUnavailable | Code::NodeCapExceeded | Code::NoFittingNode => true,
            Code::GangIncomplete => self.details.iter().any(Reason::lacks_room),
            _ => false,
        }
    }
}

/// Why a pod waits, with exact numbers and what would help.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reason {
    pub code: Code,
    /// One sentence for people.
    pub message: String,
    /// The quota that refuses, at whatever level, with those above it.
    pub quota: Option<QuotaPath>,
    pub numbers: Option<Numbers>,
    /// For `NoFittingNode`: how many nodes each filter closed, in the order of the filters.
    pub closed: Vec<(Filter, u32)>,
    /// What would let the pod run, the nearest first.
    pub remedies: Vec<String>,
    /// The other reasons that hold at the same time.
    pub details: Vec<Reason>,
}
