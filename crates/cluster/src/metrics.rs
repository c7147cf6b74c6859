//! What is counted, for Prometheus and for health checks.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use quotient_api::volcano::metrics::{CARD_ALLOCATED, CARD_CAPACITY, CARD_DESERVED, CARD_REQUEST, Sample};
use quotient_engine::{Code, QuotaReport};
use quotient_host::{Subject, Verb};

use crate::call::CallError;
use crate::profile::Phases;
use crate::quota_figures;
use quotient_host::queue::Outcome;
use quotient_host::scheduler::Happened;
use quotient_host::write::{LANES, Lane, Slot, Waited};

type Labels = Vec<(&'static str, String)>;
type Amount = Gauge<f64, AtomicU64>;

/// A scheduler that did not come round for this long is stuck. Its longest wait is a second.
const HEARTBEAT_MAX: Duration = Duration::from_secs(60);

/// What this was built from. The commit is given to release builds by the environment.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
pub const COMMIT: &str = match option_env!("QUOTIENT_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// The figures of queues by card, and what they are.
const CARD_METRICS: [(&str, &str); 4] = [
    (CARD_DESERVED, "What a queue deserves of a card"),
    (CARD_ALLOCATED, "What the pods of a queue hold of a card"),
    (CARD_REQUEST, "What the pods of a queue ask for of a card, those that wait too"),
    (CARD_CAPACITY, "What a queue may hold of a card"),
];

/// Figures are kept current for whoever read them within this time.
const READ_WITHIN: Duration = Duration::from_secs(120);

/// A watch that fails for this long is dead: whoever asks this process is answered from what was.
pub const WATCH_FAILS_MAX: Duration = Duration::from_secs(60);

/// How a watch does.
#[derive(Debug, Clone, Copy)]
struct WatchState {
    last_life: Instant,
    fails_since: Option<Instant>,
}

/// Everything that is counted. Clones count the same.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    decisions: Family<Labels, Counter>,
    evictions: Family<Labels, Counter>,
    waiting: Family<Labels, Gauge>,
    depth: Gauge,
    bind_seconds: Family<Labels, Histogram, fn() -> Histogram>,
    cycle_seconds: Histogram,
    writes: Family<Labels, Counter>,
    backlog: Family<Labels, Gauge>,
    write_seconds: Family<Labels, Histogram, fn() -> Histogram>,
    request_seconds: Family<Labels, Histogram, fn() -> Histogram>,
    requests: Family<Labels, Counter>,
    channels: Family<Labels, Gauge>,
    events_dropped: Counter,
    listings: Family<Labels, Counter>,
    stale: Family<Labels, Gauge>,
    lease_transitions: Family<Labels, Counter>,
    watches: Arc<Mutex<BTreeMap<Subject, WatchState>>>,
    watch_fails_max: Duration,
    /// How quotas stood last, and when somebody last read figures.
    quotas: Arc<Mutex<Arc<Vec<QuotaReport>>>>,
    read_ms: Arc<AtomicU64>,
    /// Under the names that dashboards of another system ask for.
    card_registry: Arc<Registry>,
    cards: BTreeMap<&'static str, Family<Labels, Amount>>,
    problems: Counter,
    reviews: Family<Labels, Counter>,
    leads: Gauge,
    configuration_valid: Gauge,
    comparisons: Family<Labels, Counter>,
    phases: Phases,
    begun: Instant,
    heartbeat_ms: Arc<AtomicU64>,
    ready: Arc<AtomicBool>,
    is_stale: Arc<AtomicBool>,
    answers: Arc<AtomicBool>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("quotient");
        let metrics = Metrics {
            registry: Arc::default(),
            decisions: Family::default(),
            evictions: Family::default(),
            waiting: Family::default(),
            depth: Gauge::default(),
            bind_seconds: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.005, 2.0, 20))),
            cycle_seconds: Histogram::new(exponential_buckets(0.0001, 2.0, 20)),
            writes: Family::default(),
            backlog: Family::default(),
            write_seconds: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 2.0, 16))),
            request_seconds: Family::new_with_constructor(|| Histogram::new(exponential_buckets(0.001, 2.0, 16))),
            requests: Family::default(),
            channels: Family::default(),
            events_dropped: Counter::default(),
            listings: Family::default(),
            stale: Family::default(),
            lease_transitions: Family::default(),
            watches: Arc::default(),
            watch_fails_max: WATCH_FAILS_MAX,
            quotas: Arc::default(),
            read_ms: Arc::default(),
            card_registry: Arc::default(),
            cards: CARD_METRICS.iter().map(|(name, _)| (*name, Family::default())).collect(),
            problems: Counter::default(),
            reviews: Family::default(),
            leads: Gauge::default(),
            configuration_valid: Gauge::default(),
            comparisons: Family::default(),
            phases: Phases::default(),
            begun: Instant::now(),
            heartbeat_ms: Arc::default(),
            ready: Arc::default(),
            is_stale: Arc::default(),
            answers: Arc::new(AtomicBool::new(true)),
        };
        registry.register("decisions", "What was decided, by kind of decision", metrics.decisions.clone());
        registry.register(
            "evictions",
            "Pods evicted, by the rule that gave the right to it",
            metrics.evictions.clone(),
        );
        registry.register("waiting_pods", "Pods that wait, by reason", metrics.waiting.clone());
        registry.register("queue_depth", "Pods that wait for a node", metrics.depth.clone());
        let (bind, cycle) = ("From a pod's creation to its bind", "How long one cycle of deciding took");
        registry.register_with_unit("bind_latency", bind, Unit::Seconds, metrics.bind_seconds.clone());
        registry.register_with_unit("cycle", cycle, Unit::Seconds, metrics.cycle_seconds.clone());
        registry.register("writes", "Requests to the API server, by what and by outcome", metrics.writes.clone());
        registry.register("write_backlog", "Writes that wait or are under way, by lane", metrics.backlog.clone());
        let write = "How long a write took, with all its requests";
        registry.register_with_unit("write", write, Unit::Seconds, metrics.write_seconds.clone());
        let request = "How long a request of a write took, by its verb";
        registry.register_with_unit("request", request, Unit::Seconds, metrics.request_seconds.clone());
        registry.register("requests", "Requests of writes, by verb and outcome", metrics.requests.clone());
        registry.register("channel_length", "What waits for the scheduler, by channel", metrics.channels.clone());
        registry.register("events_dropped", "Events that were not told", metrics.events_dropped.clone());
        registry.register("watch_listings", "How often a kind was listed", metrics.listings.clone());
        let stale = "1 while a kind is listed again or may not be read: nothing is decided meanwhile";
        registry.register("watch_stale", stale, metrics.stale.clone());
        let transitions = "How often the lease was won and lost here";
        registry.register("lease_transitions", transitions, metrics.lease_transitions.clone());
        registry.register("reviews", "Answers of the webhooks, by path and by outcome", metrics.reviews.clone());
        registry.register("problems", "Things in objects that cannot be read", metrics.problems.clone());
        registry.register("leader", "1 where this process has the lease", metrics.leads.clone());
        let valid = "1 where the configuration file on disk is the one in use, 0 where it was rejected";
        registry.register("configuration_valid", valid, metrics.configuration_valid.clone());
        metrics.configuration_valid.set(1);
        let compared = "Binds and evictions of another scheduler beside ours, by outcome";
        registry.register("comparisons", compared, metrics.comparisons.clone());
        let build = Info::new([("version", VERSION), ("commit", COMMIT)]);
        registry.register("build", "The version and the commit that this process was built from", build);
        let mut card_registry = Registry::default();
        for (name, help) in CARD_METRICS {
            card_registry.register(name, help, metrics.cards[name].clone());
        }
        Metrics { registry: Arc::new(registry), card_registry: Arc::new(card_registry), ..metrics }
    }
}

