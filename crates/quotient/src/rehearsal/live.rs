//! One scenario on a real API server: what a step does to it, and how it stands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use quotient_api::{Kind, ObjectKey, guarded_kinds, key_of, kinds};
use quotient_cluster::rehearsal::{Conductor, Ended, Figures, Standing, rehearsal};
use quotient_cluster::{LiveSettings, rehearse};
use quotient_engine::fact::PodKey;
use quotient_engine::{Reason, Tick};
use quotient_host::objects::{SharedObjects, watched_kinds};
use quotient_host::subject::Subject as Watched;
use quotient_sim::clock::Clock;
use quotient_sim::cluster::{Happened, Outcome};
use quotient_sim::quota_names::keyed_quotas;
use quotient_sim::report::{NodeState, QuotaReport};
use quotient_sim::server::{Rejected, end, is_leaving, is_pod, replacement};
use quotient_sim::{Observed, Scenario, Subject, Trouble};
use serde_json::{Map, Value, json};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::calm;
use super::clean::is_labelled;
use super::fit::{FINALIZER, Fitting, LABEL};
use super::provision::provision;
use super::server::{Answer, Manner, Objects, Server};

/// How long a cluster may take to settle. It takes less than a second; the rest is for machines that do much else.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

/// How long it may take until an object can be stored that others change at the same time.
const STORED_WITHIN: Duration = Duration::from_secs(10);

/// How often it is looked whether a cluster has settled.
const LOOK_EVERY: Duration = Duration::from_millis(15);

/// How often it is looked whether the scheduler has seen something.
const SEEN_EVERY: Duration = Duration::from_millis(2);

/// How long nothing may change before a cluster counts as settled where controllers are at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Enough for controllers on a machine that does little else.
    Usual,
    /// Enough for those on a machine that has much else to do.
    Long,
}

impl Patience {
    fn quiet(self) -> Duration {
        match self {
            Patience::Usual => Duration::from_millis(200),
            Patience::Long => Duration::from_secs(3),
        }
    }
}

/// A real cluster with a scheduler of its own.
#[derive(Debug)]
pub struct Live<'a> {
    runtime: &'a Handle,
    server: &'a Server,
    conductor: Conductor,
    /// Ends the scheduler when it is dropped.
    _stop: oneshot::Sender<()>,
    scheduler: Option<JoinHandle<()>>,
    fitting: Fitting,
    namespaces: BTreeSet<String>,
    classes: BTreeSet<String>,
    /// The kinds that matter to this scenario.
    kinds: BTreeSet<&'static Kind>,
    wants_events: bool,
    /// Objects as the scenario gave them last.
    given: BTreeMap<ObjectKey, Value>,
    is_held: bool,
    patience: Patience,
    /// What was stored and may not have been seen by the scheduler, with its version.
    fresh: Vec<(ObjectKey, String)>,
    /// A kind whose objects make our controllers write what other objects depend on.
    stirred: Option<&'static Kind>,
    eviction_takes: Duration,
    /// When pods that are leaving will be gone, in milliseconds of the scheduler's time.
    departures: BTreeMap<ObjectKey, u64>,
    rejected: Vec<Rejected>,
    /// How it stood when last it settled.
    objects: Objects,
    events: Vec<Value>,
    figures: Figures,
    wakes_at: Option<Tick>,
}

