//! Jobs: pods that run to their end, so many times.
//!
//! A pod that is evicted or deleted comes back and does not count as failed; only pods that end as
//! `Failed` do.

use std::collections::BTreeSet;

use quotient_api::{ObjectKey, time};
use serde_json::{Value, json};

use super::template::{active, pod};
use super::{Controllers, write_status};
use crate::field;
use crate::server::{Server, is_leaving};

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

pub(super) fn reconcile(controllers: &mut Controllers, server: &mut Server, key: &ObjectKey, job: &Value) {
    if has_ended(job) {
        return;
    }
    let parallelism = field::integer(job, "/spec/parallelism").unwrap_or(1).max(0);
    let completions = match (job.pointer("/spec/completions"), job.pointer("/spec/parallelism")) {
        (Some(completions), _) if !completions.is_null() => completions.as_i64(),
        (_, None) => Some(1),
        // Without completions, pods share a queue of work: one that succeeds says that the queue is empty.
        _ => None,
    };
    let ended = controllers.adoption.tally(server, key, job).clone();
    let retries = field::integer(job, "/spec/backoffLimit").unwrap_or(6);
    let is_done = |active: i64| match completions {
        Some(completions) => ended.succeeded() >= completions,
        None => ended.succeeded() > 0 && active == 0,
    };
    let running = count(active(server.store(), key).len());

    if ended.failed > retries {
        end(server, key, running, ("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"));
    } else if is_done(running) {
        end(server, key, running, ("Complete", "CompletionsReached", "Reached expected number of succeeded pods"));
    } else {
        let wanted = match completions {
            _ if field::is_true(job, "/spec/suspend") => 0,
            Some(completions) => parallelism.min(completions - ended.succeeded()),
            None if ended.succeeded() > 0 => running.min(parallelism),
            None => parallelism,
        };
        set_active(controllers, server, key, job, wanted);
    }
    let status = [
        ("active", json!(active(server.store(), key).len())),
        ("succeeded", json!(ended.succeeded())),
        ("failed", json!(ended.failed)),
    ];
    write_status(server, key, &status);
}

/// The index of a pod of an indexed job.
pub(super) fn index_of(pod: &Value) -> Option<i64> {
    pod["metadata"]["annotations"][INDEX].as_str()?.parse().ok()
}

fn count(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

fn has_ended(job: &Value) -> bool {
    field::has_condition(job, "Complete") || field::has_condition(job, "Failed")
}

/// Makes pods until `wanted` are active, or takes out the youngest that are too many.
fn set_active(controllers: &mut Controllers, server: &mut Server, key: &ObjectKey, job: &Value, wanted: i64) {
    let running: Vec<ObjectKey> = active(server.store(), key).into_iter().map(|(key, _)| key.clone()).collect();
    // A pod that is leaving is replaced only when it is gone: a job does not run more than its parallelism.
    let leaving = server.store().controlled(key, "Pod").into_iter().filter(|(_, pod)| is_leaving(pod)).count();
    let wanted = usize::try_from(wanted).unwrap_or(0);
    for pod in running.iter().skip(wanted) {
        server.remove(pod);
    }
    for _ in running.len() + leaving..wanted {
        if make(controllers, server, key, job).is_none() {
            break;
        }
        controllers.name_used(key);
    }
}

fn make(controllers: &mut Controllers, server: &mut Server, key: &ObjectKey, job: &Value) -> Option<ObjectKey> {
    let is_indexed = field::text(job, "/spec/completionMode") == Some("Indexed");
    let index = if is_indexed { Some(free_index(controllers, server, key, job)) } else { None };
    let stem = index.map_or_else(|| key.name.to_string(), |index| format!("{}-{index}", key.name));
    let name = controllers.next_name(server.store(), key, &stem, "Pod");
    let mut pod = pod(&job["spec"]["template"], &name);
    for (label, value) in [
        ("batch.kubernetes.io/job-name", json!(*key.name)),
        ("job-name", json!(*key.name)),
        ("batch.kubernetes.io/controller-uid", job["metadata"]["uid"].clone()),
    ] {
        field::put(&mut pod, &["metadata", "labels", label], value);
    }
    if let Some(index) = index {
        field::put(&mut pod, &["metadata", "annotations", INDEX], json!(index.to_string()));
        field::put(&mut pod, &["metadata", "labels", INDEX], json!(index.to_string()));
    }
    controllers.make(server, key, pod)
}

/// The least index that neither runs nor has succeeded.
fn free_index(controllers: &mut Controllers, server: &Server, key: &ObjectKey, job: &Value) -> i64 {
    let done = controllers.adoption.tally(server, key, job).indexes.clone();
    let taken: BTreeSet<i64> = server
        .store()
        .controlled(key, "Pod")
        .into_iter()
        .filter(|(_, pod)| field::text(pod, "/status/phase") != Some("Failed"))
        .filter_map(|(_, pod)| index_of(pod))
        .chain(done)
        .collect();
    (0..).find(|index| !taken.contains(index)).expect("there are more integers than pods")
}

/// Says that the job has ended, and lets its remaining pods go.
fn end(server: &mut Server, key: &ObjectKey, running: i64, (kind, reason, message): (&str, &str, &str)) {
    if running > 0 {
        let rest: Vec<ObjectKey> = active(server.store(), key).into_iter().map(|(key, _)| key.clone()).collect();
        for pod in rest {
            server.remove(&pod);
        }
    }
    let now = json!(time::format_timestamp(server.clock.now_us()));
    server.amend(key, |job| {
        let fields = [
            ("status", json!("True")),
            ("reason", json!(reason)),
            ("message", json!(message)),
            ("lastTransitionTime", now.clone()),
        ];
        field::set_condition(job, kind, &fields);
        if kind == "Complete" {
            field::put(job, &["status", "completionTime"], now);
        }
    });
}
