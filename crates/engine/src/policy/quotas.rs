//! Quotas: who holds how much.
//!
//! A quota is a ledger and a policy. The ledgers are kept here, for all policies alike: what a quota holds, the quotas
//! above it hold too. What a quota may hold, and is entitled to, its policy says.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::fact::{Amount, Created, Name, QuotaKey};
use crate::ledger::Ledger;
use crate::ledger::pool::{Pool, PoolId};
use crate::ledger::sums::Sums;
use crate::pods::{Pod, PodId};
use crate::policy::queue::lent::Lent;
use crate::policy::{Moved, Policy, Shared};
use crate::reason::QuotaPath;
use crate::resources::{ResourceId, ResourceNames};
use crate::sign::Sign;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct QuotaId(pub u32);

/// What is counted of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    Used,
    Leaving,
    Reserved,
}

impl Counted {
    /// The sums of a ledger in which it counts.
    pub fn of(self, ledger: &mut Ledger) -> &mut Sums {
        match self {
            Counted::Used => &mut ledger.used,
            Counted::Leaving => &mut ledger.leaving,
            Counted::Reserved => &mut ledger.reserved,
        }
    }
}

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

#[derive(Debug, Clone)]
pub(crate) struct Quota {
    pub key: QuotaKey,
    /// The quotas among which what is not used is lent and borrowed.
    pub pool: PoolId,
    /// The quota above it.
    pub parent: Option<QuotaId>,
    pub ledger: Ledger,
    pub(super) policy: Policy,
    /// The pods on nodes that answer to it directly, by seniority.
    pub pods: Arc<BTreeSet<Seniority>>,
}

/// All quotas.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quotas {
    list: Vec<Option<Quota>>,
    vacant: Vec<QuotaId>,
    ids: BTreeMap<QuotaKey, QuotaId>,
    pub(super) pools: Vec<Pool>,
    pub(super) shared: Shared,
    /// What all nodes hold.
    pub(super) total: Sums,
    /// What came of changes since this was last asked.
    pub(super) moved: Moved,
    /// Quotas whose pods may be marked anew.
    pub(super) unmarked: BTreeSet<QuotaId>,
    /// Queues and quotas of trees that do not say who may use them may be used by nobody.
    pub(super) listed_only: bool,
}

impl Quotas {
    pub fn get(&self, id: QuotaId) -> &Quota {
        self.list[id.0 as usize].as_ref().expect("a quota's number is used only while it is listed")
    }

