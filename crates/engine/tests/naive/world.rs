//! What is known: the objects as they were told, and what was decided since and not yet confirmed.

use std::collections::{BTreeMap, BTreeSet};

use quotient_engine::ClaimBinding;
use quotient_engine::fact::{
    AttachLimits, BudgetFact, ClaimFact, Fact, Labels, Name, NodeFact, Phase, PodFact, PodKey, SelectorFact,
    StorageClassFact, Tick, VolumeFact,
};

/// A bind that was decided and has not been seen.
#[derive(Debug, Clone)]
pub struct Bound {
    pub uid: Name,
    pub node: Name,
}

/// An eviction that was decided and has not been seen to end.
#[derive(Debug, Clone)]
pub struct Evicting {
    pub uid: Name,
    pub claimant: PodKey,
    pub claimant_uid: Name,
}

/// What a waiting pod holds a node for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimKind {
    /// Pods leave, or left, for it.
    Preemption,
    /// Room is on its way to it, without anybody's going for it.
    Room,
    /// It waited for too long.
    Reserve,
}

#[derive(Debug, Clone)]
pub struct Claim {
    pub node: Name,
    pub kind: ClaimKind,
}

/// What was decided about a volume claim together with a bind.
#[derive(Debug, Clone)]
pub struct Promise {
    /// Namespace and name of the claim.
    pub claim: (Name, Name),
    pub pod: PodKey,
    pub node: Name,
    pub binding: ClaimBinding,
}

#[derive(Debug, Clone, Default)]
pub struct World {
    pub reserve_after_ms: u64,
    pub nodes: BTreeMap<Name, NodeFact>,
    pub limits: BTreeMap<Name, AttachLimits>,
    pub pods: BTreeMap<PodKey, PodFact>,
    pub namespaces: BTreeMap<Name, Labels>,
    pub budgets: BTreeMap<(Name, Name), BudgetFact>,
    pub volumes: BTreeMap<Name, VolumeFact>,
    pub volume_claims: BTreeMap<(Name, Name), ClaimFact>,
    pub classes: BTreeMap<Name, StorageClassFact>,
    pub selectors: BTreeMap<(Name, Name), SelectorFact>,
    pub first_seen: BTreeMap<PodKey, Tick>,
    pub bound: BTreeMap<PodKey, Bound>,
    pub evicting: BTreeMap<PodKey, Evicting>,
    pub claims: BTreeMap<PodKey, Claim>,
    /// Nodes that pods' objects name as theirs, and that were not there when they did.
    pub expected: BTreeMap<PodKey, Name>,
    /// An eviction failed since the last cycle.
    pub evict_failed: bool,
    /// A cycle has begun.
    pub has_begun: bool,
    /// Several pods may share a claim, and be bound on the strength of the same.
    pub promises: Vec<Promise>,
}

/// A pod that counts on a node.
#[derive(Debug, Clone, Copy)]
pub struct Placed<'a> {
    pub pod: &'a PodFact,
    pub node: &'a NodeFact,
    pub leaving: bool,
}

/// The cluster as one pod sees it: everybody else who counts, and everybody else's claims.
#[derive(Debug, Clone)]
pub struct View<'a> {
    pub world: &'a World,
    pub pod: &'a PodFact,
    pub placed: Vec<Placed<'a>>,
    /// Other waiting pods with the node each claims.
    pub claimants: Vec<(&'a PodFact, &'a Name)>,
}

impl View<'_> {
    pub fn placed_on<'b>(&'b self, node: &'b NodeFact) -> impl Iterator<Item = &'b Placed<'b>> {
        self.placed.iter().filter(move |p| p.node.name == node.name)
    }

    pub fn claimants_of<'b>(&'b self, node: &'b NodeFact) -> impl Iterator<Item = &'b PodFact> {
        self.claimants.iter().filter(move |(_, name)| **name == node.name).map(|(pod, _)| *pod)
    }
}

impl World {
    pub fn new(reserve_after_ms: u64) -> Self {
        World { reserve_after_ms, ..World::default() }
    }

