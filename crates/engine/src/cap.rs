//! What pods without GPUs may hold together on a GPU node, and what they hold.

use crate::fact::{Amount, Limits, Name};
use crate::nodes::Column;
use crate::resources::{Demand, ResourceId, ResourceNames};
use crate::sign::Sign;

/// The ledger of one node's cap. It is kept on every node, with a cap or without, since a cap can be set and lifted
/// while pods are there; it takes no memory where no pod is subject to caps.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cap {
    /// By resource name. `None`: the node has no cap.
    limits: Option<Vec<(ResourceId, Amount)>>,
    /// The cap that it has while its GPUs are devices.
    with_devices: Option<Vec<(ResourceId, Amount)>>,
    /// It has devices that are GPUs.
    has_devices: bool,
    /// Amounts held and claimed by pods that are subject to caps, exactly, by resource number.
    held: Vec<i128>,
    reserved: Vec<i128>,
    /// Of what is held, by pods that are leaving.
    leaving: Vec<i128>,
}

impl Cap {
    /// Takes in the cap by the node's resources, and the one that it has while its GPUs are devices.
    pub fn set_limits(
        &mut self,
        limits: Option<Vec<(ResourceId, Amount)>>,
        with_devices: Option<Vec<(ResourceId, Amount)>>,
    ) {
        (self.limits, self.with_devices) = (limits, with_devices);
    }

    /// Takes in whether the node has devices that are GPUs. Returns whether that is new.
    pub fn set_has_devices(&mut self, has_devices: bool) -> bool {
        std::mem::replace(&mut self.has_devices, has_devices) != has_devices
    }

    /// What may be held, by resource name; `None` where nothing is capped.
    pub fn limits(&self) -> Option<&[(ResourceId, Amount)]> {
        let with_devices = || self.with_devices.as_deref().filter(|_| self.has_devices);
        self.limits.as_deref().or_else(with_devices)
    }

    /// Whether a node object says nothing new: of the cap by the node's resources, and of the one by its devices.
    pub fn is_declared_as(&self, declared: [Option<&Limits>; 2], names: &ResourceNames) -> bool {
        let is_same = |known: &(ResourceId, Amount), (name, amount): &(Name, Amount)| {
            (Some(known.0), known.1) == (names.find(name), *amount)
        };
        let known = [self.limits.as_deref(), self.with_devices.as_deref()];
        known.into_iter().zip(declared).all(|(known, declared)| match (known, declared) {
            (None, None) => true,
            (Some(known), Some(declared)) => {
                known.len() == declared.iter().count() && known.iter().zip(declared.iter()).all(|(k, d)| is_same(k, d))
            }
            _ => false,
        })
    }

    /// What pods hold of a resource.
    pub fn held(&self, resource: ResourceId) -> i128 {
        self.held.get(resource.0 as usize).copied().unwrap_or(0)
    }

    /// What reservations hold of a resource.
    pub fn reserved(&self, resource: ResourceId) -> i128 {
        self.reserved.get(resource.0 as usize).copied().unwrap_or(0)
    }

    /// What pods and reservations hold of a resource.
    pub fn used(&self, resource: ResourceId) -> i128 {
        self.held(resource) + self.reserved(resource)
    }

    /// What will be held of a resource when all who leave are gone and all who hold a reservation have come.
    pub fn to_be_held(&self, resource: ResourceId) -> i128 {
        self.used(resource) - self.leaving.get(resource.0 as usize).copied().unwrap_or(0)
    }

    /// Adds what a pod or its reservation holds (or takes it off), if it is subject to caps.
    pub fn count(&mut self, demand: &Demand, sign: Sign, which: Column) {
        if !demand.capped {
            return;
        }
        let column = match which {
            Column::Held => &mut self.held,
            Column::Reserved => &mut self.reserved,
            Column::Leaving => &mut self.leaving,
        };
        for (resource, amount) in &demand.amounts {
            let at = resource.0 as usize;
            if column.len() <= at {
                column.resize(at + 1, 0);
            }
            column[at] += sign.of(i128::from(*amount));
            debug_assert!(column[at] >= 0, "no amount held or reserved is ever negative");
        }
    }
}
