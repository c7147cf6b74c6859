//! The report of a simulation: what happened step by step, and how everything stands at the end.
//!
//! Field names and order are a contract with whoever reads the JSON.

use std::collections::BTreeMap;
use std::sync::Arc;

use quotient_engine::fact::Name;
use quotient_engine::quantity::canonical;
use quotient_engine::{EvictionReason, NodeReport, Reason};
use serde::Serialize;

/// Amounts by resource, as canonical Kubernetes quantities.
pub type Quantities = BTreeMap<String, String>;

/// Everything that `simulate` has to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Report {
    pub steps: Vec<StepReport>,
    pub pods: Vec<PodReport>,
    /// Left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<WaitingGroup>,
    pub quotas: Vec<QuotaReport>,
    pub nodes: Vec<NodeState>,
}

/// A group that waits and has no pods yet: they are made once it is let into its queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitingGroup {
    /// What made it, or the group itself, as `Kind/namespace/name`.
    pub object: String,
    pub group: String,
    pub reason: ReasonReport,
}

/// What happened when one file was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct StepReport {
    pub file: String,
    pub bound: Vec<Bound>,
    pub evicted: Vec<Evicted>,
    pub rejected: Vec<RejectedObject>,
    pub problems: Vec<ObjectProblem>,
}

/// A pod that got a node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Bound {
    pub namespace: String,
    pub name: String,
    pub node: String,
}

/// A pod that had to go.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Evicted {
    pub namespace: String,
    pub name: String,
    pub node: String,
    /// The pod that gets what this one held, as `namespace/name`.
    #[serde(rename = "for")]
    pub claimant: Option<String>,
    pub rule: String,
    pub message: String,
    /// What rule and message are made from, where the eviction was decided here.
    #[serde(skip)]
    pub reason: Option<Arc<EvictionReason>>,
}

/// An object that was not let in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RejectedObject {
    pub object: String,
    pub message: String,
}

/// Something in an object that could not be read or used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ObjectProblem {
    pub object: Option<String>,
    pub message: String,
}

/// How a pod stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PodReport {
    pub namespace: String,
    pub name: String,
    pub phase: PodPhase,
    pub node: Option<String>,
    /// Whether it is within its quota or borrows, where its quotas tell the two apart.
    pub capacity: Option<String>,
    /// The quotas it answers to, as `Kind/namespace/name`.
    pub quotas: Vec<String>,
    /// Why it waits, if it does.
    pub reason: Option<ReasonReport>,
}

/// Where a pod is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
    /// It was evicted and nobody makes it anew.
    Evicted,
}

/// Why a pod waits. The numbers are there where the reason is about a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReasonReport {
    pub code: String,
    pub message: String,
    pub quota: Option<String>,
    pub resource: Option<String>,
    pub used: Option<String>,
    pub requested: Option<String>,
    pub limit: Option<String>,
    pub short_by: Option<String>,
    pub remedies: Vec<String>,
}

impl From<&Reason> for ReasonReport {
    fn from(reason: &Reason) -> Self {
        let Reason { code, message, quota, numbers, remedies, .. } = reason;
        let amount = |of: i128| numbers.as_ref().map(|n| canonical(&n.resource, of));
        ReasonReport {
            code: code.name().to_string(),
            message: message.clone(),
            quota: quota.as_ref().map(ToString::to_string),
            resource: numbers.as_ref().map(|n| n.resource.to_string()),
            used: numbers.as_ref().and_then(|n| amount(n.used)),
            requested: numbers.as_ref().and_then(|n| amount(n.requested)),
            limit: numbers.as_ref().and_then(|n| amount(n.limit)),
            short_by: numbers.as_ref().and_then(|n| amount(n.short_by())),
            remedies: remedies.clone(),
        }
    }
}

