//! The state of a cluster that commands look at.
//!
//! Commands ask this type and nothing else, and what they print is made from plain values that they got here: where the
//! state comes from is nobody else's business. Today it is a virtual cluster that files were applied to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use quotient_api::read::{Document, Kept};
use quotient_api::{ObjectKey, elastic, gangs, kinds};
use quotient_engine::fact::{Name, PodKey, QuotaKey};
use quotient_engine::quantity::canonical;
use quotient_engine::{NodeVerdict, Reason, Turn};
use quotient_sim::cluster::{is_bound, is_pending};
use quotient_sim::report::{Evicted, NodeState, ObjectProblem, PodReport, Quantities, QuotaReport, RejectedObject};
use quotient_sim::report::{StepReport, WaitingGroup};
use quotient_sim::{Cluster, Input, Setup, Simulation, Stuck};
use serde_json::Value;

use crate::arguments::{SetupArguments, StateArguments};
use crate::commands::manifests;
use crate::exit::Exit;
use crate::explanation::eviction::PastEviction;
use crate::final_state::{in_the_end, joined};
use crate::lineage::{Lineage, Made, makers};
use crate::live::Which;
use crate::partial::Partial;
use crate::printer::Printer;

/// The most objects that a note names each in a line of its own.
const NOTES_MAX: usize = 5;

/// The most names that a note lists.
const NAMES_MAX: usize = 3;

/// A cluster that has settled.
#[derive(Debug, Clone)]
pub struct State {
    simulation: Simulation,
    /// All pods, quotas and nodes, once they are asked for: of a large cluster a list takes longer than most answers.
    pods: OnceLock<Vec<PodReport>>,
    quotas: OnceLock<Vec<(ObjectKey, QuotaReport)>>,
    nodes: OnceLock<Vec<NodeState>>,
    /// Evictions before the state was read, as events tell of them.
    past: Vec<PastEviction>,
    /// Who made what, of kinds that have no bearing on scheduling.
    lineage: Lineage,
    /// Too little of the cluster is seen to know what is decided there.
    partial: Option<Partial>,
}

/// What becomes of a cluster that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It is reported, and nothing else happens to it.
    Report,
    /// It is asked, and changes are tried out on it.
    Ask,
}

/// A cluster as it was read.
#[derive(Debug)]
pub struct Opened {
    pub simulation: Simulation,
    past: Vec<PastEviction>,
    lineage: Lineage,
    pub partial: Option<Partial>,
}

/// An eviction, and when it was.
#[derive(Debug, Clone, Copy)]
pub struct Happened<'a> {
    /// What was applied; empty for one that events tell of.
    pub file: &'a str,
    /// The time that an event has.
    pub time: Option<&'a str>,
    pub evicted: &'a Evicted,
}

/// What a pod says of itself.
#[derive(Debug, Default)]
pub struct PodObject {
    pub created: Option<String>,
    pub started: Option<String>,
    pub nominated_node: Option<String>,
    pub priority: Option<i64>,
    pub is_leaving: bool,
    /// Its times are those of the cluster that it is from.
    pub is_dated: bool,
}

impl State {
    pub fn of(simulation: Simulation) -> State {
        State {
            simulation,
            pods: OnceLock::new(),
            quotas: OnceLock::new(),
            nodes: OnceLock::new(),
            past: Vec::new(),
            lineage: Lineage::default(),
            partial: None,
        }
    }

    /// A cluster to which these inputs were applied in order.
    pub fn of_inputs(setup: Setup, inputs: Vec<Input>) -> Result<State, Stuck> {
        let (past, lineage) = (PastEviction::all(&inputs), Lineage::of(&inputs));
        Ok(State { past, lineage, ..State::of(Simulation::of(setup, inputs, &mut |_| {})?) })
    }

    /// The state that the arguments name, of which the caller may see only a part. What had to be left out of it is
    /// told in notes.
    pub fn open(printer: &mut Printer, arguments: StateArguments, namespace: Option<String>) -> Result<State, Exit> {
        let StateArguments { files, cluster, setup } = arguments;
        Self::open_files(printer, &files, cluster.which(namespace), setup)
    }

