//! Who may evict whom, by what each claimant and victim is entitled to.
//!
//! A claimant has a right to a victim by one of its quotas: one that both answer to lets it evict lower-priority pods;
//! one within whose entitlement it stays lets it take from quotas of the pool that hold more than they keep. Every
//! other quota of the victim, the claimant's own among them, protects it for as long as that quota holds no more than
//! it is entitled to. Whether
//! several victims may go together is asked of the set (`permits`), since each one that goes leaves its quotas with
//! less.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::decision::Rule;
use crate::fact::Amount;
use crate::gangs::GangId;
use crate::ledger::amount_of;
use crate::lookup::LookupMap;
use crate::pods::{Pod, PodId, QuotaOf, Resident};
use crate::policy::{Amounts, DrawDepth, QuotaId, Seniority, Standing, Taking, seniority};
use crate::resources::ResourceId;
use crate::world::World;

/// A right to evict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    pub rule: Rule,
    /// For a claim on what others hold beyond what they keep: the quota that is drawn on, and how far that may go.
    pub from: Option<(QuotaId, DrawDepth)>,
}

/// Which pods of a quota are within what it is entitled to.
#[derive(Debug, Clone)]
enum Within {
    /// It is entitled to nothing of what the claimant requests, such as a queue with a capability alone.
    Nobody,
    /// Those before this one, by seniority.
    Before(Seniority),
    Everybody,
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
    /// For quotas that were asked about: which pods are within what the quota is entitled to, among pods that stay; and
    /// the first that is beyond it of those that say they must not be evicted. Worked out when first needed, since a
    /// search looks at pods of few quotas.
    within: RefCell<LookupMap<QuotaId, Within>>,
    first_unprotected: RefCell<LookupMap<QuotaId, Option<Seniority>>>,
    /// The same over all that the quota governs, as pods are marked.
    first_marked: RefCell<LookupMap<QuotaId, Option<Seniority>>>,
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

