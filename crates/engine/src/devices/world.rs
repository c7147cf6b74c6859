//! Devices in the world of pods, nodes and quotas: what a pod asks for, whether a node has it, and what it costs.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cards::with_devices;
use crate::device::{
    Allocation, Alternative, ClaimKey, ClaimSpec, DeviceRequest, ExtendedRequest, Need, PodClaim, PoolFact,
};
use crate::devices::Choice;
use crate::devices::bill::{Bill, IMPLICIT, asked_as, class_resource, extended_spec};
use crate::devices::bills::DeviceCharge;
use crate::devices::claims::{Claim, Extended};
use crate::devices::found::{Fault, Pick};
use crate::fact::{Amount, Name, NodeTerm, PodSpec};
use crate::nodes::NodeId;
use crate::pods::{Pod, PodId};
use crate::policy::Refusal;
use crate::resources::ResourceId;
use crate::select::any_term_matches;
use crate::sign::Sign;
use crate::world::World;

/// The devices that a pod still needs, and where those that it has can be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeviceAsk {
    pub pod: Option<PodId>,
    /// The claims without devices.
    pub open: Vec<(ClaimKey, Arc<ClaimSpec>)>,
    /// The nodes that reach what other claims have.
    pub nodes: Vec<Vec<NodeTerm>>,
    /// Extended resources that classes serve on nodes without a device plugin for them.
    pub extended: Vec<(ExtendedRequest, Name)>,
    /// What may be charged for devices, where that is one way of several; otherwise what quotas have room for.
    pub way: Option<DeviceCharge>,
}

/// The alternative of that name.
fn alternative<'s>(spec: &'s ClaimSpec, name: &Name) -> Option<&'s Alternative> {
    spec.requests.iter().flat_map(|request| &request.alternatives).find(|alternative| alternative.name == *name)
}

impl World {
    /// Takes in a pool. Returns whether it says something new.
    pub fn observe_device_pool(&mut self, fact: PoolFact) -> bool {
        for card in fact.devices.iter().filter_map(|device| device.card.as_ref()) {
            let card = self.names.intern(card);
            self.quotas.note_card(card);
        }
        self.devices.observe_pool(fact)
    }

    /// Counts anew what there is of devices in all, by class and by card, where that may have changed.
    pub fn renew_device_totals(&mut self) {
        self.renew_device_charges();
        if !std::mem::take(&mut self.devices.totals_changed) {
            return;
        }
        let mut bill = Bill::default();
        for class in self.devices.classes() {
            let count = Amount::try_from(self.devices.matching(&class.name).count()).unwrap_or(Amount::MAX);
            bill.add(class_resource(&class.name, "devices"), count);
            bill.add(Name::from(format!("{IMPLICIT}{}", class.name)), count);
            if let Some(extended) = &class.extended {
                bill.add(extended.clone(), count);
            }
        }
        self.devices.ready().filter_map(|device| device.card.clone()).for_each(|card| bill.add(card, 1));
        bill.0.retain(|(_, amount)| *amount > 0);
        let totals: Vec<(ResourceId, Amount)> =
            bill.0.into_iter().map(|(name, amount)| (self.names.intern(&name), amount)).collect();
        if totals != self.devices.totals {
            let old = std::mem::replace(&mut self.devices.totals, totals);
            self.quotas.count_node(&old, Sign::Take);
            self.quotas.count_node(&self.devices.totals, Sign::Add);
        }
    }

    /// Works out anew which nodes are GPU nodes by their devices, where that may have changed. Returns whether it did.
    pub fn renew_gpu_nodes(&mut self) -> bool {
        if !self.devices.totals_changed {
            return false;
        }
        let now = self.devices.nodes_with_gpus();
        let before = std::mem::replace(&mut self.devices.gpu_nodes, now);
        let changed: Vec<Name> = before.symmetric_difference(&self.devices.gpu_nodes).cloned().collect();
        for name in &changed {
            if let Some(node) = self.nodes.find(name) {
                self.nodes.set_gpu_devices(node, self.devices.gpu_nodes.contains(name));
            }
        }
        !changed.is_empty()
    }

    /// Whether a pod has claims on devices or devices serve what it requests; of most pods neither is true.
    #[inline]
    pub fn may_use_devices(&self, pod: &Pod) -> bool {
        !pod.device_claims.is_empty()
            || !self.shapes.get(pod.shape).spec().served.is_empty()
            || !self.device_claims.extended.is_empty()
    }