/// The counts in the status of a workload.
const COUNTS: [&str; 7] =
    ["replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "succeeded", "failed", "active"];

/// Always of interest: what the scheduler decides about, and what it makes by itself.
const ALWAYS: &[(&str, &str)] = &[("", "Pod"), ("", "Node"), ("scheduling.volcano.sh", "Queue")];

/// What comes with objects of a kind.
fn companions(kind: &Kind) -> &'static [(&'static str, &'static str)] {
    match (kind.group, kind.kind) {
        ("apps", "Deployment") => &[("apps", "ReplicaSet")],
        ("batch.volcano.sh", "Job") => &[("scheduling.volcano.sh", "PodGroup")],
        ("quota.koordinator.sh", "ElasticQuotaProfile") => &[("scheduling.sigs.k8s.io", "ElasticQuota")],
        ("", "PersistentVolumeClaim" | "PersistentVolume") => {
            &[("", "PersistentVolume"), ("", "PersistentVolumeClaim"), ("storage.k8s.io", "StorageClass")]
        }
        ("resource.k8s.io", "ResourceClaimTemplate" | "DeviceClass") => &[("resource.k8s.io", "ResourceClaim")],
        ("apps", "StatefulSet") => {
            &[("", "PersistentVolume"), ("", "PersistentVolumeClaim"), ("storage.k8s.io", "StorageClass")]
        }
        _ => &[],
    }
}

impl<'a> Live<'a> {
    /// Starts a scheduler with the scenario's configuration on a cluster that is empty.
    pub fn start(
        runtime: &'a Handle,
        server: &'a Server,
        objects: &SharedObjects,
        scenario: &Scenario,
        patience: Patience,
    ) -> Self {
        let (conductor, rehearsal) = rehearsal(Clock::default().tick());
        let (stop, stopped) = oneshot::channel::<()>();
        // In a virtual cluster every pod is the scheduler's, whatever scheduler it names.
        let mut configuration = scenario.configuration.clone();
        let applied = scenario.steps.iter().flat_map(|step| &step.apply);
        applied.for_each(|object| scheduler_names(object, &mut configuration.scheduler_names));
        let settings = LiveSettings {
            configuration,
            lease: None,
            shadow: false,
            scheduler: true,
            controllers: true,
            objects: objects.clone(),
        };
        let stopped = async {
            let _ = stopped.await;
        };
        let scheduler = runtime.spawn(rehearse(server.clients.clone(), settings, rehearsal, stopped));
        let mut live = Live {
            runtime,
            server,
            conductor,
            _stop: stop,
            scheduler: Some(scheduler),
            fitting: Fitting {
                scheduler_name: scenario.configuration.scheduler_names.first().cloned().unwrap_or_default(),
                evictions_take: scenario.steps.iter().any(|step| step.eviction_takes.is_some()),
            },
            namespaces: BTreeSet::new(),
            classes: BTreeSet::new(),
            kinds: BTreeSet::new(),
            wants_events: scenario.steps.iter().any(|step| !step.expect.events.is_empty()),
            given: BTreeMap::new(),
            is_held: false,
            patience,
            fresh: Vec::new(),
            stirred: None,
            eviction_takes: Duration::ZERO,
            departures: BTreeMap::new(),
            rejected: Vec::new(),
            objects: Objects::new(),
            events: Vec::new(),
            figures: Figures::default(),
            wakes_at: None,
        };
        for (group, kind) in ALWAYS {
            live.kinds.extend(kinds::find(group, kind));
        }
        for key in keys_of(scenario) {
            live.heed(key.kind_entry());
        }
        live
    }

    /// Forgets the events of earlier scenarios, where this one asks for events.
    pub fn forget_events(&self) -> Result<(), Trouble> {
        if !self.wants_events {
            return Ok(());
        }
        let namespaces = self.await_that(self.server.look(kinds::find("", "Namespace")))?;
        for (key, _) in namespaces.iter().filter(|(_, namespace)| is_labelled(namespace)) {
            self.await_that(self.server.delete_events(&key.name))?;
        }
        Ok(())
    }

