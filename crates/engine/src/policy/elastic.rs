//! Elastic quotas: a min that is guaranteed, a max that is a limit, and a pool in which the rest is lent and borrowed.
//!
//! *Ceiling*: max, and what the pool's mins add up to. *Entitlement*: min.

use crate::decision::Rule;
use crate::fact::{Amount, Limits, Name};
use crate::ledger::share::Share;
use crate::ledger::{amount_of, compile};
use crate::policy::{
    Ask, At, Ceiling, Charge, Draw, DrawDepth, ElasticFact, LedgerId, Policy, PolicyKind, QuotaId, Quotas, Reassigned,
    Rules, Standing, Strength,
};
use crate::reason::Code;
use crate::resources::{ResourceId, ResourceNames};
use crate::sign::Sign;

/// What an elastic quota says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Elastic {
    namespaces: Vec<Name>,
    pub min: Vec<(ResourceId, Amount)>,
    max: Vec<(ResourceId, Amount)>,
}

impl Elastic {
    fn new(namespaces: Vec<Name>, min: &Limits, max: &Limits, names: &mut ResourceNames) -> Self {
        Elastic { namespaces, min: compile(min, names), max: compile(max, names) }
    }

    /// The min of a resource; 0 where it names none.
    pub fn min(&self, resource: ResourceId) -> i128 {
        amount_of(&self.min, resource).unwrap_or(0)
    }
}

impl<'a> Rules<'a> for At<'a, Elastic> {
    fn kind(&self) -> PolicyKind {
        PolicyKind::Elastic
    }

    fn min(&self) -> &'a Charge {
        &self.policy.min
    }

    fn max(&self) -> Vec<(ResourceId, Amount)> {
        self.policy.max.clone()
    }

    fn ceilings(&self, ask: &Ask<'_>, _direct: bool, each: &mut impl FnMut(Ceiling)) {
        let pool = self.pool();
        for (resource, amount) in ask.charge {
            let (resource, requested, quota) = (*resource, i128::from(*amount), self.id);
            if let Some(limit) = amount_of(&self.policy.max, resource) {
                let (ledger, code) = (LedgerId::Quota(quota), Code::QuotaMaxExceeded);
                each(Ceiling { quota, ledger, resource, requested, limit, code });
            }
            if pool.governs(resource) {
                let (ledger, code) = (LedgerId::Pool(self.quota.pool), Code::PoolExhausted);
                each(Ceiling { quota, ledger, resource, requested, limit: pool.min.get(resource), code });
            }
        }
    }

    fn standing(&self, charge: &Charge) -> Standing {
        let governed = charge.iter().filter(|(resource, amount)| *amount > 0 && self.pool().governs(*resource));
        let compared: Vec<ResourceId> = governed.map(|(resource, _)| *resource).collect();
        // What no quota of the pool governs is nobody's guarantee.
        let is_within = !compared.is_empty() && self.stays_within(charge, |resource| self.policy.min(resource));
        let (rule, depth, strength) = (Rule::ElasticReclaim, DrawDepth::Min, Strength::Guarantee);
        let draw = is_within.then_some(Draw { rule, depth, strength });
        Standing { draw, compared }
    }

    fn keeps(&self, resource: ResourceId, _depth: DrawDepth) -> Option<i128> {
        Some(self.policy.min(resource))
    }

    fn entitlement(&self, resource: ResourceId) -> Option<i128> {
        self.pool().governs(resource).then(|| self.policy.min(resource))
    }

    fn within(&self) -> Vec<(ResourceId, i128)> {
        self.pool().governed().map(|resource| (resource, self.policy.min(resource))).collect()
    }

    fn own(&self) -> Vec<(ResourceId, i128)> {
        self.within()
    }

    /// The largest of used / min over what min names.
    fn share(&self) -> Share {
        let ledger = &self.quota.ledger;
        Share::largest(self.policy.min.iter().map(|(r, min)| (ledger.used.get(*r), i128::from(*min))))
    }

    fn counts_requests(&self) -> bool {
        false
    }
}

/// What elastic quotas, fair or not, do when they come and go.
impl Quotas {
    /// Takes in a quota that shares a pool with others of its group.
    pub(super) fn observe_pooled(
        &mut self,
        fact: ElasticFact,
        names: &mut ResourceNames,
        policy: fn(Elastic) -> Policy,
    ) -> Option<Reassigned> {
        let ElasticFact { key, namespaces, min, max, fair: _ } = fact;
        let pool = self.pool_of(&key.group, &Name::default());
        let new = Elastic::new(namespaces.clone(), &min, &max, names);
        if self.find(&key).is_some_and(|id| self.get(id).policy.elastic() == Some(&new)) {
            return None;
        }
        let new_min = new.min.clone();
        let id = self.find_or_insert(key, pool, policy(Elastic::default()));
        let known = &mut self.get_mut(id).policy;
        let old = known.elastic_mut().map(std::mem::take).unwrap_or_default();
        *known = policy(new);
        let ledger = self.get(id).ledger.clone();
        self.change_pool(pool, |pool| {
            pool.count(&old.min, &ledger, Sign::Take);
            pool.count(&new_min, &ledger, Sign::Add);
        });
        self.moved.shares.insert(id);
        self.unmarked.insert(id);
        let namespaces = self.rename_namespaces(id, &old.namespaces, &namespaces);
        Some(Reassigned { namespaces, ..Reassigned::default() })
    }

    /// Takes all namespaces off a quota.
    pub(super) fn release_pooled(&mut self, id: QuotaId) -> Reassigned {
        let old = self.get_mut(id).policy.elastic_mut().map(|elastic| std::mem::take(&mut elastic.namespaces));
        let namespaces = self.rename_namespaces(id, &old.unwrap_or_default(), &[]);
        Reassigned { namespaces, ..Reassigned::default() }
    }
}
