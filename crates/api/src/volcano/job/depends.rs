//! `dependsOn`: the pods of a task are made when the tasks before it have started.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::declared::{Declared, Task, task_of};
use super::standing::{is_leaving, phase_of};

/// The tasks whose pods are not to be made yet, by name. One that has pods goes on.
pub(super) fn waiting<'a>(declared: &'a Declared<'_>, pods: &[&Value]) -> BTreeSet<&'a str> {
    // How many pods of each task have started, of those that have any.
    let mut started: BTreeMap<&str, u64> = BTreeMap::new();
    for pod in pods {
        if let Some(task) = task_of(pod) {
            *started.entry(task).or_default() += u64::from(has_started(pod));
        }
    }
    let minima: BTreeMap<&str, u64> = declared.tasks.iter().map(|task| (&*task.name, task.minimum())).collect();
    let has_started =
        |name: &&str| minima.get(name).is_none_or(|minimum| started.get(name).copied().unwrap_or(0) >= *minimum);
    let may_start = |task: &Task<'_>| match task.any_will_do {
        true => task.depends_on.is_empty() || task.depends_on.iter().any(has_started),
        false => task.depends_on.iter().all(has_started),
    };
    let waits = declared.tasks.iter().filter(|task| !started.contains_key(&*task.name) && !may_start(task));
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

/// A task of a circle, or one that depends on itself or on a circle; `None` where the tasks can start one after the
/// other. It takes as long as there are tasks and what they depend on.
pub fn circle<'a>(declared: &'a Declared<'_>) -> Option<&'a str> {
    let tasks = &declared.tasks;
    let by_name: BTreeMap<&str, usize> = tasks.iter().enumerate().map(|(i, task)| (&*task.name, i)).collect();
    let mut awaited: Vec<usize> = vec![0; tasks.len()];
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    for (i, task) in tasks.iter().enumerate() {
        for before in task.depends_on.iter().filter_map(|name| by_name.get(name)) {
            awaited[i] += 1;
            followers[*before].push(i);
        }
    }
    let mut next: Vec<usize> = (0..tasks.len()).filter(|i| awaited[*i] == 0).collect();
    while let Some(done) = next.pop() {
        for follower in &followers[done] {
            awaited[*follower] -= 1;
            if awaited[*follower] == 0 {
                next.push(*follower);
            }
        }
    }
    awaited.iter().position(|count| *count > 0).map(|i| &*tasks[i].name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(tasks: &[(&str, &[&str])]) -> Option<String> {
        let task = |(name, before): &(&str, &[&str])| json!({"name": name, "dependsOn": {"name": before}});
        let job = json!({"spec": {"tasks": tasks.iter().map(task).collect::<Vec<_>>()}});
        circle(&Declared::of(&job)).map(str::to_string)
    }

    #[test]
    fn a_circle_is_found_wherever_it_is() {
        assert_eq!(found(&[("a", &[]), ("b", &["a"]), ("c", &["a", "b"])]), None);
        assert_eq!(found(&[("a", &["a"])]), Some("a".to_string()));
        assert_eq!(found(&[("a", &[]), ("b", &["c"]), ("c", &["b"])]), Some("b".to_string()));
        assert_eq!(found(&[("a", &["gone"]), ("b", &["a", "a"])]), None, "what there is not is waited for by none");
    }

    #[test]
    fn a_chain_of_many_tasks_is_looked_at_in_linear_time() {
        let name = |i: usize| format!("t{i}");
        let task = |i: usize| json!({"name": name(i), "dependsOn": {"name": [name(i + 1)]}});
        let job = json!({"spec": {"tasks": (0..50_000).map(task).collect::<Vec<_>>()}});
        let begun = std::time::Instant::now();
        assert_eq!(circle(&Declared::of(&job)), None);
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }
}
