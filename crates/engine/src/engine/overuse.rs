//! Over-use: a quota of a tree that stays above its runtime gives back, after a while.

use crate::decision::{Decision, Decisions, Rule};
use crate::engine::Engine;
use crate::fact::Tick;
use crate::pods::{Pod, PodId};
use crate::quantity::canonical;
use crate::quota::QuotaId;
use crate::relations::Effects;
use crate::resources::ResourceId;

impl Engine {
    /// Notes which of the quotas that changed are above their runtime, and evicts from those that were for too long.
    /// Returns whether somebody is evicted.
    pub(super) fn revoke_overuse(&mut self, now: Tick, decisions: &mut Decisions) -> bool {
        for id in std::mem::take(&mut self.recheck_overuse) {
            if self.world.quotas.is_listed(id) && self.excess(id, &[]).is_some() {
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

    /// A resource of which a quota holds more than its runtime when these are gone, with what it holds and may hold.
    fn excess(&self, id: QuotaId, gone: &[PodId]) -> Option<(ResourceId, i128, i128)> {
        let quota = self.world.quotas.get(id);
        let tree = quota.tree().filter(|tree| !tree.fact.is_parent)?;
        let left = |resource: ResourceId| {
            let taken: i128 = gone.iter().map(|pod| self.world.charged(*pod, resource)).sum();
            quota.ledger.stays(resource) - taken
        };
        let mut over = tree.runtimes().map(|(resource, runtime)| (resource, left(resource), runtime));
        over.find(|(_, left, runtime)| left > runtime)
    }

    /// Evicts the least important pods that make the difference: taken from the least important on, and put back from
    /// the most important on where there is room again. No disruption budget is passed over.
    fn revoke(&mut self, id: QuotaId, decisions: &mut Decisions) {
        let world = &self.world;
        let mut pods: Vec<PodId> = world.quotas.get(id).pods.iter().map(|senior| senior.pod).collect();
        pods.retain(|pod| {
            let pod = world.pods.get(*pod);
            !pod.protected && !pod.non_preemptible && !pod.is_leaving() && pod.node().is_some()
        });
        pods.sort_by_cached_key(|pod| {
            let Pod { priority, created, .. } = *world.pods.get(*pod);
            (priority, std::cmp::Reverse(created), std::cmp::Reverse(world.pods.get(*pod).key()))
        });
        let mut spent: Vec<(crate::budgets::BudgetKey, u32)> = Vec::new();
        let mut taken: Vec<PodId> = Vec::new();
        for pod in pods {
            if self.excess(id, &taken).is_none() {
                break;
            }
            let budgets: Vec<_> = self.world.budgets.of(self.world.pods.get(pod)).cloned().collect();
            let spent_of =
                |key: &crate::budgets::BudgetKey| spent.iter().find(|(k, _)| k == key).map_or(0, |(_, n)| *n);
            if budgets.iter().any(|key| self.world.budgets.allows(key, &self.world.pods) <= spent_of(key)) {
                continue;
            }
            for key in budgets {
                match spent.iter_mut().find(|(k, _)| *k == key) {
                    Some((_, n)) => *n += 1,
                    None => spent.push((key, 1)),
                }
            }
            taken.push(pod);
        }
        for pod in taken.clone().into_iter().rev() {
            let without: Vec<PodId> = taken.iter().copied().filter(|other| *other != pod).collect();
            let fits = |(resource, runtime): (ResourceId, i128)| {
                let gone: i128 = without.iter().map(|pod| self.world.charged(*pod, resource)).sum();
                let stays = self.world.quotas.get(id).ledger.stays(resource);
                self.world.charged(pod, resource) == 0 || stays - gone <= runtime
            };
            let tree = self.world.quotas.get(id).tree();
            if tree.is_some_and(|tree| tree.runtimes().all(fits)) {
                taken = without;
            }
        }
        let Some((resource, used, runtime)) = self.excess(id, &[]) else { return };
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
        self.stir();
    }
}
