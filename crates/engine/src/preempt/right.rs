//! Who may evict whom, by what each claimant and victim is owed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::decision::Rule;
use crate::fact::Amount;
use crate::ledger::amount_of;
use crate::lookup::LookupMap;
use crate::nodes::NodeId;
use crate::pods::{Place, PodId, QuotaOf, Resident};
use crate::policy::{DrawDepth, QuotaId, Seniority, Standing, Taking, seniority};
use crate::relations::Effects;
use crate::resources::ResourceId;
use crate::shape::ShapeId;
use crate::world::World;

/// A right to evict a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Right {
    pub rule: Rule,
    /// For a claim on what others hold beyond their due: the quota that is drawn on, and how far that may go.
    pub from: Option<(QuotaId, DrawDepth)>,
}

/// What a claimant may do, worked out once for a search.
#[derive(Debug, Clone)]
pub(crate) struct Rights {
    pub claimant: PodId,
    pub priority: i32,
    pub charge: Vec<(ResourceId, Amount)>,
    /// The claimant's quotas, without queues that say nothing.
    own: Vec<(QuotaId, Standing)>,
    /// For quotas that were asked about: where their seniority passes min, among pods that are not leaving. Worked out
    /// when it is first needed, since a search looks at pods of few quotas.
    first_over: RefCell<LookupMap<QuotaId, Option<Seniority>>>,
    /// The quotas of others that hold more than their due.
    pub drawable: Vec<QuotaId>,
    /// The same by number, for a search that asks of every pod.
    is_drawable: Vec<bool>,
    /// No gang may fall below its minimum.
    pub spares_gangs: bool,
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
                    Some((_, standing)) => lower && standing.preempts_own,
                    None => self.is_drawable.get(quota.0 as usize).is_some_and(|drawable| *drawable),
                },
                QuotaOf::Several => !self.own.is_empty(),
            }
    }
}