    /// The keys of a pod's claims that are named.
    pub fn claim_keys(&self, pod: &Pod) -> Vec<ClaimKey> {
        let key = |claim: &PodClaim| {
            let name = match claim {
                PodClaim::Named(name) | PodClaim::Extended(name) => name.clone(),
                PodClaim::Made { claim, .. } => claim.clone()?,
            };
            Some(ClaimKey { namespace: pod.namespace.clone(), name })
        };
        pod.device_claims.iter().filter_map(key).collect()
    }

    /// The class that serves an extended resource, if one does: the newest, then the first by name.
    pub fn serving_class(&self, resource: &Name) -> Option<Name> {
        if let Some(class) = resource.strip_prefix("deviceclass.resource.kubernetes.io/") {
            return self.devices.class(&Name::from(class)).map(|class| class.name.clone());
        }
        let serving = self.devices.classes().filter(|class| class.extended.as_ref() == Some(resource));
        serving
            .max_by(|a, b| a.created.cmp(&b.created).then_with(|| b.name.cmp(&a.name)))
            .map(|class| class.name.clone())
    }

    /// What a pod's claims need, or why that is not known yet.
    fn needs(&self, pod: (&Name, &Name), claims: &[PodClaim]) -> Result<Vec<Need>, Name> {
        let (namespace, uid) = pod;
        let mut needs = Vec::new();
        for claim in claims {
            let (name, made) = match claim {
                PodClaim::Named(name) => (name, false),
                // One left over from an earlier attempt is not used again.
                PodClaim::Extended(_) => continue,
                PodClaim::Made { claim: Some(name), .. } => (name, true),
                PodClaim::Made { template, claim: None } => {
                    return Err(format!("no claim was made from template {namespace}/{template} yet").into());
                }
            };
            let key = ClaimKey { namespace: namespace.clone(), name: name.clone() };
            let known = self.device_claims.get(&key).filter(|claim| !claim.fact.uid.is_empty());
            let Some(known) = known else { return Err(format!("ResourceClaim {key} does not exist").into()) };
            if made && known.fact.owner.as_ref() != Some(uid) {
                return Err(format!("ResourceClaim {key} was not made for this pod").into());
            }
            if known.fact.leaving {
                return Err(format!("ResourceClaim {key} is being deleted").into());
            }
            if let Some(problem) = &known.fact.problem {
                return Err(format!("ResourceClaim {key}: {problem}").into());
            }
            if let Some(allocation) = known.allocation() {
                let (spec, nodes) = (known.fact.spec.clone(), allocation.nodes.clone());
                needs.push(Need::Met { claim: key, spec, nodes });
                continue;
            }
            let mut asked = known.fact.spec.requests.iter().flat_map(|request| &request.alternatives);
            if let Some(missing) = asked.find(|alternative| self.devices.class(&alternative.class).is_none()) {
                let Alternative { name, class, .. } = missing;
                return Err(format!("ResourceClaim {key}: request {name}: DeviceClass {class} does not exist").into());
            }
            needs.push(Need::Open { spec: known.fact.spec.clone(), shared: (!made).then_some(key) });
        }
        Ok(needs)
    }

