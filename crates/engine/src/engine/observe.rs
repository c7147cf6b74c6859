//! Taking in what was seen.

mod names;
mod pod;

use crate::engine::Engine;
use crate::engine::wake::Change;
use crate::fact::{AttachLimits, Fact, Name, NodeFact, Tick};
use crate::gangs::GangId;
use crate::pods::{Place, PodId};
use crate::relations::Effects;
use crate::shape::ShapeId;
use crate::sign::Sign;

impl Engine {
    /// Takes in what was seen, or that it is gone. A fact that says nothing new changes nothing and wakes nobody.
    pub fn observe(&mut self, now: Tick, fact: Fact) {
        let change = match fact {
            Fact::Pod(fact) => return self.observe_pod(now, fact),
            Fact::PodGone(key) => return self.pod_gone(&key),
            Fact::BindFailed { pod, uid } => return self.bind_failed(&pod, &uid),
            Fact::EvictFailed { pod, uid } => return self.evict_failed(&pod, &uid),
            Fact::Quota(mut fact) => {
                match fact.take_overuse() {
                    Some(since) => drop(self.told_overuse.insert(fact.key().clone(), since)),
                    None => drop(self.told_overuse.remove(fact.key())),
                }
                self.observe_quota(fact).then_some(Change::Quota)
            }
            Fact::QuotaGone(key) => {
                self.told_overuse.remove(&key);
                self.overuse_known.remove(&key);
                self.quota_gone(&key).then_some(Change::Quota)
            }
            Fact::QueueOfNamespace { namespace, queue } => {
                self.set_queue_of_namespace(namespace, queue).then_some(Change::Quota)
            }
            Fact::Group(fact) => self.observe_group(fact).then_some(Change::Group),
            Fact::GroupGone(key) => self.group_gone(&key).then_some(Change::Group),
            Fact::GroupsServed { api_group, served } => {
                self.world.gangs.note_served(api_group, served).then_some(Change::Group)
            }
            Fact::GroupSucceeded(key, count) => self.world.gangs.note_succeeded(key, count).then_some(Change::Group),
            Fact::Node(fact) => self.observe_node(fact).then_some(Change::Node),
            Fact::NodeGone(name) => self.node_gone(&name).then_some(Change::Node),
            Fact::AttachLimits(AttachLimits { node, limits }) => {
                let node = self.world.nodes.number(&node);
                self.world.nodes.set_attach_limits(node, limits).then_some(Change::Node)
            }
            Fact::AttachLimitsGone(name) => {
                let known = self.world.nodes.find(&name);
                let changed = known.is_some_and(|node| self.world.nodes.set_attach_limits(node, Vec::new()));
                changed.then_some(Change::Node)
            }
            Fact::Namespace(name, labels) => {
                let changed = self.world.relations.observe_namespace(name.clone(), labels);
                self.relabelled(changed, &name)
            }
            Fact::NamespaceGone(name) => {
                let changed = self.world.relations.namespace_gone(&name);
                self.relabelled(changed, &name)
            }
            Fact::Budget(fact) => self.world.budgets.observe(fact).then_some(Change::Budget),
            Fact::BudgetGone { namespace, name } => {
                self.world.budgets.gone(&(namespace, name)).then_some(Change::Budget)
            }
            Fact::Volume(fact) => self.world.observe_volume(fact).then_some(Change::Volume),
            Fact::VolumeGone(name) => self.world.volume_gone(&name).then_some(Change::Volume),
            Fact::Claim(fact) => self.world.observe_volume_claim(fact).then_some(Change::Volume),
            Fact::ClaimGone { namespace, name } => {
                self.world.volume_claim_gone(&(namespace, name)).then_some(Change::Volume)
            }
            Fact::StorageClass(fact) => self.world.observe_storage_class(fact).then_some(Change::Volume),
            Fact::StorageClassGone(name) => self.world.storage_class_gone(&name).then_some(Change::Volume),
            Fact::DevicePool(fact) => self.world.observe_device_pool(fact).then_some(Change::Devices),
            Fact::DevicePoolGone(key) => self.world.devices.pool_gone(&key).then_some(Change::Devices),
            Fact::DeviceVerdicts(fact) => self.world.devices.observe_verdicts(fact).then_some(Change::Devices),
            Fact::DeviceMatcherGone(matcher) => {
                self.world.devices.matcher_gone(&matcher);
                None
            }
            Fact::DeviceClass(fact) => self.observe_device_class(fact).then_some(Change::Devices),
            Fact::DeviceClassGone(name) => self.device_class_gone(&name).then_some(Change::Devices),
            Fact::DeviceClaim(fact) => self.observe_device_claim(fact).then_some(Change::Devices),
            Fact::DeviceClaimGone(key) => self.device_claim_gone(&key).then_some(Change::Devices),
            Fact::Selector(fact) => {
                let namespace = fact.namespace.clone();
                let changed = self.world.default_spread.observe(fact);
                self.reshaped(changed, &namespace)
            }
            Fact::SelectorGone { namespace, object } => {
                let changed = self.world.default_spread.gone(&namespace, &object);
                self.reshaped(changed, &namespace)
            }
        };
        if let Some(change) = change {
            if matches!(change, Change::Node | Change::Quota) {
                self.world.devices.forget_bills();
                self.begin_anew();
            }
            self.note(change);
        }
    }

