//! All that is known of the cluster, in the tables that decisions are made from.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::budgets::Budgets;
use crate::candidates::CandidateCache;
use crate::cards::{Attempt, Variant, with_devices};
use crate::default_spread::DefaultSpread;
use crate::devices::Devices;
use crate::devices::claims::Claims;
use crate::fact::{Amount, Name};
use crate::gangs::Gangs;
use crate::load_index::LoadIndex;
use crate::node_rules::NodeRules;
use crate::nodes::{NodeId, Nodes};
use crate::pods::{Granted, Place, Pod, PodId, Pods};
use crate::policy::{Ask, QuotaId, Quotas, Refusal};
use crate::preempt::loops::Takings;
use crate::preempt::rights::Beyond;
use crate::reason::Code;
use crate::relations::{CountingTables, Effects, Relations};
use crate::resources::{ResourceId, ResourceNames};
use crate::score::node_cap::CapWeights;
use crate::shape::{Compiling, Lenders, ShapeId, Shapes};
use crate::sign::Sign;
use crate::topology::Topologies;
use crate::tracked::Tracked;
use crate::volumes::Volumes;

#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    /// Reasons leave out which node comes closest: to find it takes longer than to decide.
    pub brief: bool,
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
    pub quotas: Tracked<Quotas>,
    pub beyond: Beyond,
    pub gangs: Gangs,
    /// The waiting pods whose claims count.
    pub reservations: BTreeSet<PodId>,
    /// Those of them that object to other pods near them.
    pub objecting_reservations: BTreeSet<PodId>,
    /// Those of them that are to be spread over nodes.
    pub spreading_reservations: BTreeSet<PodId>,
    /// Who took from whom since something last changed from outside.
    pub takings: Takings,
    /// By its own guarantee, this quota stood against a set of victims in the last search, of one within a guarantee.
    pub stopped_by: Option<QuotaId>,
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
#[inline]
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

/// What a pod asks of quotas, on a node or not, as it is counted.
#[inline]
pub(crate) fn requested_of<'a>(shapes: &'a Shapes, pod: &Pod) -> Cow<'a, [(ResourceId, Amount)]> {
    let charge = &shapes.get(pod.shape).charge;
    match pod.requested_devices.is_empty() {
        true => Cow::Borrowed(charge),
        false => Cow::Owned(with_devices(charge.clone(), pod.requested_devices.clone())),
    }
}

