//! Quotas as people see them.

use std::collections::BTreeMap;

use crate::decision::Capacity;
use crate::engine::QuotaReport;
use crate::fact::Name;
use crate::pods::Pods;
use crate::quota::amounts::Sums;
use crate::quota::elastic::PoolId;
use crate::quota::fraction::mul_div;
use crate::quota::standing::Bound;
use crate::quota::{Policy, QuotaId, Quotas, Seniority};
use crate::resources::{ResourceId, ResourceNames};
use crate::shape::Shapes;

/// By pool and parent: what is held beyond what is due, and what is left of it.
pub(crate) type Lending = BTreeMap<(PoolId, Option<QuotaId>), (Sums, Sums)>;

impl Quotas {
    /// The first pod, by seniority, with which the pods of a quota pass what it is owed, among those that count.
    pub fn first_over(
        &self,
        id: QuotaId,
        pods: &Pods,
        shapes: &Shapes,
        counts: impl Fn(&crate::pods::Pod) -> bool,
    ) -> Option<&Seniority> {
        let limits = self.within_up_to(id);
        let mut sums = vec![0i128; limits.len()];
        for senior in &self.get(id).pods {
            let pod = pods.get(senior.pod);
            if !counts(pod) {
                continue;
            }
            for (resource, amount) in shapes.get(pod.shape).charge.iter().chain(&pod.cards) {
                if let Some(at) = limits.iter().position(|(r, _)| r == resource) {
                    sums[at] += i128::from(*amount);
                }
            }
            if sums.iter().zip(&limits).any(|(sum, (_, limit))| sum > limit) {
                return Some(senior);
            }
        }
        None
    }

    /// Whether each running pod of a fair quota is within it.
    pub fn marks(&self, id: QuotaId, pods: &Pods, shapes: &Shapes) -> Vec<(crate::pods::PodId, Capacity)> {
        let quota = self.get(id);
        if !quota.marks_pods() {
            return Vec::new();
        }
        let first_over = self.first_over(id, pods, shapes, |pod| pod.running);
        let mark = |senior: &Seniority| {
            let over = first_over.is_some_and(|first| senior >= first);
            (senior.pod, if over { Capacity::OverQuota } else { Capacity::InQuota })
        };
        quota.pods.iter().filter(|senior| pods.get(senior.pod).running).map(mark).collect()
    }

    /// What siblings hold beyond their due, and what they leave of it, by what they are below: what one lends, another
    /// holds.
    pub fn lending(&self) -> Lending {
        let mut lending = Lending::default();
        for (id, quota) in self.iter() {
            let due = self.lendable(id);
            if due.is_empty() {
                continue;
            }
            let (over, unused) = lending.entry((quota.pool, quota.parent)).or_default();
            for (resource, due) in due {
                let used = quota.ledger.used.get(resource);
                over.add(resource, (used - due).max(0));
                unused.add(resource, (due - used).max(0));
            }
        }
        lending
    }

    /// What a quota of a tree or a queue could lend: its min, or what it deserves.
    fn lendable(&self, id: QuotaId) -> Vec<(ResourceId, i128)> {
        match &self.get(id).policy {
            Policy::Elastic(_) => Vec::new(),
            Policy::Tree(tree) => tree.runtimes().map(|(resource, _)| (resource, tree.min(resource))).collect(),
            Policy::Queue(_) => self.within_up_to(id),
        }
    }

    /// Of what a quota could lend, what its siblings hold: in proportion to what each leaves.
    fn lent(&self, id: QuotaId, lending: &Lending, resource: ResourceId) -> i128 {
        let quota = self.get(id);
        let due = self.lendable(id).iter().find(|(r, _)| *r == resource).map_or(0, |(_, due)| *due);
        let mine = (due - quota.ledger.used.get(resource)).max(0);
        let Some((over, unused)) = lending.get(&(quota.pool, quota.parent)) else { return 0 };
        let (over, unused) = (over.get(resource), unused.get(resource));
        if unused == 0 { 0 } else { mul_div(mine, over.min(unused), unused) }
    }