    /// The kinds of which there may be objects now.
    pub fn kinds(&self) -> BTreeSet<&'static Kind> {
        self.kinds.clone()
    }

    /// Looks at objects of this kind from now on.
    fn heed(&mut self, kind: Option<&'static Kind>) {
        if let Some(kind) = kind.filter(|kind| kind.group != "quotient.dev") {
            self.kinds.insert(kind);
            self.kinds.extend(companions(kind).iter().filter_map(|(group, kind)| kinds::find(group, kind)));
        }
    }

    fn await_that<T>(&self, future: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
        self.runtime.block_on(future)
    }

    fn ask<T>(&self, future: impl Future<Output = Result<T, Ended>>) -> Result<T, Trouble> {
        self.runtime.block_on(future).map_err(|ended| Trouble::Stuck(ended.to_string()))
    }

    /// Nothing is decided until the cluster settles.
    fn hold(&mut self) -> Result<(), Trouble> {
        if !self.is_held {
            self.ask(self.conductor.hold(true))?;
            self.is_held = true;
            self.await_standing("it has not seen everything yet", |standing| standing.is_listed)?;
        }
        Ok(())
    }

    /// Waits until the scheduler has begun to know what there is.
    pub fn begin(&mut self) -> Result<(), Trouble> {
        self.await_standing("it has not seen everything yet", |standing| standing.is_listed)
    }

    fn await_standing(&self, why: &str, so: impl Fn(&Standing) -> bool) -> Result<(), Trouble> {
        let begun = Instant::now();
        while !so(&self.ask(self.conductor.standing())?) {
            if begun.elapsed() > SETTLED_WITHIN {
                return Err(Trouble::Stuck(format!("the scheduler: after {} s {why}", SETTLED_WITHIN.as_secs())));
            }
            std::thread::sleep(SEEN_EVERY);
        }
        Ok(())
    }

    /// Waits until whoever is asked about the next object knows of those before it. A virtual cluster's admission knows
    /// at once.
    fn catch_up(&mut self, next: &ObjectKey) -> Result<(), Trouble> {
        if self.stirred.is_some() && self.stirred != next.kind_entry() {
            self.come_to_rest(Then::Stay)?;
            self.stirred = None;
            self.fresh.clear();
        }
        let matters = |known: &ObjectKey| !(is_pod(known) && is_pod(next));
        if is_asked_about(next) && self.fresh.iter().any(|(key, _)| matters(key)) {
            let fresh = std::mem::take(&mut self.fresh);
            let is_seen = |standing: &Standing, (key, version): &(ObjectKey, String)| {
                let subject = Watched::Kind(key.kind_entry()?);
                let seen: u64 = standing.versions.get(&(subject, key.clone()))?.parse().ok()?;
                Some(seen >= version.parse().ok()?)
            };
            self.await_standing("it has not seen what was applied", |standing| {
                fresh.iter().all(|stored| is_seen(standing, stored) == Some(true))
            })?;
        }
        Ok(())
    }

    /// Notes that an object was stored.
    fn note_stored(&mut self, key: &ObjectKey, stored: &Value) {
        let Some(kind) = key.kind_entry() else { return };
        if watched_kinds().any(|watched| watched == kind)
            && let Some(version) = stored["metadata"]["resourceVersion"].as_str()
        {
            self.fresh.retain(|(known, _)| known != key);
            self.fresh.push((key.clone(), version.to_string()));
        }
        if matches!(kind.group, "quota.koordinator.sh" | "scheduling.sigs.k8s.io") {
            self.stirred = Some(kind);
        }
    }

    /// Makes a namespace that pods can be made in.
    fn ensure_namespace(&mut self, name: &str) -> Result<(), Trouble> {
        if !self.namespaces.insert(name.to_string()) {
            return Ok(());
        }
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {LABEL: "true"}}});
        // A pod needs it; the controller that makes it takes its time.
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": name}});
        for object in [namespace, account] {
            let key = key_of(&object).map_err(|problem| Trouble::Stuck(problem.to_string()))?;
            match self.await_that(self.server.create(&key, &object))? {
                Answer::Done(_) | Answer::Conflict => {}
                other => return Err(Trouble::Stuck(format!("{key} cannot be made: {other:?}"))),
            }
        }
        Ok(())
    }

    fn reject(&mut self, object: &ObjectKey, message: String) {
        let rejected = Rejected { object: object.clone(), message };
        if !self.rejected.contains(&rejected) {
            self.rejected.push(rejected);
        }
    }

    /// Makes the object, or replaces the one that is there; gives what is stored, unless it was rejected.
    fn put(&mut self, key: &ObjectKey, object: &Value) -> Result<Option<Value>, Trouble> {
        let begun = Instant::now();
        let mut is_again = false;
        let answer = loop {
            // An object that is there is not made again: its kind's rules may forbid that before it is noticed.
            let may_be_there = (is_asked_about(key) && !is_pod(key)) || is_again || self.given.contains_key(key);
            let old = if may_be_there { self.await_that(self.server.get(key))? } else { None };
            let answer = match old {
                None => self.await_that(self.server.create(key, object))?,
                Some(old) => {
                    let mut new = replacement(&old, object.clone());
                    if let Some(given) = self.given.get(key).filter(|given| given["spec"].is_object()) {
                        new["spec"] = changed(&old["spec"], &given["spec"], &object["spec"]);
                    }
                    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
                    self.await_that(self.server.replace(key, &new))?
                }
            };
            let again = match &answer {
                Answer::Conflict => true,
                Answer::Rejected(message) => self.names_new_class(object, message),
                Answer::Done(_) | Answer::Missing => false,
            };
            if !again || begun.elapsed() > STORED_WITHIN {
                break answer;
            }
            // One that is there though nobody applied it is replaced.
            if is_again {
                std::thread::sleep(LOOK_EVERY);
            }
            is_again = true;
        };
        match answer {
            Answer::Done(stored) => {
                self.given.insert(key.clone(), object.clone());
                Ok(Some(stored))
            }
            Answer::Rejected(message) => {
                self.reject(key, message);
                Ok(None)
            }
            Answer::Missing => Err(Trouble::NotDone(format!("{key}: the API server has no such kind or namespace"))),
            Answer::Conflict => Err(Trouble::Stuck(format!("{key} changes whenever it is to be replaced"))),
        }
    }

    /// Whether the API server has not noticed yet that the pod's priority class is there.
    fn names_new_class(&self, pod: &Value, message: &str) -> bool {
        let class = pod["spec"]["priorityClassName"].as_str();
        message.contains("no PriorityClass with name") && class.is_some_and(|class| self.classes.contains(class))
    }

    /// Looks at the cluster and the scheduler; says what is still to come, if anything is.
    fn look(&mut self) -> Result<Option<String>, Trouble> {
        // First what the scheduler has seen, then what there is: what it wrote before is in what there is.
        let standing = self.ask(self.conductor.standing())?;
        let is_idle = standing.is_listed && standing.is_written && (standing.is_decided || self.is_held);
        // A bind may wait for a volume, which is ours to make.
        let has_claims = self.kinds.iter().any(|kind| kind.kind == "PersistentVolumeClaim");
        if !is_idle && !has_claims {
            return Ok(Some("the scheduler is at work".to_string()));
        }
        let objects = self.await_that(self.server.look(self.kinds.iter().copied()))?;
        self.wakes_at = standing.wakes_at;
        let departed = self.depart(&objects)?;
        let provisioned = self.await_that(provision(self.server, &objects))?;
        let awaited = match (departed, provisioned) {
            (true, _) => Some("pods whose time has come are leaving".to_string()),
            (_, true) => Some("volumes are made or taken out".to_string()),
            (false, false) => unseen(&standing, &objects, &self.kinds).or_else(|| calm::awaited(&objects)),
        };
        self.objects = objects;
        Ok(awaited.or_else(|| (!is_idle).then(|| "the scheduler is at work".to_string())))
    }

    /// Lets pods go whose time has come; says whether there were any.
    fn depart(&mut self, objects: &Objects) -> Result<bool, Trouble> {
        let now = self.conductor.now().0;
        let takes = u64::try_from(self.eviction_takes.as_millis()).unwrap_or(u64::MAX);
        let mut due = Vec::new();
        let leaving = objects.iter().filter(|(key, pod)| is_pod(key) && is_leaving(pod));
        let mut kept = BTreeMap::new();
        for (key, pod) in leaving {
            if pod["metadata"]["finalizers"].as_array().is_none_or(|list| !list.contains(&json!(FINALIZER))) {
                continue;
            }
            let at = self.departures.get(key).copied().unwrap_or(now.saturating_add(takes));
            match at <= now {
                true => due.push((key.clone(), (**pod).clone())),
                false => drop(kept.insert(key.clone(), at)),
            }
        }
        self.departures = kept;
        for (key, pod) in &due {
            self.let_go(key, pod)?;
        }
        Ok(!due.is_empty())
    }

    /// Takes our finalizer off a pod.
    fn let_go(&self, key: &ObjectKey, pod: &Value) -> Result<(), Trouble> {
        let finalizers = pod["metadata"]["finalizers"].as_array().into_iter().flatten();
        let others: Vec<&Value> = finalizers.filter(|finalizer| *finalizer != FINALIZER).collect();
        self.await_that(self.server.patch(key, None, json!({"metadata": {"finalizers": others}}))).map(drop)
    }

    /// Takes a pod out at once.
    fn remove_pod(&mut self, key: &ObjectKey) -> Result<(), Trouble> {
        if self.fitting.evictions_take
            && let Some(pod) = self.await_that(self.server.get(key))?
        {
            self.let_go(key, &pod)?;
        }
        if let Answer::Rejected(message) = self.await_that(self.server.delete(key, Manner::AtOnce))? {
            self.reject(key, message);
        }
        Ok(())
    }

    /// Waits until everybody has done what there was to do.
    fn come_to_rest(&mut self, then: Then) -> Result<(), Trouble> {
        let begun = Instant::now();
        let mut quiet_since: Option<(Instant, Vec<(ObjectKey, Value)>)> = None;
        loop {
            let awaited = self.look()?;
            if let Some(awaited) = awaited {
                if begun.elapsed() > SETTLED_WITHIN {
                    let seconds = SETTLED_WITHIN.as_secs();
                    return Err(Trouble::Stuck(format!("the cluster does not settle in {seconds} s: {awaited}")));
                }
                quiet_since = None;
            } else {
                let has_workers = calm::has_workers(&self.objects) || self.patience == Patience::Long;
                let quiet = if has_workers { self.patience.quiet() } else { Duration::ZERO };
                let version = |(key, object): (&ObjectKey, &Arc<Value>)| {
                    (key.clone(), object["metadata"]["resourceVersion"].clone())
                };
                let versions: Vec<(ObjectKey, Value)> = self.objects.iter().map(version).collect();
                let since = match &quiet_since {
                    Some((since, known)) if *known == versions => *since,
                    _ => Instant::now(),
                };
                if since.elapsed() >= quiet {
                    if !self.is_held || then == Then::Stay {
                        return Ok(());
                    }
                    self.ask(self.conductor.hold(false))?;
                    self.is_held = false;
                    quiet_since = None;
                    continue;
                }
                quiet_since = Some((since, versions));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn take_figures(&mut self) -> Result<(), Trouble> {
        let mut figures = self.ask(self.conductor.figures())?;
        let mut happened = std::mem::take(&mut self.figures.happened);
        happened.append(&mut figures.happened);
        self.figures = Figures { happened, ..figures };
        Ok(())
    }
}

/// Whether our webhooks are asked about objects of this kind.
fn is_asked_about(key: &ObjectKey) -> bool {
    guarded_kinds().any(|guarded| Some(guarded.kind) == key.kind_entry())
}

/// Adds the schedulers that an object names, anywhere in it.
fn scheduler_names(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(name)) = fields.get("schedulerName")
                && !names.contains(name)
            {
                names.push(name.clone());
            }
            fields.values().for_each(|value| scheduler_names(value, names));
        }
        Value::Array(items) => items.iter().for_each(|value| scheduler_names(value, names)),
        _ => {}
    }
}

