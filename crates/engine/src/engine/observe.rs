//! Taking in what was seen.

use crate::engine::Engine;
use crate::engine::wake::Change;
use crate::fact::{AttachLimits, Fact, Name, NodeFact, Phase, PodFact, PodKey, Tick};
use crate::gangs::GangId;
use crate::pods::{Place, Pod, PodId, QuotaOf};
use crate::relations::Effects;
use crate::reservations::{Reservation, ReservationIfBindFails, ReservationKind};
use crate::shape::ShapeId;
use std::sync::Arc;

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
            self.world.gangs.changed.extend(gangs);
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
        self.world.change_node(node, &mut effects, |nodes, names| nodes.observe(fact, names));
        true
    }

    fn node_gone(&mut self, name: &Name) -> bool {
        let Some(node) = self.world.nodes.find_present(name) else { return false };
        let mut effects = Effects::default();
        self.world.change_node(node, &mut effects, |nodes, _| nodes.gone(node));
        true
    }

    fn observe_pod(&mut self, now: Tick, fact: PodFact) {
        let key = fact.key();
        self.world.relations.mention_namespace(&key.namespace);
        match self.world.pods.find(&key) {
            Some(id) if self.world.pods.get(id).uid != fact.uid => {
                self.pod_gone(&key);
                self.new_pod(now, fact);
            }
            Some(_) if fact.phase.is_over() => self.pod_gone(&key),
            Some(id) => self.known_pod(id, fact),
            None => self.new_pod(now, fact),
        }
    }

    fn new_pod(&mut self, now: Tick, fact: PodFact) {
        if fact.phase.is_over() {
            return;
        }
        let (spec, unready) = self.world.with_needs(&fact.spec, (&fact.namespace, &fact.uid), &fact.device_claims);
        let shape = self.world.shape(&spec, &fact.namespace, &fact.labels, fact.owner.as_ref());
        let node = fact.node.clone();
        let nominated = fact.nominated.clone();
        let id = self.world.pods.insert(Pod {
            namespace: fact.namespace,
            name: fact.name,
            uid: fact.uid,
            created: fact.created,
            labels: fact.labels,
            shape,
            priority: fact.priority,
            never_preempts: fact.never_preempts,
            gates: fact.gates,
            ours: fact.ours,
            owner: fact.owner,
            problem: fact.problem,
            device_claims: fact.device_claims,
            plugin: Vec::new(),
            unready,
            place: Place::Waiting,
            stamp: 0,
            leaving_since: fact.leaving_since,
            evicted_for: None,
            reservation: None,
            awaits_victims: false,
            granted: Vec::new(),
            reservation_if_bind_fails: None,
            victim_of: fact.victim_of,
            nominated,
            quotas: Vec::new(),
            quota: QuotaOf::None,
            membership_error: None,
            tree_quota: fact.tree_quota,
            queue: fact.queue,
            group_name: fact.group,
            task: fact.task,
            non_preemptible: fact.non_preemptible,
            protected: fact.protected,
            cards: Vec::new(),
            counted: false,
            card_choice: None,
            gang: None,
            running: fact.phase == Phase::Running,
            marks: fact.marks,
            first_seen: now,
            group: None,
            reason: None,
        });
        self.list_asker(id, true);
        self.world.takings.pod_comes(self.world.pods.get(id));
        self.world.join_gang(id);
        let membership = self.world.pod_membership(id);
        self.world.set_membership(id, membership);
        self.note_leaving_for(id, true);
        if !self.world.pods.get(id).marks.is_empty() {
            self.remark.insert(id); // Nobody may have taken the mark off when its quota went.
        }
        match node {
            Some(name) => {
                self.place(id, &name);
                self.note(Change::PodPlaced);
            }
            None => {
                self.adopt_nomination(id);
                if self.world.pods.get(id).reservation.is_some() {
                    self.note(Change::Nomination); // It takes room that others count on.
                }
                self.enqueue(id);
            }
        }
        self.world.settle_request(id);
    }

    /// Puts a pod onto the node that its object names.
    fn place(&mut self, id: PodId, name: &Name) {
        let node = self.world.nodes.number(name);
        let mut effects = Effects::default();
        self.world.pods.get_mut(id).reason = None;
        self.world.enter(id, Place::Placed(node), &mut effects);
        self.settle_devices(id);
        self.wake(effects);
    }

    fn known_pod(&mut self, id: PodId, mut fact: PodFact) {
        let unready = self.read_needs(id, &mut fact);
        let pod = self.world.pods.get(id);
        let old_spec = self.world.shapes.get(pod.shape).spec();
        let kind_changed = (!Arc::ptr_eq(old_spec, &fact.spec) && *old_spec != fact.spec)
            || pod.labels != fact.labels
            || pod.owner != fact.owner;
        let turn_changed = pod.priority != fact.priority
            || pod.never_preempts != fact.never_preempts
            || pod.gates != fact.gates
            || pod.ours != fact.ours
            || pod.problem != fact.problem
            || pod.device_claims != fact.device_claims
            || pod.unready != unready;
        if turn_changed {
            self.world.takings.begin_anew();
        }
        let pod = self.world.pods.get(id);
        let ruling_changed = pod.tree_quota != fact.tree_quota
            || pod.queue != fact.queue
            || pod.group_name != fact.group
            || pod.task != fact.task
            || pod.non_preemptible != fact.non_preemptible
            || pod.protected != fact.protected;
        let leaving_changed = pod.leaving_since != fact.leaving_since || pod.victim_of != fact.victim_of;
        let nomination_changed = pod.nominated != fact.nominated;
        if pod.marks != fact.marks {
            self.world.pods.get_mut(id).marks = fact.marks.clone();
            self.remark.insert(id);
        }
        let pod = self.world.pods.get(id);
        let running = fact.phase == Phase::Running;
        if pod.running != running {
            self.world.change_running(id, running);
        }
        let pod = self.world.pods.get(id);
        let was_waiting = pod.place == Place::Waiting;
        if kind_changed || turn_changed || ruling_changed {
            self.change_pod(id, |engine| {
                // While it was not queued, services and namespaces may have changed without regard to it.
                if kind_changed || was_waiting {
                    let owner = fact.owner.as_ref();
                    let shape = engine.world.shape(&fact.spec, &fact.namespace, &fact.labels, owner);
                    engine.set_shape(id, shape);
                }
                let pod = engine.world.pods.get_mut(id);
                pod.labels = fact.labels.clone();
                pod.owner = fact.owner.clone();
                pod.priority = fact.priority;
                pod.never_preempts = fact.never_preempts;
                pod.gates = fact.gates.clone();
                pod.ours = fact.ours;
                pod.problem = fact.problem.clone();
                pod.unready = unready.clone();
                if pod.device_claims != fact.device_claims {
                    engine.list_asker(id, false);
                    engine.world.pods.get_mut(id).device_claims = fact.device_claims.clone();
                    engine.list_asker(id, true);
                }
                let pod = engine.world.pods.get_mut(id);
                pod.queue = fact.queue.clone();
                pod.group_name = fact.group.clone();
                pod.task = fact.task.clone();
                pod.non_preemptible = fact.non_preemptible;
                pod.protected = fact.protected;
                engine.world.pods.set_tree_quota(id, fact.tree_quota.clone());
                engine.world.join_gang(id);
                let membership = engine.world.pod_membership(id);
                engine.world.set_membership(id, membership);
            });
        }
        if leaving_changed {
            self.note_leaving_for(id, false);
            if was_waiting {
                self.dequeue(id);
            }
            let mut effects = Effects::default();
            self.world.change_leaving(id, &mut effects, |pod| {
                pod.leaving_since = fact.leaving_since;
                pod.victim_of = fact.victim_of.clone();
            });
            if fact.leaving_since.is_some() {
                self.world.budgets.unseen.retain(|unseen| *unseen != id);
            }
            self.wake(effects);
            self.note_leaving_for(id, true);
            if was_waiting {
                if self.world.pods.get(id).is_leaving() {
                    self.drop_reservation(id);
                }
                self.enqueue(id);
            }
            self.note(Change::PodTerminating);
        }
        let pod = self.world.pods.get(id);
        match (pod.place, &fact.node) {
            (Place::Waiting, Some(name)) => {
                self.dequeue(id);
                self.drop_reservation(id);
                self.place(id, name);
                self.note(Change::PodPlaced);
            }
            (Place::Assumed(node), Some(name)) if self.world.nodes.get(node).name == *name => {
                self.world.pods.confirm(id);
                self.world.pods.get_mut(id).reservation_if_bind_fails = None;
                // It can be a victim from now on, which matters only to those who would have wanted it before.
                if std::mem::take(&mut self.looked_past_assumed) {
                    self.note(Change::VictimAppeared);
                }
            }
            (Place::Assumed(node) | Place::Placed(node), Some(name)) if self.world.nodes.get(node).name != *name => {
                let mut effects = Effects::default();
                self.world.leave(id, Place::Waiting, &mut effects);
                self.world.pods.get_mut(id).reservation_if_bind_fails = None;
                self.wake(effects);
                self.place(id, name);
                self.note(Change::PodPlaced);
            }
            _ => {}
        }
        if nomination_changed {
            self.world.pods.get_mut(id).nominated = fact.nominated.clone();
            match self.world.pods.get(id).place {
                Place::Waiting => {
                    self.dequeue(id);
                    self.adopt_nomination(id);
                    self.enqueue(id);
                    self.note(Change::Nomination);
                }
                Place::Assumed(_) => {
                    let pod = self.world.pods.get_mut(id);
                    if pod.reservation_if_bind_fails.as_ref().map(|reservation| &reservation.node)
                        != fact.nominated.as_ref()
                    {
                        let kind = ReservationKind::Preemption;
                        pod.reservation_if_bind_fails =
                            fact.nominated.map(|node| ReservationIfBindFails { node, kind });
                    }
                }
                Place::Placed(_) => {}
            }
        }
        self.world.settle_request(id);
    }

    /// Runs a change of what a pod is, with the pod taken out of where it counts before and put back after.
    pub(super) fn change_pod(&mut self, id: PodId, change: impl FnOnce(&mut Self)) {
        self.world.withdraw_request(id);
        let place = self.world.pods.get(id).place;
        let mut effects = Effects::default();
        match place {
            Place::Waiting => {
                self.dequeue(id);
                self.count_reservation(id, false);
            }
            _ => self.world.leave(id, Place::Waiting, &mut effects),
        }
        change(self);
        match place {
            Place::Waiting => {
                self.count_reservation(id, true);
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

    /// Holds the room that the pod's status says is kept for it, and no other.
    fn adopt_nomination(&mut self, id: PodId) {
        let pod = self.world.pods.get(id);
        let held = pod.reservation.map(|reservation| &self.world.nodes.get(reservation.node).name);
        if held.is_some() && held == pod.nominated.as_ref() {
            return; // It is our own reservation that was written, and we know better what it is for.
        }
        self.drop_reservation(id);
        let pod = self.world.pods.get(id);
        if !pod.ours || pod.is_leaving() {
            return;
        }
        if let Some(name) = pod.nominated.clone() {
            let node = self.world.nodes.number(&name);
            self.take_reservation(id, Reservation { node, kind: ReservationKind::Preemption });
        }
    }

    fn pod_gone(&mut self, key: &PodKey) {
        let Some(id) = self.world.pods.find(key) else { return };
        if self.world.pods.get(id).evicted_for.is_none() {
            self.world.takings.pod_goes(self.world.pods.get(id));
        }
        self.world.withdraw_request(id);
        self.note_leaving_for(id, false);
        self.remark.remove(&id);
        self.world.budgets.unseen.retain(|unseen| *unseen != id);
        match self.world.pods.get(id).place {
            Place::Waiting => {
                self.dequeue(id);
                self.drop_reservation(id);
            }
            place => {
                if matches!(place, Place::Assumed(_)) {
                    self.undecide_claims(id);
                }
                let mut effects = Effects::default();
                self.world.leave(id, Place::Waiting, &mut effects);
                self.settle_devices(id);
                self.wake(effects);
                self.note(Change::PodLeft);
            }
        }
        self.list_asker(id, false);
        self.world.leave_gang(id);
        let pod = self.world.pods.remove(id);
        self.release_shape(pod.shape);
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
