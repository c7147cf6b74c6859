//! `run --shadow --compare`: where another scheduler, the *incumbent*, decides as we would, and where not.
//!
//! Each pod that the incumbent binds is compared with what we had decided about it just before, and each pod that it
//! preempts with our own evictions. What is kept is bounded: pods that are pending or leaving now, counts, and the
//! latest examples of each outcome.

mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quotient_cluster::Metrics;
use quotient_cluster::onlook::Onlooker;
use quotient_engine::fact::{Name, PodKey};
use quotient_engine::{Engine, Fact, Tick};
use quotient_host::scheduler::{Happened, Now, Seen};
use quotient_host::shadow::DONE_WITHIN;
use serde_json::Value;

use report::{Books, Example, Outcome};

/// A pod without a node, and what we decided about it.
#[derive(Debug, Clone)]
struct Pending {
    uid: String,
    ours: Option<Ours>,
    /// That only we would have bound it was counted.
    is_counted: bool,
}

#[derive(Debug, Clone)]
enum Ours {
    Bound { node: Name, at_us: i64 },
    Held { code: &'static str, message: String },
}

/// An eviction that we would have done.
#[derive(Debug, Clone)]
struct Evicting {
    at_us: i64,
    why: String,
}

/// What is known now.
#[derive(Debug, Default)]
struct Known {
    pending: BTreeMap<PodKey, Pending>,
    evicting: BTreeMap<PodKey, Evicting>,
    /// Pods whose deletion was seen; it is told again and again until they are gone.
    leaving: BTreeSet<PodKey>,
    now_us: i64,
    tick: Tick,
}

/// The comparison of a process, over all its sessions.
pub struct Comparison {
    /// The scheduler names whose pods are compared.
    names: Vec<String>,
    metrics: Metrics,
    every: Duration,
    inner: Mutex<(Known, Books)>,
}

impl Comparison {
    /// One that has seen nothing yet. A summary is logged this often.
    pub fn new(names: Vec<String>, every: Duration, metrics: Metrics, now_us: i64) -> Arc<Self> {
        let inner = Mutex::new((Known::default(), Books::new(now_us)));
        Arc::new(Comparison { names, metrics, every, inner })
    }

    /// Everything so far, as JSON.
    pub fn json(&self) -> String {
        let (known, books) = &*self.lock();
        format!("{:#}\n", books.report(known.now_us))
    }

    /// Logs how the two have agreed so far.
    pub fn log(&self) {
        let (_, books) = &*self.lock();
        books.log();
    }

    fn lock(&self) -> MutexGuard<'_, (Known, Books)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, books: &mut Books, outcome: Outcome, example: Example) {
        self.metrics.count_comparison(outcome.of(), outcome.name());
        books.count(outcome, example);
    }

    /// The incumbent bound a pod that was pending.
    fn bound(&self, known: &mut Known, books: &mut Books, engine: &Engine, key: &PodKey, theirs: &str) {
        let Some(Pending { uid, ours, .. }) = known.pending.remove(key) else { return };
        let example = |ours: String| Example::new(known.now_us, key, ours, format!("bound to {theirs}"));
        match ours {
            None => self.count(books, Outcome::Undecided, example("not decided yet".to_owned())),
            Some(Ours::Held { code, message }) => {
                books.held(code);
                self.count(books, Outcome::Held, example(format!("pending: {code}: {message}")));
            }
            Some(Ours::Bound { node, at_us }) => {
                books.earlier(known.now_us - at_us);
                let ours = format!("bound to {node}");
                if *node == *theirs {
                    return self.count(books, Outcome::SameNode, example(ours));
                }
                match objection(known, engine, key, &uid, theirs) {
                    None => self.count(books, Outcome::OtherNode, example(ours)),
                    Some(filter) => {
                        self.count(
                            books,
                            Outcome::UnfitNode,
                            example(format!("{ours}; {theirs} does not fit: {filter}")),
                        );
                    }
                }
            }
        }
    }