    pub fn report(&self, id: QuotaId, lending: &Lending, names: &ResourceNames) -> QuotaReport {
        let quota = self.get(id);
        let ledger = &quota.ledger;
        let mut resources: Vec<(Name, ResourceId)> =
            (0..names.len()).map(|i| ResourceId(i as u16)).map(|r| (names.name(r).clone(), r)).collect();
        resources.sort();
        let named = |limits: &mut dyn Iterator<Item = (ResourceId, i128)>| {
            let mut named: Vec<(Name, i128)> = limits.map(|(r, amount)| (names.name(r).clone(), amount)).collect();
            named.sort();
            named
        };
        let listed = |limits: &[(ResourceId, i64)]| named(&mut limits.iter().map(|(r, a)| (*r, i128::from(*a))));
        let (min, max): (&[_], Vec<_>) = match &quota.policy {
            Policy::Elastic(elastic) => (&elastic.min, elastic.max.clone()),
            Policy::Tree(tree) => (&tree.min, tree.max.clone()),
            Policy::Queue(queue) => {
                let cards = queue.cards.iter().flatten();
                (&queue.guarantee, queue.capability.iter().chain(cards).copied().collect())
            }
        };
        let is_named = |r: ResourceId| min.iter().chain(&max).any(|(n, _)| *n == r);
        // Every pod is one of `pods`; that is worth saying only where the quota speaks of it.
        let shown = |r: ResourceId| r != crate::resources::PODS_ID || is_named(r);
        let amounts = |of: &dyn Fn(ResourceId) -> i128| {
            let all = resources.iter().filter(|(_, r)| shown(*r)).map(|(name, r)| (name.clone(), of(*r)));
            all.filter(|(_, amount)| *amount != 0).collect::<Vec<_>>()
        };
        let entitlement = |r: ResourceId| self.entitlement(id, r);
        let mut report = QuotaReport {
            key: quota.key.clone(),
            parent: quota.parent.map(|parent| self.get(parent).key.clone()),
            min: listed(min),
            max: listed(&max),
            used: amounts(&|r| ledger.used.get(r)),
            used_running: amounts(&|r| ledger.running.get(r)),
            entitlement: amounts(&|r| entitlement(r).unwrap_or(0)),
            // A fair share protects from others' fair shares, and not from those who are within their min.
            reclaimable: amounts(&|r| {
                let kept = entitlement(r).and_then(|_| self.due(id, r, Bound::Min));
                kept.map_or(0, |kept| (ledger.used.get(r) - kept).max(0))
            }),
            ..QuotaReport::default()
        };
        match &quota.policy {
            Policy::Elastic(policy) => {
                let pool = self.pool(quota.pool);
                let governed = |r: ResourceId, amount: i128| if pool.governs(r) { amount } else { 0 };
                let over = |r: ResourceId| (pool.ledger.used.get(r) - (pool.min.get(r) - pool.unused.get(r))).max(0);
                report.policy = if policy.fair { "elastic-fair" } else { "elastic" };
                report.borrowed = amounts(&|r| governed(r, (ledger.used.get(r) - policy.min(r)).max(0)));
                // What is borrowed in the pool comes from those who leave some of their min unused, in proportion.
                report.lent = amounts(&|r| {
                    let mine = governed(r, (policy.min(r) - ledger.used.get(r)).max(0));
                    let unused = pool.unused.get(r);
                    if unused == 0 { 0 } else { mul_div(mine, over(r).min(unused), unused) }
                });
            }
            Policy::Tree(tree) => {
                report.policy = "tree";
                report.tree = Some(tree.fact.tree.clone()).filter(|tree| !tree.is_empty());
                let limited = |r: ResourceId, amount: i128| if tree.runtime(r).is_some() { amount } else { 0 };
                report.runtime = named(&mut tree.runtimes().filter(|(r, _)| shown(*r)));
                report.requested = amounts(&|r| tree.request(r));
                report.child_requested = amounts(&|r| tree.child_request(r));
                report.non_preemptible_used = amounts(&|r| ledger.fixed.get(r));
                report.non_preemptible_requested = amounts(&|r| ledger.fixed_asked.get(r));
                report.borrowed = amounts(&|r| limited(r, (ledger.used.get(r) - tree.min(r)).max(0)));
                report.lent = amounts(&|r| self.lent(id, lending, r));
            }
            Policy::Queue(_) => {
                report.policy = "queue";
                report.requested = amounts(&|r| ledger.asked.get(r));
                report.borrowed = amounts(&|r| entitlement(r).map_or(0, |owed| (ledger.used.get(r) - owed).max(0)));
                report.lent = amounts(&|r| self.lent(id, lending, r));
            }
        }
        report
    }
}
