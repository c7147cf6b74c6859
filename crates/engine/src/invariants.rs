//! What must always hold, checked by counting everything anew.

use std::collections::BTreeMap;

use crate::engine::Engine;
use crate::gangs::GangTally;
use crate::ledger::Ledger;
use crate::ledger::pool::PoolId;
use crate::ledger::sums::Sums;
use crate::nodes::{Node, NodeId};
use crate::pods::{Place, PodId};
use crate::policy::QuotaId;
use crate::sign::Sign;

impl Engine {
    /// Checks what must always hold; the first thing that does not is the error.
    ///
    /// This counts everything anew and is for tests and debug builds.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.check_amounts()?;
        self.check_attachments()?;
        self.check_queue()?;
        self.check_quotas()?;
        self.check_devices()?;
        self.world.quotas.check()?;
        self.check_gangs()
    }

    /// What nodes hold equals a recount over pods, and what is reserved a recount over reservations.
    fn check_amounts(&self) -> Result<(), String> {
        let world = &self.world;
        let mut held: BTreeMap<(NodeId, u32), i128> = BTreeMap::new();
        let mut reserved: BTreeMap<(NodeId, u32), i128> = BTreeMap::new();
        let (mut cap_held, mut cap_reserved) = (held.clone(), reserved.clone());
        for (_, pod) in world.pods.iter() {
            let demand = &crate::world::demand_of(&world.shapes, pod);
            let waiting_reservation =
                pod.reservation.filter(|_| pod.place == Place::Waiting).map(|reservation| reservation.node);
            for (resource, amount) in &demand.amounts {
                if let Some(node) = pod.node() {
                    *held.entry((node, resource.0)).or_default() += i128::from(*amount);
                    *cap_held.entry((node, resource.0)).or_default() += i128::from(*amount) * i128::from(demand.capped);
                }
                if let Some(node) = waiting_reservation {
                    *reserved.entry((node, resource.0)).or_default() += i128::from(*amount);
                    *cap_reserved.entry((node, resource.0)).or_default() +=
                        i128::from(*amount) * i128::from(demand.capped);
                }
            }
        }
        for i in 0..world.nodes.limit() {
            let node = NodeId(i as u32);
            for (resource, _) in world.names.iter() {
                let compare = |what: &str, kept: i128, counted: &BTreeMap<(NodeId, u32), i128>| {
                    let counted = counted.get(&(node, resource.0)).copied().unwrap_or(0);
                    if kept == counted {
                        return Ok(());
                    }
                    let (name, resource) = (&world.nodes.get(node).name, world.names.name(resource));
                    Err(format!("node {name}: {kept} {resource} {what}, but a recount gives {counted}"))
                };
                compare("held", world.nodes.held(resource, node), &held)?;
                compare("reserved", world.nodes.reserved(resource, node), &reserved)?;
                let cap = &world.nodes.get(node).cap;
                compare("held under its cap", cap.held(resource), &cap_held)?;
                compare("reserved under its cap", cap.reserved(resource), &cap_reserved)?;
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

    /// What is held of devices equals a recount over claims.
    fn check_devices(&self) -> Result<(), String> {
        let world = &self.world;
        let (kept, counted) =
            (world.devices.held_count(), world.device_claims.held_count(|id| world.pods.get(id).node().is_some()));
        if kept == counted {
            return Ok(());
        }
        Err(format!("{kept} devices and shares are held, but a recount gives {counted}"))
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

    /// Members of a gang say that they are, and those that run are counted.
    fn check_gangs(&self) -> Result<(), String> {
        for (id, gang) in self.world.gangs.iter() {
            for member in gang.members.iter().map(|member| self.world.pods.get(*member)) {
                if member.gang != Some(id) {
                    return Err(format!("{} is listed in a gang that is not its own", member.key()));
                }
            }
            let mut counted = GangTally::default();
            gang.settled(&self.world.pods)
                .for_each(|(id, pod)| counted.count(pod, &self.world.charge_of(id), Sign::Add));
            if !gang.tally.is_same(&counted) {
                let (name, kept) = (&gang.key, &gang.tally);
                return Err(format!("of the gang {name} {kept:?} count as running, but a recount gives {counted:?}"));
            }
        }
        Ok(())
    }

    /// What quotas hold equals a recount over their pods and those of the quotas below, and so do the sums of the
    /// pools.
    fn check_quotas(&self) -> Result<(), String> {
        let world = &self.world;
        let mut ledgers: BTreeMap<QuotaId, Ledger> = BTreeMap::new();
        let mut pods: BTreeMap<QuotaId, usize> = BTreeMap::new();
        for (id, pod) in world.pods.iter() {
            let charge = world.charge_of(id);
            let asked = &crate::world::requested_of(&world.shapes, pod);
            for quota in &pod.quotas {
                *pods.entry(*quota).or_default() += usize::from(pod.node().is_some());
                let asks = pod.counted && world.quotas.counts_requests(*quota);
                for level in world.quotas.path(*quota) {
                    let counted = ledgers.entry(level).or_default();
                    let mut count = |counts: bool, sums: fn(&mut Ledger) -> &mut Sums, charge: &[_]| {
                        if counts {
                            sums(counted).charge(charge, Sign::Add);
                        }
                    };
                    let placed = pod.node().is_some();
                    count(placed, |ledger| &mut ledger.used, &charge);
                    count(placed && pod.running, |ledger| &mut ledger.running, &charge);
                    count(placed && pod.is_leaving(), |ledger| &mut ledger.leaving, &charge);
                    count(placed && pod.is_non_preemptible(), |ledger| &mut ledger.non_preemptible, &charge);
                    let reserves = !placed && pod.reservation.is_some();
                    count(reserves, |ledger| &mut ledger.reserved, &charge);
                    let stays = reserves && pod.is_non_preemptible();
                    count(stays, |ledger| &mut ledger.non_preemptible_reserved, &charge);
                    count(asks, |ledger| &mut ledger.requested, asked);
                    let stays = asks && pod.is_non_preemptible();
                    count(stays, |ledger| &mut ledger.non_preemptible_requested, asked);
                }
            }
        }
        for (_, gang) in world.gangs.iter() {
            for level in gang.queue.into_iter().flat_map(|queue| world.quotas.path(queue)) {
                let counted = ledgers.entry(level).or_default();
                counted.reserved_for_groups.charge(&gang.reserved, Sign::Add);
                counted.gang_surplus.charge(&gang.elastic, Sign::Add);
            }
        }
        let mut pools: BTreeMap<PoolId, Ledger> = BTreeMap::new();
        for (id, quota) in world.quotas.iter() {
            let counted = ledgers.remove(&id).unwrap_or_default();
            compare_ledgers(&quota.key.to_string(), &quota.ledger, &counted)?;
            let pods = pods.get(&id).copied().unwrap_or(0);
            if pods != quota.pods.len() {
                return Err(format!("{}: {} pods by seniority, but {pods} on nodes", quota.key, quota.pods.len()));
            }
            if world.quotas.is_pooled(id) {
                pools.entry(quota.pool).or_default().count(&counted, Sign::Add);
            }
        }
        for (id, counted) in pools {
            let pool = world.quotas.pool(id);
            compare_ledgers(&format!("the pool of {}", pool.group), &pool.ledger, &counted)?;
        }
        Ok(())
    }
}

fn compare_ledgers(whose: &str, kept: &Ledger, counted: &Ledger) -> Result<(), String> {
    for ((what, kept), (_, counted)) in kept.sums().into_iter().zip(counted.sums()) {
        let (kept, counted): (Vec<_>, Vec<_>) = (kept.nonzero().collect(), counted.nonzero().collect());
        if kept != counted {
            return Err(format!("{whose}: {what} is {kept:?}, but a recount gives {counted:?}"));
        }
    }
    Ok(())
}
