//! The engine: what it is told, what it decides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::claims::{Claim, ClaimKind, SleepingClaim};
use crate::decision::{Budget, Capacity, Decision, Decisions, Rule};
use crate::explain;
use crate::fact::{Amount, Created, Fact, Name, Phase, PodFact, PodKey, QuotaKey, Tick};
use crate::filter::{Filter, node_cap, resources_fit, volume_binding};
use crate::lookup::LookupMap;
use crate::nodes::NodeId;
use crate::place::{Answer, ClosedCounts, Question};
use crate::pods::{Place, Pod, PodId};
use crate::preempt::{Outcome, Plan};
use crate::queue::{GroupId, Queue, group_key};
use crate::quota::elastic::PoolId;
use crate::quota::{QuotaId, Refusal};
use crate::reason::Reason;
use crate::relations::Effects;
use crate::resources::ResourceId;
use crate::score::node_cap::CapWeights;
use crate::shape::ShapeId;
use crate::world::World;

/// What can be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// After this long a waiting pod that cannot run may hold a node for itself.
    pub reserve_after_ms: u64,
    /// How pods that are subject to caps are placed among capped nodes.
    pub caps: CapSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { reserve_after_ms: 5 * 60 * 1000, caps: CapSettings::default() }
    }
}

/// A node as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeReport {
    pub name: Name,
    pub allocatable: Vec<(Name, Amount)>,
    /// What pods on the node hold, by name; nothing that is 0. `pods` included.
    pub used: Vec<(Name, i128)>,
    /// What pods that are subject to a cap may hold here, and hold.
    pub cap: Vec<(Name, i128)>,
    pub cap_used: Vec<(Name, i128)>,
}

/// How pods without GPUs are placed among GPU nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapSettings {
    /// What the score weighs; 0 switches it off. More than 1,000,000 counts as that, less than 0 as 0.
    pub weight: i64,
    /// What each capped resource weighs in the score, in the same bounds. One that is not named weighs 1.
    pub resource_weights: Vec<(Name, i64)>,
    /// Nodes without GPUs come first.
    pub prefer_cpu_nodes: bool,
}

impl Default for CapSettings {
    fn default() -> Self {
        CapSettings { weight: 10, resource_weights: Vec::new(), prefer_cpu_nodes: true }
    }
}

/// A quota as it stands. Amounts are by resource name; nothing that is 0, except in `min` and `max`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuotaReport {
    pub key: QuotaKey,
    /// `elastic`, `elastic-fair`, `tree` or `queue`.
    pub policy: &'static str,
    pub parent: Option<QuotaKey>,
    pub tree: Option<Name>,
    pub min: Vec<(Name, i128)>,
    pub max: Vec<(Name, i128)>,
    /// Held by pods on nodes, and by pods decided onto one.
    pub used: Vec<(Name, i128)>,
    /// Held by pods that run, as the status of some kinds says.
    pub used_running: Vec<(Name, i128)>,
    pub entitlement: Vec<(Name, i128)>,
    pub runtime: Vec<(Name, i128)>,
    /// Held beyond min.
    pub borrowed: Vec<(Name, i128)>,
    /// Of min, what others hold.
    pub lent: Vec<(Name, i128)>,
}

/// The decision core.
#[derive(Debug, Clone, Default)]
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) world: World,
    pub(crate) queue: Queue,
    /// Pods that leave for a claimant, by claimant.
    leaving_for: BTreeMap<PodKey, BTreeSet<PodId>>,
    /// Waiting pods that hold a claim.
    claimants: BTreeSet<PodId>,
    /// Waiting pods that cannot be placed for what they are (gates, an unreadable request) and were not told so yet.
    unsaid: BTreeSet<PodId>,
    /// When waiting pods will have waited long enough to hold a node.
    patience: BTreeSet<(Tick, PodId)>,
    /// Counts all changes; what was found hopeless is hopeless until then.
    changes: u64,
    hopeless: LookupMap<(ShapeId, i32, Vec<QuotaId>), u64>,
    /// A search for victims passed over a pod that was only decided to be where it is.
    looked_past_assumed: bool,
    /// A pod rests because pods that leave make room for it.
    counts_on_leaving: bool,
    keys_epoch: u64,
    /// Pods that may have to lose a mark: they answer to other quotas than before.
    remark: BTreeSet<PodId>,
    /// Pools in which somebody was given something since those who rest were last looked at.
    moved_pools: BTreeSet<PoolId>,
}

/// What keeps a pod from running: quotas that refuse it, or else nodes that are closed to it.
struct Obstacle {
    refusals: Vec<Refusal>,
    closed: Option<ClosedCounts>,
}

/// What became of a pod's turn.
enum Turn {
    Placed,
    Claimed,
    /// Its claim is dropped; it is an ordinary candidate again.
    Dropped,
    Rests(Reason),
    /// Pods leave for it.
    AwaitsVictims(Reason),
}

impl Engine {
    pub fn new(settings: Settings) -> Self {
        let mut world = World::default();
        world.cap_weights = CapWeights::new(&settings.caps, &mut world.names);
        Engine { settings, world, ..Engine::default() }
    }

    /// A copy that goes its own way: what-if, plan and explain run the real thing.
    pub fn fork(&self) -> Engine {
        self.clone()
    }