/// How a quota stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct QuotaReport {
    pub object: String,
    pub policy: String,
    pub parent: Option<String>,
    pub tree: Option<String>,
    pub min: Quantities,
    pub max: Quantities,
    pub used: Quantities,
    pub entitlement: Quantities,
    pub runtime: Quantities,
    pub borrowed: Quantities,
    pub lent: Quantities,
    /// What others may take back; for those who look at quotas, and not in the report of a simulation.
    #[serde(skip)]
    pub reclaimable: Quantities,
}

impl From<&quotient_engine::QuotaReport> for QuotaReport {
    /// The object and its parent are named as the engine names them, without their groups.
    fn from(quota: &quotient_engine::QuotaReport) -> Self {
        let quotient_engine::QuotaReport {
            key,
            policy,
            parent,
            tree,
            min,
            max,
            used,
            entitlement,
            runtime,
            borrowed,
            lent,
            reclaimable,
            ..
        } = quota;
        QuotaReport {
            object: key.to_string(),
            policy: (*policy).to_string(),
            parent: parent.as_ref().map(ToString::to_string),
            tree: tree.as_ref().map(ToString::to_string),
            min: quantities(min),
            max: quantities(max),
            used: quantities(used),
            entitlement: quantities(entitlement),
            runtime: quantities(runtime),
            borrowed: quantities(borrowed),
            lent: quantities(lent),
            reclaimable: quantities(reclaimable),
        }
    }
}

fn quantities(amounts: &[(Name, i128)]) -> Quantities {
    amounts.iter().map(|(name, amount)| (name.to_string(), canonical(name, *amount))).collect()
}

impl QuotaReport {
    /// The amount fields, by the names they have in the report.
    pub const AMOUNTS: [&'static str; 7] = ["min", "max", "used", "entitlement", "runtime", "borrowed", "lent"];

    /// The amounts of the field of that name.
    pub fn amounts(&self, field: &str) -> Option<&Quantities> {
        match field {
            "min" => Some(&self.min),
            "max" => Some(&self.max),
            "used" => Some(&self.used),
            "entitlement" => Some(&self.entitlement),
            "runtime" => Some(&self.runtime),
            "borrowed" => Some(&self.borrowed),
            "lent" => Some(&self.lent),
            _ => None,
        }
    }
}

/// How a node stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct NodeState {
    pub name: String,
    pub allocatable: Quantities,
    pub used: Quantities,
    /// Cards by name, as many as the node has.
    pub cards: Quantities,
    /// What pods without a GPU may hold here in all, where that is capped.
    pub cap: Quantities,
    pub cap_used: Quantities,
}

impl NodeState {
    /// The amount fields, by the names they have in the report.
    pub const AMOUNTS: [&'static str; 5] = ["allocatable", "used", "cards", "cap", "capUsed"];

    /// The amounts of the field of that name.
    pub fn amounts(&self, field: &str) -> Option<&Quantities> {
        match field {
            "allocatable" => Some(&self.allocatable),
            "used" => Some(&self.used),
            "cards" => Some(&self.cards),
            "cap" => Some(&self.cap),
            "capUsed" => Some(&self.cap_used),
            _ => None,
        }
    }
}

impl From<&NodeReport> for NodeState {
    fn from(node: &NodeReport) -> Self {
        let NodeReport { name, allocatable, used, cap, cap_used, cards } = node;
        let quantity = |name: &str, amount: i128| (name.to_string(), canonical(name, amount));
        NodeState {
            name: name.to_string(),
            allocatable: allocatable.iter().map(|(name, amount)| quantity(name, i128::from(*amount))).collect(),
            used: used.iter().map(|(name, amount)| quantity(name, *amount)).collect(),
            cap: cap.iter().map(|(name, amount)| quantity(name, *amount)).collect(),
            cap_used: cap_used.iter().map(|(name, amount)| quantity(name, *amount)).collect(),
            cards: cards.iter().map(|(name, amount)| quantity(name, *amount)).collect(),
        }
    }
}