/// What is stored, in which is changed what the scenario changes. The API server fills specs in when they are made, and
/// does not let them be emptied again.
fn changed(stored: &Value, before: &Value, now: &Value) -> Value {
    match (stored, before, now) {
        (_, before, now) if before == now => stored.clone(),
        (Value::Object(stored), Value::Object(before), Value::Object(now)) => {
            let mut all = stored.clone();
            for field in before.keys().chain(now.keys()) {
                let part = |of: &Map<String, Value>| of.get(field).cloned().unwrap_or(Value::Null);
                let (old, new) = (part(before), part(now));
                if old != new {
                    all.insert(field.clone(), changed(&part(stored), &old, &new));
                }
            }
            Value::Object(all)
        }
        // Containers and the like, which are known by their names.
        (Value::Array(stored), Value::Array(before), Value::Array(now)) => {
            let named = |list: &[Value], name: &Value| list.iter().find(|item| item["name"] == *name).cloned();
            let item = |now: &Value| match (named(stored, &now["name"]), named(before, &now["name"])) {
                (Some(stored), Some(before)) if now["name"].is_string() => changed(&stored, &before, now),
                _ => now.clone(),
            };
            now.iter().map(item).collect()
        }
        (_, _, now) => now.clone(),
    }
}

/// What follows when everybody has done what there was to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The scheduler decides, if it was held, until nobody has anything to do.
    GoOn,
    /// The scheduler stays as it is.
    Stay,
}

