//! What is measured, one case at a time, and the figures that come of it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use quotient_engine::fact::{Fact, GroupName, Limits, Name, NodeFact, PodFact, PodKey, Tick};
use quotient_engine::{Budget, Decision, Engine, Settings};
use serde::{Deserialize, Serialize};

use super::memory::Memory;
use super::workload::{NODE_CPU, NODE_GPUS, System, Words, gang, team};

/// Pods arrive, are decided and are confirmed this many at a time: about what a busy cluster sees in one cycle.
const BATCH: u32 = 1000;

/// Pods on each node before the measurement starts, so that nothing is measured on an empty cluster.
const RUNNING_PER_NODE: u32 = 10;

/// Pods that fill a node to the last core, in the preemption case.
const FILLERS_PER_NODE: u32 = 8;

/// One measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "case")]
pub enum Case {
    /// Pods that ask for cpu and memory, of a few shapes.
    Plain { nodes: u32, pods: u32, shapes: u32 },
    /// Pods that are all different, with node affinity, spread and anti-affinity.
    Different { nodes: u32, pods: u32 },
    /// Pods that cannot run: how long until the engine says why.
    Verdict { nodes: u32, pods: u32, why: Why },
    /// Important pods in a full cluster: each has to evict.
    Preemption { nodes: u32, pods: u32 },
    /// Plain pods of teams with a quota each, in a cluster where many of them run.
    Quotas { nodes: u32, running: u32, pods: u32, quotas: u32, system: System },
    /// Pods within their min whose GPUs others have borrowed, one at a time.
    Reclaim { nodes: u32, pods: u32, quotas: u32, gpus: u32, system: System },
    /// All GPUs are borrowed, and all are claimed back at once.
    ReclaimAll { nodes: u32, pods: u32, system: System },
    /// Pods of a tree of quotas, one at a time: each changes what its quota asks for, and so what others may hold.
    Tree { nodes: u32, pods: u32, quotas: u32, levels: u32 },
    /// Gangs that are placed whole, one at a time.
    Gang { nodes: u32, pods: u32, size: u32 },
    /// Gangs that cannot run, one at a time: all GPUs are taken.
    GangVerdict { nodes: u32, pods: u32, size: u32 },
    /// A large cluster at rest.
    Memory { nodes: u32, pods: u32, shapes: u32 },
}

/// Why a pod of the verdict case cannot run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Why {
    /// No node has the label it selects.
    NoSuchLabel,
    /// No node is large enough, even empty.
    TooLarge,
    /// Every node is large enough and none has that much left.
    AllFull,
    /// As [`Why::NoSuchLabel`], and it outranks everybody: evictions would be allowed but would not help.
    Important,
}

impl Why {
    /// All there are.
    pub const ALL: [Why; 4] = [Why::NoSuchLabel, Why::TooLarge, Why::AllFull, Why::Important];
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    #[serde(flatten)]
    pub case: Case,
    /// Pods that were decided as the case wants it: bound, or held where none can run.
    pub decided: u32,
    /// Pods that were evicted.
    pub evicted: u32,
    /// Time in `decide` altogether.
    pub decide_ns: u64,
    /// Time in `observe` for the measured pods: seen, and seen again when they run.
    pub observe_ns: u64,
    /// The median and the longest time until one pod is decided, where pods come one at a time.
    pub median_ns: Option<u64>,
    pub longest_ns: Option<u64>,
    #[serde(flatten)]
    pub memory: Memory,
}

impl Figures {
    /// Decisions per second of time in `decide`.
    pub fn decisions_per_second(&self) -> u64 {
        rate(self.decided, self.decide_ns)
    }

    /// Pods per second, from first seen to known as running: `observe` counts too.
    pub fn pods_per_second(&self) -> u64 {
        rate(self.decided, self.decide_ns + self.observe_ns)
    }

    /// Nanoseconds of `decide` for each decision.
    pub fn ns_per_decision(&self) -> u64 {
        self.decide_ns.checked_div(u64::from(self.decided)).unwrap_or(0)
    }
}

fn rate(count: u32, ns: u64) -> u64 {
    (u64::from(count) * 1_000_000_000).checked_div(ns).unwrap_or(0)
}

