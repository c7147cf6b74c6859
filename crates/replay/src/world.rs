//! Drives the engine through a trace: submits, binds, evicts and ends pods as their time comes.

use std::collections::{BTreeMap, BTreeSet};

use quotient_api::{ObjectKey, Operation, Request, Translation, Translator, admit, key_of, time};
use quotient_engine::fact::{Created, Name, Phase, PodFact, PodKey, Tick};
use quotient_engine::{Budget, Decision, Engine, Fact};
use quotient_sim::store::Store;
use quotient_sim::{Cluster, Setup};
use serde_json::{Value, json};

use crate::books::Books;
use crate::figures::{self, Figures};
use crate::forecasts::Forecasts;
use crate::measure::BUCKETS_MAX;
use crate::trace::{Event, Life, Trace, is_pod};

/// Rounds of decisions at one moment: each pod may be bound and evicted a few times before a fault is likelier.
const ROUNDS_MIN: usize = 1000;

/// Why a replay cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stuck {
    /// An object that the trace or the configuration begins with was refused.
    #[error("{0}")]
    Refused(String),
    /// The program is wrong.
    #[error("{0}")]
    Bug(String),
}

/// How far a replay has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Events of the trace that were submitted, and how many there are.
    pub submitted: usize,
    pub events: usize,
    /// The time of the trace.
    pub now_ms: u64,
}

/// Where a pod of the trace is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Waiting,
    Running { node: Name, since_ms: u64 },
    Over,
}

/// A pod of the trace, in all its incarnations.
#[derive(Debug)]
pub(crate) struct Job {
    pub fact: PodFact,
    pub team: usize,
    life: Life,
    submitted_ms: u64,
    pub place: Place,
    started: bool,
    /// Counts how often it was made, so that the end of an evicted one ends nobody.
    incarnation: u32,
}

/// What is due at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// A running pod has run its time.
    End { job: usize, incarnation: u32 },
    /// A pod is deleted, whether it runs or waits.
    Leave { job: usize },
}

/// Counts that make up the figures together with the books.
#[derive(Debug, Default)]
pub struct Counts {
    pub submitted: u64,
    pub rejected: u64,
    pub finished: u64,
    pub never_started: u64,
    pub evicted_by_rule: BTreeMap<&'static str, u64>,
    pub first_rejection: Option<String>,
}

struct World {
    engine: Engine,
    translator: Translator,
    store: Store,
    start_us: i64,
    now_ms: u64,
    wake_at_ms: Option<u64>,
    last_created_us: i64,
    made: u64,
    jobs: Vec<Job>,
    by_key: BTreeMap<PodKey, usize>,
    waiting: BTreeSet<PodKey>,
    due: BTreeMap<(u64, u64), Due>,
    books: Books,
    counts: Counts,
    forecasts: Forecasts,
}

/// Replays the trace on a cluster with these objects besides those of the trace, and measures.
pub fn replay(
    trace: &Trace,
    setup: &Setup,
    objects: &[Value],
    label: &str,
    progress: &mut dyn FnMut(Progress),
) -> Result<Figures, Stuck> {
    replay_asking(trace, setup, objects, label, 0, progress)
}

/// The same; about so many of the pods are asked when they will start, and how often that held is among the figures.
pub fn replay_asking(
    trace: &Trace,
    setup: &Setup,
    objects: &[Value],
    label: &str,
    forecasts: usize,
    progress: &mut dyn FnMut(Progress),
) -> Result<Figures, Stuck> {
    let mut world = World::new(trace, setup, objects)?;
    world.forecasts = Forecasts::new(forecasts, trace.pods());
    let mut next = 0;
    loop {
        let arrival = trace.events.get(next).map(|(at, _)| *at);
        let due = world.due.keys().next().map(|(at, _)| *at);
        let Some(at) = [arrival, due].into_iter().flatten().min() else { break };
        // Time alone may let the engine decide something meanwhile.
        let at = world.wake_at_ms.filter(|wake| *wake > world.now_ms).map_or(at, |wake| wake.min(at));
        world.advance(at);
        while let Some((_, event)) = trace.events.get(next).filter(|(submitted, _)| *submitted <= at) {
            world.submit(event)?;
            next += 1;
        }
        world.end_due();
        world.settle()?;
        world.ask();
        if next.is_multiple_of(64) {
            progress(Progress { submitted: next, events: trace.events.len(), now_ms: at });
        }
    }
    let World { now_ms, jobs, mut books, mut counts, forecasts, .. } = world;
    for job in jobs.iter().filter(|job| !job.started && job.place == Place::Waiting) {
        counts.never_started += 1;
        books.teams[job.team].waits_ms.push(now_ms - job.submitted_ms);
    }
    let mut figures = figures::of(trace, label, now_ms, &books, &counts);
    figures.forecasts = forecasts.coverage();
    Ok(figures)
}

