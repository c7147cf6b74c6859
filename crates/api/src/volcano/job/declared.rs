//! A job as its object declares it. What is left out has its default; what is wrong was refused at admission, and is
//! read as left out where it got in all the same.

use serde_json::Value;

use super::arguments::Arguments;
use crate::volcano::{DEFAULT_QUEUE, TASK_SPEC, annotation};

/// The version of the job that a pod was made for: pods of an earlier one belong to a run that was given up.
pub(super) const JOB_VERSION: &str = "volcano.sh/job-version";

/// How often a job is tried where it does not say.
const MAX_RETRY: u64 = 3;

/// A job.
#[derive(Debug)]
pub struct Declared<'a> {
    pub queue: &'a str,
    pub tasks: Vec<Task<'a>>,
    /// So many pods must be able to run.
    pub min_available: u64,
    /// So many pods that succeed are enough.
    pub min_success: Option<u64>,
    pub max_retry: u64,
    /// For how many seconds it is kept when it is done; `None`: for good.
    pub keeps_s: Option<u64>,
    /// What is added to its pods: names and arguments.
    pub plugins: Vec<(&'a str, Arguments<'a>)>,
    pub policies: &'a [Value],
}

/// A part of a job: pods of one template.
#[derive(Debug)]
pub struct Task<'a> {
    pub name: String,
    pub replicas: u64,
    /// How many of them must be able to run, where it says so.
    pub given_minimum: Option<u64>,
    pub template: &'a Value,
    pub policies: &'a [Value],
    /// The tasks that have to start before it.
    pub depends_on: Vec<&'a str>,
    /// One of them is enough.
    pub any_will_do: bool,
    /// After so many restarts of containers it has failed; `None`: never.
    pub max_retry: Option<u64>,
}

impl<'a> Declared<'a> {
    /// Reads a job.
    pub fn of(job: &'a Value) -> Self {
        static NOTHING: Value = Value::Null;
        let spec = job.get("spec").unwrap_or(&NOTHING);
        let tasks: Vec<Task<'a>> =
            list(spec, "tasks").iter().enumerate().map(|(index, task)| task_at(index, task)).collect();
        let minimum = sum(tasks.iter().map(Task::minimum));
        Declared {
            queue: spec.get("queue").and_then(Value::as_str).filter(|queue| !queue.is_empty()).unwrap_or(DEFAULT_QUEUE),
            // What is not given, or is 0 as programs write what is not given, is all that the tasks need.
            min_available: number(spec, "minAvailable").filter(|minimum| *minimum > 0).unwrap_or(minimum),
            min_success: number(spec, "minSuccess"),
            max_retry: number(spec, "maxRetry").unwrap_or(MAX_RETRY),
            keeps_s: number(spec, "ttlSecondsAfterFinished"),
            plugins: spec
                .get("plugins")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
                .map(|(name, plugin)| (&**name, Arguments::of(plugin)))
                .collect(),
            policies: list(spec, "policies"),
            tasks,
        }
    }

    /// The arguments of a plugin that it has.
    pub fn plugin(&self, name: &str) -> Option<Arguments<'a>> {
        self.plugins.iter().find(|(known, _)| *known == name).map(|(_, arguments)| *arguments)
    }

    /// How many pods it has in all.
    pub fn replicas(&self) -> u64 {
        sum(self.tasks.iter().map(|task| task.replicas))
    }

    /// What its tasks need, added up.
    pub fn task_minimum(&self) -> u64 {
        sum(self.tasks.iter().map(Task::minimum))
    }
}

impl Task<'_> {
    /// How many of its pods must be able to run.
    pub fn minimum(&self) -> u64 {
        self.given_minimum.unwrap_or(self.replicas)
    }
}

/// The name of a task that has none, by its place.
pub fn default_task_name(index: usize) -> String {
    format!("default{index}")
}

fn task_at(index: usize, task: &Value) -> Task<'_> {
    static NOTHING: Value = Value::Null;
    let name = task.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
    let depends_on = task.get("dependsOn");
    Task {
        name: name.map_or_else(|| default_task_name(index), str::to_string),
        replicas: number(task, "replicas").unwrap_or(1),
        given_minimum: number(task, "minAvailable"),
        template: task.get("template").unwrap_or(&NOTHING),
        policies: list(task, "policies"),
        depends_on: depends_on.map_or(&[][..], |tasks| list(tasks, "name")).iter().filter_map(Value::as_str).collect(),
        any_will_do: depends_on.and_then(|tasks| tasks.get("iteration")).is_some_and(|iteration| iteration == "any"),
        max_retry: match task.get("maxRetry").and_then(Value::as_i64) {
            None | Some(0) => Some(MAX_RETRY),
            Some(count) => u64::try_from(count).ok(),
        },
    }
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn number(value: &Value, name: &str) -> Option<u64> {
    value.get(name)?.as_u64()
}

fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// The task that a pod belongs to.
pub(super) fn task_of(pod: &Value) -> Option<&str> {
    annotation(pod, TASK_SPEC)
}

/// The version of the job that a pod was made for.
pub(super) fn version_of(pod: &Value) -> Option<u64> {
    annotation(pod, JOB_VERSION)?.parse().ok()
}