    /// A pod's spec with what is known of its claims, and why they are not ready, if so.
    pub fn with_needs(
        &self,
        spec: &Arc<PodSpec>,
        pod: (&Name, &Name),
        claims: &[PodClaim],
    ) -> (Arc<PodSpec>, Option<Name>) {
        let serves = |request: &ExtendedRequest| Some((request.clone(), self.serving_class(&request.resource)?));
        let served: Vec<(ExtendedRequest, Name)> = spec.extended.iter().filter_map(serves).collect();
        if claims.is_empty() && served.is_empty() && spec.needs.is_empty() && spec.served.is_empty() {
            return (spec.clone(), None);
        }
        let (needs, unready) = match self.needs(pod, claims) {
            Ok(needs) => (needs, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        let is_gpu = |class: &Name| self.devices.class(class).is_some_and(|class| class.gpu);
        let mut requests = needs.iter().flat_map(|need| &need.spec().requests);
        let has_gpu = requests.any(|request: &DeviceRequest| request.alternatives.iter().any(|a| is_gpu(&a.class)))
            || served.iter().any(|(_, class)| is_gpu(class));
        let capped = spec.capped.filter(|_| !has_gpu);
        if (&needs, &served, capped) == (&spec.needs, &spec.served, spec.capped) {
            return (spec.clone(), unready);
        }
        (Arc::new(PodSpec { needs, served, capped, ..(**spec).clone() }), unready)
    }

    /// What a pod asks of devices now.
    pub fn device_ask(&self, id: PodId) -> Option<DeviceAsk> {
        let pod = self.pods.get(id);
        let served = &self.shapes.get(pod.shape).spec().served;
        if pod.device_claims.is_empty() && served.is_empty() {
            return None;
        }
        let mut ask = DeviceAsk { pod: Some(id), extended: served.clone(), ..DeviceAsk::default() };
        for key in self.claim_keys(pod) {
            let Some(claim) = self.device_claims.get(&key).filter(|claim| !claim.fact.extended) else { continue };
            match claim.allocation() {
                Some(allocation) => ask.nodes.extend(allocation.nodes.clone()),
                None => ask.open.push((key, claim.fact.spec.clone())),
            }
        }
        Some(ask)
    }

    /// Of the extended resources that a pod asks for, those that devices have to serve on a node: the others are its
    /// device plugin's.
    pub fn served_by_devices(&self, served: &[(ExtendedRequest, Name)], node: NodeId) -> Vec<(ExtendedRequest, Name)> {
        let plugin = |resource: &Name| {
            self.names.find(resource).is_some_and(|resource| self.nodes.allocatable(resource, node) > 0)
        };
        served.iter().filter(|(request, _)| !plugin(&request.resource)).cloned().collect()
    }

    /// What a device plugin of the node serves of a pod's extended resources.
    pub fn plugin_demand(&self, spec: &PodSpec, node: NodeId) -> Vec<(ResourceId, Amount)> {
        let mut demand: Vec<(ResourceId, Amount)> = Vec::new();
        for (request, _) in &spec.served {
            let amount = spec.requests.get(&request.resource);
            let Some(resource) = self.names.find(&request.resource) else { continue };
            let is_new = demand.iter().all(|(known, _)| *known != resource);
            if is_new && self.nodes.allocatable(resource, node) > 0 {
                demand.push((resource, amount));
            }
        }
        demand
    }

    /// Devices for a pod on a node. `limited`: those that its quotas have no room for do not count, nor those that cost
    /// more than the way that is looked at.
    pub fn find_devices(&self, ask: &DeviceAsk, node: NodeId, limited: bool) -> Result<(Option<Choice>, bool), Fault> {
        let facts = self.nodes.get(node);
        let reached = |terms: &Vec<NodeTerm>| any_term_matches(terms, &facts.name, &facts.labels);
        if !ask.nodes.iter().all(reached) {
            return Ok((None, false));
        }
        let served = self.served_by_devices(&ask.extended, node);
        let mut specs: Vec<Arc<ClaimSpec>> = ask.open.iter().map(|(_, spec)| spec.clone()).collect();
        specs.extend(extended_spec(&served).map(Arc::new));
        let spec = ask.pod.map(|pod| self.shapes.get(self.pods.get(pod).shape).spec().clone());
        let plugin = spec.map(|spec| self.plugin_demand(&spec, node)).unwrap_or_default();
        if plugin.iter().any(|(resource, amount)| self.nodes.free(*resource, node) < *amount) {
            return Ok((None, false));
        }
        if specs.is_empty() {
            return Ok((Some(Choice::default()), false));
        }
        let devices = |affordable: &mut dyn FnMut(&[Pick<'_>]) -> bool| {
            self.devices.choose(&facts.name, &facts.labels, &specs, affordable)
        };
        let quotas = ask.pod.filter(|pod| limited && !self.pods.get(*pod).quotas.is_empty());
        let Some(id) = quotas else { return devices(&mut |_| true) };
        let bills = self.device_bills(id);
        let served: Vec<ExtendedRequest> = served.into_iter().map(|(request, _)| request).collect();
        match &ask.way {
            Some(way) => devices(&mut |picks| self.is_within_way(way, &bills, &self.bill_picks(ask, &served, picks))),
            // What is charged in any case is held to ceilings before a node is.
            None if bills.ways.len() == 1 => devices(&mut |_| true),
            None => {
                let (pod, base) = (self.pods.get(id), self.charge_beside(id));
                devices(&mut |picks| self.affords(pod, &base, &self.bill_picks(ask, &served, picks)))
            }
        }
    }

    /// What a pod on a node is charged for the devices of the claims that it pays for.
    pub fn held_devices(&mut self, id: PodId) -> Vec<(ResourceId, Amount)> {
        let pod = self.pods.get(id);
        let claims = &self.device_claims;
        let holds_none = pod.device_claims.is_empty() && !claims.extended.contains_key(&id);
        if holds_none && !claims.supposed.contains_key(&id) {
            return Vec::new();
        }
        let asked = &self.shapes.get(pod.shape).spec().extended;
        let mut bill = Bill::default();
        for key in self.claim_keys(pod) {
            let Some(claim) = self.device_claims.get(&key).filter(|claim| claim.payer() == Some(id)) else { continue };
            if let Some(allocation) = claim.allocation() {
                let asked: &[ExtendedRequest] = if is_extended(claim) { asked } else { &[] };
                self.bill_allocation(&mut bill, &claim.fact.spec, allocation, asked);
            }
        }
        if let Some(Extended { spec, allocation, .. }) = self.device_claims.extended.get(&id) {
            self.bill_allocation(&mut bill, spec, allocation, asked);
        }
        let held = bill.0.into_iter().map(|(name, amount)| (self.names.intern(&name), amount)).collect();
        match self.device_claims.supposed.get(&id) {
            Some(supposed) => with_devices(held, supposed.clone()),
            None => held,
        }
    }

    /// What an allocation costs; `asked` as resources by the pod, where the claim was made for those.
    pub fn bill_allocation(
        &self,
        bill: &mut Bill,
        spec: &ClaimSpec,
        allocation: &Allocation,
        asked: &[ExtendedRequest],
    ) {
        for result in allocation.results.iter().filter(|result| !result.admin) {
            let Some(alternative) = alternative(spec, &result.request) else { continue };
            let device = self.devices.device(&result.device.pool, &result.device.device).filter(|_| !result.share);
            let asked_as = asked_as(asked, &result.request);
            bill.add_device(&self.devices, &alternative.class, device, &result.consumed, asked_as.as_ref());
        }
    }

    /// What was found for a pod on a node costs.
    pub fn bill_found(&self, ask: &DeviceAsk, node: NodeId, allocations: &[impl AsRef<Allocation>]) -> Bill {
        let mut bill = Bill::default();
        let served = self.served_by_devices(&ask.extended, node);
        let extended = extended_spec(&served);
        let served: Vec<ExtendedRequest> = served.into_iter().map(|(request, _)| request).collect();
        let specs = ask.open.iter().map(|(_, spec)| (&**spec, &[][..]));
        let specs = specs.chain(extended.iter().map(|spec| (spec, &served[..])));
        for ((spec, asked), allocation) in specs.zip(allocations) {
            self.bill_allocation(&mut bill, spec, allocation.as_ref(), asked);
        }
        bill
    }

    /// A pod enters or leaves a node with its claims. One that is decided onto the node gets devices for those claims
    /// that have none.
    pub fn use_devices(&mut self, id: PodId, node: NodeId, decided: bool, sign: Sign) {
        let pod = self.pods.get(id);
        if pod.device_claims.is_empty() && self.shapes.get(pod.shape).spec().served.is_empty() {
            return;
        }
        let keys = self.claim_keys(pod);
        let user = (pod.uid.clone(), pod.created, pod.name.clone(), id);
        if sign.is_add() && decided {
            self.decide_devices(id, node);
        }
        if !sign.is_add()
            && let Some(extended) = self.device_claims.extended.get(&id).cloned()
        {
            self.devices.hold(&extended.allocation, Sign::Take);
            if !extended.firm {
                self.device_claims.extended.remove(&id);
            }
        }
        for key in keys {
            let before = self.device_claims.get(&key).and_then(Claim::payer);
            self.device_claims.use_claim(&key, user.clone(), sign, &mut self.devices);
            let after = self.device_claims.get(&key).and_then(Claim::payer);
            for other in [before, after].into_iter().flatten().filter(|other| before != after && *other != id) {
                self.recharge(other);
            }
        }
    }

    /// Finds devices for a pod that is about to enter a node, and decides them for its claims.
    fn decide_devices(&mut self, id: PodId, node: NodeId) {
        let Some(mut ask) = self.device_ask(id) else { return };
        if let Some(known) = self.device_claims.extended.get(&id).cloned() {
            self.devices.hold(&known.allocation, Sign::Add);
            ask.extended.clear();
        }
        let served = self.served_by_devices(&ask.extended, node);
        let Ok((Some(choice), _)) = self.find_devices(&ask, node, true) else { return };
        let mut allocations = choice.allocations.into_iter().map(Arc::new);
        for (key, _) in &ask.open {
            if let Some(allocation) = allocations.next() {
                self.device_claims.decide(key, allocation);
            }
        }
        if let (Some(spec), Some(allocation)) = (extended_spec(&served), allocations.next()) {
            self.devices.hold(&allocation, Sign::Add);
            let served = served.into_iter().map(|(request, _)| request).collect();
            self.device_claims.extended.insert(id, Extended { spec: Arc::new(spec), allocation, served, firm: false });
        }
    }

    /// Charges a pod on a node anew: what it pays for changed.
    pub fn recharge(&mut self, id: PodId) {
        let Some(node) = self.pods.get(id).node() else { return };
        for sign in [Sign::Take, Sign::Add] {
            if sign.is_add() {
                let demand = &self.shapes.get(self.pods.get(id).shape).demand;
                let mut cards = self.nodes.cards_for(node, demand);
                cards.extend(self.held_devices(id));
                self.pods.get_mut(id).cards = cards;
            }
            let pod = self.pods.get(id);
            let charge = crate::world::charge_of(&self.shapes, pod);
            self.quotas.charge(id, pod, &charge, sign, &self.names);
            self.gangs.count(pod, &charge, sign);
        }
    }

    /// Whether a pod on a node uses devices.
    pub fn has_devices(&self, id: PodId) -> bool {
        let pod = self.pods.get(id);
        !pod.device_claims.is_empty() || self.device_claims.extended.contains_key(&id)
    }

    /// The pods that hold devices of pools that the node reaches.
    pub fn device_holders(&self, node: NodeId) -> BTreeSet<PodId> {
        if self.devices.are_local() {
            let pods = self.pods.on_node(node).iter().map(|resident| resident.id);
            return pods.filter(|pod| self.uses_devices(*pod)).collect();
        }
        let facts = self.nodes.get(node);
        let site = self.devices.site(&facts.name, &facts.labels);
        self.device_claims.users_of(|pool| site.pools.iter().any(|here| here.fact.key == *pool))
    }

    fn uses_devices(&self, id: PodId) -> bool {
        let pod = self.pods.get(id);
        let extended = self.device_claims.extended.get(&id);
        self.may_use_devices(pod)
            && (extended.is_some_and(|extended| extended.allocation.takes_devices())
                || self.claim_keys(pod).iter().any(|key| self.device_claims.holds_devices(key)))
    }

    /// Whether pods elsewhere have no bearing on whether a node has devices for a pod: all devices are of one node
    /// each, and no claim of the pod has devices already.
    pub fn asks_locally(&self, ask: &DeviceAsk) -> bool {
        self.devices.are_local() && ask.nodes.is_empty()
    }

    /// Why a pod has no devices though it fits otherwise: what ends the attempt, or the quota that has no room.
    pub fn device_trouble(&self, ask: &DeviceAsk, open: impl Iterator<Item = NodeId>) -> DeviceTrouble {
        let mut refused = None;
        let mut long = 0;
        for node in open {
            match self.find_devices(ask, node, true) {
                Err(fault) => return DeviceTrouble::Fault(fault),
                Ok((Some(_), _)) => continue,
                Ok((None, true)) => long += 1,
                Ok((None, false)) => {}
            }
            if refused.is_none()
                && let Ok((Some(choice), _)) = self.find_devices(ask, node, false)
            {
                refused = self.refusal_of(ask, node, choice);
            }
        }
        match refused {
            Some(refusal) => DeviceTrouble::Refused(refusal),
            None => DeviceTrouble::None { given_up: long },
        }
    }

    fn refusal_of(&self, ask: &DeviceAsk, node: NodeId, choice: Choice) -> Option<Refusal> {
        let id = ask.pod?;
        let allocations: Vec<Arc<Allocation>> = choice.allocations.into_iter().map(Arc::new).collect();
        let bill = self.bill_found(ask, node, &allocations);
        self.device_refusals(self.pods.get(id), &self.charge_beside(id), &bill).into_iter().next()
    }
}

/// Why there are no devices.
#[derive(Debug, Clone)]
pub(crate) enum DeviceTrouble {
    /// The attempt ends, on all nodes.
    Fault(Fault),
    /// A quota has no room for those that there are.
    Refused(Refusal),
    /// There are none; on so many nodes the search was given up.
    None { given_up: u32 },
}

/// Whether a claim was made for extended resources, which are charged by their names already.
fn is_extended(claim: &Claim) -> bool {
    claim.fact.extended
}
