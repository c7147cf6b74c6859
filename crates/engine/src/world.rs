//! All that is known of the cluster, in the tables that decisions are made from.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::budgets::Budgets;
use crate::candidates::CandidateCache;
use crate::cards::Variant;
use crate::default_spread::DefaultSpread;
use crate::devices::Devices;
use crate::devices::claims::Claims;
use crate::fact::{Amount, ClaimFact, Name, PodVolume, StorageClassFact, VolumeFact};
use crate::gangs::Gangs;
use crate::load_index::LoadIndex;
use crate::node_rules::NodeRules;
use crate::nodes::{NodeId, Nodes};
use crate::pods::{Granted, Place, Pod, PodId, Pods};
use crate::policy::{Ask, Quotas, Refusal};
use crate::preempt::loops::Takings;
use crate::reason::Code;
use crate::relations::{CountingTables, Effects, Relations};
use crate::resources::{ResourceId, ResourceNames};
use crate::score::node_cap::CapWeights;
use crate::shape::{Compiling, ShapeId, Shapes};
use crate::topology::Topologies;
use crate::volumes::{ClaimKey, Volumes};

#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    pub names: ResourceNames,
    pub nodes: Nodes,
    pub pods: Pods,
    pub shapes: Shapes,
    pub topologies: Topologies,
    pub node_rules: NodeRules,
    pub relations: Relations,
    pub volumes: Volumes,
    pub devices: Devices,
    pub device_claims: Claims,
    pub budgets: Budgets,
    pub default_spread: DefaultSpread,
    pub candidates: CandidateCache,
    pub load_index: LoadIndex,
    pub quotas: Quotas,
    pub gangs: Gangs,
    /// The waiting pods whose claims count.
    pub reservations: BTreeSet<PodId>,
    /// Who took from whom since something last changed from outside.
    pub takings: Takings,
    /// The kinds of card that nodes have, by the resource by which they are asked for, with how many nodes have them.
    pub card_kinds: BTreeMap<ResourceId, BTreeMap<ResourceId, u32>>,
    /// The shapes that shapes have when their pods may take some cards only.
    pub variants: BTreeMap<ShapeId, Vec<Variant>>,
    pub cap_weights: CapWeights,
    /// What the order of preference among cards weighs.
    pub card_weight: i64,
    /// The nodes that took the last pod that was asked about; kept for its memory alone.
    pub open: Vec<NodeId>,
}

/// What a pod is charged where it is.
pub(crate) fn charge_of<'a>(shapes: &'a Shapes, pod: &Pod) -> Cow<'a, [(ResourceId, Amount)]> {
    let charge = &shapes.get(pod.shape).charge;
    if pod.cards.is_empty() {
        return Cow::Borrowed(charge);
    }
    let mut whole = charge.clone();
    for (resource, amount) in &pod.cards {
        // A device may be charged by a name that the pod asks for too.
        match whole.iter_mut().find(|(known, _)| known == resource) {
            Some((_, sum)) => *sum = sum.saturating_add(*amount),
            None => whole.push((*resource, *amount)),
        }
    }
    Cow::Owned(whole)
}

impl World {
    /// The shape of a pod with this spec and labels, for one more user.
    pub fn shape(
        &mut self,
        spec: &std::sync::Arc<crate::fact::PodSpec>,
        namespace: &Name,
        labels: &crate::fact::Labels,
        owner: Option<&Name>,
    ) -> ShapeId {
        let implied = self.default_spread.selector(namespace, labels, owner);
        let mut tables = Compiling {
            names: &mut self.names,
            nodes: &self.nodes,
            pods: &self.pods,
            topologies: &mut self.topologies,
            relations: &mut self.relations,
        };
        self.shapes.intern(spec, namespace, labels, implied, &mut tables)
    }

    /// A shape that differs from another in its spec alone, for one more user.
    pub fn shape_like(&mut self, base: ShapeId, spec: crate::fact::PodSpec, namespace: &Name) -> ShapeId {
        let mut tables = Compiling {
            names: &mut self.names,
            nodes: &self.nodes,
            pods: &self.pods,
            topologies: &mut self.topologies,
            relations: &mut self.relations,
        };
        self.shapes.intern_like(base, spec, namespace, &mut tables)
    }