/// Runs the case in this process.
pub fn measure(case: Case) -> Result<Figures> {
    let make_node = match case {
        Case::Reclaim { .. } | Case::ReclaimAll { .. } => Words::gpu_node,
        Case::Gang { .. } | Case::GangVerdict { .. } => Words::gpu_node,
        _ => Words::node,
    };
    let mut bench = Bench::new(case.nodes(), make_node);
    match case {
        Case::Plain { nodes, pods, shapes } => {
            bench.warm_up(nodes);
            bench.place(pods, |words, i| words.plain(i, i % shapes));
        }
        Case::Different { nodes, pods } => {
            bench.warm_up(nodes);
            bench.place(pods, Words::different);
        }
        Case::Verdict { nodes, pods, why } => {
            bench.warm_up(nodes);
            bench.refuse(pods, why);
        }
        Case::Preemption { nodes, pods } => {
            bench.fill(nodes);
            bench.preempt(pods)?;
        }
        Case::Quotas { nodes, running, pods, quotas, system } => {
            // What the mins add up to is what the nodes have. Every other team has a ninth of what its neighbour has,
            // so that some borrow.
            for i in 0..quotas {
                let min = bench.words.min_of_nodes(nodes * if i % 2 == 0 { 1 } else { 9 }, 5 * quotas);
                bench.set_quota(i, system, min);
            }
            let make = |words: &Words, i: u32| PodFact {
                namespace: team(i % quotas),
                queue: (system == System::Queue).then(|| team(i % quotas)),
                ..words.plain(i, i % 8)
            };
            for i in 0..running {
                bench.know(bench.words.running(make(&bench.words, i), i % nodes));
            }
            bench.next = running;
            bench.settle();
            bench.place(pods, make);
        }
        Case::Reclaim { nodes, pods, quotas, gpus, system } => {
            let claiming = quotas / 2;
            let borrowing = quotas - claiming;
            for i in 0..quotas {
                bench.set_quota(i, system, bench.words.min_of_gpus(nodes * NODE_GPUS / quotas));
            }
            // The borrowers are mixed on every node, and hold all there is between them.
            bench.lend(nodes, |i| team(claiming + (i + i / nodes) % borrowing));
            bench.reclaim(pods, |words, i| PodFact { namespace: team(i % claiming), ..words.training(i, gpus) })?;
            ensure!(bench.evicted >= pods * gpus, "claimants ran without anybody making room for them");
        }
        Case::ReclaimAll { nodes, pods, system } => {
            bench.set_quota(0, system, bench.words.min_of_gpus(nodes * NODE_GPUS));
            bench.set_quota(1, system, bench.words.min_of_gpus(0));
            bench.lend(nodes, |_| team(1));
            bench.reclaim_at_once(pods, |words, i| PodFact { namespace: team(0), ..words.training(i, 1) });
        }
        Case::Tree { pods, quotas, levels, .. } => {
            let leaves = bench.grow_tree(quotas, levels);
            // Every quota asks for more than there is, so that each change is felt by all beside it.
            for (i, leaf) in leaves.iter().enumerate() {
                let pod = bench.words.asking(i as u32, 100 * NODE_CPU);
                bench.know(PodFact { namespace: leaf.clone(), ..pod });
            }
            bench.next = leaves.len() as u32;
            bench.settle();
            bench.ask_more(pods, &leaves);
        }
        Case::Gang { pods, size, .. } => bench.place_gangs(pods / size, size),
        Case::GangVerdict { nodes, pods, size } => {
            bench.lend(nodes, |_| "others".into());
            bench.refuse_gangs(pods / size, size);
        }
        Case::Memory { nodes, pods, shapes } => {
            // The last twentieth arrives and is decided, so that the engine's working structures are there too.
            let running = pods - pods / 20;
            for i in 0..running {
                bench.know(bench.words.running(bench.words.plain(i, i % shapes), i % nodes));
            }
            bench.next = running;
            bench.place(pods - running, |words, i| words.plain(i, i % shapes));
        }
    }
    Ok(bench.figures(case))
}

