//! The whole of it: watches, the scheduler, the dispatcher, the lease.
//!
//! A *session* begins with nothing known and watches everything. While we do not have the lease it only takes in what
//! it sees; with the lease it decides and writes. When the lease is lost the session ends and the next one begins with
//! nothing known: what it decided and did not write is forgotten, and what others wrote is seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quotient_api::device::{CLAIM, GROUP};
use quotient_api::{Configuration, kinds};
use quotient_engine::Budget;
use quotient_engine::fact::PodKey;
use quotient_host::queue::Failed;
use quotient_host::scheduler::{Happened, Seen};
use quotient_host::{Hold, Parts, PodRef, SharedObjects, Subject, probe};
use serde_json::Value;
use tokio::sync::mpsc::{self, Receiver};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::call::{CallError, Http};
use crate::clock::{Clock, wall_us};
use crate::connect::Clients;
use crate::dispatch::{Dispatcher, REPORTS_MAX, Report, dispatcher};
use crate::lease::{Election, Elector, Fence, LeaseSettings, Term, Watched};
use crate::metrics::Metrics;
use crate::onlook::Onlooker;
use crate::profile::Phase;
use crate::rehearsal::{Asked, Figures, HeldTime, Question, Rehearsal, Standing};
use crate::system::System;
use crate::watch::Tells;

/// Objects that were seen and not taken in yet. When it is full the watches wait, and the API server holds back. It is
/// enough for a burst; each takes some kilobytes, and while everything is listed it is full.
const SEEN_MAX: usize = 128;

/// While more was decided than the API server can be sent now, what it tells of meanwhile is taken in together: to
/// decide sooner would place nobody sooner, and each look for itself takes time from both.
const GATHER: Duration = Duration::from_millis(16);

/// How many objects are taken in before the engine decides again.
const SEEN_PER_CYCLE: usize = 1024;

/// The most pods that are looked at before what came in meanwhile is taken in. Hundreds of pods take milliseconds.
const CYCLE: Budget = Budget { pods_max: 512 };

/// When it is to stop, binds and evictions that were decided are still sent for this long. It is less than what a pod
/// has to end, and than what a lease lasts.
pub const DRAIN_MAX: Duration = Duration::from_secs(5);

/// How soon a pod that could not be touched is tried again.
const PROBE_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// How often it is looked whether they were.
const DRAIN_LOOK_EVERY: Duration = Duration::from_millis(20);

/// How often statuses of quotas are written and gauges set.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// How often while more binds wait than can be sent. The status of a quota takes an API server as long as two binds.
const STATUS_IN_A_RUSH_EVERY: Duration = Duration::from_secs(5);

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
    /// The systems whose kinds are read; those of others count as not served.
    pub systems: Vec<System>,
    /// Where the objects are kept, for whoever else looks at them: empty until everything was seen.
    pub objects: SharedObjects,
}

/// Runs until `stop` says so. Binds and evictions that were decided are still sent then, for [`DRAIN_MAX`] at most, and
/// the lease is given back.
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
    let (_alone, leads) = watch::channel(Some(Term::ALONE));
    let (fence, mut leads, election, watched) = match lease.clone().filter(|_| !shadow) {
        Some(lease) => {
            let (elector, fence, leads) = Elector::new(clients.lease.clone(), lease, metrics.clone());
            // What the last one left without a record is to be known before pods are seen.
            let watched = elector.watched().await;
            (fence, leads, Some(Election::begin(elector)), watched)
        }
        None => (Fence::open(), leads, None, Watched::default()),
    };
    let (drain, drains) = watch::channel(false);
    let sessions = async {
        loop {
            let held = rehearsal.as_ref().map(|rehearsal| rehearsal.time.clone());
            let mut session = Session::new(&clients, &settings, &metrics, fence.clone(), held);
            session.onlooker = onlooker.clone();
            session.watched = watched.clone();
            if let Some(until) = watched.until_us() {
                session.host.was_watched_until(until);
            }
            if let Some(onlooker) = &onlooker {
                onlooker.begins();
            }
            if session.run(&mut leads, drains.clone(), &mut rehearsal).await == End::Drained {
                return;
            }
            tracing::info!("begins anew, knowing only what the objects say");
        }
    };
    let mut sessions = std::pin::pin!(sessions);
    tokio::select! {
        () = &mut sessions => {}
        () = stop => {
            metrics.set_ready(false);
            drain.send_replace(true);
            if tokio::time::timeout(DRAIN_MAX, sessions).await.is_err() {
                tracing::warn!("some binds or evictions were not answered in time");
            }
        }
    }
    metrics.set_ready(false);
    if let Some(election) = election {
        election.end().await;
    }
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The next one begins with nothing known.
    Anew,
    /// Everything that was decided was sent, and nothing is decided any more.
    Drained,
}

