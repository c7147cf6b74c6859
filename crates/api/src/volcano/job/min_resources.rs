//! What it takes to start a gang: the requests of as many pods as must be able to run.

use std::collections::BTreeMap;

use quotient_engine::quantity::canonical;
use serde_json::Value;

use super::declared::{Declared, Task};
use crate::admission::View;
use crate::cursor::{Cursor, Notes};
use crate::object::ObjectKey;
use crate::pod::usage;

/// What the minimum of a job takes. Tasks of higher priority count first. Where the job as a whole takes fewer pods
/// than its tasks together, the first so many count; else each task's minimum does, and then further pods in order.
pub(super) fn of_job(declared: &Declared<'_>, view: &dyn View) -> Value {
    let mut tasks: Vec<&Task<'_>> = declared.tasks.iter().collect();
    tasks.sort_by_key(|task| std::cmp::Reverse(priority(task.template, view)));
    let mut left = declared.min_available;
    let mut counted: Vec<u64> = vec![0; tasks.len()];
    if declared.min_available >= declared.task_minimum() {
        for (count, task) in counted.iter_mut().zip(&tasks) {
            *count = task.minimum().min(task.replicas);
            left = left.saturating_sub(*count);
        }
    }
    for (count, task) in counted.iter_mut().zip(&tasks) {
        let more = (task.replicas - *count).min(left);
        *count += more;
        left -= more;
    }
    let mut sums = BTreeMap::new();
    for (count, task) in counted.into_iter().zip(&tasks) {
        add(&mut sums, task.template.get("spec"), count);
    }
    quantities(&sums)
}

/// What `count` pods of a spec take.
pub(crate) fn times(spec: Option<&Value>, count: u64) -> Value {
    let mut sums = BTreeMap::new();
    add(&mut sums, spec, count);
    quantities(&sums)
}

/// The resources of which Kubernetes' own quotas count limits.
const LIMITED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Adds what so many pods of a spec take, under the names of the resources and under those that Kubernetes' own quotas
/// have for them.
fn add(sums: &mut BTreeMap<String, i128>, spec: Option<&Value>, count: u64) {
    let Some(spec) = spec else { return };
    let notes = Notes::default();
    let usage::Usage { requests, limits } = usage::of(&Cursor::root(spec, &notes));
    let of_pod = ["pods", "count/pods"].map(|name| (name.to_owned(), 1));
    let asked = requests.into_iter().flat_map(|(name, amount)| [(format!("requests.{name}"), amount), (name, amount)]);
    let limited = limits.into_iter().filter(|(name, _)| LIMITED.contains(&&**name));
    let limited = limited.map(|(name, amount)| (format!("limits.{name}"), amount));
    for (name, amount) in of_pod.into_iter().chain(asked).chain(limited) {
        let sum = sums.entry(name).or_default();
        *sum = sum.saturating_add(amount.saturating_mul(count.into()));
    }
}

fn quantities(sums: &BTreeMap<String, i128>) -> Value {
    let shown = sums.iter().filter(|(_, amount)| **amount != 0);
    Value::Object(
        shown.map(|(name, amount)| (name.clone(), Value::from(canonical(usage::unit(name), *amount)))).collect(),
    )
}

/// The priority of pods of a template: what it says, or what its class does.
fn priority(template: &Value, view: &dyn View) -> i64 {
    let given = template.pointer("/spec/priority").and_then(Value::as_i64);
    let class = || {
        let name = template.pointer("/spec/priorityClassName").and_then(Value::as_str)?;
        let key = ObjectKey { group: "scheduling.k8s.io", kind: "PriorityClass", namespace: None, name: name.into() };
        view.get(&key)?.get("value")?.as_i64()
    };
    given.or_else(class).unwrap_or(0)
}
