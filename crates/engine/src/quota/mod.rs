//! Quotas: who may hold how much, who is owed how much, and what is held.
//!
//! A quota is a ledger and a policy. The ledger is kept here, for all policies alike: what pods hold, what is claimed,
//! what is about to leave; what a quota holds, the quotas above it hold too. A policy answers two questions about it
//! (design: *ceiling* and *entitlement*) and nothing else in the engine knows which system a quota object came from.

pub(crate) mod amounts;
pub(crate) mod elastic;
pub(crate) mod fraction;
pub(crate) mod queues;
pub(crate) mod report;
pub(crate) mod runtime;
pub(crate) mod share;
pub(crate) mod standing;
pub(crate) mod trees;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::fact::{Amount, Created, ElasticFact, Limits, Name, QuotaKey};
use crate::lookup::LookupMap;
use crate::pods::{Pod, PodId};
use crate::quota::amounts::Sums;
use crate::quota::elastic::{Elastic, Pool, PoolId};
use crate::quota::queues::{QueuePolicy, Queues};
use crate::quota::share::Share;
use crate::quota::trees::{Tree, Trees};
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
    /// Of what is used, by pods that are never evicted.
    pub fixed: Sums,
    /// What all its pods ask for, waiting or not.
    pub asked: Sums,
    /// Of that, by pods that are never evicted.
    pub fixed_asked: Sums,
    /// What is kept for groups that were let in and have not started.
    pub kept: Sums,
    /// What groups hold beyond what it takes them to start.
    pub elastic: Sums,
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

    /// What is held and stays.
    pub fn stays(&self, resource: ResourceId) -> i128 {
        self.used.get(resource) - self.leaving.get(resource)
    }

    /// All its sums, by name.
    pub fn sums(&self) -> [(&'static str, &Sums); 9] {
        let Ledger { used, running, leaving, claimed, fixed, asked, fixed_asked, kept, elastic } = self;
        [
            ("used", used),
            ("running", running),
            ("leaving", leaving),
            ("claimed", claimed),
            ("held by pods that are never evicted", fixed),
            ("asked for", asked),
            ("asked for by pods that are never evicted", fixed_asked),
            ("kept for groups", kept),
            ("held by groups beyond their need", elastic),
        ]
    }

    fn sums_mut(&mut self) -> [&mut Sums; 9] {
        let Ledger { used, running, leaving, claimed, fixed, asked, fixed_asked, kept, elastic } = self;
        [used, running, leaving, claimed, fixed, asked, fixed_asked, kept, elastic]
    }

    /// Adds what another holds (or takes it off).
    pub fn count(&mut self, other: &Ledger, add: bool) {
        for (to, (_, from)) in self.sums_mut().into_iter().zip(other.sums()) {
            for (resource, amount) in from.nonzero() {
                to.add(resource, if add { amount } else { -amount });
            }
        }
    }
}

/// What a quota says, by the system it comes from.
#[derive(Debug, Clone)]
pub(crate) enum Policy {
    Elastic(Elastic),
    Tree(Tree),
    Queue(QueuePolicy),
}

#[derive(Debug, Clone)]
pub(crate) struct Quota {
    pub key: QuotaKey,
    /// The quotas among which what is not used is lent and borrowed.
    pub pool: PoolId,
    /// The quota above it.
    pub parent: Option<QuotaId>,
    pub ledger: Ledger,
    pub policy: Policy,
    /// The pods on nodes that answer to it directly, by seniority.
    pub pods: BTreeSet<Seniority>,
}

impl Quota {
    pub fn elastic(&self) -> Option<&Elastic> {
        match &self.policy {
            Policy::Elastic(elastic) => Some(elastic),
            _ => None,
        }
    }

    pub fn tree(&self) -> Option<&Tree> {
        match &self.policy {
            Policy::Tree(tree) => Some(tree),
            _ => None,
        }
    }

    pub fn queue(&self) -> Option<&QueuePolicy> {
        match &self.policy {
            Policy::Queue(queue) => Some(queue),
            _ => None,
        }
    }

    /// Whether it marks its pods as within it or over it.
    pub fn marks_pods(&self) -> bool {
        self.elastic().is_some_and(|elastic| elastic.fair)
    }

    /// Whether it gives no right and no protection: a queue that says nothing.
    pub fn is_plain(&self) -> bool {
        self.queue().is_some_and(QueuePolicy::is_plain)
    }
}