struct Session<'a> {
    settings: &'a LiveSettings,
    metrics: &'a Metrics,
    fence: Fence,
    clock: Clock,
    host: quotient_host::Session,
    dispatcher: Dispatcher,
    seen: mpsc::Receiver<Seen>,
    reports: Receiver<Report>,
    /// What watches give what they see to.
    sender: mpsc::Sender<Seen>,
    clients: Clients,
    subjects: BTreeSet<Subject>,
    /// What asks the watch of a subject to list again, for those of which it may be asked.
    relist: BTreeMap<Subject, watch::Sender<u64>>,
    /// What came of the pod that was touched after the lease was taken, once the server has answered.
    probing: Option<oneshot::Receiver<(PodRef, Result<u64, CallError>)>>,
    /// Why nothing is decided, as far as it was said.
    held: Option<Hold>,
    /// What is kept for whoever asks.
    asked: Option<Asked>,
    /// When what is to be told of how things stand was last told.
    told_at: Instant,
    /// Something was taken in since the last turn.
    is_undecided: bool,
    /// Nothing happened since figures of quotas were last made for whoever reads them.
    are_figures_current: bool,
    /// Somebody who looks on, such as a dashboard.
    onlooker: Option<Arc<dyn Onlooker>>,
    /// Until when pods were watched, as the lease is to say.
    watched: Watched,
    /// The watches and the dispatcher; they end with the session.
    tasks: JoinSet<()>,
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
        let LiveSettings { shadow, scheduler, controllers, configuration, .. } = settings;
        let parts = Parts { shadow: *shadow, scheduler: *scheduler, controllers: *controllers };
        let names = Some(configuration.scheduler_names.clone());
        let host = quotient_host::Session::new(configuration, names, parts, settings.objects.clone());
        let subjects: BTreeSet<Subject> = host.first_subjects().collect();
        let mut relist = BTreeMap::new();
        for subject in &subjects {
            if System::of(subject.kind()).is_some_and(|system| !settings.systems.contains(&system)) {
                tasks.spawn(crate::watch::leave_out(*subject, sender.clone()));
                continue;
            }
            let (client, sender) = (clients.watch.clone(), sender.clone());
            let (asks, asked) = watch::channel(0);
            let tells = tells(held.is_some());
            let watch = crate::watch::watch(client, *subject, tells, sender, metrics.clone(), asked);
            tasks.spawn_on(watch, &clients.bulk.handle);
            relist.insert(*subject, asks);
        }
        let (report, reports) = mpsc::channel(REPORTS_MAX);
        let (dispatcher, work) = dispatcher(clients, fence.clone(), metrics.clone(), report);
        tasks.spawn_on(work, &clients.bulk.handle);
        metrics.set_ready(false);
        Session {
            settings,
            metrics,
            fence,
            asked: held.is_some().then(Asked::default),
            clock: Clock::new(held),
            host,
            dispatcher,
            seen,
            reports,
            sender,
            clients: clients.clone(),
            subjects,
            relist,
            probing: None,
            onlooker: None,
            watched: Watched::default(),
            told_at: Instant::now(),
            is_undecided: false,
            are_figures_current: false,
            held: None,
            tasks,
        }
    }

    /// Goes on until the lease is lost, or everything is sent that was decided before it was to stop.
    async fn run(
        mut self,
        leads: &mut watch::Receiver<Option<Term>>,
        mut drains: watch::Receiver<bool>,
        rehearsal: &mut Option<Rehearsal>,
    ) -> End {
        let mut status = tokio::time::interval(STATUS_EVERY);
        status.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // What a session is for ends with the term in which it leads.
        let mut term = *leads.borrow_and_update();
        if term.is_some() {
            self.host.lead(self.clock.now());
        }
        let mut wake: Option<Instant> = None;
        let mut more = false;
        let mut batch = Vec::with_capacity(SEEN_PER_CYCLE);
        loop {
            self.metrics.beat();
            self.metrics.set_leads(self.host.leads() && !self.settings.shadow);
            self.metrics.set_channels(self.seen.len(), self.reports.len());
            let is_draining = *drains.borrow();
            if is_draining && self.dispatcher.is_placed() {
                return End::Drained;
            }
            let wait = async {
                match (is_draining, more, wake) {
                    (true, ..) => tokio::time::sleep(DRAIN_LOOK_EVERY).await,
                    (_, true, _) => {}
                    (_, false, Some(at)) => tokio::time::sleep_until(at.into()).await,
                    (_, false, None) => std::future::pending().await,
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
                    let before = std::mem::replace(&mut term, *leads.borrow_and_update());
                    if changed.is_err() || ends(before, term) {
                        return End::Anew;
                    }
                    self.take_over(term);
                }
                _ = drains.changed() => {}
                _ = status.tick() => self.tell_status(),
                Some(report) = self.reports.recv() => self.take_report(report),
                (pod, answer) = answered(&mut self.probing) => match answer {
                    Ok(version) => self.host.probed(pod, version),
                    Err(error) => tracing::warn!(pod = %pod.key, %error, "cannot be touched, and is tried again"),
                },
                count = self.seen.recv_many(&mut batch, SEEN_PER_CYCLE) => {
                    if count == 0 {
                        return End::Anew;
                    }
                    for seen in batch.drain(..) {
                        self.decide_before(&seen);
                        self.take_seen(seen);
                    }
                }
                question = question => {
                    if self.answer(question) {
                        return End::Anew;
                    }
                }
                () = wait => self.are_figures_current = false,
            }
            while let Ok(report) = self.reports.try_recv() {
                self.take_report(report);
            }
            (more, wake) = if *drains.borrow() { (false, None) } else { self.take_turn() };
            if self.asked.is_none() && self.dispatcher.is_ahead() {
                tokio::time::sleep(GATHER).await;
            }
        }
    }

    /// The lease was won while this watched. What the last leader wrote to pods is waited for ([`Session::take_turn`]);
    /// which devices it gave to which claim is listed anew: the watch of claims may lag behind that of pods.
    fn take_over(&mut self, term: Option<Term>) {
        if term.is_none() {
            return;
        }
        let now = self.clock.now();
        self.host.lead(now);
        let claims = kinds::find(GROUP, CLAIM).map(Subject::Kind).filter(|claims| self.host.is_current(*claims));
        if let Some((claims, relist)) = claims.and_then(|claims| Some((claims, self.relist.get(&claims)?))) {
            relist.send_modify(|times| *times += 1);
            let why = "what the last leader allocated was not listed yet".to_string();
            self.host.see(now, Seen::Stale(claims, why));
        }
    }

    /// Decides, if it may; says whether there is more to decide at once, or when to look again.
    fn take_turn(&mut self) -> (bool, Option<Instant>) {
        for gone in self.host.take_gone() {
            self.dispatcher.forget(gone);
        }
        if let Some(pod) = self.host.probe()
            && self.probing.is_none()
        {
            let (answer, probing) = oneshot::channel();
            let http =
                Http { lines: self.clients.place.clone(), fence: self.fence.clone(), metrics: self.metrics.clone() };
            self.tasks.spawn(async move {
                let touched = probe(&http, &pod, wall_us()).await;
                if touched.is_err() {
                    tokio::time::sleep(PROBE_AGAIN_AFTER).await;
                }
                let _ = answer.send((pod, touched));
            });
            self.probing = Some(probing);
        }
        let is_held = self.asked.as_ref().is_some_and(|asked| asked.is_held);
        let (begun, now) = (Instant::now(), self.clock.now());
        let is_full = is_held || self.dispatcher.is_full();
        let phases = self.metrics.phases();
        let turn = phases.time(Phase::Decide, || tokio::task::block_in_place(|| self.host.turn(now, is_full, CYCLE)));
        self.is_undecided = turn.held.is_some() || turn.more;
        if turn.held.is_none() {
            self.metrics.cycle(begun.elapsed());
            if self.host.leads() {
                self.watched.note(now.wall_us);
            }
        }
        self.say_held(turn.held.clone());
        if let Some(asked) = &mut self.asked {
            asked.rests = turn.held.is_none() && !turn.more;
            if turn.held.is_none() {
                asked.wakes_at = turn.wake_at;
            }
        }
        self.are_figures_current &= turn.happened.is_empty() && turn.writes.is_empty();
        self.note(turn.happened);
        for write in turn.writes {
            self.dispatcher.push(write);
        }
        // Whatever there is to decide is decided when that has changed; the status comes round anyway.
        (turn.more, turn.wake_at.and_then(|tick| self.clock.instant_of(tick)))
    }

    /// Says why nothing is decided, where that changed.
    fn say_held(&mut self, held: Option<Hold>) {
        let stale: Vec<Subject> = self.host.stale().map(|(subject, _)| subject).collect();
        self.metrics.set_stale(&stale);
        if self.held == held {
            return;
        }
        match (&held, &self.held) {
            (Some(Hold::NotOurs | Hold::Full | Hold::Unlisted(_)), _) => {}
            (Some(hold), _) => tracing::warn!("nothing is decided: {hold}"),
            (None, Some(Hold::Stale(..) | Hold::TakingOver)) => tracing::info!("decides again"),
            (None, _) => {}
        }
        self.held = held;
    }

    /// Answers; says whether the session is to end.
    fn answer(&mut self, question: Question) -> bool {
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
                let _ = answer.send(self.standing());
            }
            Question::Figures(answer) => {
                let engine = self.host.scheduler().engine();
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
    fn standing(&mut self) -> Standing {
        self.tell_status();
        // In this order: what fails is told before it counts as done.
        let is_written = self.dispatcher.is_idle() && self.reports.is_empty();
        let Some(Asked { rests, versions, wakes_at, .. }) = &self.asked else { return Standing::default() };
        Standing {
            is_listed: self.host.is_complete(),
            is_decided: *rests,
            is_written,
            subjects: self.subjects.clone(),
            versions: versions.clone(),
            wakes_at: *wakes_at,
        }
    }

    /// In shadow mode another scheduler binds a pod, often before our turn comes: what was seen up to then is decided
    /// first, so that the two can be compared.
    fn decide_before(&mut self, seen: &Seen) {
        let Seen::Object(Subject::Kind(kind), pod) = seen else { return };
        if !self.settings.shadow || !self.is_undecided || (kind.group, kind.kind) != ("", "Pod") {
            return;
        }
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str);
        let key = PodKey {
            namespace: text("/metadata/namespace").unwrap_or_default().into(),
            name: text("/metadata/name").unwrap_or_default().into(),
        };
        if text("/spec/nodeName").is_some() && self.host.is_complete() && self.host.scheduler().waits(&key) {
            while self.take_turn().0 {}
        }
    }

    fn take_seen(&mut self, seen: Seen) {
        if let Some(asked) = &mut self.asked {
            asked.see(&seen);
        }
        let phases = self.metrics.phases();
        if let Some(onlooker) = &self.onlooker {
            phases.time(Phase::Observers, || onlooker.sees(&seen, self.host.scheduler().engine()));
        }
        self.is_undecided = true;
        self.are_figures_current = false;
        let was_complete = self.host.is_complete();
        let now = self.clock.now();
        let also = phases.time(Phase::TakeIn, || self.host.see(now, seen));
        if let Some(pods) = also
            && self.subjects.insert(pods)
        {
            let (client, sender) = (self.clients.watch.clone(), self.sender.clone());
            let (asks, asked) = watch::channel(0);
            let tells = tells(self.asked.is_some());
            let watch = crate::watch::watch(client, pods, tells, sender, self.metrics.clone(), asked);
            self.tasks.spawn_on(watch, &self.clients.bulk.handle);
            self.relist.insert(pods, asks);
        }
        if !was_complete && self.host.is_complete() {
            tracing::info!("everything was seen");
            self.metrics.set_ready(true);
            // Observers count time from here, and pods may come and go before the status comes round.
            if let Some(onlooker) = &self.onlooker {
                onlooker.looks(self.clock.now(), self.host.scheduler().engine());
            }
        }
    }

    fn take_report(&mut self, report: Report) {
        self.are_figures_current = false;
        let now = self.clock.now();
        match report {
            Report::Failed(feedback) => {
                if let Failed::Decision(fact) = &feedback.failed {
                    tracing::warn!(?fact, "did not happen: {}", feedback.message);
                }
                self.host.take_feedback(now, *feedback);
            }
            Report::Bound { pod, node, waited } => {
                if let Some(waited) = waited {
                    self.metrics.bound(waited, now.wall_us);
                }
                if let Some(event) = self.host.scheduler_mut().bound_event(now, &pod, &node)
                    && self.host.is_ours(&event)
                {
                    self.dispatcher.push(event);
                }
            }
        }
    }

    fn tell_status(&mut self) {
        let phases = self.metrics.phases().clone();
        phases.time(Phase::Status, || self.tell_standing());
        if let Some(onlooker) = self.onlooker.as_ref().filter(|_| self.host.is_complete()) {
            phases.time(Phase::Observers, || onlooker.looks(self.clock.now(), self.host.scheduler().engine()));
        }
    }

    fn tell_standing(&mut self) {
        let scheduler = self.host.scheduler();
        self.metrics.set_waiting(scheduler.waiting().into_iter());
        // In a large cluster figures take longer to make than all else that there is to do while nothing happens.
        if self.metrics.is_read() && !self.are_figures_current {
            let quotas = scheduler.engine().quotas();
            self.metrics.set_cards(&scheduler.card_samples(&quotas));
            self.metrics.set_quotas(quotas);
            self.are_figures_current = true;
        }
        let is_due = !self.dispatcher.is_ahead() || self.told_at.elapsed() >= STATUS_IN_A_RUSH_EVERY;
        if self.fence.holds() && is_due {
            self.told_at = Instant::now();
            for write in self.host.tell(self.clock.now()) {
                self.dispatcher.push(write);
            }
        }
    }

    fn note(&mut self, happened: Vec<Happened>) {
        if let Some(asked) = &mut self.asked {
            asked.happened.extend(happened.iter().cloned());
        }
        if let Some(onlooker) = &self.onlooker {
            self.metrics.phases().time(Phase::Observers, || onlooker.hears(self.clock.now(), &happened));
        }
        let shadow = self.settings.shadow;
        let (mut bound, mut evicted, mut held) = (0, 0, 0);
        for happened in happened {
            self.metrics.count(&happened);
            match &happened {
                Happened::Bound { pod, node } => {
                    bound += 1;
                    tracing::info!(%pod, %node, shadow, "binds");
                }
                Happened::Evicted { pod, node, claimant, reason, message } => {
                    evicted += 1;
                    let claimant = claimant.as_ref().map(ToString::to_string);
                    tracing::info!(%pod, %node, claimant, rule = reason.rule.name(), shadow, "evicts: {message}");
                }
                // There may be as many as pods wait, again and again: the counts are below.
                Happened::Held { pod, code, message } => {
                    held += 1;
                    tracing::debug!(%pod, reason = code.name(), shadow, "holds: {message}");
                }
                Happened::Nominated { pod, node } => tracing::info!(%pod, node = node.as_deref(), shadow, "nominates"),
                Happened::Problem(problem) => tracing::warn!("{problem}"),
            }
        }
        if bound + evicted + held > 0 {
            let waiting = self.host.scheduler().waiting();
            let counts = waiting.iter().map(|(code, count)| (code.map_or("NotDecided", |code| code.name()), *count));
            let waiting: BTreeMap<&str, usize> = counts.collect();
            tracing::info!(bound, evicted, held, ?waiting, shadow, "decided");
        }
    }
}

/// Whether a session that leads in a term is over: the lease was lost, even where it was won again since.
fn ends(term: Option<Term>, next: Option<Term>) -> bool {
    term.is_some() && next != term
}

/// Whoever rehearses waits to see versions of objects; others are told what is new.
fn tells(is_rehearsed: bool) -> Tells {
    if is_rehearsed { Tells::Versions } else { Tells::News }
}

/// The answer, once it is there.
async fn answered<T>(answer: &mut Option<oneshot::Receiver<T>>) -> T {
    if let Some(receiver) = answer
        && let Ok(value) = receiver.await
    {
        *answer = None;
        return value;
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Term;

    #[test]
    fn a_lease_that_was_lost_and_won_again_at_once_was_lost() {
        let (first, second) = (Some(Term::ALONE), Some(Term::ALONE.next()));
        assert!(!ends(None, first) && !ends(first, first) && !ends(None, None));
        assert!(
            ends(first, None) && ends(first, second),
            "what was decided in the first term is not written in the second"
        );
    }
}
