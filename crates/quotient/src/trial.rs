//! What would happen to the pods of a file that is not submitted yet.

use anyhow::Result;
use quotient_sim::report::{Bound, Evicted, ObjectProblem, PodPhase, RejectedObject, StepReport};
use serde::Serialize;

use crate::explanation::{Explanation, words};
use crate::printer::{Printer, Tone};
use crate::state::State;
use crate::story::{tell_bound, tell_evicted, tell_refused};

/// The answer. Field names are a contract with whoever reads the JSON.
#[derive(Debug, Serialize)]
pub struct Trial {
    pub file: String,
    /// What could not be read or used.
    pub problems: Vec<ObjectProblem>,
    /// What admission would refuse.
    pub rejected: Vec<RejectedObject>,
    /// How the file's pods would stand.
    pub pods: Vec<Explanation>,
    /// Who would have to go.
    pub evicted: Vec<Evicted>,
    /// Which other pods would get a node meanwhile.
    pub bound: Vec<Bound>,
}

impl Trial {
    /// How these pods stand after what happened.
    pub fn of(after: &State, pods: &[(String, String)], happened: StepReport) -> Self {
        let StepReport { file, bound, evicted, rejected, problems } = happened;
        let of_file =
            |bound: &Bound| pods.iter().any(|(namespace, name)| (&bound.namespace, &bound.name) == (namespace, name));
        Trial {
            file,
            problems,
            rejected,
            pods: pods.iter().filter_map(|(namespace, name)| Explanation::of(after, namespace, name)).collect(),
            evicted,
            bound: bound.into_iter().filter(|bound| !of_file(bound)).collect(),
        }
    }

    /// Whether everything was let in and every pod runs, or has run.
    pub fn all_run(&self) -> bool {
        self.rejected.is_empty() && self.problems.is_empty() && self.pods.iter().all(runs)
    }
}

fn runs(pod: &Explanation) -> bool {
    matches!(pod.phase, PodPhase::Running | PodPhase::Succeeded)
}

/// Prints what would happen, and for each reason to wait one pod in full.
pub fn tell(printer: &mut Printer, trial: &Trial) -> Result<()> {
    let Trial { file, problems, rejected, pods, evicted, bound } = trial;
    let running = pods.iter().filter(|pod| runs(pod)).count();
    let verdict = match (running, pods.len()) {
        (_, 0) => "it brings no pods".to_owned(),
        (1, 1) => "its pod would run".to_owned(),
        (0, 1) => "its pod would wait".to_owned(),
        (running, count) if running == count => format!("all {count} pods would run"),
        (0, count) => format!("all {count} pods would wait"),
        (running, count) => format!("{running} of {count} pods would run"),
    };
    let tone = if trial.all_run() { Tone::Good } else { Tone::Bad };
    printer.line(format_args!("If {file} was applied: {}", printer.paint(tone, &verdict)))?;
    tell_refused(printer, problems, rejected)?;
    tell_evicted(printer, &evicted.iter().collect::<Vec<_>>())?;
    let placed: Vec<Bound> = pods.iter().filter(|pod| runs(pod)).filter_map(as_bound).collect();
    tell_bound(printer, &placed)?;
    if !bound.is_empty() {
        printer.line("")?;
        printer.line(printer.paint(Tone::Strong, "Other pods that would get a node"))?;
        tell_bound(printer, bound)?;
    }
    for alike in alike(pods) {
        printer.line("")?;
        words::tell(printer, alike[0])?;
        if let [_, others @ ..] = &alike[..]
            && !others.is_empty()
        {
            printer.line("")?;
            printer.line(printer.paint(Tone::Strong, "For the same reason"))?;
            printer.list(others, |_, pod| vec![format!("{}/{}", pod.namespace, pod.name)])?;
        }
    }
    Ok(())
}

fn as_bound(pod: &Explanation) -> Option<Bound> {
    Some(Bound { namespace: pod.namespace.clone(), name: pod.name.clone(), node: pod.node.clone()? })
}

/// The pods that would not run, those with the same reason together.
fn alike(pods: &[Explanation]) -> Vec<Vec<&Explanation>> {
    let mut groups: Vec<Vec<&Explanation>> = Vec::new();
    for pod in pods.iter().filter(|pod| !runs(pod)) {
        let is_alike = |group: &&mut Vec<&Explanation>| (group[0].phase, &group[0].reason) == (pod.phase, &pod.reason);
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.push(pod),
            None => groups.push(vec![pod]),
        }
    }
    groups
}
