//! Quotas as people see them.

use crate::decision::Capacity;
use crate::engine::QuotaReport;
use crate::fact::Name;
use crate::pods::Pods;
use crate::quota::fraction::mul_div;
use crate::quota::{QuotaId, Quotas, Seniority};
use crate::resources::{ResourceId, ResourceNames};
use crate::shape::Shapes;

impl Quotas {
    /// The first pod, by seniority, with which the pods of a quota pass its min, among those that count.
    pub fn first_over(
        &self,
        id: QuotaId,
        pods: &Pods,
        shapes: &Shapes,
        counts: impl Fn(&crate::pods::Pod) -> bool,
    ) -> Option<&Seniority> {
        let quota = self.get(id);
        let pool = self.pool(quota.policy.pool);
        let governed: Vec<(ResourceId, i128)> = pool.governed().map(|r| (r, quota.policy.min(r))).collect();
        let mut sums = vec![0i128; governed.len()];
        for senior in &quota.pods {
            let pod = pods.get(senior.pod);
            if !counts(pod) {
                continue;
            }
            for (resource, amount) in &shapes.get(pod.shape).charge {
                if let Some(at) = governed.iter().position(|(r, _)| r == resource) {
                    sums[at] += i128::from(*amount);
                }
            }
            if sums.iter().zip(&governed).any(|(sum, (_, min))| sum > min) {
                return Some(senior);
            }
        }
        None
    }

    /// Whether each running pod of a fair quota is within it.
    pub fn marks(&self, id: QuotaId, pods: &Pods, shapes: &Shapes) -> Vec<(crate::pods::PodId, Capacity)> {
        let quota = self.get(id);
        if !quota.policy.fair {
            return Vec::new();
        }
        let first_over = self.first_over(id, pods, shapes, |pod| pod.running);
        let mark = |senior: &Seniority| {
            let over = first_over.is_some_and(|first| senior >= first);
            (senior.pod, if over { Capacity::OverQuota } else { Capacity::InQuota })
        };
        quota.pods.iter().filter(|senior| pods.get(senior.pod).running).map(mark).collect()
    }

    pub fn report(&self, id: QuotaId, names: &ResourceNames) -> QuotaReport {
        let quota = self.get(id);
        let policy = &quota.policy;
        let pool = self.pool(policy.pool);
        let mut resources: Vec<(Name, ResourceId)> =
            (0..names.len()).map(|i| ResourceId(i as u16)).map(|r| (names.name(r).clone(), r)).collect();
        resources.sort();
        let named = |limits: &[(ResourceId, i64)]| {
            let mut named: Vec<(Name, i128)> =
                limits.iter().map(|(r, amount)| (names.name(*r).clone(), i128::from(*amount))).collect();
            named.sort();
            named
        };
        let is_named = |r: ResourceId| policy.min.iter().chain(&policy.max).any(|(n, _)| *n == r);
        // Every pod is one of `pods`; that is worth saying only where the quota speaks of it.
        let shown = |r: ResourceId| r != crate::resources::PODS_ID || is_named(r);
        let amounts = |of: &dyn Fn(ResourceId) -> i128| {
            let all = resources.iter().filter(|(_, r)| shown(*r)).map(|(name, r)| (name.clone(), of(*r)));
            all.filter(|(_, amount)| *amount != 0).collect::<Vec<_>>()
        };
        let governed = |r: ResourceId, amount: i128| if pool.governs(r) { amount } else { 0 };
        let over = |r: ResourceId| governed(r, (quota.ledger.used.get(r) - policy.min(r)).max(0));
        let pool_over = |r: ResourceId| (pool.ledger.used.get(r) - (pool.min.get(r) - pool.unused.get(r))).max(0);
        QuotaReport {
            key: quota.key.clone(),
            policy: if policy.fair { "elastic-fair" } else { "elastic" },
            min: named(&policy.min),
            max: named(&policy.max),
            used: amounts(&|r| quota.ledger.used.get(r)),
            used_running: amounts(&|r| quota.ledger.running.get(r)),
            entitlement: amounts(&|r| governed(r, self.entitlement(id, r))),
            borrowed: amounts(&over),
            // What is borrowed in the pool comes from those who leave some of their min unused, in proportion to it.
            lent: amounts(&|r| {
                let mine = governed(r, (policy.min(r) - quota.ledger.used.get(r)).max(0));
                let unused = pool.unused.get(r);
                if unused == 0 { 0 } else { mul_div(mine, pool_over(r).min(unused), unused) }
            }),
            ..QuotaReport::default()
        }
    }
}
