//! Plugin `svc`: the pods of a job find each other by name.
//!
//! A Service without an address gives each pod a name, `<pod>.<job>`. Containers have the names of all pods, by task,
//! in their environment and in files under `/etc/volcano`, which come from a ConfigMap.

use serde_json::{Map, Value, json};

use super::arguments::Arguments;
use super::belongings::{Belonging, Made};
use super::declared::{Declared, Task};
use super::pods::name;

/// The plugin's name.
pub(super) const PLUGIN: &str = "svc";

/// Where the files are.
const FOLDER: &str = "/etc/volcano";

pub(super) fn job_name(job: &Value) -> &str {
    job.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// The pods of a task by host name and subdomain. A task whose template has a host name has one host.
pub(super) fn hosts(job: &Value, task: &Task<'_>) -> Vec<(String, String)> {
    let of_template = |field: &str| {
        let text = task.template.get("spec").and_then(|spec| spec.get(field)).and_then(Value::as_str);
        text.filter(|text| !text.is_empty()).map(str::to_string)
    };
    let subdomain = of_template("subdomain").unwrap_or_else(|| job_name(job).to_string());
    match of_template("hostname") {
        Some(host) => (0..task.replicas.min(1)).map(|_| (host.clone(), subdomain.clone())).collect(),
        None => (0..task.replicas).map(|index| (name(job, &task.name, index), subdomain.clone())).collect(),
    }
}

fn host_names(job: &Value, task: &Task<'_>) -> Vec<String> {
    hosts(job, task).into_iter().map(|(host, subdomain)| format!("{host}.{subdomain}")).collect()
}

/// A task's name as part of the name of a variable or file.
fn plain_name(task: &Task<'_>) -> String {
    task.name.replace('-', "_")
}

fn variable(task: &Task<'_>, what: &str) -> String {
    format!("VC_{}_{what}", plain_name(task).to_uppercase())
}

/// The variables of a task: the names of its pods, and how many there are.
fn variables(job: &Value, task: &Task<'_>) -> [(String, String); 2] {
    let hosts = host_names(job, task);
    [(variable(task, "HOSTS"), hosts.join(",")), (variable(task, "NUM"), hosts.len().to_string())]
}

/// The Service, and the ConfigMap, which follows when the job is scaled. Their owner is set by whoever makes them.
pub(super) fn objects(job: &Value, declared: &Declared<'_>, arguments: Arguments<'_>) -> [Belonging; 2] {
    let namespace = &job["metadata"]["namespace"];
    let selector = json!({"volcano.sh/job-name": job_name(job), "volcano.sh/job-namespace": namespace});
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": job_name(job), "namespace": namespace},
        "spec": {
            "clusterIP": "None", "selector": selector,
            // Pods of a gang look for each other before they are ready.
            "publishNotReadyAddresses": arguments.switch("publish-not-ready-addresses").unwrap_or(true),
            "ports": [{"name": "placeholder-volcano", "port": 1, "protocol": "TCP", "targetPort": 1}],
        },
    });
    let mut data = Map::new();
    for task in &declared.tasks {
        data.insert(format!("{}.host", plain_name(task)), Value::from(host_names(job, task).join("\n")));
        data.extend(variables(job, task).map(|(name, value)| (name, Value::from(value))));
    }
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("{}-{PLUGIN}", job_name(job)), "namespace": namespace}, "data": data,
    });
    let counts: Vec<String> =
        declared.tasks.iter().map(|task| format!("{}={}", task.name, hosts(job, task).len())).collect();
    [
        Belonging { record: (format!("plugin-{PLUGIN}"), PLUGIN.to_string()), object: Made::Once(service) },
        Belonging { record: (format!("plugin-{PLUGIN}-hosts"), counts.join(",")), object: Made::Current(map) },
    ]
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
            for (name, value) in declared.tasks.iter().flat_map(|task| variables(job, task)) {
                push(container, "env", json!({"name": name, "value": value}));
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
