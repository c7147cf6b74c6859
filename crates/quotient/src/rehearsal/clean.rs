//! Making a cluster empty, before a scenario and after the last.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use quotient_api::{Kind, ObjectKey, kinds};
use quotient_sim::Trouble;
use serde_json::{Value, json};

use super::fit::LABEL;
use super::server::{Manner, Objects, Server};

/// How long it may take until everything is gone. It takes less than a second; the rest is for machines that do much
/// else.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// How often it is looked whether namespaces of an earlier run are gone.
const NAMESPACES_EVERY: Duration = Duration::from_millis(200);

/// Of these, only those are touched that were made for a scenario: a cluster has others of its own.
const CLUSTERS_OWN: &[(&str, &str)] = &[
    ("", "Namespace"),
    ("", "Service"),
    ("", "ConfigMap"),
    ("", "Secret"),
    ("", "ServiceAccount"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("node.k8s.io", "RuntimeClass"),
    ("storage.k8s.io", "StorageClass"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "CSIDriver"),
];

/// The kinds that scenarios have objects of.
pub fn kinds_of_scenarios() -> impl Iterator<Item = &'static Kind> {
    let others = ["coordination.k8s.io", "quotient.dev"];
    kinds::KINDS.iter().filter(move |kind| !others.contains(&kind.group))
}

/// Whether an object was made for a scenario, by its label.
pub fn is_labelled(object: &Value) -> bool {
    object["metadata"]["labels"][LABEL] == "true"
}

/// Whether an object is to go before the next scenario. Namespaces stay, empty, until the end.
fn is_to_go(key: &ObjectKey, object: &Value) -> bool {
    let is_clusters_own = CLUSTERS_OWN.contains(&(key.group, key.kind));
    let is_kept = key.kind == "Namespace" || object["metadata"]["name"].as_str().is_some_and(is_stand_in);
    !is_kept && (!is_clusters_own || is_labelled(object))
}

/// Classes that stand for a priority mean the same in every scenario.
fn is_stand_in(name: &str) -> bool {
    name.starts_with("quotient-scenario-")
}

/// Those that make others go first, so that nothing is made anew.
fn order(key: &ObjectKey) -> u8 {
    match (key.group, key.kind) {
        ("batch.volcano.sh", _) | ("quota.koordinator.sh", _) | ("apps", "Deployment") | ("batch", "CronJob") => 0,
        ("apps" | "batch", _) | ("", "ReplicationController") => 1,
        ("policy", _) => 1,
        _ => 2,
    }
}

/// Made without being named in a scenario, by our controllers and Kubernetes'.
const MADE_BY_OTHERS: &[(&str, &str)] = &[
    ("", "Namespace"),
    ("apps", "ReplicaSet"),
    ("scheduling.sigs.k8s.io", "ElasticQuota"),
    ("scheduling.volcano.sh", "PodGroup"),
    ("storage.k8s.io", "CSINode"),
];

/// Takes out what a scenario made that has objects of these kinds, and waits until it is gone.
pub async fn clean_after(server: &Server, kinds: BTreeSet<&'static Kind>) -> Result<(), Trouble> {
    let others = MADE_BY_OTHERS.iter().filter_map(|(group, kind)| kinds::find(group, kind));
    clean_kinds(server, kinds.into_iter().chain(others).collect()).await
}

/// Takes out everything that scenarios made, and waits until it is gone.
pub async fn clean(server: &Server) -> Result<(), Trouble> {
    clean_kinds(server, kinds_of_scenarios().collect()).await
}

async fn clean_kinds(server: &Server, kinds: BTreeSet<&'static Kind>) -> Result<(), Trouble> {
    let begun = Instant::now();
    loop {
        let objects = server.look(kinds.iter().copied()).await?;
        let left: Objects = objects.iter().filter(|(key, object)| is_to_go(key, object)).map(cloned).collect();
        let waits = objects.iter().any(|(key, object)| key.kind == "Namespace" && is_going(object));
        if left.is_empty() && !waits {
            return clean_namespaces(server, &objects).await;
        }
        if begun.elapsed() > GONE_WITHIN {
            let names: Vec<String> = left.keys().take(5).map(ToString::to_string).collect();
            let names = if names.is_empty() { "namespaces that do not go".to_string() } else { names.join(", ") };
            return Err(Trouble::Stuck(format!("the cluster does not become empty: there are {names}")));
        }
        for turn in 0..3 {
            let now = left.iter().filter(|(key, _)| order(key) == turn);
            try_join_all(now.map(|(key, object)| remove(server, key, object))).await?;
        }
        if waits {
            tokio::time::sleep(NAMESPACES_EVERY).await;
        }
    }
}

fn cloned<K: Clone, V: Clone>((key, value): (&K, &V)) -> (K, V) {
    (key.clone(), value.clone())
}

fn is_going(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

async fn remove(server: &Server, key: &ObjectKey, object: &Value) -> Result<(), Trouble> {
    if !is_going(object) {
        server.delete(key, Manner::AtOnce).await?;
    }
    if object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty()) {
        server.release(key).await?;
    }
    Ok(())
}

/// Namespaces are used again as if they were new.
async fn clean_namespaces(server: &Server, objects: &Objects) -> Result<(), Trouble> {
    let ours = objects.iter().filter(|(key, object)| key.kind == "Namespace" && is_labelled(object));
    try_join_all(ours.map(|(key, namespace)| async move {
        let is_new = namespace["metadata"]["annotations"].as_object().is_none_or(serde_json::Map::is_empty)
            && namespace["metadata"]["labels"].as_object().is_some_and(|labels| labels.len() == 2);
        if !is_new {
            let metadata = json!({"name": *key.name, "labels": {LABEL: "true"},
                "resourceVersion": namespace["metadata"]["resourceVersion"]});
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata,
                "spec": namespace["spec"]});
            server.replace(key, &object).await?;
        }
        Ok(())
    }))
    .await
    .map(drop)
}

/// Takes out namespaces and classes too, when all is over; they go in their own time.
pub async fn clean_up(server: &Server) -> Result<(), Trouble> {
    clean(server).await?;
    let objects = server.look(kinds_of_scenarios()).await?;
    let ours = objects.iter().filter(|(_, object)| is_labelled(object));
    try_join_all(ours.map(|(key, _)| server.delete(key, Manner::AtOnce))).await.map(drop)
}
