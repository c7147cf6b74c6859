//! Who may evict whom, by what each claimant and victim is entitled to.
//!
//! A claimant has a right to a victim by one of its quotas: one that both answer to lets it evict lower-priority pods;
//! one within whose entitlement it stays lets it take from quotas of the pool that hold more than they keep. Every
//! other quota of the victim, the claimant's own among them, protects it for as long as that quota holds no more than
//! it is entitled to. Whether
//! several victims may go together is asked of the set (`permits`), since each one that goes leaves its quotas with
//! less.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::decision::Rule;
use crate::fact::Amount;
use crate::gangs::GangId;
use crate::ledger::amount_of;
use crate::ledger::pool::PoolId;
use crate::pods::{PodId, QuotaOf, Resident};
use crate::policy::{Draw, DrawDepth, Quota, QuotaId, Standing, Strength};
use crate::preempt::within::Seniors;
use crate::resources::ResourceId;
use crate::world::World;

/// A right to evict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    pub rule: Rule,
    /// For a claim on what others hold beyond what they keep: the quota that is drawn on, and how far that may go.
    pub from: Option<(QuotaId, DrawDepth)>,
    pub strength: Strength,
}

impl Right {
    fn by_priority(rule: Rule) -> Right {
        Right { rule, from: None, strength: Strength::Priority }
    }
}

/// What a claimant may do, worked out once for a search.
#[derive(Debug, Clone)]
pub(crate) struct Rights {
    /// The pod, or the first of the gang's.
    pub claimant: PodId,
    gang: Option<GangId>,
    pub priority: i32,
    pub charge: Vec<(ResourceId, Amount)>,
    /// The claimant's quotas, without those that say nothing.
    pub(super) own: Vec<(QuotaId, Standing)>,
    /// The claimant's quotas and those above them.
    pub(super) levels: Vec<QuotaId>,
    /// Who is within what quotas are entitled to, as far as it was asked.
    pub(super) seniors: Seniors,
    /// The quotas of others that hold more than they keep.
    pub drawable: Vec<QuotaId>,
    /// The same by number, for a search that asks of every pod.
    is_drawable: Vec<bool>,
    /// Pods of the claimant's own quotas stay, since others are to go first.
    pub spares_own: bool,
}

impl Rights {
    /// Whether it is entitled to take from others.
    pub fn is_entitled(&self) -> bool {
        self.own.iter().any(|(_, standing)| standing.draw.is_some())
    }

    /// Whether a quota of its says something.
    pub fn has_quota(&self) -> bool {
        !self.own.is_empty()
    }

    /// Whether pods that are not less important could have to go.
    pub fn could_reclaim(&self) -> bool {
        !self.drawable.is_empty()
    }

    pub fn requests(&self, resource: ResourceId) -> bool {
        self.charge.iter().any(|(r, amount)| *r == resource && *amount > 0)
    }

    /// What is compared between the claimant and those who are drawn on, if it may draw on a quota.
    pub fn compared_in(&self, quota: QuotaId, world: &World) -> Option<Cow<'_, [ResourceId]>> {
        let pool = world.quotas.get(quota).pool;
        let (own, standing) = self.own.iter().find(|(own, _)| world.quotas.get(*own).pool == pool)?;
        standing.draw?;
        Some(world.quotas.comparable(quota, *own, &self.charge, &standing.compared))
    }

    pub(super) fn is_own(&self, quota: QuotaId) -> bool {
        self.own.iter().any(|(own, _)| *own == quota)
    }

    /// Whether a pod on a node could be a victim, by what is known of it at a glance.
    pub fn might_take(&self, resident: &Resident) -> bool {
        !resident.leaving && i64::from(resident.priority) < self.might_take_below(resident.quota)
    }

    /// Pods of which priorities could be victims, by their quota: all that are lower than this.
    pub fn might_take_below(&self, quota: QuotaOf) -> i64 {
        let (lower, all, none) = (i64::from(self.priority), i64::MAX, i64::MIN);
        let is_drawable = |quota: QuotaId| self.is_drawable.get(quota.0 as usize).is_some_and(|drawable| *drawable);
        match quota {
            QuotaOf::Plain(quota) | QuotaOf::OneAndPlain(_, quota) if is_drawable(quota) => all,
            QuotaOf::OneAndPlain(quota, _) => self.might_take_below(QuotaOf::One(quota)),
            QuotaOf::None | QuotaOf::Plain(_) if self.own.is_empty() => lower,
            QuotaOf::One(quota) if self.is_own(quota) && !self.spares_own => lower,
            QuotaOf::One(quota) if !self.is_own(quota) && is_drawable(quota) => all,
            QuotaOf::Several if !self.own.is_empty() => all,
            QuotaOf::None | QuotaOf::Plain(_) | QuotaOf::One(_) | QuotaOf::Several => none,
        }
    }
}

