//! The configuration that takes a cluster over, and the steps, as commands.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::evidence::Evidence;
use super::peer::{Peer, Program, Role, gpu_memory};
use super::scheduler_conf::SchedulerConf;
use super::{Incumbent, Today, koordinator, volcano};

/// The file that the configuration is written to in the steps.
pub const FILE: &str = "quotient.yaml";

/// One step.
#[derive(Debug, Serialize)]
pub struct Step {
    pub title: String,
    /// What to run, in order.
    pub commands: Vec<String>,
}

impl Step {
    fn new(title: impl Into<String>, commands: Vec<String>) -> Self {
        Step { title: title.into(), commands }
    }
}

/// A QuotientConfiguration that schedules these pods and keeps what the incumbents' settings say.
pub fn configuration(evidence: &Evidence, incumbents: &[Incumbent], names: &BTreeSet<String>) -> Value {
    let mut settings = Map::new();
    settings.insert("apiVersion".to_owned(), json!("quotient.dev/v1alpha1"));
    settings.insert("kind".to_owned(), json!("QuotientConfiguration"));
    let names: Vec<&String> = names.iter().collect();
    settings.insert("schedulerNames".to_owned(), if names.is_empty() { json!(["quotient"]) } else { json!(names) });
    let has = |system: Peer| incumbents.iter().any(|incumbent| incumbent.system == system);
    let runs = |system: Peer| {
        evidence.programs.iter().any(|program| program.system == system && program.role == Role::Controller)
    };
    if has(Peer::Nos)
        && let Some(memory) = nos_gpu_memory(evidence)
    {
        settings.insert("nvidiaGPUResourceMemoryGB".to_owned(), json!(memory));
    }
    if let Some(tree) = koordinator::settings(evidence).filter(|_| has(Peer::Koordinator)) {
        settings.insert("tree".to_owned(), tree);
    }
    if runs(Peer::Koordinator) {
        settings.insert("profileController".to_owned(), json!(false));
    }
    if has(Peer::Volcano) {
        settings.append(&mut volcano::settings(evidence));
        // Volcano's controller makes the pods of jobs until somebody decides otherwise.
        settings.insert("volcanoJobController".to_owned(), json!(false));
    }
    Value::Object(settings)
}

fn nos_gpu_memory(evidence: &Evidence) -> Option<u64> {
    evidence.confs.iter().find_map(|conf| match conf {
        SchedulerConf::Kube { profiles, .. } => {
            profiles.iter().find_map(|profile| gpu_memory(profile.plugin("CapacityScheduling")?))
        }
        SchedulerConf::Volcano { .. } => None,
    })
}

/// What to do, in order.
pub fn steps(evidence: &Evidence, incumbents: &[Incumbent], today: &Today) -> Vec<Step> {
    if incumbents.is_empty() {
        return Vec::new();
    }
    let line = |text: &str| vec![text.to_owned()];
    let mut systems: Vec<&str> = incumbents.iter().map(|incumbent| incumbent.system.systems()).collect();
    systems.dedup();
    let systems = systems.join(",");
    let quota_kinds = incumbents.iter().any(|incumbent| incumbent.system != Peer::KubeScheduler);
    let mut steps = vec![
        Step::new("Save the cluster's state", line("quotient snapshot before.snapshot")),
        Step::new("Write the configuration above", line(&format!("quotient migrate --write-config {FILE}"))),
    ];
    if !today.rejected.is_empty() {
        let title = format!("Correct {} objects that admission would reject", today.rejected.len());
        steps.push(Step::new(title, line("quotient lint before.snapshot")));
    }
    steps.push(Step::new(
        "Compare for some days: it decides beside the incumbent, writes nothing and counts where the two agree",
        line(&format!("quotient run --shadow --compare --systems {systems} --config {FILE} --metrics 127.0.0.1:9090")),
    ));
    let stopped = |role: &[Role]| -> Vec<&Program> {
        evidence.programs.iter().filter(|program| role.contains(&program.role)).collect()
    };
    // What writes the same statuses must not run beside it; Volcano's controller makes pods, and stays.
    let schedulers = stopped(&[Role::Scheduler]);
    let rivals = stopped(&[Role::Controller]);
    let rivals: Vec<&Program> =
        rivals.into_iter().filter(|program| matches!(program.system, Peer::SchedulerPlugins | Peer::Nos)).collect();
    let scaled = |replicas: &dyn Fn(&Program) -> u64| -> Vec<String> {
        schedulers.iter().chain(&rivals).map(|program| scale(program, replicas(program))).collect()
    };
    let none_seen = || line("# no Deployment of it was seen: stop it as it was installed");
    let stop = scaled(&|_| 0);
    steps.push(Step::new(
        "Stop the incumbent's scheduler, and controllers that write the same statuses; pods go on running",
        if stop.is_empty() { none_seen() } else { stop },
    ));
    let no_definitions = if quota_kinds { " --no-crds" } else { "" };
    steps.push(Step::new(
        "Install Quotient under the incumbent's scheduler name, so that no workload changes",
        line(&format!(
            "quotient install --systems {systems}{no_definitions} --config {FILE} --image registry.example/quotient:{} \
             | kubectl apply --server-side -f -",
            env!("CARGO_PKG_VERSION")
        )),
    ));
    steps.push(Step::new("Check the installation", line("quotient check")));
    let mut back = line("kubectl scale -n quotient-system deployment/quotient --replicas=0");
    back.extend(scaled(&|program| program.replicas));
    steps.push(Step::new("To go back: stop Quotient and start the incumbent; no object has changed", back));
    steps
}

/// The command that gives a program so many replicas.
fn scale(program: &Program, replicas: u64) -> String {
    let mut parts = program.object.splitn(3, '/');
    let (kind, namespace, name) = (parts.next(), parts.next(), parts.next());
    let kind = kind.unwrap_or_default().to_lowercase();
    format!(
        "kubectl scale -n {} {kind}/{} --replicas={replicas}",
        namespace.unwrap_or_default(),
        name.unwrap_or_default()
    )
}
