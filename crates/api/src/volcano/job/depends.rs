//! `dependsOn`: the pods of a task are made when the tasks before it have started.

use std::collections::BTreeSet;

use serde_json::Value;

use super::declared::{Declared, Task, task_of};
use super::standing::{is_leaving, phase_of};

/// The tasks whose pods are not to be made yet, by name. One that has pods goes on.
pub(super) fn waiting<'a>(declared: &'a Declared<'_>, pods: &[&Value]) -> BTreeSet<&'a str> {
    let has_pods = |task: &Task<'_>| pods.iter().any(|pod| task_of(pod) == Some(&*task.name));
    let has_started = |name: &&str| {
        let Some(task) = declared.tasks.iter().find(|task| task.name == **name) else { return true };
        let started = pods.iter().filter(|pod| task_of(pod) == Some(&*task.name) && has_started(pod)).count();
        u64::try_from(started).unwrap_or(u64::MAX) >= task.minimum()
    };
    let may_start = |task: &Task<'_>| match task.any_will_do {
        true => task.depends_on.is_empty() || task.depends_on.iter().any(has_started),
        false => task.depends_on.iter().all(has_started),
    };
    let waits = declared.tasks.iter().filter(|task| !has_pods(task) && !may_start(task));
    waits.map(|task| &*task.name).collect()
}

/// Whether a pod runs, with all containers ready, or has succeeded.
fn has_started(pod: &Value) -> bool {
    let containers = pod.pointer("/status/containerStatuses").and_then(Value::as_array);
    let is_ready = || containers.into_iter().flatten().all(|container| container["ready"] == true);
    match phase_of(pod) {
        Some("Succeeded") => true,
        Some("Running") => !is_leaving(pod) && is_ready(),
        _ => false,
    }
}

/// A task of a circle, or one that depends on itself; `None` where the tasks can start one after the other.
pub fn circle<'a>(declared: &'a Declared<'_>) -> Option<&'a str> {
    let mut done: BTreeSet<&str> = BTreeSet::new();
    let names: BTreeSet<&str> = declared.tasks.iter().map(|task| &*task.name).collect();
    loop {
        let is_open = |task: &&Task<'_>| !done.contains(&*task.name);
        let is_next =
            |task: &&Task<'_>| task.depends_on.iter().all(|name| done.contains(name) || !names.contains(name));
        let next: Vec<&str> = declared.tasks.iter().filter(is_open).filter(is_next).map(|task| &*task.name).collect();
        if next.is_empty() {
            return declared.tasks.iter().find(is_open).map(|task| &*task.name);
        }
        done.extend(next);
    }
}
