//! Moving to Quotient from a cluster's scheduler, the *incumbent*: what is there, what works as it is, what differs,
//! what would be decided differently today, and the steps.

mod elastic;
mod evidence;
mod koordinator;
mod peer;
mod scheduler_conf;
mod steps;
mod volcano;
pub mod words;

use std::collections::BTreeSet;

use quotient_api::Configuration;
use quotient_sim::report::{
    Bound, Evicted, ObjectProblem, PodPhase, PodReport, ReasonReport, RejectedObject, StepReport,
};
use quotient_sim::{Input, Setup, Simulation, Stuck};
use serde::Serialize;
use serde_json::Value;

pub use evidence::Evidence;
pub use peer::Peer;
pub use scheduler_conf::SchedulerConf;
pub use steps::Step;

use crate::kin::grouped_by;

/// The answer. Field names are a contract with whoever reads the JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Migration {
    pub incumbents: Vec<Incumbent>,
    pub works: Vec<Remark>,
    pub differs: Vec<Remark>,
    pub today: Today,
    /// A QuotientConfiguration that schedules the incumbents' pods.
    pub configuration: Value,
    pub steps: Vec<Step>,
}

/// A scheduler that the cluster runs, or whose objects it has.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Incumbent {
    pub system: Peer,
    pub scheduler_names: Vec<String>,
    /// By what it was found: configurations, programs and objects.
    pub found: Vec<String>,
    /// Pods that have not ended and name one of its schedulers.
    pub pods: usize,
    /// What makes pods that name one of its schedulers, as `Kind/namespace/name`.
    pub workloads: Vec<String>,
}

/// What works as it is, or differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remark {
    pub system: Peer,
    /// What it is about: a plugin, a setting, a kind, with the object where it was found.
    pub what: String,
    pub message: String,
    /// The row of the page on compatibility that has it.
    pub row: Option<Row>,
}

impl Remark {
    fn new(system: Peer, what: impl Into<String>, message: impl Into<String>) -> Self {
        Remark { system, what: what.into(), message: message.into(), row: None }
    }

    fn of_row(self, section: Section, row: &'static str) -> Self {
        Remark { row: Some(Row { page: section.link(), row }), ..self }
    }
}

/// A row of `docs/compatibility.md`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The page and the section, as a link.
    pub page: String,
    /// Its first column.
    pub row: &'static str,
}

/// A section of that page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Elastic,
    Nos,
    Trees,
    Queues,
    Configurations,
}

impl Section {
    const fn anchor(self) -> &'static str {
        match self {
            Section::Elastic => "elastic-quotas-schedulingx-k8sio-compared-with-the-capacityscheduling-plugin",
            Section::Nos => "elastic-quotas-nosnebulycom-n8snebulyai-compared-with-the-operator-and-scheduler-of-nos",
            Section::Trees => "quota-trees-schedulingsigsk8sio-quotakoordinatorsh-compared-with-koordinator",
            Section::Queues => "queues-jobs-and-cards-volcano",
            Section::Configurations => "configurations-of-schedulers",
        }
    }

    fn link(self) -> String {
        format!("docs/compatibility.md#{}", self.anchor())
    }
}

/// What would be decided on the cluster as it is: where it is empty, nothing would change.
#[derive(Debug, Serialize)]
pub struct Today {
    pub bound: Vec<Bound>,
    pub evicted: Vec<Evicted>,
    /// What admission would reject, and what cannot be read.
    pub rejected: Vec<RejectedObject>,
    pub problems: Vec<ObjectProblem>,
    /// Pods that would stay pending, by reason.
    pub pending: Vec<Pending>,
}

/// Pods that would stay pending for one reason.
#[derive(Debug, Serialize)]
pub struct Pending {
    pub count: usize,
    /// The first of them, as `namespace/name`.
    pub pod: String,
    pub reason: ReasonReport,
}

impl Today {
    fn of(steps: &[StepReport], pods: &[PodReport]) -> Self {
        let mut today = Today {
            bound: steps.iter().flat_map(|step| step.bound.clone()).collect(),
            evicted: steps.iter().flat_map(|step| step.evicted.clone()).collect(),
            rejected: steps.iter().flat_map(|step| step.rejected.clone()).collect(),
            problems: steps.iter().flat_map(|step| step.problems.clone()).collect(),
            pending: Vec::new(),
        };
        let waiting: Vec<(&PodReport, &ReasonReport)> = pods
            .iter()
            .filter(|pod| pod.phase == PodPhase::Pending)
            .filter_map(|pod| Some((pod, pod.reason.as_ref()?)))
            .collect();
        for ((_, _), alike) in grouped_by(&waiting, |(_, reason)| (reason.code.clone(), reason.quota.clone())) {
            let (pod, reason) = alike[0];
            let pod = format!("{}/{}", pod.namespace, pod.name);
            today.pending.push(Pending { count: alike.len(), pod, reason: (*reason).clone() });
        }
        today
    }
}

