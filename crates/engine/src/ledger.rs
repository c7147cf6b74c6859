//! Ledgers: what is held, reserved and requested, in exact sums. No ledger knows a policy.

pub(crate) mod fraction;
pub(crate) mod links;
pub(crate) mod pool;
pub(crate) mod share;
pub(crate) mod sums;

use crate::fact::{Amount, Limits};
use crate::ledger::sums::Sums;
use crate::resources::{ResourceId, ResourceNames};
use crate::sign::Sign;

/// What a quota holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    /// By pods on nodes, and decided onto nodes.
    pub used: Sums,
    /// Of that, by pods that run.
    pub running: Sums,
    /// Of that, by pods that are leaving.
    pub leaving: Sums,
    /// By pending pods that hold a reservation.
    pub reserved: Sums,
    /// Of what is used, by pods that are never evicted.
    pub non_preemptible: Sums,
    /// Of what is reserved, for pods that are never evicted.
    pub non_preemptible_reserved: Sums,
    /// What all its pods request, pending or not.
    pub requested: Sums,
    /// Of that, by pods that are never evicted.
    pub non_preemptible_requested: Sums,
    /// What is reserved for groups that were admitted and have not started.
    pub reserved_for_groups: Sums,
    /// What groups hold beyond what it takes them to start.
    pub gang_surplus: Sums,
}

/// The sums of a ledger by name, to be read or changed. A sum that is added is missing here until it is listed.
macro_rules! sums {
    ($ledger:expr) => {{
        let Ledger {
            used,
            running,
            leaving,
            reserved,
            non_preemptible,
            non_preemptible_reserved,
            requested,
            non_preemptible_requested,
            reserved_for_groups,
            gang_surplus,
        } = $ledger;
        [
            ("used", used),
            ("running", running),
            ("leaving", leaving),
            ("reserved", reserved),
            ("held by non-preemptible pods", non_preemptible),
            ("reserved for non-preemptible pods", non_preemptible_reserved),
            ("requested", requested),
            ("requested by non-preemptible pods", non_preemptible_requested),
            ("reserved for groups", reserved_for_groups),
            ("held by groups beyond their need", gang_surplus),
        ]
    }};
}

impl Ledger {
    /// What will be held when those who leave are gone and those who reserve have come.
    pub fn to_be_used(&self, resource: ResourceId) -> i128 {
        self.used.get(resource) - self.leaving.get(resource) + self.reserved.get(resource)
    }

    /// What is held and reserved now.
    pub fn taken(&self, resource: ResourceId) -> i128 {
        self.used.get(resource) + self.reserved.get(resource)
    }

    /// What pods that are never evicted hold, and what is reserved for such pods.
    pub fn taken_by_non_preemptible(&self, resource: ResourceId) -> i128 {
        self.non_preemptible.get(resource) + self.non_preemptible_reserved.get(resource)
    }

    /// What is held and stays.
    pub fn stays(&self, resource: ResourceId) -> i128 {
        self.used.get(resource) - self.leaving.get(resource)
    }

    /// What counts when a group asks to be admitted: what is held, reserved and reserved, less what groups could give
    /// up.
    pub fn admitted(&self, resource: ResourceId) -> i128 {
        self.taken(resource) + self.reserved_for_groups.get(resource) - self.gang_surplus.get(resource)
    }

    /// All its sums, by name.
    pub fn sums(&self) -> [(&'static str, &Sums); 10] {
        sums!(self)
    }

    fn sums_mut(&mut self) -> [(&'static str, &mut Sums); 10] {
        sums!(self)
    }

    /// Adds what another holds (or takes it off).
    pub fn count(&mut self, other: &Ledger, sign: Sign) {
        for ((_, to), (_, from)) in self.sums_mut().into_iter().zip(other.sums()) {
            for (resource, amount) in from.nonzero() {
                to.add(resource, sign.of(amount));
            }
        }
    }
}

/// Amounts by resource number.
pub(crate) fn compile(limits: &Limits, names: &mut ResourceNames) -> Vec<(ResourceId, Amount)> {
    limits.iter().map(|(name, amount)| (names.intern(name), *amount)).collect()
}

/// The amount of a resource in a list, if it is there.
pub(crate) fn amount_of(list: &[(ResourceId, Amount)], resource: ResourceId) -> Option<i128> {
    list.iter().find(|(r, _)| *r == resource).map(|(_, amount)| i128::from(*amount))
}