/// What a pod takes on its node: its shape's demand, and what a device plugin there serves.
#[inline]
pub(crate) fn demand_of<'a>(shapes: &'a Shapes, pod: &Pod) -> Cow<'a, crate::resources::Demand> {
    let demand = &shapes.get(pod.shape).demand;
    if pod.plugin.is_empty() {
        return Cow::Borrowed(demand);
    }
    let mut demand = demand.clone();
    demand.amounts.extend(&pod.plugin);
    Cow::Owned(demand)
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
        self.compile(|shapes, tables| shapes.intern(spec, namespace, labels, implied, tables))
    }

    fn compile(&mut self, intern: impl FnOnce(&mut Shapes, &mut Compiling<'_>) -> ShapeId) -> ShapeId {
        let World { shapes, names, nodes, pods, topologies, relations, .. } = self;
        intern(shapes, &mut Compiling { names, nodes, pods, topologies, relations })
    }

    /// A shape that differs from another in its spec alone, for one more user.
    pub fn shape_like(&mut self, base: ShapeId, spec: crate::fact::PodSpec, namespace: &Name) -> ShapeId {
        self.compile(|shapes, tables| shapes.intern_like(base, spec, namespace, tables))
    }

    /// One user of a shape less. Returns whether a shape is forgotten with it.
    pub fn release_shape(&mut self, shape: ShapeId) -> bool {
        let World { shapes, names, topologies, relations, .. } = self;
        if !shapes.release(shape, Lenders { names, topologies, relations }) {
            return false;
        }
        // Its number may be given to another shape; what was found of it must not be taken for the other's.
        self.candidates.forget(shape);
        self.devices.bills.remove(&shape);
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
        let may_use_devices = self.may_use_devices(pod);
        if may_use_devices || !pod.plugin.is_empty() {
            let plugin = self.plugin_demand(self.shapes.get(pod.shape).spec(), node);
            if plugin != pod.plugin {
                self.pods.get_mut(id).plugin = plugin;
            }
        }
        let pod = self.pods.get(id);
        let demand = demand_of(&self.shapes, pod);
        self.nodes.hold(node, &demand, Sign::Add);
        if pod.is_leaving() {
            self.nodes.count_leaving(node, &demand, Sign::Add);
        }
        let mut cards = self.nodes.cards_for(node, &demand);
        if may_use_devices {
            self.use_devices(id, node, matches!(place, Place::Assumed(_)), Sign::Add);
            cards.extend(self.held_devices(id));
        }
        if cards != self.pods.get(id).cards {
            self.pods.get_mut(id).cards = cards;
        }
        let pod = self.pods.get(id);
        let charge = charge_of(&self.shapes, pod);
        self.quotas.charge(id, pod, &charge, Sign::Add, &self.names);
        self.gangs.count(pod, &charge, Sign::Add);
        if self.nodes.is_present(node) {
            self.apply_presence(id, node, Sign::Add, effects);
        }
    }

    /// Takes a pod off its node.
    pub fn leave(&mut self, id: PodId, place: Place, effects: &mut Effects) {
        let pod = self.pods.get(id);
        let node = pod.node().expect("a pod leaves a node it is on");
        let demand = demand_of(&self.shapes, pod);
        self.nodes.hold(node, &demand, Sign::Take);
        if pod.is_leaving() {
            self.nodes.count_leaving(node, &demand, Sign::Take);
        }
        let charge = charge_of(&self.shapes, pod);
        self.quotas.charge(id, pod, &charge, Sign::Take, &self.names);
        self.gangs.count(pod, &charge, Sign::Take);
        if !pod.plugin.is_empty() || !pod.cards.is_empty() {
            let pod = self.pods.get_mut(id);
            (pod.plugin, pod.cards) = (Vec::new(), Vec::new());
        }
        if self.nodes.is_present(node) {
            self.apply_presence(id, node, Sign::Take, effects);
        }
        self.use_devices(id, node, false, Sign::Take);
        self.pods.leave(id, place);
    }

    /// A pod on a node that is there bears on others beyond the amounts it holds: by its ports and volumes, by being
    /// near, and by its terms.
    fn apply_presence(&mut self, id: PodId, node: NodeId, sign: Sign, effects: &mut Effects) {
        let pod = self.pods.get(id);
        let shape = self.shapes.get(pod.shape);
        for port in &shape.spec().ports {
            self.nodes.use_port(node, port, sign);
        }
        if !shape.spec().volumes.is_empty() {
            self.use_volumes(id, node, sign);
        }
        for held in &self.shapes.get(self.pods.get(id).shape).holds {
            self.relations.hold(held, self.topologies.domain(held.topology, node), sign);
        }
        self.count_relations(effects, |relations, around, effects| {
            relations.count_pod(id, node, sign, around, effects);
        });
    }

    /// Counts in relations, and notes the nodes of which other pods may think differently now.
    fn count_relations(
        &mut self,
        effects: &mut Effects,
        count: impl FnOnce(&mut Relations, &CountingTables<'_>, &mut Effects),
    ) {
        let World { relations, pods, nodes, topologies, node_rules, .. } = self;
        count(relations, &CountingTables { pods, nodes, topologies, node_rules }, effects);
        for touched in effects.touched.drain(..) {
            self.nodes.touch(touched);
        }
    }

    /// Notes that a pod began to run, or no longer does.
    pub fn change_running(&mut self, id: PodId, running: bool) {
        self.pods.get_mut(id).running = running;
        let pod = self.pods.get(id);
        if pod.node().is_some() {
            self.quotas.count_running(pod, &charge_of(&self.shapes, pod), Sign::adding_if(running));
        }
    }

    /// Why the pod's quotas refuse it; the first is the one that counts.
    pub fn refusals<'a>(&self, attempt: impl Into<Attempt<'a>>) -> Vec<Refusal> {
        let attempt = attempt.into();
        if self.pods.get(attempt.pod).quotas.is_empty() {
            return Vec::new();
        }
        self.refusals_of(attempt.pod, &self.asked_charge(attempt))
    }

    /// The same for a pod that comes to be on a node, with the cards that it has there.
    pub fn refusals_on(&self, attempt: Attempt<'_>, node: NodeId) -> Vec<crate::policy::Refusal> {
        let charge = self.charge_on(attempt, node);
        self.refusals_of(attempt.pod, &charge)
    }

    /// What a pod is charged if it comes to be on a node, with the cards that it has there.
    pub fn charge_on(&self, attempt: Attempt<'_>, node: NodeId) -> Vec<(ResourceId, Amount)> {
        let shape = self.shapes.get(self.pods.get(attempt.pod).shape);
        let cards = self.nodes.cards_for(node, &shape.demand);
        let charge = shape.charge.iter().chain(&cards).copied().collect();
        let way = attempt.choice.and_then(|choice| choice.devices.as_ref());
        with_devices(
            charge,
            way.map_or_else(|| self.asked_devices(attempt.pod), |way| self.devices_with(attempt.pod, way)),
        )
    }

    fn refusals_of(&self, id: PodId, charge: &[(ResourceId, Amount)]) -> Vec<crate::policy::Refusal> {
        self.refusals_apart(id, charge, self.pods.get(id).has_victims())
    }

    /// The same. `has_victims`: what is held now and what will be held when all have come and gone count apart.
    pub fn refusals_apart(
        &self,
        id: PodId,
        charge: &[(ResourceId, Amount)],
        has_victims: bool,
    ) -> Vec<crate::policy::Refusal> {
        let pod = self.pods.get(id);
        let non_preemptible = pod.is_non_preemptible();
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
    pub fn grant(&self, attempt: Attempt<'_>) -> Vec<Granted> {
        let pod = self.pods.get(attempt.pod);
        let ask = Ask { charge: &self.asked_charge(attempt), non_preemptible: false, has_victims: false };
        let mut granted = Vec::new();
        self.quotas.ceilings(&pod.quotas, &ask, |ceiling| {
            if ceiling.code == Code::RuntimeExceeded {
                granted.push((ceiling.quota, ceiling.resource, ceiling.limit));
            }
        });
        granted
    }

    /// What the ceilings allowed a pod for which victims leave, as far as a scheduler that starts anew can know: what
    /// will be held with it when all have come and gone.
    pub fn grant_anew(&self, id: PodId) -> Vec<Granted> {
        let held = |(quota, resource, limit): Granted| {
            let then = self.quotas.get(quota).ledger.to_be_used(resource);
            (quota, resource, limit.max(then))
        };
        self.grant(id.into()).into_iter().map(held).collect()
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
            self.count_request(id, Sign::adding_if(asks));
        } else {
            self.renew_request(id);
        }
    }

    /// Counts what a pod asks for no more, whatever comes next.
    pub fn withdraw_request(&mut self, id: PodId) {
        if self.pods.get(id).counted {
            self.count_request(id, Sign::Take);
        }
    }

    fn count_request(&mut self, id: PodId, sign: Sign) {
        if sign.is_add() && self.asks_for_devices(id) {
            self.pods.get_mut(id).requested_devices = self.requested_devices(id);
        }
        let pod = self.pods.get(id);
        self.quotas.count_request(pod, &requested_of(&self.shapes, pod), sign);
        let pod = self.pods.get_mut(id);
        pod.counted = sign.is_add();
        if !sign.is_add() {
            pod.requested_devices = Vec::new();
        }
    }

    fn asks_for_devices(&self, id: PodId) -> bool {
        let pod = self.pods.get(id);
        !pod.device_claims.is_empty() || !self.shapes.get(pod.shape).spec().served.is_empty()
    }

    /// Counts anew what a pod requests of devices, where it does so: what it holds, or may come to hold, changed.
    pub fn renew_request(&mut self, id: PodId) {
        if !self.pods.get(id).counted || !self.asks_for_devices(id) {
            return;
        }
        if self.requested_devices(id) != self.pods.get(id).requested_devices {
            self.count_request(id, Sign::Take);
            self.count_request(id, Sign::Add);
        }
    }

    /// Does so for all, and charges anew what they hold, where what devices cost may have changed: a scheduler that
    /// starts may see pods and claims before the devices that they have.
    pub fn renew_device_charges(&mut self) {
        if std::mem::take(&mut self.devices.bills_changed) {
            for id in self.device_claims.askers.iter().copied().collect::<Vec<_>>() {
                match self.reservations.contains(&id) {
                    true => {
                        self.count_reserved(id, Sign::Take);
                        self.count_reserved(id, Sign::Add);
                    }
                    false => self.recharge(id),
                }
                self.renew_request(id);
            }
        }
    }

    /// Notes that a pod began to leave, or that it stays after all. The pod's own fields change in `set`.
    pub fn change_leaving(&mut self, id: PodId, effects: &mut Effects, set: impl FnOnce(&mut crate::pods::Pod)) {
        let before = self.pods.get(id).is_leaving();
        let pod = self.pods.get(id);
        self.gangs.count(pod, &charge_of(&self.shapes, pod), Sign::Take);
        set(self.pods.get_mut(id));
        self.pods.note_leaving(id);
        let pod = self.pods.get(id);
        self.gangs.count(pod, &charge_of(&self.shapes, pod), Sign::Add);
        let (after, node) = (pod.is_leaving(), pod.node());
        let sign = Sign::adding_if(after);
        if before != after && node.is_some() {
            self.quotas.count_leaving(pod, &charge_of(&self.shapes, pod), sign);
        }
        if let Some(node) = node.filter(|_| before != after) {
            self.nodes.count_leaving(node, &demand_of(&self.shapes, pod), sign);
        }
        let Some(node) = node.filter(|node| before != after && self.nodes.is_present(*node)) else { return };
        self.count_relations(effects, |relations, around, effects| {
            relations.count_leaving(id, node, after, around, effects);
        });
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
                self.apply_presence(*pod, node, Sign::Take, effects);
            }
            self.quotas.count_node(&self.nodes.all_allocatable(node), Sign::Take);
            self.count_cards(node, Sign::Take);
        }
        let cards = self.nodes.get(node).cards.clone();
        let outcome = change(&mut self.nodes, &mut self.names);
        self.topologies.node_changed(node, &self.nodes);
        if self.nodes.is_present(node) {
            self.quotas.count_node(&self.nodes.all_allocatable(node), Sign::Add);
            self.count_cards(node, Sign::Add);
        }
        if self.nodes.get(node).cards != cards {
            self.recount_cards(node);
        }
        if self.nodes.is_present(node) {
            for pod in &pods {
                self.apply_presence(*pod, node, Sign::Add, effects);
            }
        }
        outcome
    }

    /// Counts the kinds of card of a node (or no longer).
    fn count_cards(&mut self, node: NodeId, sign: Sign) {
        for (resource, card) in &self.nodes.get(node).cards {
            self.quotas.note_card(*card);
            let kinds = self.card_kinds.entry(*resource).or_default();
            let nodes = kinds.entry(*card).or_default();
            *nodes = if sign.is_add() { *nodes + 1 } else { *nodes - 1 };
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
            for sign in [Sign::Take, Sign::Add] {
                if sign.is_add() {
                    let demand = &self.shapes.get(self.pods.get(id).shape).demand;
                    let mut cards = self.nodes.cards_for(node, demand);
                    cards.extend(if is_placed { self.held_devices(id) } else { self.reserved_devices(id) });
                    self.pods.get_mut(id).cards = cards;
                }
                let pod = self.pods.get(id);
                let charge = charge_of(&self.shapes, pod);
                match is_placed {
                    true => self.quotas.charge(id, pod, &charge, sign, &self.names),
                    false => self.quotas.count_reservation(pod, &charge, sign),
                }
                self.gangs.count(pod, &charge, sign);
            }
        }
    }
}
