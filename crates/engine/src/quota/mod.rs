//! Quotas: who may hold how much, who is owed how much, and what is held.
//!
//! A quota is a ledger and a policy. The ledger is kept here, for all policies alike: what pods hold, what is claimed,
//! what is about to leave. A policy answers two questions about it (design: *ceiling* and *entitlement*) and nothing
//! else in the engine knows which system a quota object came from.

pub(crate) mod amounts;
pub(crate) mod elastic;
pub(crate) mod fraction;
pub(crate) mod report;
pub(crate) mod share;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::fact::{Amount, Created, ElasticFact, Name, QuotaKey};
use crate::lookup::LookupMap;
use crate::pods::{Pod, PodId};
use crate::quota::amounts::Sums;
use crate::quota::elastic::{Elastic, Pool, PoolId};
use crate::quota::share::Share;
use crate::reason::{Code, Numbers};
use crate::resources::{ResourceId, ResourceNames};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct QuotaId(pub u32);

/// A pod's place among the pods of its quota: the older first, then the more important, then the smaller, then by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seniority {
    created: Created,
    priority: Reverse<i32>,
    charge: Vec<(Name, Amount)>,
    namespace: Name,
    name: Name,
    pub pod: PodId,
}

/// What a quota holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    /// By pods on nodes, and decided onto nodes.
    pub used: Sums,
    /// Of that, by pods that run.
    pub running: Sums,
    /// Of that, by pods that are leaving.
    pub leaving: Sums,
    /// By waiting pods that hold a claim.
    pub claimed: Sums,
}

impl Ledger {
    /// What will be held when those who leave are gone and those who claim have come.
    pub fn to_be_used(&self, resource: ResourceId) -> i128 {
        self.used.get(resource) - self.leaving.get(resource) + self.claimed.get(resource)
    }

    /// What is held and claimed now.
    pub fn taken(&self, resource: ResourceId) -> i128 {
        self.used.get(resource) + self.claimed.get(resource)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Quota {
    pub key: QuotaKey,
    pub ledger: Ledger,
    pub policy: Elastic,
    /// The pods on nodes, by seniority.
    pub pods: BTreeSet<Seniority>,
}

/// Why a quota refuses a pod.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub code: Code,
    pub quota: QuotaId,
    pub numbers: Numbers,
}

/// Something that a claimant is short of in a ledger, and how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shortage {
    pub ledger: LedgerId,
    pub resource: ResourceId,
    pub amount: i128,
}

/// Whose holdings are too high.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LedgerId {
    Quota(QuotaId),
    Pool(PoolId),
}

/// All quotas.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quotas {
    list: Vec<Option<Quota>>,
    vacant: Vec<QuotaId>,
    ids: BTreeMap<QuotaKey, QuotaId>,
    by_namespace: LookupMap<Name, Vec<QuotaId>>,
    pools: Vec<Pool>,
    /// Quotas whose share changed since the queue last asked.
    pub changed: BTreeSet<QuotaId>,
    /// Quotas whose pods may be marked anew.
    pub unmarked: BTreeSet<QuotaId>,
}

impl Quotas {
    pub fn get(&self, id: QuotaId) -> &Quota {
        self.list[id.0 as usize].as_ref().expect("a quota's number is used only while it is listed")
    }

    fn get_mut(&mut self, id: QuotaId) -> &mut Quota {
        self.list[id.0 as usize].as_mut().expect("a quota's number is used only while it is listed")
    }

    pub fn find(&self, key: &QuotaKey) -> Option<QuotaId> {
        self.ids.get(key).copied()
    }

    /// All quotas, by key.
    pub fn iter(&self) -> impl Iterator<Item = (QuotaId, &Quota)> {
        self.ids.values().map(|id| (*id, self.get(*id)))
    }

    pub fn pool(&self, id: PoolId) -> &Pool {
        &self.pools[id.0 as usize]
    }

    /// The quotas that pods of a namespace answer to.
    pub fn of_namespace(&self, namespace: &Name) -> &[QuotaId] {
        self.by_namespace.get(namespace).map_or(&[], Vec::as_slice)
    }

