//! A virtual cluster: the scheduler as it ships around objects in memory.
//!
//! ```text
//!   objects ──changes──▶ controllers of every cluster ──▶ objects      until nobody has anything to do
//!      │
//!      └──changes──▶ replica (host, engine) ──requests──▶ API server ──▶ objects
//! ```
//!
//! A cluster *settles*: this goes round until nothing changes any more. Time stands still meanwhile;
//! it passes only by [`Cluster::wait`], which stops at every moment at which something is due.

mod happened;
mod record;
mod standing;
#[cfg(test)]
mod tests;

pub use happened::Happened;
pub use record::{Decided, Round};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use quotient_api::{Configuration, ObjectKey, Problem, tree};
use quotient_engine::fact::PodKey;
use quotient_engine::{Budget, Engine, Reason, Tick};
use quotient_host::{Happened as Done, Now};
use rustc_hash::FxHashSet;
use serde_json::Value;

use crate::clock::Clock;
use crate::controllers::Controllers;
use crate::field;
use crate::replica::Replica;
use crate::server::{self, Refusal, Server, is_over};
use crate::store::{Change, Store};

/// Rounds that a cluster may take to settle. In a round everything moves that can, so what takes many
/// rounds is what moves one after another: pods of a StatefulSet, steps of a rollout, evictions that
/// lead to evictions. Each object that is there, and each replica that is wanted, may take a few (made,
/// held, nominated, bound, its status told). They are counted once, after as many rounds as any cluster
/// may take: a cluster that goes in circles makes objects without end.
const ROUNDS_MIN: usize = 500;
const ROUNDS_PER_OBJECT: usize = 4;

/// How many objects an error names.
const NAMED_MAX: usize = 5;

/// A virtual cluster that cannot go on. Both are faults of the program and not of its input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stuck {
    #[error("the cluster does not settle: after {rounds} rounds these still change: {changing}")]
    Unsettled { rounds: usize, changing: String },
    #[error("the engine broke an invariant: {0}")]
    Invariant(String),
}

/// How a cluster is set up.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Setup {
    pub configuration: Configuration,
    /// Pods with one of these in `spec.schedulerName` are ours. `None`: every pod is.
    pub scheduler_names: Option<Vec<String>>,
}

/// Objects in memory, with everything that makes them a cluster. A clone goes its own way: it is how to ask what would
/// happen if.
#[derive(Debug, Clone)]
pub struct Cluster {
    setup: Setup,
    server: Server,
    controllers: Controllers,
    replica: Replica,
    /// Until when the scheduler has seen everything, as the Lease would say.
    watched_until_us: Option<i64>,
    /// Why pods wait as things stand now, once somebody asks: what the engine said of a pod may be a while ago.
    reasons: OnceLock<BTreeMap<PodKey, Arc<Reason>>>,
    /// Changes that the scheduler has not seen yet.
    unseen: Vec<Change>,
    /// What changed last, for whoever asks what does not come to rest.
    last_changed: Vec<ObjectKey>,
    /// Pods that were evicted and that nobody makes anew.
    lost: BTreeSet<ObjectKey>,
    happened: Happened,
    /// Rounds in which something was decided, for whoever asked to see them.
    record: Option<Vec<Round>>,
}

impl Cluster {
    /// An empty cluster.
    pub fn new(setup: Setup) -> Self {
        Cluster {
            server: Server::new(&setup.configuration),
            controllers: Controllers::default(),
            replica: Replica::new(&setup, None),
            watched_until_us: None,
            setup,
            reasons: OnceLock::new(),
            unseen: Vec::new(),
            last_changed: Vec::new(),
            lost: BTreeSet::new(),
            happened: Happened::default(),
            record: None,
        }
    }

    /// The objects as they are.
    pub fn store(&self) -> &Store {
        self.server.store()
    }

    /// How many objects and events there are.
    pub fn len(&self) -> usize {
        self.server.len()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.server.is_empty()
    }

    /// The engine as it is.
    pub fn engine(&self) -> &Engine {
        self.replica.engine()
    }

    /// Virtual time, in microseconds since the Unix epoch.
    pub fn now_us(&self) -> i64 {
        self.server.clock.now_us()
    }

    /// Virtual time as the engine counts it.
    pub fn tick(&self) -> Tick {
        self.server.clock.tick()
    }

