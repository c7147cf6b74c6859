//! Jobs of several tasks: what they leave out, and what they must not say.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Context, Operation, Rejection, is_given, metadata, object_in, pod, queue};
use crate::cursor::Cursor;
use crate::pod::ties::BOUND_AS;
use crate::volcano::job::declared::{Declared, default_task_name};
use crate::volcano::job::policy::{ACTIONS, EVENTS, IDLE_EVENTS};
use crate::volcano::job::{bounds, depends};

/// The plugins that Volcano has.
const PLUGINS: [&str; 8] = ["env", "svc", "ssh", "mpi", "pytorch", "tensorflow", "ray", "hcclrank"];

/// Writes what the job leaves out: its queue, the names of its tasks, how many pods must be able to run, how often it
/// is tried.
pub(super) fn set_defaults(object: &mut Value, context: &Context<'_>) -> Result<(), Rejection> {
    let min_available = {
        let declared = Declared::of(object);
        declared.min_available
    };
    let Some(spec) = object_in(object, "spec") else { return Ok(()) };
    if let Some(tasks) = spec.get_mut("tasks").and_then(Value::as_array_mut) {
        for (index, task) in tasks.iter_mut().enumerate() {
            let is_named = task.get("name").is_some_and(|name| !name.is_null() && name != "");
            if let Some(task) = task.as_object_mut().filter(|_| !is_named) {
                task.insert("name".to_string(), Value::from(default_task_name(index)));
            }
        }
    }
    let is_open = |spec: &serde_json::Map<String, Value>, name: &str, empty: Value| {
        spec.get(name).is_none_or(|value| value.is_null() || *value == empty)
    };
    let before = context.old.and_then(|old| old.pointer("/spec/queue")).and_then(Value::as_str);
    let queue = spec.get("queue").and_then(Value::as_str);
    let queue = queue::of_workload(queue, before, context).to_string();
    spec.insert("queue".to_string(), json!(queue));
    if is_open(spec, "minAvailable", json!(0)) {
        spec.insert("minAvailable".to_string(), json!(min_available));
    }
    if is_open(spec, "maxRetry", json!(0)) {
        spec.insert("maxRetry".to_string(), json!(Declared::of(&json!({})).max_retry));
    }
    Ok(())
}

/// Checks a Job of several tasks.
pub(super) fn check(root: &Cursor<'_, '_>, context: &Context<'_>) {
    let spec = root.field("spec");
    let at = spec.field("queue");
    if context.operation == Operation::Create {
        queue::check_open(&at, context);
        queue::check_leaf(&at, context);
    } else if context.old.is_some_and(|old| old.pointer("/spec/queue") != at.value()) {
        at.note("may not change after creation");
    }
    for count in ["minAvailable", "minSuccess", "maxRetry", "ttlSecondsAfterFinished"] {
        spec.field(count).int::<u32>();
    }
    check_policies(&spec, context);
    let tasks = spec.field("tasks");
    if tasks.items().next().is_none() {
        spec.note_missing("tasks", "a job needs at least one");
    }
    let mut names = BTreeSet::new();
    for task in tasks.items() {
        check_task(&task, context);
        let name = task.field("name");
        if name.non_empty_str().is_some_and(|text| !names.insert(text)) {
            name.note("is the name of two tasks");
        }
    }
    let declared = root.value().map(Declared::of);
    if let (Some(job), Some(declared)) = (root.value(), &declared)
        && let Some((field, message)) = bounds::beyond(job, declared)
    {
        // The rest would take as long as there are tasks, and be refused all the same.
        return spec.field(field).note(message);
    }
    let min_available = spec.field("minAvailable");
    if let Some(declared) = declared.filter(|declared| declared.min_available > declared.replicas()) {
        min_available.note(format!("is more than the tasks have pods, which is {}", declared.replicas()));
    }
    check_dependencies(root, &tasks);
    match (context.operation, context.old) {
        (Operation::Update, Some(old)) => check_fixed(root, old),
        _ => check_volumes(&spec),
    }
    let plugins = spec.field("plugins");
    for (name, plugin) in plugins.entries() {
        if !PLUGINS.contains(&name) {
            plugin.note(format!("no such plugin: expected one of {}", PLUGINS.join(", ")));
        } else if !["env", "svc", "ssh"].contains(&name) {
            context.warn(format!("plugin {name} of a job has no effect here"));
        }
    }
}

/// Tasks depend on tasks that there are, and none on itself by way of others.
fn check_dependencies(root: &Cursor<'_, '_>, tasks: &Cursor<'_, '_>) {
    let Some(declared) = root.value().map(Declared::of) else { return };
    let names: BTreeSet<&str> = declared.tasks.iter().map(|task| &*task.name).collect();
    for task in tasks.items() {
        let depends_on = task.field("dependsOn");
        for at in depends_on.field("name").items() {
            if at.non_empty_str().is_some_and(|name| !names.contains(name)) {
                at.note("no such task: expected the name of a task of the job");
            }
        }
        let iteration = depends_on.field("iteration");
        if iteration.non_empty_str().is_some_and(|text| !["any", "all"].contains(&text)) {
            iteration.note("expected any or all");
        }
    }
    if let Some(task) = depends::circle(&declared) {
        tasks.note(format!(
            "{task} depends on itself by way of others: expected tasks that can start one after another"
        ));
    }
}

