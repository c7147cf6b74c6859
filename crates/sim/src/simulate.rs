//! `simulate`: files applied one after another to a virtual cluster, and what came of it.

use quotient_api::{Document, Problem, Read};

use crate::cluster::{Cluster, Happened, Setup, Stuck};
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

/// Applies the inputs in order, settling after each, and reports.
pub fn simulate(setup: Setup, inputs: Vec<Input>, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Report, Stuck> {
    let mut cluster = Cluster::new(setup);
    let total = inputs.len();
    let mut steps = Vec::with_capacity(total);
    for (index, Input { file, read }) in inputs.into_iter().enumerate() {
        let mut problems = read.problems;
        problems.extend(apply_all(&mut cluster, read.documents));
        cluster.settle()?;
        let step = step_report(file, cluster.take_happened(), problems);
        progress(Progress { step: &step.file, done: index + 1, total });
        steps.push(step);
    }
    Ok(Report { steps, pods: cluster.pods(), quotas: cluster.quotas(), nodes: cluster.nodes() })
}

/// Applies objects; what cannot be kept at all is a problem. Rejections are the cluster's to tell.
pub fn apply_all(cluster: &mut Cluster, documents: Vec<Document>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for Document { key, value, place } in documents {
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