impl World {
    /// A cluster that holds what exists before the trace begins.
    fn new(trace: &Trace, setup: &Setup, objects: &[Value]) -> Result<World, Stuck> {
        let mut cluster = Cluster::new(setup.clone());
        let namespaces: BTreeSet<&str> = trace.events.iter().filter_map(|(_, event)| namespace_of(event)).collect();
        let namespaces = namespaces
            .into_iter()
            .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        for object in namespaces.chain(trace.objects.iter().cloned()).chain(objects.iter().cloned()) {
            cluster.apply(object).map_err(|refusal| Stuck::Refused(refusal.to_string()))?;
        }
        cluster.settle().map_err(|stuck| Stuck::Bug(stuck.to_string()))?;
        let last_ms = trace.events.last().map_or(0, |(at, _)| *at);
        let configuration = &setup.configuration;
        let mut world = World {
            engine: Engine::new(configuration.engine_settings()),
            translator: Translator::new(configuration.translator_settings(setup.scheduler_names.clone())),
            store: cluster.store().clone(),
            start_us: cluster.now_us(),
            now_ms: 0,
            wake_at_ms: None,
            last_created_us: cluster.now_us(),
            made: 0,
            jobs: Vec::new(),
            by_key: BTreeMap::new(),
            waiting: BTreeSet::new(),
            due: BTreeMap::new(),
            books: Books::new(last_ms.div_ceil(BUCKETS_MAX as u64)),
            counts: Counts::default(),
            forecasts: Forecasts::default(),
        };
        let all: Vec<_> = world.store.iter().map(|(_, object)| object.clone()).collect();
        for object in all {
            let Translation { facts, .. } = world.translator.upsert(&object);
            world.observe(facts);
        }
        world.settle()?;
        Ok(world)
    }

    /// Asks about pods that have just been submitted when they will start.
    fn ask(&mut self) {
        let now = self.tick();
        self.forecasts.ask(&self.engine, now, self.now_ms, &self.jobs, self.by_key.values().copied());
    }

    fn tick(&self) -> Tick {
        Tick((self.start_us / 1000) as u64 + self.now_ms)
    }

    fn advance(&mut self, to_ms: u64) {
        if self.books.levels.advance(to_ms) {
            self.books.sample(&self.engine, self.waiting.iter());
        }
        self.now_ms = to_ms;
    }

    fn observe(&mut self, facts: Vec<Fact>) {
        let now = self.tick();
        for fact in facts {
            match &fact {
                Fact::Node(node) => self.books.node(node),
                Fact::NodeGone(name) => self.books.node_gone(name),
                _ => {}
            }
            self.engine.observe(now, fact);
        }
    }

    fn submit(&mut self, event: &Event) -> Result<(), Stuck> {
        match event {
            Event::Apply { object, life } if is_pod(object) => self.submit_pod(object, *life),
            Event::Apply { object, .. } => self.apply(object)?,
            Event::Delete(key) => self.delete(key),
        }
        Ok(())
    }

    /// The object as admission lets it in, or `None` where it does not.
    fn admitted(&mut self, operation: Operation, object: Value, old: Option<&Value>) -> Option<Value> {
        match admit(Request { operation, object, old }, &self.store) {
            Ok(admitted) => Some(admitted.object),
            Err(rejection) => {
                self.counts.rejected += 1;
                self.counts.first_rejection.get_or_insert(rejection.message);
                None
            }
        }
    }

    fn created(&mut self) -> Created {
        let now_us = self.start_us + i64::try_from(self.now_ms).unwrap_or(i64::MAX / 2000) * 1000;
        self.last_created_us = now_us.max(self.last_created_us + 1);
        Created(self.last_created_us)
    }

    fn uid(&mut self) -> Name {
        self.made += 1;
        Name::from(format!("replay-{}", self.made))
    }