    fn pod(&self, key: PodKey, pod: &Value, engine: &Engine) {
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str);
        let scheduler = text("/spec/schedulerName").unwrap_or("default-scheduler");
        if !self.names.iter().any(|name| name == scheduler) {
            return;
        }
        let (known, books) = &mut *self.lock();
        let uid = text("/metadata/uid").unwrap_or_default();
        if known.pending.get(&key).is_some_and(|pending| pending.uid != uid) {
            known.pending.remove(&key);
        }
        if text("/metadata/deletionTimestamp").is_some() {
            known.pending.remove(&key);
            if known.leaving.insert(key.clone()) {
                self.left(known, books, &key, pod);
            }
            return;
        }
        let is_over = matches!(text("/status/phase"), Some("Succeeded" | "Failed"));
        match text("/spec/nodeName") {
            Some(node) if !is_over => self.bound(known, books, engine, &key, node),
            None if !is_over => {
                let pending = Pending { uid: uid.to_owned(), ours: None, is_counted: false };
                known.pending.entry(key).or_insert(pending);
            }
            _ => drop(known.pending.remove(&key)),
        }
    }

    /// A pod is being deleted: by both of us, by the incumbent's preemption, or by nobody's decision.
    fn left(&self, known: &mut Known, books: &mut Books, key: &PodKey, pod: &Value) {
        let preempted = preempted(pod);
        match (known.evicting.remove(key), preempted) {
            (Some(Evicting { why, .. }), theirs) => {
                let theirs = theirs.unwrap_or_else(|| "deleted".to_owned());
                self.count(books, Outcome::EvictedByBoth, Example::new(known.now_us, key, why, theirs));
            }
            (None, Some(theirs)) => {
                let example = Example::new(known.now_us, key, "stays".to_owned(), theirs);
                self.count(books, Outcome::EvictedByThem, example);
            }
            (None, None) => {}
        }
    }

    /// What the incumbent did not do within a minute of our decision.
    fn overdue(&self, known: &mut Known, books: &mut Books) {
        let late = |at_us: i64| known.now_us - at_us > DONE_WITHIN.as_micros() as i64;
        for (key, pending) in &mut known.pending {
            let Some(Ours::Bound { node, at_us }) = &pending.ours else { continue };
            if !pending.is_counted && late(*at_us) {
                pending.is_counted = true;
                let example = Example::new(known.now_us, key, format!("bound to {node}"), "pending".to_owned());
                self.count(books, Outcome::OnlyOurs, example);
            }
        }
        let overdue: Vec<PodKey> =
            known.evicting.iter().filter(|(_, it)| late(it.at_us)).map(|(key, _)| key.clone()).collect();
        for key in overdue {
            let Some(Evicting { why, .. }) = known.evicting.remove(&key) else { continue };
            let example = Example::new(known.now_us, &key, why, "stays".to_owned());
            self.count(books, Outcome::EvictedByUs, example);
        }
    }
}

/// Why a node does not fit a pod by our filters, if so, beside what the incumbent has bound so far: what only we have
/// bound to that node is not there.
fn objection(known: &Known, engine: &Engine, key: &PodKey, uid: &str, node: &str) -> Option<String> {
    let mut fork = engine.fork();
    let of_node = known
        .pending
        .iter()
        .filter(|(_, pending)| matches!(&pending.ours, Some(Ours::Bound { node: ours, .. }) if **ours == *node));
    let others = of_node.map(|(key, pending)| (key, pending.uid.as_str()));
    for (pod, uid) in others.chain([(key, uid)]) {
        fork.observe(known.tick, Fact::BindFailed { pod: pod.clone(), uid: uid.into() });
    }
    let verdict = fork.verdict(key, &node.into())?;
    verdict.closed_by.map(|filter| format!("{filter:?}"))
}

/// What says that a scheduler preempted a pod.
fn preempted(pod: &Value) -> Option<String> {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array)?;
    let is_it = |condition: &&Value| {
        let is = |field: &str, value: &str| condition[field] == value;
        is("type", "DisruptionTarget") && is("status", "True") && is("reason", "PreemptionByScheduler")
            || is("type", "Ready") && is("status", "False") && is("reason", "Evict")
    };
    let condition = conditions.iter().find(is_it)?;
    Some(format!("preempted: {}", condition["message"].as_str().unwrap_or_default()))
}

impl Onlooker for Comparison {
    fn begins(&self) {
        self.lock().0 = Known::default();
    }

    fn sees(&self, seen: &Seen, engine: &Engine) {
        match seen.pod() {
            Some((key, Some(pod))) => self.pod(key, pod, engine),
            Some((key, None)) => {
                let (known, _) = &mut *self.lock();
                known.pending.remove(&key);
                known.evicting.remove(&key);
                known.leaving.remove(&key);
            }
            None => {}
        }
    }

    fn hears(&self, now: Now, happened: &[Happened]) {
        let (known, _) = &mut *self.lock();
        (known.now_us, known.tick) = (now.wall_us, now.tick);
        for happened in happened {
            match happened {
                Happened::Bound { pod, node } => {
                    if let Some(pending) = known.pending.get_mut(pod) {
                        // What is decided again after it was undone was decided first then.
                        let at_us = match &pending.ours {
                            Some(Ours::Bound { at_us, .. }) => *at_us,
                            _ => now.wall_us,
                        };
                        pending.ours = Some(Ours::Bound { node: node.clone(), at_us });
                    }
                }
                Happened::Held { pod, code, message } => {
                    if let Some(pending) = known.pending.get_mut(pod) {
                        pending.ours = Some(Ours::Held { code: code.name(), message: message.clone() });
                    }
                }
                Happened::Evicted { pod, claimant, reason, message, .. } => {
                    let claimant = claimant.as_ref().map(|it| format!(" for {it}")).unwrap_or_default();
                    let why = format!("evicted{claimant} by {}: {message}", reason.rule.name());
                    known.evicting.insert(pod.clone(), Evicting { at_us: now.wall_us, why });
                }
                Happened::Nominated { .. } | Happened::Problem(_) => {}
            }
        }
    }

    fn looks(&self, now: Now, _: &Engine) {
        let (known, books) = &mut *self.lock();
        (known.now_us, known.tick) = (now.wall_us, now.tick);
        self.overdue(known, books);
        if books.is_due(now.wall_us, self.every) {
            books.log();
        }
    }
}

#[cfg(test)]
mod tests;
