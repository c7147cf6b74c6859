//! What can be asked of the engine.

use crate::decision::{Budget, Capacity};
use crate::engine::{Engine, GroupReport, NodeReport, QuotaReport};
use crate::fact::{Amount, Name, PodKey, QuotaKey, Tick};
use crate::gangs::Gang;
use crate::nodes::NodeId;
use crate::pods::Pod;
use crate::policy::QuotaId;
use crate::queue::Turn;
use crate::reason::Reason;
use crate::resources::{PODS_ID, ResourceId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Engine {
    /// Why the pod waits, if it does.
    pub fn reason(&self, pod: &PodKey) -> Option<Arc<Reason>> {
        self.world.pods.get(self.world.pods.find(pod)?).reason.clone()
    }

    /// Why each pod that waits does so as things stand now. [`Engine::reason`] is what was found when a pod was last
    /// looked at, and nobody looks again while nothing changes in its favour.
    pub fn reasons_now(&self) -> BTreeMap<PodKey, Arc<Reason>> {
        let mut copy = self.fork();
        copy.be_brief(false);
        copy.queue.wake_all();
        // Time decides nothing here but who has waited long enough to hold a node: at the first tick nobody has.
        copy.decide(Tick(0), Budget::default());
        let waiting = self.world.pods.iter().filter_map(|(_, pod)| Some((pod.key(), pod.reason.clone()?)));
        waiting.map(|(key, known)| (key.clone(), copy.reason(&key).unwrap_or(known))).collect()
    }

    /// Why one pod that waits does so as things stand now. Nothing can be decided in a cluster that has settled, so
    /// that each pod's reason is its own: the others need not be looked at.
    pub fn reason_now(&self, pod: &PodKey) -> Option<Arc<Reason>> {
        let id = self.world.pods.find(pod)?;
        let known = self.world.pods.get(id).reason.clone()?;
        let mut copy = self.fork();
        copy.be_brief(false);
        if let Some(group) = self.world.pods.get(id).group {
            copy.queue.wake(group);
        }
        copy.decide(Tick(0), Budget::default());
        Some(copy.reason(pod).unwrap_or(known))
    }

    /// When a pod that waits has its turn; none for one that waits for something else than a turn.
    pub fn turn(&self, pod: &PodKey) -> Option<Turn> {
        let pod = self.world.pods.get(self.world.pods.find(pod)?);
        Some(self.queue.turn(pod.group?, pod.created, &pod.name))
    }

    /// All quotas, by key.
    pub fn quotas(&self) -> Vec<QuotaReport> {
        let quotas = self.world.quotas.fresh();
        let lending = quotas.lending();
        quotas.iter().map(|(id, _)| quotas.report(id, &lending, &self.world.names)).collect()
    }

    /// The keys of all quotas.
    pub fn quota_keys(&self) -> impl Iterator<Item = &QuotaKey> {
        self.world.quotas.iter().map(|(_, quota)| &quota.key)
    }

    /// The pods on nodes that are not on their way out.
    pub fn placed(&self) -> impl Iterator<Item = PodKey> {
        let placed = self.world.pods.iter().map(|(_, pod)| pod).filter(|pod| pod.node().is_some() && !pod.is_leaving());
        placed.map(Pod::key)
    }

    /// The priorities that pods on nodes have, each once, in order.
    pub fn running_priorities(&self) -> BTreeSet<i32> {
        self.world.pods.iter().filter(|(_, pod)| pod.node().is_some()).map(|(_, pod)| pod.priority).collect()
    }

    /// All groups whose objects were seen, by namespace and name.
    pub fn groups(&self) -> Vec<GroupReport> {
        let seen = self.world.gangs.iter().filter(|(_, gang)| gang.fact.is_some() && gang.parts.is_empty());
        seen.map(|(_, gang)| self.group_report(gang)).collect()
    }

    /// The quotas that a pod answers to, by key.
    pub fn quotas_of(&self, pod: &PodKey) -> Vec<QuotaKey> {
        let Some(id) = self.world.pods.find(pod) else { return Vec::new() };
        let pod = self.world.pods.get(id);
        let mut keys: Vec<QuotaKey> =
            pod.quotas.iter().map(|quota| self.world.quotas.get(*quota).key.clone()).collect();
        keys.sort();
        keys
    }

    /// The pods on nodes that answer to one of these quotas, by key.
    pub fn placed_under(&self, is_meant: impl Fn(&QuotaKey) -> bool) -> BTreeSet<PodKey> {
        let quotas: BTreeSet<QuotaId> =
            self.world.quotas.iter().filter(|(_, quota)| is_meant(&quota.key)).map(|(id, _)| id).collect();
        let placed = self.world.pods.iter().map(|(_, pod)| pod).filter(|pod| pod.node().is_some());
        placed.filter(|pod| pod.quotas.iter().any(|quota| quotas.contains(quota))).map(Pod::key).collect()
    }

    /// What a pod asks for, by resource name; the place for one more pod, which all ask for, is left out.
    pub fn requests(&self, pod: &PodKey) -> Vec<(Name, Amount)> {
        let Some(id) = self.world.pods.find(pod) else { return Vec::new() };
        let demand = &self.world.shapes.get(self.world.pods.get(id).shape).demand;
        let asked = demand.amounts.iter().filter(|(resource, _)| *resource != PODS_ID);
        let mut asked: Vec<_> =
            asked.map(|(resource, amount)| (self.world.names.name(*resource).clone(), *amount)).collect();
        asked.sort();
        asked
    }

    /// The cards that a pod on a node has, by name: those of the node's device plugin, and devices that it claims.
    pub fn cards_of(&self, pod: &PodKey) -> Vec<(Name, Amount)> {
        let world = &self.world;
        let Some(pod) = world.pods.find(pod).map(|id| world.pods.get(id)) else { return Vec::new() };
        let Some(node) = pod.node().filter(|_| !pod.cards.is_empty()) else { return Vec::new() };
        let of_devices = world.devices.cards_of(&world.nodes.get(node).name);
        let of_labels = &world.nodes.get(node).cards;
        let is_card = |card: ResourceId| {
            of_labels.iter().any(|(_, known)| *known == card) || of_devices.contains_key(world.names.name(card))
        };
        let cards = pod.cards.iter().filter(|(card, _)| is_card(*card));
        cards.map(|(card, amount)| (world.names.name(*card).clone(), *amount)).collect()
    }

    /// Whether a running pod is within its quota, and the API group of the quota that says so.
    pub fn capacity(&self, pod: &PodKey) -> Option<(Name, Capacity)> {
        self.world.pods.get(self.world.pods.find(pod)?).marks.first().cloned()
    }

    /// The same of all running pods of which some quota says so, in no certain order.
    pub fn capacities(&self) -> impl Iterator<Item = (PodKey, Capacity)> {
        self.world.pods.iter().filter_map(|(_, pod)| Some((pod.key(), pod.marks.first()?.1)))
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> Vec<NodeReport> {
        let world = &self.world;
        let mut resources: Vec<ResourceId> = world.names.iter().map(|(resource, _)| resource).collect();
        resources.sort_by_key(|id| world.names.name(*id).clone());
        let limits = |node: NodeId| world.nodes.get(node).cap.limits().unwrap_or_default().iter();
        let report = |node: NodeId| {
            let devices = world.devices.cards_of(&world.nodes.get(node).name);
            NodeReport {
                name: world.nodes.get(node).name.clone(),
                allocatable: resources
                    .iter()
                    .map(|r| (world.names.name(*r).clone(), world.nodes.allocatable(*r, node)))
                    .filter(|(_, amount)| *amount != 0)
                    .collect(),
                used: resources
                    .iter()
                    .map(|r| (world.names.name(*r).clone(), world.nodes.held(*r, node)))
                    .chain(devices.iter().map(|(card, (_, held))| (card.clone(), *held)))
                    .filter(|(_, amount)| *amount != 0)
                    .collect(),
                cap: limits(node).map(|(r, limit)| (world.names.name(*r).clone(), i128::from(*limit))).collect(),
                cap_used: limits(node)
                    .map(|(r, _)| (world.names.name(*r).clone(), world.nodes.get(node).cap.held(*r)))
                    .filter(|(_, amount)| *amount != 0)
                    .collect(),
                cards: {
                    let cards = world.nodes.get(node).cards.iter();
                    let named =
                        cards.map(|(r, card)| (world.names.name(*card).clone(), world.nodes.allocatable(*r, node)));
                    let mut named: Vec<(Name, i128)> = named.map(|(name, amount)| (name, i128::from(amount))).collect();
                    named.retain(|(_, amount)| *amount > 0);
                    // Those that a device plugin serves as well are the same cards.
                    let of_devices =
                        devices.into_iter().filter(|(card, _)| !named.iter().any(|(known, _)| known == card));
                    named.extend(of_devices.map(|(card, (count, _))| (card, count)).collect::<Vec<_>>());
                    named.sort();
                    named
                },
            }
        };
        world.nodes.by_name().map(report).collect()
    }

    /// A gang as it stands.
    pub(super) fn group_report(&self, gang: &Gang) -> GroupReport {
        let pods = || gang.named_by.iter().map(|id| self.world.pods.get(*id));
        let of_bundle = || self.world.gangs.get(gang.bundle?).reason.clone();
        let placed = |pod: &&Pod| pod.node().is_some();
        // Where none of its pods could take a turn, the first says why.
        let of_first = || pods().find(|pod| !placed(pod) && !pod.is_leaving()).and_then(|pod| pod.reason.clone());
        let reason = gang
            .reason
            .clone()
            .or_else(of_bundle)
            .or_else(|| (!pods().any(|pod| placed(&pod))).then(of_first).flatten());
        GroupReport {
            key: gang.key.clone(),
            admitted: gang.admitted,
            members: gang.named_by.len() as u32,
            placed: pods().filter(placed).count() as u32,
            running: pods().filter(placed).filter(|pod| pod.running).count() as u32,
            min_member: gang.min_member(),
            reason,
        }
    }
}
