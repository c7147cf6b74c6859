//! Over-use: a quota of a tree that stays above its runtime gives back, after a while.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::budgets::BudgetKey;
use crate::decision::{Decisions, Rule};
use crate::engine::Engine;
use crate::engine::evict::Eviction;
use crate::engine::wake::Change;
use crate::fact::Tick;
use crate::gangs::GangId;
use crate::pods::{Place, Pod, PodId};
use crate::policy::QuotaId;
use crate::reason::eviction::{EvictionCause, EvictionReason, Overuse};
use crate::relations::Effects;
use crate::resources::ResourceId;

impl Engine {
    /// Notes which of the quotas that changed are above their runtime, and evicts from those that were for too long.
    /// Returns whether somebody is evicted.
    pub(super) fn revoke_overuse(&mut self, now: Tick, decisions: &mut Decisions) -> bool {
        for id in std::mem::take(&mut self.recheck_overuse) {
            if !self.world.quotas.is_listed(id) {
                self.overused_since.remove(&id);
                continue;
            }
            let key = self.world.quotas.get(id).key.clone();
            let told = self.told_overuse.get(&key).copied().filter(|_| !self.overuse_known.contains(&key));
            self.overuse_known.insert(key);
            if !self.excess(id, &[]).is_empty() {
                self.overused_since.entry(id).or_insert(told.map_or(now, |told| told.min(now)));
            } else {
                self.overused_since.remove(&id);
            }
        }
        let due: Vec<QuotaId> = self
            .overused_since
            .iter()
            .filter(|(_, since)| self.revoked_at(**since) <= now)
            .map(|(id, _)| *id)
            .collect();
        let mut due: Vec<QuotaId> = due.into_iter().filter(|id| self.world.quotas.is_listed(*id)).collect();
        due.sort_by_key(|id| self.world.quotas.get(*id).key.clone());
        // One quota at a time: what the others may hold is worked out anew before the next gives anything back.
        due.into_iter().any(|id| self.revoke(id, decisions))
    }

    fn revoked_at(&self, since: Tick) -> Tick {
        Tick(since.0.saturating_add(self.settings.tree.revoke_after_ms))
    }

    /// When the next quota will have been above its runtime for too long.
    pub(super) fn next_revocation(&self, now: Tick) -> Option<Tick> {
        self.overused_since.values().map(|since| self.revoked_at(*since)).filter(|due| *due > now).min()
    }

    /// The resources of which a quota holds more than its runtime when these are gone, with what it holds and may hold.
    fn excess(&self, id: QuotaId, gone: &[PodId]) -> Vec<(ResourceId, i128, i128)> {
        let quota = self.world.quotas.get(id);
        if !self.world.quotas.ends_overuse(id) {
            return Vec::new();
        }
        let left = |resource: ResourceId| quota.ledger.stays(resource) - self.held_by(gone, resource);
        let limits = self.world.quotas.within(id).into_iter();
        let over = limits.map(|(resource, limit)| (resource, left(resource), limit));
        over.filter(|(_, left, runtime)| left > runtime).collect()
    }

    fn held_by(&self, pods: &[PodId], resource: ResourceId) -> i128 {
        pods.iter().map(|pod| self.world.charged(*pod, resource)).sum()
    }

    /// The pods that a quota could give back, the least important first.
    fn revocable(&self, id: QuotaId) -> Vec<PodId> {
        let world = &self.world;
        let first_unprotected = world.first_unprotected(id, |_| true);
        let seniors = world.quotas.get(id).pods.iter().filter(|senior| {
            let pod = world.pods.get(senior.pod);
            let is_protected = pod.is_never_evicted() && first_unprotected.is_none_or(|first| *senior < first);
            !is_protected && !pod.is_leaving() && matches!(pod.place, Place::Placed(_))
        });
        let mut pods: Vec<PodId> = seniors.map(|senior| senior.pod).collect();
        pods.sort_by_cached_key(|pod| {
            let Pod { priority, created, .. } = *world.pods.get(*pod);
            (priority, std::cmp::Reverse(created), std::cmp::Reverse(world.pods.get(*pod).key()))
        });
        pods
    }

