//! The objects as an API server has them, and what is still to be done about them.

use std::collections::BTreeMap;

use quotient_engine::fact::*;
use quotient_engine::{ClaimBinding, Decision};

use super::{How, Step};

/// More pods make too many sets of victims for a reference that looks at all of them.
const PODS_MAX: usize = 11;

/// Something that was decided and is under way.
#[derive(Debug, Clone)]
pub enum Effect {
    Bind {
        pod: PodKey,
        uid: Name,
        node: Name,
        claims: Vec<ClaimBinding>,
    },
    Evict {
        pod: PodKey,
        uid: Name,
        claimant: Option<PodKey>,
    },
    /// The pod's status was written, and is heard of later.
    Tell {
        pod: PodKey,
        uid: Name,
    },
}

#[derive(Debug, Default)]
pub struct ApiServer {
    nodes: BTreeMap<Name, NodeFact>,
    limits: BTreeMap<Name, AttachLimits>,
    pods: BTreeMap<PodKey, PodFact>,
    namespaces: BTreeMap<Name, Labels>,
    budgets: BTreeMap<(Name, Name), BudgetFact>,
    volumes: BTreeMap<Name, VolumeFact>,
    claims: BTreeMap<(Name, Name), ClaimFact>,
    classes: BTreeMap<Name, StorageClassFact>,
    selectors: BTreeMap<(Name, Name), SelectorFact>,
    effects: Vec<Effect>,
    created: u64,
}

impl ApiServer {
    /// Everything there is, as one who starts anew hears of it.
    pub fn objects(&self) -> Vec<Fact> {
        let mut facts: Vec<Fact> = Vec::new();
        facts.extend(self.nodes.values().cloned().map(Fact::Node));
        facts.extend(self.pods.values().cloned().map(Fact::Pod));
        facts.extend(self.others().into_iter().map(|(fact, _)| fact));
        facts
    }

    /// Every object but nodes and pods, with what is heard when it goes.
    fn others(&self) -> Vec<(Fact, Fact)> {
        let mut facts: Vec<(Fact, Fact)> = Vec::new();
        for (name, limits) in &self.limits {
            facts.push((Fact::AttachLimits(limits.clone()), Fact::AttachLimitsGone(name.clone())));
        }
        for (name, labels) in &self.namespaces {
            facts.push((Fact::Namespace(name.clone(), labels.clone()), Fact::NamespaceGone(name.clone())));
        }
        for ((namespace, name), budget) in &self.budgets {
            let gone = Fact::BudgetGone { namespace: namespace.clone(), name: name.clone() };
            facts.push((Fact::Budget(budget.clone()), gone));
        }
        for (name, volume) in &self.volumes {
            facts.push((Fact::Volume(volume.clone()), Fact::VolumeGone(name.clone())));
        }
        for ((namespace, name), claim) in &self.claims {
            let gone = Fact::ClaimGone { namespace: namespace.clone(), name: name.clone() };
            facts.push((Fact::Claim(claim.clone()), gone));
        }
        for (name, class) in &self.classes {
            facts.push((Fact::StorageClass(class.clone()), Fact::StorageClassGone(name.clone())));
        }
        for ((namespace, object), selector) in &self.selectors {
            let gone = Fact::SelectorGone { namespace: namespace.clone(), object: object.clone() };
            facts.push((Fact::Selector(selector.clone()), gone));
        }
        facts
    }

    /// What was decided is under way from now on. A nomination is written at once and heard of later.
    pub fn take(&mut self, decisions: &[Decision]) {
        for decision in decisions {
            if let Decision::Nominate { pod, node, .. } = decision
                && let Some(pod) = self.pods.get_mut(pod)
            {
                pod.nominated = node.clone();
            }
            self.effects.extend(Effect::of(decision));
        }
    }

