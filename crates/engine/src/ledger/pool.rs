//! Pools: quotas among which what is not used is lent and borrowed, added up.

use crate::fact::{Amount, Name};
use crate::ledger::Ledger;
use crate::ledger::sums::Sums;
use crate::resources::ResourceId;
use crate::sign::Sign;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PoolId(pub u32);

/// The quotas of one API group, or a named part of them, added up.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    pub group: Name,
    /// Which part of the group; empty where all of it is one pool.
    pub part: Name,
    pub ledger: Ledger,
    /// Σ min, by resource.
    pub min: Sums,
    /// How many quotas name the resource in min: without one it is not governed.
    named: Sums,
    /// Σ max(0, min − used), when those who leave are gone and those who reserve have come: a claimant draws on what
    /// those before it leave.
    pub unused: Sums,
}

impl Pool {
    pub fn new(group: Name, part: Name) -> Self {
        let (min, named, unused) = (Sums::default(), Sums::default(), Sums::default());
        Pool { group, part, ledger: Ledger::default(), min, named, unused }
    }

    /// Counts what a quota names in min (or no longer).
    pub fn count_named(&mut self, min: &[(ResourceId, Amount)], sign: Sign) {
        for (resource, _) in min {
            self.named.add(*resource, sign.of(1));
        }
    }

    pub fn governs(&self, resource: ResourceId) -> bool {
        self.named.get(resource) > 0
    }

    /// The resources that the pool governs.
    pub fn governed(&self) -> impl Iterator<Item = ResourceId> + '_ {
        self.named.nonzero().map(|(resource, _)| resource)
    }

    /// Counts a quota in the sums (or no longer).
    pub fn count(&mut self, min: &[(ResourceId, Amount)], ledger: &Ledger, sign: Sign) {
        for (resource, min) in min {
            self.named.add(*resource, sign.of(1));
            self.min.add(*resource, sign.of(i128::from(*min)));
        }
        self.count_unused(min, ledger, sign);
        self.ledger.count(ledger, sign);
    }

    /// Counts what a quota leaves of its min (or no longer).
    pub fn count_unused(&mut self, min: &[(ResourceId, Amount)], ledger: &Ledger, sign: Sign) {
        for (resource, min) in min {
            let unused = (i128::from(*min) - ledger.to_be_used(*resource)).max(0);
            self.unused.add(*resource, sign.of(unused));
        }
    }
}