    /// The state of a cluster to which these files were applied, all of which is seen.
    pub fn open_whole(
        printer: &mut Printer,
        files: &[PathBuf],
        cluster: Which,
        setup: SetupArguments,
    ) -> Result<State, Exit> {
        let state = Self::open_files(printer, files, cluster, setup)?;
        match &state.partial {
            Some(partial) => Err(printer.refuse(&[partial.refusal()])),
            None => Ok(state),
        }
    }

    fn open_files(
        printer: &mut Printer,
        files: &[PathBuf],
        cluster: Which,
        setup: SetupArguments,
    ) -> Result<State, Exit> {
        let cluster = (files.is_empty() && setup.from.is_none()).then_some(cluster);
        let Opened { simulation, past, lineage, partial } = Self::simulate(printer, files, cluster, setup, Then::Ask)?;
        let state = State { past, lineage, partial, ..State::of(simulation) };
        // Objects seem wrong where others that they refer to are not seen.
        if state.partial.is_none() {
            state.note_left_out(printer);
        }
        Ok(state)
    }

    /// What is known where too little of the cluster is seen to know what is decided there.
    pub fn partial(&self) -> Option<&Partial> {
        self.partial.as_ref()
    }

    /// A cluster to which these files were applied, with all that happened on the way, and what events of the files
    /// tell of evictions before.
    pub fn simulate(
        printer: &mut Printer,
        files: &[PathBuf],
        cluster: Option<Which>,
        setup: SetupArguments,
        then: Then,
    ) -> Result<Opened, Exit> {
        let begun = Instant::now();
        let SetupArguments { from, config, scheduler_name } = setup;
        let configuration = manifests::configuration(printer, config.as_deref())?;
        let (mut inputs, mut partial) = (Vec::new(), None);
        if let Some(which) = cluster {
            let read = manifests::live(printer, &which);
            let (input, of_rights) = read.map_err(|error| printer.refuse(&[format!("{error:#}")]))?;
            inputs.push(input);
            partial = of_rights;
        }
        let files: Vec<PathBuf> = from.into_iter().chain(files.iter().cloned()).collect();
        if !files.is_empty() {
            // An object is given once in a file: of one file alone, none is applied over another.
            let is_alone = then == Then::Report && inputs.is_empty() && matches!(&files[..], [file] if file.is_file());
            let kept = if is_alone { Kept::Alone } else { Kept::Comparable };
            inputs.extend(manifests::objects(printer, &files, kept)?);
        }
        let setup = Setup { configuration, scheduler_names: scheduler_name.map(|name| vec![name]) };
        printer.detail(format_args!("read in {} ms", begun.elapsed().as_millis()));
        let (past, lineage) = (PastEviction::all(&inputs), Lineage::of(&inputs));
        let settled = Simulation::of(setup, inputs, &mut |progress| {
            printer.progress(format_args!("{} of {}: {}", progress.done, progress.total, progress.step));
        });
        let simulation = settled.map_err(|stuck| printer.bug(&stuck))?;
        printer.detail(format_args!("settled after {} ms", begun.elapsed().as_millis()));
        if partial.is_none() {
            note_missing_nodes(printer, &simulation);
        }
        Ok(Opened { simulation, past, lineage, partial })
    }

    /// What would become of it if these were applied, and time passed; and what would happen on the way.
    pub fn with(&self, change: Vec<Input>, wait: Option<Duration>) -> Result<(State, StepReport), Stuck> {
        let mut simulation = self.simulation.clone();
        let before = simulation.steps().len();
        let mut lineage = self.lineage.clone();
        lineage.extend(Lineage::of(&change));
        // Reasons are worked out once it has settled.
        simulation.be_brief(true);
        let documents: Vec<Document> = change.iter().flat_map(|input| input.read.documents.iter().cloned()).collect();
        for input in change {
            simulation.apply(input)?;
        }
        let happened = joined(&simulation.steps()[before..]);
        let (rejected, problems) = in_the_end(&mut simulation, documents, &happened)?;
        if let Some(duration) = wait {
            simulation.wait(duration, String::new())?;
        }
        simulation.be_brief(false);
        let happened = StepReport { rejected, problems, ..joined(&simulation.steps()[before..]) };
        Ok((State { past: self.past.clone(), lineage, ..State::of(simulation) }, happened))
    }

