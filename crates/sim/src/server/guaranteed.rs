//! What the elastic quotas of each API group guarantee, kept as they come and go.
//!
//! Admission asks for the sum with every quota. To add it up each time makes a cluster of a thousand quotas slow.

use std::collections::BTreeMap;

use quotient_api::elastic::{COMPOSITE, PLAIN};
use quotient_api::{ObjectKey, Sums};
use serde_json::Value;

/// The sums, by group.
#[derive(Debug, Clone, Default)]
pub(super) struct Guaranteed(BTreeMap<&'static str, Sums>);

impl Guaranteed {
    /// Whether objects of this key guarantee anything.
    pub fn concerns(key: &ObjectKey) -> bool {
        matches!(key.kind, PLAIN | COMPOSITE)
    }

    /// An object takes the place of another, or comes or goes.
    pub fn replace(&mut self, key: &ObjectKey, old: Option<&Value>, new: Option<&Value>) {
        if Self::concerns(key) {
            let sums = self.0.entry(key.group).or_default();
            old.into_iter().for_each(|quota| sums.take_min(quota));
            new.into_iter().for_each(|quota| sums.add_min(quota));
        }
    }

    /// What the quotas of a group guarantee together.
    pub fn of(&self, group: &str) -> Sums {
        self.0.get(group).cloned().unwrap_or_default()
    }
}
