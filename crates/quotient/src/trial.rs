//! What would happen to the pods of a file that is not submitted yet.

use std::collections::BTreeSet;

use anyhow::Result;
use quotient_api::ObjectKey;
use quotient_sim::report::{
    Bound, Evicted, ObjectProblem, PodPhase, PodReport, ReasonReport, RejectedObject, StepReport, WaitingGroup,
};
use serde::Serialize;

use crate::explanation::{Explanation, words};
use crate::kin::stem;
use crate::printer::{Printer, Tone};
use crate::state::State;
use crate::story::{tell_bound, tell_evicted, tell_groups, tell_refused};

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
    /// Groups of the file that would wait without pods; left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<WaitingGroup>,
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
    /// How these objects and their pods stand after what happened.
    pub fn of(after: &State, objects: &[ObjectKey], pods: &[(String, String)], happened: StepReport) -> Self {
        let StepReport { file, mut bound, evicted, rejected, problems } = happened;
        let of_file: BTreeSet<(&str, &str)> = pods.iter().map(|(namespace, name)| (&**namespace, &**name)).collect();
        let is_of_file = |namespace: &str, name: &str| of_file.contains(&(namespace, name));
        let pods = after.pods().iter().filter(|pod| is_of_file(&pod.namespace, &pod.name));
        let pods: Vec<PodReport> = pods.cloned().collect();
        bound.retain(|bound| !is_of_file(&bound.namespace, &bound.name));
        let (waiting, groups) = (explained(after, &pods), groups_of(after, objects));
        Trial { file, problems, rejected, waiting, groups, pods, evicted, bound }
    }

    /// Whether everything was let in and every pod runs, or has run.
    pub fn all_run(&self) -> bool {
        self.rejected.is_empty() && self.groups.is_empty() && self.pods.iter().all(runs)
    }
}

/// What makes pods, and how they are. Field names are a contract with whoever reads the JSON.
#[derive(Debug, Serialize)]
pub struct Owner {
    /// As `Kind/namespace/name`.
    pub object: String,
    pub pods: Vec<PodReport>,
    /// Those that are pending, one in full for each reason.
    pub waiting: Vec<Alike>,
    /// Its group, where that waits and it has no pods yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<WaitingGroup>,
    /// How many of the pods that run are on their way out.
    #[serde(skip)]
    pub leaving: usize,
}

/// The groups among these objects, or made by one of them, that wait and have no pods yet.
fn groups_of(state: &State, objects: &[ObjectKey]) -> Vec<WaitingGroup> {
    let names: BTreeSet<String> = objects.iter().map(ToString::to_string).collect();
    let is_meant = |waiting: &WaitingGroup| names.contains(&waiting.object) || names.contains(&waiting.group);
    state.waiting_groups().into_iter().filter(is_meant).collect()
}

impl Owner {
    /// How these pods of an owner are.
    pub fn of(state: &State, object: String, keys: &[ObjectKey], pods: &[(String, String)]) -> Self {
        let of_it: BTreeSet<(&str, &str)> = pods.iter().map(|(namespace, name)| (&**namespace, &**name)).collect();
        let pods = state.pods().iter().filter(|pod| of_it.contains(&(&pod.namespace, &pod.name)));
        let pods: Vec<PodReport> = pods.cloned().collect();
        let running = pods.iter().filter(|pod| runs(pod));
        let leaving = running.filter(|pod| state.pod_object(&pod.namespace, &pod.name).is_leaving).count();
        Owner { object, waiting: explained(state, &pods), groups: groups_of(state, keys), leaving, pods }
    }
}

/// Prints how an owner's pods are, and for each reason to wait one pod in full.
pub fn tell_owner(printer: &mut Printer, owner: &Owner) -> Result<()> {
    let Owner { object, pods, waiting, groups, leaving } = owner;
    let running = pods.iter().filter(|pod| runs(pod)).count() - leaving;
    let name = printer.paint(Tone::Strong, object);
    let tone = if running == pods.len() { Tone::Good } else { Tone::Bad };
    let verdict = match (running, pods.len()) {
        (_, 0) if !groups.is_empty() => "it has no pods yet".to_owned(),
        (_, 0) => "it has no pods".to_owned(),
        (running, count) if *leaving == 0 => format!("{running} of {count} pods run"),
        (running, count) => format!("{running} of {count} pods run, {leaving} are terminating"),
    };
    printer.line(format_args!("{name}: {}", printer.paint(tone, &verdict)))?;
    tell_groups(printer, groups)?;
    tell_bound(printer, &pods.iter().filter(|pod| runs(pod)).filter_map(as_bound).collect::<Vec<_>>())?;
    tell_alike(printer, waiting)
}

fn runs(pod: &PodReport) -> bool {
    matches!(pod.phase, PodPhase::Running | PodPhase::Succeeded)
}

/// Prints what would happen, and for each reason to wait one pod in full.
pub fn tell(printer: &mut Printer, trial: &Trial) -> Result<()> {
    let Trial { file, problems, rejected, pods, waiting, groups, evicted, bound } = trial;
    let running = pods.iter().filter(|pod| runs(pod)).count();
    let verdict = match (running, pods.len()) {
        (_, 0) if !rejected.is_empty() => "it would be refused".to_owned(),
        (_, 0) if !groups.is_empty() => "it would wait without pods".to_owned(),
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
    tell_groups(printer, groups)?;
    tell_evicted(printer, &evicted.iter().collect::<Vec<_>>())?;
    let placed: Vec<Bound> = pods.iter().filter(|pod| runs(pod)).filter_map(as_bound).collect();
    tell_bound(printer, &placed)?;
    if !bound.is_empty() {
        printer.line("")?;
        printer.line(printer.paint(Tone::Strong, "Other pods that would get a node"))?;
        tell_bound(printer, bound)?;
    }
    tell_alike(printer, waiting)
}

fn tell_alike(printer: &mut Printer, waiting: &[Alike]) -> Result<()> {
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

/// The pods that do not run, one in full for each reason.
fn explained(state: &State, pods: &[PodReport]) -> Vec<Alike> {
    let explain = |pods: Vec<&PodReport>| {
        let (first, others) = pods.split_first()?;
        let others = others.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect();
        Some(Alike { first: Explanation::of(state, &first.namespace, &first.name)?, others })
    };
    alike(pods).into_iter().filter_map(explain).collect()
}

/// The pods that would not run, those with the same reason together: the same code at the same quota for the same
/// resource. The numbers of two pods of one owner differ where one waits for the other.
fn alike(pods: &[PodReport]) -> Vec<Vec<&PodReport>> {
    let key = |pod: &PodReport| {
        let reason = pod.reason.as_ref();
        let of = |reason: &ReasonReport| (reason.code.clone(), reason.quota.clone(), reason.resource.clone());
        (pod.namespace.clone(), stem(&pod.name).to_owned(), pod.phase, reason.map(of))
    };
    let mut groups: Vec<Vec<&PodReport>> = Vec::new();
    for pod in pods.iter().filter(|pod| !runs(pod)) {
        let is_alike = |group: &&mut Vec<&PodReport>| key(group[0]) == key(pod);
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.push(pod),
            None => groups.push(vec![pod]),
        }
    }
    groups
}