    /// Takes in what was seen, or that it is gone.
    pub fn observe(&mut self, now: Tick, fact: Fact) {
        let mut effects = Effects::default();
        let matters = match fact {
            Fact::Pod(fact) => return self.observe_pod(now, fact),
            Fact::PodGone(key) => return self.pod_gone(&key),
            Fact::BindFailed { pod, uid } => return self.bind_failed(&pod, &uid),
            Fact::EvictFailed { pod, uid } => return self.evict_failed(&pod, &uid),
            Fact::ElasticQuota(fact) => {
                let moved = self.world.quotas.observe_elastic(fact, &mut self.world.names);
                self.assign_quotas(&moved);
                true
            }
            Fact::QuotaGone(key) => match self.world.quotas.find(&key) {
                Some(quota) => {
                    let moved = self.world.quotas.release_namespaces(quota);
                    self.assign_quotas(&moved);
                    self.world.quotas.forget(quota);
                    true
                }
                None => false,
            },
            Fact::Node(fact) => {
                let node = self.world.nodes.number(&fact.name);
                self.world.change_node(node, &mut effects, |nodes, names| nodes.observe(fact, names));
                true
            }
            Fact::NodeGone(name) => match self.world.nodes.find_present(&name) {
                Some(node) => {
                    self.world.change_node(node, &mut effects, |nodes, _| nodes.gone(node));
                    true
                }
                None => false,
            },
            Fact::AttachLimits(limits) => {
                let node = self.world.nodes.number(&limits.node);
                self.world.nodes.set_attach_limits(node, limits.limits);
                true
            }
            Fact::AttachLimitsGone(name) => match self.world.nodes.find(&name) {
                Some(node) => {
                    self.world.nodes.set_attach_limits(node, Vec::new());
                    true
                }
                None => false,
            },
            Fact::Namespace(name, labels) => {
                let changed = self.world.relations.observe_namespace(name.clone(), labels);
                changed && self.reshape_waiting(&name)
            }
            Fact::NamespaceGone(name) => {
                let changed = self.world.relations.namespace_gone(&name);
                changed && self.reshape_waiting(&name)
            }
            Fact::Budget(fact) => self.world.budgets.observe(fact),
            Fact::BudgetGone { namespace, name } => self.world.budgets.gone(&(namespace, name)),
            Fact::Volume(fact) => {
                self.world.volumes.observe_volume(fact);
                true
            }
            Fact::VolumeGone(name) => {
                self.world.volumes.volume_gone(&name);
                true
            }
            Fact::Claim(fact) => {
                self.change_claim((fact.namespace.clone(), fact.name.clone()), |volumes| volumes.observe_claim(fact));
                true
            }
            Fact::ClaimGone { namespace, name } => {
                let key = (namespace, name);
                self.change_claim(key.clone(), |volumes| volumes.claim_gone(&key));
                true
            }
            Fact::StorageClass(fact) => {
                self.world.volumes.observe_class(fact);
                true
            }
            Fact::StorageClassGone(name) => {
                self.world.volumes.class_gone(&name);
                true
            }
            Fact::Selector(fact) => {
                let namespace = fact.namespace.clone();
                self.world.implied.observe(fact) && self.reshape_waiting(&namespace)
            }
            Fact::SelectorGone { namespace, object } => {
                self.world.implied.gone(&namespace, &object) && self.reshape_waiting(&namespace)
            }
        };
        if matters {
            self.stir();
        }
    }

    /// Something changed that may let pods run that could not before.
    fn stir(&mut self) {
        self.changes += 1;
        self.queue.wake_all();
    }

    /// Lets the pods of some namespaces answer to the quotas that govern these now.
    fn assign_quotas(&mut self, namespaces: &[Name]) {
        for namespace in namespaces {
            let quotas = self.world.quotas.of_namespace(namespace).to_vec();
            for id in self.world.pods.of_namespace(namespace) {
                if self.world.pods.get(id).quotas != quotas {
                    self.change_pod(id, |engine| engine.world.pods.get_mut(id).quotas = quotas.clone());
                    self.remark.insert(id);
                }
            }
        }
    }

    /// A pod's volumes attach by what its claims are bound to, so a claim changes with its users taken off their
    /// nodes before and put back after.
    fn change_claim(&mut self, key: (Name, Name), change: impl FnOnce(&mut crate::volumes::Volumes)) {
        let users = if self.world.volumes.users(&key) == 0 { Vec::new() } else { self.users_of(&key) };
        let mut effects = Effects::tentative();
        for (pod, _) in &users {
            self.world.leave(*pod, Place::Waiting, &mut effects);
        }
        change(&mut self.world.volumes);
        for (pod, place) in users {
            self.world.enter(pod, place, &mut effects);
        }
    }

