//! What is seen goes in, what is to be written comes out. No network, no clock: time is an argument.

use std::collections::BTreeMap;

use quotient_api::{Configuration, Kind, ObjectKey, Problem, Translation, Translator, key_of};
use quotient_engine::fact::{Name, PodKey};
use quotient_engine::{Budget, Code, Decision, Engine, Fact, Rule, Tick};
use serde_json::{Value, json};

use crate::event::{EventBook, Remark, whole_seconds};
use crate::quota_book::QuotaBook;
use crate::write::{PodRef, Write};

/// The most pods that are looked at before what came in meanwhile is taken in. Hundreds of pods take milliseconds.
const PODS_PER_CYCLE: usize = 512;

/// Something that a watch saw.
#[derive(Debug, Clone)]
pub enum Seen {
    Object(&'static Kind, Value),
    Gone(ObjectKey),
    /// All objects of the kind that there are have been seen, and those that are not there any more are gone.
    Listed(&'static Kind),
    /// The API server does not know the kind, or does not let us read it; there is nothing of it to see.
    Unavailable(&'static Kind),
}

/// Now, by both clocks.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Milliseconds that only ever grow, for what is waited for.
    pub tick: Tick,
    /// Microseconds since the Unix epoch, for what is written down.
    pub wall_us: i64,
}

/// Something that happened, to be counted and logged.
#[derive(Debug, Clone, PartialEq)]
pub enum Happened {
    Bound { pod: PodKey, node: Name },
    Evicted { pod: PodKey, claimant: Option<PodKey>, rule: Rule, message: String },
    Held { pod: PodKey, code: Code, message: String },
    Nominated { pod: PodKey, node: Option<Name> },
    Problem(Problem),
}

/// What came of a cycle.
#[derive(Debug, Default)]
pub struct Round {
    pub writes: Vec<Write>,
    pub happened: Vec<Happened>,
    /// There is more to decide at once.
    pub more: bool,
    /// When time alone will change something next.
    pub wake_at: Option<Tick>,
}

/// A pod that waits.
#[derive(Debug, Clone)]
struct Waiting {
    created_us: i64,
    /// Why, as far as it was said.
    held: Option<(Name, Code)>,
}

/// The engine with what it takes to tell it of objects, and to write what it decides.
#[derive(Debug)]
pub struct Scheduler {
    translator: Translator,
    engine: Engine,
    quotas: QuotaBook,
    events: EventBook,
    /// What is wrong with each object, so that it is said once and not with every change.
    problems: BTreeMap<ObjectKey, Vec<Problem>>,
    waiting: BTreeMap<PodKey, Waiting>,
    happened: Vec<Happened>,
}

impl Scheduler {
    /// A scheduler that knows nothing yet. Pods with one of the configured names are its own.
    pub fn new(configuration: &Configuration) -> Self {
        let names = Some(configuration.scheduler_names.clone());
        Scheduler {
            translator: Translator::new(configuration.translator_settings(names)),
            engine: Engine::new(configuration.engine_settings()),
            quotas: QuotaBook::default(),
            events: EventBook::default(),
            problems: BTreeMap::new(),
            waiting: BTreeMap::new(),
            happened: Vec::new(),
        }
    }

    /// The engine as it is.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// How many pods wait, and for which reasons; `None` is for those that were not looked at yet.
    pub fn waiting(&self) -> BTreeMap<Option<Code>, usize> {
        let mut counts = BTreeMap::new();
        for waiting in self.waiting.values() {
            *counts.entry(waiting.held.as_ref().map(|(_, code)| *code)).or_default() += 1;
        }
        counts
    }

    /// Takes in what a watch saw. Lists that are complete mean nothing here.
    pub fn see(&mut self, now: Now, seen: Seen) {
        match seen {
            Seen::Object(kind, mut object) => {
                // Objects of a list do not say what they are.
                if let Value::Object(fields) = &mut object {
                    fields.entry("kind").or_insert_with(|| json!(kind.kind));
                    fields.entry("apiVersion").or_insert_with(|| json!(kind.api_version()));
                }
                let translation = self.translator.upsert(&object);
                match key_of(&object) {
                    Ok(key) => {
                        self.quotas.seen(&key, &object);
                        self.tell(now, &key, translation);
                    }
                    Err(problem) => self.happened.push(Happened::Problem(problem)),
                }
            }
            Seen::Gone(key) => {
                let translation = self.translator.remove(&key);
                self.quotas.gone(&key);
                self.tell(now, &key, translation);
                self.problems.remove(&key);
            }
            Seen::Listed(_) | Seen::Unavailable(_) => {}
        }
    }

    fn tell(&mut self, now: Now, key: &ObjectKey, translation: Translation) {
        let Translation { facts, problems, elsewhere } = translation;
        for fact in facts {
            self.note_waiting(&fact);
            self.engine.observe(now.tick, fact);
        }
        self.note_problems(key, problems);
        for (key, problems) in elsewhere {
            self.note_problems(&key, problems);
        }
    }

    /// Takes in that something which was decided did not happen.
    pub fn failed(&mut self, now: Now, fact: Fact) {
        self.engine.observe(now.tick, fact);
    }

    fn note_waiting(&mut self, fact: &Fact) {
        match fact {
            Fact::Pod(pod) => {
                let waits = pod.ours && pod.node.is_none() && pod.leaving_since.is_none() && !pod.phase.is_over();
                if waits {
                    let created_us = pod.created.0;
                    let waiting = self.waiting.entry(pod.key()).or_insert(Waiting { created_us, held: None });
                    waiting.created_us = created_us;
                } else {
                    self.waiting.remove(&pod.key());
                }
            }
            Fact::PodGone(key) => {
                self.waiting.remove(key);
            }
            _ => {}
        }
    }

    /// Keeps what is wrong with an object; what was said of it before is not said again.
    fn note_problems(&mut self, key: &ObjectKey, problems: Vec<Problem>) {
        if problems.is_empty() {
            self.problems.remove(key);
            return;
        }
        let known = self.problems.get(key).map_or(&[][..], Vec::as_slice);
        let news = problems.iter().filter(|problem| !known.contains(problem)).cloned();
        self.happened.extend(news.map(Happened::Problem));
        self.problems.insert(key.clone(), problems);
    }

    /// Decides, and says what is to be written.
    pub fn decide(&mut self, now: Now) -> Round {
        let decisions = self.engine.decide(now.tick, Budget { pods_max: PODS_PER_CYCLE });
        let mut round = Round { more: decisions.more, wake_at: decisions.wake_at, ..Round::default() };
        for decision in decisions.list {
            self.write(now, decision, &mut round);
        }
        round.happened.append(&mut self.happened);
        round
    }

    /// What happened without a decision.
    pub fn take_happened(&mut self) -> Vec<Happened> {
        std::mem::take(&mut self.happened)
    }

    /// What is to be written so that quotas say what they hold, and those go whose place is taken.
    pub fn quota_writes(&mut self) -> Vec<Write> {
        let mut writes = self.quotas.taken_over();
        writes.extend(self.quotas.statuses(&self.engine.quotas()));
        writes
    }

    fn write(&mut self, now: Now, decision: Decision, round: &mut Round) {
        match decision {
            Decision::Bind { pod, uid, node, claims } => {
                let created_us = self.waiting.get(&pod).map(|waiting| waiting.created_us);
                round.happened.push(Happened::Bound { pod: pod.clone(), node: node.clone() });
                round.writes.push(Write::Bind { pod: PodRef { key: pod, uid }, node, claims, created_us });
            }
            Decision::Evict { pod, uid, node: _, claimant, rule, violates_budget: _, message } => {
                let said = match &claimant {
                    Some(claimant) => format!("Preempted by {claimant} ({}): {message}", rule.name()),
                    None => format!("Evicted ({}): {message}", rule.name()),
                };
                let remark = Remark { is_warning: false, reason: "Preempted", message: said };
                round.writes.extend(self.event(now, &pod, &uid, remark));
                let evicted = (pod.clone(), claimant.clone(), message.clone());
                round.writes.push(Write::Evict { pod: PodRef { key: pod, uid }, claimant, message });
                let (pod, claimant, message) = evicted;
                round.happened.push(Happened::Evicted { pod, claimant, rule, message });
            }
            Decision::Nominate { pod, uid, node } => {
                round.happened.push(Happened::Nominated { pod: pod.clone(), node: node.clone() });
                round.writes.push(Write::Nominate { pod: PodRef { key: pod, uid }, node });
            }
            Decision::Mark { pod, uid, group, capacity } => {
                let label = (format!("{group}/capacity"), capacity.map(|capacity| capacity.name().to_string()));
                round.writes.push(Write::Label { pod: PodRef { key: pod, uid }, labels: [label].into() });
            }
            Decision::Hold { pod, uid, reason } => {
                let gated = reason.code == Code::SchedulingGated;
                if !gated {
                    let message = reason.message.clone();
                    let remark = Remark { is_warning: true, reason: "FailedScheduling", message };
                    round.writes.extend(self.event(now, &pod, &uid, remark));
                }
                let held = self.waiting.get_mut(&pod).map(|waiting| &mut waiting.held);
                let known = held.and_then(|held| held.replace((uid.clone(), reason.code)));
                let since = match known {
                    Some((known, _)) if known == uid => None,
                    _ => Some(whole_seconds(now.wall_us)),
                };
                let (code, message) = (reason.code, reason.message.clone());
                round.happened.push(Happened::Held { pod: pod.clone(), code, message: message.clone() });
                let short = if gated { "SchedulingGated" } else { "Unschedulable" };
                round.writes.push(Write::Condition { pod: PodRef { key: pod, uid }, reason: short, message, since });
            }
        }
    }

    fn event(&mut self, now: Now, pod: &PodKey, uid: &Name, remark: Remark) -> Option<Write> {
        let about = ObjectKey::pod(&pod.namespace, &pod.name);
        self.events.note(about, uid, remark, now.wall_us).map(Write::Event)
    }

    /// The event that says that a pod was bound; it is said when it is so.
    pub fn bound_event(&mut self, now: Now, pod: &PodRef, node: &Name) -> Option<Write> {
        let message = format!("Successfully assigned {} to {node}", pod.key);
        self.event(now, &pod.key, &pod.uid, Remark { is_warning: false, reason: "Scheduled", message })
    }
}