/// All objects that a scenario names.
fn keys_of(scenario: &Scenario) -> Vec<ObjectKey> {
    let mut keys = Vec::new();
    for step in &scenario.steps {
        keys.extend(step.apply.iter().filter_map(|object| key_of(object).ok()));
        keys.extend(step.delete.iter().flat_map(|target| target.keys.clone()));
        let expect = &step.expect;
        let targets = expect.quotas.iter().map(|(target, _)| target);
        let targets = targets.chain(expect.objects.iter().map(|(target, _)| target));
        keys.extend(targets.flat_map(|target| target.keys.clone()));
    }
    keys
}

/// An object that the scheduler has not seen as it is now, in words.
fn unseen(standing: &Standing, objects: &Objects, kinds: &BTreeSet<&'static Kind>) -> Option<String> {
    for subject in standing.subjects.iter().filter(|subject| kinds.contains(subject.kind())) {
        for (key, object) in objects.iter().filter(|(key, object)| subject.includes(key, object)) {
            let seen = standing.versions.get(&(*subject, key.clone()));
            if seen.map(String::as_str) != object["metadata"]["resourceVersion"].as_str() {
                return Some(format!("the scheduler has not seen {key} as it is"));
            }
        }
    }
    let is_gone = |(subject, key): &&(Watched, ObjectKey)| {
        kinds.contains(subject.kind()) && !objects.get(key).is_some_and(|object| subject.includes(key, object))
    };
    let (_, gone) = standing.versions.keys().find(is_gone)?;
    Some(format!("the scheduler has not seen that {gone} is gone"))
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        // What it has under way must not reach the next scenario.
        if let Some(scheduler) = self.scheduler.take() {
            scheduler.abort();
            let _ = self.runtime.block_on(scheduler);
        }
    }
}

