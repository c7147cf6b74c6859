//! Whether everybody else has done what there was to do: kwok, and the controllers of Kubernetes.

use std::collections::BTreeSet;
use std::sync::Arc;

use quotient_api::ObjectKey;
use quotient_engine::quantity::Quantity;
use quotient_sim::server::{is_leaving, is_over, is_pod, is_ready};
use serde_json::Value;

use super::fit::FINALIZER;
use super::server::Objects;

/// The taints of nodes that are not ready, and of those of which nothing is known.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// The taint of nodes that are cordoned.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Something that is still to come, in words; `None` when there is nothing.
pub fn awaited(objects: &Objects) -> Option<String> {
    let uids: BTreeSet<&str> = objects.values().filter_map(|object| object["metadata"]["uid"].as_str()).collect();
    objects.iter().find_map(|(key, object)| {
        if let Some(owner) = missing_owner(object, &uids) {
            return Some(format!("{key} is there though {owner} is gone"));
        }
        match (key.group, key.kind) {
            ("", "Pod") => pod(key, object).or_else(|| claims_to_make(key, object, objects)),
            ("", "Node") => node(key, object),
            ("apps", _) | ("", "ReplicationController") => {
                generation(key, object).or_else(|| workload(key, object, objects))
            }
            ("policy", "PodDisruptionBudget") => generation(key, object).or_else(|| budget(key, object, objects)),
            ("", "PersistentVolumeClaim") => claim(key, object, objects),
            ("resource.k8s.io", "ResourceClaim") => users_gone(key, object, objects),
            _ => None,
        }
    })
}

