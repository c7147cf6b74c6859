//! `simulate`: files applied one after another to a virtual cluster, and what came of it.

use std::collections::BTreeMap;
use std::time::Duration;

use quotient_api::{Document, ObjectKey, Problem, Read, at, order, time};

use crate::cluster::{Cluster, Happened, Setup, Stuck, is_bound};
use crate::field;
use crate::report::{ObjectProblem, RejectedObject, Report, StepReport};
use crate::server::Refusal;

/// One file (or directory) to be applied, as it was read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Input {
    /// What the report calls it.
    pub file: String,
    pub read: Read,
}

/// How far a long run has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The step that was just finished: a file's or a scenario's step's name.
    pub step: &'a str,
    /// Steps done so far, this one too.
    pub done: usize,
    /// Steps in all.
    pub total: usize,
}

/// A virtual cluster, with what happened on the way to how it stands. A clone goes its own way: it is how to ask what
/// would happen if.
#[derive(Debug, Clone)]
pub struct Simulation {
    cluster: Cluster,
    steps: Vec<StepReport>,
}

impl Simulation {
    /// An empty cluster to which nothing has happened.
    pub fn new(setup: Setup) -> Self {
        Simulation { cluster: Cluster::new(setup), steps: Vec::new() }
    }

    /// A cluster to which the inputs were applied in order, settling after each.
    pub fn of(setup: Setup, inputs: Vec<Input>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Self, Stuck> {
        let mut simulation = Simulation::new(setup);
        let total = inputs.len();
        for (index, input) in inputs.into_iter().enumerate() {
            let step = simulation.apply(input)?;
            progress(Progress { step: &step.file, done: index + 1, total });
        }
        Ok(simulation)
    }

    /// Applies an input and lets the cluster settle. This is a step.
    pub fn apply(&mut self, input: Input) -> Result<&StepReport, Stuck> {
        let Input { file, read } = input;
        let mut problems = read.problems;
        // What is made here is younger than what another cluster has made.
        let stamps = read.documents.iter().filter(|document| at(&document.value, "/metadata/uid").is_some());
        let stamps = stamps.filter_map(|document| field::text(&document.value, "/metadata/creationTimestamp"));
        if let Some(latest) = stamps.filter_map(|stamp| time::parse_timestamp(stamp).ok()).max() {
            self.cluster.begin_at(latest);
        }
        problems.extend(apply_all(&mut self.cluster, read.documents));
        self.cluster.settle()?;
        Ok(self.note(file, problems))
    }

    /// Lets time pass. This is a step as well.
    pub fn wait(&mut self, duration: Duration, name: impl Into<String>) -> Result<&StepReport, Stuck> {
        self.cluster.wait(duration)?;
        Ok(self.note(name.into(), Vec::new()))
    }

    fn note(&mut self, file: String, problems: Vec<Problem>) -> &StepReport {
        let step = step_report(file, self.cluster.take_happened(), problems);
        self.steps.push(step);
        self.steps.last().expect("a step was just added")
    }

    /// Whether reasons leave out which node comes closest to having room.
    pub fn be_brief(&mut self, brief: bool) {
        self.cluster.be_brief(brief);
    }

    /// The cluster as it stands.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// What happened, step by step.
    pub fn steps(&self) -> &[StepReport] {
        &self.steps
    }

    /// The nodes that pods run on and that are not there, with how many pods each: these count against quotas, and on
    /// no node.
    pub fn missing_nodes(&self) -> BTreeMap<String, usize> {
        let store = self.cluster.store();
        let mut missing = BTreeMap::new();
        for (node, pods) in store.nodes_of_pods().filter(|(node, _)| !store.contains(&ObjectKey::node(node))) {
            let bound = pods.iter().filter(|pod| store.get(pod).is_some_and(|pod| is_bound(pod))).count();
            if bound > 0 {
                missing.insert(node.to_string(), bound);
            }
        }
        missing
    }

    /// All there is to say.
    pub fn into_report(self) -> Report {
        self.into_report_and_cluster().0
    }

    /// The same, with what is left of the cluster that it is about: to drop a large one takes a while.
    pub fn into_report_and_cluster(self) -> (Report, Cluster) {
        let Simulation { mut cluster, steps } = self;
        let (groups, quotas, nodes) = (cluster.waiting_groups(), cluster.quotas(), cluster.nodes());
        (Report { steps, pods: cluster.give_up_pods(), groups, quotas, nodes }, cluster)
    }
}

/// Applies the inputs in order, settling after each, and reports.
pub fn simulate(setup: Setup, inputs: Vec<Input>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Report, Stuck> {
    Ok(Simulation::of(setup, inputs, progress)?.into_report())
}

/// Applies objects; what cannot be kept at all is a problem. Rejections are the cluster's to tell.
pub fn apply_all(cluster: &mut Cluster, documents: Vec<Document>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for Document { key, value, place } in order::applicable(documents) {
        if key.group == "quotient.dev" {
            let message = format!("a {} is not an object of a cluster and was left out", key.kind);
            problems.push(Problem::new(message).of_object(&key).in_file(place.to_string()));
            continue;
        }
        if let Err(Refusal::Unreadable(problem)) = cluster.apply(value) {
            problems.push(problem.in_file(place.to_string()));
        }
    }
    problems
}

fn step_report(file: String, happened: Happened, mut problems: Vec<Problem>) -> StepReport {
    let Happened { bound, evicted, rejected, problems: found } = happened;
    problems.extend(found);
    let rejected = rejected
        .into_iter()
        .map(|rejected| RejectedObject { object: rejected.object.to_string(), message: rejected.message })
        .collect();
    let mut problems: Vec<ObjectProblem> = problems.into_iter().map(object_problem).collect();
    problems.sort();
    problems.dedup();
    StepReport { file, bound, evicted, rejected, problems }
}

/// The object has a field of its own in the report; the rest of the problem is its message.
fn object_problem(problem: Problem) -> ObjectProblem {
    let object = problem.object.clone();
    let rest = Problem { object: None, ..problem };
    ObjectProblem { object, message: rest.to_string() }
}