    /// Whoever carried out decisions stops: every second of them still happens.
    pub fn lose_or_finish(&mut self, random: u64) {
        for (i, effect) in std::mem::take(&mut self.effects).into_iter().enumerate() {
            if random >> (i % 64) & 1 == 0 {
                self.resolve(effect, How::Slowly);
            }
        }
        self.effects.clear();
    }

    /// Lets a step happen; what is heard of it.
    pub fn apply(&mut self, step: &Step) -> Vec<Fact> {
        match step {
            Step::Node(node) => {
                self.nodes.insert(node.name.clone(), node.clone());
                vec![Fact::Node(node.clone())]
            }
            Step::NodeGone(which) => match nth(self.nodes.keys(), *which) {
                Some(name) => {
                    self.nodes.remove(&name);
                    vec![Fact::NodeGone(name)]
                }
                None => vec![],
            },
            Step::Limits(limits) => {
                self.limits.insert(limits.node.clone(), limits.clone());
                vec![Fact::AttachLimits(limits.clone())]
            }
            Step::Pod(pod) => self.create_pod(pod.clone()),
            Step::Replicas(pod, count) => {
                let named = (0..10).map(|i| PodFact { name: format!("p{i}").into(), ..pod.clone() });
                let free: Vec<PodFact> = named.filter(|p| !self.pods.contains_key(&p.key())).take(*count).collect();
                free.into_iter().flat_map(|pod| self.create_pod(pod)).collect()
            }
            Step::Namespace(name, labels) => {
                self.namespaces.insert(name.clone(), labels.clone());
                vec![Fact::Namespace(name.clone(), labels.clone())]
            }
            Step::Budget(budget) => {
                self.budgets.insert((budget.namespace.clone(), budget.name.clone()), budget.clone());
                vec![Fact::Budget(budget.clone())]
            }
            Step::Volume(volume) => {
                if self.volumes.contains_key(&volume.name) {
                    return vec![];
                }
                self.volumes.insert(volume.name.clone(), volume.clone());
                vec![Fact::Volume(volume.clone())]
            }
            Step::Claim(claim) => self.create_claim(claim.clone()),
            Step::Class(class) => {
                self.classes.insert(class.name.clone(), class.clone());
                vec![Fact::StorageClass(class.clone())]
            }
            Step::Selector(selector) => {
                self.selectors.insert((selector.namespace.clone(), selector.object.clone()), selector.clone());
                vec![Fact::Selector(selector.clone())]
            }
            Step::Gone(which) => self.remove_other(*which),
            Step::Relabel(which, labels) => self.change_pod(*which, |pod| pod.labels = labels.clone()),
            Step::End(which, phase) => self.change_pod(*which, |pod| pod.phase = *phase),
            Step::Linger(which) => self.change_pod(*which, |pod| pod.leaving_since = Some(Created(1))),
            Step::Nominate(which, node) => self.change_pod(*which, |pod| {
                if pod.node.is_none() {
                    pod.nominated.clone_from(node);
                }
            }),
            Step::Ungate(which) => self.change_pod(*which, |pod| {
                pod.gates.clear();
            }),
            Step::Delete(which) => match nth(self.pods.keys(), *which) {
                Some(key) => self.delete_pod(&key),
                None => vec![],
            },
            Step::Resolve(which, how) => {
                if self.effects.is_empty() {
                    return vec![];
                }
                let effect = self.effects.remove(which % self.effects.len());
                self.resolve(effect, *how)
            }
            Step::Settle => {
                let effects = std::mem::take(&mut self.effects);
                effects.into_iter().flat_map(|effect| self.resolve(effect, How::Well)).collect()
            }
            Step::Advance(_) | Step::Restart(_) | Step::Again(_) | Step::Decide => vec![],
        }
    }

    fn create_pod(&mut self, mut pod: PodFact) -> Vec<Fact> {
        if self.pods.contains_key(&pod.key()) || self.pods.len() >= PODS_MAX {
            return vec![];
        }
        self.created += 1;
        pod.uid = format!("uid-{}", self.created).into();
        self.pods.insert(pod.key(), pod.clone());
        vec![Fact::Pod(pod)]
    }

