//! The whole of it: watches, the scheduler, the dispatcher, the lease.
//!
//! A *session* begins with nothing known and watches everything. While we do not have the lease it only takes in what
//! it sees; with the lease it decides and writes. When the lease is lost the session ends and the next one begins with
//! nothing known: what it decided and did not write is forgotten, and what others wrote is seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use quotient_api::{Configuration, ObjectKey};
use quotient_engine::{Budget, Tick};
use quotient_host::objects::{SharedObjects, pods_of_kind, watched_kinds};
use quotient_host::queue::Failed;
use quotient_host::scheduler::{Happened, Now, Scheduler, Seen};
use quotient_host::subject::Subject;
use quotient_host::write::{Slot, Write};
use serde_json::Value;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinSet;

use crate::connect::Clients;
use crate::dispatch::{Dispatcher, Report, dispatcher};
use crate::lease::{Elector, Fence, LeaseSettings};
use crate::metrics::Metrics;
use crate::onlook::Onlooker;
use crate::rehearsal::{Figures, HeldTime, Question, Rehearsal, Standing};
use crate::watch::watch;

/// Objects that were seen and not taken in yet. When it is full the watches wait, and the API server holds back: it is
/// enough for a burst, and little beside what is kept anyway.
const SEEN_MAX: usize = 4096;

/// How many objects are taken in before the engine decides again.
const SEEN_PER_CYCLE: usize = 1024;

/// The most pods that are looked at before what came in meanwhile is taken in. Hundreds of pods take milliseconds.
const CYCLE: Budget = Budget { pods_max: 512 };

/// What the last holder of the lease wrote is seen within this time; before it nothing is decided by a standby that
/// takes over.
const TAKE_OVER_AFTER: Duration = Duration::from_secs(1);

/// How often statuses of quotas are written and gauges set.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// How a live scheduler is set up.
#[derive(Debug, Clone)]
pub struct LiveSettings {
    pub configuration: Configuration,
    /// `None`: we are alone, and write without a lease.
    pub lease: Option<LeaseSettings>,
    /// Decide and report, and write nothing.
    pub shadow: bool,
    /// Bind and evict.
    pub scheduler: bool,
    /// Keep labels and statuses of quotas.
    pub controllers: bool,
    /// Where the objects are kept, for whoever else looks at them: empty until everything was seen.
    pub objects: SharedObjects,
}

impl LiveSettings {
    /// Whether a controller that runs here looks at these pods.
    fn looks_at(&self, subject: Subject) -> bool {
        self.controllers
            && match subject {
                Subject::Kind(_) => true,
                Subject::JobPods => self.configuration.runs_volcano_jobs,
                Subject::EndedPods => self.configuration.runs_pod_groups,
            }
    }
}

/// Runs until `stop` says so; what is under way is given up then, and the lease is given back.
pub async fn run(clients: Clients, settings: LiveSettings, metrics: Metrics, stop: impl Future<Output = ()>) {
    run_with(clients, settings, metrics, None, None, stop).await;
}

/// The same with somebody who looks on, where there is one.
pub async fn run_before(
    onlooker: Option<Arc<dyn Onlooker>>,
    clients: Clients,
    settings: LiveSettings,
    metrics: Metrics,
    stop: impl Future<Output = ()>,
) {
    run_with(clients, settings, metrics, None, onlooker, stop).await;
}

/// The same in time that stands still, with somebody who asks.
pub async fn rehearse(clients: Clients, settings: LiveSettings, rehearsal: Rehearsal, stop: impl Future<Output = ()>) {
    run_with(clients, settings, Metrics::default(), Some(rehearsal), None, stop).await;
}

