//! Elastic quotas: a min that is owed, a max that is the limit, and a pool in which the rest is lent and borrowed.
//!
//! *Ceiling*: max, and what the pool's mins add up to. *Entitlement*: min; in a fair pool beyond it also a share of
//! what others
//! leave unused, in proportion to min.

use crate::fact::{Amount, Limits, Name};
use crate::quota::amounts::Sums;
use crate::quota::fraction::mul_div;
use crate::quota::share::Share;
use crate::quota::{Ledger, LedgerId, QuotaId, Quotas, Refusal, Shortage, amount_of, compile};
use crate::reason::{Code, Numbers};
use crate::resources::{ResourceId, ResourceNames};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PoolId(pub u32);

/// What an elastic quota says.
#[derive(Debug, Clone)]
pub(crate) struct Elastic {
    pub fair: bool,
    pub namespaces: Vec<Name>,
    pub min: Vec<(ResourceId, Amount)>,
    pub max: Vec<(ResourceId, Amount)>,
}

impl Elastic {
    pub fn empty(fair: bool) -> Self {
        Elastic { fair, namespaces: Vec::new(), min: Vec::new(), max: Vec::new() }
    }

    pub fn new(fair: bool, namespaces: Vec<Name>, min: &Limits, max: &Limits, names: &mut ResourceNames) -> Self {
        Elastic { fair, namespaces, min: compile(min, names), max: compile(max, names) }
    }

    /// The min of a resource; 0 where it names none.
    pub fn min(&self, resource: ResourceId) -> i128 {
        amount_of(&self.min, resource).unwrap_or(0)
    }

    fn max(&self, resource: ResourceId) -> Option<i128> {
        amount_of(&self.max, resource)
    }

    /// The largest of used / min over what min names.
    pub fn share(&self, ledger: &Ledger) -> Share {
        let shares = self.min.iter().map(|(r, min)| Share::of(ledger.used.get(*r), i128::from(*min)));
        shares.max().unwrap_or(Share::EVEN)
    }
}

/// The quotas of one API group, or of one tree, added up.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    pub group: Name,
    /// Which tree; empty for all else.
    pub tree: Name,
    pub ledger: Ledger,
    /// Σ min, by resource.
    pub min: Sums,
    /// How many quotas name the resource in min: without one it is not governed.
    named: Sums,
    /// Σ max(0, min − used).
    pub unused: Sums,
}

impl Pool {
    pub fn new(group: Name, tree: Name) -> Self {
        let (min, named, unused) = (Sums::default(), Sums::default(), Sums::default());
        Pool { group, tree, ledger: Ledger::default(), min, named, unused }
    }

    /// Counts what a quota names in min (or no longer).
    pub fn count_named(&mut self, min: &[(ResourceId, Amount)], add: bool) {
        for (resource, _) in min {
            self.named.add(*resource, if add { 1 } else { -1 });
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
    pub fn count(&mut self, quota: &Elastic, ledger: &Ledger, add: bool) {
        let sign: i128 = if add { 1 } else { -1 };
        for (resource, min) in &quota.min {
            self.named.add(*resource, sign);
            self.min.add(*resource, sign * i128::from(*min));
            let unused = (i128::from(*min) - ledger.used.get(*resource)).max(0);
            self.unused.add(*resource, sign * unused);
        }
        self.ledger.count(ledger, add);
    }
}

impl Quotas {
    /// ⌊unused of the pool × min / Σ min⌋: what a quota of a fair pool is owed beyond min.
    pub fn guaranteed_over_quota(&self, id: QuotaId, resource: ResourceId) -> i128 {
        let quota = self.get(id);
        let Some(elastic) = quota.elastic().filter(|elastic| elastic.fair) else { return 0 };
        let pool = self.pool(quota.pool);
        let total = pool.min.get(resource);
        if total <= 0 { 0 } else { mul_div(pool.unused.get(resource), elastic.min(resource).max(0), total) }
    }

    pub(super) fn refused_by(
        &self,
        id: QuotaId,
        charge: &[(ResourceId, Amount)],
        names: &ResourceNames,
    ) -> Vec<Refusal> {
        let quota = self.get(id);
        let pool = self.pool(quota.pool);
        let Some(elastic) = quota.elastic() else { return Vec::new() };
        let mut refusals = Vec::new();
        let mut refuse = |code: Code, resource: ResourceId, used: i128, requested: Amount, limit: i128| {
            let requested = i128::from(requested);
            if used + requested > limit {
                let numbers = Numbers { resource: names.name(resource).clone(), used, requested, limit };
                refusals.push(Refusal { code, quota: id, resource, numbers });
            }
        };
        for (resource, amount) in charge {
            if let Some(max) = elastic.max(*resource) {
                refuse(Code::QuotaMaxExceeded, *resource, quota.ledger.taken(*resource), *amount, max);
            }
        }
        for (resource, amount) in charge {
            if pool.governs(*resource) {
                let (used, limit) = (pool.ledger.taken(*resource), pool.min.get(*resource));
                refuse(Code::PoolExhausted, *resource, used, *amount, limit);
            }
        }
        refusals
    }

    pub(super) fn short_in(&self, id: QuotaId, charge: &[(ResourceId, Amount)]) -> Vec<Shortage> {
        let quota = self.get(id);
        let pool = self.pool(quota.pool);
        let Some(elastic) = quota.elastic() else { return Vec::new() };
        let mut shortages = Vec::new();
        let mut note = |ledger: LedgerId, resource: ResourceId, amount: i128| {
            if amount > 0 {
                shortages.push(Shortage { ledger, resource, amount });
            }
        };
        for (resource, amount) in charge {
            let amount = i128::from(*amount);
            if let Some(max) = elastic.max(*resource) {
                note(LedgerId::Quota(id), *resource, quota.ledger.to_be_used(*resource) + amount - max);
            }
            if pool.governs(*resource) {
                let over = pool.ledger.to_be_used(*resource) + amount - pool.min.get(*resource);
                note(LedgerId::Pool(quota.pool), *resource, over);
            }
        }
        shortages
    }
}