impl World {
    /// What a waiting pod may do to others. `charge` is what it will be charged.
    pub fn rights(&self, claimant: PodId, charge: &[(ResourceId, Amount)]) -> Rights {
        let pod = self.pods.get(claimant);
        let own = pod.quotas.iter().filter(|quota| !self.quotas.is_plain(**quota));
        let own: Vec<(QuotaId, Standing)> = own.map(|quota| (*quota, self.quotas.standing(*quota, charge))).collect();
        let mut rights = Rights {
            claimant,
            priority: pod.priority,
            charge: charge.to_vec(),
            own,
            first_over: RefCell::default(),
            drawable: Vec::new(),
            is_drawable: Vec::new(),
            spares_gangs: false,
        };
        if rights.own.iter().any(|(_, standing)| standing.draw.is_some()) {
            for (id, quota) in self.quotas.iter() {
                let claims = |(own, standing): &&(QuotaId, Standing)| {
                    standing.draw.is_some() && self.quotas.get(*own).pool == quota.pool
                };
                if !quota.pods.is_empty()
                    && !self.quotas.is_plain(id)
                    && rights.own.iter().all(|(own, _)| *own != id)
                    && let Some(own) = rights.own.iter().find(claims)
                    && self.over(own, id, DrawDepth::Min, &|_| 0).next().is_some()
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

    /// The claimant's standing in the pool of a quota, if it has one there.
    fn own_in_pool<'a>(&self, rights: &'a Rights, id: QuotaId) -> Option<&'a (QuotaId, Standing)> {
        let pool = self.quotas.get(id).pool;
        rights.own.iter().find(|(own, _)| self.quotas.get(*own).pool == pool)
    }

    /// Whether a quota holds more than its due of something the claimant asks for.
    fn is_over(&self, rights: &Rights, id: QuotaId, depth: DrawDepth) -> bool {
        let everything;
        let own = match self.own_in_pool(rights, id) {
            Some(own) => own,
            None => {
                // Another pool than the claimant's: all it asks for is looked at.
                let compared = rights.charge.iter().map(|(resource, _)| *resource);
                let compared = compared.filter(|r| self.quotas.entitlement(id, *r).is_some()).collect();
                everything = (id, Standing { draw: None, compared, preempts_own: false });
                &everything
            }
        };
        self.over(own, id, depth, &|_| 0).next().is_some()
    }

    /// What a quota holds more of than its due, of what the claimant stands for, after `taken` of it are gone.
    fn over<'a>(
        &'a self,
        (_, standing): &'a (QuotaId, Standing),
        id: QuotaId,
        depth: DrawDepth,
        taken: &'a dyn Fn(ResourceId) -> i128,
    ) -> impl Iterator<Item = ResourceId> + 'a {
        let ledger = &self.quotas.get(id).ledger;
        standing
            .compared
            .iter()
            .copied()
            .filter(move |r| self.quotas.keeps(id, *r, depth).is_some_and(|kept| ledger.stays(*r) - taken(*r) > kept))
    }

    /// Whether a pod is within its quota's min by seniority.
    pub fn is_within(&self, rights: &Rights, victim: PodId, quota: QuotaId) -> bool {
        let mut known = rights.first_over.borrow_mut();
        let first = known.or_insert_with(quota, || {
            let asked = rights.own.iter().any(|(own, _)| *own == quota) || self.is_over(rights, quota, DrawDepth::Min);
            let first = || self.quotas.first_over(quota, &self.pods, &self.shapes, |pod| !pod.is_leaving());
            asked.then(first).flatten().cloned()
        });
        first
            .as_ref()
            .is_none_or(|first| seniority(victim, self.pods.get(victim), &self.charge_of(victim), &self.names) < *first)
    }

    /// The right of the claimant to evict a pod, if it has one.
    pub fn right(&self, rights: &Rights, victim: PodId) -> Option<Right> {
        let pod = self.pods.get(victim);
        // Pods of one group want to run together: none of them makes room for another.
        let own_gang = self.pods.get(rights.claimant).gang;
        if pod.is_kept() || (pod.gang.is_some() && pod.gang == own_gang) {
            return None;
        }
        let lower = pod.priority < rights.priority;
        let binding = || pod.quotas.iter().filter(|quota| !self.quotas.is_plain(**quota));
        if rights.own.is_empty() {
            return (binding().next().is_none() && lower).then_some(Right { rule: Rule::Priority, from: None });
        }
        // Under a quota that both answer to, only the less important make room, whatever another pool says.
        if !lower && rights.own.iter().any(|(own, _)| pod.quotas.contains(own)) {
            return None;
        }
        let right = rights.own.iter().find_map(|own| {
            let (quota, standing) = own;
            if pod.quotas.contains(quota) {
                let right = Right { rule: Rule::OwnQuota, from: None };
                return (lower && standing.preempts_own).then_some(right);
            }
            let pool = self.quotas.get(*quota).pool;
            let from = *binding().find(|quota| self.quotas.get(**quota).pool == pool)?;
            let draw = standing.draw?;
            let charged = |resource: ResourceId| self.charges(victim, resource);
            let gives =
                self.over(own, from, draw.depth, &|_| 0).any(charged) && self.may_draw(rights, own, from, &[], victim);
            gives.then_some(Right { rule: draw.rule, from: Some((from, draw.depth)) })
        })?;
        let protects = |quota: &QuotaId| {
            let own = rights.own.iter().any(|(own, _)| own == quota);
            !own && if self.quotas.marks_pods(*quota) {
                self.is_within(rights, victim, *quota)
            } else {
                !self.is_over(rights, *quota, DrawDepth::Min)
            }
        };
        (!binding().any(protects)).then_some(right)
    }

    /// Whether one more pod may be taken from a queue after others are: what those above it, and the guarantees, ask.
    fn may_draw(&self, rights: &Rights, own: &(QuotaId, Standing), from: QuotaId, gone: &[PodId], next: PodId) -> bool {
        let (quota, standing) = own;
        let before = |resource: ResourceId| gone.iter().map(|pod| self.charged(*pod, resource)).sum::<i128>();
        let after = |resource: ResourceId| before(resource) + self.charged(next, resource);
        let taking = Taking {
            claimant: *quota,
            charge: &rights.charge,
            compared: &standing.compared,
            gone_before: &before,
            gone_after: &after,
        };
        self.quotas.permits(from, &taking)
    }

    fn charges(&self, pod: PodId, resource: ResourceId) -> bool {
        self.charged(pod, resource) > 0
    }

    /// What a pod is charged of a resource.
    pub fn charged(&self, pod: PodId, resource: ResourceId) -> i128 {
        amount_of(&self.charge_of(pod), resource).unwrap_or(0)
    }

    /// Whether a set of victims leaves every quota it draws on with its due until the last one is taken: in some order
    /// each must find its quota still above it, in something that it gives.
    ///
    /// And none of them may be owed its place again once it is gone: where a fair share is claimed, a victim with which
    /// its quota would be within its own share, as that will be then, could claim the place back for ever.
    pub fn may_take(&self, rights: &Rights, victims: &[(PodId, Option<(QuotaId, DrawDepth)>)]) -> bool {
        if rights.spares_gangs {
            let pods: Vec<PodId> = victims.iter().map(|(pod, _)| *pod).collect();
            if self.breaks_a_gang(&pods) {
                return false;
            }
        }
        let mut drawn: Vec<(QuotaId, DrawDepth)> = victims.iter().filter_map(|(_, from)| *from).collect();
        if drawn.iter().any(|(quota, _)| self.quotas.entitles_in_part(*quota)) {
            let pods: Vec<PodId> = victims.iter().map(|(pod, _)| *pod).collect();
            if !self.spares_guarantees(rights.claimant, &pods) {
                return false;
            }
        }
        drawn.sort_unstable_by_key(|(quota, _)| *quota);
        drawn.dedup();
        drawn.iter().all(|(quota, depth)| {
            let Some(own) = self.own_in_pool(rights, *quota) else { return false };
            let pods: Vec<PodId> =
                victims.iter().filter(|(_, from)| *from == Some((*quota, *depth))).map(|(pod, _)| *pod).collect();
            self.is_some_order_right(rights, own, (*quota, *depth), &pods)
                && (*depth != DrawDepth::FairShare || !self.is_owed_again(rights, *quota, &pods, victims))
        })
    }

    /// Whether all queues that the claimant is not under keep their guarantees when these go together.
    pub fn spares_guarantees(&self, claimant: PodId, gone: &[PodId]) -> bool {
        let levels = |pod: PodId| {
            self.pods.get(pod).quotas.iter().flat_map(|quota| self.quotas.path(*quota)).collect::<Vec<QuotaId>>()
        };
        let mine = levels(claimant);
        let mut lost: BTreeMap<QuotaId, Vec<PodId>> = BTreeMap::new();
        for pod in gone {
            for level in levels(*pod).into_iter().filter(|level| !mine.contains(level)) {
                lost.entry(level).or_default().push(*pod);
            }
        }
        lost.iter().all(|(level, pods)| {
            let quota = self.quotas.get(*level);
            self.quotas.guarantees(*level).iter().all(|(resource, amount)| {
                let lost: i128 = pods.iter().map(|pod| self.charged(*pod, *resource)).sum();
                lost == 0 || quota.ledger.stays(*resource) - lost >= i128::from(*amount)
            })
        })
    }

    /// Whether pods of one quota can be taken in some order in which each may be.
    ///
    /// It is found from the last one back: whoever can go last is no hindrance to the others, which find more there
    /// before it than after, so that it does not matter which of several is put last.
    fn is_some_order_right(
        &self,
        rights: &Rights,
        own: &(QuotaId, Standing),
        (quota, depth): (QuotaId, DrawDepth),
        pods: &[PodId],
    ) -> bool {
        let mut unordered = pods.to_vec();
        while !unordered.is_empty() {
            let sum = |resource: ResourceId| unordered.iter().map(|pod| self.charged(*pod, resource)).sum::<i128>();
            let sums: Vec<(ResourceId, i128)> = own.1.compared.iter().map(|r| (*r, sum(*r))).collect();
            let all = unordered.clone();
            unordered.retain(|pod| {
                let before = |resource: ResourceId| {
                    let all = sums.iter().find(|(r, _)| *r == resource).map_or(0, |(_, sum)| *sum);
                    all - self.charged(*pod, resource)
                };
                let finds_enough =
                    self.over(own, quota, depth, &before).any(|resource| self.charged(*pod, resource) > 0);
                let others = || all.iter().copied().filter(|other| other != pod).collect::<Vec<PodId>>();
                !(finds_enough && self.may_draw(rights, own, quota, &others(), *pod))
            });
            if unordered.len() == all.len() {
                return false;
            }
        }
        true
    }

    /// Whether one of these pods of a fair quota could come back within the quota's share, once all victims are gone
    /// and
    /// the claimant has come.
    fn is_owed_again(
        &self,
        rights: &Rights,
        id: QuotaId,
        pods: &[PodId],
        victims: &[(PodId, Option<(QuotaId, DrawDepth)>)],
    ) -> bool {
        let asked = |r: ResourceId| amount_of(&rights.charge, r).unwrap_or(0);
        let used_then = |member: QuotaId, r: ResourceId| {
            let ledger = &self.quotas.get(member).ledger;
            let gone = victims.iter().filter(|(pod, _)| self.pods.get(*pod).quotas.contains(&member));
            let gone: i128 = gone.map(|(pod, _)| self.charged(*pod, r)).sum();
            let comes = rights.own.iter().any(|(own, _)| *own == member);
            ledger.stays(r) - gone + if comes { asked(r) } else { 0 }
        };
        let bounds = self.quotas.claimable_if(id, &used_then);
        pods.iter().any(|pod| {
            bounds.iter().all(|(r, room)| {
                let asked = self.charged(*pod, *r);
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
        let could = self.is_any_owed_back(victims, &[claimant]);
        self.leave(claimant, Place::Waiting, &mut effects);
        self.put_back(lifted);
        could
    }

    /// Whether a pod that is gone, if it came back as it is, could evict one of those that are in place by now.
    pub fn is_any_owed_back(&self, gone: &[PodId], placed: &[PodId]) -> bool {
        let mut seen: BTreeSet<(&[QuotaId], ShapeId, i32)> = BTreeSet::new();
        gone.iter().any(|id| {
            let pod = self.pods.get(*id);
            if !seen.insert((&pod.quotas, pod.shape, pod.priority)) {
                return false; // One like it was looked at.
            }
            let rights = self.rights(*id, &self.shapes.get(pod.shape).charge);
            placed.iter().any(|placed| self.right(&rights, *placed).is_some())
        })
    }
}
