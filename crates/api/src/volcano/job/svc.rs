//! Plugin `svc`: the pods of a job find each other by name.
//!
//! A Service without an address gives each pod a name, `<pod>.<job>`. Containers have the names of all pods, by task,
//! in their environment and in files under `/etc/volcano`, which come from a ConfigMap.

use serde_json::{Map, Value, json};

use super::declared::{Declared, Task};
use super::pods::name;

/// The plugin's name.
pub(super) const PLUGIN: &str = "svc";

/// Where the files are.
const FOLDER: &str = "/etc/volcano";

fn job_name(job: &Value) -> &str {
    job.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

fn hosts(job: &Value, task: &Task<'_>) -> Vec<String> {
    (0..task.replicas).map(|index| format!("{}.{}", name(job, &task.name, index), job_name(job))).collect()
}

/// A task's name as part of the name of a variable.
fn variable(task: &Task<'_>, what: &str) -> String {
    format!("VC_{}_{what}", task.name.to_uppercase().replace('-', "_"))
}

/// The Service and the ConfigMap. Their owner is set by whoever makes them.
pub(super) fn objects(job: &Value, declared: &Declared<'_>) -> Vec<Value> {
    let namespace = &job["metadata"]["namespace"];
    let selector = json!({"volcano.sh/job-name": job_name(job), "volcano.sh/job-namespace": namespace});
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": job_name(job), "namespace": namespace},
        "spec": {
            "clusterIP": "None", "publishNotReadyAddresses": true, "selector": selector,
            "ports": [{"name": "placeholder-volcano", "port": 1, "protocol": "TCP", "targetPort": 1}],
        },
    });
    let mut data = Map::new();
    for task in &declared.tasks {
        let hosts = hosts(job, task);
        data.insert(format!("{}.host", task.name), Value::from(hosts.join("\n")));
        data.insert(variable(task, "HOSTS"), Value::from(hosts.join(",")));
        data.insert(variable(task, "NUM"), Value::from(task.replicas.to_string()));
    }
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("{}-{PLUGIN}", job_name(job)), "namespace": namespace}, "data": data,
    });
    vec![service, map]
}

/// Lets a pod be found, and find the others. What its template says goes before.
pub(super) fn add(spec: &mut Value, job: &Value, declared: &Declared<'_>, pod: &str) {
    let is_open = |spec: &Value, name: &str| spec.get(name).and_then(Value::as_str).is_none_or(str::is_empty);
    if is_open(spec, "hostname") {
        spec["hostname"] = Value::from(pod);
    }
    if is_open(spec, "subdomain") {
        spec["subdomain"] = Value::from(job_name(job));
    }
    let volume = format!("{}-{PLUGIN}", job_name(job));
    push(spec, "volumes", json!({"name": volume, "configMap": {"name": volume}}));
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            push(container, "volumeMounts", json!({"name": volume, "mountPath": FOLDER}));
            for task in &declared.tasks {
                let hosts = hosts(job, task).join(",");
                push(container, "env", json!({"name": variable(task, "HOSTS"), "value": hosts}));
                push(container, "env", json!({"name": variable(task, "NUM"), "value": task.replicas.to_string()}));
            }
        }
    }
}

/// Adds an entry to a list, unless it has one of that name.
pub(super) fn push(parent: &mut Value, list: &str, entry: Value) {
    let Some(parent) = parent.as_object_mut() else { return };
    let known = parent.entry(list).or_insert(Value::Null);
    if known.is_null() {
        *known = json!([]);
    }
    if let Some(entries) = known.as_array_mut()
        && !entries.iter().any(|known| known["name"] == entry["name"])
    {
        entries.push(entry);
    }
}