    fn submit_pod(&mut self, object: &Value, life: Life) {
        self.counts.submitted += 1;
        let Some(mut object) = self.admitted(Operation::Create, object.clone(), None) else { return };
        let (uid, created) = (self.uid(), self.created());
        object["metadata"]["uid"] = json!(*uid);
        object["metadata"]["creationTimestamp"] = json!(time::format_timestamp(created.0));
        let Translation { facts, .. } = self.translator.upsert(&object);
        let Some(fact) = facts.into_iter().find_map(|fact| if let Fact::Pod(pod) = fact { Some(pod) } else { None })
        else {
            return;
        };
        let (job, key) = (self.jobs.len(), fact.key());
        // A name that is used again means that the one before is gone.
        self.leave_by_key(&key);
        let team = self.books.team(&fact.namespace);
        self.books.teams[team].pods += 1;
        self.books.asked(&fact.spec);
        self.books.levels.change(self.books.waiting, 1);
        if let Life::Until { at_ms } = life {
            self.schedule(at_ms.max(self.now_ms), Due::Leave { job });
        }
        self.by_key.insert(key.clone(), job);
        self.waiting.insert(key);
        self.engine.observe(self.tick(), Fact::Pod(fact.clone()));
        let submitted_ms = self.now_ms;
        let place = Place::Waiting;
        self.forecasts.submitted(job);
        self.jobs.push(Job { fact, team, life, submitted_ms, place, started: false, incarnation: 0 });
    }

    fn apply(&mut self, object: &Value) -> Result<(), Stuck> {
        let key = key_of(object).map_err(|problem| Stuck::Refused(problem.to_string()))?;
        if matches!(key.group, "apps" | "batch" | "batch.volcano.sh") {
            let message = format!("{key}: a trace holds pods, not what makes them");
            return Err(Stuck::Refused(message));
        }
        let old = self.store.get(&key).cloned();
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let Some(object) = self.admitted(operation, object.clone(), old.as_deref()) else { return Ok(()) };
        self.store.put(key, object.clone());
        let Translation { facts, .. } = self.translator.upsert(&object);
        self.observe(facts);
        Ok(())
    }

    fn delete(&mut self, key: &ObjectKey) {
        if (key.group, key.kind) == ("", "Pod") {
            let namespace = key.namespace.clone().unwrap_or_default();
            return self.leave_by_key(&PodKey { namespace, name: key.name.clone() });
        }
        if (key.group, key.kind) == ("", "Node") {
            let on_it = |job: &Job| matches!(&job.place, Place::Running { node, .. } if *node == key.name);
            for job in (0..self.jobs.len()).filter(|job| on_it(&self.jobs[*job])).collect::<Vec<_>>() {
                self.requeue(job);
            }
        }
        self.store.remove(key);
        let Translation { facts, .. } = self.translator.remove(key);
        self.observe(facts);
    }

    fn schedule(&mut self, at_ms: u64, due: Due) {
        self.made += 1;
        self.due.insert((at_ms, self.made), due);
    }

    fn end_due(&mut self) {
        while let Some(entry) = self.due.first_entry() {
            if entry.key().0 > self.now_ms {
                return;
            }
            match entry.remove() {
                Due::End { job, incarnation } if self.jobs[job].incarnation == incarnation => self.leave(job),
                Due::End { .. } => {}
                Due::Leave { job } => self.leave(job),
            }
        }
    }

    fn leave_by_key(&mut self, key: &PodKey) {
        if let Some(job) = self.by_key.get(key).copied() {
            self.leave(job);
        }
    }

    /// A pod is gone for good: it ended, or was deleted.
    fn leave(&mut self, at: usize) {
        let job = &mut self.jobs[at];
        match std::mem::replace(&mut job.place, Place::Over) {
            Place::Over => return,
            Place::Running { node, since_ms } => {
                self.books.place(&node, job.team, &job.fact.spec, -1);
                self.counts.finished += 1;
                self.forecasts.ended(job.team, &job.fact.spec, self.now_ms - since_ms);
            }
            Place::Waiting => {
                self.forecasts.left(at);
                self.books.levels.change(self.books.waiting, -1);
                if !job.started {
                    self.counts.never_started += 1;
                    self.books.teams[job.team].waits_ms.push(self.now_ms - job.submitted_ms);
                }
            }
        }
        let key = job.fact.key();
        self.waiting.remove(&key);
        if self.by_key.get(&key) == Some(&at) {
            self.by_key.remove(&key);
        }
        self.engine.observe(self.tick(), Fact::PodGone(key));
    }