    /// Whether no disruption budget keeps these from going together.
    fn budgets_allow(&self, pods: &[PodId]) -> bool {
        let mut taken: BTreeMap<BudgetKey, u32> = BTreeMap::new();
        for pod in pods {
            for key in self.world.budgets.of(self.world.pods.get(*pod)) {
                *taken.entry(key.clone()).or_default() += 1;
            }
        }
        taken.iter().all(|(key, count)| *count <= self.world.budgets.allows(key, &self.world.pods))
    }

    /// Evicts the least important pods that make the difference: those that hold something of which there is too much
    /// are taken from the least important on, and put back from the most important on where there is room again. A
    /// gang that would fall below its minimum goes whole or not at all, and no disruption budget is passed over.
    ///
    /// Returns whether somebody goes.
    fn revoke(&mut self, id: QuotaId, decisions: &mut Decisions) -> bool {
        let mut parts: Vec<Vec<PodId>> = Vec::new();
        let revocable = self.revocable(id);
        for pod in revocable.iter().copied() {
            let gone = parts.concat();
            let over = self.excess(id, &gone);
            if gone.contains(&pod) || !over.iter().any(|(resource, ..)| self.world.charged(pod, *resource) > 0) {
                continue;
            }
            let with: Vec<PodId> = gone.into_iter().chain([pod]).collect();
            let Some(rest) = self.rest_of_gangs(&with, &revocable) else { continue };
            if !self.budgets_allow(&[&with[..], &rest].concat()) {
                continue;
            }
            let mut part = vec![pod];
            let gang = self.world.pods.get(pod).gang;
            if !rest.is_empty() || gang.is_some_and(|gang| self.world.breaks(gang, &with)) {
                // What went of the gang before comes back with the rest or not at all.
                let is_of_gang = |part: &mut Vec<PodId>| self.world.pods.get(part[0]).gang == gang;
                part.extend(parts.extract_if(.., is_of_gang).flatten());
                part.extend(rest);
            }
            parts.push(part);
        }
        for at in (0..parts.len()).rev() {
            let gone: Vec<PodId> =
                parts.iter().enumerate().filter(|(i, _)| *i != at).flat_map(|(_, p)| p).copied().collect();
            let over = self.excess(id, &gone);
            if !over.iter().any(|(resource, ..)| self.held_by(&parts[at], *resource) > 0) {
                parts.remove(at);
            }
        }
        let mut taken = parts.concat();
        if taken.is_empty() {
            return false;
        }
        let Some((resource, used, runtime)) = self.excess(id, &[]).into_iter().next() else { return false };
        let overuse = Overuse {
            quota: self.world.quotas.quota_path(id),
            resource: self.world.names.name(resource).clone(),
            used,
            entitlement: runtime,
            accepted_ms: self.settings.tree.revoke_after_ms,
        };
        let reason = Arc::new(EvictionReason { rule: Rule::TreeOveruse, cause: EvictionCause::Overused(overuse) });
        taken.sort_by_key(|pod| self.world.pods.get(*pod).key());
        let mut effects = Effects::default();
        for victim in taken {
            let eviction = Eviction { claimant: None, violates_budget: false, reason: reason.clone() };
            self.evict(victim, eviction, &mut effects, decisions);
        }
        self.wake(effects);
        self.note(Change::OveruseEvicted);
        true
    }

    /// The pods that go with these, since their gangs fall below their minimum. `None` if one of them may not go.
    fn rest_of_gangs(&self, victims: &[PodId], revocable: &[PodId]) -> Option<Vec<PodId>> {
        let world = &self.world;
        let mut gangs: Vec<GangId> = victims.iter().filter_map(|victim| world.pods.get(*victim).gang).collect();
        gangs.sort_unstable();
        gangs.dedup();
        gangs.retain(|gang| world.breaks(*gang, victims));
        let settled = gangs.iter().flat_map(|gang| world.gangs.get(*gang).settled(&world.pods).map(|(id, _)| id));
        let rest: Vec<PodId> = settled.filter(|id| !victims.contains(id)).collect();
        rest.iter().all(|pod| revocable.contains(pod)).then_some(rest)
    }
}