    /// Takes in an elastic quota. Returns the namespaces whose pods answer to other quotas than before.
    pub fn observe_elastic(&mut self, fact: ElasticFact, names: &mut ResourceNames) -> Vec<Name> {
        let ElasticFact { key, namespaces, min, max, fair } = fact;
        let pool = self.pool_of(&key.group);
        let policy = Elastic::new(pool, fair, namespaces.clone(), &min, &max, names);
        let id = match self.find(&key) {
            Some(id) => id,
            None => {
                let quota = Quota {
                    key: key.clone(),
                    ledger: Ledger::default(),
                    policy: Elastic::empty(pool, fair),
                    pods: BTreeSet::new(),
                };
                let id = match self.vacant.pop() {
                    Some(id) => {
                        self.list[id.0 as usize] = Some(quota);
                        id
                    }
                    None => {
                        self.list.push(Some(quota));
                        QuotaId(self.list.len() as u32 - 1)
                    }
                };
                self.ids.insert(key, id);
                id
            }
        };
        let old = std::mem::replace(&mut self.get_mut(id).policy, Elastic::empty(pool, fair));
        let old_namespaces = old.namespaces.clone();
        let ledger = self.get(id).ledger.clone();
        let governed: Vec<ResourceId> = self.pools[pool.0 as usize].governed().collect();
        self.pools[pool.0 as usize].count(&old, &ledger, false);
        self.pools[pool.0 as usize].count(&policy, &ledger, true);
        self.get_mut(id).policy = policy;
        self.mark_pool_anew(pool, &governed);
        self.changed.insert(id);
        self.unmarked.insert(id);
        self.rename_namespaces(id, &old_namespaces, &namespaces)
    }

    /// Forgets a quota that nothing is charged to any more; its namespaces were taken off before.
    pub fn forget(&mut self, id: QuotaId) {
        let quota = self.list[id.0 as usize].take().expect("a quota is forgotten once");
        debug_assert!(quota.pods.is_empty(), "pods answer to other quotas before theirs is forgotten");
        let pool = quota.policy.pool;
        let governed: Vec<ResourceId> = self.pools[pool.0 as usize].governed().collect();
        self.pools[pool.0 as usize].count(&quota.policy, &quota.ledger, false);
        self.ids.remove(&quota.key);
        self.mark_pool_anew(pool, &governed);
        self.changed.remove(&id);
        self.unmarked.remove(&id);
        self.vacant.push(id);
    }

    /// Who is within quota depends on what the pool governs: where that changed, all its pods are looked at again.
    fn mark_pool_anew(&mut self, pool: PoolId, governed_before: &[ResourceId]) {
        if self.pools[pool.0 as usize].governed().eq(governed_before.iter().copied()) {
            return;
        }
        let of_pool = self.ids.values().copied().filter(|id| self.get(*id).policy.pool == pool);
        let of_pool: Vec<QuotaId> = of_pool.collect();
        self.unmarked.extend(of_pool);
    }

    /// Takes all namespaces off a quota. Returns them.
    pub fn release_namespaces(&mut self, id: QuotaId) -> Vec<Name> {
        let old = std::mem::take(&mut self.get_mut(id).policy.namespaces);
        self.rename_namespaces(id, &old, &[])
    }

    fn rename_namespaces(&mut self, id: QuotaId, old: &[Name], new: &[Name]) -> Vec<Name> {
        let mut changed: Vec<Name> = Vec::new();
        for namespace in old.iter().filter(|namespace| !new.contains(namespace)) {
            if let Some(quotas) = self.by_namespace.get_mut(namespace) {
                quotas.retain(|quota| *quota != id);
            }
            changed.push(namespace.clone());
        }
        for namespace in new.iter().filter(|namespace| !old.contains(namespace)) {
            let quotas = self.by_namespace.or_insert_with(namespace.clone(), Vec::new);
            if !quotas.contains(&id) {
                quotas.push(id);
            }
            changed.push(namespace.clone());
        }
        // The order of a pod's quotas must not depend on the order in which they were seen.
        for namespace in &changed {
            let mut quotas = self.by_namespace.get(namespace).cloned().unwrap_or_default();
            quotas.sort_by(|a, b| self.get(*a).key.cmp(&self.get(*b).key));
            self.by_namespace.insert(namespace.clone(), quotas);
        }
        changed
    }

