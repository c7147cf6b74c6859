//! Over-use: a quota of a tree that stays above its runtime gives back, after a while.

use std::collections::BTreeMap;

use crate::budgets::BudgetKey;
use crate::decision::{Decision, Decisions, Rule};
use crate::engine::Engine;
use crate::engine::wake::Change;
use crate::fact::Tick;
use crate::pods::{Place, Pod, PodId};
use crate::policy::QuotaId;
use crate::quantity::canonical;
use crate::relations::Effects;
use crate::resources::ResourceId;

impl Engine {
    /// Notes which of the quotas that changed are above their runtime, and evicts from those that were for too long.
    /// Returns whether somebody is evicted.
    pub(super) fn revoke_overuse(&mut self, now: Tick, decisions: &mut Decisions) -> bool {
        for id in std::mem::take(&mut self.recheck_overuse) {
            if self.world.quotas.is_listed(id) && !self.excess(id, &[]).is_empty() {
                self.overused_since.entry(id).or_insert(now);
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
        let evicted = decisions.list.len();
        for id in due {
            self.revoke(id, decisions);
        }
        decisions.list.len() > evicted
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
        let mut pods: Vec<PodId> = world.quotas.get(id).pods.iter().map(|senior| senior.pod).collect();
        pods.retain(|pod| {
            let pod = world.pods.get(*pod);
            !pod.is_kept() && !pod.is_leaving() && matches!(pod.place, Place::Placed(_))
        });
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
    fn revoke(&mut self, id: QuotaId, decisions: &mut Decisions) {
        let mut parts: Vec<Vec<PodId>> = Vec::new();
        for pod in self.revocable(id) {
            let gone = parts.concat();
            let over = self.excess(id, &gone);
            if gone.contains(&pod) || !over.iter().any(|(resource, ..)| self.world.charged(pod, *resource) > 0) {
                continue;
            }
            let with: Vec<PodId> = gone.into_iter().chain([pod]).collect();
            let Some(rest) = self.world.rest_of_gangs(&with) else { continue };
            let rest: Vec<PodId> = rest.into_iter().map(|(pod, _)| pod).collect();
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
            return;
        }
        let Some((resource, used, runtime)) = self.excess(id, &[]).into_iter().next() else { return };
        let name = self.world.names.name(resource).clone();
        let message = format!(
            "evicted because {} held {} {name} for longer than {} s, more than its runtime of {}",
            self.world.quotas.get(id).key,
            canonical(&name, used),
            self.settings.tree.revoke_after_ms / 1000,
            canonical(&name, runtime),
        );
        taken.sort_by_key(|pod| self.world.pods.get(*pod).key());
        let mut effects = Effects::default();
        for victim in taken {
            let pod = self.world.pods.get(victim);
            let (key, uid) = (pod.key(), pod.uid.clone());
            let node = pod.node().map(|node| self.world.nodes.get(node).name.clone());
            decisions.list.push(Decision::Evict {
                pod: key.clone(),
                uid: uid.clone(),
                node: node.expect("only pods on nodes are evicted"),
                claimant: None,
                rule: Rule::TreeOveruse,
                violates_budget: false,
                message: message.clone(),
            });
            // It leaves for nobody, which is as good as for itself: nobody else has its uid.
            self.world.change_leaving(victim, &mut effects, |pod| pod.evicted_for = Some((key, uid)));
            self.note_leaving_for(victim, true);
            self.world.budgets.unseen.push(victim);
        }
        self.wake(effects);
        self.note(Change::OveruseEvicted);
    }
}
