//! Pods that another cluster made: they are taken as they are, and not replaced because they were made elsewhere.
//!
//! A dump has pods with the revision labels and the counts of the cluster that it is from. A real controller compares
//! them with its own records, which a dump has not. So the pods that come with an owner are current until the owner's
//! template changes here, and what its status has counted is counted.

use std::collections::{BTreeMap, BTreeSet};

use quotient_api::{ObjectKey, kinds};
use serde_json::{Value, json};

use super::Controllers;
use super::job::index_of;
use super::template::created;
use crate::field;
use crate::naming;
use crate::server::{Server, is_leaving, is_over};

/// What is known of owners that came with pods.
#[derive(Debug, Clone, Default)]
pub struct Adoption {
    revisions: BTreeMap<ObjectKey, Revisions>,
    tallies: BTreeMap<ObjectKey, Tally>,
}

/// The revisions of an owner's template.
#[derive(Debug, Clone)]
struct Revisions {
    /// That of the template with which the owner came.
    first: String,
    /// Those that were given to pods here.
    made: BTreeSet<String>,
}

/// How many pods of a job have ended, those that are gone since included.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    plain: i64,
    /// The indexes that succeeded, each once.
    pub indexes: BTreeSet<i64>,
    pub failed: i64,
    /// The pods that were counted, by uid.
    counted: BTreeSet<String>,
}

impl Tally {
    /// How many succeeded; with indexes, each index once.
    pub fn succeeded(&self) -> i64 {
        self.plain + i64::try_from(self.indexes.len()).unwrap_or(i64::MAX)
    }
}

impl Adoption {
    /// Notes the revision of an owner's template as it is now.
    pub(super) fn note_revision(&mut self, owner: &ObjectKey, revision: &str) {
        let new = || Revisions { first: revision.to_owned(), made: BTreeSet::new() };
        let revisions = self.revisions.entry(owner.clone()).or_insert_with(new);
        revisions.made.insert(revision.to_owned());
    }

    /// Whether a pod with this revision is of the owner's template as it is now. One that was not made here is, until
    /// the template changes.
    pub(super) fn is_current(&self, owner: &ObjectKey, revision: &str, of_pod: &Value) -> bool {
        let is_foreign = |revisions: &&Revisions| {
            revisions.first == revision && of_pod.as_str().is_none_or(|label| !revisions.made.contains(label))
        };
        of_pod == revision || self.revisions.get(owner).filter(is_foreign).is_some()
    }

    /// Counts the pods of a job that have ended. What its status counts when it is first seen is counted, whether the
    /// pods are still there or not.
    pub(super) fn tally(&mut self, server: &Server, key: &ObjectKey, job: &Value) -> &Tally {
        let is_new = !self.tallies.contains_key(key);
        let tally = self.tallies.entry(key.clone()).or_default();
        for (_, pod) in server.store().controlled(key, "Pod") {
            let uid = field::text(pod, "/metadata/uid").unwrap_or_default();
            let phase = field::text(pod, "/status/phase");
            if !matches!(phase, Some("Succeeded" | "Failed")) || !tally.counted.insert(uid.to_owned()) {
                continue;
            }
            match (phase, index_of(pod)) {
                (Some("Succeeded"), Some(index)) => {
                    tally.indexes.insert(index);
                }
                (Some("Succeeded"), None) => tally.plain += 1,
                _ => tally.failed += 1,
            }
        }
        if is_new {
            let counted = |pointer: &str| field::integer(job, pointer).unwrap_or(0);
            tally.indexes.extend(completed_indexes(job));
            let indexed = i64::try_from(tally.indexes.len()).unwrap_or(i64::MAX);
            tally.plain = tally.plain.max(counted("/status/succeeded").saturating_sub(indexed));
            tally.failed = tally.failed.max(counted("/status/failed"));
        }
        tally
    }
}

