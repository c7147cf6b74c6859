//! DaemonSets: a pod on every node that takes it.

use std::collections::BTreeMap;

use quotient_api::ObjectKey;
use quotient_engine::fact::{Effect, NodeFact, PodSpec};
use quotient_engine::{Fact, any_term_matches, tolerates};
use serde_json::{Value, json};

use super::adoption::is_made_here;
use super::template::{active, pod};
use super::{Controllers, Rounding, int_or_percent, observed, write_status};
use crate::field;
use crate::naming;
use crate::server::{Server, is_over, is_ready};

const REVISION_LABEL: &str = "controller-revision-hash";

/// Taints that every daemon pod puts up with: it belongs to the node, whatever state that is in.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// What becomes of the daemon pod of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It should run here.
    Runs,
    /// It may stay if it is here, but does not come.
    Stays,
    /// It has no business here.
    Leaves,
}

pub(super) fn reconcile(controllers: &mut Controllers, server: &mut Server, key: &ObjectKey, set: &Value) {
    let template = &set["spec"]["template"];
    let revision = naming::template_hash(template);
    controllers.adoption.note_revision(key, &revision);
    let plain = tolerant(pod(template, "daemon"), template);
    let Some(spec) = controllers.facts(&plain).into_iter().find_map(|fact| match fact {
        Fact::Pod(pod) => Some(pod.spec),
        _ => None,
    }) else {
        return;
    };
    let nodes: Vec<NodeFact> = {
        let objects: Vec<_> = server.store().of_kind("", "Node", None).map(|(_, node)| node.clone()).collect();
        let facts = objects.iter().flat_map(|node| controllers.facts(node));
        facts.filter_map(|fact| if let Fact::Node(node) = fact { Some(node) } else { None }).collect()
    };
    let places: BTreeMap<String, Place> =
        nodes.iter().map(|node| (node.name.to_string(), place(&spec, node))).collect();

    replace_ended(server, key);
    let mut have: BTreeMap<String, ObjectKey> = BTreeMap::new();
    let mut surplus = Vec::new();
    for (pod_key, pod) in active(server.store(), key) {
        let node = node_of(pod).unwrap_or_default();
        // A pod of a node that is not given is on a node all the same; when a node goes, its pods go with it.
        let leaves = match places.get(&node) {
            Some(place) => *place == Place::Leaves,
            None => is_made_here(pod),
        };
        if leaves || have.insert(node, pod_key.clone()).is_some() {
            surplus.push(pod_key.clone());
        }
    }
    for pod in surplus {
        server.remove(&pod);
    }
    for (node, _) in places.iter().filter(|(node, place)| **place == Place::Runs && !have.contains_key(*node)) {
        make(controllers, server, key, set, node, &revision);
    }
    update(controllers, server, key, set, &revision, places.values().filter(|place| **place == Place::Runs).count());
    write_totals(server, key, set, &places);
}

/// Where the pod may be, as the DaemonSet controller sees it: node name, selector, affinity, taints.
fn place(spec: &PodSpec, node: &NodeFact) -> Place {
    let selected = spec.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        && spec.required_nodes.as_ref().is_none_or(|terms| any_term_matches(terms, &node.name, &node.labels));
    let tolerated = |taint| spec.tolerations.iter().any(|toleration| tolerates(toleration, taint));
    let bars = |effect| node.taints.iter().any(|taint| taint.effect == effect && !tolerated(taint));
    match (selected, bars(Effect::NoExecute), bars(Effect::NoSchedule)) {
        (false, _, _) | (_, true, _) => Place::Leaves,
        (_, _, true) => Place::Stays,
        _ => Place::Runs,
    }
}