    /// One user of a shape less. Returns whether a shape is forgotten with it.
    pub fn release_shape(&mut self, shape: ShapeId) -> bool {
        if !self.shapes.release(shape, &mut self.relations) {
            return false;
        }
        // Its number may be given to another shape; what was found of it must not be taken for the other's.
        self.candidates.forget(shape);
        for variant in self.variants.remove(&shape).unwrap_or_default() {
            self.release_shape(variant.shape);
        }
        true
    }

    /// Puts a pod onto a node.
    pub fn enter(&mut self, id: PodId, place: Place, effects: &mut Effects) {
        self.pods.enter(id, place);
        let pod = self.pods.get(id);
        let node = pod.node().expect("a pod enters a node");
        let plugin = self.plugin_demand(self.shapes.get(pod.shape).spec(), node);
        self.pods.get_mut(id).plugin = plugin;
        let demand = self.demand_of(self.pods.get(id)).into_owned();
        self.nodes.hold(node, &demand, true);
        if self.pods.get(id).is_leaving() {
            self.nodes.count_leaving(node, &demand, true);
        }
        let mut cards = self.nodes.cards_for(node, &demand);
        self.use_devices(id, node, matches!(place, Place::Assumed(_)), true);
        cards.extend(self.held_devices(id));
        self.pods.get_mut(id).cards = cards;
        let pod = self.pods.get(id);
        self.quotas.charge(id, pod, &charge_of(&self.shapes, pod), true, &self.names);
        self.gangs.count(pod, &charge_of(&self.shapes, pod), true);
        if self.nodes.is_present(node) {
            self.apply_presence(id, node, true, effects);
        }
    }

    /// Takes a pod off its node.
    pub fn leave(&mut self, id: PodId, place: Place, effects: &mut Effects) {
        let pod = self.pods.get(id);
        let node = pod.node().expect("a pod leaves a node it is on");
        let demand = self.demand_of(pod).into_owned();
        let is_leaving = pod.is_leaving();
        self.nodes.hold(node, &demand, false);
        if is_leaving {
            self.nodes.count_leaving(node, &demand, false);
        }
        self.pods.get_mut(id).plugin = Vec::new();
        let pod = self.pods.get(id);
        self.quotas.charge(id, pod, &charge_of(&self.shapes, pod), false, &self.names);
        self.gangs.count(pod, &charge_of(&self.shapes, pod), false);
        self.pods.get_mut(id).cards = Vec::new();
        if self.nodes.is_present(node) {
            self.apply_presence(id, node, false, effects);
        }
        self.use_devices(id, node, false, false);
        self.pods.leave(id, place);
    }