/// What goes as one: a pod, a gang, or a pod's reservation.
#[derive(Debug, Clone)]
pub(crate) struct Going {
    /// By name.
    pub pods: Vec<PodId>,
    /// What all of them are charged.
    pub charge: Vec<(ResourceId, Amount)>,
    /// Their quotas, without those that say nothing.
    pub quotas: Vec<QuotaId>,
    pub right: Right,
    /// The gang that they are, or that the pod is of and that goes on without it.
    pub gang: Option<GangId>,
    pub is_whole_gang: bool,
    /// It waits, and what goes is its reservation.
    pub is_reservation: bool,
    /// The first of those that hold claims on devices together, these among them.
    pub party: Option<PodId>,
    /// It is all of those.
    pub is_party: bool,
}

impl Going {
    /// What tells it from all others that may go.
    pub fn number(&self) -> (PodId, bool, bool) {
        (self.pods[0], self.is_whole_gang, self.is_party)
    }

    /// Whether quotas see no difference between the two.
    pub fn is_alike(&self, other: &Going) -> bool {
        (&self.quotas, &self.charge, self.right, self.is_reservation)
            == (&other.quotas, &other.charge, other.right, other.is_reservation)
    }

    pub(super) fn charged(&self, resource: ResourceId) -> i128 {
        amount_of(&self.charge, resource).unwrap_or(0)
    }
}

/// The sum of charges.
pub(crate) fn add_charges<'a>(charges: impl Iterator<Item = &'a (ResourceId, Amount)>) -> Vec<(ResourceId, Amount)> {
    let mut sums: BTreeMap<ResourceId, Amount> = BTreeMap::new();
    for (resource, amount) in charges {
        let sum = sums.entry(*resource).or_default();
        *sum = sum.saturating_add(*amount);
    }
    sums.into_iter().collect()
}

/// The quotas that hold more than they keep, by what was asked, for as long as no quota changes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Beyond {
    /// The number of the quotas from which it was worked out.
    revision: u64,
    found: Vec<Found>,
}

#[derive(Debug, Clone)]
struct Found {
    pool: PoolId,
    compared: Vec<ResourceId>,
    quotas: Arc<[QuotaId]>,
}

impl World {
    /// What a claimant may do to others. `charge` is what all its pods will be charged.
    pub fn rights(&self, claimant: PodId, priority: i32, charge: Vec<(ResourceId, Amount)>) -> Rights {
        let pod = self.pods.get(claimant);
        let own = pod.quotas.iter().filter(|quota| !self.quotas.is_plain(**quota));
        let own: Vec<(QuotaId, Standing)> = own.map(|quota| (*quota, self.quotas.standing(*quota, &charge))).collect();
        Rights {
            claimant,
            gang: pod.gang,
            priority,
            charge,
            levels: pod.quotas.iter().flat_map(|quota| self.quotas.path(*quota)).collect(),
            own,
            seniors: Seniors::default(),
            drawable: Vec::new(),
            is_drawable: Vec::new(),
            spares_own: false,
        }
    }

    /// Whether a pod stays within what one of its quotas is entitled to.
    pub fn is_owed(&self, id: PodId) -> bool {
        self.standings(id).any(|(_, standing)| standing.draw.is_some())
    }

    /// The same of a quota that pods are leaving: beside what others claim of it the pod has what its quota keeps.
    pub fn is_owed_beside_claims(&self, id: PodId) -> bool {
        self.standings(id).any(|(quota, Standing { draw, compared })| {
            let leaving = &self.quotas.get(quota).ledger.leaving;
            draw.is_some() && compared.iter().any(|resource| leaving.get(*resource) > 0)
        })
    }

