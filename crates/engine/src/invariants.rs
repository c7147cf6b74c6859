//! What must always hold, checked by counting everything anew.

use std::collections::BTreeMap;

use crate::engine::Engine;
use crate::nodes::NodeId;
use crate::pods::{Place, PodId};

impl Engine {
    /// Checks what must always hold; the first thing that does not is the error.
    ///
    /// This counts everything anew and is for tests and debug builds.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.check_amounts()?;
        self.check_queue()?;
        self.check_evictions()
    }

    /// What nodes hold equals a recount over pods, and what is claimed a recount over claims.
    fn check_amounts(&self) -> Result<(), String> {
        let world = &self.world;
        let mut held: BTreeMap<(NodeId, u16), i128> = BTreeMap::new();
        let mut claimed: BTreeMap<(NodeId, u16), i128> = BTreeMap::new();
        let (mut cap_held, mut cap_claimed) = (held.clone(), claimed.clone());
        for (_, pod) in world.pods.iter() {
            let demand = &world.shapes.get(pod.shape).demand;
            let waiting_claim = pod.claim.filter(|_| pod.place == Place::Waiting).map(|claim| claim.node);
            for (resource, amount) in &demand.amounts {
                if let Some(node) = pod.node() {
                    *held.entry((node, resource.0)).or_default() += i128::from(*amount);
                    *cap_held.entry((node, resource.0)).or_default() += i128::from(*amount) * i128::from(demand.capped);
                }
                if let Some(node) = waiting_claim {
                    *claimed.entry((node, resource.0)).or_default() += i128::from(*amount);
                    *cap_claimed.entry((node, resource.0)).or_default() +=
                        i128::from(*amount) * i128::from(demand.capped);
                }
            }
        }
        for i in 0..world.nodes.limit() {
            let node = NodeId(i as u32);
            for r in 0..world.names.len() {
                let resource = crate::resources::ResourceId(r as u16);
                let compare = |what: &str, kept: i128, counted: &BTreeMap<(NodeId, u16), i128>| {
                    let counted = counted.get(&(node, resource.0)).copied().unwrap_or(0);
                    if kept == counted {
                        return Ok(());
                    }
                    let (name, resource) = (&world.nodes.get(node).name, world.names.name(resource));
                    Err(format!("node {name}: {kept} {resource} {what}, but a recount gives {counted}"))
                };
                compare("held", world.nodes.held(resource, node), &held)?;
                compare("claimed", world.nodes.claimed(resource, node), &claimed)?;
                let cap = &world.nodes.get(node).cap;
                compare("held under its cap", cap.held(resource), &cap_held)?;
                compare("claimed under its cap", cap.claimed(resource), &cap_claimed)?;
            }
        }
        Ok(())
    }

    /// A pod is queued if and only if it is a candidate.
    fn check_queue(&self) -> Result<(), String> {
        let mut queued: Vec<PodId> = self.queue.members();
        queued.sort_unstable();
        let candidates: Vec<PodId> =
            self.world.pods.iter().filter(|(_, pod)| pod.is_candidate()).map(|(id, _)| id).collect();
        if queued == candidates {
            return Ok(());
        }
        let odd =
            queued.iter().find(|id| !candidates.contains(id)).or(candidates.iter().find(|id| !queued.contains(id)));
        let key = odd.map(|id| self.world.pods.get(*id).key().to_string()).unwrap_or_default();
        Err(format!("pod {key} is queued and no candidate, or a candidate and not queued"))
    }

    /// No pod that was evicted could evict its evictor.
    fn check_evictions(&self) -> Result<(), String> {
        for (_, victim) in self.world.pods.iter() {
            let Some((claimant, _)) = &victim.evicted_for else { continue };
            let Some(evictor) = self.world.pods.find(claimant) else { continue };
            let evictor = self.world.pods.get(evictor);
            if crate::preempt::right::to_evict(victim, evictor).is_some() {
                return Err(format!("pod {} was evicted for {claimant} and could evict it in turn", victim.key()));
            }
        }
        Ok(())
    }
}