    pub(super) fn get_mut(&mut self, id: QuotaId) -> &mut Quota {
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

    /// A quota as people see it, with those above it.
    pub fn quota_path(&self, id: QuotaId) -> QuotaPath {
        let mut path: Vec<Name> = self.path(id).map(|level| Name::from(self.shown(level))).collect();
        path.reverse();
        QuotaPath { policy: self.kind(id), path }
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

    /// The number of a quota, which is listed with this policy if it is new.
    pub(super) fn find_or_insert(&mut self, key: QuotaKey, pool: PoolId, policy: Policy) -> QuotaId {
        if let Some(id) = self.find(&key) {
            return id;
        }
        let (ledger, pods) = (Ledger::default(), Arc::default());
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
        self.unlist(id);
        let quota = self.list[id.0 as usize].take().expect("a quota is forgotten once");
        debug_assert!(quota.pods.is_empty(), "pods answer to other quotas before theirs is forgotten");
        self.ids.remove(&quota.key);
        if let Some(min) = quota.policy.pooled() {
            self.change_pool(quota.pool, |pool| pool.count(min, &quota.ledger, Sign::Take));
        }
        self.moved.shares.remove(&id);
        self.unmarked.remove(&id);
        self.vacant.push(id);
    }

    /// Changes what quotas bring into a pool. Who is within quota depends on what the pool governs: where that changed,
    /// all its pods are marked anew.
    pub(super) fn change_pool(&mut self, id: PoolId, change: impl FnOnce(&mut Pool)) {
        let pool = &mut self.pools[id.0 as usize];
        let governed: Vec<ResourceId> = pool.governed().collect();
        change(pool);
        if !pool.governed().eq(governed) {
            let of_pool = self.ids.values().copied().filter(|quota| self.get(*quota).pool == id);
            let of_pool: Vec<QuotaId> = of_pool.collect();
            self.unmarked.extend(of_pool);
        }
    }

    /// The pool of a part of a group's quotas.
    pub(super) fn pool_of(&mut self, group: &Name, part: &Name) -> PoolId {
        let at = self.pools.iter().position(|pool| pool.group == *group && pool.part == *part).unwrap_or_else(|| {
            self.pools.push(Pool::new(group.clone(), part.clone()));
            self.pools.len() - 1
        });
        PoolId(at as u32)
    }

    /// Puts a quota below another (or below none): what it holds counts there from now on. A link that would close a
    /// circle is not made.
    pub(super) fn set_parent(&mut self, id: QuotaId, parent: Option<QuotaId>) {
        let parent = parent.filter(|parent| self.path(*parent).all(|above| above != id));
        if self.get(id).parent == parent {
            return;
        }
        let ledger = self.get(id).ledger.clone();
        for (from, sign) in [(self.get(id).parent, Sign::Take), (parent, Sign::Add)] {
            let above: Vec<QuotaId> = from.into_iter().flat_map(|from| self.path(from)).collect();
            self.change_from(from, Lent::default(), |level| level.count(&ledger, sign));
            self.moved.shares.extend(above);
        }
        self.get_mut(id).parent = parent;
    }

    /// Changes the ledgers of a quota and of those above it, by amounts that are added or taken off.
    pub(super) fn change(&mut self, id: QuotaId, change: impl Fn(&mut Ledger)) {
        self.change_from(Some(id), Lent::default(), change);
    }

    /// The same from some level on, below which queues leave so much more of what they are guaranteed.
    pub(super) fn change_from(&mut self, from: Option<QuotaId>, mut lent: Lent, change: impl Fn(&mut Ledger)) {
        let mut at = from;
        while let Some(id) = at {
            let quota = self.list[id.0 as usize].as_mut().expect("a quota's number is used only while it is listed");
            at = quota.parent;
            if let Policy::Queue(queue) = &mut quota.policy {
                lent = queue.change_ledger(&mut quota.ledger, &lent, &change);
                continue;
            }
            match quota.policy.pooled() {
                Some(min) => {
                    let pool = &mut self.pools[quota.pool.0 as usize];
                    pool.count_unused(min, &quota.ledger, Sign::Take);
                    change(&mut quota.ledger);
                    change(&mut pool.ledger);
                    pool.count_unused(min, &quota.ledger, Sign::Add);
                    self.unmarked.insert(id);
                }
                None => change(&mut quota.ledger),
            }
        }
        self.lend_at_top(&lent);
    }

    /// Charges a pod on a node to its quotas (or no longer).
    pub fn charge(&mut self, id: PodId, pod: &Pod, charge: &[(ResourceId, Amount)], sign: Sign, names: &ResourceNames) {
        for quota in &pod.quotas {
            let seniority = seniority(id, pod, charge, names);
            let pods = Arc::make_mut(&mut self.get_mut(*quota).pods);
            if sign.is_add() {
                pods.insert(seniority)
            } else {
                pods.remove(&seniority)
            };
        }
        self.charge_amounts(pod, charge, sign);
    }

    /// The same of the amounts alone, for a look: who holds them is not listed.
    pub fn charge_amounts(&mut self, pod: &Pod, charge: &[(ResourceId, Amount)], sign: Sign) {
        for quota in &pod.quotas {
            self.moved.shares.insert(*quota);
            self.change(*quota, |ledger| {
                ledger.used.charge(charge, sign);
                if pod.running {
                    ledger.running.charge(charge, sign);
                }
                if pod.is_leaving() {
                    ledger.leaving.charge(charge, sign);
                }
                if pod.is_non_preemptible() {
                    ledger.non_preemptible.charge(charge, sign);
                }
            });
        }
        self.counted(&pod.quotas, Counted::Used, charge, sign);
        if pod.is_leaving() {
            self.counted(&pod.quotas, Counted::Leaving, charge, sign);
        }
        self.count_shared(&pod.quotas, sign);
    }

    /// Counts what a pod requests, on a node or not (or no longer).
    pub fn count_request(&mut self, pod: &Pod, charge: &[(ResourceId, Amount)], sign: Sign) {
        for quota in &pod.quotas {
            if !self.counts_requests(*quota) {
                continue;
            }
            self.change(*quota, |ledger| {
                ledger.requested.charge(charge, sign);
                if pod.is_non_preemptible() {
                    ledger.non_preemptible_requested.charge(charge, sign);
                }
            });
            self.request_counted(*quota, charge, sign);
        }
    }

    /// A pod on a node began to run, or no longer does.
    pub fn count_running(&mut self, pod: &Pod, charge: &[(ResourceId, Amount)], sign: Sign) {
        for quota in &pod.quotas {
            self.change(*quota, |ledger| ledger.running.charge(charge, sign));
        }
    }

    /// A pod on a node began to leave, or stays after all.
    pub fn count_leaving(&mut self, pod: &Pod, charge: &[(ResourceId, Amount)], sign: Sign) {
        for quota in &pod.quotas {
            self.change(*quota, |ledger| ledger.leaving.charge(charge, sign));
            self.moved.shares.insert(*quota);
        }
        self.counted(&pod.quotas, Counted::Leaving, charge, sign);
    }

    /// Counts a waiting pod's reservation (or no longer).
    pub fn count_reservation(&mut self, pod: &Pod, charge: &[(ResourceId, Amount)], sign: Sign) {
        for quota in &pod.quotas {
            self.change(*quota, |ledger| {
                ledger.reserved.charge(charge, sign);
                if pod.is_non_preemptible() {
                    ledger.non_preemptible_reserved.charge(charge, sign);
                }
            });
        }
        self.counted(&pod.quotas, Counted::Reserved, charge, sign);
        self.count_shared(&pod.quotas, sign);
    }

    /// What nodes hold in all changed.
    pub fn count_node(&mut self, allocatable: &[(ResourceId, Amount)], sign: Sign) {
        self.total.charge(allocatable, sign);
        self.total_changed(allocatable.iter().map(|(resource, _)| *resource));
    }

    /// Counts what is reserved for a group in its quota, and what it could give back (or no longer).
    pub fn count_gang(
        &mut self,
        quota: Option<QuotaId>,
        reserved: &[(ResourceId, Amount)],
        surplus: &[(ResourceId, Amount)],
        sign: Sign,
    ) {
        let Some(quota) = quota.filter(|id| self.is_listed(*id)) else { return };
        self.change(quota, |ledger| {
            ledger.reserved_for_groups.charge(reserved, sign);
            ledger.gang_surplus.charge(surplus, sign);
        });
    }

    /// Notes that a pod of these quotas was given something: where holdings decide what others may claim, they may
    /// claim something else now.
    pub fn note_given(&mut self, quotas: &[QuotaId]) {
        for quota in quotas {
            if !self.is_shared_out(*quota) {
                let pool = self.get(*quota).pool;
                self.moved.drawn_on.insert(pool);
            }
        }
    }

    /// Whether anything came of changes since it was last taken.
    pub fn has_moved(&self) -> bool {
        let Moved { shares, limits, gates, drawn_on } = &self.moved;
        *limits || !shares.is_empty() || !gates.is_empty() || !drawn_on.is_empty()
    }

    /// What came of changes since this was last asked.
    pub fn take_moved(&mut self) -> Moved {
        std::mem::take(&mut self.moved)
    }

    /// Quotas whose pods may be marked anew, since this was last asked.
    pub fn take_unmarked(&mut self) -> BTreeSet<QuotaId> {
        std::mem::take(&mut self.unmarked)
    }

    /// These, with what all may hold worked out.
    pub fn fresh(&self) -> Cow<'_, Quotas> {
        if !self.is_stale() {
            return Cow::Borrowed(self);
        }
        let mut fresh = self.clone();
        fresh.refresh();
        Cow::Owned(fresh)
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
