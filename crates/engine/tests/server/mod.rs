//! What stands around the engine while quotas are tried out: the objects, what was decided and is under way, and time.

use std::collections::{BTreeMap, BTreeSet};

use quotient_engine::fact::*;
use quotient_engine::{Decision, Decisions, Engine, Fact, Settings, Tick};

/// How something that was decided goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Well,
    /// It takes its time: first a sign of it, then the thing itself.
    Slowly,
    Badly,
}

impl How {
    /// Mostly well.
    fn by(random: u64) -> How {
        match random % 8 {
            0 => How::Badly,
            1 | 2 => How::Slowly,
            _ => How::Well,
        }
    }
}

/// What a pod's labels and annotations come to.
pub fn class_of(non_preemptible: bool, protected: bool) -> EvictionClass {
    match (non_preemptible, protected) {
        (true, _) => EvictionClass::NonPreemptible,
        (false, true) => EvictionClass::Protected,
        (false, false) => EvictionClass::Preemptible,
    }
}

/// What happens whatever kind of quota is tried out.
#[allow(clippy::large_enum_variant, reason = "a test has few steps")]
#[derive(Debug, Clone)]
pub enum Common {
    Node(NodeFact),
    DropNode(usize),
    Pod(PodFact),
    /// A pod ends or is deleted.
    EndPod(usize),
    /// A pod is asked to go, and takes its time.
    Linger(usize),
    Budget(BudgetFact),
    /// Something is heard of that is known already.
    Again(usize),
    /// Time passes, in milliseconds.
    Advance(u64),
    /// The engine starts anew, knowing only what the objects say. The number tells what becomes of what is under way.
    Restart(u64),
}

#[derive(Debug, Clone, Default)]
pub struct Server {
    pub now: u64,
    pub nodes: BTreeMap<Name, NodeFact>,
    pub pods: BTreeMap<PodKey, PodFact>,
    pub budgets: BTreeMap<(Name, Name), BudgetFact>,
    pub trees: BTreeMap<QuotaKey, TreeFact>,
    pub queues: BTreeMap<QuotaKey, QueueFact>,
    pub groups: BTreeMap<(Name, Name), GroupFact>,
    /// Binds that are under way.
    pub binding: BTreeMap<PodKey, Name>,
    /// Evictions that are under way, and for whom.
    pub evicting: BTreeMap<PodKey, Option<PodKey>>,
    /// Evicted pods come back, as those of a Deployment do.
    pub returns: bool,
    pub made: i64,
}

/// One of the keys, whichever the number falls on.
pub fn nth<K: Clone, V>(map: &BTreeMap<K, V>, which: usize) -> Option<K> {
    (!map.is_empty()).then(|| map.keys().nth(which % map.len()).cloned()).flatten()
}

impl Server {
    pub fn tick(&self) -> Tick {
        Tick(self.now)
    }

    /// The node that a pod counts on, be it by a bind that is under way.
    pub fn node_of<'a>(&'a self, pod: &'a PodFact) -> Option<&'a Name> {
        pod.node.as_ref().or_else(|| self.binding.get(&pod.key()))
    }

    pub fn is_leaving(&self, pod: &PodFact) -> bool {
        pod.leaving_since.is_some() || self.evicting.contains_key(&pod.key())
    }

    /// The pods that count on nodes.
    pub fn placed(&self) -> impl Iterator<Item = &PodFact> {
        self.pods.values().filter(|pod| self.node_of(pod).is_some())
    }

    /// Whether a pod waits and could be placed.
    pub fn is_candidate(&self, pod: &PodFact) -> bool {
        pod.ours
            && self.node_of(pod).is_none()
            && !self.is_leaving(pod)
            && pod.gates.is_empty()
            && pod.problem.is_none()
    }

    /// Whether a pod fits a node once some are gone.
    pub fn fits(&self, pod: &PodFact, node: &NodeFact, gone: &BTreeSet<PodKey>) -> bool {
        let here: Vec<&PodFact> = self
            .placed()
            .filter(|other| self.node_of(other) == Some(&node.name) && !gone.contains(&other.key()))
            .collect();
        let held = |resource: &str| here.iter().map(|other| other.spec.requests.get(resource)).sum::<i64>();
        let fits = |(resource, asked): &(Name, i64)| held(resource) + asked <= node.allocatable.get(resource);
        (here.len() as i64) < node.allocatable.get(PODS) && pod.spec.requests.iter().all(fits)
    }

    /// Everything there is.
    pub fn objects(&self) -> Vec<Fact> {
        let mut facts: Vec<Fact> = self.nodes.values().cloned().map(Fact::Node).collect();
        facts.extend(self.trees.values().cloned().map(Fact::from));
        facts.extend(self.queues.values().cloned().map(Fact::from));
        facts.extend(self.groups.values().cloned().map(Fact::Group));
        facts.extend(self.budgets.values().cloned().map(Fact::Budget));
        facts.extend(self.pods.values().cloned().map(Fact::Pod));
        facts
    }