/// The pod with the tolerations that every daemon pod has.
fn tolerant(mut pod: Value, template: &Value) -> Value {
    let mut tolerations = field::list(template, "/spec/tolerations").to_vec();
    let taint = |(key, effect): (&str, &str)| json!({"key": key, "operator": "Exists", "effect": effect});
    tolerations.extend(TOLERATED.into_iter().map(taint));
    if field::is_true(template, "/spec/hostNetwork") {
        tolerations.push(taint(("node.kubernetes.io/network-unavailable", "NoSchedule")));
    }
    field::put(&mut pod, &["spec", "tolerations"], Value::Array(tolerations));
    pod
}

/// The node that a daemon pod is made for: it asks for it by name.
fn node_of(pod: &Value) -> Option<String> {
    if let Some(node) = field::text(pod, "/spec/nodeName") {
        return Some(node.to_string());
    }
    let terms = field::list(
        pod,
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
    );
    field::text(terms.first()?, "/matchFields/0/values/0").map(str::to_string)
}

fn make(controllers: &mut Controllers, server: &mut Server, key: &ObjectKey, set: &Value, node: &str, revision: &str) {
    let template = &set["spec"]["template"];
    let name = controllers.next_name(server.store(), key, &key.name, "Pod");
    let mut pod = tolerant(pod(template, &name), template);
    field::put(&mut pod, &["metadata", "labels", REVISION_LABEL], json!(revision));
    let by_name = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]);
    let path = ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    field::put(&mut pod, &path, json!({"nodeSelectorTerms": by_name}));
    if controllers.make(server, key, pod).is_some() {
        controllers.name_used(key);
    }
}

/// A daemon that ended is started anew.
fn replace_ended(server: &mut Server, key: &ObjectKey) {
    let ended: Vec<ObjectKey> = server
        .store()
        .controlled(key, "Pod")
        .into_iter()
        .filter(|(_, pod)| is_over(pod))
        .map(|(key, _)| key.clone())
        .collect();
    for pod in ended {
        server.remove(&pod);
    }
}

/// Takes out pods of older templates, so many that no more than `maxUnavailable` are missing; they are
/// made anew when the set is looked at next.
fn update(controllers: &Controllers, server: &mut Server, key: &ObjectKey, set: &Value, revision: &str, nodes: usize) {
    if field::text(set, "/spec/updateStrategy/type") == Some("OnDelete") {
        return;
    }
    let limit = set.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable").cloned().unwrap_or_else(|| json!(1));
    let total = i64::try_from(nodes).unwrap_or(i64::MAX);
    let limit = int_or_percent(&limit, total, Rounding::Up).unwrap_or(1).max(1);
    let pods = active(server.store(), key);
    let missing = i64::try_from(pods.iter().filter(|(_, pod)| !is_ready(pod)).count()).unwrap_or(i64::MAX);
    let is_old =
        |pod: &Value| !controllers.adoption.is_current(key, revision, &pod["metadata"]["labels"][REVISION_LABEL]);
    // An old pod that is not ready serves nobody, so it costs nothing.
    let (waiting, serving): (Vec<_>, Vec<_>) =
        pods.iter().filter(|(_, pod)| is_old(pod)).partition(|(_, pod)| !is_ready(pod));
    let spare = usize::try_from((limit - missing).max(0)).unwrap_or(0);
    let goes: Vec<ObjectKey> =
        waiting.into_iter().chain(serving.into_iter().take(spare)).map(|(key, _)| (*key).clone()).collect();
    for pod in goes {
        server.remove(&pod);
    }
}

fn write_totals(server: &mut Server, key: &ObjectKey, set: &Value, places: &BTreeMap<String, Place>) {
    let desired = places.values().filter(|place| **place == Place::Runs).count();
    let pods = active(server.store(), key);
    let assigned = pods.iter().filter(|(_, pod)| field::text(pod, "/spec/nodeName").is_some()).count();
    let ready = pods.iter().filter(|(_, pod)| is_ready(pod)).count();
    let status = [
        ("desiredNumberScheduled", json!(desired)),
        ("currentNumberScheduled", json!(assigned)),
        ("numberReady", json!(ready)),
        ("numberAvailable", json!(ready)),
        observed(set),
    ];
    write_status(server, key, &status);
}
