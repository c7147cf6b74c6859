//! What would happen to the pods of a file that is not submitted yet.

use std::collections::BTreeSet;

use anyhow::Result;
use quotient_sim::report::{Bound, Evicted, ObjectProblem, PodPhase, PodReport, RejectedObject, StepReport};
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
    pub pods: Vec<PodReport>,
    /// Those that would not run, one in full for each reason.
    pub waiting: Vec<Alike>,
    /// Who would have to go.
    pub evicted: Vec<Evicted>,
    /// Which other pods would get a node meanwhile.
    pub bound: Vec<Bound>,
}

/// Pods that would not run for the same reason.
#[derive(Debug, Serialize)]
pub struct Alike {
    /// The first of them, in full.
    #[serde(flatten)]
    pub first: Explanation,
    /// The others, as `namespace/name`.
    pub others: Vec<String>,
}

impl Trial {
    /// How these pods stand after what happened.
    pub fn of(after: &State, pods: &[(String, String)], happened: StepReport) -> Self {
        let StepReport { file, mut bound, evicted, rejected, problems } = happened;
        let of_file: BTreeSet<(&str, &str)> = pods.iter().map(|(namespace, name)| (&**namespace, &**name)).collect();
        let is_of_file = |namespace: &str, name: &str| of_file.contains(&(namespace, name));
        let pods = after.pods().iter().filter(|pod| is_of_file(&pod.namespace, &pod.name));
        let pods: Vec<PodReport> = pods.cloned().collect();
        bound.retain(|bound| !is_of_file(&bound.namespace, &bound.name));
        let waiting = alike(&pods).into_iter().filter_map(|pods| {
            let (first, others) = pods.split_first()?;
            let others = others.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
            Some(Alike { first: Explanation::of(after, &first.namespace, &first.name)?, others })
        });
        Trial { file, problems, rejected, waiting: waiting.collect(), pods, evicted, bound }
    }

    /// Whether everything was let in and every pod runs, or has run.
    pub fn all_run(&self) -> bool {
        self.rejected.is_empty() && self.pods.iter().all(runs)
    }
}

fn runs(pod: &PodReport) -> bool {
    matches!(pod.phase, PodPhase::Running | PodPhase::Succeeded)
}

/// Prints what would happen, and for each reason to wait one pod in full.
pub fn tell(printer: &mut Printer, trial: &Trial) -> Result<()> {
    let Trial { file, problems, rejected, pods, waiting, evicted, bound } = trial;
    let running = pods.iter().filter(|pod| runs(pod)).count();
    let verdict = match (running, pods.len()) {
        (_, 0) if !rejected.is_empty() => "it would be refused".to_owned(),
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
    for Alike { first, others } in waiting {
        printer.line("")?;
        words::tell(printer, first)?;
        if !others.is_empty() {
            printer.line("")?;
            printer.line(printer.paint(Tone::Strong, "For the same reason"))?;
            printer.list(others, |_, pod| vec![pod.clone()])?;
        }
    }
    Ok(())
}

fn as_bound(pod: &PodReport) -> Option<Bound> {
    Some(Bound { namespace: pod.namespace.clone(), name: pod.name.clone(), node: pod.node.clone()? })
}

/// The pods that would not run, those with the same reason together.
fn alike(pods: &[PodReport]) -> Vec<Vec<&PodReport>> {
    let mut groups: Vec<Vec<&PodReport>> = Vec::new();
    for pod in pods.iter().filter(|pod| !runs(pod)) {
        let is_alike = |group: &&mut Vec<&PodReport>| (group[0].phase, &group[0].reason) == (pod.phase, &pod.reason);
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.push(pod),
            None => groups.push(vec![pod]),
        }
    }
    groups
}