impl Case {
    /// How many nodes it needs.
    pub fn nodes(&self) -> u32 {
        match self {
            Case::Plain { nodes, .. }
            | Case::Different { nodes, .. }
            | Case::Verdict { nodes, .. }
            | Case::Preemption { nodes, .. }
            | Case::Quotas { nodes, .. }
            | Case::Reclaim { nodes, .. }
            | Case::ReclaimAll { nodes, .. }
            | Case::Tree { nodes, .. }
            | Case::Gang { nodes, .. }
            | Case::GangVerdict { nodes, .. }
            | Case::Memory { nodes, .. } => *nodes,
        }
    }

    /// How many pods are measured.
    pub fn pods(&self) -> u32 {
        match self {
            Case::Plain { pods, .. }
            | Case::Different { pods, .. }
            | Case::Verdict { pods, .. }
            | Case::Preemption { pods, .. }
            | Case::Quotas { pods, .. }
            | Case::Reclaim { pods, .. }
            | Case::ReclaimAll { pods, .. }
            | Case::Tree { pods, .. }
            | Case::Gang { pods, .. }
            | Case::GangVerdict { pods, .. }
            | Case::Memory { pods, .. } => *pods,
        }
    }

    /// How many quotas there are.
    pub fn quotas(&self) -> u32 {
        match self {
            Case::Plain { .. } | Case::Different { .. } | Case::Verdict { .. } => 0,
            Case::Preemption { .. } | Case::Memory { .. } | Case::Gang { .. } | Case::GangVerdict { .. } => 0,
            Case::Quotas { quotas, .. } | Case::Reclaim { quotas, .. } | Case::Tree { quotas, .. } => *quotas,
            Case::ReclaimAll { .. } => 2,
        }
    }

    /// What it is called in a table.
    pub fn title(&self) -> String {
        let fairly = |system: &System| match system {
            System::Pooled => "",
            System::Fair => ", fair",
            System::Queue => ", queues",
        };
        match self {
            Case::Plain { .. } => "plain".into(),
            Case::Different { .. } => "all different".into(),
            Case::Verdict { why: Why::NoSuchLabel, .. } => "cannot run: no such label".into(),
            Case::Verdict { why: Why::TooLarge, .. } => "cannot run: too large".into(),
            Case::Verdict { why: Why::AllFull, .. } => "cannot run: all full".into(),
            Case::Verdict { why: Why::Important, .. } => "cannot run: important".into(),
            Case::Preemption { .. } => "preemption".into(),
            Case::Quotas { system, .. } => format!("quotas{}", fairly(system)),
            Case::Reclaim { system, gpus, .. } => format!("reclaim {gpus} GPU{}", fairly(system)),
            Case::ReclaimAll { system, .. } => format!("reclaim all{}", fairly(system)),
            Case::Tree { levels, .. } => format!("tree of {levels} level{}", if *levels == 1 { "" } else { "s" }),
            Case::Gang { size, .. } => format!("gang of {size}"),
            Case::GangVerdict { size, .. } => format!("gang of {size} cannot run"),
            Case::Memory { .. } => "at rest".into(),
        }
    }
}

/// An engine with its nodes, and a stopwatch for each of the two things it does.
struct Bench {
    engine: Engine,
    words: Words,
    /// The index of the next pod: names, and so shapes of different pods, do not come twice.
    next: u32,
    decided: u32,
    evicted: u32,
    decide: Duration,
    observe: Duration,
    each_ns: Vec<u64>,
}

impl Bench {
    fn new(nodes: u32, make_node: fn(&Words, u32) -> NodeFact) -> Self {
        let mut bench = Bench {
            engine: Engine::new(Settings::default()),
            words: Words::new(nodes),
            next: 0,
            decided: 0,
            evicted: 0,
            decide: Duration::ZERO,
            observe: Duration::ZERO,
            each_ns: Vec::new(),
        };
        for i in 0..nodes {
            bench.engine.observe(NOW, Fact::Node(make_node(&bench.words, i)));
        }
        bench
    }

    /// Tells the engine of a pod, off the clock.
    fn know(&mut self, pod: PodFact) {
        self.engine.observe(NOW, Fact::Pod(pod));
    }

