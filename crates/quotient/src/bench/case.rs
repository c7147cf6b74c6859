//! What is measured, one case at a time, and the figures that come of it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use quotient_engine::fact::{Fact, Name, PodFact, PodKey, Tick};
use quotient_engine::{Budget, Decision, Engine, Settings};
use serde::{Deserialize, Serialize};

use super::memory::Memory;
use super::workload::{NODE_CPU, Words};

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
    let mut bench = Bench::new(case.nodes());
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
            | Case::Memory { pods, .. } => *pods,
        }
    }

    /// What it is called in a table.
    pub fn title(&self) -> &'static str {
        match self {
            Case::Plain { .. } => "plain",
            Case::Different { .. } => "all different",
            Case::Verdict { why: Why::NoSuchLabel, .. } => "cannot run: no such label",
            Case::Verdict { why: Why::TooLarge, .. } => "cannot run: too large",
            Case::Verdict { why: Why::AllFull, .. } => "cannot run: all full",
            Case::Verdict { why: Why::Important, .. } => "cannot run: important",
            Case::Preemption { .. } => "preemption",
            Case::Memory { .. } => "at rest",
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
    fn new(nodes: u32) -> Self {
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
            bench.engine.observe(NOW, Fact::Node(bench.words.node(i)));
        }
        bench
    }

    /// Tells the engine of a pod, off the clock.
    fn know(&mut self, pod: PodFact) {
        self.engine.observe(NOW, Fact::Pod(pod));
    }

    /// Puts a first load on each node.
    fn warm_up(&mut self, nodes: u32) {
        for i in 0..nodes * RUNNING_PER_NODE {
            self.know(self.words.running(self.words.plain(i, i % 8), i % nodes));
        }
        self.next = nodes * RUNNING_PER_NODE;
        self.engine.decide(NOW, Budget::default());
    }

    /// Fills every core of the cluster with pods of priority 0.
    fn fill(&mut self, nodes: u32) {
        for i in 0..nodes * FILLERS_PER_NODE {
            let pod = self.words.asking(i, NODE_CPU / i64::from(FILLERS_PER_NODE));
            self.know(self.words.running(pod, i % nodes));
        }
        self.next = nodes * FILLERS_PER_NODE;
        self.engine.decide(NOW, Budget::default());
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
        loop {
            let start = Instant::now();
            let decisions = self.engine.decide(NOW, Budget::default());
            self.decide += start.elapsed();
            for decision in decisions.list {
                match decision {
                    Decision::Bind { pod, node, .. } => outcome.bound.push((pod, node)),
                    Decision::Evict { pod, .. } => outcome.evicted.push(pod),
                    Decision::Hold { .. } => outcome.held += 1,
                    Decision::Nominate { .. } | Decision::Mark { .. } => {}
                }
            }
            if !decisions.more {
                return outcome;
            }
        }
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
