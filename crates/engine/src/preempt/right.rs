//! Who may evict whom, by what each claimant and victim is owed.

use std::cell::RefCell;

use crate::decision::Rule;
use crate::fact::Amount;
use crate::lookup::LookupMap;
use crate::nodes::NodeId;
use crate::pods::{Place, PodId, QuotaOf, Resident};
use crate::quota::elastic::Standing;
use crate::quota::fraction::mul_div;
use crate::quota::{QuotaId, Seniority, seniority};
use crate::relations::Effects;
use crate::resources::ResourceId;
use crate::world::World;

/// How far a quota may be drawn on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    Min,
    FairShare,
}

/// A right to evict a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Right {
    pub rule: Rule,
    /// For a claim on what others hold beyond their due: the quota that is drawn on, and how far that may go.
    pub from: Option<(QuotaId, Bound)>,
}

/// What a claimant may do, worked out once for a search.
#[derive(Debug, Clone)]
pub(crate) struct Rights {
    pub claimant: PodId,
    pub priority: i32,
    charge: Vec<(ResourceId, Amount)>,
    own: Vec<(QuotaId, Standing)>,
    /// For quotas that were asked about: where their seniority passes min, among pods that are not leaving. Worked out
    /// when it is first needed, since a search looks at pods of few quotas.
    first_over: RefCell<LookupMap<QuotaId, Option<Seniority>>>,
    /// The quotas of others that hold more than their due.
    pub drawable: Vec<QuotaId>,
    /// The same by number, for a search that asks of every pod.
    is_drawable: Vec<bool>,
}

impl Rights {
    /// Whether pods that are not less important could have to go.
    pub fn could_reclaim(&self) -> bool {
        !self.drawable.is_empty()
    }

    /// Whether a pod on a node could be a victim, by what is known of it at a glance.
    pub fn might_take(&self, resident: &Resident) -> bool {
        let lower = resident.priority < self.priority;
        !resident.leaving
            && match resident.quota {
                QuotaOf::None => lower && self.own.is_empty(),
                QuotaOf::One(quota) => match self.own.iter().find(|(own, _)| *own == quota) {
                    Some((_, standing)) => lower && *standing != Standing::WithinMin,
                    None => self.is_drawable.get(quota.0 as usize).is_some_and(|drawable| *drawable),
                },
                QuotaOf::Several => !self.own.is_empty(),
            }
    }
}

impl World {
    /// What a waiting pod may do to others.
    pub fn rights(&self, claimant: PodId) -> Rights {
        let pod = self.pods.get(claimant);
        let charge = self.shapes.get(pod.shape).charge.clone();
        let own: Vec<(QuotaId, Standing)> =
            pod.quotas.iter().map(|quota| (*quota, self.quotas.standing(*quota, &charge))).collect();
        let mut rights = Rights {
            claimant,
            priority: pod.priority,
            charge,
            own,
            first_over: RefCell::default(),
            drawable: Vec::new(),
            is_drawable: Vec::new(),
        };
        if !rights.own.is_empty() {
            for (id, quota) in self.quotas.iter() {
                let claims = |(own, standing): &(QuotaId, Standing)| {
                    *standing != Standing::Beyond && self.quotas.get(*own).policy.pool == quota.policy.pool
                };
                if rights.own.iter().any(claims)
                    && rights.own.iter().all(|(own, _)| *own != id)
                    && self.is_concerned(&rights, id)
                {
                    rights.drawable.push(id);
                }
            }
            rights.drawable.sort_unstable();
            let limit = rights.drawable.last().map_or(0, |last| last.0 as usize + 1);
            rights.is_drawable = vec![false; limit];
            for quota in &rights.drawable {
                rights.is_drawable[quota.0 as usize] = true;
            }
        }
        rights
    }

    /// Whether a quota has pods, and holds more than its min of something the claimant asks for.
    fn is_concerned(&self, rights: &Rights, id: QuotaId) -> bool {
        !self.quotas.get(id).pods.is_empty() && self.is_over(rights, id, Bound::Min, &|_| 0)
    }

    /// Whether a quota holds more than its due of something the claimant asks for, after `taken` of it are gone.
    fn is_over(&self, rights: &Rights, id: QuotaId, bound: Bound, taken: &dyn Fn(ResourceId) -> i128) -> bool {
        self.over(rights, id, bound, taken).next().is_some()
    }