    fn users_of(&self, key: &(Name, Name)) -> Vec<(PodId, Place)> {
        let uses = |pod: &Pod| {
            pod.namespace == key.0 && self.world.shapes.get(pod.shape).claims().any(|claim| *claim == key.1)
        };
        self.world.pods.placed().filter(|(_, pod)| uses(pod)).map(|(id, pod)| (id, pod.place)).collect()
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
        let shape = self.world.shape(&fact.spec, &fact.namespace, &fact.labels, fact.owner.as_ref());
        let node = fact.node.clone();
        let nominated = fact.nominated.clone();
        let quotas = self.world.quotas.of_namespace(&fact.namespace).to_vec();
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
            place: Place::Waiting,
            stamp: 0,
            leaving_since: fact.leaving_since,
            evicted_for: None,
            claim: None,
            asleep: None,
            victim_of: fact.victim_of,
            nominated,
            quotas,
            running: fact.phase == Phase::Running,
            marks: Vec::new(),
            first_seen: now,
            group: None,
            reason: None,
        });
        self.note_leaving_for(id, true);
        match node {
            Some(name) => {
                self.place(id, &name);
                self.stir();
            }
            None => {
                self.adopt_nomination(id);
                self.enqueue(id);
            }
        }
    }

    /// Puts a pod onto the node that its object names.
    fn place(&mut self, id: PodId, name: &Name) {
        let node = self.world.nodes.number(name);
        let mut effects = Effects::default();
        self.world.pods.get_mut(id).reason = None;
        self.world.enter(id, Place::Placed(node), &mut effects);
        self.wake(effects);
    }

    fn wake(&mut self, effects: Effects) {
        for group in effects.woken {
            self.queue.wake(group);
        }
    }

    fn known_pod(&mut self, id: PodId, fact: PodFact) {
        let pod = self.world.pods.get(id);
        let old_spec = self.world.shapes.get(pod.shape).spec();
        let kind_changed = (!Arc::ptr_eq(old_spec, &fact.spec) && *old_spec != fact.spec)
            || pod.labels != fact.labels
            || pod.owner != fact.owner;
        let turn_changed = pod.priority != fact.priority
            || pod.never_preempts != fact.never_preempts
            || pod.gates != fact.gates
            || pod.ours != fact.ours
            || pod.problem != fact.problem;
        let leaving_changed = pod.leaving_since != fact.leaving_since || pod.victim_of != fact.victim_of;
        let nomination_changed = pod.nominated != fact.nominated;
        let running = fact.phase == Phase::Running;
        if pod.running != running {
            self.world.change_running(id, running);
        }
        let pod = self.world.pods.get(id);
        let was_waiting = pod.place == Place::Waiting;
        if kind_changed || turn_changed {
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
                    self.drop_claim(id);
                }
                self.enqueue(id);
            }
            self.stir();
        }
        let pod = self.world.pods.get(id);
        match (pod.place, &fact.node) {
            (Place::Waiting, Some(name)) => {
                self.dequeue(id);
                self.drop_claim(id);
                self.place(id, name);
                self.stir();
            }
            (Place::Assumed(node), Some(name)) if self.world.nodes.get(node).name == *name => {
                self.world.pods.confirm(id);
                self.world.pods.get_mut(id).asleep = None;
                // It can be a victim from now on, which matters only to those who would have wanted it before.
                if std::mem::take(&mut self.looked_past_assumed) {
                    self.stir();
                }
            }
            (Place::Assumed(node) | Place::Placed(node), Some(name)) if self.world.nodes.get(node).name != *name => {
                let mut effects = Effects::default();
                self.world.leave(id, Place::Waiting, &mut effects);
                self.world.pods.get_mut(id).asleep = None;
                self.wake(effects);
                self.place(id, name);
                self.stir();
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
                    self.stir();
                }
                Place::Assumed(_) => {
                    let pod = self.world.pods.get_mut(id);
                    if pod.asleep.as_ref().map(|claim| &claim.node) != fact.nominated.as_ref() {
                        let kind = ClaimKind::Preemption;
                        pod.asleep = fact.nominated.map(|node| SleepingClaim { node, kind });
                    }
                }
                Place::Placed(_) => {}
            }
        }
    }

    /// Runs a change of what a pod is, with the pod taken out of where it counts before and put back after.
    fn change_pod(&mut self, id: PodId, change: impl FnOnce(&mut Self)) {
        let place = self.world.pods.get(id).place;
        let mut effects = Effects::default();
        match place {
            Place::Waiting => {
                self.dequeue(id);
                self.count_claim(id, false);
            }
            _ => self.world.leave(id, Place::Waiting, &mut effects),
        }
        change(self);
        match place {
            Place::Waiting => {
                self.count_claim(id, true);
                self.enqueue(id);
            }
            _ => self.world.enter(id, place, &mut effects),
        }
        self.wake(effects);
        self.stir();
    }

    fn count_claim(&mut self, id: PodId, add: bool) {
        self.world.count_claim(id, add);
    }

    fn set_shape(&mut self, id: PodId, shape: ShapeId) {
        let old = std::mem::replace(&mut self.world.pods.get_mut(id).shape, shape);
        self.release_shape(old);
    }

    fn release_shape(&mut self, shape: ShapeId) {
        if self.world.shapes.release(shape, &mut self.world.relations) {
            // Its number may be given to another shape; what was found of it must not be taken for the other's.
            self.world.kept.forget(shape);
            self.changes += 1;
        }
    }

    /// Gives a pod that counts nowhere its shape anew: services and namespaces may have changed while it was not queued.
    fn reshape(&mut self, id: PodId) {
        let pod = self.world.pods.get(id);
        let spec = self.world.shapes.get(pod.shape).spec().clone();
        let (namespace, labels, owner) = (pod.namespace.clone(), pod.labels.clone(), pod.owner.clone());
        let shape = self.world.shape(&spec, &namespace, &labels, owner.as_ref());
        self.set_shape(id, shape);
    }

    /// Gives waiting pods of a namespace their shapes anew: what services select, or what a namespace is labelled, changed.
    fn reshape_waiting(&mut self, namespace: &Name) -> bool {
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
        true
    }

    /// Holds the room that the pod's status says is kept for it, and no other.
    fn adopt_nomination(&mut self, id: PodId) {
        let pod = self.world.pods.get(id);
        let held = pod.claim.map(|claim| &self.world.nodes.get(claim.node).name);
        if held.is_some() && held == pod.nominated.as_ref() {
            return; // It is our own claim that was written, and we know better what it is for.
        }
        self.drop_claim(id);
        let pod = self.world.pods.get(id);
        if !pod.ours || pod.is_leaving() {
            return;
        }
        if let Some(name) = pod.nominated.clone() {
            let node = self.world.nodes.number(&name);
            self.take_claim(id, Claim { node, kind: ClaimKind::Preemption });
        }
    }

    fn take_claim(&mut self, id: PodId, claim: Claim) {
        self.world.pods.get_mut(id).claim = Some(claim);
        self.count_claim(id, true);
        self.claimants.insert(id);
    }

    /// Gives up a waiting pod's claim, if it has one.
    fn drop_claim(&mut self, id: PodId) {
        if self.claimants.remove(&id) {
            self.count_claim(id, false);
            self.world.pods.get_mut(id).claim = None;
            self.stir();
        }
    }

    /// Lists a waiting pod for its turn, or to be told why it has none.
    fn enqueue(&mut self, id: PodId) {
        let pod = self.world.pods.get(id);
        if pod.place != Place::Waiting || !pod.ours || pod.is_leaving() {
            // It waits no longer, so there is no reason why it does.
            self.world.pods.get_mut(id).reason = None;
            return;
        }
        if !pod.is_candidate() {
            self.unsaid.insert(id);
            return;
        }
        let key = group_key(id, pod, &self.world.relations.seen_keys);
        let (created, name) = (pod.created, pod.name.clone());
        self.patience.insert((self.patient_until(pod.first_seen), id));
        let share = self.world.quotas.share(&pod.quotas);
        let group = self.queue.insert(id, key, created, &name, share);
        self.world.pods.get_mut(id).group = Some(group);
    }

    fn patient_until(&self, since: Tick) -> Tick {
        Tick(since.0.saturating_add(self.settings.reserve_after_ms))
    }

    fn dequeue(&mut self, id: PodId) {
        self.unsaid.remove(&id);
        let pod = self.world.pods.get_mut(id);
        if let Some(group) = pod.group.take() {
            let (created, name, first_seen) = (pod.created, pod.name.clone(), pod.first_seen);
            self.queue.remove(id, group, created, &name);
            self.patience.remove(&(self.patient_until(first_seen), id));
        }
    }

    /// Keeps the list of who leaves for whom.
    fn note_leaving_for(&mut self, id: PodId, add: bool) {
        let pod = self.world.pods.get(id);
        let seen = pod.victim_of.as_ref().filter(|_| pod.leaving_since.is_some());
        let claimants = [pod.evicted_for.as_ref().map(|(key, _)| key), seen];
        for claimant in claimants.into_iter().flatten() {
            if add {
                self.leaving_for.entry(claimant.clone()).or_default().insert(id);
            } else if let Some(pods) = self.leaving_for.get_mut(claimant) {
                pods.remove(&id);
                if pods.is_empty() {
                    self.leaving_for.remove(claimant);
                }
            }
        }
    }

    fn pod_gone(&mut self, key: &PodKey) {
        let Some(id) = self.world.pods.find(key) else { return };
        self.note_leaving_for(id, false);
        self.remark.remove(&id);
        self.world.budgets.unseen.retain(|unseen| *unseen != id);
        match self.world.pods.get(id).place {
            Place::Waiting => {
                self.dequeue(id);
                self.drop_claim(id);
            }
            place => {
                if matches!(place, Place::Assumed(_)) {
                    self.undecide_claims(id);
                }
                let mut effects = Effects::default();
                self.world.leave(id, Place::Waiting, &mut effects);
                self.wake(effects);
                self.stir();
            }
        }
        let pod = self.world.pods.remove(id);
        self.release_shape(pod.shape);
    }

    fn undecide_claims(&mut self, id: PodId) {
        let pod = self.world.pods.get(id);
        let shape = self.world.shapes.get(pod.shape);
        let claims: Vec<Name> = shape.claims().cloned().collect();
        let (namespace, uid) = (pod.namespace.clone(), pod.uid.clone());
        for claim in claims {
            self.world.volumes.undecide_for(&(namespace.clone(), claim), &uid);
        }
    }

    fn bind_failed(&mut self, key: &PodKey, uid: &Name) {
        let Some(id) = self.world.pods.find(key) else { return };
        let pod = self.world.pods.get(id);
        if pod.uid != *uid || !matches!(pod.place, Place::Assumed(_)) {
            return;
        }
        let mut effects = Effects::default();
        self.world.leave(id, Place::Waiting, &mut effects);
        self.wake(effects);
        self.undecide_claims(id);
        self.reshape(id);
        if let Some(claim) = self.world.pods.get_mut(id).asleep.take()
            && !self.world.pods.get(id).is_leaving()
        {
            let node = self.world.nodes.number(&claim.node);
            self.take_claim(id, Claim { node, kind: claim.kind });
        }
        self.enqueue(id);
        self.stir();
    }

    fn evict_failed(&mut self, key: &PodKey, uid: &Name) {
        let Some(id) = self.world.pods.find(key) else { return };
        let pod = self.world.pods.get(id);
        if pod.uid != *uid || pod.evicted_for.is_none() {
            return;
        }
        self.note_leaving_for(id, false);
        self.world.budgets.unseen.retain(|unseen| *unseen != id);
        let mut effects = Effects::default();
        self.world.change_leaving(id, &mut effects, |pod| pod.evicted_for = None);
        self.wake(effects);
        self.note_leaving_for(id, true);
        self.stir();
    }

    /// Decides what can be decided now.
    pub fn decide(&mut self, now: Tick, budget: Budget) -> Decisions {
        let mut decisions = Decisions::default();
        self.regroup();
        self.drop_claims_on_absent_nodes(&mut decisions);
        self.world.nodes.forget_idle();
        let mut looked_at = 0;
        loop {
            for quota in std::mem::take(&mut self.world.quotas.changed) {
                let quotas = &self.world.quotas;
                self.queue.quota_changed(quota, |of| quotas.share(of));
            }
            let Some((group, pod)) = self.queue.first() else {
                if self.look_at_debtors_again() || self.reserve(now, &mut decisions) {
                    continue;
                }
                break;
            };
            if looked_at >= budget.pods_max {
                decisions.more = true;
                break;
            }
            looked_at += 1;
            match self.take_turn(pod, &mut decisions) {
                Turn::Placed | Turn::Claimed | Turn::Dropped => {}
                Turn::Rests(reason) => self.rest(group, pod, reason),
                Turn::AwaitsVictims(reason) => self.queue.await_victims(group, Arc::new(reason)),
            }
        }
        self.mark(&mut decisions);
        self.tell(&mut decisions);
        decisions.wake_at = self.wake_at();
        debug_assert_eq!(self.check_invariants(), Ok(()));
        decisions
    }

    /// What pods of a pool were given changes what the others there may claim. They are looked at again when nothing
    /// else can be decided, so that a cycle that fills a pool looks at each of its pods a few times and not once for
    /// each placement. Returns whether there is anybody to look at.
    fn look_at_debtors_again(&mut self) -> bool {
        let pools = std::mem::take(&mut self.moved_pools);
        let quotas = self.world.quotas.iter().filter(|(_, quota)| pools.contains(&quota.policy.pool));
        let quotas: Vec<QuotaId> = quotas.map(|(id, _)| id).collect();
        let woken = quotas.into_iter().map(|quota| self.queue.wake_quota(quota));
        woken.filter(|any| *any).count() > 0
    }

    fn note_moved_pools(&mut self, pod: PodId) {
        let quotas = self.world.pods.get(pod).quotas.iter();
        self.moved_pools.extend(quotas.map(|quota| self.world.quotas.get(*quota).policy.pool));
    }

    /// Selectors look at labels that they did not look at before: pods that were alike may differ now.
    fn regroup(&mut self) {
        if self.keys_epoch == self.world.relations.keys_epoch {
            return;
        }
        self.keys_epoch = self.world.relations.keys_epoch;
        for id in self.queue.members() {
            self.dequeue(id);
            self.enqueue(id);
        }
    }

    fn drop_claims_on_absent_nodes(&mut self, decisions: &mut Decisions) {
        let absent = |id: &PodId| {
            let claim = self.world.pods.get(*id).claim;
            claim.is_some_and(|claim| !self.world.nodes.is_present(claim.node))
        };
        let mut lost: Vec<PodId> = self.claimants.iter().copied().filter(absent).collect();
        lost.sort_by_cached_key(|id| {
            let pod = self.world.pods.get(*id);
            (std::cmp::Reverse(pod.priority), pod.created, pod.key())
        });
        for id in lost {
            self.give_up_claim(id, decisions);
        }
    }

    /// Drops a claim and says so.
    fn give_up_claim(&mut self, id: PodId, decisions: &mut Decisions) {
        self.dequeue(id);
        self.drop_claim(id);
        self.enqueue(id);
        let pod = self.world.pods.get(id);
        decisions.list.push(Decision::Nominate { pod: pod.key(), uid: pod.uid.clone(), node: None });
    }

    /// One pod's turn: bind it, claim room for it, or say why not.
    fn take_turn(&mut self, id: PodId, decisions: &mut Decisions) -> Turn {
        let claim = self.world.pods.get(id).claim;
        self.count_claim(id, false);
        let turn = self.take_turn_unclaimed(id, claim, decisions);
        if matches!(turn, Turn::Rests(_) | Turn::AwaitsVictims(_)) {
            self.count_claim(id, true);
        }
        turn
    }

    /// The turn of a pod whose own claim does not count at the moment.
    fn take_turn_unclaimed(&mut self, id: PodId, claim: Option<Claim>, decisions: &mut Decisions) -> Turn {
        let question = self.world.question(id);
        let refusals = self.world.refusals(id);
        let mut closed = None;
        if refusals.is_empty() {
            if let Some(claim) = claim
                && self.world.closed_by(&question, claim.node).is_none()
            {
                return self.bind(id, claim.node, decisions);
            }
            match self.world.answer(&question) {
                Answer::Node(node) => return self.bind(id, node, decisions),
                Answer::Nowhere(counts) => closed = Some(counts),
            }
        }
        let pod = self.world.pods.get(id).clone();
        let obstacle = Obstacle { refusals, closed };
        if let Some(claim) = claim {
            let victims = self.victims_still_leaving(&pod);
            if !victims.is_empty() {
                self.wait_for_company(&pod, &question);
                return Turn::AwaitsVictims(explain::awaiting(&victims, &self.world.nodes.get(claim.node).name));
            }
            if self.world.takes_once_left(id, claim.node) {
                self.counts_on_leaving = true;
                let others = self.leaving_near(claim.node);
                self.wait_for_company(&pod, &question);
                return Turn::Rests(explain::awaiting(&others, &self.world.nodes.get(claim.node).name));
            }
            if claim.kind == ClaimKind::Preemption || !self.is_worth_keeping(&question, claim.node) {
                // What was claimed counts no more; put it back for the moment it takes to drop it in order.
                self.count_claim(id, true);
                self.give_up_claim(id, decisions);
                return Turn::Dropped;
            }
        }
        if pod.never_preempts {
            return self.rests(&pod, &question, &obstacle, false);
        }
        let known = (pod.shape, pod.priority, pod.quotas.clone());
        if !question.has_objections() && self.hopeless.get(&known) == Some(&self.changes) {
            return self.rests(&pod, &question, &obstacle, false);
        }
        match self.world.find_victims(id, &question) {
            Outcome::Plan(plan) => {
                self.claim(id, plan, decisions);
                Turn::Claimed
            }
            Outcome::Wait => {
                self.counts_on_leaving = true;
                self.rests(&pod, &question, &obstacle, true)
            }
            Outcome::Hopeless => {
                self.looked_past_assumed |= self.world.pods.has_assumed();
                if !question.has_objections() {
                    self.hopeless.insert(known, self.changes);
                }
                self.rests(&pod, &question, &obstacle, false)
            }
        }
    }

    /// Whether a node that is kept out of patience can still serve.
    fn is_worth_keeping(&self, question: &Question, node: NodeId) -> bool {
        self.world.statics.get(question.rule).closed_by(node).is_none() && self.world.would_do_empty(question, node)
    }

    fn victims_still_leaving(&self, claimant: &Pod) -> Vec<(PodKey, Option<Created>)> {
        let key = claimant.key();
        let on_known_node = |pod: &&Pod| pod.node().is_some_and(|node| self.world.nodes.is_present(node));
        // A pod may leave for one that had the claimant's name before it; what its condition says has no uid.
        let for_this_one = |pod: &&Pod| {
            let seen = pod.leaving_since.is_some() && pod.victim_of.as_ref() == Some(&key);
            seen || pod.evicted_for.as_ref().is_some_and(|(_, uid)| *uid == claimant.uid)
        };
        let pods = self.leaving_for.get(&key).into_iter().flatten().map(|id| self.world.pods.get(*id));
        let pods = pods.filter(on_known_node).filter(for_this_one);
        let mut victims: Vec<_> = pods.map(|pod| (pod.key(), pod.leaving_since)).collect();
        victims.sort();
        victims
    }

    /// The pods that are leaving a node, or, where none is, those that leave others: what keeps a pod out may be elsewhere.
    fn leaving_near(&self, node: NodeId) -> Vec<(PodKey, Option<Created>)> {
        let leaving = self.world.leaving_pods().into_iter().map(|id| self.world.pods.get(id));
        let (here, elsewhere): (Vec<&Pod>, Vec<&Pod>) = leaving.partition(|pod| pod.node() == Some(node));
        let nearest = if here.is_empty() { elsewhere } else { here };
        let mut nearest: Vec<_> = nearest.into_iter().map(|pod| (pod.key(), pod.leaving_since)).collect();
        nearest.sort();
        nearest
    }

    fn rests(&mut self, pod: &Pod, question: &Question, obstacle: &Obstacle, leaving: bool) -> Turn {
        self.wait_for_company(pod, question);
        let Obstacle { refusals, closed } = obstacle;
        let mut reasons: Vec<Reason> = refusals.iter().map(|refusal| self.world.refused(refusal)).collect();
        reasons.extend(closed.as_ref().map(|closed| self.world.no_fitting_node(pod, question, closed, leaving)));
        Turn::Rests(explain::first_of(reasons))
    }

    /// A pod that other pods keep out is woken when one of their kind comes.
    fn wait_for_company(&mut self, pod: &Pod, question: &Question) {
        let Some(group) = pod.group else { return };
        let shape = self.world.shapes.get(question.shape);
        let kinds: Vec<_> = shape
            .spread
            .iter()
            .map(|s| s.relation)
            .chain(shape.affinity.iter().map(|(relation, _)| *relation))
            .collect();
        for kind in kinds {
            self.world.relations.wait(kind, group);
        }
    }

    fn rest(&mut self, group: GroupId, pod: PodId, reason: Reason) {
        debug_assert_eq!(self.world.pods.get(pod).group, Some(group));
        self.queue.rest(group, Arc::new(reason));
    }

    fn bind(&mut self, id: PodId, node: NodeId, decisions: &mut Decisions) -> Turn {
        let pod = self.world.pods.get(id);
        let shape = self.world.shapes.get(pod.shape);
        let claims = volume_binding::bindings(&self.world.nodes, node, shape, &self.world.volumes).unwrap_or_default();
        let (key, uid) = (pod.key(), pod.uid.clone());
        self.dequeue(id);
        // The end of a claim frees room, a decided volume may attach where the undecided claim could not, and who rests
        // because leaving pods make room for it may find that room taken: from the top again.
        if self.claimants.remove(&id) || !claims.is_empty() || std::mem::take(&mut self.counts_on_leaving) {
            self.stir();
        }
        let name = self.world.nodes.get(node).name.clone();
        self.world.volumes.decide(&key.namespace, &claims, &name, &uid);
        let mut effects = Effects::default();
        self.world.enter(id, Place::Assumed(node), &mut effects);
        let asleep = self
            .world
            .pods
            .get_mut(id)
            .claim
            .take()
            .map(|claim| SleepingClaim { node: self.world.nodes.get(claim.node).name.clone(), kind: claim.kind });
        let pod = self.world.pods.get_mut(id);
        pod.asleep = asleep;
        pod.reason = None;
        self.note_moved_pools(id);
        self.changes += 1;
        self.wake(effects);
        let node = self.world.nodes.get(node).name.clone();
        decisions.list.push(Decision::Bind { pod: key, uid, node, claims });
        Turn::Placed
    }

    /// Carries out a plan: the claimant holds the node, the victims go.
    fn claim(&mut self, id: PodId, plan: Plan, decisions: &mut Decisions) {
        let rights = self.world.rights(id);
        let right = |victim: &PodId| self.world.right(&rights, *victim).map(|right| right.rule);
        let rules: Vec<Rule> = plan
            .victims
            .iter()
            .map(|victim| right(victim).expect("a plan has only victims that may be evicted"))
            .collect();
        debug_assert!(
            !self.world.could_evict_back(&plan.victims, id, plan.node),
            "a pod that was evicted must not be able to evict its evictor"
        );
        self.dequeue(id);
        self.claimants.remove(&id);
        self.take_claim(id, Claim { node: plan.node, kind: ClaimKind::Preemption });
        self.note_moved_pools(id);
        let claimant = self.world.pods.get(id).clone();
        let key = claimant.key();
        let node = self.world.nodes.get(plan.node).name.clone();
        decisions.list.push(Decision::Nominate {
            pod: key.clone(),
            uid: claimant.uid.clone(),
            node: Some(node.clone()),
        });
        let mut effects = Effects::default();
        for (at, victim) in plan.victims.into_iter().enumerate() {
            let pod = self.world.pods.get(victim);
            let rule = rules[at];
            let from = pod.node().map(|node| self.world.nodes.get(node).name.clone());
            let message = self.world.evicted(rule, &claimant, pod, &node);
            decisions.list.push(Decision::Evict {
                pod: pod.key(),
                uid: pod.uid.clone(),
                node: from.expect("a victim is on a node"),
                claimant: Some(key.clone()),
                rule,
                violates_budget: plan.violating.contains(&victim),
                message,
            });
            self.world.change_leaving(victim, &mut effects, |pod| {
                pod.evicted_for = Some((key.clone(), claimant.uid.clone()));
            });
            self.note_leaving_for(victim, true);
            self.world.budgets.unseen.push(victim);
        }
        // What leaves now may be all that kept another pod from claiming. Those for whom pods leave already have a
        // claim, and another's only takes room from them.
        self.changes += 1;
        self.queue.wake_all_but_awaiting();
        self.enqueue(id);
        self.wake(effects);
    }

    /// Lets the first pod that waited long enough hold a node, if none does. Returns whether one does now.
    fn reserve(&mut self, now: Tick, decisions: &mut Decisions) -> bool {
        let overdue = self.patience.first().is_some_and(|(due, _)| *due <= now);
        if !overdue || self.is_patience_used() {
            return false;
        }
        let mut waiting: Vec<PodId> =
            self.patience.iter().take_while(|(due, _)| *due <= now).map(|(_, id)| *id).collect();
        waiting.retain(|id| self.world.pods.get(*id).claim.is_none());
        waiting.sort_by_cached_key(|id| {
            let pod = self.world.pods.get(*id);
            (std::cmp::Reverse(pod.priority), pod.created, pod.key())
        });
        for id in waiting {
            let Some(node) = self.node_to_reserve(id) else { continue };
            self.dequeue(id);
            self.take_claim(id, Claim { node, kind: ClaimKind::Patience });
            self.stir();
            self.enqueue(id);
            let pod = self.world.pods.get(id);
            let node = Some(self.world.nodes.get(node).name.clone());
            decisions.list.push(Decision::Nominate { pod: pod.key(), uid: pod.uid.clone(), node });
            return true;
        }
        false
    }

    fn is_patience_used(&self) -> bool {
        let patient = |id: &PodId| self.world.pods.get(*id).claim.is_some_and(|c| c.kind == ClaimKind::Patience);
        self.claimants.iter().any(patient)
    }

    /// The node that would do if it were empty and where the least is missing.
    fn node_to_reserve(&mut self, id: PodId) -> Option<NodeId> {
        let pod = self.world.pods.get(id).clone();
        let question = self.world.question(id);
        let world = &self.world;
        let demand = &world.shapes.get(pod.shape).demand;
        let would_do = |node: &NodeId| {
            matches!(world.closed_by(&question, *node), Some(Filter::NodeResourcesFit | Filter::NodeCap))
                && world.would_do_empty(&question, *node)
        };
        let lack = |node: &NodeId| {
            let missing: Vec<(ResourceId, i128)> = resources_fit::missing(&world.nodes, *node, demand);
            let capped = node_cap::missing(&world.nodes.get(*node).cap, demand);
            (world.lack(*node, &missing) + world.lack(*node, &capped), world.nodes.rank(*node))
        };
        world.nodes.by_name().filter(would_do).min_by_key(lack)
    }

    fn wake_at(&self) -> Option<Tick> {
        if self.is_patience_used() { None } else { self.patience.first().map(|(due, _)| *due) }
    }

    /// Marks running pods as within their quotas or over them, where that changed.
    fn mark(&mut self, decisions: &mut Decisions) {
        let mut pods = std::mem::take(&mut self.remark);
        let mut marks: BTreeMap<PodId, Vec<(Name, Capacity)>> = BTreeMap::new();
        for quota in std::mem::take(&mut self.world.quotas.unmarked) {
            let quotas = &self.world.quotas;
            if quotas.get(quota).policy.fair {
                pods.extend(quotas.get(quota).pods.iter().map(|senior| senior.pod));
            }
        }
        let mut concerned: BTreeSet<QuotaId> = BTreeSet::new();
        for pod in &pods {
            concerned.extend(&self.world.pods.get(*pod).quotas);
            marks.insert(*pod, Vec::new());
        }
        for quota in concerned {
            let group = self.world.quotas.get(quota).key.group.clone();
            for (pod, capacity) in self.world.quotas.marks(quota, &self.world.pods, &self.world.shapes) {
                if let Some(marks) = marks.get_mut(&pod) {
                    marks.push((group.clone(), capacity));
                }
            }
        }
        let mut changed = Vec::new();
        for (pod, mut new) in marks {
            new.sort();
            if self.world.pods.get(pod).marks != new {
                changed.push((self.world.pods.get(pod).key(), pod, new));
            }
        }
        changed.sort();
        for (key, pod, new) in changed {
            let old = std::mem::replace(&mut self.world.pods.get_mut(pod).marks, new.clone());
            let uid = self.world.pods.get(pod).uid.clone();
            let mut say = |group: &Name, capacity: Option<Capacity>| {
                let (pod, uid, group) = (key.clone(), uid.clone(), group.clone());
                decisions.list.push(Decision::Mark { pod, uid, group, capacity });
            };
            for (group, _) in old.iter().filter(|(group, _)| !new.iter().any(|(g, _)| g == group)) {
                say(group, None);
            }
            for (group, capacity) in new.iter().filter(|mark| !old.contains(mark)) {
                say(group, Some(*capacity));
            }
        }
    }

    /// Says why pods wait, where that changed.
    fn tell(&mut self, decisions: &mut Decisions) {
        let mut news: Vec<(PodId, Arc<Reason>)> = Vec::new();
        for id in std::mem::take(&mut self.unsaid) {
            let pod = self.world.pods.get(id);
            let reason = match &pod.problem {
                Some(problem) => explain::invalid(problem),
                None => explain::gated(&pod.gates),
            };
            news.push((id, Arc::new(reason)));
        }
        news.sort_by_cached_key(|(id, _)| self.world.pods.get(*id).key());
        news.extend(self.queue.take_untold());
        for (id, reason) in news {
            let pod = self.world.pods.get_mut(id);
            if pod.reason.as_ref() != Some(&reason) {
                pod.reason = Some(reason.clone());
                decisions.list.push(Decision::Hold { pod: pod.key(), uid: pod.uid.clone(), reason });
            }
        }
    }

    /// Why the pod waits, if it does.
    pub fn reason(&self, pod: &PodKey) -> Option<Arc<Reason>> {
        self.world.pods.get(self.world.pods.find(pod)?).reason.clone()
    }

    /// All quotas, by key.
    pub fn quotas(&self) -> Vec<QuotaReport> {
        let quotas = &self.world.quotas;
        quotas.iter().map(|(id, _)| quotas.report(id, &self.world.names)).collect()
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

    /// Whether a running pod is within its quota, and the API group of the quota that says so.
    pub fn capacity(&self, pod: &PodKey) -> Option<(Name, Capacity)> {
        self.world.pods.get(self.world.pods.find(pod)?).marks.first().cloned()
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> Vec<NodeReport> {
        let world = &self.world;
        let mut resources: Vec<ResourceId> = (0..world.names.len()).map(|i| ResourceId(i as u16)).collect();
        resources.sort_by_key(|id| world.names.name(*id).clone());
        let limits = |node: NodeId| world.nodes.get(node).cap.limits().unwrap_or_default().iter();
        let report = |node: NodeId| NodeReport {
            name: world.nodes.get(node).name.clone(),
            allocatable: resources
                .iter()
                .map(|r| (world.names.name(*r).clone(), world.nodes.allocatable(*r, node)))
                .filter(|(_, amount)| *amount != 0)
                .collect(),
            used: resources
                .iter()
                .map(|r| (world.names.name(*r).clone(), world.nodes.held(*r, node)))
                .filter(|(_, amount)| *amount != 0)
                .collect(),
            cap: limits(node).map(|(r, limit)| (world.names.name(*r).clone(), i128::from(*limit))).collect(),
            cap_used: limits(node)
                .map(|(r, _)| (world.names.name(*r).clone(), world.nodes.get(node).cap.held(*r)))
                .filter(|(_, amount)| *amount != 0)
                .collect(),
        };
        world.nodes.by_name().map(report).collect()
    }
}
