//! A virtual cluster: the real engine and the real translation around objects in memory.
//!
//! ```text
//!   objects ──changes──▶ controllers ──▶ objects        until nobody has anything to do
//!      │
//!      └──changes──▶ translator ──facts──▶ engine ──decisions──▶ objects
//! ```
//!
//! A cluster *settles*: this goes round until nothing changes any more. Time stands still meanwhile;
//! it passes only by [`Cluster::wait`], which stops at every moment at which something is due.

mod queues;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use quotient_api::{
    Configuration, ObjectKey, Problem, Translation, Translator, elastic, kinds, preemption_message, time, tree, volcano,
};
use quotient_engine::fact::{Name, PodKey};
use quotient_engine::{Budget, ClaimBinding, Code, Decision, Engine, Fact, Reason, Tick};
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::controllers::{Controllers, volume};
use crate::field;
use crate::quota_names::{self, QuotaNames};
use crate::report::{Bound, Evicted, NodeState, PodPhase, PodReport, QuotaReport, ReasonReport};
use crate::server::{self, EVENT, Refusal, Rejected, Server, is_over};
use crate::store::{Change, Store};

/// Rounds that a cluster may take to settle. In a round everything moves that can, so what takes many
/// rounds is what moves one after another: pods of a StatefulSet, steps of a rollout, evictions that
/// lead to evictions. Each object that is there, and each replica that is wanted, may take a few (made,
/// held, nominated, bound, its status told). What is made on the way does not add to it: a cluster that
/// goes in circles makes objects without end.
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

/// What happened since it was last asked for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Happened {
    pub bound: Vec<Bound>,
    pub evicted: Vec<Evicted>,
    pub rejected: Vec<Rejected>,
    pub problems: Vec<Problem>,
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
    translator: Translator,
    engine: Engine,
    /// Why pods wait as things stand now, once somebody asks: what the engine said of a pod may be a while ago.
    reasons: OnceCell<BTreeMap<PodKey, Arc<Reason>>>,
    /// When time alone makes the engine decide something.
    wake_at: Option<Tick>,
    /// Changes that the engine was not told yet.
    untold: Vec<Change>,
    /// What changed last, for whoever asks what does not come to rest.
    last_changed: BTreeSet<ObjectKey>,
    /// What is wrong with each object, so that it is said once and not with every change.
    problems: BTreeMap<ObjectKey, Vec<Problem>>,
    /// Pods that were evicted and that nobody makes anew.
    lost: BTreeSet<ObjectKey>,
    happened: Happened,
}

impl Cluster {
    /// An empty cluster.
    pub fn new(setup: Setup) -> Self {
        let (engine, translator) = (engine(&setup), translator(&setup));
        Cluster {
            server: Server::new(&setup.configuration),
            controllers: Controllers::new(&setup.configuration),
            setup,
            translator,
            engine,
            reasons: OnceCell::new(),
            wake_at: None,
            untold: Vec::new(),
            last_changed: BTreeSet::new(),
            problems: BTreeMap::new(),
            lost: BTreeSet::new(),
            happened: Happened::default(),
        }
    }

    /// The objects as they are.
    pub fn store(&self) -> &Store {
        self.server.store()
    }

    /// The engine as it is.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Virtual time, in microseconds since the Unix epoch.
    pub fn now_us(&self) -> i64 {
        self.server.clock.now_us()
    }

