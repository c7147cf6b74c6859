//! What a set of victims costs. Smaller is cheaper; the fields are compared in order.

use std::cmp::{Ordering, Reverse};

use crate::fact::{Created, PodKey};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Violations of disruption budgets.
    pub violations: u32,
    /// The highest priority among the victims.
    pub priority: i32,
    /// Victims within their quota's entitlement.
    pub entitled: u32,
    /// Gangs that fall below their minimum.
    pub gangs: u32,
    pub count: usize,
    /// Creation times, the latest first.
    pub created: Vec<Created>,
    /// Names, sorted.
    pub names: Vec<PodKey>,
}

impl Ord for Cost {
    fn cmp(&self, other: &Self) -> Ordering {
        let counts = |c: &Cost| (c.violations, c.priority, c.entitled, c.gangs, c.count);
        let youth = |c: &Cost| c.created.iter().map(|created| Reverse(*created)).collect::<Vec<_>>();
        counts(self)
            .cmp(&counts(other))
            .then_with(|| youth(self).cmp(&youth(other)))
            .then_with(|| self.names.cmp(&other.names))
    }
}

impl PartialOrd for Cost {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