impl Metrics {
    /// The same, where a watch may fail for another time than [`WATCH_FAILS_MAX`] before it counts as dead.
    pub fn with_watch_fails_max(self, watch_fails_max: Duration) -> Self {
        Metrics { watch_fails_max, ..self }
    }

    /// Everything, as Prometheus reads it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.read_ms.store(self.elapsed_ms(), Ordering::Relaxed);
        let registries = [&self.registry, &self.card_registry];
        let encoded = registries.into_iter().try_for_each(|registry| encode_registry(&mut text, registry));
        quota_figures::write(&mut text, &self.quotas.lock().unwrap_or_else(PoisonError::into_inner).clone());
        self.write_watches(&mut text);
        if let Err(error) = encoded.and_then(|()| encode_eof(&mut text)) {
            // A string takes everything; should it not, the reader is told.
            let _ = writeln!(text, "# {error}");
        }
        text
    }

    pub fn count(&self, happened: &Happened) {
        let decision = match happened {
            Happened::Bound { .. } => "bind",
            Happened::Evicted { reason, .. } => {
                self.evictions.get_or_create(&vec![("rule", reason.rule.name().to_string())]).inc();
                "evict"
            }
            Happened::Held { .. } => "hold",
            Happened::Nominated { .. } => "nominate",
            Happened::Problem(_) => {
                self.problems.inc();
                return;
            }
        };
        self.decisions.get_or_create(&vec![("decision", decision.to_string())]).inc();
    }

    pub fn bound(&self, waited: Waited, now_us: i64) {
        let held = if waited.was_held { "yes" } else { "no" };
        let seconds = (now_us - waited.created_us).max(0) as f64 / 1e6;
        self.bind_seconds.get_or_create(&vec![("held", held.to_string())]).observe(seconds);
    }

    /// A request of a write was answered, or was not.
    pub fn request_took(&self, verb: Verb, took: Duration, error: Option<&CallError>) {
        let verb = ("verb", verb.name().to_string());
        self.request_seconds.get_or_create(&vec![verb.clone()]).observe(took.as_secs_f64());
        let outcome = match error {
            None => "done",
            Some(CallError::NotFound(_)) => "not_found",
            Some(CallError::Conflict(_)) => "conflict",
            Some(CallError::Refused { .. }) => "refused",
            Some(CallError::Throttled { .. }) => "throttled",
            Some(CallError::Broken(_)) => "broken",
            Some(CallError::Unavailable(_)) => "unavailable",
            Some(CallError::Fenced) => "fenced",
        };
        self.requests.get_or_create(&vec![verb, ("outcome", outcome.to_string())]).inc();
    }

    /// How much waits in each channel to the scheduler.
    pub fn set_channels(&self, seen: usize, reports: usize) {
        for (channel, count) in [("seen", seen), ("reports", reports)] {
            self.channels.get_or_create(&vec![("channel", channel.to_string())]).set(count as i64);
        }
    }

    /// A bind or an eviction of another scheduler was compared with ours.
    pub fn count_comparison(&self, of: &'static str, outcome: &'static str) {
        self.comparisons.get_or_create(&vec![("of", of.to_string()), ("outcome", outcome.to_string())]).inc();
    }

    /// Where the scheduler's task spends its time.
    pub fn phases(&self) -> &Phases {
        &self.phases
    }

    pub fn cycle(&self, took: Duration) {
        self.cycle_seconds.observe(took.as_secs_f64());
    }

    pub fn count_write(&self, slot: &Slot, outcome: &Outcome, error: Option<&CallError>) {
        let what = name_of(slot);
        let outcome = match (outcome, error) {
            (Outcome::Done, _) => "done",
            (Outcome::Later(_), _) => "later",
            (Outcome::Fenced, _) => "fenced",
            (Outcome::Refused(_), _) => "refused",
            (Outcome::Failed(_), Some(CallError::Throttled { .. })) => "throttled",
            (Outcome::Failed(_), _) => "failed",
        };
        self.writes.get_or_create(&vec![("what", what.to_string()), ("outcome", outcome.to_string())]).inc();
    }

    pub fn set_backlog(&self, lanes: [(Lane, usize); LANES.len()]) {
        for (lane, count) in lanes {
            self.backlog.get_or_create(&vec![("lane", lane.name().to_string())]).set(count as i64);
        }
    }

    pub fn set_waiting(&self, counts: impl Iterator<Item = (Option<Code>, usize)>) {
        self.waiting.clear();
        let mut depth = 0;
        for (code, count) in counts {
            let reason = code.map_or("NotDecided".to_string(), |code| code.name().to_string());
            self.waiting.get_or_create(&vec![("reason", reason)]).set(count as i64);
            depth += count as i64;
        }
        self.depth.set(depth);
    }

    /// Whether somebody read figures lately.
    pub fn is_read(&self) -> bool {
        // Whoever reads for the first time finds figures too, if that is soon.
        self.elapsed_ms() - self.read_ms.load(Ordering::Relaxed) < READ_WITHIN.as_millis() as u64
    }

    fn elapsed_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// Keeps how quotas stand, for whoever reads figures next.
    pub fn set_quotas(&self, reports: Vec<QuotaReport>) {
        *self.quotas.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(reports);
    }

    pub fn write_took(&self, slot: &Slot, took: Duration) {
        self.write_seconds.get_or_create(&vec![("what", name_of(slot).to_string())]).observe(took.as_secs_f64());
    }

    pub fn count_events_dropped(&self, count: u64) {
        self.events_dropped.inc_by(count);
    }

    /// A kind is being listed.
    pub fn count_listing(&self, subject: Subject) {
        self.listings.get_or_create(&kind_labels(subject)).inc();
    }

    /// A watch was answered, or said something.
    pub fn watch_lives(&self, subject: Subject) {
        let state = WatchState { last_life: Instant::now(), fails_since: None };
        self.watches.lock().unwrap_or_else(PoisonError::into_inner).insert(subject, state);
    }

    /// A watch failed.
    pub fn watch_fails(&self, subject: Subject) {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let state = watches.entry(subject).or_insert(WatchState { last_life: now, fails_since: None });
        state.fails_since.get_or_insert(now);
    }

    /// There is nothing to watch: the kind is not served, or left out.
    pub fn watch_ends(&self, subject: Subject) {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner).remove(&subject);
    }

    /// The kinds that are not current.
    pub fn set_stale(&self, subjects: &[Subject]) {
        self.stale.clear();
        for subject in subjects {
            self.stale.get_or_create(&kind_labels(*subject)).set(1);
        }
        self.is_stale.store(!subjects.is_empty(), Ordering::Relaxed);
    }

    /// The lease was won or lost.
    pub fn count_lease_transition(&self, is_won: bool) {
        let to = if is_won { "leader" } else { "standby" };
        self.lease_transitions.get_or_create(&vec![("to", to.to_string())]).inc();
    }

    fn write_watches(&self, text: &mut String) {
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let name = "quotient_watch_age_seconds";
        let _ = writeln!(
            text,
            "# HELP {name} Since a watch was last heard of: an event, a bookmark, an answer.\n# TYPE {name} gauge"
        );
        for (subject, state) in watches.iter() {
            let (kind, group) = (subject.name(), subject.kind().group);
            let age = state.last_life.elapsed().as_secs_f64();
            let _ = writeln!(text, "{name}{{kind=\"{kind}\",group=\"{group}\"}} {age}");
        }
    }

    /// Whether a watch is dead, or what it saw is stale.
    fn is_blind(&self) -> bool {
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let is_dead =
            |state: &WatchState| state.fails_since.is_some_and(|since| since.elapsed() > self.watch_fails_max);
        self.is_stale.load(Ordering::Relaxed) || watches.values().any(is_dead)
    }

    /// The figures of queues by card.
    pub fn set_cards(&self, samples: &[Sample]) {
        self.cards.values().for_each(Family::clear);
        let shown = quota_figures::fullest_queues(samples);
        for Sample { metric, queue, card, value } in samples {
            if let Some(family) = self.cards.get(metric).filter(|_| shown.contains(&**queue)) {
                let labels = vec![("queue_name", queue.to_string()), ("card_name", card.to_string())];
                family.get_or_create(&labels).set(*value as f64);
            }
        }
    }

    pub fn set_leads(&self, leads: bool) {
        self.leads.set(leads.into());
    }

    /// Whether the configuration file could be read when it was last looked at.
    pub fn set_configuration_valid(&self, valid: bool) {
        self.configuration_valid.set(valid.into());
    }

    /// The scheduler came round.
    pub fn beat(&self) {
        self.heartbeat_ms.store(self.begun.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Whether the scheduler comes round.
    pub fn is_alive(&self) -> bool {
        let beat = Duration::from_millis(self.heartbeat_ms.load(Ordering::Relaxed));
        self.begun.elapsed().saturating_sub(beat) < HEARTBEAT_MAX
    }

    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    /// A webhook answered.
    pub fn count_review(&self, path: &'static str, is_allowed: bool) {
        let outcome = if is_allowed { "allowed" } else { "refused" };
        self.reviews.get_or_create(&vec![("path", path.to_string()), ("outcome", outcome.to_string())]).inc();
    }

    /// Whether webhooks that are to be served can answer.
    pub fn set_answers(&self, answers: bool) {
        self.answers.store(answers, Ordering::Relaxed);
    }

    /// Whether everything was seen that there is to see, and whoever asks gets an answer.
    pub fn is_ready(&self) -> bool {
        let answers = self.answers.load(Ordering::Relaxed);
        self.ready.load(Ordering::Relaxed) && answers && self.is_alive() && !self.is_blind()
    }
}

fn kind_labels(subject: Subject) -> Labels {
    vec![("kind", subject.name().to_string()), ("group", subject.kind().group.to_string())]
}

fn name_of(slot: &Slot) -> &'static str {
    match slot {
        Slot::Bind(_) => "bind",
        Slot::Evict(_) => "evict",
        Slot::Nominate(_) => "nominate",
        Slot::Record(_) => "record",
        Slot::Label(_) => "label",
        Slot::Condition(_) => "condition",
        Slot::Event(..) => "event",
        Slot::Amend(_) => "amend",
        Slot::Make(_) => "make",
        Slot::Admit(_) => "admit",
        Slot::Delete(_) => "delete",
    }
}
