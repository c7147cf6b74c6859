//! The engine: what it is told, what it decides.

use std::sync::Arc;

use crate::decision::{Budget, Decisions};
use crate::fact::{Amount, Fact, Name, PodKey, Tick};
use crate::reason::Reason;

/// What can be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// After this long a waiting pod that cannot run may hold a node for itself.
    pub reserve_after_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { reserve_after_ms: 5 * 60 * 1000 }
    }
}

/// A node as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    pub name: Name,
    pub allocatable: Vec<(Name, Amount)>,
    /// What pods on the node hold, by name; nothing that is 0. `pods` included.
    pub used: Vec<(Name, i128)>,
}

/// The decision core.
#[derive(Debug, Clone, Default)]
pub struct Engine {}

impl Engine {
    pub fn new(_settings: Settings) -> Self {
        Engine {}
    }

    /// Takes in what was seen, or that it is gone.
    pub fn observe(&mut self, _now: Tick, _fact: Fact) {}

    /// Decides what can be decided now.
    pub fn decide(&mut self, _now: Tick, _budget: Budget) -> Decisions {
        Decisions::default()
    }

    /// A copy that goes its own way: what-if, plan and explain run the real thing.
    pub fn fork(&self) -> Engine {
        self.clone()
    }

    /// Why the pod waits, if it does.
    pub fn reason(&self, _pod: &PodKey) -> Option<Arc<Reason>> {
        None
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> Vec<NodeReport> {
        Vec::new()
    }

    /// Checks what must always hold; the first thing that does not is the error.
    pub fn check_invariants(&self) -> Result<(), String> {
        Ok(())
    }
}