async fn run_with(
    clients: Clients,
    settings: LiveSettings,
    metrics: Metrics,
    mut rehearsal: Option<Rehearsal>,
    onlooker: Option<Arc<dyn Onlooker>>,
    stop: impl Future<Output = ()>,
) {
    let LiveSettings { lease, shadow, .. } = &settings;
    // One that is alone leads for ever: this end is kept and says nothing.
    let (_alone, leads) = tokio::sync::watch::channel(true);
    let (mut elector, fence, mut leads) = match lease.clone().filter(|_| !shadow) {
        Some(lease) => {
            let (elector, fence, leads) = Elector::new(clients.lease.clone(), lease);
            (Some(elector), fence, leads)
        }
        None => (None, Fence::open(), leads),
    };
    let sessions = async {
        loop {
            let held = rehearsal.as_ref().map(|rehearsal| rehearsal.time.clone());
            let mut session = Session::new(&clients, &settings, &metrics, fence.clone(), held);
            session.onlooker = onlooker.clone();
            if let Some(onlooker) = &onlooker {
                onlooker.begins();
            }
            session.run(&mut leads, &mut rehearsal).await;
            tracing::info!("begins anew, knowing only what the objects say");
        }
    };
    let election = async {
        match &mut elector {
            Some(elector) => elector.run().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = sessions => {}
        () = election => {}
        () = stop => {}
    }
    metrics.set_ready(false);
    if let Some(elector) = &mut elector {
        elector.release().await;
    }
}

/// Now, by both clocks.
#[derive(Debug, Clone)]
struct Clock {
    begun: Instant,
    begun_ms: u64,
    /// Time that stands still, in a rehearsal.
    held: Option<HeldTime>,
}

impl Clock {
    fn new(held: Option<HeldTime>) -> Self {
        Clock { begun: Instant::now(), begun_ms: u64::try_from(wall_us() / 1000).unwrap_or(0), held }
    }

    fn now(&self) -> Now {
        if let Some(held) = &self.held {
            let tick = held.tick();
            return Now { tick, wall_us: i64::try_from(tick.0).unwrap_or(i64::MAX).saturating_mul(1000) };
        }
        let tick = Tick(self.begun_ms + self.begun.elapsed().as_millis() as u64);
        Now { tick, wall_us: wall_us() }
    }

    /// When to look again, if by itself it will ever be so late.
    fn instant_of(&self, tick: Tick) -> Option<Instant> {
        let by_itself = self.held.is_none();
        by_itself.then(|| self.begun + Duration::from_millis(tick.0.saturating_sub(self.begun_ms)))
    }
}

/// Microseconds since the Unix epoch, by a clock that may be set.
pub fn wall_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

struct Session<'a> {
    settings: &'a LiveSettings,
    metrics: &'a Metrics,
    fence: Fence,
    clock: Clock,
    scheduler: Scheduler,
    dispatcher: Dispatcher,
    seen: mpsc::Receiver<Seen>,
    reports: UnboundedReceiver<Report>,
    /// What watches give what they see to.
    sender: mpsc::Sender<Seen>,
    watched: kube::Client,
    /// What is watched, and of what not everything was seen yet.
    subjects: BTreeSet<Subject>,
    unlisted: BTreeSet<Subject>,
    /// What is kept for whoever asks.
    asked: Option<Asked>,
    /// Somebody who looks on, such as a dashboard.
    onlooker: Option<Arc<dyn Onlooker>>,
    /// The watches and the dispatcher; they end with the session.
    tasks: JoinSet<()>,
}

/// What a rehearsed session keeps beyond others.
#[derive(Debug, Default)]
struct Asked {
    is_held: bool,
    /// Nothing was left to decide when last it decided.
    rests: bool,
    wakes_at: Option<Tick>,
    versions: BTreeMap<(Subject, ObjectKey), String>,
    happened: Vec<Happened>,
}

impl Asked {
    fn see(&mut self, seen: &Seen) {
        match seen {
            Seen::Object(subject, object) => {
                let text = |field: &str| object.pointer(field).and_then(Value::as_str);
                if let Some(name) = text("/metadata/name") {
                    let version = text("/metadata/resourceVersion").unwrap_or_default().to_string();
                    let key = ObjectKey::new(subject.kind(), text("/metadata/namespace"), name);
                    self.versions.insert((*subject, key), version);
                }
            }
            Seen::Gone(subject, key) => {
                self.versions.remove(&(*subject, key.clone()));
            }
            Seen::Listed(_) | Seen::Unavailable(_) => {}
        }
    }
}

impl<'a> Session<'a> {
    fn new(
        clients: &Clients,
        settings: &'a LiveSettings,
        metrics: &'a Metrics,
        fence: Fence,
        held: Option<HeldTime>,
    ) -> Self {
        let mut tasks = JoinSet::new();
        let (sender, seen) = mpsc::channel(SEEN_MAX);
        let subjects: BTreeSet<Subject> = watched_kinds().map(Subject::Kind).collect();
        for subject in &subjects {
            tasks.spawn(watch(clients.watch.clone(), *subject, sender.clone()));
        }
        // These begin when there is something that they are looked at for.
        let later = watched_kinds().filter_map(pods_of_kind).filter(|subject| settings.looks_at(*subject));
        let unlisted = subjects.iter().copied().chain(later).collect();
        let (report, reports) = mpsc::unbounded_channel();
        let (dispatcher, work) = dispatcher(clients, fence.clone(), metrics.clone(), report);
        tasks.spawn(work);
        metrics.set_ready(false);
        let names = Some(settings.configuration.scheduler_names.clone());
        Session {
            settings,
            metrics,
            fence,
            asked: held.is_some().then(Asked::default),
            clock: Clock::new(held),
            scheduler: Scheduler::new(&settings.configuration, names, settings.objects.clone()),
            dispatcher,
            seen,
            reports,
            sender,
            watched: clients.watch.clone(),
            subjects,
            unlisted,
            onlooker: None,
            tasks,
        }
    }