    /// Tells the engine of a team's quota, off the clock.
    fn set_quota(&mut self, team: u32, system: System, min: Limits) {
        let fact = match system {
            System::Queue => Fact::from(self.words.queue(team, min)),
            _ => Fact::from(self.words.quota(team, system, min)),
        };
        self.engine.observe(NOW, fact);
    }

    /// Makes quotas in so many levels, each parent with as many below it, and says which are leaves.
    fn grow_tree(&mut self, quotas: u32, levels: u32) -> Vec<Name> {
        let mut above: Vec<Option<Name>> = vec![None];
        let mut made = 0;
        for level in 1..=levels {
            // What is left is spread evenly over the levels that are left, as a power of the branches.
            let is_last = level == levels;
            let each = if is_last { (quotas - made) / above.len() as u32 } else { branches(quotas, levels) }.max(1);
            let mut names = Vec::new();
            for parent in above {
                for _ in 0..each {
                    let name = team(made);
                    made += 1;
                    let fact = self.words.tree_quota(name.clone(), parent.clone(), !is_last, NODE_CPU / 100);
                    self.engine.observe(NOW, Fact::from(fact));
                    names.push(Some(name));
                }
            }
            above = names;
        }
        above.into_iter().flatten().collect()
    }

    /// Lets pods arrive one at a time that change what their quotas ask for.
    fn ask_more(&mut self, pods: u32, leaves: &[Name]) {
        for i in self.next..self.next + pods {
            let leaf = leaves[(i as usize * 7919) % leaves.len()].clone();
            let pod = PodFact { namespace: leaf, ..self.words.asking(i, 1000) };
            let before = self.decide + self.observe;
            self.see(vec![Fact::Pod(pod)]);
            let mut outcome = Outcome::default();
            // The pod's own turn comes first; what its request means to all others is worked out after it.
            self.decide_some(Budget { pods_max: 1 }, &mut outcome);
            self.each_ns.push(nanoseconds(self.decide + self.observe - before));
            let later = self.decide_all();
            self.decided += u32::from(outcome.held > 0 || !outcome.bound.is_empty());
            self.evicted += (outcome.evicted.len() + later.evicted.len()) as u32;
        }
        self.next += pods;
    }

    /// The pods of a gang that ask for a GPU each.
    fn gang_of(&mut self, number: u32, size: u32) -> Vec<PodFact> {
        let make = |i: u32| PodFact { group: Some(gang(number).into()), ..self.words.training(i, 1) };
        let pods = (self.next..self.next + size).map(make).collect();
        self.next += size;
        pods
    }

    /// Places gangs one at a time.
    fn place_gangs(&mut self, gangs: u32, size: u32) {
        for number in 0..gangs {
            let pods = self.gang_of(number, size);
            let group = self.words.gang(number, size);
            let before = self.decide + self.observe;
            self.see(vec![Fact::Group(group)]);
            self.see(pods.iter().cloned().map(Fact::Pod).collect());
            let bound = self.decide_all().bound;
            self.each_ns.push(nanoseconds(self.decide + self.observe - before));
            self.decided += bound.len() as u32;
            self.confirm(pods, bound);
        }
    }

    /// Asks for gangs that cannot run, one at a time.
    fn refuse_gangs(&mut self, gangs: u32, size: u32) {
        for number in 0..gangs {
            let pods = self.gang_of(number, size);
            let group = self.words.gang(number, size);
            let (namespace, name) = (group.namespace.clone(), group.name.clone());
            let before = self.decide + self.observe;
            self.see(vec![Fact::Group(group)]);
            self.see(pods.iter().cloned().map(Fact::Pod).collect());
            self.decided += self.decide_all().held;
            self.each_ns.push(nanoseconds(self.decide + self.observe - before));
            for pod in pods {
                self.engine.observe(NOW, Fact::PodGone(pod.key()));
            }
            self.engine.observe(NOW, Fact::GroupGone(GroupName::from(name).of(&namespace)));
            self.engine.decide(NOW, Budget::default());
        }
    }

    /// Lets the engine take in what it knows, off the clock.
    fn settle(&mut self) {
        self.engine.decide(NOW, Budget::default());
    }

