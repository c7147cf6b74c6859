//! Who may evict whom, by what each claimant and victim is entitled to.
//!
//! A claimant has a right to a victim by one of its quotas: one that both answer to lets it evict lower-priority pods;
//! one within whose entitlement it stays lets it take from quotas of the pool that hold more than they keep. Every
//! other quota of the victim, the claimant's own among them, protects it for as long as that quota holds no more than
//! it is entitled to. Whether
//! several victims may go together is asked of the set (`permits`), since each one that goes leaves its quotas with
//! less.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::decision::Rule;
use crate::fact::Amount;
use crate::gangs::GangId;
use crate::ledger::amount_of;
use crate::ledger::pool::PoolId;
use crate::pods::{PodId, QuotaOf, Resident};
use crate::policy::{Amounts, DrawDepth, Quota, QuotaId, Standing, Taking};
use crate::preempt::within::Seniors;
use crate::resources::ResourceId;
use crate::world::World;

/// A right to evict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    pub rule: Rule,
    /// For a claim on what others hold beyond what they keep: the quota that is drawn on, and how far that may go.
    pub from: Option<(QuotaId, DrawDepth)>,
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
    own: Vec<(QuotaId, Standing)>,
    /// The claimant's quotas and those above them.
    levels: Vec<QuotaId>,
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

    /// Whether pods that are not less important could have to go.
    pub fn could_reclaim(&self) -> bool {
        !self.drawable.is_empty()
    }

    pub fn requests(&self, resource: ResourceId) -> bool {
        self.charge.iter().any(|(r, amount)| *r == resource && *amount > 0)
    }

    /// What is compared between the claimant and those who are drawn on, if it may draw on a quota.
    pub fn compared_in(&self, quota: QuotaId, world: &World) -> Option<&[ResourceId]> {
        let pool = world.quotas.get(quota).pool;
        let own = self.own.iter().find(|(own, _)| world.quotas.get(*own).pool == pool);
        own.filter(|(_, standing)| standing.draw.is_some()).map(|(_, standing)| &standing.compared[..])
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
            QuotaOf::None if self.own.is_empty() => lower,
            QuotaOf::One(quota) if self.is_own(quota) && !self.spares_own => lower,
            QuotaOf::One(quota) if !self.is_own(quota) && is_drawable(quota) => all,
            QuotaOf::Several if !self.own.is_empty() => all,
            QuotaOf::None | QuotaOf::One(_) | QuotaOf::Several => none,
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

    fn charged(&self, resource: ResourceId) -> i128 {
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
            levels: own.iter().flat_map(|(quota, _)| self.quotas.path(*quota)).collect(),
            own,
            seniors: Seniors::default(),
            drawable: Vec::new(),
            is_drawable: Vec::new(),
            spares_own: false,
        }
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
            rights.drawable.extend(lenders.iter().filter(|quota| !rights.own.iter().any(|(own, _)| own == *quota)));
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
                && !self.quotas.is_plain(*id)
                && compared.iter().any(|resource| self.is_beyond(*id, *resource, DrawDepth::Min, 0))
        };
        self.quotas.iter().filter(is_lender).map(|(id, _)| id).collect()
    }

    /// Whether a quota, after so much is gone, will hold more of a resource than it keeps.
    fn is_beyond(&self, id: QuotaId, resource: ResourceId, depth: DrawDepth, gone: i128) -> bool {
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
            return (binding.peek().is_none() && lower).then_some(Right { rule: Rule::Priority, from: None });
        }
        let binding: Vec<QuotaId> = binding.collect();
        // Under a quota that both answer to, the less important make room, after all others.
        if lower && !rights.spares_own && binding.iter().any(|quota| rights.is_own(*quota)) {
            return Some(Right { rule: Rule::OwnQuota, from: None });
        }
        rights.own.iter().find_map(|(own, standing)| {
            let pool = self.quotas.get(*own).pool;
            let is_drawn_on = |quota: &&QuotaId| self.quotas.get(**quota).pool == pool && !rights.is_own(**quota);
            let from = *binding.iter().find(is_drawn_on)?;
            let draw = standing.draw?;
            let is_marked = |pod: &PodId| self.quotas.marks_pods(from) && self.is_marked_within(rights, *pod, from);
            if pods.iter().all(is_marked) {
                return None;
            }
            let gives = |r: &ResourceId| {
                amount_of(charge, *r).is_some_and(|amount| amount > 0) && self.is_beyond(from, *r, draw.depth, 0)
            };
            let gives = standing.compared.iter().any(gives);
            gives.then_some(Right { rule: draw.rule, from: Some((from, draw.depth)) })
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
            quotas: self.binding(pod),
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
        let is_placed = |pod: &PodId| self.pods.get(*pod).node().is_some_and(|node| self.nodes.is_present(node));
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
            right = right.or(Some(of_these));
        }
        let (right, charge) = (right?, self.charge_of_all(&pods));
        let mut quotas: Vec<QuotaId> = by_quotas.into_keys().flatten().collect();
        quotas.sort_unstable();
        quotas.dedup();
        let party = pods.iter().find_map(|pod| self.sharers(*pod)).and_then(|sharers| sharers.first().copied());
        let gang = Some(gang);
        Some(Going { pods, charge, quotas, right, gang, is_whole_gang: true, is_reservation, party, is_party: false })
    }

    pub(super) fn binding(&self, pod: PodId) -> Vec<QuotaId> {
        self.pods.get(pod).quotas.iter().copied().filter(|quota| !self.quotas.is_plain(*quota)).collect()
    }

    /// Whether a gang falls below its minimum when these go, or is not to be split.
    pub fn breaks(&self, gang: GangId, victims: &[PodId]) -> bool {
        let known = self.gangs.get(gang);
        let mut stays =
            known.settled(&self.pods).filter(|(id, _)| !victims.contains(id)).map(|(_, pod)| pod).peekable();
        if known.is_evicted_whole() {
            return stays.peek().is_some();
        }
        known.is_gang() && known.is_started() && !known.is_enough(stays)
    }

    /// Whether these may go together: no gang is broken, no guarantee, and in some order each finds every quota it
    /// leaves still above what that quota keeps or is entitled to. Any part of a set that may go may go.
    pub fn permits(&self, rights: &Rights, set: &[&Going]) -> bool {
        self.spares_gangs(set)
            && self.spares_guarantees(rights, set)
            && {
                let mut quotas: Vec<QuotaId> = set.iter().flat_map(|going| going.quotas.iter().copied()).collect();
                quotas.sort_unstable();
                quotas.dedup();
                // A quota of the claimant's own protects none that it evicts by priority.
                let is_reclaimed = |quota: &QuotaId| {
                    let mut reclaimed = set.iter().filter(|going| going.right.from.is_some());
                    reclaimed.any(|going| going.quotas.contains(quota))
                };
                quotas.retain(|quota| !rights.is_own(*quota) || is_reclaimed(quota));
                is_some_order_right(set.to_vec(), |going, all| {
                    going.quotas.iter().filter(|quota| quotas.contains(quota)).all(|quota| {
                        let of_quota = || all.iter().filter(|other| other.quotas.contains(quota));
                        let gone = |r| of_quota().map(|other| other.charged(r)).sum::<i128>() - going.charged(r);
                        self.may_go_after(rights, *quota, going, &gone)
                    })
                })
            }
            && self.spares_parents(rights, set)
    }

    /// Whether the quotas above those that are drawn on let all go together. Where all are of one quota, that was asked
    /// of it.
    fn spares_parents(&self, rights: &Rights, set: &[&Going]) -> bool {
        let mut below: BTreeMap<QuotaId, Vec<&Going>> = BTreeMap::new();
        for going in set {
            let Some((from, _)) = going.right.from else { continue };
            for level in self.quotas.path(from).skip(1).filter(|level| !rights.levels.contains(level)) {
                below.entry(level).or_default().push(going);
            }
        }
        let from = |going: &Going| going.right.from.map(|(from, _)| from);
        below.into_iter().filter(|(_, set)| set.iter().any(|going| from(going) != from(set[0]))).all(|(level, set)| {
            is_some_order_right(set, |going, all| {
                let compared = from(going).and_then(|from| rights.compared_in(from, self)).unwrap_or_default();
                let gone = |r| all.iter().map(|other| other.charged(r)).sum::<i128>() - going.charged(r);
                self.quotas.permits_below(level, compared, &gone)
            })
        })
    }

    fn spares_gangs(&self, set: &[&Going]) -> bool {
        let mut by_gang: BTreeMap<GangId, Vec<PodId>> = BTreeMap::new();
        for going in set.iter().filter(|going| !going.is_whole_gang && (going.gang.is_some() || going.is_party)) {
            for gang in self.running_gangs(&going.pods) {
                let of_gang = going.pods.iter().filter(|pod| self.pods.get(**pod).gang == Some(gang));
                by_gang.entry(gang).or_default().extend(of_gang);
            }
        }
        by_gang.iter().all(|(gang, pods)| !self.breaks(*gang, pods))
    }

    /// Whether all quotas that the claimant is not under keep their guarantees of what it requests.
    fn spares_guarantees(&self, rights: &Rights, set: &[&Going]) -> bool {
        let mut lost: BTreeMap<QuotaId, Vec<&Going>> = BTreeMap::new();
        for going in set {
            for level in going.quotas.iter().flat_map(|quota| self.quotas.path(*quota)) {
                if !rights.levels.contains(&level) && !self.quotas.guarantees(level).is_empty() {
                    lost.entry(level).or_default().push(going);
                }
            }
        }
        lost.iter().all(|(level, set)| {
            let ledger = &self.quotas.get(*level).ledger;
            let mut guarantees = self.quotas.guarantees(*level).iter().filter(|(r, _)| rights.requests(*r));
            guarantees.all(|(resource, amount)| {
                let (amount, lost) = (i128::from(*amount), |of: &dyn Fn(&Going) -> bool| -> i128 {
                    set.iter().filter(|going| of(going)).map(|going| going.charged(*resource)).sum()
                });
                // Both now, when what is only reserved is not held yet, and once all have come and gone.
                let (pods, all) = (lost(&|going| !going.is_reservation), lost(&|_| true));
                (pods == 0 || ledger.stays(*resource) - pods >= amount)
                    && (all == 0 || ledger.to_be_used(*resource) - all >= amount)
            })
        })
    }

    /// Whether a quota lets one more go after so much is gone.
    fn may_go_after(&self, rights: &Rights, quota: QuotaId, going: &Going, gone: Amounts<'_>) -> bool {
        if let Some((_, depth)) = going.right.from.filter(|(from, _)| *from == quota) {
            let pool = self.quotas.get(quota).pool;
            let own = rights.own.iter().find(|(own, _)| self.quotas.get(*own).pool == pool);
            let Some((own, standing)) = own else { return false };
            let finds = |r: &ResourceId| going.charged(*r) > 0 && self.is_beyond(quota, *r, depth, gone(*r));
            let compared = &standing.compared[..];
            let taking = Taking { claimant: *own, charge: &rights.charge, compared, gone_before: gone };
            return standing.compared.iter().any(finds) && self.quotas.permits(quota, &taking);
        }
        if going.right.from.is_none() && rights.is_own(quota) {
            return true;
        }
        if self.quotas.marks_pods(quota) && going.pods.iter().all(|pod| self.is_marked_within(rights, *pod, quota)) {
            return false;
        }
        let mut speaks = false;
        let held = |r: ResourceId| self.quotas.get(quota).ledger.to_be_used(r) - gone(r);
        // What it does not hold it does not take from anybody.
        let mut taken = rights.charge.iter().filter(|(r, _)| rights.requests(*r) && going.charged(*r) > 0);
        let finds = taken.any(|(r, _)| {
            let Some(entitled) = self.quotas.entitlement(quota, *r) else { return false };
            speaks = true;
            self.quotas.keeps(quota, *r, DrawDepth::Min).is_some() && held(*r) > entitled
        });
        finds || !speaks
    }
}

/// Whether these can go in some order in which each may go after those before it. One is asked with all that are there
/// until it goes, itself among them.
///
/// It is found from the last one back: whoever can go last is no hindrance to the others, which find more there before
/// it than after, so that it does not matter which of several is put last.
fn is_some_order_right(mut unordered: Vec<&Going>, may_go_last: impl Fn(&Going, &[&Going]) -> bool) -> bool {
    while !unordered.is_empty() {
        let all = unordered.clone();
        unordered.retain(|going| !may_go_last(going, &all));
        if unordered.len() == all.len() {
            return false;
        }
    }
    true
}
