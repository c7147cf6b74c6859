//! Who is owed something has the turn: what is given to one pod may be what others are entitled to.

use crate::engine::Engine;
use crate::ledger::pool::PoolId;
use crate::pods::PodId;
use crate::policy::{Crossing, QuotaId};

impl Engine {
    /// What pods of a pool were given changes what the others there may claim. They are looked at again when nothing
    /// else can be decided, so that a cycle that fills a pool looks at each of its pods a few times and not once for
    /// each placement. In a tree nobody is given more than its due; there it matters whose due has changed. Returns
    /// whether there is anybody to look at.
    pub(super) fn wake_claimants(&mut self) -> bool {
        let quotas = &self.world.quotas;
        let pools = std::mem::take(&mut self.moved_pools);
        let mut is_any_woken = false;
        if !pools.is_empty() {
            let may_claim = |id: &QuotaId| pools.contains(&quotas.get(*id).pool) && quotas.may_reclaim(*id);
            for quota in self.queue.quotas().filter(may_claim).collect::<Vec<QuotaId>>() {
                is_any_woken |= self.queue.wake_quota(quota);
            }
        }
        is_any_woken
    }

    /// A pod was given something.
    pub(super) fn note_moved_pools(&mut self, pod: PodId) {
        self.world.quotas.note_given(&self.world.pods.get(pod).quotas);
        if self.queue.has_any_at_rest() {
            self.wake_who_is_owed(pod);
        }
    }

    /// Where a pod was given what others are entitled to, those have their turn before others that come after them:
    /// what is given to these would be taken back at once. They are woken when a quota begins to hold more than it
    /// keeps, and whenever it comes to hold still more; of a cycle that gives much beyond what quotas keep, not each
    /// time but in the end, so that those who cannot be helped are not looked at once for each pod that is placed.
    fn wake_who_is_owed(&mut self, pod: PodId) {
        const ALWAYS: u32 = 32;
        let quotas = &self.world.quotas;
        let charge = self.world.charge_of(pod);
        let mut pools: Vec<(PoolId, QuotaId)> = Vec::new();
        for quota in self.world.pods.get(pod).quotas.iter().filter(|quota| !quotas.is_shared_out(**quota)) {
            let Some(crossing) = quotas.lends_with(*quota, &charge) else { continue };
            self.lent_in_cycle += u32::from(crossing == Crossing::Before);
            let is_due = self.lent_in_cycle <= ALWAYS || self.lent_in_cycle.is_power_of_two();
            if crossing == Crossing::Now || is_due {
                pools.push((quotas.get(*quota).pool, *quota));
            }
        }
        for (pool, given) in pools {
            let others = self.queue.quotas().filter(|quota| {
                let quotas = &self.world.quotas;
                *quota != given && quotas.get(*quota).pool == pool && quotas.may_reclaim(*quota)
            });
            let others: Vec<QuotaId> = others.collect();
            for (group, first) in others.into_iter().flat_map(|quota| self.queue.at_rest(quota)).collect::<Vec<_>>() {
                if self.world.is_owed(first) {
                    self.queue.wake(group);
                }
            }
        }
    }
}
