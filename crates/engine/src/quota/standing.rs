//! How a claimant stands in a quota, and what a quota is owed: the answers of the policies, side by side.

use crate::decision::Rule;
use crate::fact::Amount;
use crate::quota::{Policy, QuotaId, Quotas};
use crate::resources::ResourceId;

/// How far a quota may be drawn on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    Min,
    FairShare,
    Runtime,
    Deserved,
}

/// By what right a claimant may take from others of its pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entitled {
    pub rule: Rule,
    /// Others keep as much.
    pub bound: Bound,
}

/// How a claimant stands in one of its quotas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Standing {
    /// `None`: it may only borrow what is free.
    pub entitled: Option<Entitled>,
    /// What is compared between the claimant and those it takes from.
    pub compared: Vec<ResourceId>,
    /// Less important pods of the same quota may go for it.
    pub preempts_own: bool,
}

impl Quotas {
    /// How a pod with this charge stands in a quota.
    pub fn standing(&self, id: QuotaId, charge: &[(ResourceId, Amount)]) -> Standing {
        let quota = self.get(id);
        let pool = self.pool(quota.pool);
        let governed = || charge.iter().filter(|(resource, _)| pool.governs(*resource));
        let within = |bound: &dyn Fn(ResourceId) -> i128| {
            governed().all(|(r, amount)| quota.ledger.taken(*r) + i128::from(*amount) <= bound(*r))
        };
        match &quota.policy {
            Policy::Elastic(elastic) => {
                let compared = governed().map(|(resource, _)| *resource).collect();
                let entitled = if within(&|resource| elastic.min(resource)) {
                    Some(Entitled { rule: Rule::ElasticReclaim, bound: Bound::Min })
                } else if elastic.fair
                    && within(&|resource| elastic.min(resource) + self.guaranteed_over_quota(id, resource))
                {
                    Some(Entitled { rule: Rule::ElasticFairShare, bound: Bound::FairShare })
                } else {
                    None
                };
                let preempts_own = entitled.as_ref().is_none_or(|entitled| entitled.bound != Bound::Min);
                Standing { entitled, compared, preempts_own }
            }
            Policy::Tree(tree) => {
                let limited = || charge.iter().filter(|(resource, _)| tree.runtime(*resource).is_some());
                let compared: Vec<ResourceId> = limited().map(|(resource, _)| *resource).collect();
                // Of a resource without a min nothing is owed, least of all if others of the tree have one.
                let is_owed = |(r, a): &(ResourceId, Amount)| {
                    let counts = tree.runtime(*r).is_some() || pool.governs(*r);
                    !counts || quota.ledger.taken(*r) + i128::from(*a) <= tree.min(*r)
                };
                let is_within = charge.iter().all(is_owed);
                let entitled = (is_within && !compared.is_empty())
                    .then_some(Entitled { rule: Rule::TreeReclaim, bound: Bound::Runtime });
                Standing { entitled, compared, preempts_own: true }
            }
            Policy::Queue(_) => {
                let stays_within = |(resource, amount): &&(ResourceId, Amount)| {
                    let deserved = self.deserved(id, *resource);
                    deserved.is_some_and(|d| quota.ledger.taken(*resource) + i128::from(*amount) <= d)
                };
                let compared: Vec<ResourceId> =
                    charge.iter().filter(stays_within).map(|(resource, _)| *resource).collect();
                let entitled = (!compared.is_empty() && self.closed_queue(id).is_none())
                    .then_some(Entitled { rule: Rule::QueueReclaim, bound: Bound::Deserved });
                Standing { entitled, compared, preempts_own: true }
            }
        }
    }

    /// What a quota keeps of a resource, however far it is drawn on; `None` where it is not drawn on for it.
    pub fn due(&self, id: QuotaId, resource: ResourceId, bound: Bound) -> Option<i128> {
        match (&self.get(id).policy, bound) {
            (Policy::Elastic(elastic), Bound::FairShare) => {
                Some(elastic.min(resource) + self.guaranteed_over_quota(id, resource))
            }
            (Policy::Elastic(elastic), _) => Some(elastic.min(resource)),
            (Policy::Tree(tree), _) => tree.runtime(resource),
            (Policy::Queue(queue), _) if queue.fact.reclaimable => self.deserved(id, resource),
            (Policy::Queue(_), _) => None,
        }
    }

    /// What a quota is entitled to of a resource; `None` where it does not speak of it.
    pub fn entitlement(&self, id: QuotaId, resource: ResourceId) -> Option<i128> {
        let quota = self.get(id);
        match &quota.policy {
            Policy::Elastic(_) if !self.pool(quota.pool).governs(resource) => None,
            Policy::Elastic(_) => self.due(id, resource, Bound::FairShare),
            Policy::Tree(tree) => tree.runtime(resource),
            Policy::Queue(_) => self.deserving(id).contains(&resource).then(|| self.deserved(id, resource)).flatten(),
        }
    }

    /// Up to what the pods of a quota are within it: the oldest are, as far as this goes.
    pub fn within_up_to(&self, id: QuotaId) -> Vec<(ResourceId, i128)> {
        let quota = self.get(id);
        match &quota.policy {
            Policy::Elastic(elastic) => self.pool(quota.pool).governed().map(|r| (r, elastic.min(r))).collect(),
            Policy::Tree(tree) => tree.runtimes().collect(),
            Policy::Queue(_) => {
                self.deserving(id).into_iter().filter_map(|r| Some((r, self.deserved(id, r)?))).collect()
            }
        }
    }

    /// What is asked of the quotas above, where a pod of one queue takes from another: below the queue that both are
    /// under, those of the claimant must deserve it and those of the victim hold more than they deserve. `gone` is what
    /// is taken from the victim's before.
    pub fn draws_through(
        &self,
        (claimant, charge): (QuotaId, &[(ResourceId, Amount)]),
        victim: QuotaId,
        compared: &[ResourceId],
        gone: &dyn Fn(ResourceId) -> i128,
    ) -> bool {
        let mine: Vec<QuotaId> = self.path(claimant).collect();
        let theirs: Vec<QuotaId> = self.path(victim).collect();
        let deserves = |level: &QuotaId| {
            let ledger = &self.get(*level).ledger;
            charge.iter().filter(|(r, _)| compared.contains(r)).all(|(r, amount)| {
                self.deserved_above(*level, *r).is_none_or(|d| ledger.taken(*r) + i128::from(*amount) <= d)
            })
        };
        let over = |level: &QuotaId| {
            let ledger = &self.get(*level).ledger;
            compared.iter().any(|r| self.deserved_above(*level, *r).is_none_or(|d| ledger.stays(*r) - gone(*r) > d))
        };
        mine.iter().skip(1).filter(|level| !theirs.contains(level)).all(deserves)
            && theirs.iter().skip(1).filter(|level| !mine.contains(level)).all(over)
    }

    /// Whether a queue, and those above it that the claimant is not under, keep their guarantees when so much goes.
    pub fn keeps_guarantee(&self, claimant: QuotaId, victim: QuotaId, gone: &dyn Fn(ResourceId) -> i128) -> bool {
        let mine: Vec<QuotaId> = self.path(claimant).collect();
        self.path(victim).filter(|level| !mine.contains(level)).all(|level| {
            let quota = self.get(level);
            quota.queue().is_none_or(|queue| {
                queue.guarantee.iter().all(|(r, amount)| quota.ledger.stays(*r) - gone(*r) >= i128::from(*amount))
            })
        })
    }
}