    /// Puts a first load on each node.
    fn warm_up(&mut self, nodes: u32) {
        for i in 0..nodes * RUNNING_PER_NODE {
            self.know(self.words.running(self.words.plain(i, i % 8), i % nodes));
        }
        self.next = nodes * RUNNING_PER_NODE;
        self.settle();
    }

    /// Fills every core of the cluster with pods of priority 0.
    fn fill(&mut self, nodes: u32) {
        for i in 0..nodes * FILLERS_PER_NODE {
            let pod = self.words.asking(i, NODE_CPU / i64::from(FILLERS_PER_NODE));
            self.know(self.words.running(pod, i % nodes));
        }
        self.next = nodes * FILLERS_PER_NODE;
        self.settle();
    }

    /// Fills every GPU with pods of one, of the teams that `namespace` says.
    fn lend(&mut self, nodes: u32, namespace: impl Fn(u32) -> Name) {
        for i in 0..nodes * NODE_GPUS {
            let pod = PodFact { namespace: namespace(i), ..self.words.training(i, 1) };
            self.know(self.words.running(pod, i % nodes));
        }
        self.next = nodes * NODE_GPUS;
        self.settle();
    }

    /// Places pods batch by batch: seen, decided, seen running.
    fn place(&mut self, pods: u32, make: impl Fn(&Words, u32) -> PodFact) {
        let end = self.next + pods;
        while self.next < end {
            let from = self.next;
            let batch: Vec<PodFact> = (from..end.min(from + BATCH)).map(|i| make(&self.words, i)).collect();
            self.next += batch.len() as u32;
            self.see(batch.iter().cloned().map(Fact::Pod).collect());
            let binds = self.decide_all();
            self.decided += binds.bound.len() as u32;
            self.confirm(batch, binds.bound);
        }
    }

    /// Asks for pods that cannot run, one at a time, each of a shape the engine has not seen.
    fn refuse(&mut self, pods: u32, why: Why) {
        for i in self.next..self.next + pods {
            let pod = match why {
                Why::NoSuchLabel => self.words.homeless(i),
                Why::TooLarge => self.words.asking(i, NODE_CPU * 2),
                Why::AllFull => self.words.asking(i, NODE_CPU - 50),
                Why::Important => PodFact { priority: 1000, ..self.words.homeless(i) },
            };
            let key = pod.key();
            let before = self.decide + self.observe;
            self.see(vec![Fact::Pod(pod)]);
            self.decided += self.decide_all().held;
            self.each_ns.push(nanoseconds(self.decide + self.observe - before));
            self.engine.observe(NOW, Fact::PodGone(key));
            self.engine.decide(NOW, Budget::default());
        }
    }

    /// Lets important pods into a full cluster: decide whom to evict, see them gone, decide again, see the pods run.
    fn preempt(&mut self, pods: u32) -> Result<()> {
        let end = self.next + pods;
        while self.next < end {
            let from = self.next;
            let ask = NODE_CPU / i64::from(FILLERS_PER_NODE);
            let batch: Vec<PodFact> = (from..end.min(from + BATCH / 10))
                .map(|i| PodFact { priority: 1000, ..self.words.asking(i, ask) })
                .collect();
            self.next += batch.len() as u32;
            self.see(batch.iter().cloned().map(Fact::Pod).collect());
            let first = self.decide_all();
            self.evicted += first.evicted.len() as u32;
            self.see(first.evicted.into_iter().map(Fact::PodGone).collect());
            let second = self.decide_all();
            ensure!(second.evicted.is_empty(), "pods were evicted twice for the same claimants");
            self.decided += second.bound.len() as u32;
            self.confirm(batch, second.bound);
        }
        Ok(())
    }