impl Observed for Live<'_> {
    fn object(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        let object = self.objects.get(key)?;
        let mut shown = (**object).clone();
        match (key.group, key.kind) {
            // Of the counts of a workload, the API server leaves out those that are zero.
            ("apps" | "batch", _) => {
                for count in COUNTS {
                    if shown["status"][count].is_null() {
                        shown["status"][count] = json!(0);
                    }
                }
            }
            // When Kubernetes added a taint is not a matter of virtual time.
            ("", "Node") => {
                let taints = shown.pointer_mut("/spec/taints").and_then(Value::as_array_mut);
                for taint in taints.into_iter().flatten().filter_map(Value::as_object_mut) {
                    taint.remove("timeAdded");
                }
            }
            _ => return Some(object.clone()),
        }
        Some(Arc::new(shown))
    }

    fn stored_pods(&self) -> Vec<(ObjectKey, Arc<Value>)> {
        let pods = self.objects.iter().filter(|(key, _)| is_pod(key));
        pods.map(|(key, pod)| (key.clone(), pod.clone())).collect()
    }

    fn reason_of(&self, pod: &ObjectKey) -> Option<Arc<Reason>> {
        let key = PodKey { namespace: pod.namespace.clone()?, name: pod.name.clone() };
        self.figures.reasons.get(&key).cloned()
    }

    fn quota_reports(&self) -> Vec<(ObjectKey, QuotaReport)> {
        keyed_quotas(&self.figures.quotas)
    }

    fn node_states(&self) -> Vec<NodeState> {
        self.figures.nodes.iter().map(NodeState::from).collect()
    }

    fn events_about(&self, key: &ObjectKey) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let about = |event: &&Value| {
            let involved = &event["involvedObject"];
            let group = involved["apiVersion"].as_str().and_then(|version| version.split_once('/'));
            involved["kind"] == key.kind
                && involved["name"] == *key.name
                && involved["namespace"].as_str() == key.namespace.as_deref()
                && group.map_or("", |(group, _)| group) == key.group
        };
        self.events.iter().filter(about).map(|event| (text(&event["reason"]), text(&event["message"]))).collect()
    }
}