    /// Goes on until the lease is lost.
    async fn run(mut self, leads: &mut tokio::sync::watch::Receiver<bool>, rehearsal: &mut Option<Rehearsal>) {
        let mut status = tokio::time::interval(STATUS_EVERY);
        status.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut led = *leads.borrow_and_update();
        let mut decides_from = Instant::now();
        let mut wake: Option<Instant> = None;
        let mut more = false;
        let mut batch = Vec::with_capacity(SEEN_PER_CYCLE);
        loop {
            self.metrics.beat();
            self.metrics.set_leads(led && !self.settings.shadow);
            let wait = async {
                match (more, wake) {
                    (true, _) => {}
                    (false, Some(at)) => tokio::time::sleep_until(at.into()).await,
                    (false, None) => std::future::pending().await,
                }
            };
            let question = async {
                match rehearsal {
                    Some(rehearsal) => rehearsal.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = leads.changed() => {
                    let leads = *leads.borrow_and_update();
                    if changed.is_err() || (led && !leads) {
                        return;
                    }
                    // What is listed from now on is as new as can be; what was listed before may lag behind.
                    if leads && self.unlisted.is_empty() {
                        decides_from = Instant::now() + TAKE_OVER_AFTER;
                    }
                    led = leads;
                }
                _ = status.tick() => self.tell_status(led),
                Some(report) = self.reports.recv() => self.take_report(report),
                count = self.seen.recv_many(&mut batch, SEEN_PER_CYCLE) => {
                    if count == 0 {
                        return;
                    }
                    for seen in batch.drain(..) {
                        self.take_seen(seen);
                    }
                }
                question = question => {
                    if self.answer(question, led) {
                        return;
                    }
                }
                () = wait => {}
            }
            while let Ok(report) = self.reports.try_recv() {
                self.take_report(report);
            }
            let happened = self.scheduler.take_happened();
            self.note(happened);
            if self.controls(led) && Instant::now() >= decides_from {
                for write in self.scheduler.follow(self.clock.now()) {
                    self.push(write);
                }
            }
            let begun = Instant::now();
            let decides = led && begun >= decides_from && self.unlisted.is_empty() && self.settings.scheduler;
            let decides = decides && !self.asked.as_ref().is_some_and(|asked| asked.is_held);
            if !decides || self.dispatcher.is_full() {
                // Whatever there is to decide is decided when that has changed; the status comes round anyway.
                (more, wake) = (false, None);
                if let Some(asked) = &mut self.asked {
                    asked.rests = false;
                }
                continue;
            }
            let now = self.clock.now();
            let round = tokio::task::block_in_place(|| self.scheduler.decide(now, CYCLE));
            self.metrics.cycle(begun.elapsed());
            more = round.more;
            wake = round.wake_at.and_then(|tick| self.clock.instant_of(tick));
            if let Some(asked) = &mut self.asked {
                (asked.rests, asked.wakes_at) = (!round.more, round.wake_at);
            }
            self.note(round.happened);
            for write in round.writes {
                self.push(write);
            }
        }
    }

    /// Answers; says whether the session is to end.
    fn answer(&mut self, question: Question, led: bool) -> bool {
        // Whoever asks and does not wait for the answer does not need it.
        match question {
            Question::Hold(is_held, answer) => {
                if let Some(asked) = &mut self.asked {
                    (asked.is_held, asked.rests) = (is_held, false);
                }
                let _ = answer.send(());
            }
            Question::Later(answer) => {
                if let Some(asked) = &mut self.asked {
                    asked.rests = false;
                }
                let _ = answer.send(());
            }
            Question::Standing(answer) => {
                let _ = answer.send(self.standing(led));
            }
            Question::Figures(answer) => {
                let engine = self.scheduler.engine();
                let happened = self.asked.as_mut().map(|asked| std::mem::take(&mut asked.happened));
                let _ = answer.send(Figures {
                    quotas: engine.quotas(),
                    nodes: engine.nodes(),
                    reasons: engine.reasons_now(),
                    happened: happened.unwrap_or_default(),
                });
            }
            Question::Restart(answer) => {
                let _ = answer.send(());
                return true;
            }
        }
        false
    }

    /// How it stands, after everything was written that can be said now.
    fn standing(&mut self, led: bool) -> Standing {
        self.tell_status(led);
        // In this order: what fails is told before it counts as done.
        let is_written = self.dispatcher.is_idle() && self.reports.is_empty();
        let Some(Asked { rests, versions, wakes_at, .. }) = &self.asked else { return Standing::default() };
        Standing {
            is_listed: self.unlisted.is_empty(),
            is_decided: *rests,
            is_written,
            subjects: self.subjects.clone(),
            versions: versions.clone(),
            wakes_at: *wakes_at,
        }
    }

    fn take_seen(&mut self, seen: Seen) {
        if let Some(asked) = &mut self.asked {
            asked.see(&seen);
        }
        if let Some(onlooker) = &self.onlooker {
            onlooker.sees(&seen);
        }
        let listed = match &seen {
            Seen::Listed(subject) => Some((*subject, true)),
            Seen::Unavailable(subject) => Some((*subject, false)),
            _ => None,
        };
        self.scheduler.see(self.clock.now(), seen);
        let Some((subject, is_served)) = listed else { return };
        let pods = match subject {
            Subject::Kind(kind) => pods_of_kind(kind).filter(|pods| self.settings.looks_at(*pods)),
            Subject::JobPods | Subject::EndedPods => None,
        };
        if let Some(pods) = pods {
            if !is_served {
                self.unlisted.remove(&pods);
            } else if self.subjects.insert(pods) {
                self.tasks.spawn(watch(self.watched.clone(), pods, self.sender.clone()));
            }
        }
        if self.unlisted.remove(&subject) && self.unlisted.is_empty() {
            tracing::info!("everything was seen");
            self.scheduler.seen_everything();
            self.metrics.set_ready(true);
        }
    }

    fn take_report(&mut self, report: Report) {
        let now = self.clock.now();
        match report {
            Report::Failed(feedback) => {
                if let Failed::Decision(fact) = &feedback.failed {
                    tracing::warn!(?fact, "did not happen: {}", feedback.message);
                }
                self.scheduler.take_feedback(now, *feedback);
            }
            Report::Bound { pod, node, created_us } => {
                if let Some(created_us) = created_us {
                    self.metrics.bound(created_us, now.wall_us);
                }
                if let Some(event) = self.scheduler.bound_event(now, &pod, &node) {
                    self.push(event);
                }
            }
        }
    }

    fn tell_status(&mut self, led: bool) {
        self.metrics.set_waiting(self.scheduler.waiting().into_iter());
        let quotas = self.scheduler.engine().quotas();
        self.metrics.set_quotas(&quotas);
        self.metrics.set_cards(&self.scheduler.card_samples(&quotas));
        if self.unlisted.is_empty() {
            self.scheduler.patrol();
            if let Some(onlooker) = &self.onlooker {
                onlooker.looks(self.clock.now(), self.scheduler.engine());
            }
        }
        if self.controls(led) {
            let now = self.clock.now();
            let mut writes = self.scheduler.keep(now);
            writes.extend(self.scheduler.tell_standing(now, &quotas));
            writes.into_iter().for_each(|write| self.push(write));
        }
    }

    /// Whether controllers may do something now.
    fn controls(&self, led: bool) -> bool {
        led && self.settings.controllers && self.fence.holds() && self.unlisted.is_empty()
    }

    /// Hands a write over, if it is one of those that we are to do.
    fn push(&self, write: Write) {
        let LiveSettings { shadow, controllers, .. } = self.settings;
        let is_controllers = matches!(write.slot(), Slot::Label(_) | Slot::Amend(_) | Slot::Make(_) | Slot::Delete(_));
        if *shadow || (is_controllers && !controllers) {
            return;
        }
        self.dispatcher.push(write);
    }

    fn note(&mut self, happened: Vec<Happened>) {
        if let Some(asked) = &mut self.asked {
            asked.happened.extend(happened.iter().cloned());
        }
        if let Some(onlooker) = &self.onlooker {
            onlooker.hears(self.clock.now(), &happened);
        }
        for happened in happened {
            self.metrics.count(&happened);
            let shadow = self.settings.shadow;
            match &happened {
                Happened::Bound { pod, node } => tracing::info!(%pod, %node, shadow, "binds"),
                Happened::Evicted { pod, node: _, claimant, rule, message } => {
                    let claimant = claimant.as_ref().map(ToString::to_string);
                    tracing::info!(%pod, claimant, rule = rule.name(), shadow, "evicts: {message}");
                }
                Happened::Held { pod, code, message } => {
                    tracing::info!(%pod, reason = code.name(), shadow, "holds: {message}");
                }
                Happened::Nominated { pod, node } => tracing::info!(%pod, node = node.as_deref(), shadow, "nominates"),
                Happened::Problem(problem) => tracing::warn!("{problem}"),
            }
        }
    }
}
