//! Deployments: a ReplicaSet for each template, and the way from one to the next.

use quotient_api::{ObjectKey, kinds};
use serde_json::{Value, json};

use super::adoption::{is_made_here, restore_sets};
use super::template::created;
use super::{Controllers, Rounding, int_or_percent, observed, write_status};
use crate::field;
use crate::naming;
use crate::server::{Server, is_over};

const HASH_LABEL: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// A ReplicaSet of the deployment, in numbers.
#[derive(Debug, Clone)]
struct Generation {
    key: ObjectKey,
    wanted: i64,
    have: i64,
    ready: i64,
}

pub(super) fn reconcile(controllers: &mut Controllers, server: &mut Server, key: &ObjectKey, deployment: &Value) {
    let desired = field::integer(deployment, "/spec/replicas").unwrap_or(1).max(0);
    restore_sets(controllers, server, key, deployment, HASH_LABEL);
    let sets = sets(server, key);
    let is_current = |set: &Value| is_of_template(set, &deployment["spec"]["template"]);
    // A set that came with its pods is the current one, before one that was made here meanwhile.
    let brought = sets.iter().position(|(_, set)| !is_made_here(set) && is_current(set));
    let current = brought.or_else(|| sets.iter().position(|(_, set)| is_current(set)));
    let current = match current {
        Some(index) => sets[index].0.clone(),
        // A paused deployment keeps what it has.
        None if field::is_true(deployment, "/spec/paused") && !sets.is_empty() => {
            sets.last().map(|(key, _)| key.clone()).expect("it is not empty")
        }
        None => match make_set(controllers, server, key, deployment) {
            Some(made) => made,
            None => return,
        },
    };
    let old: Vec<Generation> =
        sets.iter().filter(|(set, _)| *set != current).map(|(key, set)| generation(key, set)).collect();
    let Some(new) = server.store().get(&current).map(|set| generation(&current, set)) else { return };

    if field::text(deployment, "/spec/strategy/type") == Some("Recreate") {
        recreate(server, desired, &new, &old);
    } else {
        roll(server, deployment, desired, &new, &old);
    }
    forget_history(server, deployment, key, &current);
    write_totals(server, key, deployment, &current);
}

/// The deployment's ReplicaSets, the oldest first.
fn sets(server: &Server, key: &ObjectKey) -> Vec<(ObjectKey, Value)> {
    let mut sets: Vec<(ObjectKey, Value)> = server
        .store()
        .controlled(key, "ReplicaSet")
        .into_iter()
        .map(|(key, set)| (key.clone(), (**set).clone()))
        .collect();
    sets.sort_by(|a, b| created(&a.1).cmp(&created(&b.1)).then_with(|| a.0.cmp(&b.0)));
    sets
}

/// Whether the ReplicaSet is made of this template; its hash label is its own.
fn is_of_template(set: &Value, template: &Value) -> bool {
    let mut own = set["spec"]["template"].clone();
    field::remove(&mut own, &["metadata", "labels", HASH_LABEL]);
    own == *template
}

fn make_set(
    controllers: &mut Controllers,
    server: &mut Server,
    key: &ObjectKey,
    deployment: &Value,
) -> Option<ObjectKey> {
    let mut template = deployment["spec"]["template"].clone();
    let hash = naming::template_hash(&template);
    field::put(&mut template, &["metadata", "labels", HASH_LABEL], json!(hash));
    let mut selector = deployment["spec"]["selector"].clone();
    field::put(&mut selector, &["matchLabels", HASH_LABEL], json!(hash));
    let revision = sets(server, key).iter().filter_map(|(_, set)| revision(set)).max().unwrap_or(0) + 1;
    let set = json!({
        "apiVersion": kinds::find("apps", "ReplicaSet").map(kinds::Kind::api_version),
        "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", key.name),
            "labels": template["metadata"]["labels"],
            "annotations": {REVISION: revision.to_string()},
        },
        "spec": {"replicas": 0, "selector": selector, "template": template},
    });
    controllers.make(server, key, set)
}

fn revision(set: &Value) -> Option<u64> {
    set["metadata"]["annotations"][REVISION].as_str()?.parse().ok()
}