    fn over<'a>(
        &'a self,
        rights: &'a Rights,
        id: QuotaId,
        bound: Bound,
        taken: &'a dyn Fn(ResourceId) -> i128,
    ) -> impl Iterator<Item = ResourceId> + 'a {
        let quota = self.quotas.get(id);
        let pool = self.quotas.pool(quota.policy.pool);
        let asked = rights.charge.iter().map(|(resource, _)| *resource).filter(|r| pool.governs(*r));
        asked.filter(move |r| {
            let held = quota.ledger.used.get(*r) - quota.ledger.leaving.get(*r) - taken(*r);
            held > match bound {
                Bound::Min => quota.policy.min(*r),
                Bound::FairShare => self.quotas.entitlement(id, *r),
            }
        })
    }

    /// Whether a pod is within its quota's min by seniority.
    pub fn is_within(&self, rights: &Rights, victim: PodId, quota: QuotaId) -> bool {
        let mut known = rights.first_over.borrow_mut();
        let first = known.or_insert_with(quota, || {
            let asked = rights.own.iter().any(|(own, _)| *own == quota) || self.is_concerned(rights, quota);
            let first = || self.quotas.first_over(quota, &self.pods, &self.shapes, |pod| !pod.is_leaving());
            asked.then(first).flatten().cloned()
        });
        first.as_ref().is_none_or(|first| {
            let pod = self.pods.get(victim);
            seniority(victim, pod, &self.shapes.get(pod.shape).charge, &self.names) < *first
        })
    }

    /// The right of the claimant to evict a pod, if it has one.
    pub fn right(&self, rights: &Rights, victim: PodId) -> Option<Right> {
        let pod = self.pods.get(victim);
        let lower = pod.priority < rights.priority;
        if rights.own.is_empty() {
            return (pod.quotas.is_empty() && lower).then_some(Right { rule: Rule::Priority, from: None });
        }
        // Under a quota that both answer to, only the less important make room, whatever another pool says.
        if !lower && rights.own.iter().any(|(own, _)| pod.quotas.contains(own)) {
            return None;
        }
        let right = rights.own.iter().find_map(|(own, standing)| {
            if pod.quotas.contains(own) {
                let right = Right { rule: Rule::OwnQuota, from: None };
                return (lower && *standing != Standing::WithinMin).then_some(right);
            }
            let pool = self.quotas.get(*own).policy.pool;
            let from = *pod.quotas.iter().find(|quota| self.quotas.get(**quota).policy.pool == pool)?;
            let (rule, bound) = match standing {
                Standing::WithinMin => (Rule::ElasticReclaim, Bound::Min),
                Standing::WithinFairShare => (Rule::ElasticFairShare, Bound::FairShare),
                Standing::Beyond => return None,
            };
            let charged = |resource: ResourceId| self.charges(victim, resource);
            let gives = self.over(rights, from, bound, &|_| 0).any(charged);
            gives.then_some(Right { rule, from: Some((from, bound)) })
        })?;
        let protects = |quota: &QuotaId| {
            let own = rights.own.iter().any(|(own, _)| own == quota);
            let fair = self.quotas.get(*quota).policy.fair;
            !own && if fair {
                self.is_within(rights, victim, *quota)
            } else {
                !self.is_over(rights, *quota, Bound::Min, &|_| 0)
            }
        };
        (!pod.quotas.iter().any(protects)).then_some(right)
    }

    fn charges(&self, pod: PodId, resource: ResourceId) -> bool {
        self.shapes.get(self.pods.get(pod).shape).charge.iter().any(|(r, amount)| *r == resource && *amount > 0)
    }

    /// Whether a set of victims leaves every quota it draws on with its due until the last one is taken: in some order
    /// each must find its quota still above it, in something that it gives.
    ///
    /// And none of them may be owed its place again once it is gone: where a fair share is claimed, a victim with which
    /// its quota would be within its own share, as that will be then, could claim the place back for ever.
    pub fn may_take(&self, rights: &Rights, victims: &[(PodId, Option<(QuotaId, Bound)>)]) -> bool {
        let mut drawn: Vec<(QuotaId, Bound)> = victims.iter().filter_map(|(_, from)| *from).collect();
        drawn.sort_unstable_by_key(|(quota, _)| *quota);
        drawn.dedup();
        drawn.iter().all(|(quota, bound)| {
            let charge = |pod: PodId, resource: ResourceId| {
                let shape = self.shapes.get(self.pods.get(pod).shape);
                shape.charge.iter().find(|(r, _)| *r == resource).map_or(0, |(_, amount)| i128::from(*amount))
            };
            let pods: Vec<PodId> =
                victims.iter().filter(|(_, from)| *from == Some((*quota, *bound))).map(|(pod, _)| *pod).collect();
            // From the last one back: who can go last is no hindrance to the others, who find more before it than after.
            let mut others = pods.clone();
            while !others.is_empty() {
                let count = others.len();
                let sum = |resource: ResourceId| others.iter().map(|pod| charge(*pod, resource)).sum::<i128>();
                let sums: Vec<(ResourceId, i128)> = rights.charge.iter().map(|(r, _)| (*r, sum(*r))).collect();
                others.retain(|pod| {
                    let before = |resource: ResourceId| {
                        let all = sums.iter().find(|(r, _)| *r == resource).map_or(0, |(_, sum)| *sum);
                        all - charge(*pod, resource)
                    };
                    !self.over(rights, *quota, *bound, &before).any(|resource| charge(*pod, resource) > 0)
                });
                if others.len() == count {
                    return false;
                }
            }
            *bound == Bound::Min || !self.is_owed_again(rights, *quota, &pods, victims)
        })
    }

    /// Whether one of these pods of a fair quota could come back within the quota's share, once all victims are gone
    /// and
    /// the claimant has come.
    fn is_owed_again(
        &self,
        rights: &Rights,
        id: QuotaId,
        pods: &[PodId],
        victims: &[(PodId, Option<(QuotaId, Bound)>)],
    ) -> bool {
        let policy = &self.quotas.get(id).policy;
        let pool = self.quotas.pool(policy.pool);
        let amount = |charge: &[(ResourceId, Amount)], r: ResourceId| {
            charge.iter().find(|(c, _)| *c == r).map_or(0, |(_, amount)| i128::from(*amount))
        };
        let charge_of = |pod: PodId| &self.shapes.get(self.pods.get(pod).shape).charge;
        let members = self.quotas.iter().filter(|(_, quota)| quota.policy.pool == policy.pool);
        let members: Vec<QuotaId> = members.map(|(member, _)| member).collect();
        let used_then = |member: QuotaId, r: ResourceId| {
            let ledger = &self.quotas.get(member).ledger;
            let gone = victims.iter().filter(|(pod, _)| self.pods.get(*pod).quotas.contains(&member));
            let gone: i128 = gone.map(|(pod, _)| amount(charge_of(*pod), r)).sum();
            let comes = rights.own.iter().any(|(own, _)| *own == member);
            ledger.used.get(r) - ledger.leaving.get(r) - gone + if comes { amount(&rights.charge, r) } else { 0 }
        };
        let share_then = |r: ResourceId| {
            let total = pool.min.get(r);
            let unused = members.iter().map(|m| (self.quotas.get(*m).policy.min(r) - used_then(*m, r)).max(0)).sum();
            policy.min(r) + if total > 0 { mul_div(unused, policy.min(r), total) } else { 0 }
        };
        let governed: Vec<ResourceId> = pool.governed().collect();
        let bounds: Vec<(ResourceId, i128)> =
            governed.iter().map(|r| (*r, share_then(*r) - used_then(id, *r))).collect();
        pods.iter().any(|pod| {
            bounds.iter().all(|(r, room)| {
                let asked = amount(charge_of(*pod), *r);
                asked == 0 || asked <= *room
            })
        })
    }

    /// Whether a victim, if it came back as it is once all is done, could evict the claimant it went for.
    pub fn could_evict_back(&mut self, victims: &[PodId], claimant: PodId, node: NodeId) -> bool {
        let mut gone = victims.to_vec();
        gone.extend(self.leaving_pods());
        let lifted = self.lift(&gone);
        let mut effects = Effects::tentative();
        self.enter(claimant, Place::Placed(node), &mut effects);
        let could = victims.iter().any(|victim| self.right(&self.rights(*victim), claimant).is_some());
        self.leave(claimant, Place::Waiting, &mut effects);
        self.put_back(lifted);
        could
    }
}