/// Why a quota refuses a pod.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub code: Code,
    pub quota: QuotaId,
    pub resource: ResourceId,
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
    /// A quota's, with those below it.
    Quota(QuotaId),
    /// A pool's.
    Pool(PoolId),
    /// Of a quota, what pods that are never evicted hold: nobody can give of it.
    Fixed,
}

/// All quotas.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quotas {
    list: Vec<Option<Quota>>,
    vacant: Vec<QuotaId>,
    ids: BTreeMap<QuotaKey, QuotaId>,
    by_namespace: LookupMap<Name, Vec<QuotaId>>,
    pools: Vec<Pool>,
    pub trees: Trees,
    pub queues: Queues,
    /// What all nodes hold.
    pub total: Sums,
    /// Quotas whose share changed since the queue last asked.
    pub changed: BTreeSet<QuotaId>,
    /// Quotas whose pods may be marked anew.
    pub unmarked: BTreeSet<QuotaId>,
}

/// Amounts by resource number.
pub(crate) fn compile(limits: &Limits, names: &mut ResourceNames) -> Vec<(ResourceId, Amount)> {
    limits.iter().map(|(name, amount)| (names.intern(name), *amount)).collect()
}

/// The amount of a resource in a list, if it is there.
pub(crate) fn amount_of(list: &[(ResourceId, Amount)], resource: ResourceId) -> Option<i128> {
    list.iter().find(|(r, _)| *r == resource).map(|(_, amount)| i128::from(*amount))
}

/// A quota and those above it, each once, as far as `above` leads.
pub(crate) fn chain(id: QuotaId, above: impl Fn(QuotaId) -> Option<QuotaId>) -> Vec<QuotaId> {
    let mut chain = vec![id];
    while let Some(next) = above(chain[chain.len() - 1])
        && !chain.contains(&next)
    {
        chain.push(next);
    }
    chain
}

