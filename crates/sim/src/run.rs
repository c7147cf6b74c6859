//! Scenarios run on a virtual cluster.

use quotient_api::ObjectKey;
use serde::Serialize;

use crate::cluster::{Cluster, Outcome, Setup, Stuck};
use crate::expect::Failure;
use crate::scenario::{Scenario, Step, Target};
use crate::server::Refusal;
use crate::simulate::Progress;

/// What came of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScenarioResult {
    pub name: String,
    pub file: String,
    pub steps: Vec<StepResult>,
    /// Why the run could not go on: a fault of the program. Steps after it were not run.
    pub error: Option<String>,
}

impl ScenarioResult {
    /// Whether everything came as expected.
    pub fn passed(&self) -> bool {
        self.error.is_none() && self.steps.iter().all(StepResult::passed)
    }
}

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepResult {
    pub name: String,
    pub failures: Vec<Failure>,
    /// What was rejected, and what could not be read: not failures by themselves, but often why.
    pub notes: Vec<String>,
}

impl StepResult {
    /// Whether the step came as expected.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// Runs a scenario on a virtual cluster of its own. A step that fails does not stop those after it.
pub fn run(scenario: &Scenario, progress: &mut dyn FnMut(Progress<'_>)) -> ScenarioResult {
    let setup = Setup { configuration: scenario.configuration.clone(), scheduler_names: None };
    let mut cluster = Cluster::new(setup);
    let mut result = ScenarioResult {
        name: scenario.name.clone(),
        file: scenario.file.clone(),
        steps: Vec::with_capacity(scenario.steps.len()),
        error: None,
    };
    for (index, step) in scenario.steps.iter().enumerate() {
        match run_step(&mut cluster, step) {
            Ok(step) => result.steps.push(step),
            Err(stuck) => {
                result.error = Some(format!("step {:?}: {stuck}", step.name));
                return result;
            }
        }
        progress(Progress { step: &step.name, done: index + 1, total: scenario.steps.len() });
    }
    result
}

/// Does what the step says, in the order of its parts, lets the cluster settle, and compares.
fn run_step(cluster: &mut Cluster, step: &Step) -> Result<StepResult, Stuck> {
    let Step { name, eviction_takes, apply, delete, finish, fail, restart, wait, expect } = step;
    let mut failures = Vec::new();
    if let Some(takes) = eviction_takes {
        cluster.set_eviction_takes(*takes);
    }
    for object in apply {
        // What is rejected is known to the cluster, and may be what the step expects.
        if let Err(Refusal::Unreadable(problem)) = cluster.apply(object.clone()) {
            failures.push(not_done("apply", "an object", problem.to_string()));
        }
    }
    for target in delete {
        failures.extend(delete_one(cluster, target));
    }
    for (what, pods, outcome) in [("finish", finish, Outcome::Succeeded), ("fail", fail, Outcome::Failed)] {
        for pod in pods {
            if let Err(refusal) = cluster.end(pod, outcome) {
                failures.push(not_done(&format!("{what} {}", path(pod)), "a pod to end", refusal.to_string()));
            }
        }
    }
    if *restart {
        cluster.restart();
    }
    match wait {
        Some(duration) => cluster.wait(*duration)?,
        None => cluster.settle()?,
    }
    let happened = cluster.take_happened();
    failures.extend(expect.check(cluster, &happened));
    let rejected = happened.rejected.iter().map(|r| format!("{} was rejected: {}", r.object, r.message));
    let notes = rejected.chain(happened.problems.iter().map(ToString::to_string)).collect();
    Ok(StepResult { name: name.clone(), failures, notes })
}

fn delete_one(cluster: &mut Cluster, target: &Target) -> Option<Failure> {
    let what = format!("delete {}", target.text);
    let existing: Vec<ObjectKey> = target.keys.iter().filter(|key| cluster.store().contains(key)).cloned().collect();
    match &existing[..] {
        [] => Some(not_done(&what, "an object to delete", "no such object".to_string())),
        [key] => {
            // A refused deletion is known to the cluster, and may be what the step expects.
            let _ = cluster.delete(key);
            None
        }
        several => {
            let names: Vec<String> = several.iter().map(ObjectKey::qualified).collect();
            Some(not_done(&what, "one object to delete", format!("several: write one of {}", names.join(", "))))
        }
    }
}

fn path(pod: &ObjectKey) -> String {
    format!("{}/{}", pod.namespace.as_deref().unwrap_or_default(), pod.name)
}

fn not_done(expectation: &str, expected: &str, found: String) -> Failure {
    Failure { expectation: expectation.to_string(), expected: expected.to_string(), found, reason: None }
}
