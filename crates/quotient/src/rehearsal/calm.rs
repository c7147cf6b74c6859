//! Whether everybody else has done what there was to do: kwok, and the controllers of Kubernetes.

use std::collections::BTreeSet;

use quotient_api::ObjectKey;
use quotient_engine::quantity::Quantity;
use quotient_sim::server::{is_leaving, is_over, is_pod, is_ready};
use serde_json::Value;

use super::fit::FINALIZER;
use super::server::Objects;

/// The taints of nodes that are not ready, and of those of which nothing is known.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

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
            ("apps", "DaemonSet") => generation(key, object),
            ("policy", "PodDisruptionBudget") => generation(key, object).or_else(|| budget(key, object, objects)),
            ("", "PersistentVolumeClaim") => claim(key, object, objects),
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

/// A node has the taint that follows from how it is, and no other of those.
fn node(key: &ObjectKey, node: &Value) -> Option<String> {
    let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.find(|condition| condition["type"] == "Ready").and_then(|ready| ready["status"].as_str());
    let wanted = match ready {
        Some("True") => None,
        Some("False") => Some(NOT_READY),
        _ => Some(UNREACHABLE),
    };
    let taints = || node["spec"]["taints"].as_array().into_iter().flatten();
    let wrong = [NOT_READY, UNREACHABLE].into_iter().find(|known| {
        let is_there = taints().any(|taint| taint["key"] == *known && taint["effect"] == "NoSchedule");
        is_there != (wanted == Some(*known))
    })?;
    Some(format!("{key} should have the taint {wrong}, or should not"))
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

/// A budget has counted the pods that are well.
fn budget(key: &ObjectKey, budget: &Value, objects: &Objects) -> Option<String> {
    let is_counted = |other: &ObjectKey, pod: &Value| {
        is_pod(other)
            && other.namespace == key.namespace
            && selects(&budget["spec"]["selector"], &pod["metadata"]["labels"])
            && is_ready(pod)
            && !is_leaving(pod)
    };
    // Where several budgets have a pod, Kubernetes looks after one of them.
    let others = objects.iter().filter(|(other, _)| other.kind == key.kind && other.namespace == key.namespace);
    let pods = || objects.iter().filter(|(other, _)| is_pod(other) && other.namespace == key.namespace);
    let has = |budget: &Value, pod: &Value| selects(&budget["spec"]["selector"], &pod["metadata"]["labels"]);
    let is_shared = |pod: &Value| has(budget, pod) && others.clone().filter(|(_, other)| has(other, pod)).count() > 1;
    if pods().any(|(_, pod)| is_shared(pod)) {
        return None;
    }
    let well = objects.iter().filter(|(other, pod)| is_counted(other, pod)).count();
    let counted = budget["status"]["currentHealthy"].as_u64().unwrap_or(0);
    (usize::try_from(counted) != Ok(well)).then(|| format!("{key} counts {counted} of {well} pods"))
}

/// Whether a selector, as Kubernetes writes them, takes in an object with these labels.
fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector["matchLabels"].as_object().into_iter().flatten();
    let mut expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    wanted.into_iter().all(|(label, value)| labels[label] == *value)
        && expressions.all(|expression| {
            let found = expression["key"].as_str().map_or(&Value::Null, |label| &labels[label]);
            let among = expression["values"].as_array().is_some_and(|values| values.contains(found));
            match expression["operator"].as_str() {
                Some("In") => among,
                Some("NotIn") => !among,
                Some("Exists") => !found.is_null(),
                _ => found.is_null(),
            }
        })
}

/// A claim that need not wait for a pod gets a volume that is there.
fn claim(key: &ObjectKey, claim: &Value, objects: &Objects) -> Option<String> {
    let class = objects.iter().find(|(other, _)| {
        other.kind == "StorageClass" && Some(&*other.name) == claim["spec"]["storageClassName"].as_str()
    });
    let waits_for_pod = class.is_some_and(|(_, class)| class["volumeBindingMode"] == "WaitForFirstConsumer");
    if claim["status"]["phase"] != "Pending" || waits_for_pod || !claim["spec"]["selector"].is_null() {
        return None;
    }
    let modes = |object: &Value| object["spec"]["accessModes"].as_array().cloned().unwrap_or_default();
    let size = |amount: &Value| amount["storage"].as_str().and_then(|text| text.parse::<Quantity>().ok());
    let fits = |volume: &Value| {
        let offered = modes(volume);
        volume["status"]["phase"] == "Available"
            && volume["spec"]["storageClassName"] == claim["spec"]["storageClassName"]
            && volume["spec"]["volumeMode"] == claim["spec"]["volumeMode"]
            && modes(claim).iter().all(|mode| offered.contains(mode))
            && size(&volume["spec"]["capacity"]) >= size(&claim["spec"]["resources"]["requests"])
    };
    let fitting = objects.iter().find(|(other, volume)| other.kind == "PersistentVolume" && fits(volume))?;
    Some(format!("{key} waits though there is {}", fitting.0))
}

/// The controller of an object, if it is gone.
fn missing_owner(object: &Value, uids: &BTreeSet<&str>) -> Option<String> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let gone = owner["uid"].as_str().is_some_and(|uid| !uids.contains(uid));
    gone.then(|| format!("{} {}", owner["kind"].as_str().unwrap_or("?"), owner["name"].as_str().unwrap_or("?")))
}