    fn is_own(&self, quota: QuotaId) -> bool {
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
}

impl Going {
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
            within: RefCell::default(),
            first_unprotected: RefCell::default(),
            first_marked: RefCell::default(),
            drawable: Vec::new(),
            is_drawable: Vec::new(),
            spares_own: false,
        }
    }

    /// Finds the quotas that the claimant may draw on.
    pub fn find_drawable(&self, rights: &mut Rights) {
        if !rights.is_entitled() {
            return;
        }
        for (id, quota) in self.quotas.iter() {
            if quota.pods.is_empty() || self.quotas.is_plain(id) || rights.is_own(id) {
                continue;
            }
            let entitles = |(own, standing): &&(QuotaId, Standing)| {
                standing.draw.is_some() && self.quotas.get(*own).pool == quota.pool
            };
            if let Some((_, standing)) = rights.own.iter().find(entitles)
                && standing.compared.iter().any(|r| self.is_beyond(id, *r, DrawDepth::Min, 0))
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

    /// Whether a quota, after so much is gone, will hold more of a resource than it keeps.
    fn is_beyond(&self, id: QuotaId, resource: ResourceId, depth: DrawDepth, gone: i128) -> bool {
        let held = self.quotas.get(id).ledger.to_be_used(resource) - gone;
        self.quotas.keeps(id, resource, depth).is_some_and(|kept| held > kept)
    }

    /// Whether a pod is within its quota's entitlement by seniority, as far as the claimant's resources are concerned.
    pub fn is_within(&self, rights: &Rights, victim: PodId, quota: QuotaId) -> bool {
        let mut known = rights.within.borrow_mut();
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
    fn is_protected(&self, rights: &Rights, victim: PodId) -> bool {
        let pod = self.pods.get(victim);
        if !pod.is_never_evicted() {
            return false;
        }
        let mut binding = pod.quotas.iter().filter(|quota| !self.quotas.is_plain(**quota)).peekable();
        if binding.peek().is_none() {
            return true;
        }
        binding.any(|quota| {
            let mut known = rights.first_unprotected.borrow_mut();
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

    /// The claimant's right to what goes as one, if it has one. Whether their other quotas protect them is asked of the
    /// set.
    fn right(&self, rights: &Rights, pods: &[PodId], charge: &[(ResourceId, Amount)]) -> Option<Right> {
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

    /// Whether a fair quota counts a pod as in-quota, over all that it governs.
    fn is_marked_within(&self, rights: &Rights, victim: PodId, quota: QuotaId) -> bool {
        let mut known = rights.first_marked.borrow_mut();
        let first = known.or_insert_with(quota, || {
            self.quotas.first_over(quota, &self.pods, &self.shapes, |_| true, |pod| !pod.is_leaving()).cloned()
        });
        first.as_ref().is_none_or(|first| self.seniority(victim) < *first)
    }

    /// A pod that may go alone, if the claimant has a right to it.
    pub fn going(&self, rights: &Rights, pod: PodId) -> Option<Going> {
        let known = self.pods.get(pod);
        let gang = known.gang.filter(|gang| self.is_running_gang(*gang));
        if gang.is_some_and(|gang| self.breaks(gang, &[pod])) {
            return None;
        }
        let charge = self.charge_of(pod).to_vec();
        let right = self.right(rights, &[pod], &charge)?;
        let is_reservation = known.node().is_none();
        Some(Going {
            pods: vec![pod],
            charge,
            quotas: self.binding(pod),
            right,
            gang,
            is_whole_gang: false,
            is_reservation,
        })
    }

    /// A gang that may go whole, if the claimant has a right to it. It counts as one pod of its size.
    pub fn going_gang(&self, rights: &Rights, gang: GangId) -> Option<Going> {
        let mut pods: Vec<PodId> = self.gangs.get(gang).settled(&self.pods).map(|(id, _)| id).collect();
        pods.sort_by_key(|pod| self.pods.get(*pod).key());
        let quotas = self.binding(*pods.first()?);
        let is_placed = |pod: &PodId| {
            let is_there = |node| self.nodes.is_present(node);
            matches!(self.pods.get(*pod).place, crate::pods::Place::Placed(node) if is_there(node))
        };
        if !pods.iter().all(is_placed) || pods.iter().any(|pod| self.binding(*pod) != quotas) {
            return None;
        }
        let charges: Vec<_> = pods.iter().flat_map(|pod| self.charge_of(*pod).to_vec()).collect();
        let charge = add_charges(charges.iter());
        let right = self.right(rights, &pods, &charge)?;
        Some(Going { pods, charge, quotas, right, gang: Some(gang), is_whole_gang: true, is_reservation: false })
    }

    fn binding(&self, pod: PodId) -> Vec<QuotaId> {
        self.pods.get(pod).quotas.iter().copied().filter(|quota| !self.quotas.is_plain(*quota)).collect()
    }

    /// Whether a gang runs whose pods depend on each other.
    pub fn is_running_gang(&self, gang: GangId) -> bool {
        let known = self.gangs.get(gang);
        known.is_evicted_whole() || known.is_gang() && known.is_started()
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
                quotas.into_iter().all(|quota| self.is_some_order_right(rights, quota, set))
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
            is_some_order_right(set, |going, gone| {
                let compared = from(going).and_then(|from| rights.compared_in(from, self)).unwrap_or_default();
                self.quotas.permits_below(level, compared, gone)
            })
        })
    }

    fn spares_gangs(&self, set: &[&Going]) -> bool {
        let mut by_gang: BTreeMap<GangId, Vec<PodId>> = BTreeMap::new();
        for going in set.iter().filter(|going| !going.is_whole_gang) {
            if let Some(gang) = going.gang {
                by_gang.entry(gang).or_default().extend(&going.pods);
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

    /// Whether those of one quota can go in some order in which each may.
    fn is_some_order_right(&self, rights: &Rights, quota: QuotaId, set: &[&Going]) -> bool {
        let of_quota: Vec<&Going> = set.iter().copied().filter(|going| going.quotas.contains(&quota)).collect();
        is_some_order_right(of_quota, |going, gone| self.may_go_after(rights, quota, going, gone))
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
        let finds = rights.charge.iter().filter(|(r, _)| rights.requests(*r)).any(|(r, _)| {
            let Some(entitled) = self.quotas.entitlement(quota, *r) else { return false };
            speaks = true;
            self.quotas.keeps(quota, *r, DrawDepth::Min).is_some() && held(*r) > entitled
        });
        finds || !speaks
    }
}

/// Whether these can go in some order in which each may go after those before it.
///
/// It is found from the last one back: whoever can go last is no hindrance to the others, which find more there before
/// it than after, so that it does not matter which of several is put last.
fn is_some_order_right(mut unordered: Vec<&Going>, may_go_after: impl Fn(&Going, Amounts<'_>) -> bool) -> bool {
    while !unordered.is_empty() {
        let all = unordered.clone();
        unordered.retain(|going| {
            let gone = |resource: ResourceId| {
                all.iter().map(|other| other.charged(resource)).sum::<i128>() - going.charged(resource)
            };
            !may_go_after(going, &gone)
        });
        if unordered.len() == all.len() {
            return false;
        }
    }
    true
}