/// Every volume has a place of its own, and names a claim or says what it should be.
fn check_volumes(spec: &Cursor<'_, '_>) {
    let mut paths = BTreeSet::new();
    for volume in spec.field("volumes").items() {
        let (path, name, claim) =
            (volume.field("mountPath"), volume.field("volumeClaimName"), volume.field("volumeClaim"));
        match path.non_empty_str() {
            None => volume.note_missing("mountPath", "a volume says where it is mounted"),
            Some(text) if !paths.insert(text) => path.note("two volumes are mounted there"),
            Some(_) => {}
        }
        match (name.non_empty_str(), claim.exists()) {
            (None, false) => volume.note_missing("volumeClaim", "expected volumeClaim or volumeClaimName"),
            (Some(_), true) => name.note("must be left out where volumeClaim is given"),
            (Some(text), false) if !metadata::is_subdomain(text) => name.note("expected the name of a volume claim"),
            _ => {}
        }
    }
}

/// What may not change: pods that are there would not follow. How many there are may.
fn check_fixed(root: &Cursor<'_, '_>, old: &Value) {
    let spec = root.field("spec");
    for field in ["plugins", "volumes"] {
        let at = spec.field(field);
        let was = old.pointer(&format!("/spec/{field}")).filter(|value| !value.is_null());
        if at.value().map(without_claim_names) != was.map(without_claim_names) {
            at.note("may not change after creation");
        }
    }
    let tasks = spec.field("tasks");
    let before = old.pointer("/spec/tasks").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if tasks.items().count() != before.len() {
        return tasks.note(format!("may not change after creation: expected {} tasks", before.len()));
    }
    for (task, before) in tasks.items().zip(before) {
        for field in ["name", "template", "dependsOn"] {
            let at = task.field(field);
            // A name that was left out was filled in since.
            let was = before.get(field).filter(|value| !value.is_null() && *value != "");
            if (was.is_some() || field != "name") && at.value().filter(|value| !value.is_null()) != was {
                task.note_at(field, "may not change after creation".to_string());
            }
        }
    }
}

/// Volumes without the names of claims that a controller wrote.
fn without_claim_names(volumes: &Value) -> Value {
    let mut volumes = volumes.clone();
    for volume in volumes.as_array_mut().into_iter().flatten() {
        if let Some(volume) = volume.as_object_mut().filter(|volume| volume.contains_key("volumeClaim")) {
            volume.shift_remove("volumeClaimName");
        }
    }
    volumes
}

fn check_task(task: &Cursor<'_, '_>, context: &Context<'_>) {
    let (replicas, minimum) = (task.field("replicas"), task.field("minAvailable"));
    let count = replicas.int::<u32>().or_else(|| (!replicas.exists()).then_some(1));
    if let (Some(count), Some(needed)) = (count, minimum.int::<u32>())
        && needed > count
    {
        minimum.note(format!("is more than the task has pods, which is {count}"));
    }
    let name = task.field("name");
    if name.non_empty_str().is_some_and(|text| !metadata::is_subdomain(text) || text.contains('.')) {
        name.note("expected lower-case letters, digits and '-': it is part of the names of pods");
    }
    task.field("maxRetry").int::<i32>();
    check_policies(task, context);
    let template = task.field("template");
    match template.exists() {
        true => {
            let metadata = template.field("metadata");
            metadata::check_labels(&metadata.field("labels"));
            let annotations = metadata.field("annotations");
            let record = annotations.field(BOUND_AS);
            if record.exists() {
                record.note("is for the scheduler to write: leave it out");
            }
            pod::check_spec(&template, "spec", context);
        }
        false => task.note_missing("template", "pods are made from it"),
    }
}

/// Events and actions are known, and each event has one policy.
fn check_policies(parent: &Cursor<'_, '_>, context: &Context<'_>) {
    let mut seen = BTreeSet::new();
    let policies = parent.field("policies");
    for policy in policies.items() {
        let action = policy.field("action");
        match action.non_empty_str() {
            Some(name) if ACTIONS.contains(&name) => {}
            Some(_) => action.note(format!("expected one of {}", ACTIONS.join(", "))),
            None => policy.note_missing("action", "a policy says what is to be done"),
        }
        let (one, several, code) = (policy.field("event"), policy.field("events"), policy.field("exitCode"));
        if code.int::<i64>() == Some(0) {
            code.note("0 is no failure: expected another exit code");
        }
        if code.exists() && (one.exists() || several.exists()) {
            code.note("must be left out where an event is given");
        }
        if !is_any_given(&policy) {
            policy.note_missing("event", "a policy says when it holds: expected event, events or exitCode");
        }
        // One that is named twice in a policy is in it once.
        let mut own = BTreeSet::new();
        for event in several.items().chain([one]) {
            let Some(name) = event.non_empty_str().filter(|name| own.insert(*name)) else { continue };
            if IDLE_EVENTS.contains(&name) {
                context.warn(format!("the event {name} of a policy does not come about here"));
            } else if !EVENTS.contains(&name) {
                event.note(format!("expected one of {}", EVENTS.join(", ")));
            }
            if !seen.insert(name) {
                event.note("has two policies: expected one for each event");
            }
        }
    }
    if seen.contains("*") && seen.len() > 1 {
        policies.note("* stands for every event: expected no other beside it");
    }
}

fn is_any_given(policy: &Cursor<'_, '_>) -> bool {
    policy.value().is_none_or(|policy| ["event", "events", "exitCode"].iter().any(|name| is_given(policy, name)))
}
