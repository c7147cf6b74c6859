//! What quotas promise and what nodes hold, added up.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cursor::{Cursor, Notes};
use crate::field;
use crate::field::at;
use crate::gpu_memory::{GPU_MEMORY, gigabytes};

/// Amounts by resource, added up in 128 bits.
#[derive(Debug, Clone, Default)]
pub struct Sums(BTreeMap<String, i128>);

impl Sums {
    /// What can be read of one map of quantities.
    pub fn of(amounts: Option<&Value>) -> Self {
        let mut sums = Sums::default();
        sums.add(amounts);
        sums
    }

    /// Adds what can be read of a map of quantities; what cannot is a problem that others tell.
    pub fn add(&mut self, amounts: Option<&Value>) {
        let notes = Notes::default();
        let Some(amounts) = amounts else { return };
        for (resource, value) in Cursor::root(amounts, &notes).entries() {
            if let Some(amount) = value.amount(resource) {
                *self.0.entry(resource.to_string()).or_default() += i128::from(amount);
            }
        }
    }

    /// Adds what an elastic quota guarantees.
    pub fn add_min(&mut self, quota: &Value) {
        self.add(at(quota, "/spec/min"));
    }

    /// Takes off what an elastic quota guarantees.
    pub fn take_min(&mut self, quota: &Value) {
        for (resource, amount) in Sums::of(at(quota, "/spec/min")).0 {
            *self.0.entry(resource).or_default() -= amount;
        }
    }

    pub fn get(&self, resource: &str) -> i128 {
        self.0.get(resource).copied().unwrap_or(0)
    }

    /// All amounts, by resource.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i128)> {
        self.0.iter().map(|(resource, amount)| (resource.as_str(), *amount))
    }
}

/// What the nodes hold together.
#[derive(Debug, Clone, Default)]
pub struct Held {
    amounts: Sums,
    gpu_gigabytes: i128,
}

impl Held {
    /// Whether there are no nodes, or none that has anything.
    pub fn is_nothing(&self) -> bool {
        self.amounts.0.is_empty()
    }

    pub fn by(nodes: &[&Value], whole_gpu_gb: u32) -> Self {
        let mut amounts = Sums::default();
        for node in nodes {
            let allocatable = field::at(node, "/status/allocatable").filter(|value| !value.is_null());
            amounts.add(allocatable.or_else(|| field::at(node, "/status/capacity")));
        }
        let gpu_gigabytes = gigabytes(amounts.iter(), whole_gpu_gb);
        Held { amounts, gpu_gigabytes }
    }

    /// What they hold of a resource; of GPU memory what follows from their GPUs.
    pub fn amount(&self, resource: &str) -> i128 {
        if GPU_MEMORY.contains(&resource) { self.gpu_gigabytes } else { self.amounts.get(resource) }
    }
}

/// Whether devices are counted by a resource, which nodes do not say how many there are of: by the names that every
/// class has, or by the extended resource of one of these classes.
pub fn is_of_devices(resource: &str, classes: &[&Value]) -> bool {
    resource.contains(".deviceclass.resource.k8s.io/")
        || resource.starts_with("deviceclass.resource.kubernetes.io/")
        || classes.iter().any(|class| field::at(class, "/spec/extendedResourceName") == Some(&Value::from(resource)))
}