/// The indexes of `status.completedIndexes`, such as `0-2,5`.
fn completed_indexes(job: &Value) -> BTreeSet<i64> {
    /// More than any job has: a range is not filled beyond.
    const INDEXES_MAX: i64 = 100_000;
    let text = field::text(job, "/status/completedIndexes").unwrap_or_default();
    let ranges = text.split(',').filter_map(|range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to) = (from.trim().parse::<i64>().ok()?, to.trim().parse::<i64>().ok()?);
        Some(from..=to.min(from.saturating_add(INDEXES_MAX)))
    });
    ranges.flatten().collect()
}

/// Whether an object was made here, and not brought from another cluster.
pub(super) fn is_made_here(object: &Value) -> bool {
    field::text(object, "/metadata/uid").is_none_or(naming::is_uid)
}

/// Makes the ReplicaSets that a Deployment's pods name and that are not there, so that the pods are the Deployment's.
pub(super) fn restore_sets(
    controllers: &mut Controllers,
    server: &mut Server,
    key: &ObjectKey,
    deployment: &Value,
    hash_label: &str,
) {
    let Some(namespace) = key.namespace.as_deref() else { return };
    let prefix = format!("{}-", key.name);
    let mut missing: Vec<(i64, ObjectKey)> = Vec::new();
    for set in server.store().missing_owners("apps", "ReplicaSet", namespace) {
        let suffix = set.name.strip_prefix(&prefix).filter(|suffix| !suffix.contains('-'));
        let pods = server.store().controlled(&set, "Pod");
        let is_of =
            |pod: &Value| Some(field::text(&pod["metadata"]["labels"], &format!("/{hash_label}"))) == Some(suffix);
        if suffix.is_some() && pods.iter().any(|(_, pod)| is_of(pod) && selects(deployment, pod)) {
            let oldest = pods.iter().map(|(_, pod)| created(pod)).min().unwrap_or_default();
            missing.push((oldest, set));
        }
    }
    missing.sort();
    let newest = missing.last().map(|(_, set)| set.clone());
    for (_, set) in missing {
        let is_newest = newest.as_ref() == Some(&set);
        let object = restored(server, deployment, &set, &prefix, hash_label, is_newest);
        controllers.make(server, key, object);
    }
}

/// Whether the Deployment selects the pod by its labels.
fn selects(deployment: &Value, pod: &Value) -> bool {
    let labels = deployment.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
    labels.is_some_and(|labels| labels.iter().all(|(name, value)| pod["metadata"]["labels"].get(name) == Some(value)))
}

/// The ReplicaSet as its pods and its Deployment tell of it.
fn restored(
    server: &Server,
    deployment: &Value,
    set: &ObjectKey,
    prefix: &str,
    hash_label: &str,
    is_newest: bool,
) -> Value {
    let pods = server.store().controlled(set, "Pod");
    let hash = set.name.strip_prefix(prefix).unwrap_or_default();
    let mut template = deployment["spec"]["template"].clone();
    if !is_newest {
        // A set of an older template, which is not known: it must not be taken for the present one.
        field::put(&mut template, &["metadata", "annotations", "quotient.dev/older-template"], json!(hash));
    }
    field::put(&mut template, &["metadata", "labels", hash_label], json!(hash));
    let mut selector = deployment["spec"]["selector"].clone();
    field::put(&mut selector, &["matchLabels", hash_label], json!(hash));
    let active = pods.iter().filter(|(_, pod)| !is_over(pod) && !is_leaving(pod)).count();
    let reference = |pod: &Value| {
        let owners = field::list(pod, "/metadata/ownerReferences");
        owners.iter().find(|owner| owner["name"] == *set.name).and_then(|owner| owner.get("uid").cloned())
    };
    let mut object = json!({
        "apiVersion": kinds::find("apps", "ReplicaSet").map(kinds::Kind::api_version),
        "kind": "ReplicaSet",
        "metadata": {"name": *set.name, "labels": template["metadata"]["labels"]},
        "spec": {"replicas": active, "selector": selector, "template": template},
    });
    if let Some(uid) = pods.first().and_then(|(_, pod)| reference(pod)) {
        field::put(&mut object, &["metadata", "uid"], uid);
    }
    object
}
