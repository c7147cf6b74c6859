//! Counts and examples of a comparison, and how they are told.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use quotient_engine::fact::PodKey;
use quotient_host::event::whole_seconds;
use serde_json::{Value, json};

/// The latest examples that are kept of each outcome.
const EXAMPLES_MAX: usize = 20;

/// What came of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Both bind the pod, to one node.
    SameNode,
    /// Both bind it; the incumbent's node fits by our filters too.
    OtherNode,
    /// Both bind it; the incumbent's node does not fit by our filters.
    UnfitNode,
    /// The incumbent binds a pod that we leave pending.
    Held,
    /// The incumbent binds a pod before we have decided.
    Undecided,
    /// The incumbent leaves a pod pending for a minute after we have bound it.
    OnlyOurs,
    EvictedByBoth,
    EvictedByThem,
    EvictedByUs,
}

impl Outcome {
    const BINDS: [Outcome; 6] = [
        Outcome::SameNode,
        Outcome::OtherNode,
        Outcome::UnfitNode,
        Outcome::Held,
        Outcome::Undecided,
        Outcome::OnlyOurs,
    ];
    const EVICTIONS: [Outcome; 3] = [Outcome::EvictedByBoth, Outcome::EvictedByThem, Outcome::EvictedByUs];

    /// What was compared.
    pub fn of(self) -> &'static str {
        if Outcome::BINDS.contains(&self) { "bind" } else { "eviction" }
    }

    pub fn name(self) -> &'static str {
        match self {
            Outcome::SameNode => "same_node",
            Outcome::OtherNode => "other_node",
            Outcome::UnfitNode => "unfit_node",
            Outcome::Held => "held",
            Outcome::Undecided => "undecided",
            Outcome::OnlyOurs | Outcome::EvictedByUs => "only_ours",
            Outcome::EvictedByBoth => "both",
            Outcome::EvictedByThem => "only_theirs",
        }
    }
}

/// One case.
#[derive(Debug, Clone)]
pub struct Example {
    at: String,
    pod: String,
    ours: String,
    theirs: String,
}

impl Example {
    pub fn new(at_us: i64, pod: &PodKey, ours: String, theirs: String) -> Self {
        Example { at: whole_seconds(at_us), pod: pod.to_string(), ours, theirs }
    }
}

/// All that is counted.
#[derive(Debug)]
pub struct Books {
    since_us: i64,
    logged_us: i64,
    counts: BTreeMap<Outcome, u64>,
    /// Pods that the incumbent bound and we held, by the reason's code.
    held: BTreeMap<&'static str, u64>,
    /// How much earlier we bound what both bound: sum and most.
    earlier_us: (i64, i64),
    examples: BTreeMap<Outcome, VecDeque<Example>>,
}

impl Books {
    pub fn new(now_us: i64) -> Self {
        Books {
            since_us: now_us,
            logged_us: now_us,
            counts: BTreeMap::new(),
            held: BTreeMap::new(),
            earlier_us: (0, 0),
            examples: BTreeMap::new(),
        }
    }

    pub fn count(&mut self, outcome: Outcome, example: Example) {
        *self.counts.entry(outcome).or_default() += 1;
        let examples = self.examples.entry(outcome).or_default();
        if examples.len() == EXAMPLES_MAX {
            examples.pop_front();
        }
        examples.push_back(example);
    }

    pub fn held(&mut self, code: &'static str) {
        *self.held.entry(code).or_default() += 1;
    }

    /// Both bound a pod, we so much earlier.
    pub fn earlier(&mut self, us: i64) {
        let (sum, most) = &mut self.earlier_us;
        (*sum, *most) = (*sum + us.max(0), (*most).max(us));
    }

    pub fn of(&self, outcome: Outcome) -> u64 {
        self.counts.get(&outcome).copied().unwrap_or(0)
    }

    /// Binds of the incumbent, and those among them on which both agree.
    fn agreement(&self) -> (u64, u64) {
        let agreed = self.of(Outcome::SameNode) + self.of(Outcome::OtherNode);
        let theirs = agreed + self.of(Outcome::UnfitNode) + self.of(Outcome::Held) + self.of(Outcome::Undecided);
        (theirs, agreed)
    }

    /// Whether it is time for a line in the log; the next is due so much later.
    pub fn is_due(&mut self, now_us: i64, every: Duration) -> bool {
        let is_due = now_us - self.logged_us >= i64::try_from(every.as_micros()).unwrap_or(i64::MAX);
        if is_due {
            self.logged_us = now_us;
        }
        is_due
    }

    pub fn log(&self) {
        let (binds, agreed) = self.agreement();
        tracing::info!(
            binds,
            agreed,
            same_node = self.of(Outcome::SameNode),
            other_node = self.of(Outcome::OtherNode),
            unfit_node = self.of(Outcome::UnfitNode),
            held = self.of(Outcome::Held),
            undecided = self.of(Outcome::Undecided),
            only_ours = self.of(Outcome::OnlyOurs),
            held_by_reason = ?self.held,
            evicted_by_both = self.of(Outcome::EvictedByBoth),
            evicted_only_by_them = self.of(Outcome::EvictedByThem),
            evicted_only_by_us = self.of(Outcome::EvictedByUs),
            "compared with the incumbent"
        );
    }

    /// Everything, for programs.
    pub fn report(&self, now_us: i64) -> Value {
        let (theirs, agreed) = self.agreement();
        let counts = |outcomes: &[Outcome]| -> serde_json::Map<String, Value> {
            outcomes.iter().map(|outcome| (outcome.name().to_owned(), json!(self.of(*outcome)))).collect()
        };
        let examples = |outcomes: &[Outcome]| -> serde_json::Map<String, Value> {
            let of = |outcome: &Outcome| {
                let all = self.examples.get(outcome)?.iter();
                let shown = all.map(
                    |Example { at, pod, ours, theirs }| json!({"at": at, "pod": pod, "ours": ours, "theirs": theirs}),
                );
                Some((outcome.name().to_owned(), shown.collect()))
            };
            outcomes.iter().filter_map(of).collect()
        };
        let both = (agreed + self.of(Outcome::UnfitNode)).max(1);
        let (sum, most) = self.earlier_us;
        json!({
            "since": whole_seconds(self.since_us),
            "seconds": (now_us - self.since_us).max(0) / 1_000_000,
            "binds": {
                "theirs": theirs,
                "agreed": agreed,
                "outcomes": counts(&Outcome::BINDS),
                "heldByReason": self.held,
                "earlierMilliseconds": {"mean": sum / 1000 / i64::try_from(both).unwrap_or(i64::MAX), "most": most / 1000},
                "examples": examples(&Outcome::BINDS),
            },
            "evictions": {"outcomes": counts(&Outcome::EVICTIONS), "examples": examples(&Outcome::EVICTIONS)},
        })
    }
}