    /// The events about an object: reasons and messages.
    pub fn events<'a>(&'a self, about: &'a ObjectKey) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.server.events(about)
    }

    /// What happened since this was last asked, each list by namespace and name.
    pub fn take_happened(&mut self) -> Happened {
        let mut happened = std::mem::take(&mut self.happened);
        happened.rejected = self.server.take_rejected();
        self.leave_out_what_passed(&mut happened.problems);
        happened.problems.extend(self.server.take_warnings());
        happened.sort();
        happened
    }

    /// What was wrong for a moment only is not worth a word: a quota that went in the same step, or whose place another
    /// takes.
    fn leave_out_what_passed(&self, problems: &mut Vec<Problem>) {
        if !problems.is_empty() {
            let now: BTreeSet<String> = self.replica.problems().map(ToString::to_string).collect();
            problems.retain(|problem| problem.object.is_none() || now.contains(&problem.to_string()));
        }
    }

    /// Makes or replaces an object.
    pub fn apply(&mut self, object: Value) -> Result<ObjectKey, Refusal> {
        let key = self.server.apply(object)?;
        // A tree is there as soon as its profile is, so that quotas below it can be applied next.
        if tree::is_profile(&key) {
            self.pass_changes_to_controllers();
            self.show_changes();
            self.replica.keep(self.now(), &mut self.server);
        }
        Ok(key)
    }

    /// Takes an object out.
    pub fn delete(&mut self, key: &ObjectKey) -> Result<(), Refusal> {
        self.server.delete(key)
    }

    /// From now on creation times are whole seconds, as an API server has them.
    pub fn create_in_whole_seconds(&mut self) {
        self.server.clock.create_in_whole_seconds();
    }

    /// Where creation times are whole seconds, what is made from now on is younger than what was made before.
    pub fn next_second_of_creation(&mut self) {
        self.server.clock.next_second_of_creation();
    }

    /// Makes a pod anew in place of the one of its name, as old as that one is: what of a pod cannot be changed while
    /// it is there can be changed so. It is how to ask what would happen if it had been made otherwise.
    pub fn replace_pod(&mut self, key: &ObjectKey, pod: Value) -> Result<(), Refusal> {
        self.server.replace_pod(key, pod)
    }

    /// Lets virtual time begin at this moment, in microseconds since the Unix epoch, where it has not come so far yet.
    pub fn begin_at(&mut self, us: i64) {
        self.server.clock.advance_to(us);
    }

    /// Ends a pod.
    pub fn end(&mut self, pod: &ObjectKey, outcome: Outcome) -> Result<(), Refusal> {
        if !self.store().contains(pod) {
            return Err(Refusal::Missing(pod.clone()));
        }
        let phase = match outcome {
            Outcome::Succeeded => "Succeeded",
            Outcome::Failed => "Failed",
        };
        let now = self.now_us();
        self.server.amend(pod, |pod| server::end(pod, phase, now));
        Ok(())
    }

    /// From now on, evicted pods take this long to go.
    pub fn set_eviction_takes(&mut self, takes: Duration) {
        self.server.set_eviction_takes(takes);
    }

    /// The scheduler starts anew and knows only what the objects say.
    pub fn restart(&mut self) {
        self.pass_changes_to_controllers();
        self.replica = Replica::new(&self.setup, self.watched_until_us);
        self.unseen = self.store().iter().map(|(key, _)| Change::Seen(key.clone())).collect();
    }

    /// Now, by both clocks.
    fn now(&self) -> Now {
        Now { tick: self.server.clock.tick(), wall_us: self.server.clock.now_us() }
    }

    /// Lets time pass, and everything happen that is due meanwhile.
    pub fn wait(&mut self, duration: Duration) -> Result<(), Stuck> {
        let end = self.server.clock.after_us(duration);
        self.settle()?;
        while let Some(due) = self.next_due_us().filter(|due| *due < end) {
            self.server.clock.advance_to(due);
            self.server.depart();
            self.settle()?;
        }
        self.server.clock.advance_to(end);
        self.server.depart();
        self.settle()
    }

    /// The next moment at which time alone changes something.
    fn next_due_us(&self) -> Option<i64> {
        // The engine has decided for now already: a wish to be woken now or before is fulfilled.
        let wake = self.replica.next_due().map(Clock::us_of).filter(|wake| *wake > self.now_us());
        self.server.next_departure_us().into_iter().chain(wake).min()
    }

    /// Whether reasons leave out which node comes closest to having room: a copy that is only asked what becomes of a
    /// pod settles several times as fast then.
    pub fn be_brief(&mut self, brief: bool) {
        self.replica.be_brief(brief);
    }

    /// Goes round until nothing changes any more.
    pub fn settle(&mut self) -> Result<(), Stuck> {
        self.settle_with(Budget::default(), usize::MAX, true).map(drop)
    }

    /// The same, unless that takes more than about so many turns of pending pods. Says whether it has settled. Statuses
    /// are left as they are: nothing is decided by them.
    pub fn settle_within(&mut self, turns_max: usize) -> Result<bool, Stuck> {
        const TURNS_AT_ONCE: usize = 32;
        self.settle_with(Budget { pods_max: TURNS_AT_ONCE }, turns_max.div_ceil(TURNS_AT_ONCE), false)
    }

    fn settle_with(&mut self, budget: Budget, decisions_max: usize, tells: bool) -> Result<bool, Stuck> {
        let mut decisions = 0;
        self.reasons = OnceLock::new();
        self.controllers.retry();
        self.replica.retry();
        self.server.depart();
        let mut rounds = Rounds::default();
        loop {
            self.run_controllers(&mut rounds)?;
            if decisions == decisions_max {
                return Ok(false);
            }
            decisions += 1;
            let more = self.decide(budget)?;
            if !more && !self.store().has_changes() {
                self.watched_until_us = Some(self.server.clock.last_us());
                if tells {
                    self.replica.tell(self.now(), &mut self.server);
                }
                self.replica.follow(self.now(), &mut self.server);
                if !self.store().has_changes() {
                    return Ok(true);
                }
            }
            self.count_round(&mut rounds)?;
        }
    }

    /// Lets all controllers do what follows from what changed: first those of every cluster, then the scheduler's own.
    fn run_controllers(&mut self, rounds: &mut Rounds) -> Result<(), Stuck> {
        loop {
            self.pass_changes_to_controllers();
            if self.controllers.have_work() {
                self.controllers.run(&mut self.server);
            } else {
                self.show_changes();
                self.replica.follow(self.now(), &mut self.server);
                if !self.store().has_changes() {
                    return Ok(());
                }
            }
            self.count_round(rounds)?;
        }
    }

    fn rounds_limit(&self) -> usize {
        let things: usize = self
            .store()
            .iter()
            .map(|(_, object)| {
                let replicas = field::integer(object, "/spec/replicas").and_then(|count| usize::try_from(count).ok());
                1 + replicas.unwrap_or(0)
            })
            .sum();
        ROUNDS_MIN + ROUNDS_PER_OBJECT * things
    }

    fn count_round(&self, rounds: &mut Rounds) -> Result<(), Stuck> {
        rounds.done += 1;
        if rounds.done < ROUNDS_MIN || rounds.done < *rounds.limit.get_or_insert_with(|| self.rounds_limit()) {
            return Ok(());
        }
        let changed: BTreeSet<&ObjectKey> = self.last_changed.iter().collect();
        let mut named: Vec<String> = changed.iter().take(NAMED_MAX).map(ToString::to_string).collect();
        if changed.len() > NAMED_MAX {
            named.push(format!("and {} more", changed.len() - NAMED_MAX));
        }
        Err(Stuck::Unsettled { rounds: rounds.done, changing: named.join(", ") })
    }

    fn pass_changes_to_controllers(&mut self) {
        let changes = self.server.take_changes();
        if !changes.is_empty() {
            self.last_changed = changes.iter().map(|change| change.key().clone()).collect();
        }
        for change in changes {
            self.controllers.note(&change, self.server.store());
            self.unseen.push(change);
        }
    }

    /// Shows the scheduler what changed, in order; an object that changed twice is shown once, as it is now.
    fn show_changes(&mut self) {
        if self.unseen.is_empty() {
            return;
        }
        let (now, mut shown) = (self.now(), FxHashSet::default());
        for change in std::mem::take(&mut self.unseen) {
            match &change {
                Change::Seen(key) if !shown.insert(key.clone()) => continue,
                Change::Seen(key) => {
                    if !self.lost.is_empty() && self.store().get(key).is_some_and(|pod| !server::is_leaving(pod)) {
                        self.lost.remove(key);
                    }
                }
                Change::Gone(key, _) => {
                    shown.remove(key);
                }
            }
            self.replica.see(now, &change, self.server.store());
        }
        // What writes wait for may be among it.
        self.replica.hurry(now);
        self.note_done();
    }

    /// Keeps what the scheduler did and found.
    fn note_done(&mut self) {
        self.replica.take_happened().into_iter().for_each(|done| self.happened.add(done));
    }

    /// Lets the scheduler decide, and its writes happen; says whether there is more to decide.
    fn decide(&mut self, budget: Budget) -> Result<bool, Stuck> {
        let (writes, happened, more) = self.replica.decide(self.now(), budget);
        if cfg!(debug_assertions) {
            self.replica.engine().check_invariants().map_err(Stuck::Invariant)?;
        }
        self.record_round(&happened);
        for done in happened {
            if let Done::Evicted { pod, .. } = &done {
                let key = ObjectKey::pod(&pod.namespace, &pod.name);
                let owner = self.store().get(&key).and_then(|pod| field::controller(pod));
                if owner.is_none_or(|owner| !self.store().contains(&owner)) {
                    self.lost.insert(key);
                }
            }
            self.happened.add(done);
        }
        self.replica.write(self.now(), writes, &mut self.server);
        Ok(more)
    }
}

/// How often a cluster went round, and how often it may.
#[derive(Debug, Default)]
struct Rounds {
    done: usize,
    /// Known once it matters: to count what there is takes longer than most clusters take to settle.
    limit: Option<usize>,
}

/// How a pod can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Succeeded,
    Failed,
}

/// Whether a pod is on a node, and neither ended nor leaving.
pub fn is_bound(pod: &Value) -> bool {
    field::text(pod, "/spec/nodeName").is_some() && !is_over(pod) && !server::is_leaving(pod)
}

/// Whether a pod waits for a node.
pub fn is_pending(pod: &Value) -> bool {
    field::text(pod, "/spec/nodeName").is_none() && !is_over(pod) && !server::is_leaving(pod)
}
