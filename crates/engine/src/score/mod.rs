//! The scores: which of the nodes that take a pod is the best. One file a rule.

pub(crate) mod image;
pub(crate) mod node_cap;
pub(crate) mod normal;
pub(crate) mod points;
pub(crate) mod resources;
pub(crate) mod spread;

/// A full score.
pub(crate) const FULL: i64 = 100_000;

/// How much each score weighs.
pub(crate) mod weight {
    pub const TAINTS: i64 = 3;
    pub const PREFERRED_NODES: i64 = 2;
    pub const SPREAD: i64 = 2;
    pub const POD_AFFINITY: i64 = 2;
    pub const DEVICES: i64 = 2;
    /// What all scores but that of node caps weigh together: the three that look at the node alone weigh 1 each.
    pub const ALL_OTHERS: i64 = 3 + TAINTS + PREFERRED_NODES + SPREAD + POD_AFFINITY;
}