    pub fn observe(&mut self, now: Tick, fact: Fact) {
        match fact {
            Fact::Node(node) => self.observe_node(node),
            Fact::NodeGone(name) => drop(self.nodes.remove(&name)),
            Fact::AttachLimits(limits) => drop(self.limits.insert(limits.node.clone(), limits)),
            Fact::AttachLimitsGone(name) => drop(self.limits.remove(&name)),
            Fact::Pod(pod) => self.observe_pod(now, pod),
            Fact::PodGone(key) => {
                // Before the bind was seen, its claims fall with it; afterwards they are as good as told.
                if self.bound.contains_key(&key) {
                    self.promises.retain(|p| p.pod != key);
                }
                self.forget(&key);
                self.pods.remove(&key);
            }
            Fact::Namespace(name, labels) => drop(self.namespaces.insert(name, labels)),
            Fact::NamespaceGone(name) => drop(self.namespaces.remove(&name)),
            Fact::Budget(b) => drop(self.budgets.insert((b.namespace.clone(), b.name.clone()), b)),
            Fact::BudgetGone { namespace, name } => drop(self.budgets.remove(&(namespace, name))),
            Fact::Volume(v) => drop(self.volumes.insert(v.name.clone(), v)),
            Fact::VolumeGone(name) => drop(self.volumes.remove(&name)),
            Fact::Claim(claim) => {
                let key = (claim.namespace.clone(), claim.name.clone());
                if claim.bound || claim.selected_node.is_some() {
                    self.promises.retain(|p| p.claim != key);
                }
                self.volume_claims.insert(key, claim);
            }
            Fact::ClaimGone { namespace, name } => {
                let key = (namespace, name);
                self.promises.retain(|p| p.claim != key);
                self.volume_claims.remove(&key);
            }
            Fact::StorageClass(class) => drop(self.classes.insert(class.name.clone(), class)),
            Fact::StorageClassGone(name) => drop(self.classes.remove(&name)),
            Fact::Selector(s) => drop(self.selectors.insert((s.namespace.clone(), s.object.clone()), s)),
            Fact::SelectorGone { namespace, object } => drop(self.selectors.remove(&(namespace, object))),
            Fact::Quota(_)
            | Fact::QuotaGone(_)
            | Fact::Group(_)
            | Fact::GroupGone(_)
            | Fact::GroupSucceeded(..)
            | Fact::GroupsServed { .. }
            | Fact::QueueOfNamespace { .. } => panic!("the reference knows no quotas and groups: tell it none"),
            Fact::DevicePool(_)
            | Fact::DevicePoolGone(_)
            | Fact::DeviceVerdicts(_)
            | Fact::DeviceMatcherGone(_)
            | Fact::DeviceClass(_)
            | Fact::DeviceClassGone(_)
            | Fact::DeviceClaim(_)
            | Fact::DeviceClaimGone(_) => panic!("the reference knows no devices: tell it none"),
            Fact::BindFailed { pod, uid } => {
                if self.bound.get(&pod).is_some_and(|b| b.uid == uid) {
                    self.bound.remove(&pod);
                    self.promises.retain(|p| p.pod != pod);
                }
            }
            Fact::EvictFailed { pod, uid } => {
                if self.evicting.get(&pod).is_some_and(|e| e.uid == uid) {
                    self.evicting.remove(&pod);
                    self.evict_failed = true;
                }
            }
        }
    }

    /// A node that is expected is claimed when it comes, by pods that wait and claim no other.
    fn observe_node(&mut self, node: NodeFact) {
        let expecting: Vec<PodKey> =
            self.expected.iter().filter(|(_, name)| **name == node.name).map(|(pod, _)| pod.clone()).collect();
        for key in expecting {
            self.expected.remove(&key);
            let waits = self.pods.get(&key).is_some_and(|pod| pod.node.is_none()) && !self.bound.contains_key(&key);
            if waits && !self.claims.contains_key(&key) {
                self.claims.insert(key, Claim { node: node.name.clone(), kind: ClaimKind::Room });
            }
        }
        self.nodes.insert(node.name.clone(), node);
    }

    fn observe_pod(&mut self, now: Tick, pod: PodFact) {
        let key = pod.key();
        let known = self.pods.get(&key).filter(|old| old.uid == pod.uid);
        let nominated_before = known.and_then(|old| old.nominated.clone());
        if known.is_none() {
            self.promises.retain(|p| p.pod != key);
            self.forget(&key);
            self.first_seen.insert(key.clone(), now);
        }
        // A nomination that is told again says nothing new: the claim may have been dropped since.
        if pod.nominated != nominated_before {
            self.expected.remove(&key);
            match &pod.nominated {
                None => drop(self.claims.remove(&key)),
                Some(node) if self.claims.get(&key).is_some_and(|c| c.node == *node) => {}
                Some(node) if !self.nodes.contains_key(node) && !self.bound.contains_key(&key) => {
                    self.claims.remove(&key);
                    self.expected.insert(key.clone(), node.clone());
                }
                Some(node) => {
                    // Whether pods went for it is seen when they are seen to leave for it.
                    let claim = Claim { node: node.clone(), kind: ClaimKind::Room };
                    self.claims.insert(key.clone(), claim);
                }
            }
        }
        // As with one that is gone: what ends before its bind was seen takes nothing of what was decided with it.
        if pod.phase.is_over() && self.bound.remove(&key).is_some() {
            self.promises.retain(|p| p.pod != key);
        }
        if pod.node.is_some() {
            self.bound.remove(&key);
            self.claims.remove(&key);
        }
        self.pods.insert(key, pod);
    }

