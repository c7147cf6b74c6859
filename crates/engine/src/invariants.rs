//! What must always hold, checked by counting everything anew.

use std::collections::BTreeMap;

use crate::engine::Engine;
use crate::nodes::{Node, NodeId};
use crate::pods::{Place, PodId};

impl Engine {
    /// Checks what must always hold; the first thing that does not is the error.
    ///
    /// This counts everything anew and is for tests and debug builds.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.check_amounts()?;
        self.check_attachments()?;
        self.check_queue()?;
        self.check_quotas()
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

    /// The volumes that are attached to nodes equal a recount over pods.
    fn check_attachments(&self) -> Result<(), String> {
        let world = &self.world;
        let mut attached = BTreeMap::new();
        for (_, pod) in world.pods.placed() {
            for attachment in world.volumes.attachments(world.shapes.get(pod.shape), &pod.uid) {
                *attached.entry((pod.node(), attachment)).or_insert(0) += 1;
            }
        }
        for node in world.nodes.by_name() {
            let counted =
                attached.range((Some(node), Default::default())..).take_while(|((at, _), _)| *at == Some(node));
            let counted: BTreeMap<_, u32> = counted.map(|((_, volume), count)| (volume.clone(), *count)).collect();
            let Node { name, attached, .. } = world.nodes.get(node);
            if *attached != counted {
                return Err(format!("node {name}: {attached:?} are attached, but a recount gives {counted:?}"));
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

    /// What quotas hold equals a recount over their pods, and so do the sums of the pools.
    fn check_quotas(&self) -> Result<(), String> {
        let world = &self.world;
        let mut pools: BTreeMap<u32, crate::quota::Ledger> = BTreeMap::new();
        for (id, quota) in world.quotas.iter() {
            let mut counted = crate::quota::Ledger::default();
            let mut pods = 0;
            for (_, pod) in world.pods.iter().filter(|(_, pod)| pod.quotas.contains(&id)) {
                let charge = &world.shapes.get(pod.shape).charge;
                if pod.node().is_some() {
                    pods += 1;
                    counted.used.charge(charge, true);
                    if pod.running {
                        counted.running.charge(charge, true);
                    }
                    if pod.is_leaving() {
                        counted.leaving.charge(charge, true);
                    }
                } else if pod.claim.is_some() {
                    counted.claimed.charge(charge, true);
                }
            }
            compare_ledgers(&quota.key.to_string(), &quota.ledger, &counted)?;
            if pods != quota.pods.len() {
                return Err(format!("{}: {} pods by seniority, but {pods} on nodes", quota.key, quota.pods.len()));
            }
            let pool = pools.entry(quota.policy.pool.0).or_default();
            for (from, to) in [
                (&counted.used, &mut pool.used),
                (&counted.running, &mut pool.running),
                (&counted.leaving, &mut pool.leaving),
                (&counted.claimed, &mut pool.claimed),
            ] {
                from.nonzero().for_each(|(resource, amount)| to.add(resource, amount));
            }
        }
        for (id, counted) in pools {
            let pool = world.quotas.pool(crate::quota::elastic::PoolId(id));
            compare_ledgers(&format!("the pool of {}", pool.group), &pool.ledger, &counted)?;
        }
        Ok(())
    }
}

fn compare_ledgers(whose: &str, kept: &crate::quota::Ledger, counted: &crate::quota::Ledger) -> Result<(), String> {
    for (what, kept, counted) in [
        ("used", &kept.used, &counted.used),
        ("running", &kept.running, &counted.running),
        ("leaving", &kept.leaving, &counted.leaving),
        ("claimed", &kept.claimed, &counted.claimed),
    ] {
        let (kept, counted): (Vec<_>, Vec<_>) = (kept.nonzero().collect(), counted.nonzero().collect());
        if kept != counted {
            return Err(format!("{whose}: {what} is {kept:?}, but a recount gives {counted:?}"));
        }
    }
    Ok(())
}
