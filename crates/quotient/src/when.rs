//! When a pending pod may start: the cluster runs forward while its pods end, as far as they say when they do.
//!
//! A pod says how long it runs by an annotation, by its deadline, or by how long earlier pods of its owner ran. Where
//! none that matters does, the answer is that it is not known, and why.

use quotient_api::{ObjectKey, time};
use quotient_sim::cluster::{Outcome, is_bound};
use serde::Serialize;
use serde_json::Value;

use crate::kin::stem;
use crate::state::State;

/// How long a pod runs, as its owner expects: `quotient.dev/duration: 2h`.
const DURATION: &str = "quotient.dev/duration";

/// The most ends of pods that are followed.
const ENDS_MAX: usize = 500;

/// When a pod may start. Field names are a contract with whoever reads the JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct When {
    /// Between these moments; `null` where it is not known.
    pub earliest: Option<String>,
    pub latest: Option<String>,
    /// What the estimate rests on, or why there is none.
    pub basis: String,
}

/// When a running pod ends, in microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy)]
struct Ends {
    earliest: i64,
    latest: i64,
}

/// When this pending pod may start.
pub fn when(state: &State, key: &ObjectKey) -> When {
    let now = state.cluster().now_us();
    let running: Vec<(&ObjectKey, &Value)> = state.running_pods().collect();
    let known: Vec<(&ObjectKey, Ends)> =
        running.iter().filter_map(|(of, pod)| Some((*of, ends(state, of, pod, now)?))).collect();
    let told = format!("{} of {} running pods say how long they run", known.len(), running.len());
    let unknown = |basis: String| When { earliest: None, latest: None, basis };
    if known.is_empty() {
        let ways = format!("the annotation {DURATION}, activeDeadlineSeconds, or earlier pods of the same owner");
        return unknown(format!("no running pod says how long it runs: expected {ways}"));
    }
    let start = |of: fn(&Ends) -> i64| {
        let mut ends: Vec<(i64, &ObjectKey)> = known.iter().map(|(key, ends)| (of(ends), *key)).collect();
        ends.sort();
        start(state, key, &ends)
    };
    match (start(|ends| ends.earliest), start(|ends| ends.latest)) {
        (Some(earliest), Some(latest)) => When {
            earliest: Some(time::format_timestamp(earliest.min(latest))),
            latest: Some(time::format_timestamp(latest.max(earliest))),
            basis: told,
        },
        _ => unknown(format!("{told}, and it does not start when they end")),
    }
}

/// The moment at which the pod starts if pods end at these moments.
fn start(state: &State, key: &ObjectKey, ends: &[(i64, &ObjectKey)]) -> Option<i64> {
    let mut cluster = state.cluster().clone();
    for together in ends.chunk_by(|a, b| a.0 == b.0).take(ENDS_MAX) {
        let moment = together[0].0;
        cluster.begin_at(moment);
        for (_, pod) in together {
            // One that was evicted on the way has no end.
            drop(cluster.end(pod, Outcome::Succeeded));
        }
        cluster.settle().ok()?;
        if cluster.store().get(key).is_some_and(|pod| is_bound(pod)) {
            return Some(moment);
        }
    }
    None
}

/// When a running pod ends, if it says so. One that is over its time ends now.
fn ends(state: &State, key: &ObjectKey, pod: &Value, now: i64) -> Option<Ends> {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str);
    let started = text("/status/startTime").and_then(|at| time::parse_timestamp(at).ok()).unwrap_or(now);
    let after = |us: i64| started.saturating_add(us).max(now);
    let annotation = pod.pointer("/metadata/annotations").and_then(|all| all.get(DURATION)).and_then(Value::as_str);
    if let Some(duration) = annotation.and_then(|text| time::parse_duration(text).ok()) {
        let end = after(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX));
        return Some(Ends { earliest: end, latest: end });
    }
    let deadline = pod.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64);
    let deadline = deadline.map(|seconds| after(seconds.saturating_mul(1_000_000)));
    match (history(state, key), deadline) {
        (Some((least, most)), deadline) => {
            let most = after(most);
            Some(Ends { earliest: after(least), latest: deadline.map_or(most, |deadline| deadline.min(most)) })
        }
        (None, Some(deadline)) => Some(Ends { earliest: now, latest: deadline }),
        (None, None) => None,
    }
}

/// The shortest and the longest that pods of the same owner ran before they succeeded, in microseconds.
fn history(state: &State, key: &ObjectKey) -> Option<(i64, i64)> {
    let is_sibling = |other: &ObjectKey| other.namespace == key.namespace && stem(&other.name) == stem(&key.name);
    let ran = state.ended_pods().filter(|(other, _)| is_sibling(other)).filter_map(|(_, pod)| {
        let at =
            |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).and_then(|at| time::parse_timestamp(at).ok());
        let ended = at("/status/containerStatuses/0/state/terminated/finishedAt")?;
        Some(ended - at("/status/startTime")?)
    });
    ran.filter(|ran| *ran >= 0).fold(None, |known: Option<(i64, i64)>, ran| {
        Some(known.map_or((ran, ran), |(least, most)| (least.min(ran), most.max(ran))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quotient_sim::{Input, Setup, Simulation};
    use serde_json::json;

    fn state(durations: &[Option<&str>]) -> State {
        let pod = |name: String, cpu: &str, node: Option<&str>, duration: Option<&str>| {
            let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "namespace": "a", "uid": format!("uid-{name}"), "annotations": {},
                    "creationTimestamp": "2026-10-01T00:00:00Z"},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]},
                "status": {"startTime": "2026-10-01T00:00:00Z"}});
            if let Some(node) = node {
                pod["spec"]["nodeName"] = json!(node);
            }
            if let Some(duration) = duration {
                pod["metadata"]["annotations"][DURATION] = json!(duration);
            }
            pod
        };
        let mut objects = vec![json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
            "status": {"allocatable": {"cpu": "4", "pods": "10"}}})];
        let running = durations.iter().enumerate();
        objects.extend(running.map(|(i, duration)| pod(format!("p{i}"), "2", Some("n"), *duration)));
        objects.push(pod("waits".to_owned(), "4", None, None));
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let input = Input { file: "f".to_owned(), read: quotient_api::read("f", &list.to_string()) };
        State::of(Simulation::of(Setup::default(), vec![input], &mut |_| {}).expect("it settles"))
    }

    #[test]
    fn a_pod_starts_when_those_have_ended_that_it_waits_for() {
        let of = |durations: &[Option<&str>]| when(&state(durations), &ObjectKey::pod("a", "waits"));
        let known = of(&[Some("1h"), Some("2h")]);
        assert_eq!(known.earliest.as_deref(), Some("2026-10-01T02:00:00Z"), "{known:?}");
        assert_eq!(known.latest, known.earliest);
        let half = of(&[Some("1h"), None]);
        assert_eq!(half.earliest, None);
        assert!(half.basis.starts_with("1 of 2 running pods say"), "{}", half.basis);
        assert!(of(&[None, None]).basis.starts_with("no running pod says how long it runs"));
    }
}
