//! What a set of victims costs. Smaller is cheaper; the fields are compared in order.

use std::cmp::{Ordering, Reverse};

use crate::fact::{Created, PodKey};

/// The part of the cost that is numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Counts {
    /// Violations of disruption budgets.
    pub violations: u32,
    /// The highest priority among the victims.
    pub priority: i32,
    /// Victims within their quota's entitlement.
    pub entitled: u32,
    /// Gangs that fall below their minimum.
    pub gangs: u32,
    /// Pods.
    pub count: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cost {
    pub counts: Counts,
    /// Creation times, the latest first.
    pub created: Vec<Created>,
    /// Names, sorted.
    pub names: Vec<PodKey>,
}

impl Cost {
    /// What no set costs less than: nobody goes.
    pub const NOTHING: Cost = Cost {
        counts: Counts { violations: 0, priority: i32::MIN, entitled: 0, gangs: 0, count: 0 },
        created: Vec::new(),
        names: Vec::new(),
    };
}

impl Ord for Cost {
    fn cmp(&self, other: &Self) -> Ordering {
        self.counts
            .cmp(&other.counts)
            .then_with(|| self.created.iter().map(Reverse).cmp(other.created.iter().map(Reverse)))
            .then_with(|| self.names.cmp(&other.names))
    }
}

impl PartialOrd for Cost {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
