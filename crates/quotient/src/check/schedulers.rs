//! Whether another scheduler or controller owns the same pods.

use anyhow::Result;
use jiff::Timestamp;
use quotient_api::{Configuration, time};
use serde_json::Value;

use super::{Asking, Section};

/// Schedulers by the name of their Lease, and the pods that they own unless told otherwise.
const SCHEDULERS: [(&str, &str); 4] = [
    ("kube-scheduler", "default-scheduler"),
    ("vc-scheduler", "volcano"),
    ("koord-scheduler", "koord-scheduler"),
    ("sched-plugins-scheduler", "scheduler-plugins-scheduler"),
];

/// Controllers by the name of their Lease, the setting that leaves their work to them, and whether ours is on.
type Rival = (&'static str, &'static str, fn(&Configuration) -> bool);
const CONTROLLERS: [Rival; 2] = [
    ("vc-controller-manager", "volcanoJobController: false", |configuration| configuration.runs_volcano_jobs),
    ("koordinator-manager", "profileController: false", |configuration| configuration.runs_profiles),
];

pub async fn check(asking: &Asking, namespace: &str, configuration: &Configuration) -> Result<Section> {
    let mut section = Section::new("other schedulers");
    let ours = &configuration.scheduler_names;
    let leases = asking.list("/apis/coordination.k8s.io/v1/leases").await?;
    let deployments = asking.list("/apis/apps/v1/deployments").await?;
    if leases.is_none() || deployments.is_none() {
        section.warn("this user may not list Leases and Deployments", "run `quotient check` as an administrator");
        return Ok(section);
    }
    let now = Timestamp::now().as_microsecond();
    let leases = leases.unwrap_or_default();
    let alive: Vec<&str> = leases.iter().filter(|lease| is_alive(lease, now)).filter_map(name).collect();
    for (lease, pods) in SCHEDULERS {
        if alive.contains(&lease) && ours.iter().any(|name| name == pods) {
            section.fail(
                format!("{lease} runs and schedules pods with schedulerName {pods}, which is one of ours"),
                "take the name out of `schedulerNames`, or stop the other scheduler",
            );
        }
    }
    for (lease, setting, is_on) in CONTROLLERS {
        if alive.contains(&lease) && is_on(configuration) {
            section
                .fail(format!("{lease} runs and does what one of our controllers does"), &format!("set `{setting}`"));
        }
    }
    for deployment in deployments.iter().flatten() {
        for scheduler in foreign_names(deployment, namespace).into_iter().filter(|name| ours.contains(name)) {
            let place = deployment.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
            section.fail(
                format!(
                    "Deployment {place}/{} schedules pods with schedulerName {scheduler}, which is one of ours",
                    name(deployment).unwrap_or_default()
                ),
                "take the name out of `schedulerNames`, or stop the other scheduler",
            );
        }
    }
    if section.findings.is_empty() {
        section.ok(format!("no other scheduler owns pods with schedulerName {}", ours.join(", ")));
    }
    Ok(section)
}

fn name(object: &Value) -> Option<&str> {
    object.pointer("/metadata/name").and_then(Value::as_str)
}

/// Whether somebody renewed the Lease within twice its duration.
fn is_alive(lease: &Value, now_us: i64) -> bool {
    let renewed = lease.pointer("/spec/renewTime").and_then(Value::as_str);
    let duration_s = lease.pointer("/spec/leaseDurationSeconds").and_then(Value::as_i64).unwrap_or(15);
    let holder = lease.pointer("/spec/holderIdentity").and_then(Value::as_str).unwrap_or_default();
    let renewed = renewed.and_then(|text| time::parse_timestamp(text).ok());
    !holder.is_empty() && renewed.is_some_and(|renewed| now_us - renewed <= 2 * duration_s * 1_000_000)
}

/// The scheduler names that a Deployment of another program takes as `--scheduler-name`.
fn foreign_names(deployment: &Value, namespace: &str) -> Vec<String> {
    let is_ours = deployment.pointer("/metadata/namespace").and_then(Value::as_str) == Some(namespace)
        && name(deployment).is_some_and(|name| name.starts_with("quotient"));
    if is_ours { Vec::new() } else { scheduler_name_flags(deployment) }
}

/// The values of `--scheduler-name` of a workload's containers.
pub fn scheduler_name_flags(workload: &Value) -> Vec<String> {
    const FLAG: &str = "--scheduler-name";
    let containers = workload.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    let names = containers.into_iter().flatten().flat_map(|container| {
        let words = ["command", "args"].into_iter().filter_map(|part| container[part].as_array());
        let words: Vec<&str> = words.flatten().filter_map(Value::as_str).collect();
        let apart = words.windows(2).filter(|pair| pair[0] == FLAG).map(|pair| pair[1]);
        let joined = words.iter().filter_map(|word| word.strip_prefix(FLAG)?.strip_prefix('='));
        apart.chain(joined).map(str::to_owned).collect::<Vec<_>>()
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_of_other_schedulers_are_found_however_they_are_written() {
        let deployment = |namespace: &str, name: &str, words: Value| {
            json!({"metadata": {"namespace": namespace, "name": name},
                "spec": {"template": {"spec": {"containers": [{"args": words}]}}}})
        };
        let names = |deployment: &Value| foreign_names(deployment, "q");
        assert_eq!(names(&deployment("v", "s", json!(["--scheduler-name=a", "-v=3"]))), ["a"]);
        assert_eq!(names(&deployment("v", "s", json!(["--scheduler-name", "b"]))), ["b"]);
        assert_eq!(names(&deployment("v", "s", json!(["--scheduler-name-prefix=c"]))), [""; 0]);
        assert_eq!(names(&deployment("q", "quotient", json!(["--scheduler-name=a"]))), [""; 0], "it is ours");
    }
}
