//! What a cluster tells of what happened in it.

use quotient_api::Problem;
use quotient_host::Happened as Done;

use crate::report::{Bound, Evicted};
use crate::server::Rejected;

/// What happened since it was last asked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Happened {
    pub bound: Vec<Bound>,
    pub evicted: Vec<Evicted>,
    pub rejected: Vec<Rejected>,
    pub problems: Vec<Problem>,
}

impl Happened {
    /// Adds what a scheduler did or found.
    pub fn add(&mut self, done: Done) {
        match done {
            Done::Bound { pod, node } => self.bound.push(Bound {
                namespace: pod.namespace.to_string(),
                name: pod.name.to_string(),
                node: node.to_string(),
            }),
            Done::Evicted { pod, node, claimant, reason, message } => self.evicted.push(Evicted {
                namespace: pod.namespace.to_string(),
                name: pod.name.to_string(),
                node: node.to_string(),
                claimant: claimant.as_ref().map(ToString::to_string),
                rule: reason.rule.name().to_string(),
                message,
                reason: Some(reason),
            }),
            Done::Problem(problem) => self.problems.push(problem),
            Done::Held { .. } | Done::Nominated { .. } => {}
        }
    }

    /// Each list by namespace and name.
    pub fn sort(&mut self) {
        self.bound.sort();
        self.evicted.sort();
        self.rejected.sort();
    }
}