    /// The events about an object: reasons and messages.
    pub fn events<'a>(&'a self, about: &'a ObjectKey) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.server.events(about)
    }

    /// What happened since this was last asked, each list by namespace and name.
    pub fn take_happened(&mut self) -> Happened {
        let mut happened = std::mem::take(&mut self.happened);
        happened.rejected = self.server.take_rejected();
        happened.problems.extend(self.server.take_warnings());
        happened.problems.extend(self.controllers.take_problems());
        happened.bound.sort();
        happened.evicted.sort();
        happened.rejected.sort();
        happened
    }

    /// Makes or replaces an object.
    pub fn apply(&mut self, object: Value) -> Result<ObjectKey, Refusal> {
        let key = self.server.apply(object)?;
        // A tree is there as soon as its profile is, so that quotas below it can be applied next.
        if tree::is_profile(&key) {
            self.pass_changes_to_controllers();
            self.controllers.keep_roots(&mut self.server);
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

    /// Makes a pod anew in place of the one of its name, as old as that one is: what of a pod cannot be changed while it
    /// is there can be changed so. It is how to ask what would happen if it had been made otherwise.
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
        self.untold.clear();
        self.engine = engine(&self.setup);
        self.translator = translator(&self.setup);
        self.wake_at = None;
        self.untold = self.store().iter().map(|(key, _)| Change::Seen(key.clone())).collect();
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
        let wake = self.wake_at.map(Clock::us_of).filter(|wake| *wake > self.now_us());
        self.server.next_departure_us().into_iter().chain(wake).min()
    }

    /// Goes round until nothing changes any more.
    pub fn settle(&mut self) -> Result<(), Stuck> {
        self.reasons = OnceCell::new();
        self.controllers.retry();
        self.server.depart();
        let mut rounds = Rounds { done: 0, limit: self.rounds_limit() };
        loop {
            self.run_controllers(&mut rounds)?;
            self.tell_engine();
            let more = self.decide()?;
            if !more && !self.store().has_changes() && !self.controllers.have_work() && !self.write_quota_status() {
                return Ok(());
            }
            self.count_round(&mut rounds)?;
        }
    }

    fn run_controllers(&mut self, rounds: &mut Rounds) -> Result<(), Stuck> {
        loop {
            self.pass_changes_to_controllers();
            if !self.controllers.have_work() {
                return Ok(());
            }
            self.controllers.run(&mut self.server);
            self.count_round(rounds)?;
        }
    }

    fn rounds_limit(&self) -> usize {
        let things: usize = self
            .store()
            .iter()
            .filter(|(key, _)| key.kind != EVENT)
            .map(|(_, object)| {
                let replicas = field::integer(object, "/spec/replicas").and_then(|count| usize::try_from(count).ok());
                1 + replicas.unwrap_or(0)
            })
            .sum();
        ROUNDS_MIN + ROUNDS_PER_OBJECT * things
    }

    fn count_round(&self, rounds: &mut Rounds) -> Result<(), Stuck> {
        rounds.done += 1;
        if rounds.done < rounds.limit {
            return Ok(());
        }
        let mut named: Vec<String> = self.last_changed.iter().take(NAMED_MAX).map(ToString::to_string).collect();
        if self.last_changed.len() > NAMED_MAX {
            named.push(format!("and {} more", self.last_changed.len() - NAMED_MAX));
        }
        Err(Stuck::Unsettled { rounds: rounds.done, changing: named.join(", ") })
    }

    fn pass_changes_to_controllers(&mut self) {
        let changes = self.server.take_changes();
        // Events tell of what changes; they are not what does.
        let changed = || changes.iter().map(Change::key).filter(|key| key.kind != EVENT);
        if changed().next().is_some() {
            self.last_changed = changed().cloned().collect();
        }
        for change in changes {
            self.controllers.note(&change, self.server.store());
            self.untold.push(change);
        }
    }

    /// Tells the engine what changed, in order.
    fn tell_engine(&mut self) {
        let now = self.server.clock.tick();
        for change in std::mem::take(&mut self.untold) {
            // Events are for people.
            if change.key().kind == EVENT {
                continue;
            }
            let translation = match &change {
                Change::Gone(key, _) => self.translator.remove(key),
                Change::Seen(key) => match self.server.store().get(key) {
                    Some(object) => self.translator.upsert(object),
                    // It went again meanwhile, which is told next.
                    None => continue,
                },
            };
            let Translation { facts, problems, elsewhere } = translation;
            for fact in facts {
                self.engine.observe(now, fact);
            }
            self.note_problems(change.key(), problems);
            for (key, problems) in elsewhere {
                // What goes with this very change is not worth a word.
                if self.store().contains(&key) {
                    self.note_problems(&key, problems);
                }
            }
            if let Change::Seen(key) = &change
                && self.server.store().get(key).is_some_and(|pod| !server::is_leaving(pod))
            {
                self.lost.remove(key);
            }
        }
    }

    /// Keeps what is wrong with an object; what was said of it before is not said again.
    fn note_problems(&mut self, key: &ObjectKey, problems: Vec<Problem>) {
        if problems.is_empty() {
            self.problems.remove(key);
            return;
        }
        let known = self.problems.get(key).map_or(&[][..], Vec::as_slice);
        self.happened.problems.extend(problems.iter().filter(|problem| !known.contains(problem)).cloned());
        self.problems.insert(key.clone(), problems);
    }

    /// Lets the engine decide and carries it out; says whether there is more to decide.
    fn decide(&mut self) -> Result<bool, Stuck> {
        let now = self.server.clock.tick();
        let decisions = self.engine.decide(now, Budget::default());
        if cfg!(debug_assertions) {
            self.engine.check_invariants().map_err(Stuck::Invariant)?;
        }
        for decision in decisions.list {
            self.carry_out(decision);
        }
        self.wake_at = decisions.wake_at;
        Ok(decisions.more)
    }

    fn carry_out(&mut self, decision: Decision) {
        let now = self.server.clock.tick();
        match decision {
            Decision::Bind { pod, uid, node, claims } => {
                if self.bind(&pod, &uid, &node, &claims).is_none() {
                    self.engine.observe(now, Fact::BindFailed { pod, uid });
                }
            }
            Decision::Evict { pod, uid, node, claimant, rule, violates_budget: _, message } => {
                let evicted = Evicted {
                    namespace: pod.namespace.to_string(),
                    name: pod.name.to_string(),
                    node: node.to_string(),
                    claimant: claimant.as_ref().map(ToString::to_string),
                    rule: rule.name().to_string(),
                    message,
                };
                if self.evict(&pod, &uid, claimant.as_ref(), evicted).is_none() {
                    self.engine.observe(now, Fact::EvictFailed { pod, uid });
                }
            }
            Decision::Nominate { pod, uid, node } => {
                let Some(key) = self.same_pod(&pod, &uid) else { return };
                self.server.amend(&key, |pod| match &node {
                    Some(node) => field::put(pod, &["status", "nominatedNodeName"], json!(**node)),
                    None => {
                        field::remove(pod, &["status", "nominatedNodeName"]);
                    }
                });
            }
            Decision::Mark { pod, uid, group, capacity } => {
                let Some(key) = self.same_pod(&pod, &uid) else { return };
                let label = format!("{group}/capacity");
                self.server.amend(&key, |pod| match capacity {
                    Some(capacity) => field::put(pod, &["metadata", "labels", &label], json!(capacity.name())),
                    None => {
                        field::remove(pod, &["metadata", "labels", &label]);
                    }
                });
            }
            Decision::Admit { namespace, name } => {
                let key = ObjectKey::pod_group(&namespace, &name);
                self.server.amend(&key, |group| field::put(group, &["status", "phase"], json!("Inqueue")));
            }
            Decision::Hold { pod, uid, reason } => self.hold(&pod, &uid, &reason),
        }
    }

    /// Writes what each quota's pods hold into its status, and says whether anything changed. The engine is not told of
    /// statuses, so that this changes no decision.
    fn write_quota_status(&mut self) -> bool {
        let all = self.engine.quotas();
        let reports: BTreeMap<ObjectKey, &quotient_engine::QuotaReport> =
            all.iter().filter_map(|report| Some((elastic::object_key(&report.key)?, report))).collect();
        let mut statuses = Vec::new();
        for kind in kinds::KINDS.iter().filter(|kind| matches!(kind.kind, elastic::PLAIN | elastic::COMPOSITE)) {
            let objects = self.store().of_kind(kind.group, kind.kind, None).filter(|(key, _)| elastic::is_elastic(key));
            statuses.extend(
                objects.map(|(key, object)| (key.clone(), elastic::status::status(object, reports.get(key).copied()))),
            );
        }
        let mut changed = false;
        for (key, fields) in statuses {
            changed |= self.server.amend(&key, |object| {
                for (name, value) in fields {
                    field::put(object, &["status", name], value);
                }
            });
        }
        changed | self.write_tree_status(&all) | self.write_queue_status(&all)
    }

    /// The same for quotas of trees.
    fn write_tree_status(&mut self, reports: &[quotient_engine::QuotaReport]) -> bool {
        let quotas: Vec<ObjectKey> =
            self.store().of_kind(tree::GROUP, tree::QUOTA, None).map(|(key, _)| key.clone()).collect();
        if quotas.is_empty() {
            return false;
        }
        let held = tree::status::held(reports);
        let reports: BTreeMap<ObjectKey, &quotient_engine::QuotaReport> =
            reports.iter().filter_map(|report| Some((elastic::object_key(&report.key)?, report))).collect();
        let now = time::format_timestamp(self.now_us());
        let mut changed = false;
        for key in quotas.iter().filter(|key| &*key.name != tree::ROOT) {
            let report = reports.get(key).copied();
            let held = report.and_then(|report| held.get(&report.key));
            changed |= self.server.amend(key, |quota| tree::status::write(quota, report, held, &now));
        }
        changed
    }

    /// The pod's key, if it is still the one that was decided about.
    fn same_pod(&self, pod: &PodKey, uid: &Name) -> Option<ObjectKey> {
        let key = ObjectKey::pod(&pod.namespace, &pod.name);
        let object = self.store().get(&key)?;
        (field::text(object, "/metadata/uid") == Some(uid)).then_some(key)
    }

    /// Binds a pod, its claims first; it runs at once.
    fn bind(&mut self, pod: &PodKey, uid: &Name, node: &Name, claims: &[ClaimBinding]) -> Option<()> {
        let key = self.same_pod(pod, uid)?;
        if !self.store().contains(&ObjectKey::node(node)) {
            return None;
        }
        for claim in claims {
            match claim {
                ClaimBinding::Volume { claim, volume } => {
                    volume::bind(&mut self.server, &volume::claim_key(&pod.namespace, claim), volume);
                }
                ClaimBinding::Provision { claim } => {
                    volume::provision(&mut self.server, &volume::claim_key(&pod.namespace, claim), Some(node));
                }
            }
        }
        let now = self.now_us();
        self.server.amend(&key, |pod| {
            field::put(pod, &["spec", "nodeName"], json!(**node));
            field::remove(pod, &["status", "nominatedNodeName"]);
            server::run(pod, now);
        });
        self.server.event(&key, "Normal", "Scheduled", &format!("Successfully assigned {pod} to {node}"));
        self.happened.bound.push(Bound {
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            node: node.to_string(),
        });
        Some(())
    }

    /// Marks a pod as a victim, and sends it away.
    fn evict(&mut self, pod: &PodKey, uid: &Name, claimant: Option<&PodKey>, evicted: Evicted) -> Option<()> {
        let key = self.same_pod(pod, uid)?;
        let (reason, message) = match claimant {
            Some(claimant) => ("PreemptionByScheduler", preemption_message(claimant)),
            None => ("EvictionByEvictionAPI", evicted.message.clone()),
        };
        let now = json!(time::format_timestamp(self.now_us()));
        self.server.amend(&key, |pod| {
            let fields = [
                ("status", json!("True")),
                ("reason", json!(reason)),
                ("message", json!(message)),
                ("lastTransitionTime", now),
            ];
            field::set_condition(pod, "DisruptionTarget", &fields);
        });
        let event = match claimant {
            Some(claimant) => format!("Preempted by {claimant} ({}): {}", evicted.rule, evicted.message),
            None => format!("Evicted ({}): {}", evicted.rule, evicted.message),
        };
        self.server.event(&key, "Normal", "Preempted", &event);
        let owner = self.store().get(&key).and_then(|pod| field::controller(pod));
        if owner.is_none_or(|owner| !self.store().contains(&owner)) {
            self.lost.insert(key.clone());
        }
        self.server.evict(&key);
        self.happened.evicted.push(evicted);
        Some(())
    }

    /// Says on the pod why it waits.
    fn hold(&mut self, pod: &PodKey, uid: &Name, reason: &Reason) {
        let Some(key) = self.same_pod(pod, uid) else { return };
        let short = match reason.code {
            Code::SchedulingGated => "SchedulingGated",
            _ => "Unschedulable",
        };
        self.server.amend(&key, |pod| {
            let fields = [("status", json!("False")), ("reason", json!(short)), ("message", json!(reason.message))];
            field::set_condition(pod, "PodScheduled", &fields);
        });
        if reason.code != Code::SchedulingGated {
            self.server.event(&key, "Warning", "FailedScheduling", &reason.message);
        }
        let further = self.store().get(&key).and_then(|pod| volcano::events::of_pod(pod, reason));
        if let Some(further) = further {
            self.server.event(&key, "Warning", further, &reason.message);
        }
    }

    /// Why a pod waits, if it does, in a cluster that has settled.
    pub fn reason(&self, pod: &ObjectKey) -> Option<Arc<Reason>> {
        let namespace = pod.namespace.clone()?;
        let reasons = self.reasons.get_or_init(|| self.engine.reasons_now());
        reasons.get(&PodKey { namespace, name: pod.name.clone() }).cloned()
    }

    /// All pods, by namespace and name; those that were evicted and have nobody to make them anew too.
    pub fn pods(&self) -> Vec<PodReport> {
        let names = QuotaNames::of(&self.engine.quotas());
        let mut pods: BTreeMap<&ObjectKey, PodReport> = BTreeMap::new();
        for key in &self.lost {
            pods.insert(key, pod_report(key, PodPhase::Evicted));
        }
        for (key, pod) in self.store().pods() {
            let node = field::text(pod, "/spec/nodeName").map(str::to_string);
            let phase = match field::text(pod, "/status/phase") {
                Some("Succeeded") => PodPhase::Succeeded,
                Some("Failed") => PodPhase::Failed,
                _ if node.is_some() => PodPhase::Running,
                _ => PodPhase::Pending,
            };
            let reason = match phase {
                PodPhase::Pending => self.reason(key).map(|reason| ReasonReport::from(&*reason)),
                _ => None,
            };
            let pod = PodKey { namespace: key.namespace.clone().unwrap_or_default(), name: key.name.clone() };
            let quotas = self.engine.quotas_of(&pod);
            let quotas = quotas.iter().filter_map(elastic::object_key).map(|key| names.shown(&key)).collect();
            let capacity = self.engine.capacity(&pod).map(|(_, capacity)| capacity.name().to_string());
            pods.insert(key, PodReport { node, reason, quotas, capacity, ..pod_report(key, phase) });
        }
        pods.into_values().collect()
    }

    /// All quotas, by namespace and name.
    pub fn quotas(&self) -> Vec<QuotaReport> {
        self.keyed_quotas().into_iter().map(|(_, report)| report).collect()
    }

    /// All quotas with their keys, by namespace and name.
    pub fn keyed_quotas(&self) -> Vec<(ObjectKey, QuotaReport)> {
        quota_names::keyed_quotas(&self.engine.quotas())
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> Vec<NodeState> {
        let mut nodes: Vec<NodeState> = self.engine.nodes().iter().map(NodeState::from).collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        nodes
    }
}

/// How often a cluster went round, and how often it may.
#[derive(Debug)]
struct Rounds {
    done: usize,
    limit: usize,
}

/// How a pod can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Succeeded,
    Failed,
}