/// The quota above, where `above` is what quotas name. Quotas that would be above themselves have none, whichever of
/// them was seen first.
pub(crate) fn above_unless_circle(id: QuotaId, above: impl Fn(QuotaId) -> Option<QuotaId>) -> Option<QuotaId> {
    let last = chain(id, &above).last().copied();
    above(id).filter(|_| last.and_then(&above) != Some(id))
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

    /// Whether the number is in use.
    pub fn is_listed(&self, id: QuotaId) -> bool {
        self.list.get(id.0 as usize).is_some_and(Option::is_some)
    }

    /// What a quota is called: with its group where another group has one of the same kind, namespace and name.
    pub fn shown(&self, id: QuotaId) -> String {
        let key = &self.get(id).key;
        let is_other = |pool: &&Pool| pool.group != key.group;
        let has_twin = |pool: &Pool| self.find(&QuotaKey { group: pool.group.clone(), ..key.clone() }).is_some();
        if self.pools.iter().filter(is_other).any(has_twin) { key.qualified() } else { key.to_string() }
    }

    /// All quotas, by key.
    pub fn iter(&self) -> impl Iterator<Item = (QuotaId, &Quota)> {
        self.ids.values().map(|id| (*id, self.get(*id)))
    }

    /// A quota and those above it, from below.
    pub fn path(&self, id: QuotaId) -> impl Iterator<Item = QuotaId> + '_ {
        std::iter::successors(Some(id), |id| self.get(*id).parent)
    }

    pub fn pool(&self, id: PoolId) -> &Pool {
        &self.pools[id.0 as usize]
    }

    /// The elastic quotas that pods of a namespace answer to.
    pub fn of_namespace(&self, namespace: &Name) -> &[QuotaId] {
        self.by_namespace.get(namespace).map_or(&[], Vec::as_slice)
    }

    /// Takes in an elastic quota. Returns the namespaces whose pods answer to other quotas than before.
    pub fn observe_elastic(&mut self, fact: ElasticFact, names: &mut ResourceNames) -> Vec<Name> {
        let ElasticFact { key, namespaces, min, max, fair } = fact;
        let pool = self.pool_of(&key.group, &Name::default());
        let policy = Elastic::new(fair, namespaces.clone(), &min, &max, names);
        let id = self.find_or_insert(key, pool, Policy::Elastic(Elastic::empty(fair)));
        let old = match std::mem::replace(&mut self.get_mut(id).policy, Policy::Elastic(policy.clone())) {
            Policy::Elastic(old) => old,
            _ => Elastic::empty(fair),
        };
        let ledger = self.get(id).ledger.clone();
        let governed: Vec<ResourceId> = self.pools[pool.0 as usize].governed().collect();
        self.pools[pool.0 as usize].count(&old, &ledger, false);
        self.pools[pool.0 as usize].count(&policy, &ledger, true);
        self.mark_pool_anew(pool, &governed);
        self.changed.insert(id);
        self.unmarked.insert(id);
        self.rename_namespaces(id, &old.namespaces, &namespaces)
    }

    /// The number of a quota, which is listed with this policy if it is new.
    fn find_or_insert(&mut self, key: QuotaKey, pool: PoolId, policy: Policy) -> QuotaId {
        if let Some(id) = self.find(&key) {
            return id;
        }
        let (ledger, pods) = (Ledger::default(), BTreeSet::new());
        let quota = Quota { key: key.clone(), pool, parent: None, ledger, policy, pods };
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

    /// Forgets a quota that nothing is charged to any more; its pods answer to others by now.
    pub fn forget(&mut self, id: QuotaId) {
        match self.get(id).policy {
            Policy::Elastic(_) => {}
            Policy::Tree(_) => self.unlist_tree(id),
            Policy::Queue(_) => self.unlist_queue(id),
        }
        let quota = self.list[id.0 as usize].take().expect("a quota is forgotten once");
        debug_assert!(quota.pods.is_empty(), "pods answer to other quotas before theirs is forgotten");
        self.ids.remove(&quota.key);
        if let Some(elastic) = quota.elastic() {
            let governed: Vec<ResourceId> = self.pool(quota.pool).governed().collect();
            self.pools[quota.pool.0 as usize].count(elastic, &quota.ledger, false);
            self.mark_pool_anew(quota.pool, &governed);
        }
        self.changed.remove(&id);
        self.unmarked.remove(&id);
        self.vacant.push(id);
    }

    /// Who is within quota depends on what the pool governs: where that changed, all its pods are looked at again.
    fn mark_pool_anew(&mut self, pool: PoolId, governed_before: &[ResourceId]) {
        if self.pools[pool.0 as usize].governed().eq(governed_before.iter().copied()) {
            return;
        }
        let of_pool = self.ids.values().copied().filter(|id| self.get(*id).pool == pool);
        let of_pool: Vec<QuotaId> = of_pool.collect();
        self.unmarked.extend(of_pool);
    }

    /// Takes all namespaces off an elastic quota. Returns them.
    pub fn release_namespaces(&mut self, id: QuotaId) -> Vec<Name> {
        let Policy::Elastic(elastic) = &mut self.get_mut(id).policy else { return Vec::new() };
        let old = std::mem::take(&mut elastic.namespaces);
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

    fn pool_of(&mut self, group: &Name, tree: &Name) -> PoolId {
        let at = self.pools.iter().position(|pool| pool.group == *group && pool.tree == *tree).unwrap_or_else(|| {
            self.pools.push(Pool::new(group.clone(), tree.clone()));
            self.pools.len() - 1
        });
        PoolId(at as u32)
    }

    /// Puts a quota below another (or below none): what it holds counts there from now on. A link that would close a
    /// circle is not made.
    fn set_parent(&mut self, id: QuotaId, parent: Option<QuotaId>) {
        let parent = parent.filter(|parent| self.path(*parent).all(|above| above != id));
        if self.get(id).parent == parent {
            return;
        }
        let ledger = self.get(id).ledger.clone();
        for (from, add) in [(self.get(id).parent, false), (parent, true)] {
            let above: Vec<QuotaId> = from.into_iter().flat_map(|from| self.path(from)).collect();
            for quota in above {
                self.get_mut(quota).ledger.count(&ledger, add);
                self.changed.insert(quota);
            }
        }
        self.get_mut(id).parent = parent;
    }

    /// Changes the ledgers of a quota and of those above it.
    fn change(&mut self, id: QuotaId, change: impl Fn(&mut Ledger)) {
        let mut at = Some(id);
        while let Some(id) = at {
            let quota = self.list[id.0 as usize].as_mut().expect("a quota's number is used only while it is listed");
            at = quota.parent;
            match &quota.policy {
                Policy::Elastic(elastic) => {
                    let pool = &mut self.pools[quota.pool.0 as usize];
                    pool.count(elastic, &quota.ledger, false);
                    change(&mut quota.ledger);
                    pool.count(elastic, &quota.ledger, true);
                    self.unmarked.insert(id);
                }
                Policy::Tree(_) | Policy::Queue(_) => change(&mut quota.ledger),
            }
        }
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
                if pod.non_preemptible {
                    ledger.fixed.charge(charge, add);
                }
            });
        }
        self.count_outside_trees(pod, charge, add);
    }

    /// Counts what a pod asks for, on a node or not (or no longer).
    pub fn count_request(&mut self, pod: &Pod, charge: &[(ResourceId, Amount)], add: bool) {
        for quota in &pod.quotas {
            match self.get(*quota).policy {
                Policy::Elastic(_) => {}
                Policy::Queue(_) => self.change(*quota, |ledger| ledger.asked.charge(charge, add)),
                Policy::Tree(_) => {
                    self.tree_mut(*quota).asked_own.charge(charge, add);
                    self.change(*quota, |ledger| {
                        ledger.asked.charge(charge, add);
                        if pod.non_preemptible {
                            ledger.fixed_asked.charge(charge, add);
                        }
                    });
                    self.request_changed(*quota, charge.iter().map(|(resource, _)| *resource));
                }
            }
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
            self.changed.insert(*quota);
        }
    }

    /// Counts a waiting pod's claim (or no longer).
    pub fn count_claim(&mut self, pod: &Pod, charge: &[(ResourceId, Amount)], add: bool) {
        for quota in &pod.quotas {
            self.change(*quota, |ledger| ledger.claimed.charge(charge, add));
        }
    }

    /// What nodes hold in all changed.
    pub fn count_node(&mut self, allocatable: &[(ResourceId, Amount)], add: bool) {
        self.total.charge(allocatable, add);
        self.total_changed(allocatable.iter().map(|(resource, _)| *resource));
    }

    /// How well a pod's quotas are served; the best served counts.
    pub fn share(&self, quotas: &[QuotaId]) -> Share {
        let share = |id: &QuotaId| {
            let Quota { ledger, policy, .. } = self.get(*id);
            match policy {
                Policy::Elastic(elastic) => elastic.share(ledger),
                Policy::Tree(tree) => tree.share(ledger),
                Policy::Queue(queue) => queue.share(ledger),
            }
        };
        quotas.iter().map(share).max().unwrap_or(Share::EVEN)
    }

    /// Why the quotas refuse a pod with this charge; the first is the one that counts.
    pub fn refusals(
        &self,
        quotas: &[QuotaId],
        charge: &[(ResourceId, Amount)],
        fixed: bool,
        names: &ResourceNames,
    ) -> Vec<Refusal> {
        let mut refusals: Vec<Refusal> = Vec::new();
        for id in quotas {
            match self.get(*id).policy {
                Policy::Elastic(_) => refusals.extend(self.refused_by(*id, charge, names)),
                Policy::Tree(_) => refusals.extend(self.refused_by_tree(*id, charge, fixed, names)),
                Policy::Queue(_) => refusals.extend(self.refused_by_queue(*id, charge, names)),
            }
        }
        refusals.sort_by_key(|refusal| refusal.code);
        refusals
    }

    /// What is short in the ledgers for a pod with this charge, once those who leave are gone.
    pub fn shortages(&self, quotas: &[QuotaId], charge: &[(ResourceId, Amount)], fixed: bool) -> Vec<Shortage> {
        let short = |id: &QuotaId| match self.get(*id).policy {
            Policy::Elastic(_) => self.short_in(*id, charge),
            Policy::Tree(_) => self.short_in_tree(*id, charge, fixed),
            Policy::Queue(_) => self.short_in_queue(*id, charge),
        };
        quotas.iter().flat_map(short).collect()
    }

    /// Whether holdings in a ledger go down when a pod of these quotas goes.
    pub fn is_charged(&self, ledger: LedgerId, quotas: &[QuotaId]) -> bool {
        quotas.iter().any(|quota| match ledger {
            LedgerId::Quota(id) => self.path(*quota).any(|above| above == id),
            LedgerId::Pool(pool) => self.get(*quota).pool == pool,
            LedgerId::Fixed => false,
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
