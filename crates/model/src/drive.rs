//! A scenario on a virtual cluster, with the model watching every decision.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use quotient_sim::cluster::Outcome;
use quotient_sim::scenario::{Step, parse};
use quotient_sim::{Cluster, Scenario, Setup, Stuck};
use serde_json::Value;

use crate::check::{Checker, Difference, Kind};
use crate::world::{World, text};

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepLog {
    /// `namespace/name@node` and `namespace/name`, sorted.
    pub bound: Vec<String>,
    pub evicted: Vec<String>,
    /// Who is on a node at the end.
    pub running: Vec<String>,
}

/// What came of a run.
#[derive(Debug, Clone, Default)]
pub struct Run {
    pub differences: Vec<Difference>,
    pub steps: Vec<StepLog>,
    /// Objects that were not let in; the case means something else then.
    pub rejected: Vec<String>,
    /// Some pod was outside the model.
    pub unmodelled: bool,
}

fn joined<T: ToString>(problems: &[T]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Runs a scenario. An error is one of the scenario.
pub fn run(scenario: &Value) -> Result<Run, String> {
    let scenarios = parse("case", &scenario.to_string(), Path::new("")).map_err(|problems| joined(&problems))?;
    let [scenario] = &scenarios[..] else { return Err("expected one scenario".to_string()) };
    Ok(run_scenario(scenario))
}

/// Runs a scenario that was read already.
pub fn run_scenario(scenario: &Scenario) -> Run {
    drive(scenario, true)
}

/// The same without the model: only what came of the steps.
pub fn run_unwatched(scenario: &Scenario) -> Run {
    drive(scenario, false)
}

fn drive(scenario: &Scenario, is_watched: bool) -> Run {
    let setup = Setup { configuration: scenario.configuration.clone(), scheduler_names: None };
    // A fault of the program is a difference like any other.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let (checker, run) = (Checker::default(), Run::default());
        let mut driver = Driver { cluster: Cluster::new(setup), checker, run, is_watched, waited: Duration::ZERO };
        if is_watched {
            driver.cluster.record_rounds();
        }
        for step in &scenario.steps {
            if let Err(stuck) = driver.step(step) {
                let kind = match stuck {
                    Stuck::Unsettled { .. } => Kind::Loop,
                    Stuck::Invariant(_) => Kind::Fault,
                };
                driver.checker.differences.push(Difference { kind, about: String::new(), why: stuck.to_string() });
                break;
            }
        }
        driver.run.differences = driver.checker.differences;
        driver.run
    }));
    outcome.unwrap_or_else(|_| {
        let why = "the program panics".to_string();
        let difference = Difference { kind: Kind::Fault, about: String::new(), why };
        Run { differences: vec![difference], ..Run::default() }
    })
}

struct Driver {
    cluster: Cluster,
    checker: Checker,
    run: Run,
    is_watched: bool,
    waited: Duration,
}

/// Waits that are longer in all than this start reservations, which a restart starts anew.
pub const WAIT_MAX: Duration = Duration::from_secs(290);

/// Who waits in a cluster at rest although a scheduler that starts anew with the same objects would serve it.
/// `is_guarded`: pods were evicted, and what such a scheduler would evict beyond that could go on without end.
pub fn forgotten(cluster: &Cluster, is_guarded: bool) -> Result<Option<Difference>, Stuck> {
    let mut fresh = cluster.clone();
    fresh.take_happened();
    fresh.restart();
    fresh.settle()?;
    let happened = fresh.take_happened();
    let evicted = happened.evicted.iter().filter(|_| !is_guarded);
    let evicts = evicted.map(|pod| format!("evicts {}/{}", pod.namespace, pod.name));
    let binds = happened.bound.iter().filter(|_| !is_guarded || happened.evicted.is_empty());
    let binds = binds.map(|pod| format!("binds {}/{} to {}", pod.namespace, pod.name, pod.node));
    let does: Vec<String> = binds.chain(evicts).collect();
    let why = || format!("a scheduler that starts anew {}", does.join(", "));
    Ok((!does.is_empty()).then(|| Difference { kind: Kind::Metamorphic, about: "forgotten".to_string(), why: why() }))
}

impl Driver {
    fn step(&mut self, step: &Step) -> Result<(), Stuck> {
        self.checker.step_begins();
        if let Some(takes) = step.eviction_takes {
            self.cluster.set_eviction_takes(takes);
        }
        let only_pods = |object: &Value| matches!(text(object, "/kind"), "Pod" | "PodGroup" | "ReplicaSet");
        if !step.apply.iter().all(only_pods) || !step.delete.is_empty() {
            self.checker.rules_change();
        }
        for object in &step.apply {
            // What is not let in is among what happened.
            let _ = self.cluster.apply(object.clone());
        }
        for key in step.delete.iter().flat_map(|target| &target.keys) {
            let _ = self.cluster.delete(key);
        }
        // A pod that is to end may have been evicted before.
        for (pods, outcome) in [(&step.finish, Outcome::Succeeded), (&step.fail, Outcome::Failed)] {
            for pod in pods {
                let _ = self.cluster.end(pod, outcome);
            }
        }
        if step.restart {
            self.cluster.restart();
        }
        let settled = match step.wait {
            Some(duration) => self.cluster.wait(duration),
            None => self.cluster.settle(),
        };
        for round in self.cluster.take_rounds() {
            self.checker.round(&round);
        }
        settled?;
        let objects = self.cluster.objects();
        if self.is_watched {
            self.run.unmodelled |= World::read(&objects).pods.iter().any(|pod| pod.unmodelled);
            self.checker.rest(&objects);
        }
        let happened = self.cluster.take_happened();
        self.waited += step.wait.unwrap_or_default();
        if self.is_watched && self.waited <= WAIT_MAX {
            let is_guarded = !happened.evicted.is_empty();
            self.checker.differences.extend(forgotten(&self.cluster, is_guarded)?);
        }
        self.run.rejected.extend(happened.rejected.iter().map(|rejected| rejected.message.clone()));
        let running = objects.iter().filter(|object| text(object, "/kind") == "Pod").filter_map(|pod| {
            let node = text(pod, "/spec/nodeName");
            let name = format!("{}/{}@{node}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
            (!node.is_empty()).then_some(name)
        });
        self.run.steps.push(StepLog {
            bound: happened
                .bound
                .iter()
                .map(|bound| format!("{}/{}@{}", bound.namespace, bound.name, bound.node))
                .collect(),
            evicted: happened.evicted.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect(),
            running: running.collect(),
        });
        Ok(())
    }
}
