//! Who is within what a quota is entitled to: the oldest of its pods, as far as that goes.

use std::cell::RefCell;

use crate::lookup::LookupMap;
use crate::pods::{Pod, PodId};
use crate::policy::{QuotaId, Seniority, seniority};
use crate::preempt::rights::Rights;
use crate::resources::ResourceId;
use crate::world::World;

/// Which pods of a quota are within what it is entitled to.
#[derive(Debug, Clone)]
enum Within {
    /// It is entitled to nothing of what the claimant requests, such as a queue with a capability alone.
    Nobody,
    /// Those before this one, by seniority.
    Before(Seniority),
    Everybody,
}

/// What was worked out for a search.
#[derive(Debug, Clone, Default)]
pub(super) struct Seniors {
    /// For quotas that were asked about: which pods are within what the quota is entitled to, among pods that stay; and
    /// the first that is beyond it of those that say they must not be evicted. Worked out when first needed, since a
    /// search looks at pods of few quotas.
    within: RefCell<LookupMap<QuotaId, Within>>,
    first_unprotected: RefCell<LookupMap<QuotaId, Option<Seniority>>>,
    /// The same over all that the quota governs, as pods are marked.
    first_marked: RefCell<LookupMap<QuotaId, Option<Seniority>>>,
}

impl World {
    /// Whether a pod is within its quota's entitlement by seniority, as far as the claimant's resources are concerned.
    pub fn is_within(&self, rights: &Rights, victim: PodId, quota: QuotaId) -> bool {
        let mut known = rights.seniors.within.borrow_mut();
        let within = known.or_insert_with(quota, || {
            let asked = |resource| rights.requests(resource);
            let mut requested = rights.charge.iter().filter(|(resource, _)| asked(*resource));
            if !requested.any(|(resource, _)| self.quotas.entitlement(quota, *resource).is_some()) {
                return Within::Nobody;
            }
            let first = self.quotas.first_over(quota, &self.pods, &self.shapes, asked, |pod| !pod.is_leaving());
            first.map_or(Within::Everybody, |first| Within::Before(first.clone()))
        });
        match within {
            Within::Nobody => false,
            Within::Before(first) => self.seniority(victim) < *first,
            Within::Everybody => true,
        }
    }

    fn seniority(&self, pod: PodId) -> Seniority {
        seniority(pod, self.pods.get(pod), &self.charge_of(pod), &self.names)
    }

    /// Whether a pod says that it must not be evicted, and is one of the oldest such pods that one of its quotas is
    /// entitled to. What a borrower says of its pod protects nothing.
    pub(super) fn is_protected(&self, rights: &Rights, victim: PodId) -> bool {
        let pod = self.pods.get(victim);
        if !pod.is_never_evicted() {
            return false;
        }
        let mut binding = pod.quotas.iter().filter(|quota| !self.quotas.is_plain(**quota)).peekable();
        if binding.peek().is_none() {
            // A queue that says nothing is entitled to nothing of what others are owed.
            let owes = |quota: &QuotaId| rights.compared_in(*quota, self).is_some_and(|compared| !compared.is_empty());
            return !pod.quotas.iter().any(owes);
        }
        binding.any(|quota| {
            if pod.node().is_none() {
                let speaks = self.quotas.within(*quota).iter().any(|(resource, _)| rights.requests(*resource));
                return speaks && self.would_be_within(victim, *quota, |r| rights.requests(r), Pod::is_never_evicted);
            }
            let mut known = rights.seniors.first_unprotected.borrow_mut();
            let first = known.or_insert_with(*quota, || {
                self.first_unprotected(*quota, |resource| rights.requests(resource)).cloned()
            });
            first.as_ref().is_none_or(|first| self.seniority(victim) < *first)
        })
    }

    /// The first, by seniority, of a quota's pods that say they must not be evicted with which such pods pass what the
    /// quota is entitled to.
    pub fn first_unprotected(&self, id: QuotaId, asked: impl Fn(ResourceId) -> bool) -> Option<&Seniority> {
        let kept = |pod: &Pod| pod.is_never_evicted() && !pod.is_leaving();
        let mut pods = self.quotas.get(id).pods.iter().filter(|senior| kept(self.pods.get(senior.pod)));
        let named = self.quotas.within(id).into_iter().map(|(resource, _)| resource).filter(|r| asked(*r));
        let mut left: Vec<(ResourceId, i128)> =
            named.filter_map(|resource| Some((resource, self.quotas.entitlement(id, resource)?))).collect();
        pods.find(|senior| {
            for (resource, left) in &mut left {
                *left -= self.charged(senior.pod, *resource);
            }
            left.is_empty() || left.iter().any(|(_, left)| *left < 0)
        })
    }

    /// Whether a pod that waits would be within what a quota is entitled to once it runs: together with its seniors of
    /// those that count.
    fn would_be_within(
        &self,
        waiting: PodId,
        quota: QuotaId,
        compares: impl Fn(ResourceId) -> bool,
        counts: impl Fn(&Pod) -> bool,
    ) -> bool {
        let own = self.seniority(waiting);
        let stays = |pod: &Pod| counts(pod) && !pod.is_leaving();
        let seniors = self.quotas.get(quota).pods.iter().take_while(|senior| **senior < own);
        let seniors: Vec<PodId> =
            seniors.map(|senior| senior.pod).filter(|senior| stays(self.pods.get(*senior))).collect();
        let mut limits = self.quotas.within(quota).into_iter().filter(|(resource, _)| compares(*resource));
        limits.all(|(resource, limit)| {
            let held: i128 = seniors.iter().map(|senior| self.charged(*senior, resource)).sum();
            held + self.charged(waiting, resource) <= limit
        })
    }

    /// Whether a fair quota counts a pod as in-quota, over all that it governs.
    pub(super) fn is_marked_within(&self, rights: &Rights, victim: PodId, quota: QuotaId) -> bool {
        if self.pods.get(victim).node().is_none() {
            return self.would_be_within(victim, quota, |_| true, |_| true);
        }
        let mut known = rights.seniors.first_marked.borrow_mut();
        let first = known.or_insert_with(quota, || {
            self.quotas.first_over(quota, &self.pods, &self.shapes, |_| true, |pod| !pod.is_leaving()).cloned()
        });
        first.as_ref().is_none_or(|first| self.seniority(victim) < *first)
    }
}