fn generation(key: &ObjectKey, set: &Value) -> Generation {
    let count = |pointer: &str| field::integer(set, pointer).unwrap_or(0);
    Generation {
        key: key.clone(),
        wanted: field::integer(set, "/spec/replicas").unwrap_or(1),
        have: count("/status/replicas"),
        ready: count("/status/readyReplicas"),
    }
}

/// The old pods go first, all of them; then the new ones come.
fn recreate(server: &mut Server, desired: i64, new: &Generation, old: &[Generation]) {
    for set in old {
        scale(server, set, 0);
    }
    // A pod that is leaving is still there.
    let is_gone = |set: &Generation| server.store().controlled(&set.key, "Pod").iter().all(|(_, pod)| is_over(pod));
    if old.iter().all(|set| set.wanted == 0 && is_gone(set)) {
        scale(server, new, desired);
    }
}

/// The new pods come as far as `maxSurge` lets them, the old ones go as far as `maxUnavailable` does.
fn roll(server: &mut Server, deployment: &Value, desired: i64, new: &Generation, old: &[Generation]) {
    let limit = |name: &str, rounding| {
        let value = deployment.pointer(&format!("/spec/strategy/rollingUpdate/{name}"));
        let default = json!("25%");
        int_or_percent(value.unwrap_or(&default), desired, rounding).unwrap_or(0).max(0)
    };
    let surge = limit("maxSurge", Rounding::Up);
    // Without any leeway nothing could ever move.
    let unavailable = match (surge, limit("maxUnavailable", Rounding::Down)) {
        (0, 0) => 1,
        (_, unavailable) => unavailable,
    };
    let old_wanted: i64 = old.iter().map(|set| set.wanted).sum();
    let room = (desired + surge - old_wanted - new.wanted).max(0);
    let new_wanted = if new.wanted > desired { desired } else { new.wanted + room.min(desired - new.wanted) };
    scale(server, new, new_wanted);

    // Pods of old sets that are not ready serve nobody and go first, then as many as can be spared.
    let least = desired - unavailable;
    let new_not_ready = (new_wanted - new.ready).max(0);
    let mut may_go = (old_wanted + new_wanted - least - new_not_ready).max(0);
    let mut left: Vec<i64> = old.iter().map(|set| set.wanted).collect();
    for (left, set) in left.iter_mut().zip(old) {
        let goes = (set.wanted - set.ready).clamp(0, may_go);
        *left -= goes;
        may_go -= goes;
    }
    let ready: i64 = old.iter().map(|set| set.ready).sum::<i64>() + new.ready;
    let mut may_go = may_go.min((ready - least).max(0));
    for left in &mut left {
        let goes = may_go.min(*left);
        *left -= goes;
        may_go -= goes;
    }
    for (set, left) in old.iter().zip(left) {
        scale(server, set, left);
    }
}

fn scale(server: &mut Server, set: &Generation, replicas: i64) {
    server.amend(&set.key, |object| field::put(object, &["spec", "replicas"], json!(replicas)));
}

/// Takes out the oldest sets that are empty, beyond `revisionHistoryLimit`.
fn forget_history(server: &mut Server, deployment: &Value, key: &ObjectKey, current: &ObjectKey) {
    let limit = usize::try_from(field::integer(deployment, "/spec/revisionHistoryLimit").unwrap_or(10)).unwrap_or(0);
    let empty: Vec<ObjectKey> = sets(server, key)
        .iter()
        .map(|(key, set)| generation(key, set))
        .filter(|set| set.key != *current && set.wanted == 0 && set.have == 0)
        .map(|set| set.key)
        .collect();
    for set in &empty[..empty.len().saturating_sub(limit)] {
        server.remove(set);
    }
}

fn write_totals(server: &mut Server, key: &ObjectKey, deployment: &Value, current: &ObjectKey) {
    let sets: Vec<Generation> = sets(server, key).iter().map(|(key, set)| generation(key, set)).collect();
    let total = |of: fn(&Generation) -> i64| sets.iter().map(of).sum::<i64>();
    let updated: i64 = sets.iter().filter(|set| set.key == *current).map(|set| set.have).sum();
    let status = [
        ("replicas", json!(total(|set| set.have))),
        ("updatedReplicas", json!(updated)),
        ("readyReplicas", json!(total(|set| set.ready))),
        ("availableReplicas", json!(total(|set| set.ready))),
        observed(deployment),
    ];
    write_status(server, key, &status);
}
