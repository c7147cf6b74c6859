//! The objects that a job makes: its group and its pods.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::declared::{Declared, JOB_VERSION, Task};
use super::standing::Standing;
use super::{group_name, min_resources, ssh, svc, volumes};
use crate::admission::View;
use crate::pod::ties::BOUND_AS;
use crate::volcano::{
    CARD_NAME, CARD_REQUEST, GROUP_NAMES, MIXED_CARDS, POD_GROUP, PREEMPTABLE, QUEUE_NAME, SCHEDULING, TASK_SPEC,
    annotation,
};

/// Annotations of the job that its group has too.
const OF_GROUP: [&str; 3] = [CARD_REQUEST, MIXED_CARDS, PREEMPTABLE];

/// Annotations of the job that its pods have too, where their template says nothing.
const OF_PODS: [&str; 2] = [CARD_NAME, PREEMPTABLE];

/// The fields of a group's spec that are the job's to say.
const SPEC_FIELDS: [&str; 6] =
    ["minMember", "minTaskMember", "queue", "minResources", "priorityClassName", "networkTopology"];

/// The name of a pod.
pub(super) fn name(job: &Value, task: &str, index: u64) -> String {
    format!("{}-{task}-{index}", job.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default())
}

/// The group of a job. Its owner is set by whoever makes it. Tasks that wait for others are not part of it yet, or the
/// others would wait for them; its queue must have room for all.
pub(super) fn group(job: &Value, declared: &Declared<'_>, waiting: &BTreeSet<&str>, view: &dyn View) -> Value {
    let started = || declared.tasks.iter().filter(|task| !waiting.contains(&*task.name));
    let tasks: Map<String, Value> = started().map(|task| (task.name.clone(), Value::from(task.minimum()))).collect();
    let replicas = started().map(|task| task.replicas).fold(0, u64::saturating_add);
    let mut spec = json!({
        "minMember": if waiting.is_empty() { declared.min_available } else { declared.min_available.min(replicas) },
        "minTaskMember": tasks,
        "queue": declared.queue,
        "minResources": min_resources::of_job(declared, view),
    });
    if let Some(topology) = job.pointer("/spec/networkTopology") {
        spec["networkTopology"] = topology.clone();
    }
    if let Some(class) = priority_class(job) {
        spec["priorityClassName"] = Value::from(class);
    }
    json!({
        "apiVersion": format!("{SCHEDULING}/v1beta1"),
        "kind": POD_GROUP,
        "metadata": {
            "name": group_name(job),
            "namespace": job["metadata"]["namespace"],
            "annotations": carried(job, &OF_GROUP),
        },
        "spec": spec,
    })
}

/// Whether a group that exists says something else than the job wants.
pub(super) fn group_spec_differs(group: &Value, wanted: &Value) -> bool {
    SPEC_FIELDS.iter().any(|field| group["spec"].get(field) != wanted["spec"].get(field))
}

/// The spec of a group that exists, as the job wants it.
pub(super) fn group_spec(group: &Value, wanted: &Value) -> Value {
    let mut spec = group["spec"].as_object().cloned().unwrap_or_default();
    for field in SPEC_FIELDS {
        match wanted["spec"].get(field) {
            Some(value) => spec.insert(field.to_string(), value.clone()),
            None => spec.shift_remove(field),
        };
    }
    Value::Object(spec)
}

/// A pod of a job. Its owner is set by whoever makes it.
pub(super) fn pod(job: &Value, declared: &Declared<'_>, task: &Task<'_>, index: u64, standing: &Standing) -> Value {
    let job_name = job.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let template = task.template;
    let of_template = |part: &str| template.pointer(&format!("/metadata/{part}")).and_then(Value::as_object).cloned();
    let mut annotations = carried(job, &OF_PODS);
    annotations.extend(of_template("annotations").unwrap_or_default());
    // What a pod was bound as is for its Binding to say.
    annotations.shift_remove(BOUND_AS);
    annotations.extend(texts([
        (GROUP_NAMES[0], group_name(job)),
        (QUEUE_NAME, declared.queue.to_string()),
        (TASK_SPEC, task.name.clone()),
        ("volcano.sh/task-index", index.to_string()),
        ("volcano.sh/job-name", job_name.to_string()),
        ("volcano.sh/queue-name", declared.queue.to_string()),
        (JOB_VERSION, standing.version.to_string()),
        ("volcano.sh/job-retry-count", standing.retry_count.to_string()),
        ("volcano.sh/template-uid", format!("{job_name}-{}", task.name)),
    ]));
    let mut labels = of_template("labels").unwrap_or_default();
    labels.extend(texts([
        ("volcano.sh/job-name", job_name.to_string()),
        ("volcano.sh/job-namespace", job["metadata"]["namespace"].as_str().unwrap_or_default().to_string()),
        ("volcano.sh/queue-name", declared.queue.to_string()),
        (TASK_SPEC, task.name.clone()),
        ("volcano.sh/task-index", index.to_string()),
    ]));
    let mut spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
    let is_open = |spec: &Value, name: &str| spec.get(name).is_none_or(Value::is_null);
    if let Some(class) = priority_class(job)
        && is_open(&spec, "priorityClassName")
        && is_open(&spec, "priority")
    {
        spec["priorityClassName"] = Value::from(class);
    }
    if let Some(scheduler) = job.pointer("/spec/schedulerName").and_then(Value::as_str)
        && is_open(&spec, "schedulerName")
    {
        spec["schedulerName"] = Value::from(scheduler);
    }
    let own = name(job, &task.name, index);
    if declared.plugin("env").is_some() {
        add_index(&mut spec, index);
    }
    if declared.plugin(svc::PLUGIN).is_some() {
        svc::add(&mut spec, job, declared, &own);
    }
    if let Some(arguments) = declared.plugin(ssh::PLUGIN) {
        ssh::add(&mut spec, job, arguments);
    }
    volumes::add(&mut spec, job);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": own,
            "namespace": job["metadata"]["namespace"],
            "annotations": annotations,
            "labels": labels,
        },
        "spec": spec,
    })
}

/// The names by which a container knows which pod of its task it is in.
const INDEX_NAMES: [&str; 2] = ["VK_TASK_INDEX", "VC_TASK_INDEX"];

/// Tells every container which pod of its task it is in. What the template says goes before.
fn add_index(spec: &mut Value, index: u64) {
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            for name in INDEX_NAMES {
                svc::push(container, "env", json!({"name": name, "value": index.to_string()}));
            }
        }
    }
}

fn priority_class(job: &Value) -> Option<&str> {
    job.pointer("/spec/priorityClassName").and_then(Value::as_str).filter(|class| !class.is_empty())
}

fn carried(job: &Value, names: &[&str]) -> Map<String, Value> {
    names.iter().filter_map(|name| Some(((*name).to_string(), Value::from(annotation(job, name)?)))).collect()
}

fn texts<const N: usize>(pairs: [(&str, String); N]) -> impl Iterator<Item = (String, Value)> {
    pairs.into_iter().map(|(name, value)| (name.to_string(), Value::from(value)))
}