    /// How a pod stands in those of its quotas that say something.
    fn standings(&self, id: PodId) -> impl Iterator<Item = (QuotaId, Standing)> + '_ {
        let charge = self.asked_charge(id);
        let own = self.pods.get(id).quotas.iter().copied().filter(|quota| !self.quotas.is_plain(*quota));
        own.map(move |quota| (quota, self.quotas.standing(quota, &charge)))
    }

    /// Finds the quotas that the claimant may draw on.
    pub fn find_drawable(&mut self, rights: &mut Rights) {
        let mut pools: Vec<PoolId> = Vec::new();
        for (own, standing) in &rights.own {
            let pool = self.quotas.get(*own).pool;
            if standing.draw.is_none() || pools.contains(&pool) {
                continue;
            }
            pools.push(pool);
            let lenders = self.beyond(pool, &standing.compared);
            let is_own = |quota: &QuotaId| rights.own.iter().any(|(own, _)| own == quota);
            let quotas = &self.quotas;
            let owes = |quota: &QuotaId| {
                !quotas.is_plain(*quota)
                    || !quotas.comparable(*quota, *own, &rights.charge, &standing.compared).is_empty()
            };
            rights.drawable.extend(lenders.iter().filter(|quota| !is_own(quota) && owes(quota)));
        }
        if rights.drawable.is_empty() {
            return;
        }
        rights.drawable.sort_unstable();
        let limit = rights.drawable.last().map_or(0, |last| last.0 as usize + 1);
        rights.is_drawable = vec![false; limit];
        for quota in &rights.drawable {
            rights.is_drawable[quota.0 as usize] = true;
        }
    }

    /// The quotas of a pool that hold more than they keep of one of these resources. Who asks in turn while nothing
    /// changes gets the same answer.
    fn beyond(&mut self, pool: PoolId, compared: &[ResourceId]) -> Arc<[QuotaId]> {
        let revision = self.quotas.revision();
        if self.beyond.revision != revision {
            self.beyond = Beyond { revision, found: Vec::new() };
        }
        let known = self.beyond.found.iter().find(|found| found.pool == pool && found.compared == compared);
        if let Some(known) = known {
            debug_assert_eq!(*known.quotas, *self.find_beyond(pool, compared), "the quotas did not change");
            return known.quotas.clone();
        }
        let quotas: Arc<[QuotaId]> = self.find_beyond(pool, compared).into();
        self.beyond.found.push(Found { pool, compared: compared.to_vec(), quotas: quotas.clone() });
        quotas
    }

    fn find_beyond(&self, pool: PoolId, compared: &[ResourceId]) -> Vec<QuotaId> {
        let holds = |quota: &Quota| !quota.pods.is_empty() || quota.ledger.reserved.nonzero().next().is_some();
        let is_lender = |(id, quota): &(QuotaId, &Quota)| {
            quota.pool == pool
                && holds(quota)
                && compared.iter().any(|resource| self.is_beyond(*id, *resource, DrawDepth::Min, 0))
        };
        self.quotas.iter().filter(is_lender).map(|(id, _)| id).collect()
    }

    /// Whether a quota, after so much is gone, will hold more of a resource than it keeps.
    pub(super) fn is_beyond(&self, id: QuotaId, resource: ResourceId, depth: DrawDepth, gone: i128) -> bool {
        let held = self.quotas.get(id).ledger.to_be_used(resource) - gone;
        self.quotas.keeps(id, resource, depth).is_some_and(|kept| held > kept)
    }

    /// The claimant's right to what goes as one, if it has one. Whether their other quotas protect them is asked of the
    /// set.
    pub(super) fn right(&self, rights: &Rights, pods: &[PodId], charge: &[(ResourceId, Amount)]) -> Option<Right> {
        let first = self.pods.get(*pods.first()?);
        // Pods of one group want to run together: none of them makes room for another.
        if first.gang.is_some() && first.gang == rights.gang {
            return None;
        }
        if pods.iter().any(|pod| self.is_protected(rights, *pod)) {
            return None;
        }
        let lower = pods.iter().all(|pod| self.pods.get(*pod).priority < rights.priority);
        let mut binding = first.quotas.iter().copied().filter(|quota| !self.quotas.is_plain(*quota)).peekable();
        if rights.own.is_empty() {
            return (binding.peek().is_none() && lower).then_some(Right::by_priority(Rule::Priority));
        }
        let binding: Vec<QuotaId> = binding.collect();
        // Under a quota that both answer to, the less important make room, after all others.
        if lower && !rights.spares_own && binding.iter().any(|quota| rights.is_own(*quota)) {
            return Some(Right::by_priority(Rule::OwnQuota));
        }
        rights.own.iter().find_map(|(own, standing)| {
            let pool = self.quotas.get(*own).pool;
            let draw = standing.draw?;
            let is_of_pool = |quota: &&QuotaId| self.quotas.get(**quota).pool == pool;
            let from = *first.quotas.iter().filter(is_of_pool).find(|quota| !rights.is_own(**quota))?;
            let compared = self.quotas.comparable(from, *own, &rights.charge, &standing.compared);
            let is_marked = |pod: &PodId| self.quotas.marks_pods(from) && self.is_marked_within(rights, *pod, from);
            if pods.iter().all(is_marked) {
                return None;
            }
            let gives = |r: &ResourceId| {
                amount_of(charge, *r).is_some_and(|amount| amount > 0) && self.is_beyond(from, *r, draw.depth, 0)
            };
            let Draw { rule, depth, strength } = draw;
            compared.iter().any(gives).then_some(Right { rule, from: Some((from, depth)), strength })
        })
    }

    /// A pod that may go alone, if the claimant has a right to it.
    pub fn going(&self, rights: &Rights, pod: PodId) -> Option<Going> {
        let known = self.pods.get(pod);
        let gang = known.gang.filter(|gang| self.is_running_gang(*gang));
        let is_reservation = known.node().is_none();
        if gang.is_some_and(|gang| self.breaks(gang, &[pod])) || is_reservation && self.is_of_gang_to_start(pod) {
            return None;
        }
        let charge = self.ending_charge(pod, &[pod]);
        let right = self.right(rights, &[pod], &charge)?;
        Some(Going {
            pods: vec![pod],
            charge,
            quotas: self.concerned(pod, right),
            right,
            gang,
            is_whole_gang: false,
            is_reservation,
            party: self.sharers(pod).and_then(|sharers| sharers.first().copied()),
            is_party: false,
        })
    }

    /// Whether a pending pod is of a gang whose minimum does not run: what is reserved for it is part of what the gang
    /// starts with, and not taken over by itself.
    pub fn is_of_gang_to_start(&self, pod: PodId) -> bool {
        let gang = self.pods.get(pod).gang.map(|gang| self.gangs.get(gang));
        gang.is_some_and(|gang| gang.is_gang() && !gang.is_started())
    }

    /// A gang that may go whole, if the claimant has a right to it. It counts as one pod of its size.
    pub fn going_gang(&self, rights: &Rights, gang: GangId) -> Option<Going> {
        let pods: Vec<PodId> = self.gangs.get(gang).settled(&self.pods).map(|(id, _)| id).collect();
        let is_placed = |pod: &PodId| self.pods.get(*pod).node().is_some();
        if !pods.iter().all(is_placed) {
            return None;
        }
        self.going_together(rights, gang, pods, false)
    }

    /// What is reserved for a gang that is to start, if the claimant may evict the gang once it runs. Where some of its
    /// pods are on nodes already and wait for the others, it is not taken over: those would wait for nothing.
    pub fn going_reserved_gang(&self, rights: &Rights, gang: GangId) -> Option<Going> {
        if self.gangs.get(gang).settled(&self.pods).next().is_some() {
            return None;
        }
        let is_reserved = |pod: &PodId| self.reservations.contains(pod);
        let pods: Vec<PodId> = self.gangs.get(gang).members.iter().copied().filter(is_reserved).collect();
        self.going_together(rights, gang, pods, true)
    }

    fn going_together(
        &self,
        rights: &Rights,
        gang: GangId,
        mut pods: Vec<PodId>,
        is_reservation: bool,
    ) -> Option<Going> {
        pods.sort_by_key(|pod| self.pods.get(*pod).key());
        // Its pods may answer to different quotas. Then the claimant needs a right to those of each, and all quotas
        // protect all of it.
        let mut by_quotas: BTreeMap<Vec<QuotaId>, Vec<PodId>> = BTreeMap::new();
        for pod in &pods {
            by_quotas.entry(self.binding(*pod)).or_default().push(*pod);
        }
        let mut right = None;
        for alike in by_quotas.values() {
            let of_these = self.right(rights, alike, &self.charge_of_all(alike))?;
            let strength = right.map_or(of_these.strength, |right: Right| right.strength.min(of_these.strength));
            right = Some(Right { strength, ..right.unwrap_or(of_these) });
        }
        let (right, charge) = (right?, self.charge_of_all(&pods));
        let mut quotas: Vec<QuotaId> = by_quotas.into_keys().flatten().collect();
        quotas.extend(right.from.map(|(from, _)| from));
        quotas.sort_unstable();
        quotas.dedup();
        let party = pods.iter().find_map(|pod| self.sharers(*pod)).and_then(|sharers| sharers.first().copied());
        let gang = Some(gang);
        Some(Going { pods, charge, quotas, right, gang, is_whole_gang: true, is_reservation, party, is_party: false })
    }

    pub(super) fn binding(&self, pod: PodId) -> Vec<QuotaId> {
        self.pods.get(pod).quotas.iter().copied().filter(|quota| !self.quotas.is_plain(*quota)).collect()
    }

    /// The same, with the one that is drawn on although it says nothing.
    fn concerned(&self, pod: PodId, right: Right) -> Vec<QuotaId> {
        let mut quotas = self.binding(pod);
        if let Some((from, _)) = right.from.filter(|(from, _)| !quotas.contains(from)) {
            quotas.push(from);
            quotas.sort_unstable();
        }
        quotas
    }
}