    fn pool_of(&mut self, group: &Name) -> PoolId {
        let at = self.pools.iter().position(|pool| pool.group == *group).unwrap_or_else(|| {
            self.pools.push(Pool::new(group.clone()));
            self.pools.len() - 1
        });
        PoolId(at as u32)
    }

    fn change(&mut self, id: QuotaId, change: impl FnOnce(&mut Ledger)) {
        let quota = self.list[id.0 as usize].as_mut().expect("a quota's number is used only while it is listed");
        let pool = &mut self.pools[quota.policy.pool.0 as usize];
        pool.count(&quota.policy, &quota.ledger, false);
        change(&mut quota.ledger);
        pool.count(&quota.policy, &quota.ledger, true);
        self.unmarked.insert(id);
    }

    /// Charges a pod on a node to its quotas (or no longer).
    pub fn charge(&mut self, id: PodId, pod: &Pod, charge: &[(ResourceId, Amount)], add: bool, names: &ResourceNames) {
        for quota in &pod.quotas {
            let seniority = seniority(id, pod, charge, names);
            let pods = &mut self.get_mut(*quota).pods;
            if add {
                pods.insert(seniority)
            } else {
                pods.remove(&seniority)
            };
            self.changed.insert(*quota);
            self.change(*quota, |ledger| {
                ledger.used.charge(charge, add);
                if pod.running {
                    ledger.running.charge(charge, add);
                }
                if pod.is_leaving() {
                    ledger.leaving.charge(charge, add);
                }
            });
        }
    }

    /// A pod on a node began to run, or no longer does.
    pub fn count_running(&mut self, pod: &Pod, charge: &[(ResourceId, Amount)], add: bool) {
        for quota in &pod.quotas {
            self.change(*quota, |ledger| ledger.running.charge(charge, add));
        }
    }

    /// A pod on a node began to leave, or stays after all.
    pub fn count_leaving(&mut self, pod: &Pod, charge: &[(ResourceId, Amount)], add: bool) {
        for quota in &pod.quotas {
            self.change(*quota, |ledger| ledger.leaving.charge(charge, add));
        }
    }

    /// Counts a waiting pod's claim (or no longer).
    pub fn count_claim(&mut self, pod: &Pod, charge: &[(ResourceId, Amount)], add: bool) {
        for quota in &pod.quotas {
            self.change(*quota, |ledger| ledger.claimed.charge(charge, add));
        }
    }

    /// How well a pod's quotas are served; the best served counts.
    pub fn share(&self, quotas: &[QuotaId]) -> Share {
        quotas.iter().map(|id| self.get(*id).policy.share(&self.get(*id).ledger)).max().unwrap_or(Share::EVEN)
    }

    /// Why the quotas refuse a pod with this charge; the first is the one that counts.
    pub fn refusals(&self, quotas: &[QuotaId], charge: &[(ResourceId, Amount)], names: &ResourceNames) -> Vec<Refusal> {
        let mut refusals: Vec<Refusal> = quotas.iter().flat_map(|id| self.refused_by(*id, charge, names)).collect();
        refusals.sort_by_key(|refusal| refusal.code);
        refusals
    }

    /// What is short in the ledgers for a pod with this charge, once those who leave are gone.
    pub fn shortages(&self, quotas: &[QuotaId], charge: &[(ResourceId, Amount)]) -> Vec<Shortage> {
        quotas.iter().flat_map(|id| self.short_in(*id, charge)).collect()
    }

    /// Whether holdings in a ledger go down when a pod of these quotas goes.
    pub fn is_charged(&self, ledger: LedgerId, quotas: &[QuotaId]) -> bool {
        quotas.iter().any(|quota| match ledger {
            LedgerId::Quota(id) => id == *quota,
            LedgerId::Pool(pool) => self.get(*quota).policy.pool == pool,
        })
    }
}

pub(crate) fn seniority(id: PodId, pod: &Pod, charge: &[(ResourceId, Amount)], names: &ResourceNames) -> Seniority {
    let mut charge: Vec<(Name, Amount)> = charge.iter().map(|(r, amount)| (names.name(*r).clone(), *amount)).collect();
    charge.sort();
    Seniority {
        created: pod.created,
        priority: Reverse(pod.priority),
        charge,
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        pod: id,
    }
}