/// Everything about a move: from what was found, and from what the engine decides on these objects. `configuration`:
/// the one to decide with; without it the one that is proposed. `scheduler_name`: whose pods are decided, if not the
/// incumbents'.
pub fn migration(
    evidence: &Evidence,
    cluster: Input,
    configuration: Option<Configuration>,
    scheduler_name: Option<String>,
) -> Result<Migration, Stuck> {
    let incumbents = peer::incumbents(evidence);
    let mut remarks = Remarks::default();
    for incumbent in &incumbents {
        remarks.configurations(evidence, incumbent.system);
        match incumbent.system {
            Peer::SchedulerPlugins => elastic::scheduler_plugins(evidence, &mut remarks),
            Peer::Nos => elastic::nos(evidence, &mut remarks),
            Peer::Koordinator => koordinator::remarks(evidence, &mut remarks),
            Peer::Volcano => volcano::remarks(evidence, &mut remarks),
            Peer::KubeScheduler => remarks.works(
                Peer::KubeScheduler,
                "pods",
                "filters, scores, priorities and preemption of kube-scheduler's default profile",
            ),
        }
    }
    let names: BTreeSet<String> = incumbents.iter().flat_map(|incumbent| incumbent.scheduler_names.clone()).collect();
    let proposed = steps::configuration(evidence, &incumbents, &names);
    let configuration = configuration.unwrap_or_else(|| {
        // It is made of keys that are read; should it not be, the defaults decide.
        Configuration::from_value(&proposed).unwrap_or_default()
    });
    let scheduler_names = scheduler_name.map_or_else(|| names.into_iter().collect(), |name| vec![name]);
    let setup = Setup { configuration, scheduler_names: Some(scheduler_names) };
    let simulation = Simulation::of(setup, vec![cluster], &mut |_| {})?;
    let today = Today::of(simulation.steps(), &simulation.cluster().pods());
    let steps = steps::steps(evidence, &incumbents, &today);
    let Remarks { works, differs } = remarks;
    Ok(Migration { incumbents, works, differs, today, configuration: proposed, steps })
}

/// What is collected on the way.
#[derive(Debug, Default)]
struct Remarks {
    works: Vec<Remark>,
    differs: Vec<Remark>,
}

impl Remarks {
    fn works(&mut self, system: Peer, what: impl Into<String>, message: impl Into<String>) {
        self.works.push(Remark::new(system, what, message));
    }

    fn differs(
        &mut self,
        system: Peer,
        what: impl Into<String>,
        message: impl Into<String>,
        section: Section,
        row: &'static str,
    ) {
        self.differs.push(Remark::new(system, what, message).of_row(section, row));
    }

    /// What the configurations of a system's schedulers say.
    fn configurations(&mut self, evidence: &Evidence, system: Peer) {
        for conf in &evidence.confs {
            match conf {
                SchedulerConf::Volcano { .. } if system == Peer::Volcano => volcano::plugins(conf, self),
                SchedulerConf::Kube { place, profiles, extenders } => {
                    let of_system = profiles.iter().filter(|profile| peer::of_profile(evidence, profile) == system);
                    let mut is_of_system = false;
                    for profile in of_system {
                        is_of_system = true;
                        for plugin in &profile.plugins {
                            peer::plugin(system, place, profile, plugin, self);
                        }
                    }
                    if is_of_system && *extenders > 0 {
                        let message = format!("{extenders} extenders are not called");
                        let section = Section::Configurations;
                        self.differs(system, format!("extenders ({place})"), message, section, "`extenders`");
                    }
                }
                SchedulerConf::Volcano { .. } => {}
            }
        }
    }
}

/// `a, b, c and 4 more`.
fn some_of(names: &[String]) -> String {
    const MAX: usize = 3;
    let shown = names[..names.len().min(MAX)].join(", ");
    if names.len() > MAX { format!("{shown} and {} more", names.len() - MAX) } else { shown }
}

/// `1 Queue`, `3 Queues`.
fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every section that remarks lead to is on the page.
    #[test]
    fn sections_are_on_the_page() {
        let page = include_str!("../../../docs/compatibility.md");
        let anchor = |heading: &str| {
            let lower = heading.to_lowercase();
            let kept: String = lower.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect();
            kept.replace(' ', "-")
        };
        let anchors: Vec<String> = page.lines().filter_map(|line| line.strip_prefix("## ")).map(anchor).collect();
        let all = [Section::Elastic, Section::Nos, Section::Trees, Section::Queues, Section::Configurations];
        for section in all {
            assert!(anchors.contains(&section.anchor().to_string()), "{section:?}: {anchors:?}");
        }
    }
}
