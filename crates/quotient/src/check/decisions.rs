//! Whether the running scheduler forgets nobody: its pending pods, beside what a scheduler that starts anew would do
//! with the same objects.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, anyhow};
use quotient_api::read::Read;
use quotient_api::{Configuration, ObjectKey};
use quotient_sim::cluster::is_pending;
use quotient_sim::simulate::apply_all;
use quotient_sim::{Cluster, Setup};
use serde_json::Value;

use super::Section;
use crate::live::{self, Which};
use crate::snapshot;

/// Longer than anything is looked at: pods that leave do not go meanwhile.
const LEAVING: Duration = Duration::from_secs(86_400);
/// What differs is looked at once more after this long: a scheduler is not held to have decided what just came.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// A pending pod that a scheduler which starts anew would serve.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Forgotten {
    pod: ObjectKey,
    uid: String,
    /// Where it would be bound, or where room would be kept for it.
    node: String,
    is_bound: bool,
}

/// Asks twice, and tells of what differs both times.
pub fn check(which: &Which, configuration: &Configuration) -> Result<Section> {
    let mut section = Section::new("decisions");
    let (mut forgotten, pending) = look(which, configuration, &mut section)?;
    if !forgotten.is_empty() {
        std::thread::sleep(AGAIN_AFTER);
        let (again, _) = look(which, configuration, &mut Section::new("decisions"))?;
        forgotten.retain(|found| again.iter().any(|other| (&other.pod, &other.uid) == (&found.pod, &found.uid)));
    }
    for Forgotten { pod, node, is_bound, .. } in &forgotten {
        let (namespace, name) = (pod.namespace.as_deref().unwrap_or_default(), &pod.name);
        let would = if *is_bound { "bind it to" } else { "make room for it on" };
        section.fail(
            format!("{namespace}/{name} is pending, and a scheduler that starts anew would {would} {node}"),
            "see its reason with `quotient explain`; if it stays so, report it with `quotient snapshot`",
        );
    }
    if forgotten.is_empty() {
        section.ok(format!("a scheduler that starts anew would serve none of the {pending} pending pods"));
    }
    Ok(section)
}

/// What would be decided now, and how many pods are pending.
fn look(which: &Which, configuration: &Configuration, section: &mut Section) -> Result<(Vec<Forgotten>, usize)> {
    let seen = live::read(which)?;
    if seen.unseen.hides_decisions() {
        let unseen = seen.unseen.lines().join("; ");
        section.warn(format!("not all is seen that decides: {unseen}"), "run `quotient check` as an administrator");
        return Ok((Vec::new(), 0));
    }
    forgotten(snapshot::read_objects("cluster", snapshot::of(seen, false)), configuration)
}

/// The pending pods of these objects that a scheduler which starts anew would serve, and how many are pending.
fn forgotten(read: Read, configuration: &Configuration) -> Result<(Vec<Forgotten>, usize)> {
    let scheduler_names = Some(configuration.scheduler_names.clone());
    let mut cluster = Cluster::new(Setup { configuration: configuration.clone(), scheduler_names });
    cluster.set_eviction_takes(LEAVING);
    apply_all(&mut cluster, read.documents);
    let text = |pod: &Value, path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or_default().to_string();
    let waits = |key: &ObjectKey, pod: &Value| {
        let is_ours = configuration.scheduler_names.contains(&text(pod, "/spec/schedulerName"));
        key.kind == "Pod"
            && is_pending(pod)
            && is_ours
            && pod.pointer("/metadata/deletionTimestamp").is_none()
            && text(pod, "/status/nominatedNodeName").is_empty()
    };
    let store = cluster.store().iter();
    let pending: BTreeSet<ObjectKey> = store.filter(|(key, pod)| waits(key, pod)).map(|(key, _)| key.clone()).collect();
    cluster.settle().map_err(|stuck| anyhow!("{stuck}"))?;
    let found = pending.iter().filter_map(|key| {
        let pod = cluster.store().get(key)?;
        let (bound, kept) = (text(pod, "/spec/nodeName"), text(pod, "/status/nominatedNodeName"));
        let is_bound = !bound.is_empty();
        let node = if is_bound { bound } else { kept };
        (!node.is_empty()).then(|| Forgotten { pod: key.clone(), uid: text(pod, "/metadata/uid"), node, is_bound })
    });
    Ok((found.collect(), pending.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn objects(pods: Vec<Value>) -> Read {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
            "status": {"allocatable": {"cpu": "2", "pods": "110"}}});
        let items: Vec<Value> = std::iter::once(node).chain(pods).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        quotient_api::read::read("objects.json", &list.to_string())
    }

    fn pod(name: &str, cpu: &str, priority: i32, node: Option<&str>) -> Value {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "name": name, "uid": name},
            "spec": {"schedulerName": "quotient", "priority": priority,
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}});
        if let Some(node) = node {
            pod["spec"]["nodeName"] = json!(node);
        }
        pod
    }

    fn names(pods: Vec<Value>) -> Vec<(String, bool)> {
        let (found, _) = forgotten(objects(pods), &Configuration::default()).expect("it settles");
        found.into_iter().map(|found| (found.pod.name.to_string(), found.is_bound)).collect()
    }

    #[test]
    fn a_pod_is_forgotten_when_it_waits_beside_room_or_victims() {
        assert_eq!(names(vec![pod("fits", "1", 0, None)]), [("fits".to_string(), true)]);
        let both = vec![pod("low", "2", 0, Some("n")), pod("high", "2", 5, None)];
        assert_eq!(names(both), [("high".to_string(), false)]);
    }

    #[test]
    fn nobody_is_forgotten_when_nothing_can_be_done() {
        assert_eq!(names(vec![pod("runs", "2", 0, Some("n")), pod("waits", "1", 0, None)]), []);
        let mut other = pod("others", "1", 0, None);
        other["spec"]["schedulerName"] = json!("default-scheduler");
        assert_eq!(names(vec![other]), []);
    }
}