impl Subject for Live<'_> {
    fn part_ages(&mut self) -> Result<(), Trouble> {
        // Until the next second begins, by a clock that is the API server's too or near to it.
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let rest = Duration::from_secs(1) - Duration::from_nanos(u64::from(since.subsec_nanos()));
        std::thread::sleep(rest + Duration::from_millis(5));
        Ok(())
    }

    fn set_eviction_takes(&mut self, takes: Duration) -> Result<(), Trouble> {
        self.eviction_takes = takes;
        Ok(())
    }

    fn apply(&mut self, mut object: Value) -> Result<(), Trouble> {
        self.hold()?;
        let key = key_of(&object).map_err(|problem| Trouble::NotDone(problem.to_string()))?;
        if let Some(namespace) = key.namespace.clone() {
            self.ensure_namespace(&namespace)?;
            object["metadata"]["namespace"] = json!(*namespace);
        }
        for class in self.fitting.fit(&key, &mut object) {
            let object = class.object();
            if self.classes.insert(class.name())
                && let Ok(key) = key_of(&object)
                && let Answer::Rejected(message) = self.await_that(self.server.create(&key, &object))?
            {
                return Err(Trouble::NotDone(format!("{key} cannot be made: {message}")));
            }
        }
        self.catch_up(&key)?;
        let Some(mut stored) = self.put(&key, &object)? else { return Ok(()) };
        let given = object.get("status").filter(|status| !status.is_null());
        if let Some(status) = given.filter(|status| **status != stored["status"])
            && let Answer::Done(told) =
                self.await_that(self.server.patch(&key, Some("status"), json!({"status": status})))?
        {
            stored = told;
        }
        if key.kind == "PriorityClass" {
            self.classes.insert(key.name.to_string());
        }
        self.note_stored(&key, &stored);
        Ok(())
    }

    fn delete(&mut self, key: &ObjectKey) -> Result<(), Trouble> {
        self.hold()?;
        if is_pod(key) {
            return self.remove_pod(key);
        }
        self.catch_up(key)?;
        if let Answer::Rejected(message) = self.await_that(self.server.delete(key, Manner::Usual))? {
            self.reject(key, message);
            return Ok(());
        }
        if *key == ObjectKey::node(&key.name) {
            let pods = self.await_that(self.server.look(kinds::find("", "Pod")))?;
            for (pod, _) in pods.iter().filter(|(_, pod)| pod["spec"]["nodeName"] == *key.name) {
                self.remove_pod(pod)?;
            }
        }
        Ok(())
    }

    fn existing(&mut self, keys: &[ObjectKey]) -> Result<Vec<ObjectKey>, Trouble> {
        let mut existing = Vec::new();
        for key in keys {
            if self.await_that(self.server.get(key))?.is_some() {
                existing.push(key.clone());
            }
        }
        Ok(existing)
    }

    fn end(&mut self, pod: &ObjectKey, outcome: Outcome) -> Result<(), Trouble> {
        self.hold()?;
        let missing = || Trouble::NotDone(format!("{pod} does not exist"));
        let mut ended = self.await_that(self.server.get(pod))?.ok_or_else(missing)?;
        let phase = match outcome {
            Outcome::Succeeded => "Succeeded",
            Outcome::Failed => "Failed",
        };
        let now_us = i64::try_from(self.conductor.now().0).unwrap_or(0).saturating_mul(1000);
        end(&mut ended, phase, now_us);
        match self.await_that(self.server.patch(pod, Some("status"), json!({"status": ended["status"]})))? {
            Answer::Done(_) => Ok(()),
            other => Err(Trouble::NotDone(format!("{pod} cannot be ended: {other:?}"))),
        }
    }

    fn restart(&mut self) -> Result<(), Trouble> {
        // What happened before is not forgotten with the rest.
        self.take_figures()?;
        self.is_held = false;
        self.ask(self.conductor.restart())
    }

    fn wait(&mut self, duration: Duration) -> Result<(), Trouble> {
        let until = self.conductor.now().0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
        self.settle()?;
        loop {
            let now = self.conductor.now().0;
            let wakes = self.wakes_at.map(|tick| tick.0).filter(|at| *at > now);
            let next = self.departures.values().copied().chain(wakes).min().filter(|at| *at < until);
            self.ask(self.conductor.advance_to(Tick(next.unwrap_or(until))))?;
            self.settle()?;
            if next.is_none() {
                return Ok(());
            }
        }
    }

    fn settle(&mut self) -> Result<(), Trouble> {
        self.come_to_rest(Then::GoOn)?;
        self.fresh.clear();
        self.stirred = None;
        self.take_figures()?;
        if self.wants_events {
            self.events = self.await_that(self.server.events())?;
        }
        Ok(())
    }

    fn take_happened(&mut self) -> Result<Happened, Trouble> {
        let mut happened = Happened { rejected: std::mem::take(&mut self.rejected), ..Happened::default() };
        for done in std::mem::take(&mut self.figures.happened) {
            happened.add(done);
        }
        happened.sort();
        Ok(happened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_scenario_changes_of_a_pod_is_changed_and_nothing_else() {
        let before = json!({"schedulingGates": [{"name": "g"}], "containers": [{"name": "c", "image": "one"}]});
        let now = json!({"containers": [{"name": "c", "image": "two"}]});
        let stored = json!({
            "schedulingGates": [{"name": "g"}], "serviceAccountName": "default",
            "containers": [{"name": "c", "image": "one", "volumeMounts": [{"name": "token"}]}],
        });
        let wanted = json!({
            "schedulingGates": null, "serviceAccountName": "default",
            "containers": [{"name": "c", "image": "two", "volumeMounts": [{"name": "token"}]}],
        });
        assert_eq!(changed(&stored, &before, &now), wanted);
        assert_eq!(changed(&stored, &before, &before), stored);
    }

    #[test]
    fn every_scheduler_that_a_scenario_names_is_ours() {
        let job = json!({"spec": {"schedulerName": "volcano", "tasks": [
            {"template": {"spec": {"schedulerName": "other"}}}, {"template": {"spec": {"schedulerName": "volcano"}}}]}});
        let mut names = vec!["quotient".to_string()];
        scheduler_names(&job, &mut names);
        assert_eq!(names, ["quotient", "volcano", "other"]);
    }
}
