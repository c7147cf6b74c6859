//! Scenarios run on a cluster, virtual or not.

use quotient_api::ObjectKey;
use serde::Serialize;

use crate::ages::Partings;
use crate::cluster::{Cluster, Outcome, Setup};
use crate::expect::Failure;
use crate::scenario::{Scenario, Step, Target};
use crate::simulate::Progress;
use crate::subject::{Subject, Trouble};

/// What came of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScenarioResult {
    pub name: String,
    pub file: String,
    pub steps: Vec<StepResult>,
    /// Why the run could not go on: a fault of the program. Steps after it were not run.
    pub error: Option<String>,
    /// Why it need not come as expected here, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exception: Option<String>,
}

/// How the reason of an exception begins that fails at times and passes at others.
const SOMETIMES: &str = "sometimes: ";

impl ScenarioResult {
    /// Whether everything came as expected.
    pub fn passed(&self) -> bool {
        self.error.is_none() && self.steps.iter().all(StepResult::passed)
    }

    /// Whether something did not come as expected that should have.
    pub fn failed(&self) -> bool {
        !self.passed() && self.exception.is_none()
    }

    /// The same scenario where it need not come as expected. One that does all the same fails: what is listed as an
    /// exception is to be one.
    pub fn excepted(mut self, reason: &str) -> ScenarioResult {
        let has_passed = self.passed();
        if has_passed {
            let (expected, found) = (format!("an exception: {reason}"), "it passes: take it off the list".to_string());
            let failures = vec![failure("exception", &expected, found)];
            self.steps.push(StepResult { name: "exceptions".to_string(), failures, notes: Vec::new() });
        }
        if !has_passed || reason.starts_with(SOMETIMES) {
            self.exception = Some(reason.to_string());
        }
        self
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
    // Every object is younger than those before it, and nothing has to be done for that.
    run_on(&mut Cluster::new(setup), scenario, &Partings::default(), progress)
}

/// Runs a scenario on a cluster that has nothing in it. A step that fails does not stop those after it.
pub fn run_on(
    subject: &mut impl Subject,
    scenario: &Scenario,
    partings: &Partings,
    progress: &mut dyn FnMut(Progress<'_>),
) -> ScenarioResult {
    let mut result = ScenarioResult {
        name: scenario.name.clone(),
        file: scenario.file.clone(),
        steps: Vec::with_capacity(scenario.steps.len()),
        error: None,
        exception: None,
    };
    for (index, step) in scenario.steps.iter().enumerate() {
        match run_step(subject, index, step, partings) {
            Ok(step) => result.steps.push(step),
            Err(trouble) => {
                result.error = Some(format!("step {:?}: {trouble}", step.name));
                return result;
            }
        }
        progress(Progress { step: &step.name, done: index + 1, total: scenario.steps.len() });
    }
    result
}

/// Does what the step says, in the order of its parts, lets the cluster settle, and compares.
fn run_step(subject: &mut impl Subject, index: usize, step: &Step, partings: &Partings) -> Result<StepResult, Trouble> {
    let Step { name, eviction_takes, apply, delete, finish, fail, restart, wait, expect } = step;
    let mut failures = Vec::new();
    if let Some(takes) = eviction_takes {
        subject.set_eviction_takes(*takes)?;
    }
    for (place, object) in apply.iter().enumerate() {
        if partings.is_before(index, place) {
            subject.part_ages()?;
        }
        let outcome = subject.apply(object.clone());
        failures.extend(not_done("apply", "an object", outcome)?);
    }
    for target in delete {
        failures.extend(delete_one(subject, target)?);
    }
    for (what, pods, outcome) in [("finish", finish, Outcome::Succeeded), ("fail", fail, Outcome::Failed)] {
        for pod in pods {
            let outcome = subject.end(pod, outcome);
            failures.extend(not_done(&format!("{what} {}", path(pod)), "a pod to end", outcome)?);
        }
    }
    if *restart {
        subject.restart()?;
    }
    match wait {
        Some(duration) => subject.wait(*duration)?,
        None => subject.settle()?,
    }
    let happened = subject.take_happened()?;
    failures.extend(expect.check(subject, &happened));
    let rejected = happened.rejected.iter().map(|r| format!("{} was rejected: {}", r.object, r.message));
    let notes = rejected.chain(happened.problems.iter().map(ToString::to_string)).collect();
    Ok(StepResult { name: name.clone(), failures, notes })
}

fn delete_one(subject: &mut impl Subject, target: &Target) -> Result<Option<Failure>, Trouble> {
    let what = format!("delete {}", target.text);
    match &subject.existing(&target.keys)?[..] {
        [] => Ok(Some(failure(&what, "an object to delete", "no such object".to_string()))),
        [key] => not_done(&what, "an object to delete", subject.delete(key)),
        several => {
            let names: Vec<String> = several.iter().map(ObjectKey::qualified).collect();
            let found = format!("several: write one of {}", names.join(", "));
            Ok(Some(failure(&what, "one object to delete", found)))
        }
    }
}

fn path(pod: &ObjectKey) -> String {
    format!("{}/{}", pod.namespace.as_deref().unwrap_or_default(), pod.name)
}

/// What the scenario says and cannot be done is a failure of the step; the rest ends the run.
fn not_done(what: &str, expected: &str, outcome: Result<(), Trouble>) -> Result<Option<Failure>, Trouble> {
    match outcome {
        Ok(()) => Ok(None),
        Err(Trouble::NotDone(why)) => Ok(Some(failure(what, expected, why))),
        Err(stuck) => Err(stuck),
    }
}

fn failure(expectation: &str, expected: &str, found: String) -> Failure {
    Failure { expectation: expectation.to_string(), expected: expected.to_string(), found, reason: None }
}
