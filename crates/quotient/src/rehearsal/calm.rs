//! Whether everybody else has done what there was to do: kwok, and the controllers of Kubernetes.

use std::collections::BTreeSet;

use quotient_api::ObjectKey;
use quotient_sim::server::{is_leaving, is_over, is_ready};
use serde_json::Value;

use super::fit::FINALIZER;
use super::server::Objects;

/// The taint of a node that nobody knows to be ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Something that is still to come, in words; `None` when there is nothing.
pub fn awaited(objects: &Objects) -> Option<String> {
    let uids: BTreeSet<&str> = objects.values().filter_map(|object| object["metadata"]["uid"].as_str()).collect();
    objects.iter().find_map(|(key, object)| {
        if let Some(owner) = missing_owner(object, &uids) {
            return Some(format!("{key} is there though {owner} is gone"));
        }
        match (key.group, key.kind) {
            ("", "Pod") => pod(key, object),
            ("", "Node") => node(key, object),
            ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") => replicas(key, object),
            ("apps", "DaemonSet") | ("policy", "PodDisruptionBudget") => generation(key, object),
            _ => None,
        }
    })
}

/// Whether somebody is at work whose work cannot be told from the objects: only that nothing changes any more.
pub fn has_workers(objects: &Objects) -> bool {
    objects.keys().any(|key| {
        matches!(key.group, "apps" | "batch" | "policy" | "batch.volcano.sh" | "quota.koordinator.sh")
            || matches!(key.kind, "PersistentVolumeClaim" | "PersistentVolume" | "PodGroup")
    })
}

fn pod(key: &ObjectKey, pod: &Value) -> Option<String> {
    if is_leaving(pod) {
        let finalizers = pod["metadata"]["finalizers"].as_array().into_iter().flatten();
        let kept = finalizers.into_iter().any(|finalizer| finalizer == FINALIZER);
        return (!kept).then(|| format!("{key} is leaving"));
    }
    let is_bound = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let runs = pod["status"]["phase"] == "Running" && is_ready(pod);
    (is_bound && !is_over(pod) && !runs).then(|| format!("{key} does not run yet: is kwok there?"))
}

fn node(key: &ObjectKey, node: &Value) -> Option<String> {
    let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.into_iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
    (ready && taints.any(|taint| taint["key"] == NOT_READY))
        .then(|| format!("{key} has the taint {NOT_READY} though it is ready"))
}

fn generation(key: &ObjectKey, object: &Value) -> Option<String> {
    let seen = object["status"]["observedGeneration"].as_i64().unwrap_or(0);
    (seen < object["metadata"]["generation"].as_i64().unwrap_or(0)).then(|| format!("{key} was not looked at yet"))
}

fn replicas(key: &ObjectKey, object: &Value) -> Option<String> {
    if let Some(why) = generation(key, object) {
        return Some(why);
    }
    // A StatefulSet waits for each of its pods before it makes the next one.
    let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let made = object["status"]["replicas"].as_i64().unwrap_or(0);
    (key.kind == "ReplicaSet" && made != wanted).then(|| format!("{key} has {made} of {wanted} pods"))
}

/// The controller of an object, if it is gone.
fn missing_owner(object: &Value, uids: &BTreeSet<&str>) -> Option<String> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let gone = owner["uid"].as_str().is_some_and(|uid| !uids.contains(uid));
    gone.then(|| format!("{} {}", owner["kind"].as_str().unwrap_or("?"), owner["name"].as_str().unwrap_or("?")))
}
