//! Which pods are within their quota, by seniority, and which are over it.

use crate::decision::Capacity;
use crate::pods::{Pod, PodId, Pods};
use crate::policy::{QuotaId, Quotas, Seniority};
use crate::resources::ResourceId;
use crate::shape::Shapes;

impl Quotas {
    /// The first pod, by seniority, with which the pods of a quota pass what it is entitled to of what is compared,
    /// among those that count.
    pub fn first_over(
        &self,
        id: QuotaId,
        pods: &Pods,
        shapes: &Shapes,
        compares: impl Fn(ResourceId) -> bool,
        counts: impl Fn(&Pod) -> bool,
    ) -> Option<&Seniority> {
        let mut limits = self.within(id);
        limits.retain(|(resource, _)| compares(*resource));
        let mut sums = vec![0i128; limits.len()];
        for senior in self.get(id).pods.iter() {
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
    pub fn marks(&self, id: QuotaId, pods: &Pods, shapes: &Shapes) -> Vec<(PodId, Capacity)> {
        let quota = self.get(id);
        if !self.marks_pods(id) {
            return Vec::new();
        }
        let first_over = self.first_over(id, pods, shapes, |_| true, |pod| pod.running);
        let mark = |senior: &Seniority| {
            let over = first_over.is_some_and(|first| senior >= first);
            (senior.pod, if over { Capacity::OverQuota } else { Capacity::InQuota })
        };
        quota.pods.iter().filter(|senior| pods.get(senior.pod).running).map(mark).collect()
    }
}