    /// Something changed from outside: evictions begin anew, and what ceilings allowed counts no more.
    fn begin_anew(&mut self) {
        self.world.takings.begin_anew();
        for claimant in &self.claimants {
            self.world.pods.get_mut(*claimant).granted.clear();
        }
    }

    /// What a namespace is labelled changed, or did not: its pods may be allowed to use other quotas than before.
    fn relabelled(&mut self, changed: bool, namespace: &Name) -> Option<Change> {
        if changed {
            self.reassign_namespaces(std::iter::once(namespace));
            let gangs = self.world.gangs.iter().filter(|(_, gang)| gang.key.namespace == *namespace).map(|(id, _)| id);
            let gangs: Vec<GangId> = gangs.collect();
            gangs.into_iter().for_each(|gang| self.world.gangs.note_changed(gang));
        }
        self.reshaped(changed, namespace)
    }

    /// What a namespace is labelled, or what is selected in it, changed, or did not.
    fn reshaped(&mut self, changed: bool, namespace: &Name) -> Option<Change> {
        changed.then(|| {
            self.reshape_pending(namespace);
            Change::Selection
        })
    }

    /// Takes in a node. Returns whether the fact says something new.
    fn observe_node(&mut self, fact: NodeFact) -> bool {
        let node = self.world.nodes.number(&fact.name);
        if self.world.nodes.knows(node, &fact, &self.world.names) {
            return false;
        }
        let mut effects = Effects::default();
        let has_gpus = self.world.devices.gpu_nodes.contains(&fact.name);
        let name = fact.name.clone();
        self.world.change_node(node, &mut effects, |nodes, names| nodes.observe(fact, names));
        self.world.nodes.set_gpu_devices(node, has_gpus);
        self.expected_node_came(&name);
        true
    }

    fn node_gone(&mut self, name: &Name) -> bool {
        let Some(node) = self.world.nodes.find_present(name) else { return false };
        let mut effects = Effects::default();
        self.world.change_node(node, &mut effects, |nodes, _| nodes.gone(node));
        true
    }

    /// Runs a change of what a pod is, with the pod taken out of where it counts before and put back after.
    pub(super) fn change_pod(&mut self, id: PodId, change: impl FnOnce(&mut Self)) {
        self.world.withdraw_request(id);
        let place = self.world.pods.get(id).place;
        let mut effects = Effects::default();
        match place {
            Place::Waiting => {
                self.dequeue(id);
                self.count_reservation(id, Sign::Take);
            }
            _ => self.world.leave(id, Place::Waiting, &mut effects),
        }
        change(self);
        match place {
            Place::Waiting => {
                self.count_reservation(id, Sign::Add);
                self.enqueue(id);
            }
            _ => {
                self.world.enter(id, place, &mut effects);
                self.settle_devices(id);
            }
        }
        self.world.settle_request(id);
        self.wake(effects);
        self.note(Change::PodChanged);
    }

    pub(super) fn set_shape(&mut self, id: PodId, shape: ShapeId) {
        let old = std::mem::replace(&mut self.world.pods.get_mut(id).shape, shape);
        self.release_shape(old);
    }

    pub(super) fn release_shape(&mut self, shape: ShapeId) {
        if self.world.release_shape(shape) {
            self.changes += 1;
        }
    }

    /// Gives a pod that counts nowhere its shape anew: services and namespaces may have changed while it was not
    /// queued.
    pub(super) fn reshape(&mut self, id: PodId) {
        let pod = self.world.pods.get(id);
        let spec = self.world.shapes.get(pod.shape).spec().clone();
        let (namespace, labels, owner) = (pod.namespace.clone(), pod.labels.clone(), pod.owner.clone());
        let shape = self.world.shape(&spec, &namespace, &labels, owner.as_ref());
        self.set_shape(id, shape);
    }

    /// Gives pending pods of a namespace their shapes anew: what services select, or what a namespace is labelled,
    /// changed.
    fn reshape_pending(&mut self, namespace: &Name) {
        for id in self.queue.members() {
            let pod = self.world.pods.get(id);
            if pod.namespace != *namespace {
                continue;
            }
            let spec = self.world.shapes.get(pod.shape).spec().clone();
            let (labels, owner) = (pod.labels.clone(), pod.owner.clone());
            let shape = self.world.shape(&spec, namespace, &labels, owner.as_ref());
            if shape == self.world.pods.get(id).shape {
                self.release_shape(shape);
            } else {
                self.change_pod(id, |engine| engine.set_shape(id, shape));
            }
        }
    }

    pub(super) fn undecide_claims(&mut self, id: PodId) {
        let pod = self.world.pods.get(id);
        let shape = self.world.shapes.get(pod.shape);
        let claims: Vec<Name> = shape.claims().cloned().collect();
        let (namespace, uid) = (pod.namespace.clone(), pod.uid.clone());
        for claim in claims {
            let key = (namespace.clone(), claim);
            let users = self.world.volumes.users(&key).to_vec();
            self.world.change_volumes(users, |volumes| volumes.undecide_for(&key, &uid));
        }
    }
}