    /// What a pod takes on its node: its shape's demand, and what a device plugin there serves.
    pub fn demand_of(&self, pod: &Pod) -> Cow<'_, crate::resources::Demand> {
        let demand = &self.shapes.get(pod.shape).demand;
        if pod.plugin.is_empty() {
            return Cow::Borrowed(demand);
        }
        let mut demand = demand.clone();
        demand.amounts.extend(&pod.plugin);
        Cow::Owned(demand)
    }

    /// A pod on a node that is there bears on others beyond the amounts it holds: by its ports and volumes, by being
    /// near, and by its terms.
    fn apply_presence(&mut self, id: PodId, node: NodeId, add: bool, effects: &mut Effects) {
        let pod = self.pods.get(id);
        let shape = self.shapes.get(pod.shape);
        for port in &shape.spec().ports {
            self.nodes.use_port(node, port, add);
        }
        if !shape.spec().volumes.is_empty() {
            self.use_volumes(id, node, add);
        }
        for held in &self.shapes.get(self.pods.get(id).shape).holds {
            self.relations.hold(held, self.topologies.domain(held.topology, node), add);
        }
        let around = CountingTables {
            pods: &self.pods,
            nodes: &self.nodes,
            topologies: &self.topologies,
            node_rules: &self.node_rules,
        };
        self.relations.count_pod(id, node, add, &around, effects);
        for touched in effects.touched.drain(..) {
            self.nodes.touch(touched);
        }
    }

    fn use_volumes(&mut self, id: PodId, node: NodeId, add: bool) {
        let pod = self.pods.get(id);
        let shape = self.shapes.get(pod.shape);
        self.volumes.use_claims(id, shape, add);
        for volume in &shape.spec().volumes {
            if let PodVolume::Disk { id, read_only } = volume {
                self.nodes.use_disk(node, id, *read_only, add);
            }
        }
        self.attach(id, node, add);
    }

    fn attach(&mut self, id: PodId, node: NodeId, add: bool) {
        let pod = self.pods.get(id);
        for (driver, handle) in self.volumes.attachments(self.shapes.get(pod.shape), &pod.uid) {
            self.nodes.use_volume(node, &driver, &handle, add);
        }
    }

    /// Changes what is known of claims, volumes or classes. What pods attach follows from that, so the volumes of its
    /// `users`, pods on nodes, are detached before and attached after.
    pub fn change_volumes<T>(&mut self, mut users: Vec<PodId>, change: impl FnOnce(&mut Volumes) -> T) -> T {
        users.sort_unstable();
        users.dedup();
        let places: Vec<(PodId, NodeId)> =
            users.into_iter().filter_map(|id| Some((id, self.pods.get(id).node()?))).collect();
        for (pod, node) in &places {
            self.attach(*pod, *node, false);
        }
        let outcome = change(&mut self.volumes);
        for (pod, node) in places {
            self.attach(pod, node, true);
        }
        outcome
    }

    /// Takes in a volume. Returns whether the fact says something new.
    pub fn observe_volume(&mut self, fact: VolumeFact) -> bool {
        if self.volumes.volume(&fact.name) == Some(&fact) {
            return false;
        }
        let users = self.volumes.users_of_volume(&fact.name);
        self.change_volumes(users, |volumes| volumes.observe_volume(fact));
        true
    }

    pub fn volume_gone(&mut self, name: &Name) -> bool {
        let users = self.volumes.users_of_volume(name);
        self.volumes.volume(name).is_some() && {
            self.change_volumes(users, |volumes| volumes.volume_gone(name));
            true
        }
    }

    /// Takes in a volume claim. Returns whether the fact says something new.
    pub fn observe_volume_claim(&mut self, fact: ClaimFact) -> bool {
        let key = (fact.namespace.clone(), fact.name.clone());
        // One that is known to be bound may have been decided anew since.
        if self.volumes.claim(&key) == Some(&fact) && self.volumes.decided(&key).is_none() {
            return false;
        }
        let users = self.volumes.users(&key).to_vec();
        self.change_volumes(users, |volumes| volumes.observe_claim(fact));
        true
    }

    pub fn volume_claim_gone(&mut self, key: &ClaimKey) -> bool {
        let users = self.volumes.users(key).to_vec();
        self.volumes.claim(key).is_some() && {
            self.change_volumes(users, |volumes| volumes.claim_gone(key));
            true
        }
    }

    /// Takes in a storage class. Returns whether the fact says something new.
    pub fn observe_storage_class(&mut self, fact: StorageClassFact) -> bool {
        if self.volumes.class(&fact.name) == Some(&fact) {
            return false;
        }
        let users = self.users_of_claims();
        self.change_volumes(users, |volumes| volumes.observe_class(fact));
        true
    }

    pub fn storage_class_gone(&mut self, name: &Name) -> bool {
        let users = self.users_of_claims();
        self.volumes.class(name).is_some() && {
            self.change_volumes(users, |volumes| volumes.class_gone(name));
            true
        }
    }

    /// The pods on known nodes that have claims: a storage class may be that of any.
    pub fn users_of_claims(&self) -> Vec<PodId> {
        let uses = |pod: &crate::pods::Pod| {
            let known = pod.node().is_some_and(|node| self.nodes.is_present(node));
            known && self.shapes.get(pod.shape).claims().next().is_some()
        };
        self.pods.placed().filter(|(_, pod)| uses(pod)).map(|(id, _)| id).collect()
    }

    /// Notes that a pod began to run, or no longer does.
    pub fn change_running(&mut self, id: PodId, running: bool) {
        self.pods.get_mut(id).running = running;
        let pod = self.pods.get(id);
        if pod.node().is_some() {
            self.quotas.count_running(pod, &charge_of(&self.shapes, pod), running);
        }
    }

    /// Why the pod's quotas refuse it; the first is the one that counts.
    pub fn refusals(&self, id: PodId) -> Vec<Refusal> {
        let pod = self.pods.get(id);
        if pod.quotas.is_empty() {
            return Vec::new();
        }
        self.refusals_of(id, &self.asked_charge(id))
    }

    /// The same for a pod that comes to be on a node, with the cards that it has there.
    pub fn refusals_on(&self, id: PodId, node: NodeId) -> Vec<crate::policy::Refusal> {
        let shape = self.shapes.get(self.pods.get(id).shape);
        let cards = self.nodes.cards_for(node, &shape.demand);
        let charge: Vec<(ResourceId, Amount)> = shape.charge.iter().chain(&cards).copied().collect();
        self.refusals_of(id, &charge)
    }

    fn refusals_of(&self, id: PodId, charge: &[(ResourceId, Amount)]) -> Vec<crate::policy::Refusal> {
        let pod = self.pods.get(id);
        let (non_preemptible, has_victims) = (pod.non_preemptible, pod.has_victims());
        let ask = Ask { charge, non_preemptible, has_victims };
        let mut refusals = self.quotas.refusals(&pod.quotas, &ask, &self.names);
        // What was freed for it is its own, whatever others make of the ceiling meanwhile.
        refusals.retain(|refusal| {
            let is_it = |(quota, resource, _): &&Granted| (*quota, *resource) == (refusal.quota, refusal.resource);
            let granted = pod.granted.iter().find(is_it).filter(|_| refusal.code == Code::RuntimeExceeded);
            let (used, requested) = (refusal.numbers.used, refusal.numbers.requested);
            granted.is_none_or(|(_, _, limit)| used + requested > *limit)
        });
        refusals
    }

    /// What the ceilings that move with others' requests allow a pod now.
    pub fn grant(&self, id: PodId) -> Vec<Granted> {
        let pod = self.pods.get(id);
        let ask = Ask { charge: &self.asked_charge(id), non_preemptible: false, has_victims: false };
        let mut granted = Vec::new();
        self.quotas.ceilings(&pod.quotas, &ask, |ceiling| {
            if ceiling.code == Code::RuntimeExceeded {
                granted.push((ceiling.quota, ceiling.resource, ceiling.limit));
            }
        });
        granted
    }

    /// What a pod is charged to its quotas where it is: what it asks for, what follows from it, and the cards there.
    pub fn charge_of(&self, id: PodId) -> Cow<'_, [(ResourceId, Amount)]> {
        charge_of(&self.shapes, self.pods.get(id))
    }

    /// What a pod is charged of a resource.
    pub fn charged(&self, pod: PodId, resource: ResourceId) -> i128 {
        crate::ledger::amount_of(&self.charge_of(pod), resource).unwrap_or(0)
    }

    /// Counts what a pod asks for if it asks for something now: it is on a node, or could be placed.
    pub fn settle_request(&mut self, id: PodId) {
        let pod = self.pods.get(id);
        let asks = pod.node().is_some() || pod.is_candidate();
        if asks != pod.counted {
            self.count_request(id, asks);
        }
    }

    /// Counts what a pod asks for no more, whatever comes next.
    pub fn withdraw_request(&mut self, id: PodId) {
        if self.pods.get(id).counted {
            self.count_request(id, false);
        }
    }

    fn count_request(&mut self, id: PodId, add: bool) {
        let pod = self.pods.get(id);
        let charge = self.shapes.get(pod.shape).requested();
        self.quotas.count_request(pod, &charge, add);
        self.pods.get_mut(id).counted = add;
    }

    /// Notes that a pod began to leave, or that it stays after all. The pod's own fields change in `set`.
    pub fn change_leaving(&mut self, id: PodId, effects: &mut Effects, set: impl FnOnce(&mut crate::pods::Pod)) {
        let before = self.pods.get(id).is_leaving();
        let pod = self.pods.get(id);
        self.gangs.count(pod, &charge_of(&self.shapes, pod), false);
        set(self.pods.get_mut(id));
        self.pods.note_leaving(id);
        let pod = self.pods.get(id);
        self.gangs.count(pod, &charge_of(&self.shapes, pod), true);
        let (after, node) = (pod.is_leaving(), pod.node());
        if before != after && node.is_some() {
            self.quotas.count_leaving(pod, &charge_of(&self.shapes, pod), after);
        }
        if let Some(node) = node.filter(|_| before != after) {
            let demand = self.demand_of(self.pods.get(id)).into_owned();
            self.nodes.count_leaving(node, &demand, after);
        }
        let Some(node) = node.filter(|node| before != after && self.nodes.is_present(*node)) else { return };
        let around = CountingTables {
            pods: &self.pods,
            nodes: &self.nodes,
            topologies: &self.topologies,
            node_rules: &self.node_rules,
        };
        self.relations.count_leaving(id, node, after, &around, effects);
        for touched in effects.touched.drain(..) {
            self.nodes.touch(touched);
        }
        self.nodes.touch(node);
    }

    /// Runs a change of a node's kind with its pods' bearing taken off before and put back after, since it depends
    /// on the node's labels.
    pub fn change_node<T>(
        &mut self,
        node: NodeId,
        effects: &mut Effects,
        change: impl FnOnce(&mut Nodes, &mut ResourceNames) -> T,
    ) -> T {
        let pods: Vec<PodId> = self.pods.on_node(node).iter().map(|resident| resident.id).collect();
        if self.nodes.is_present(node) {
            for pod in &pods {
                self.apply_presence(*pod, node, false, effects);
            }
            self.quotas.count_node(&self.nodes.all_allocatable(node), false);
            self.count_cards(node, false);
        }
        let cards = self.nodes.get(node).cards.clone();
        let outcome = change(&mut self.nodes, &mut self.names);
        self.topologies.node_changed(node, &self.nodes);
        if self.nodes.is_present(node) {
            self.quotas.count_node(&self.nodes.all_allocatable(node), true);
            self.count_cards(node, true);
        }
        if self.nodes.get(node).cards != cards {
            self.recount_cards(node);
        }
        if self.nodes.is_present(node) {
            for pod in &pods {
                self.apply_presence(*pod, node, true, effects);
            }
        }
        outcome
    }

    /// Counts the kinds of card of a node (or no longer).
    fn count_cards(&mut self, node: NodeId, add: bool) {
        for (resource, card) in &self.nodes.get(node).cards {
            self.quotas.note_card(*card);
            let kinds = self.card_kinds.entry(*resource).or_default();
            let nodes = kinds.entry(*card).or_default();
            *nodes = if add { *nodes + 1 } else { *nodes - 1 };
            if *nodes == 0 {
                kinds.remove(card);
            }
            if kinds.is_empty() {
                self.card_kinds.remove(resource);
            }
            self.quotas.note_card_resource(*resource, self.card_kinds.contains_key(resource));
        }
    }

    /// Charges the pods on a node, and those that claim it, for the cards that it has now.
    fn recount_cards(&mut self, node: NodeId) {
        let claims = |pod: &Pod| {
            pod.place == Place::Waiting && pod.reservation.is_some_and(|reservation| reservation.node == node)
        };
        let concerned = self.pods.iter().filter(|(_, pod)| pod.node() == Some(node) || claims(pod));
        let concerned: Vec<PodId> = concerned.map(|(id, _)| id).collect();
        for id in concerned {
            let is_placed = self.pods.get(id).node().is_some();
            for add in [false, true] {
                if add {
                    let demand = &self.shapes.get(self.pods.get(id).shape).demand;
                    let mut cards = self.nodes.cards_for(node, demand);
                    cards.extend(if is_placed { self.held_devices(id) } else { self.asked_devices(id) });
                    self.pods.get_mut(id).cards = cards;
                }
                let pod = self.pods.get(id);
                let charge = charge_of(&self.shapes, pod);
                match is_placed {
                    true => self.quotas.charge(id, pod, &charge, add, &self.names),
                    false => self.quotas.count_reservation(pod, &charge, add),
                }
                self.gangs.count(pod, &charge, add);
            }
        }
    }
}
