//! What nodes and teams hold while a trace runs, for the figures. The engine's own ledgers decide; these only count.

use std::collections::BTreeMap;

use quotient_engine::Engine;
use quotient_engine::fact::{CPU, MEMORY, Name, NodeFact, PodKey, PodSpec};

use crate::measure::{LevelId, Levels, jain_ppm};

/// Accelerators whose nodes need not name a card.
const UNNAMED_CARDS: [&str; 2] = ["nvidia.com/gpu", "amd.com/gpu"];

/// How many of the most frequent requests fragmentation is measured with.
const REQUESTS_MAX: usize = 8;

/// A kind of card, over all nodes.
#[derive(Debug)]
pub struct Card {
    pub name: Name,
    pub used: LevelId,
    pub capacity: LevelId,
}

/// A team: a namespace.
#[derive(Debug)]
pub struct Team {
    pub name: Name,
    pub used: LevelId,
    pub pods: u64,
    pub waits_ms: Vec<u64>,
    pub evicted: u64,
    pub lost_gpu_ms: u128,
}

#[derive(Debug, Default)]
struct Node {
    /// Card, resource, how many.
    cards: Vec<(usize, Name, i64)>,
    free_gpus: i64,
    free_cpu: i64,
    free_memory: i64,
}

/// All books.
#[derive(Debug)]
pub struct Books {
    pub levels: Levels,
    pub cards: Vec<Card>,
    pub teams: Vec<Team>,
    pub waiting: LevelId,
    pub fragmentation: LevelId,
    pub fairness: LevelId,
    /// 1 while fairness is defined: while two quotas have demand.
    pub fairness_known: LevelId,
    pub fairness_lowest: Option<i64>,
    nodes: BTreeMap<Name, Node>,
    /// GPUs, millicores and bytes that pods with GPUs ask for, and how many ask for it.
    requests: BTreeMap<(i64, i64, i64), u64>,
}

impl Books {
    pub fn new(bucket_ms: u64) -> Self {
        let mut levels = Levels::new(bucket_ms);
        let [waiting, fragmentation, fairness, fairness_known] = std::array::from_fn(|_| levels.add());
        Books {
            levels,
            cards: Vec::new(),
            teams: Vec::new(),
            waiting,
            fragmentation,
            fairness,
            fairness_known,
            fairness_lowest: None,
            nodes: BTreeMap::new(),
            requests: BTreeMap::new(),
        }
    }

    /// The team of that name.
    pub fn team(&mut self, name: &Name) -> usize {
        match self.teams.iter().position(|team| team.name == *name) {
            Some(at) => at,
            None => {
                let used = self.levels.add();
                let (pods, waits_ms, evicted, lost_gpu_ms) = (0, Vec::new(), 0, 0);
                self.teams.push(Team { name: name.clone(), used, pods, waits_ms, evicted, lost_gpu_ms });
                self.teams.len() - 1
            }
        }
    }

    fn card(&mut self, name: &Name) -> usize {
        match self.cards.iter().position(|card| card.name == *name) {
            Some(at) => at,
            None => {
                let (used, capacity) = (self.levels.add(), self.levels.add());
                self.cards.push(Card { name: name.clone(), used, capacity });
                self.cards.len() - 1
            }
        }
    }

    /// A node was seen for the first time. One that changes later is counted as it was first.
    pub fn node(&mut self, fact: &NodeFact) {
        if self.nodes.contains_key(&fact.name) {
            return;
        }
        let named: Vec<(Name, Name)> =
            fact.cards.iter().map(|card| (card.name.clone(), card.resource.clone())).collect();
        let unnamed = UNNAMED_CARDS.iter().filter(|resource| named.iter().all(|(_, named)| **named != ***resource));
        let unnamed: Vec<(Name, Name)> =
            unnamed.map(|resource| (Name::from(*resource), Name::from(*resource))).collect();
        let mut node =
            Node { free_cpu: fact.allocatable.get(CPU), free_memory: fact.allocatable.get(MEMORY), ..Node::default() };
        for (name, resource) in named.into_iter().chain(unnamed) {
            let count = fact.allocatable.get(&resource);
            if count > 0 {
                let card = self.card(&name);
                self.levels.change(self.cards[card].capacity, count);
                node.free_gpus += count;
                node.cards.push((card, resource, count));
            }
        }
        self.nodes.insert(fact.name.clone(), node);
    }

    /// A node is gone; its pods were taken off it before.
    pub fn node_gone(&mut self, name: &Name) {
        for (card, _, count) in self.nodes.remove(name).map(|node| node.cards).unwrap_or_default() {
            self.levels.change(self.cards[card].capacity, -count);
        }
    }

