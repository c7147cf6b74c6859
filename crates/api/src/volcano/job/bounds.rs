//! What a job may ask for: a job is one small object, and stands for all its pods.

use serde_json::Value;

use super::declared::Declared;
use super::svc;
use crate::limits::{JOB_BATCH_MAX, JOB_HOSTS_BYTES_MAX, JOB_PODS_MAX, JOB_TASKS_MAX};

/// The bytes of pods that are asked for at once, as far as plugins write into them.
const BATCH_BYTES: usize = 32 << 20;

/// What of a job is beyond a limit: the field, and what was expected.
pub(crate) fn beyond(job: &Value, declared: &Declared<'_>) -> Option<(&'static str, String)> {
    let tasks = declared.tasks.len();
    if tasks > JOB_TASKS_MAX {
        return Some(("tasks", format!("{tasks} tasks: expected at most {JOB_TASKS_MAX}")));
    }
    let pods = declared.replicas();
    if pods > JOB_PODS_MAX {
        return Some(("tasks", format!("{pods} pods in all tasks: expected at most {JOB_PODS_MAX}")));
    }
    let bytes = written_bytes(job, declared);
    (bytes > JOB_HOSTS_BYTES_MAX).then(|| {
        let message = format!(
            "plugin {} writes {bytes} bytes of host names into each pod: expected at most {JOB_HOSTS_BYTES_MAX}; use \
             fewer pods or containers",
            svc::PLUGIN
        );
        ("plugins", message)
    })
}

/// How many pods are asked for at once.
pub(super) fn batch(job: &Value, declared: &Declared<'_>) -> usize {
    (BATCH_BYTES / written_bytes(job, declared).max(1)).clamp(1, JOB_BATCH_MAX)
}

/// The bytes of host names that are written into the largest pod, about.
fn written_bytes(job: &Value, declared: &Declared<'_>) -> usize {
    if declared.plugin(svc::PLUGIN).is_none() {
        return 0;
    }
    let name = job.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().len();
    // `<job>-<task>-<index>.<job>,`
    let of_task = |task: &super::declared::Task<'_>| {
        let pods = usize::try_from(task.replicas).unwrap_or(usize::MAX);
        pods.saturating_mul(2 * name + task.name.len() + 9)
    };
    let hosts = declared.tasks.iter().map(of_task).fold(0, usize::saturating_add);
    let containers = |task: &super::declared::Task<'_>| {
        let count =
            |list: &str| task.template.pointer(&format!("/spec/{list}")).and_then(Value::as_array).map_or(0, Vec::len);
        count("containers") + count("initContainers")
    };
    hosts.saturating_mul(declared.tasks.iter().map(containers).max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(tasks: usize, replicas: u64, plugins: Value) -> Value {
        let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
        let task = |i: usize| json!({"name": format!("t{i}"), "replicas": replicas, "template": template});
        let tasks: Vec<Value> = (0..tasks).map(task).collect();
        json!({"metadata": {"name": "job"}, "spec": {"tasks": tasks, "plugins": plugins}})
    }

    #[test]
    fn a_job_is_within_bounds_up_to_each_limit_and_beyond_it_is_not() {
        let (none, svc) = (json!({}), json!({"svc": []}));
        let pods = JOB_PODS_MAX;
        let cases = [
            (job(JOB_TASKS_MAX, 1, none.clone()), true),
            (job(JOB_TASKS_MAX + 1, 1, none.clone()), false),
            (job(1, pods, none.clone()), true),
            (job(1, pods + 1, none.clone()), false),
            (job(2, u64::MAX, none.clone()), false),
            (job(1, 2_000_000_000, none), false),
            (job(1, 10_000, svc.clone()), true),
            (job(1, pods, svc), false),
        ];
        for (job, fits) in cases {
            let found = beyond(&job, &Declared::of(&job));
            assert_eq!(found.is_none(), fits, "{found:?}");
        }
    }
}
