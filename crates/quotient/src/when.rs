//! When a pending pod may start: the cluster runs forward while its pods end, as far as they say when they do.
//!
//! A pod says how long it runs by an annotation, by its deadline, or by how long earlier pods of its owner ran. Where
//! none that matters does, the answer is that it is not known, and why. How often the interval holds is measured by
//! `quotient replay --forecasts`.

use std::collections::BTreeMap;
use std::sync::Arc;

use quotient_api::{ObjectKey, at, time};
use quotient_engine::fact::PodKey;
use quotient_sim::cluster::is_bound;
use quotient_sim::forecast::{DURATION, Forecast, History, Life, Running, Window, has_succeeded};
use serde::Serialize;
use serde_json::Value;

use crate::kin::stem;
use crate::state::State;

/// When a pod may start. Field names are a contract with whoever reads the JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct When {
    /// Between these moments, as far as lifetimes are known; `null` where it is not known.
    pub earliest: Option<String>,
    pub latest: Option<String>,
    /// What the estimate rests on, or why there is none.
    pub basis: String,
}

/// When this pending pod may start.
pub fn when(state: &State, key: &ObjectKey) -> When {
    let cluster = state.cluster();
    let histories = Histories::of(state);
    let known: Vec<Running> = match histories.by_owner.is_empty() {
        true => state
            .timed_pods()
            .filter(|(_, pod)| is_bound(pod))
            .filter_map(|(of, pod)| histories.running(of, pod))
            .collect(),
        false => state.running_pods().filter_map(|(of, pod)| histories.running(of, pod)).collect(),
    };
    let told = format!("{} of {} running pods say how long they run", known.len(), cluster.engine().placed().count());
    let unknown = |basis: String| When { earliest: None, latest: None, basis };
    if known.is_empty() {
        let ways = format!("the annotation {DURATION}, activeDeadlineSeconds, or earlier pods of the same owner");
        return unknown(format!("no running pod says how long it runs: expected {ways}"));
    }
    let pending = state.pending_pods().filter_map(|(of, pod)| Some((pod_key(of), histories.life(of, pod)?)));
    let forecast =
        Forecast { engine: cluster.engine(), now: cluster.tick(), running: known, pending: pending.collect() };
    let after = |ms: u64| {
        let us = i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1000);
        Some(time::format_timestamp(cluster.now_us().saturating_add(us)))
    };
    match forecast.start_of(&pod_key(key)) {
        Some(Window { earliest_ms, latest_ms }) => {
            When { earliest: after(earliest_ms), latest: after(latest_ms), basis: told }
        }
        None => unknown(format!("{told}, and it does not start when they end")),
    }
}

fn pod_key(key: &ObjectKey) -> PodKey {
    PodKey { namespace: key.namespace.clone().unwrap_or_default(), name: key.name.clone() }
}

/// Whose pods: the namespace, and the stem of their names.
type Owner<'a> = (Option<&'a str>, &'a str);

/// How long the pods of each owner ran.
struct Histories<'a> {
    now_us: i64,
    by_owner: BTreeMap<Owner<'a>, Arc<History>>,
}

impl<'a> Histories<'a> {
    fn of(state: &'a State) -> Self {
        let now_us = state.cluster().now_us();
        let mut lives: BTreeMap<Owner<'_>, (Vec<u64>, Vec<u64>)> = BTreeMap::new();
        for (key, pod) in state.timed_pods().filter(|(_, pod)| has_succeeded(pod)) {
            let ended = moment(pod, "/status/containerStatuses/0/state/terminated/finishedAt");
            if let (Some(started), Some(ended)) = (moment(pod, "/status/startTime"), ended) {
                lives.entry(owner(key)).or_default().0.push(ms_between(started, ended));
            }
        }
        let running = (!lives.is_empty()).then(|| state.running_pods());
        for (key, pod) in running.into_iter().flatten() {
            if let (Some(lives), Some(started)) = (lives.get_mut(&owner(key)), moment(pod, "/status/startTime")) {
                lives.1.push(ms_between(started, now_us));
            }
        }
        let by_owner = lives
            .into_iter()
            .filter_map(|(owner, (ended, running))| Some((owner, Arc::new(History::of(&ended, &running)?))));
        Histories { now_us, by_owner: by_owner.collect() }
    }

    fn running(&self, key: &ObjectKey, pod: &Value) -> Option<Running> {
        let life = self.life(key, pod)?;
        let started = moment(pod, "/status/startTime").unwrap_or(self.now_us);
        Some(Running { pod: pod_key(key), ran_ms: ms_between(started, self.now_us), life })
    }

    /// How long a pod runs: as it says, as earlier pods of its owner ran, or up to its deadline.
    fn life(&self, key: &ObjectKey, pod: &Value) -> Option<Life> {
        let annotation = at(pod, "/metadata/annotations").and_then(|all| all.get(DURATION)).and_then(Value::as_str);
        if let Some(duration) = annotation.and_then(|text| time::parse_duration(text).ok()) {
            return Some(Life::Exactly(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)));
        }
        let deadline = at(pod, "/spec/activeDeadlineSeconds").and_then(Value::as_u64);
        let deadline = deadline.map(|seconds| seconds.saturating_mul(1000));
        if self.by_owner.is_empty() {
            return deadline.map(Life::AtMost);
        }
        match self.by_owner.get(&owner(key)) {
            Some(history) => Some(Life::Like { history: history.clone(), at_most: deadline }),
            None => deadline.map(Life::AtMost),
        }
    }
}

fn owner(key: &ObjectKey) -> (Option<&str>, &str) {
    (key.namespace.as_deref(), stem(&key.name))
}

fn moment(pod: &Value, pointer: &str) -> Option<i64> {
    time::parse_timestamp(at(pod, pointer)?.as_str()?).ok()
}

fn ms_between(from_us: i64, to_us: i64) -> u64 {
    u64::try_from(to_us.saturating_sub(from_us) / 1000).unwrap_or(0)
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