    /// An engine that hears of everything in an order that follows from a number.
    pub fn engine_anew(&self, settings: &Settings, order: u64) -> Engine {
        let mut engine = Engine::new(settings.clone());
        let mut facts = self.objects();
        let mut random = order;
        for i in (1..facts.len()).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            facts.swap(i, (random >> 33) as usize % (i + 1));
        }
        for fact in facts {
            engine.observe(self.tick(), fact);
        }
        engine
    }

    fn add_pod(&mut self, mut pod: PodFact) -> Vec<Fact> {
        self.made += 1;
        pod.name = Name::from(format!("p{}", self.made));
        pod.uid = Name::from(format!("u{}", self.made));
        pod.created = Created(self.made);
        // One that comes back is of the same controller: without one it would be new.
        if self.returns && pod.owner.is_none() {
            pod.owner = Some(Name::from(format!("o{}", self.made)));
        }
        self.pods.insert(pod.key(), pod.clone());
        vec![Fact::Pod(pod)]
    }

    fn remove_pod(&mut self, key: &PodKey) -> Fact {
        self.pods.remove(key);
        self.binding.remove(key);
        self.evicting.remove(key);
        Fact::PodGone(key.clone())
    }

    /// Lets something happen; what is heard of it.
    pub fn apply(&mut self, step: &Common, engine: &mut Engine, settings: &Settings, pods_max: usize) {
        let facts = match step {
            Common::Node(node) => {
                self.nodes.insert(node.name.clone(), node.clone());
                vec![Fact::Node(node.clone())]
            }
            Common::DropNode(which) => self.drop_node(*which),
            Common::Pod(pod) => {
                if self.pods.len() >= pods_max {
                    return;
                }
                self.add_pod(pod.clone())
            }
            Common::EndPod(which) => match nth(&self.pods, *which) {
                Some(key) if which % 2 == 0 && self.pods[&key].node.is_some() => {
                    let ended = PodFact { phase: Phase::Succeeded, ..self.pods[&key].clone() };
                    self.remove_pod(&key);
                    vec![Fact::Pod(ended.clone()), Fact::Pod(ended), Fact::PodGone(key)]
                }
                Some(key) => vec![self.remove_pod(&key)],
                None => vec![],
            },
            Common::Linger(which) => match nth(&self.pods, *which) {
                Some(key) => {
                    let pod = self.pods.get_mut(&key).expect("it was just found");
                    pod.leaving_since = Some(Created(1));
                    let fact = Fact::Pod(pod.clone());
                    // A bind of a pod that is on its way out is refused.
                    let failed = self
                        .binding
                        .remove(&key)
                        .map(|_| Fact::BindFailed { pod: key.clone(), uid: self.pods[&key].uid.clone() });
                    self.evicting.entry(key).or_insert(None);
                    [fact].into_iter().chain(failed).collect()
                }
                None => vec![],
            },
            Common::Budget(budget) => {
                self.budgets.insert((budget.namespace.clone(), budget.name.clone()), budget.clone());
                vec![Fact::Budget(budget.clone())]
            }
            Common::Again(which) => {
                let objects = self.objects();
                objects.get(which % objects.len().max(1)).cloned().into_iter().collect()
            }
            Common::Advance(by) => {
                self.now += by;
                vec![]
            }
            Common::Restart(random) => {
                self.resolve(*random, true);
                *engine = self.engine_anew(settings, *random);
                vec![]
            }
        };
        self.tell(engine, facts);
    }

    pub fn tell(&self, engine: &mut Engine, facts: Vec<Fact>) {
        for fact in facts {
            engine.observe(self.tick(), fact);
        }
    }

    fn drop_node(&mut self, which: usize) -> Vec<Fact> {
        let Some(name) = nth(&self.nodes, which) else { return vec![] };
        self.nodes.remove(&name);
        let mut facts = vec![Fact::NodeGone(name.clone())];
        let lost: Vec<PodKey> =
            self.pods.values().filter(|pod| pod.node.as_ref() == Some(&name)).map(PodFact::key).collect();
        facts.extend(lost.iter().map(|key| self.remove_pod(key)));
        let failed: Vec<PodKey> =
            self.binding.iter().filter(|(_, node)| **node == name).map(|(key, _)| key.clone()).collect();
        for key in failed {
            self.binding.remove(&key);
            facts.push(Fact::BindFailed { uid: self.pods[&key].uid.clone(), pod: key });
        }
        facts
    }

    /// What was decided is under way from now on.
    pub fn take(&mut self, decision: &Decision) {
        match decision {
            Decision::Bind { pod, node, .. } => drop(self.binding.insert(pod.clone(), node.clone())),
            Decision::Evict { pod, claimant, .. } => drop(self.evicting.insert(pod.clone(), claimant.clone())),
            Decision::Nominate { pod, node, .. } => {
                self.pods.get_mut(pod).expect("the engine nominates pods that exist").nominated = node.clone();
            }
            Decision::Admit(group) => {
                let group = self.groups.get_mut(&(group.namespace.clone(), group.name.clone()));
                group.expect("the engine lets in groups that exist").admitted = true;
            }
            Decision::Hold { .. } | Decision::Mark { .. } => {}
        }
    }

    pub fn is_settled(&self) -> bool {
        self.binding.is_empty() && self.evicting.is_empty()
    }

    /// What is under way goes as the number says; `lost` is whether whoever carries it out stops. What is heard of it.
    fn resolve(&mut self, random: u64, lost: bool) -> Vec<Fact> {
        let mut facts = Vec::new();
        for (i, (key, node)) in self.binding.clone().into_iter().enumerate() {
            match How::by(random >> (i % 60)) {
                How::Slowly if !lost => {}
                How::Badly | How::Slowly => {
                    self.binding.remove(&key);
                    facts.push(Fact::BindFailed { uid: self.pods[&key].uid.clone(), pod: key });
                }
                How::Well => {
                    self.binding.remove(&key);
                    let pod = self.pods.get_mut(&key).expect("binds of pods that go are given up");
                    pod.node = Some(node);
                    pod.phase = Phase::Running;
                    facts.push(Fact::Pod(pod.clone()));
                }
            }
        }
        for (i, (key, claimant)) in self.evicting.clone().into_iter().enumerate() {
            let pod = self.pods.get_mut(&key).expect("evictions of pods that are gone are given up");
            match How::by(random >> (i % 59 + 3)) {
                How::Badly if pod.leaving_since.is_none() => {
                    self.evicting.remove(&key);
                    facts.push(Fact::EvictFailed { uid: self.pods[&key].uid.clone(), pod: key });
                }
                How::Slowly | How::Badly => {
                    pod.victim_of = pod.victim_of.take().or(claimant);
                    pod.leaving_since = Some(Created(1));
                    facts.push(Fact::Pod(pod.clone()));
                }
                How::Well => {
                    let gone = pod.clone();
                    facts.push(self.remove_pod(&key));
                    facts.extend(self.spend_budgets(&gone));
                    if self.returns && gone.node.is_some() {
                        let (node, nominated, victim_of, leaving_since) = (None, None, None, None);
                        let phase = Phase::Pending;
                        let again = PodFact { node, nominated, victim_of, leaving_since, phase, ..gone };
                        facts.extend(self.add_pod(again));
                    }
                }
            }
        }
        if random % 7 < 4 {
            facts.extend(self.pods.values().filter(|pod| pod.nominated.is_some()).cloned().map(Fact::Pod));
            facts.extend(self.groups.values().cloned().map(Fact::Group));
        }
        facts
    }

    /// The budgets that select a pod.
    pub fn budgets_of(&self, pod: &PodFact) -> impl Iterator<Item = &BudgetFact> {
        let selects = |budget: &&BudgetFact| {
            let requirements = budget.selector.iter().flat_map(|selector| &selector.requirements);
            budget.namespace == pod.namespace && requirements.into_iter().all(|r| pod.labels.get(&r.key).is_some())
        };
        self.budgets.values().filter(selects).collect::<Vec<_>>().into_iter()
    }

    fn spend_budgets(&mut self, pod: &PodFact) -> Vec<Fact> {
        let keys: Vec<_> = self.budgets_of(pod).map(|b| (b.namespace.clone(), b.name.clone())).collect();
        let mut facts = Vec::new();
        for key in keys {
            let budget = self.budgets.get_mut(&key).expect("it was just found");
            budget.allowed = budget.allowed.saturating_sub(1);
            facts.push(Fact::Budget(budget.clone()));
        }
        facts
    }

    /// Lets what is under way go on, as a number says; 3 lets all of it go well.
    pub fn go_on(&mut self, random: u64, engine: &mut Engine) {
        let facts = self.resolve(random, false);
        self.tell(engine, facts);
    }
}

/// All goes well with this number.
pub const WELL: u64 = u64::MAX;

/// The decisions of a cycle, those that belong together in one.
pub fn acts(decisions: &Decisions) -> Vec<&[Decision]> {
    let is_eviction = |decision: &Decision| matches!(decision, Decision::Evict { .. });
    decisions.list.chunk_by(|a, b| is_eviction(a) && is_eviction(b)).collect()
}