    fn change_pod(&mut self, which: usize, change: impl FnOnce(&mut PodFact)) -> Vec<Fact> {
        let Some(pod) = nth(self.pods.keys(), which).and_then(|key| self.pods.get_mut(&key)) else { return vec![] };
        change(pod);
        vec![Fact::Pod(pod.clone())]
    }

    fn delete_pod(&mut self, key: &PodKey) -> Vec<Fact> {
        let Some(pod) = self.pods.get_mut(key) else { return vec![] };
        if pod.node.is_some() && pod.leaving_since.is_none() {
            pod.leaving_since = Some(Created(1));
            return vec![Fact::Pod(pod.clone())];
        }
        self.pods.remove(key);
        vec![Fact::PodGone(key.clone())]
    }

    /// A claim that names a volume gets it where it is free, and otherwise names none.
    fn create_claim(&mut self, mut claim: ClaimFact) -> Vec<Fact> {
        let key = (claim.namespace.clone(), claim.name.clone());
        if self.claims.contains_key(&key) {
            return vec![];
        }
        let mut facts = Vec::new();
        let volume = claim.volume.as_ref().and_then(|name| self.volumes.get_mut(name));
        match volume.filter(|volume| volume.claim.is_none()) {
            Some(volume) => {
                volume.claim = Some(PodKey { namespace: claim.namespace.clone(), name: claim.name.clone() });
                volume.available = false;
                facts.push(Fact::Volume(volume.clone()));
            }
            None => {
                claim.volume = None;
                claim.bound = false;
            }
        }
        self.claims.insert(key, claim.clone());
        facts.push(Fact::Claim(claim));
        facts
    }

    fn remove_other(&mut self, which: usize) -> Vec<Fact> {
        let others = self.others();
        if others.is_empty() {
            return vec![];
        }
        let (_, gone) = others[which % others.len()].clone();
        match &gone {
            Fact::AttachLimitsGone(name) => drop(self.limits.remove(name)),
            Fact::NamespaceGone(name) => drop(self.namespaces.remove(name)),
            Fact::BudgetGone { namespace, name } => drop(self.budgets.remove(&(namespace.clone(), name.clone()))),
            Fact::VolumeGone(name) => drop(self.volumes.remove(name)),
            Fact::ClaimGone { namespace, name } => drop(self.claims.remove(&(namespace.clone(), name.clone()))),
            Fact::StorageClassGone(name) => drop(self.classes.remove(name)),
            Fact::SelectorGone { namespace, object } => {
                drop(self.selectors.remove(&(namespace.clone(), object.clone())));
            }
            _ => unreachable!("these are all the other objects"),
        }
        vec![gone]
    }

