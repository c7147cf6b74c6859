//! What would let a pending pod run. Each remedy was tried on a copy of the cluster: applied by itself it lets the pod
//! run, and none asks for more than is needed.
//!
//! A remedy is a small set of edits to objects. The copy is the cluster itself with its admission, controllers and
//! engine, so that a remedy that admission refuses or that another pod uses up is not one.

mod demand;
mod node;
mod quota;
#[cfg(test)]
mod tests;
mod trial;

use std::sync::Arc;

use quotient_api::ObjectKey;
use quotient_engine::{NodeVerdict, Reason};
use serde::Serialize;

use crate::explanation::obstacles::Obstacle;
use crate::state::State;
pub use trial::Trial;

/// Something that would let the pod run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// What kind it is, such as `raise-quota`.
    pub kind: &'static str,
    /// One line for people.
    pub message: String,
    /// The fields that would change.
    pub changes: Vec<FieldChange>,
    /// Pods that would be evicted on the way, as `namespace/name`.
    pub evicts: Vec<String>,
    /// Pods that would have to end first, as `namespace/name`.
    pub ends: Vec<String>,
}

/// A field of an object, before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    pub object: String,
    pub field: String,
    pub from: Option<String>,
    pub to: Option<String>,
}

/// The remedies for a pod that is pending for this reason, and to which each node says this; the smallest interventions
/// first. Empty where nothing that was tried helps.
pub fn remedies(
    state: &State,
    key: &ObjectKey,
    reason: Arc<Reason>,
    verdicts: &[NodeVerdict],
    obstacles: &[Obstacle],
) -> Vec<Remedy> {
    let Some(trial) = Trial::of(state, key, reason, verdicts) else { return Vec::new() };
    let mut found = Vec::new();
    found.extend(demand::without_gates(&trial));
    found.extend(quota::another_queue(&trial));
    found.extend(quota::raise(&trial));
    found.extend(node::toleration(&trial, obstacles));
    found.extend(node::selector(&trial));
    found.extend(node::uncordon(&trial, obstacles));
    found.extend(demand::another_card(&trial));
    found.extend(demand::smaller_request(&trial));
    found.extend(demand::pods_that_end(&trial));
    found.extend(demand::higher_priority(&trial));
    found
}