    /// A running pod is taken off its node and waits again, as its controller would make it anew. It runs from the
    /// beginning, so that what it did is lost.
    fn requeue(&mut self, at: usize) {
        let (uid, created, now) = (self.uid(), self.created(), self.tick());
        let job = &mut self.jobs[at];
        let Place::Running { node, since_ms } = std::mem::replace(&mut job.place, Place::Waiting) else { return };
        let held = self.books.place(&node, job.team, &job.fact.spec, -1);
        let team = &mut self.books.teams[job.team];
        team.lost_gpu_ms += u128::from(self.now_ms - since_ms) * held.unsigned_abs() as u128;
        team.evicted += 1;
        self.books.levels.change(self.books.waiting, 1);
        self.engine.observe(now, Fact::PodGone(job.fact.key()));
        job.incarnation += 1;
        job.fact = PodFact { uid, created, node: None, nominated: None, phase: Phase::Pending, ..job.fact.clone() };
        job.fact.marks.clear();
        self.waiting.insert(job.fact.key());
        self.engine.observe(now, Fact::Pod(job.fact.clone()));
    }

    /// Lets the engine decide until it has nothing more to say.
    fn settle(&mut self) -> Result<(), Stuck> {
        let limit = ROUNDS_MIN + 4 * self.waiting.len();
        for _ in 0..limit {
            let decisions = self.engine.decide(self.tick(), Budget::default());
            let start_ms = (self.start_us / 1000) as u64;
            self.wake_at_ms = decisions.wake_at.map(|wake| wake.0.saturating_sub(start_ms));
            if decisions.list.is_empty() && !decisions.more {
                return Ok(());
            }
            for decision in decisions.list {
                self.carry_out(decision);
            }
        }
        let message = format!("the engine still decides after {limit} rounds at {} ms of the trace", self.now_ms);
        Err(Stuck::Bug(message))
    }

    fn carry_out(&mut self, decision: Decision) {
        match decision {
            Decision::Bind { pod, uid, node, .. } => match self.same(&pod, &uid) {
                Some(job) if self.jobs[job].place == Place::Waiting => self.bind(job, node),
                _ => self.engine.observe(self.tick(), Fact::BindFailed { pod, uid }),
            },
            Decision::Evict { pod, uid, reason, .. } => match self.same(&pod, &uid) {
                Some(job) if self.jobs[job].place != Place::Waiting => {
                    *self.counts.evicted_by_rule.entry(reason.rule.name()).or_default() += 1;
                    self.requeue(job);
                }
                _ => self.engine.observe(self.tick(), Fact::EvictFailed { pod, uid }),
            },
            Decision::Mark { pod, uid, group, capacity } => {
                let Some(job) = self.same(&pod, &uid) else { return };
                let marks = &mut self.jobs[job].fact.marks;
                marks.retain(|(of, _)| *of != group);
                marks.extend(capacity.map(|capacity| (group, capacity)));
                marks.sort();
                let fact = self.jobs[job].fact.clone();
                self.engine.observe(self.tick(), Fact::Pod(fact));
            }
            Decision::Admit(group) => {
                let key = ObjectKey::pod_group(&group.namespace, &group.name);
                let Some(mut group) = self.store.get(&key).map(|group| (**group).clone()) else { return };
                group["status"]["phase"] = json!("Inqueue");
                self.store.put(key, group.clone());
                let Translation { facts, .. } = self.translator.upsert(&group);
                self.observe(facts);
            }
            // The engine knows whom it nominated and held; nobody else reads it here.
            Decision::Nominate { .. } | Decision::Hold { .. } => {}
        }
    }

    /// The job whose current incarnation this is.
    fn same(&self, pod: &PodKey, uid: &Name) -> Option<usize> {
        self.by_key.get(pod).copied().filter(|job| self.jobs[*job].fact.uid == *uid)
    }

    fn bind(&mut self, at: usize, node: Name) {
        let job = &mut self.jobs[at];
        self.books.place(&node, job.team, &job.fact.spec, 1);
        self.books.levels.change(self.books.waiting, -1);
        if !job.started {
            job.started = true;
            self.forecasts.started(at, self.now_ms);
            self.books.teams[job.team].waits_ms.push(self.now_ms - job.submitted_ms);
        }
        job.place = Place::Running { node: node.clone(), since_ms: self.now_ms };
        job.fact.node = Some(node);
        job.fact.phase = Phase::Running;
        let (fact, life, incarnation) = (job.fact.clone(), job.life, job.incarnation);
        self.waiting.remove(&fact.key());
        if let Life::Runs { ms } = life {
            self.schedule(self.now_ms.saturating_add(ms), Due::End { job: at, incarnation });
        }
        self.engine.observe(self.tick(), Fact::Pod(fact));
    }
}

fn namespace_of(event: &Event) -> Option<&str> {
    match event {
        Event::Apply { object, .. } => object.pointer("/metadata/namespace")?.as_str(),
        Event::Delete(_) => None,
    }
}