    /// Lets pods claim back one at a time: each is seen and it is decided who goes for it, which is what one pod takes;
    /// then they are gone and it runs.
    fn reclaim(&mut self, pods: u32, make: impl Fn(&Words, u32) -> PodFact) -> Result<()> {
        for i in self.next..self.next + pods {
            let pod = make(&self.words, i);
            let before = self.decide + self.observe;
            self.see(vec![Fact::Pod(pod.clone())]);
            let evicted = self.decide_all().evicted;
            self.each_ns.push(nanoseconds(self.decide + self.observe - before));
            self.evicted += evicted.len() as u32;
            self.see(evicted.into_iter().map(Fact::PodGone).collect());
            let second = self.decide_all();
            ensure!(second.evicted.is_empty(), "pods were evicted twice for the same claimant");
            self.decided += second.bound.len() as u32;
            self.confirm(vec![pod], second.bound);
        }
        self.next += pods;
        Ok(())
    }

    /// Lets pods claim back all at once, and decides until nobody goes any more.
    fn reclaim_at_once(&mut self, pods: u32, make: impl Fn(&Words, u32) -> PodFact) {
        let claimants: Vec<PodFact> = (self.next..self.next + pods).map(|i| make(&self.words, i)).collect();
        self.next += pods;
        self.see(claimants.iter().cloned().map(Fact::Pod).collect());
        loop {
            let Outcome { bound, evicted, .. } = self.decide_all();
            let at_rest = evicted.is_empty();
            self.decided += bound.len() as u32;
            self.evicted += evicted.len() as u32;
            self.see(evicted.into_iter().map(Fact::PodGone).collect());
            self.confirm(claimants.clone(), bound);
            if at_rest {
                return;
            }
        }
    }

    /// Observes on the clock.
    fn see(&mut self, facts: Vec<Fact>) {
        let start = Instant::now();
        for fact in facts {
            self.engine.observe(NOW, fact);
        }
        self.observe += start.elapsed();
    }

    /// Decides on the clock, until there is nothing more to decide.
    fn decide_all(&mut self) -> Outcome {
        let mut outcome = Outcome::default();
        while self.decide_some(Budget::default(), &mut outcome) {}
        outcome
    }

    /// Lets the engine decide once. Returns whether there is more to decide.
    fn decide_some(&mut self, budget: Budget, outcome: &mut Outcome) -> bool {
        let start = Instant::now();
        let decisions = self.engine.decide(NOW, budget);
        self.decide += start.elapsed();
        for decision in decisions.list {
            match decision {
                Decision::Bind { pod, node, .. } => outcome.bound.push((pod, node)),
                Decision::Evict { pod, .. } => outcome.evicted.push(pod),
                Decision::Hold { .. } => outcome.held += 1,
                Decision::Nominate { .. } | Decision::Mark { .. } | Decision::Admit { .. } => {}
            }
        }
        decisions.more
    }

    /// Tells the engine that the pods of the batch that were bound now run.
    fn confirm(&mut self, batch: Vec<PodFact>, bound: Vec<(PodKey, Name)>) {
        let mut waiting: std::collections::BTreeMap<PodKey, PodFact> =
            batch.into_iter().map(|pod| (pod.key(), pod)).collect();
        let facts = bound
            .into_iter()
            .filter_map(|(key, node)| {
                let pod = waiting.remove(&key)?;
                Some(Fact::Pod(PodFact { node: Some(node), phase: quotient_engine::fact::Phase::Running, ..pod }))
            })
            .collect();
        self.see(facts);
    }

    fn figures(mut self, case: Case) -> Figures {
        self.each_ns.sort_unstable();
        Figures {
            case,
            decided: self.decided,
            evicted: self.evicted,
            decide_ns: nanoseconds(self.decide),
            observe_ns: nanoseconds(self.observe),
            median_ns: self.each_ns.get(self.each_ns.len() / 2).copied(),
            longest_ns: self.each_ns.last().copied(),
            memory: Memory::now(),
        }
    }
}

/// How many quotas are below each, for so many quotas in so many levels.
fn branches(quotas: u32, levels: u32) -> u32 {
    (1..quotas).take_while(|n| n.checked_pow(levels).is_some_and(|all| all <= quotas)).last().unwrap_or(1)
}

/// The engine's time stands still: nothing here waits long enough for time to matter.
const NOW: Tick = Tick(0);

/// What one round of deciding came to.
#[derive(Default)]
struct Outcome {
    bound: Vec<(PodKey, Name)>,
    evicted: Vec<PodKey>,
    held: u32,
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
