//! Which may go together: each that goes leaves its quotas, and its gang, with less.

use std::collections::BTreeMap;

use crate::gangs::GangId;
use crate::pods::PodId;
use crate::policy::{Amounts, DrawDepth, QuotaId, Taking};
use crate::preempt::rights::{Going, Rights};
use crate::resources::ResourceId;
use crate::world::World;

impl World {
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
                self.quotas.permits_below(level, &compared, &gone)
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
            let compared = &*self.quotas.comparable(quota, *own, &rights.charge, &standing.compared);
            let taking = Taking { claimant: *own, charge: &rights.charge, compared, gone_before: gone };
            return compared.iter().any(finds) && self.quotas.permits(quota, &taking);
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
