//! What the engine is told of quotas, by policy.

use crate::fact::{Labels, Limits, Name, QuotaKey, Selector, Tick};
use crate::select::selects;

/// Which namespaces may use a quota.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Users {
    /// It does not say: what the quota above it says counts, and in the end what is configured.
    #[default]
    Unsaid,
    /// All.
    Everyone,
    /// Those that are named here or selected by their labels.
    Listed { namespaces: Vec<Name>, selector: Option<Selector> },
}

impl Users {
    /// Whether a namespace with these labels is among them; `None` where nothing is said.
    pub(crate) fn include(&self, namespace: &Name, labels: &Labels) -> Option<bool> {
        match self {
            Users::Unsaid => None,
            Users::Everyone => Some(true),
            Users::Listed { namespaces, selector } => {
                let selected = selector.as_ref().is_some_and(|selector| selects(selector, labels));
                Some(selected || namespaces.contains(namespace))
            }
        }
    }
}

/// An elastic quota over namespaces. Quotas of one API group form a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ElasticFact {
    pub key: QuotaKey,
    /// The namespaces whose pods it is charged for.
    pub namespaces: Vec<Name>,
    pub min: Limits,
    pub max: Limits,
    /// Over-quota is shared fairly, in-quota pods are safe, and pods are marked in-quota or over-quota.
    pub fair: bool,
}

/// A quota of a quota tree. Its name is unique in the cluster, whatever its namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreeFact {
    pub key: QuotaKey,
    /// The quota above it, by name. `None` right below the root of the default tree, and for the root of a tree.
    pub parent: Option<Name>,
    /// Which tree, by id; empty for the default tree.
    pub tree: Name,
    /// It is the root of a tree of its own.
    pub root: Option<TreeRoot>,
    /// Quotas may be below it, and pods may not name it.
    pub is_parent: bool,
    /// What it does not ask for, others may have (`allow-lent-resource`).
    pub lends: bool,
    pub min: Limits,
    pub max: Limits,
    /// By what the hungry share what is left; where it is empty or all zero, max.
    pub weight: Limits,
    /// Namespaces whose pods it is charged for if they name no quota and have none of their own.
    pub namespaces: Vec<Name>,
    /// Since when its status says that it holds more than its runtime. The ticks are milliseconds since the Unix epoch
    /// then.
    pub overused_since: Option<Tick>,
    /// The namespaces whose pods may answer to it.
    pub users: Users,
}

/// What the root of a tree has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreeRoot {
    /// What the tree's nodes hold, for its quotas to share.
    pub total: Limits,
    /// The total is not taken out of the default tree.
    pub ignores_default_tree: bool,
}

/// A queue. Its name is unique in the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueFact {
    pub key: QuotaKey,
    /// The queue above it, by name. `None` right below the root.
    pub parent: Option<Name>,
    /// It starts nothing new.
    pub closed: bool,
    pub capability: Limits,
    /// `None`: not given, so the guarantee is deserved. A resource that a given one leaves out is not reclaimed.
    pub deserved: Option<Limits>,
    pub guarantee: Limits,
    /// How many of each kind of card it may hold; one that is not named is 0. `None`: as many as there are.
    pub card_quota: Option<Limits>,
    /// Whether others may take back what it holds beyond what it deserves.
    pub reclaimable: bool,
    /// The more important queue is served first.
    pub priority: i32,
    /// The namespaces whose pods may answer to it.
    pub users: Users,
}