    /// A pod that asks for this was submitted.
    pub fn asked(&mut self, spec: &PodSpec) {
        let gpus = gpus_of(spec);
        if gpus > 0 {
            *self.requests.entry((gpus, spec.requests.get(CPU), spec.requests.get(MEMORY))).or_default() += 1;
        }
    }

    /// A pod takes its place on a node (`sign` 1) or leaves it (-1). Says how many cards it holds.
    pub fn place(&mut self, node: &Name, team: usize, spec: &PodSpec, sign: i64) -> i64 {
        let Some(node) = self.nodes.get_mut(node) else { return 0 };
        node.free_cpu -= sign * spec.requests.get(CPU);
        node.free_memory -= sign * spec.requests.get(MEMORY);
        let mut held = 0;
        for (card, resource, _) in &node.cards {
            let amount = spec.requests.get(resource);
            held += amount;
            self.levels.change(self.cards[*card].used, sign * amount);
        }
        node.free_gpus -= sign * held;
        self.levels.change(self.teams[team].used, sign * held);
        held
    }

    /// Measures what cannot be kept up with every change: fragmentation and fairness, as they stand.
    pub fn sample<'a>(&mut self, engine: &Engine, waiting: impl Iterator<Item = &'a PodKey>) {
        let fragmentation = self.fragmentation_ppm();
        self.levels.set(self.fragmentation, fragmentation);
        let fairness = fairness_ppm(engine, waiting);
        self.levels.set(self.fairness_known, i64::from(fairness.is_some()));
        self.levels.set(self.fairness, fairness.unwrap_or(0));
        self.fairness_lowest = [self.fairness_lowest, fairness].into_iter().flatten().min();
    }

    /// Of the free cards, the part on nodes that cannot take a request, in millionths; the mean over the most frequent
    /// requests, by how often each is made.
    fn fragmentation_ppm(&self) -> i64 {
        let mut requests: Vec<(&(i64, i64, i64), &u64)> = self.requests.iter().collect();
        requests.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        requests.truncate(REQUESTS_MAX);
        let free: i64 = self.nodes.values().map(|node| node.free_gpus).sum();
        let weight: u64 = requests.iter().map(|(_, count)| **count).sum();
        if free == 0 || weight == 0 {
            return 0;
        }
        let mut lost: i128 = 0;
        for ((gpus, cpu, memory), count) in requests {
            let fits = |node: &Node| node.free_gpus >= *gpus && node.free_cpu >= *cpu && node.free_memory >= *memory;
            let unusable: i64 = self.nodes.values().filter(|node| !fits(node)).map(|node| node.free_gpus).sum();
            lost += i128::from(unusable) * i128::from(*count);
        }
        (lost * 1_000_000 / (i128::from(free) * i128::from(weight))) as i64
    }
}

/// The cards that a pod asks for, whatever they are called.
fn gpus_of(spec: &PodSpec) -> i64 {
    let is_card = |name: &str| name.contains("/gpu") || name.contains("/mig-");
    spec.requests.iter().filter(|(name, _)| is_card(name)).map(|(_, amount)| *amount).sum()
}

/// Jain's index over the quotas with demand. A quota's share is what it uses of what it is entitled to and wants; the
/// resource of which it has least in proportion counts, and more than all of it counts as all.
fn fairness_ppm<'a>(engine: &Engine, waiting: impl Iterator<Item = &'a PodKey>) -> Option<i64> {
    let quotas = engine.quotas();
    if quotas.len() < 2 {
        return None;
    }
    let mut wanted: BTreeMap<usize, BTreeMap<Name, i128>> = BTreeMap::new();
    for pod in waiting {
        let requests = engine.requests(pod);
        for key in engine.quotas_of(pod) {
            let Some(at) = quotas.iter().position(|quota| quota.key == key) else { continue };
            for (resource, amount) in &requests {
                *wanted.entry(at).or_default().entry(resource.clone()).or_default() += i128::from(*amount);
            }
        }
    }
    let nothing = BTreeMap::new();
    let share = |at: usize| {
        let quota = &quotas[at];
        let wanted = wanted.get(&at).unwrap_or(&nothing);
        let of = |resource: &Name, (_, entitled): &(Name, i128)| {
            let used = quota.used.iter().find(|(name, _)| name == resource).map_or(0, |(_, used)| *used);
            let due = (*entitled).min(used + wanted.get(resource).copied().unwrap_or(0));
            (due > 0).then(|| used.min(due) as f64 / due as f64)
        };
        quota.entitlement.iter().filter_map(|entry| of(&entry.0, entry)).min_by(f64::total_cmp)
    };
    let is_leaf = |at: &usize| !quotas.iter().any(|other| other.parent.as_ref() == Some(&quotas[*at].key));
    let shares: Vec<f64> = (0..quotas.len()).filter(is_leaf).filter_map(share).collect();
    jain_ppm(&shares)
}