/// Whether controllers of Kubernetes are at work, whose work cannot always be told from the objects: only that nothing
/// changes any more.
pub fn has_workers(objects: &Objects) -> bool {
    objects.keys().any(|key| {
        matches!(key.group, "apps" | "batch" | "policy" | "resource.k8s.io" | "scheduling.k8s.io")
            || matches!(key.kind, "PersistentVolumeClaim" | "PersistentVolume")
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

/// A pod gets the claims that it names templates for, where these are there.
fn claims_to_make(key: &ObjectKey, pod: &Value, objects: &Objects) -> Option<String> {
    if is_leaving(pod) || is_over(pod) {
        return None;
    }
    let made = || pod["status"]["resourceClaimStatuses"].as_array().into_iter().flatten();
    let mut wanted = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
    let missing = wanted.find(|claim| {
        let is_there = objects.keys().any(|other| {
            other.kind == "ResourceClaimTemplate"
                && other.namespace == key.namespace
                && claim["resourceClaimTemplateName"] == *other.name
        });
        is_there && !made().any(|made| made["name"] == claim["name"])
    })?;
    Some(format!("{key} has no claim {} yet", missing["name"].as_str().unwrap_or("?")))
}

/// A claim is given back by pods that are gone or over.
fn users_gone(key: &ObjectKey, claim: &Value, objects: &Objects) -> Option<String> {
    let mut users = claim["status"]["reservedFor"].as_array().into_iter().flatten();
    let gone = users.find(|user| {
        let is_user = |(other, pod): &(&ObjectKey, &Arc<Value>)| {
            is_pod(other) && pod["metadata"]["uid"] == user["uid"] && !is_over(pod)
        };
        user["resource"] == "pods" && !objects.iter().any(|entry| is_user(&entry))
    })?;
    Some(format!("{key} is reserved for {}, which is done", gone["name"].as_str().unwrap_or("?")))
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
    let is_cordoned = node["spec"]["unschedulable"] == true;
    let taints = || node["spec"]["taints"].as_array().into_iter().flatten();
    let wrong = [NOT_READY, UNREACHABLE, UNSCHEDULABLE].into_iter().find(|known| {
        let is_there = taints().any(|taint| taint["key"] == *known && taint["effect"] == "NoSchedule");
        is_there != (wanted == Some(*known) || (is_cordoned && *known == UNSCHEDULABLE))
    })?;
    Some(format!("{key} should have the taint {wrong}, or should not"))
}

fn generation(key: &ObjectKey, object: &Value) -> Option<String> {
    let seen = object["status"]["observedGeneration"].as_i64().unwrap_or(0);
    (seen < object["metadata"]["generation"].as_i64().unwrap_or(0)).then(|| format!("{key} was not looked at yet"))
}

/// What makes pods has seen those that it made: it says so when it has done what follows from them.
fn workload(key: &ObjectKey, object: &Value, objects: &Objects) -> Option<String> {
    let count = |of: &Value, field: &str| of["status"][field].as_u64().unwrap_or(0);
    let made: Vec<&Value> = objects.values().map(|other| &**other).filter(|other| is_made_by(other, object)).collect();
    if made.iter().any(|pod| is_leaving(pod)) {
        return None;
    }
    let ready = || made.iter().filter(|pod| is_ready(pod)).count() as u64;
    let of_sets = |field: &str| made.iter().map(|set| count(set, field)).sum::<u64>();
    let (told, there) = match key.kind {
        "Deployment" => (
            [count(object, "replicas"), count(object, "readyReplicas")],
            [of_sets("replicas"), of_sets("readyReplicas")],
        ),
        "ReplicaSet" | "ReplicationController" => {
            let wanted = object["spec"]["replicas"].as_u64().unwrap_or(1);
            ([count(object, "replicas"), count(object, "readyReplicas")], [wanted, ready()])
        }
        "StatefulSet" => ([0, count(object, "readyReplicas")], [0, ready()]),
        "DaemonSet" => ([0, count(object, "numberReady")], [0, ready()]),
        _ => return None,
    };
    (told != there).then(|| format!("{key} says {told:?} of its pods and there are {there:?}"))
}

/// Whether `owner` is what made an object.
fn is_made_by(object: &Value, owner: &Value) -> bool {
    let mut owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.any(|reference| reference["controller"] == true && reference["uid"] == owner["metadata"]["uid"])
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

#[cfg(test)]
mod tests {
    use super::*;
    use quotient_api::key_of;
    use serde_json::json;

    fn awaited_of(objects: &[Value]) -> Option<String> {
        let keyed = objects.iter().map(|object| (key_of(object).expect("it is an object"), Arc::new(object.clone())));
        awaited(&keyed.collect())
    }

    fn pod(fields: Value) -> Value {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "a", "uid": "1", "labels": {"app": "x"}}, "spec": {}, "status": {}});
        for (part, value) in fields.as_object().expect("it is a mapping") {
            for (field, value) in value.as_object().expect("it is a mapping") {
                pod[part][field] = value.clone();
            }
        }
        pod
    }

    #[test]
    fn pods_that_wait_are_calm_and_those_that_are_to_run_or_leave_are_not() {
        let running = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let leaving = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["other"]});
        let kept = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER]});
        let orphan = json!({"ownerReferences": [{"controller": true, "uid": "9", "kind": "ReplicaSet", "name": "r"}]});
        for (fields, said) in [
            (json!({}), None),
            (json!({"spec": {"nodeName": "n"}}), Some("Pod/a/p does not run yet: is kwok there?")),
            (json!({"spec": {"nodeName": "n"}, "status": running}), None),
            (json!({"spec": {"nodeName": "n"}, "status": {"phase": "Failed"}}), None),
            (json!({"metadata": leaving}), Some("Pod/a/p is leaving")),
            (json!({"metadata": kept}), None),
            (json!({"metadata": orphan}), Some("Pod/a/p is there though ReplicaSet r is gone")),
        ] {
            assert_eq!(awaited_of(&[pod(fields.clone())]).as_deref(), said, "{fields}");
        }
    }

    #[test]
    fn a_budget_has_counted_its_pods() {
        let running = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let pod = pod(json!({"spec": {"nodeName": "n"}, "status": running}));
        let budget = |name: &str, healthy: u32, selector: Value| {
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": name, "namespace": "a", "generation": 1}, "spec": {"selector": selector},
                "status": {"observedGeneration": 1, "currentHealthy": healthy}})
        };
        let by_label = || json!({"matchLabels": {"app": "x"}});
        let said = awaited_of(&[pod.clone(), budget("b", 0, by_label())]);
        assert_eq!(said.as_deref(), Some("PodDisruptionBudget/a/b counts 0 of 1 pods"));
        assert_eq!(awaited_of(&[pod.clone(), budget("b", 1, by_label())]), None);
        let others = json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]});
        assert_eq!(awaited_of(&[pod.clone(), budget("b", 0, others)]), None);
        let shared = [pod, budget("b", 0, by_label()), budget("c", 1, by_label())];
        assert_eq!(awaited_of(&shared), None, "Kubernetes looks after one of them");
    }

    #[test]
    fn what_makes_pods_has_seen_them() {
        let running = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let owner = |uid: &str| json!([{"controller": true, "uid": uid, "kind": "ReplicaSet", "name": "r"}]);
        let mut pod = pod(json!({"spec": {"nodeName": "n"}, "status": running}));
        pod["metadata"]["ownerReferences"] = owner("r");
        let told = |kind: &str, uid: &str, ready: u32| {
            json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": uid, "namespace": "a", "uid": uid},
                "spec": {"replicas": 1}, "status": {"replicas": 1, "readyReplicas": ready}})
        };
        let (mut set, deployment) = (told("ReplicaSet", "r", 0), told("Deployment", "d", 0));
        set["metadata"]["ownerReferences"] = owner("d");
        let said = awaited_of(&[pod.clone(), set.clone(), deployment.clone()]);
        assert_eq!(said.as_deref(), Some("ReplicaSet/a/r says [1, 0] of its pods and there are [1, 1]"));
        set["status"]["readyReplicas"] = json!(1);
        let said = awaited_of(&[pod.clone(), set.clone(), deployment]);
        assert_eq!(said.as_deref(), Some("Deployment/a/d says [1, 0] of its pods and there are [1, 1]"));
        assert_eq!(awaited_of(&[pod, set, told("Deployment", "d", 1)]), None);
    }

    #[test]
    fn claims_are_made_for_pods_and_given_back_by_those_that_are_done() {
        let template = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
            "metadata": {"name": "t", "namespace": "a"}});
        let claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "a"},
            "status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]}});
        let names = json!({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]});
        let waits = pod(json!({"spec": names}));
        assert_eq!(awaited_of(std::slice::from_ref(&waits)), None, "a template that is not there makes no claim");
        let said = awaited_of(&[waits.clone(), template.clone()]);
        assert_eq!(said.as_deref(), Some("Pod/a/p has no claim gpu yet"));
        let made = json!({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]});
        let has = pod(json!({"spec": names, "status": made}));
        assert_eq!(awaited_of(&[has, template, claim.clone()]), None);
        let over = pod(json!({"status": {"phase": "Succeeded"}}));
        for pods in [vec![over], Vec::new()] {
            let said = awaited_of(&[pods, vec![claim.clone()]].concat());
            assert_eq!(said.as_deref(), Some("ResourceClaim/a/c is reserved for p, which is done"));
        }
    }

    #[test]
    fn a_node_has_the_taint_that_follows_from_how_it_is() {
        let node = |ready: &str, taints: Value| {
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": taints},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}})
        };
        let not_ready = json!([{"key": NOT_READY, "effect": "NoSchedule"}]);
        assert_eq!(awaited_of(&[node("True", json!(null))]), None);
        assert!(awaited_of(&[node("True", not_ready.clone())]).is_some());
        assert_eq!(awaited_of(&[node("False", not_ready.clone())]), None);
        assert!(awaited_of(&[node("Unknown", not_ready)]).is_some());
        let mut cordoned = node("True", json!([{"key": UNSCHEDULABLE, "effect": "NoSchedule"}]));
        let said = awaited_of(std::slice::from_ref(&cordoned));
        let expected = "Node/n should have the taint node.kubernetes.io/unschedulable, or should not";
        assert_eq!(said.as_deref(), Some(expected), "it was uncordoned");
        cordoned["spec"]["unschedulable"] = json!(true);
        assert_eq!(awaited_of(&[cordoned]), None);
    }
}