    /// Objects that are missing change every answer: whoever reads it should know.
    fn note_left_out(&self, printer: &mut Printer) {
        let steps = self.simulation.steps();
        let problems = steps.iter().flat_map(|step| &step.problems).map(|ObjectProblem { object, message }| {
            object.as_ref().map_or_else(|| message.clone(), |object| format!("{object}: {message}"))
        });
        let rejected = steps.iter().flat_map(|step| &step.rejected);
        let rejected = rejected.map(|RejectedObject { object, message }| format!("{object} is rejected: {message}"));
        let notes: Vec<String> = problems.chain(rejected).collect();
        for note in notes.iter().take(NOTES_MAX) {
            printer.note(format_args!("note: {note}"));
        }
        for note in notes.iter().skip(NOTES_MAX) {
            printer.detail(format_args!("note: {note}"));
        }
        if notes.len() > NOTES_MAX {
            printer.note(format_args!("note: and {} more, which -v shows", notes.len() - NOTES_MAX));
        }
    }

    /// All pods, by namespace and name; those that were evicted and have nobody to make them anew too.
    pub fn pods(&self) -> &[PodReport] {
        self.pods.get_or_init(|| self.simulation.cluster().pods())
    }

    /// Whether all pods were listed.
    #[cfg(test)]
    pub fn has_listed_pods(&self) -> bool {
        self.pods.get().is_some()
    }