    /// Something that was decided is carried out, or fails; what is heard of it.
    fn resolve(&mut self, effect: Effect, how: How) -> Vec<Fact> {
        match effect {
            Effect::Tell { pod, uid } => {
                let pod = self.pods.get(&pod).filter(|p| p.uid == uid);
                pod.map(|pod| Fact::Pod(pod.clone())).into_iter().collect()
            }
            Effect::Bind { pod, uid, node, claims } => {
                let there = self.pods.get(&pod).is_some_and(|p| p.uid == uid && p.node.is_none() && !p.phase.is_over());
                if !there || how == How::Badly {
                    return vec![Fact::BindFailed { pod, uid }];
                }
                // A volume is first asked for, and comes later.
                if how == How::Slowly {
                    let facts = self.select_node(&pod.namespace, &node, &claims);
                    if !facts.is_empty() {
                        self.effects.push(Effect::Bind { pod, uid, node, claims });
                        return facts;
                    }
                }
                let mut facts = Vec::new();
                for binding in claims {
                    facts.extend(self.bind_claim(&pod.namespace, &node, binding));
                }
                let bound = self.pods.get_mut(&pod).expect("it is there");
                bound.node = Some(node);
                bound.phase = Phase::Running;
                facts.push(Fact::Pod(bound.clone()));
                facts
            }
            Effect::Evict { pod, uid, claimant } => {
                let Some(victim) = self.pods.get_mut(&pod).filter(|p| p.uid == uid) else {
                    return vec![Fact::EvictFailed { pod, uid }];
                };
                match how {
                    How::Well => {
                        self.pods.remove(&pod);
                        vec![Fact::PodGone(pod)]
                    }
                    How::Badly => vec![Fact::EvictFailed { pod, uid }],
                    // First the condition, then the deletion, then it is gone.
                    How::Slowly => {
                        if victim.victim_of.is_none() {
                            victim.victim_of.clone_from(&claimant);
                        } else {
                            victim.leaving_since = Some(Created(1));
                        }
                        let fact = Fact::Pod(victim.clone());
                        self.effects.push(Effect::Evict { pod, uid, claimant });
                        vec![fact]
                    }
                }
            }
        }
    }

    /// Asks for the volumes that are to be made, where that was not done before.
    fn select_node(&mut self, namespace: &Name, node: &Name, bindings: &[ClaimBinding]) -> Vec<Fact> {
        let mut facts = Vec::new();
        for binding in bindings {
            let ClaimBinding::Provision { claim } = binding else { continue };
            let claim = self.claims.get_mut(&(namespace.clone(), claim.clone()));
            if let Some(claim) = claim.filter(|claim| claim.volume.is_none() && claim.selected_node.is_none()) {
                claim.selected_node = Some(node.clone());
                facts.push(Fact::Claim(claim.clone()));
            }
        }
        facts
    }

    fn bind_claim(&mut self, namespace: &Name, node: &Name, binding: ClaimBinding) -> Vec<Fact> {
        let (ClaimBinding::Volume { claim: name, .. } | ClaimBinding::Provision { claim: name }) = &binding;
        let Some(claim) = self.claims.get_mut(&(namespace.clone(), name.clone())) else { return vec![] };
        if claim.volume.is_some() {
            return vec![];
        }
        let holder = PodKey { namespace: namespace.clone(), name: name.clone() };
        let volume = match &binding {
            ClaimBinding::Volume { volume, .. } => match self.volumes.get_mut(volume) {
                Some(volume) => volume,
                None => return vec![],
            },
            ClaimBinding::Provision { .. } => {
                claim.selected_node = Some(node.clone());
                let zone = self.nodes.get(node).and_then(|node| node.labels.get("topology.kubernetes.io/zone"));
                let label = zone.map(|zone| (Name::from("topology.kubernetes.io/zone"), zone.clone()));
                let name = Name::from(format!("made-for-{namespace}-{name}"));
                let made = VolumeFact {
                    name: name.clone(),
                    labels: label.into_iter().collect(),
                    class: claim.class.clone(),
                    capacity: claim.request,
                    access_modes: claim.access_modes.clone(),
                    volume_mode: claim.volume_mode.clone(),
                    driver: self.classes.get(&claim.class).map(|class| class.provisioner.clone()),
                    handle: name.clone(),
                    ..VolumeFact::default()
                };
                self.volumes.entry(name).or_insert(made)
            }
        };
        volume.claim = Some(holder);
        volume.available = false;
        claim.volume = Some(volume.name.clone());
        claim.bound = true;
        vec![Fact::Volume(volume.clone()), Fact::Claim(claim.clone())]
    }
}

/// One of the keys, whichever the number falls on.
fn nth<'a, K: Clone + 'a>(mut keys: impl ExactSizeIterator<Item = &'a K>, which: usize) -> Option<K> {
    let len = keys.len();
    (len > 0).then(|| keys.nth(which % len).cloned()).flatten()
}
