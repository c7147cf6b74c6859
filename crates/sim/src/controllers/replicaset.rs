//! ReplicaSets: so many pods of one template, no matter which.

use std::collections::BTreeMap;

use quotient_api::ObjectKey;
use serde_json::{Value, json};

use super::adoption::is_made_here;
use super::template::{active, active_unsorted, created, is_assigned, pod};
use super::{Controllers, observed, write_status};
use crate::field;
use crate::server::{Server, is_ready};

/// What makes a pod dearer to keep when there are too many: the higher the cost, the later it goes.
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

pub(super) fn reconcile(controllers: &mut Controllers, server: &mut Server, key: &ObjectKey, set: &Value) {
    let wanted = usize::try_from(field::integer(set, "/spec/replicas").unwrap_or(1)).unwrap_or(0);
    let (have, mut ready) = count(server, key);
    for _ in have..wanted {
        let name = controllers.next_name(server.store(), key, &key.name, "Pod");
        if controllers.make(server, key, pod(&set["spec"]["template"], &name)).is_none() {
            break;
        }
        controllers.name_used(key);
    }
    if have > wanted {
        for pod in surplus(server, key, have - wanted) {
            server.remove(&pod);
        }
    }
    let mut replicas = have;
    if have != wanted {
        (replicas, ready) = count(server, key);
    }
    let status = [
        ("replicas", json!(replicas)),
        ("readyReplicas", json!(ready)),
        ("availableReplicas", json!(ready)),
        observed(set),
    ];
    write_status(server, key, &status);
}

/// How many pods there are, and how many of them are ready.
fn count(server: &Server, key: &ObjectKey) -> (usize, usize) {
    // None of them has ended: those that are not ready only wait.
    active_unsorted(server.store(), key)
        .fold((0, 0), |(all, ready), (_, pod)| (all + 1, ready + usize::from(field::has_condition(pod, "Ready"))))
}

/// The `count` pods that go first: those made here in place of pods that came since, those without a node, those not
/// ready, those of the least deletion cost, those that share their node with most others of the set, and the youngest.
fn surplus(server: &Server, key: &ObjectKey, count: usize) -> Vec<ObjectKey> {
    let pods = active(server.store(), key);
    let mut neighbours: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for (_, pod) in &pods {
        *neighbours.entry(field::text(pod, "/spec/nodeName")).or_default() += 1;
    }
    let mut ranked: Vec<_> = pods
        .iter()
        .map(|(key, pod)| {
            let cost: i64 =
                pod["metadata"]["annotations"][DELETION_COST].as_str().and_then(|c| c.parse().ok()).unwrap_or(0);
            let shared = std::cmp::Reverse(neighbours[&field::text(pod, "/spec/nodeName")]);
            let age = std::cmp::Reverse(created(pod));
            ((!is_made_here(pod), is_assigned(pod), is_ready(pod), cost, shared, age), *key)
        })
        .collect();
    ranked.sort();
    ranked.into_iter().take(count).map(|(_, key)| key.clone()).collect()
}