fn pod_report(key: &ObjectKey, phase: PodPhase) -> PodReport {
    PodReport {
        namespace: key.namespace.as_deref().unwrap_or_default().to_string(),
        name: key.name.to_string(),
        phase,
        node: None,
        capacity: None,
        quotas: Vec::new(),
        reason: None,
    }
}

fn engine(setup: &Setup) -> Engine {
    Engine::new(setup.configuration.engine_settings())
}

fn translator(setup: &Setup) -> Translator {
    Translator::new(setup.configuration.translator_settings(setup.scheduler_names.clone()))
}

/// Whether a pod is on a node, and neither ended nor leaving.
pub fn is_bound(pod: &Value) -> bool {
    field::text(pod, "/spec/nodeName").is_some() && !is_over(pod) && !server::is_leaving(pod)
}

/// Whether a pod waits for a node.
pub fn is_pending(pod: &Value) -> bool {
    field::text(pod, "/spec/nodeName").is_none() && !is_over(pod) && !server::is_leaving(pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_does_not_settle_says_what_changes() {
        let mut cluster = Cluster::new(Setup::default());
        for name in ["a", "b", "c", "d", "e", "f"] {
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "x"},
                "spec": {"containers": [{"name": "c", "image": "i"}]}});
            cluster.apply(pod).expect("it is a pod");
        }
        cluster.pass_changes_to_controllers();
        let mut rounds = Rounds { done: 0, limit: cluster.rounds_limit() };
        let stuck = loop {
            if let Err(stuck) = cluster.count_round(&mut rounds) {
                break stuck;
            }
        };
        let text = stuck.to_string();
        assert!(text.contains("these still change: Namespace/x, Pod/x/a, Pod/x/b"), "{text}");
        assert!(text.ends_with("and 2 more"), "{text}");
    }

    #[test]
    fn an_evicted_bare_pod_is_listed_while_it_leaves_and_after() {
        let pod = |name: &str, priority: i32| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "x"},
                "spec": {"priority": priority, "containers": [
                    {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}})
        };
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
            "status": {"allocatable": {"cpu": "1", "pods": "10"}}});
        let mut cluster = Cluster::new(Setup::default());
        cluster.set_eviction_takes(Duration::from_secs(1));
        for object in [node, pod("low", 0), pod("high", 1)] {
            cluster.apply(object).expect("it is an object");
            cluster.settle().expect("it settles");
        }
        let phase = |cluster: &Cluster| cluster.pods().iter().find(|pod| pod.name == "low").map(|pod| pod.phase);
        assert_eq!(phase(&cluster), Some(PodPhase::Running));
        cluster.wait(Duration::from_secs(1)).expect("it settles");
        assert_eq!(phase(&cluster), Some(PodPhase::Evicted));
    }
}