    /// One pod; those that were evicted and have nobody to make them anew too.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<PodReport> {
        self.simulation.cluster().pod(&ObjectKey::pod(namespace, name))
    }

    /// Whether there is such a pod; those that were evicted and have nobody to make them anew too.
    pub fn has_pod(&self, namespace: &str, name: &str) -> bool {
        self.simulation.cluster().has_pod(&ObjectKey::pod(namespace, name))
    }

    /// All pods that are pending, by namespace and name.
    pub fn pending(&self) -> Vec<PodReport> {
        self.simulation.cluster().pending_pods()
    }

    /// The names of all pods, by namespace and name.
    pub fn pod_names(&self) -> impl Iterator<Item = (&str, &str)> {
        let keys = self.simulation.cluster().pod_keys();
        keys.map(|key| (key.namespace.as_deref().unwrap_or_default(), &*key.name))
    }

    /// All quotas with their keys, by namespace and name.
    pub fn quotas(&self) -> &[(ObjectKey, QuotaReport)] {
        self.quotas.get_or_init(|| self.simulation.cluster().keyed_quotas())
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> &[NodeState] {
        self.nodes.get_or_init(|| self.simulation.cluster().nodes())
    }

    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<&NodeState> {
        let nodes = self.nodes();
        nodes.binary_search_by(|node| node.name.as_str().cmp(name)).ok().map(|at| &nodes[at])
    }

    /// The evictions so far, in order, and what led to each.
    pub fn evictions(&self) -> impl Iterator<Item = Happened<'_>> {
        let past = self.past.iter();
        let past = past.map(|past| Happened { file: "", time: past.time.as_deref(), evicted: &past.evicted });
        let steps = self.simulation.steps().iter();
        let here = steps.flat_map(|step| {
            step.evicted.iter().map(|evicted| Happened { file: step.file.as_str(), time: None, evicted })
        });
        past.chain(here)
    }

    /// Why a pod waits, if it does, as things stand now.
    pub fn reason(&self, namespace: &str, name: &str) -> Option<Arc<Reason>> {
        self.simulation.cluster().reason(&ObjectKey::pod(namespace, name))
    }

    /// When a waiting pod has its turn.
    pub fn turn(&self, namespace: &str, name: &str) -> Option<Turn> {
        self.simulation.cluster().engine().turn(&pod_key(namespace, name))
    }

    /// What each node says to a waiting pod, the nearest first.
    pub fn verdicts(&self, namespace: &str, name: &str) -> Vec<NodeVerdict> {
        self.simulation.cluster().engine().verdicts(&pod_key(namespace, name))
    }

    /// What a pod asks for.
    pub fn requests(&self, namespace: &str, name: &str) -> Quantities {
        let requests = self.simulation.cluster().engine().requests(&pod_key(namespace, name));
        let show =
            |(resource, amount): (Name, i64)| (String::from(&*resource), canonical(&resource, i128::from(amount)));
        requests.into_iter().map(show).collect()
    }

    /// The cluster itself, to be copied.
    pub fn cluster(&self) -> &Cluster {
        self.simulation.cluster()
    }

    /// The object of that key.
    pub fn object(&self, key: &ObjectKey) -> Option<&Value> {
        self.simulation.cluster().store().get(key).map(AsRef::as_ref)
    }

    /// The keys of all objects.
    pub fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.simulation.cluster().store().iter().map(|(key, _)| key)
    }

    /// The pods on a node that have not ended.
    pub fn pods_on(&self, node: &str) -> Vec<(&ObjectKey, &Value)> {
        let store = self.simulation.cluster().store();
        let pods = store.pods_on(node);
        let known = pods.iter().filter_map(|key| store.get_key_value(key));
        known.map(|(key, pod)| (key, pod.as_ref())).filter(|(_, pod)| is_bound(pod)).collect()
    }

    /// All pods that are on nodes, by namespace and name.
    pub fn running_pods(&self) -> impl Iterator<Item = (&ObjectKey, &Value)> {
        let pods = self.simulation.cluster().store().pods().map(|(key, pod)| (key, pod.as_ref()));
        pods.filter(|(_, pod)| is_bound(pod))
    }

    /// All pods without a node, by namespace and name.
    pub fn pending_pods(&self) -> impl Iterator<Item = (&ObjectKey, &Value)> {
        let pods = self.simulation.cluster().store().pods_without_node().map(|(key, pod)| (key, pod.as_ref()));
        pods.filter(|(_, pod)| is_pending(pod))
    }

    /// All pods that have succeeded, or say how long they run, by namespace and name.
    pub fn timed_pods(&self) -> impl Iterator<Item = (&ObjectKey, &Value)> {
        self.simulation.cluster().store().timed_pods().map(|(key, pod)| (key, pod.as_ref()))
    }

    /// The pods on nodes that answer to a quota or to one below it, both by the names that reports give them.
    pub fn pods_under(&self, quota: &str) -> Vec<ObjectKey> {
        let below = self.quotas_below(quota);
        let keys: BTreeSet<&ObjectKey> =
            self.quotas().iter().filter(|(_, report)| below.contains(&report.object)).map(|(key, _)| key).collect();
        let is_meant = |key: &QuotaKey| elastic::object_key(key).is_some_and(|key| keys.contains(&key));
        let pods = self.simulation.cluster().engine().placed_under(is_meant);
        pods.iter().map(|pod| ObjectKey::pod(&pod.namespace, &pod.name)).collect()
    }

    /// A quota and all below it, by the names that reports give them.
    fn quotas_below(&self, quota: &str) -> BTreeSet<String> {
        let all = self.quotas();
        let mut below = BTreeSet::from([quota.to_owned()]);
        loop {
            let known = below.len();
            let is_below = |report: &&QuotaReport| report.parent.as_ref().is_some_and(|parent| below.contains(parent));
            let found: Vec<String> =
                all.iter().map(|(_, report)| report).filter(is_below).map(|report| report.object.clone()).collect();
            below.extend(found);
            if below.len() == known {
                return below;
            }
        }
    }

    /// The pods among these objects, and those that they made, as namespace and name.
    pub fn pods_of(&self, objects: &[ObjectKey]) -> Vec<(String, String)> {
        let store = self.simulation.cluster().store();
        let mut seen: BTreeSet<ObjectKey> = BTreeSet::new();
        let mut open: Vec<ObjectKey> = objects.to_vec();
        while let Some(key) = open.pop() {
            if seen.insert(key.clone()) {
                open.extend(store.dependents(&key));
            }
        }
        // A group does not own its pods: they name it.
        let groups: Vec<&ObjectKey> = objects.iter().filter(|key| key.kind == "PodGroup").collect();
        if !groups.is_empty() {
            let names_one =
                |pod: &Value, key: &ObjectKey| gangs::of_pod(key, pod).is_some_and(|named| groups.contains(&&named));
            let members = store.pods().filter(|(key, pod)| names_one(pod, key)).map(|(key, _)| key.clone());
            let members: Vec<ObjectKey> = members.collect();
            seen.extend(members);
        }
        let pods = seen.iter().filter(|key| (key.group, key.kind) == ("", "Pod"));
        pods.map(|key| (key.namespace.as_deref().unwrap_or_default().to_owned(), key.name.to_string())).collect()
    }

    /// What is called so and made pods, whatever its kind is and through however many levels, with these pods.
    pub fn pods_below(&self, kind: &str, namespace: Option<&str>, name: &str) -> Vec<(Made, Vec<(String, String)>)> {
        let store = self.simulation.cluster().store();
        let known = |made: &Made| {
            let kind = kinds::find(&made.group, &made.kind)?;
            let key = ObjectKey::new(kind, kind.namespaced.then_some(made.namespace.as_str()), &made.name);
            store.get(&key).map(|object| makers(object))
        };
        let meant = self.lineage.objects().filter(|made| made.is_called(kind, namespace, name)).cloned();
        let mut found: BTreeMap<Made, Vec<(String, String)>> = meant.map(|made| (made, Vec::new())).collect();
        for (key, pod) in store.pods() {
            let above = self.lineage.above(pod, known);
            for made in above.into_iter().filter(|made| made.is_called(kind, namespace, name)) {
                let pod = (key.namespace.as_deref().unwrap_or_default().to_owned(), key.name.to_string());
                found.entry(made).or_default().push(pod);
            }
        }
        found.into_iter().collect()
    }

    /// Groups, and jobs with a group, that wait and have no pods yet.
    pub fn waiting_groups(&self) -> Vec<WaitingGroup> {
        self.simulation.cluster().waiting_groups()
    }

    /// What a pod says of itself; nothing if it is gone.
    pub fn pod_object(&self, namespace: &str, name: &str) -> PodObject {
        let key = ObjectKey::pod(namespace, name);
        let Some(pod) = self.simulation.cluster().store().get(&key) else { return PodObject::default() };
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        PodObject {
            created: text("/metadata/creationTimestamp"),
            started: text("/status/startTime"),
            nominated_node: text("/status/nominatedNodeName"),
            priority: pod.pointer("/spec/priority").and_then(Value::as_i64),
            is_leaving: text("/metadata/deletionTimestamp").is_some(),
            is_dated: text("/metadata/uid").is_some_and(|uid| !quotient_sim::is_virtual_uid(&uid)),
        }
    }
}

/// Pods on nodes that are not given hold nothing of any node, which changes every answer about room.
fn note_missing_nodes(printer: &mut Printer, simulation: &Simulation) {
    let missing = simulation.missing_nodes();
    if missing.is_empty() {
        return;
    }
    let pods: usize = missing.values().sum();
    let names: Vec<&str> = missing.keys().map(String::as_str).take(NAMES_MAX).collect();
    let more = missing.len().saturating_sub(NAMES_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (noun, verb) = if pods == 1 { ("pod", "runs") } else { ("pods", "run") };
    printer.note(format_args!(
        "note: {pods} {noun} {verb} on nodes that are not given ({}{more}): counted against quotas, on no node",
        names.join(", ")
    ));
}

fn pod_key(namespace: &str, name: &str) -> PodKey {
    PodKey { namespace: namespace.into(), name: name.into() }
}