    /// Nothing is remembered of the pod that was known by this name.
    fn forget(&mut self, key: &PodKey) {
        self.first_seen.remove(key);
        self.bound.remove(key);
        self.evicting.remove(key);
        self.claims.remove(key);
        self.expected.remove(key);
    }

    /// Every object, as it was last told.
    pub fn told(&self) -> Vec<Fact> {
        let mut facts: Vec<Fact> = Vec::new();
        facts.extend(self.nodes.values().cloned().map(Fact::Node));
        facts.extend(self.limits.values().cloned().map(Fact::AttachLimits));
        facts.extend(self.pods.values().cloned().map(Fact::Pod));
        facts.extend(self.namespaces.iter().map(|(name, labels)| Fact::Namespace(name.clone(), labels.clone())));
        facts.extend(self.budgets.values().cloned().map(Fact::Budget));
        facts.extend(self.volumes.values().cloned().map(Fact::Volume));
        facts.extend(self.volume_claims.values().cloned().map(Fact::Claim));
        facts.extend(self.classes.values().cloned().map(Fact::StorageClass));
        facts.extend(self.selectors.values().cloned().map(Fact::Selector));
        facts
    }

    /// The node that a pod is assigned to, or was bound to by an earlier decision.
    pub fn node_of(&self, pod: &PodFact) -> Option<&NodeFact> {
        let name = pod.node.as_ref().or_else(|| self.bound.get(&pod.key()).map(|b| &b.node))?;
        self.nodes.get(name)
    }

    pub fn leaving(&self, pod: &PodFact) -> bool {
        pod.leaving_since.is_some() || self.evicting.contains_key(&pod.key())
    }

    pub fn waits(&self, pod: &PodFact) -> bool {
        pod.ours
            && pod.node.is_none()
            && !self.bound.contains_key(&pod.key())
            && pod.phase == Phase::Pending
            && pod.leaving_since.is_none()
    }

    /// Every pod that counts on a node.
    pub fn placed(&self) -> Vec<Placed<'_>> {
        let counting = self.pods.values().filter(|pod| !pod.phase.is_over());
        counting.filter_map(|pod| Some(Placed { pod, node: self.node_of(pod)?, leaving: self.leaving(pod) })).collect()
    }

    /// How `pod` sees the cluster when the pods in `gone` are not there.
    pub fn view<'a>(&'a self, pod: &'a PodFact, gone: &BTreeSet<PodKey>) -> View<'a> {
        self.view_without(pod, gone, &BTreeSet::new())
    }

    /// The same, when the claims of the pods in `dropped` do not count either.
    pub fn view_without<'a>(
        &'a self,
        pod: &'a PodFact,
        gone: &BTreeSet<PodKey>,
        dropped: &BTreeSet<PodKey>,
    ) -> View<'a> {
        let key = pod.key();
        let placed = self.placed().into_iter().filter(|p| p.pod.key() != key && !gone.contains(&p.pod.key())).collect();
        let claimants = self.claims.iter().filter(|(holder, _)| **holder != key && !dropped.contains(*holder));
        let claimants = claimants.map(|(holder, claim)| (&self.pods[holder], &claim.node));
        View { world: self, pod, placed, claimants: claimants.filter(|(holder, _)| self.waits(holder)).collect() }
    }

    /// What the pods on a node hold, by resource, nothing that is 0: what `Engine::nodes` reports.
    pub fn used(&self, node: &Name) -> Vec<(Name, i128)> {
        let mut used: BTreeMap<Name, i128> = BTreeMap::new();
        for placed in self.placed().iter().filter(|p| p.node.name == *node) {
            for (resource, amount) in placed.pod.spec.requests.iter() {
                *used.entry(resource.clone()).or_default() += i128::from(*amount);
            }
            *used.entry(quotient_engine::fact::PODS.into()).or_default() += 1;
        }
        used.into_iter().filter(|(_, amount)| *amount != 0).collect()
    }
}
