//! The controllers of a cluster that make pods and keep status: what people's workloads rely on.
//!
//! They are level-triggered, as the real ones are: a change puts the objects it concerns into a
//! queue, and each is then compared with how it should be, whatever happened before. They see
//! objects only, never the engine.

mod adoption;
mod composite_quota;
mod daemonset;
mod deployment;
mod disruption;
mod gang;
mod job;
mod matching;
mod node;
mod profile;
mod queue;
mod replicaset;
mod statefulset;
mod template;
mod volcano_job;
pub mod volume;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quotient_api::{Configuration, ObjectKey, Problem, Translator, TranslatorSettings, elastic, kinds, volcano};
use quotient_engine::Fact;
use serde_json::Value;

use crate::field;
use crate::naming;
use crate::server::{Refusal, Server, controlled_by};
use crate::store::{Change, Store};

/// The controllers of one cluster, and what they still have to look at.
#[derive(Debug, Clone)]
pub struct Controllers {
    queue: BTreeSet<ObjectKey>,
    /// Objects that were refused something: they try again when the cluster next settles.
    refused: BTreeSet<ObjectKey>,
    /// How many objects each owner has made, so that each has a name of its own.
    made: BTreeMap<ObjectKey, u64>,
    /// What is known of owners that came with pods of another cluster.
    adoption: adoption::Adoption,
    /// Pods of jobs of several tasks that went by themselves, by job, since the job was last looked at.
    gone: BTreeMap<ObjectKey, Vec<Arc<Value>>>,
    /// The uids of pods that were deleted on behalf of such a job.
    deleted: BTreeSet<String>,
    /// Whether such jobs are looked after here.
    runs_volcano_jobs: bool,
    /// Whether groups are made for pods by annotation.
    runs_pod_groups: bool,
    /// Whether roots of quota trees are kept current.
    runs_profiles: bool,
    /// Reads selectors, requests and affinity as the engine is told them.
    translator: Translator,
    /// The roots of quota trees have to be compared with their profiles.
    roots_due: bool,
    /// What the controllers found wrong with each object, and what of that was not told yet.
    problems: BTreeMap<ObjectKey, Vec<Problem>>,
    untold: Vec<Problem>,
}

impl Default for Controllers {
    fn default() -> Self {
        Controllers {
            queue: BTreeSet::new(),
            refused: BTreeSet::new(),
            made: BTreeMap::new(),
            adoption: adoption::Adoption::default(),
            gone: BTreeMap::new(),
            deleted: BTreeSet::new(),
            runs_volcano_jobs: true,
            runs_pod_groups: true,
            runs_profiles: true,
            translator: Translator::new(TranslatorSettings::default()),
            roots_due: false,
            problems: BTreeMap::new(),
            untold: Vec::new(),
        }
    }
}

impl Controllers {
    /// The controllers of a cluster with this configuration.
    pub fn new(configuration: &Configuration) -> Self {
        Controllers {
            runs_volcano_jobs: configuration.runs_volcano_jobs,
            runs_pod_groups: configuration.runs_pod_groups,
            runs_profiles: configuration.runs_profiles,
            ..Controllers::default()
        }
    }

    /// Takes note of a change: whom it concerns has to look again.
    pub fn note(&mut self, change: &Change, store: &Store) {
        let key = change.key();
        self.queue.insert(key.clone());
        let object = match change {
            Change::Seen(key) => store.get(key),
            Change::Gone(_, object) => Some(object),
        };
        if let Some(object) = object {
            let controller = field::controller(object);
            if let (Change::Gone(..), Some(owner)) = (change, &controller)
                && volcano::is_job(owner)
                && key.kind == "Pod"
            {
                let uid = field::text(object, "/metadata/uid").unwrap_or_default();
                if !self.deleted.remove(uid) && store.contains(owner) {
                    self.gone.entry(owner.clone()).or_default().push(object.clone());
                }
            }
            self.queue.extend(controller);
        }
        self.roots_due |= profile::is_concerned(change, object.map(AsRef::as_ref), &self.problems);
        let namespace = key.namespace.as_deref();
        let mut concerns = |group: &'static str, kind: &'static str, namespace: Option<&str>| {
            self.queue.extend(store.of_kind(group, kind, namespace).map(|(key, _)| key.clone()));
        };
        match (key.group, key.kind) {
            ("", "Pod") => concerns("policy", "PodDisruptionBudget", namespace),
            ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") => {
                concerns("policy", "PodDisruptionBudget", namespace);
            }
            ("", "Node") => concerns("apps", "DaemonSet", None),
            (group @ ("nos.nebuly.com" | "n8s.nebuly.ai"), elastic::PLAIN) => concerns(group, elastic::COMPOSITE, None),
            ("", "PersistentVolume") | ("storage.k8s.io", "StorageClass") => {
                concerns("", "PersistentVolumeClaim", None);
            }
            ("", "PersistentVolumeClaim") => {
                let volume = object.and_then(|claim| field::text(claim, "/spec/volumeName"));
                self.queue.extend(volume.map(volume::volume_key));
            }
            _ => {}
        }
    }

    /// Whether somebody has to look at something.
    pub fn have_work(&self) -> bool {
        !self.queue.is_empty() || self.roots_due
    }

    /// Lets those try again who were refused something.
    pub fn retry(&mut self) {
        self.queue.append(&mut self.refused);
    }

    /// Looks at everything in the queue once.
    pub fn run(&mut self, server: &mut Server) {
        for key in std::mem::take(&mut self.queue) {
            self.reconcile(server, &key);
        }
        self.keep_roots(server);
    }

    /// Brings the roots of quota trees up to date, if something changed that they follow.
    pub fn keep_roots(&mut self, server: &mut Server) {
        if std::mem::take(&mut self.roots_due) && self.runs_profiles {
            profile::reconcile(self, server);
        }
    }

    /// What was found wrong since this was last asked.
    pub fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.untold)
    }

    /// Keeps what is wrong with an object; what was said of it before is not said again.
    fn note_problems(&mut self, key: &ObjectKey, problems: Vec<Problem>) {
        let known = self.problems.remove(key).unwrap_or_default();
        self.untold.extend(problems.iter().filter(|problem| !known.contains(problem)).cloned());
        if !problems.is_empty() {
            self.problems.insert(key.clone(), problems);
        }
    }

    fn reconcile(&mut self, server: &mut Server, key: &ObjectKey) {
        let Some(object) = server.store().get(key).cloned() else { return };
        if volcano::uses_queues(key, &object) {
            queue::ensure_standing(server);
        }
        match (key.group, key.kind) {
            ("apps", "Deployment") => deployment::reconcile(self, server, key, &object),
            ("apps", "ReplicaSet") | ("", "ReplicationController") => {
                replicaset::reconcile(self, server, key, &object);
            }
            ("", "Pod") if self.runs_pod_groups => gang::reconcile(self, server, key, &object),
            (volcano::SCHEDULING, volcano::QUEUE) => queue::reconcile(server, key, &object),
            (volcano::BATCH, volcano::JOB) if self.runs_volcano_jobs => {
                volcano_job::reconcile(self, server, key, &object);
            }
            ("apps", "StatefulSet") => statefulset::reconcile(self, server, key, &object),
            ("apps", "DaemonSet") => daemonset::reconcile(self, server, key, &object),
            ("batch", "Job") => job::reconcile(self, server, key, &object),
            ("policy", "PodDisruptionBudget") => disruption::reconcile(self, server, key, &object),
            ("", "PersistentVolumeClaim") => volume::reconcile_claim(self, server, key, &object),
            ("", "PersistentVolume") => volume::reconcile_volume(server, key, &object),
            ("", "Node") => node::reconcile(server, key, &object),
            (_, elastic::COMPOSITE) => composite_quota::reconcile(server, key, &object),
            _ => {}
        }
        if !self.runs_pod_groups {
            return;
        }
        match (key.group, key.kind) {
            ("apps", "ReplicaSet" | "StatefulSet") | ("batch", "Job") => gang::reconcile_owner(self, server, key),
            ("apps", "Deployment") => {
                let sets = server.store().controlled(key, "ReplicaSet");
                let sets: Vec<ObjectKey> = sets.into_iter().map(|(key, _)| key.clone()).collect();
                sets.iter().for_each(|set| gang::reconcile_owner(self, server, set));
            }
            _ => {}
        }
    }

    /// Makes an object for its owner. Where it is refused, the owner has an event and tries again later.
    fn make(&mut self, server: &mut Server, owner: &ObjectKey, mut object: Value) -> Option<ObjectKey> {
        let owner_object = server.store().get(owner)?.clone();
        field::put(&mut object, &["metadata", "ownerReferences"], controlled_by(owner, &owner_object));
        if let Some(namespace) = &owner.namespace {
            field::put(&mut object, &["metadata", "namespace"], Value::from(&**namespace));
        }
        match server.create(object) {
            Ok(key) => Some(key),
            Err(refusal) => {
                let message = match refusal {
                    Refusal::Rejected(rejected) => format!("{}: {}", rejected.object, rejected.message),
                    other => other.to_string(),
                };
                server.event(owner, "Warning", "FailedCreate", &message);
                self.refused.insert(owner.clone());
                None
            }
        }
    }

    /// A name for the next object that `owner` makes in its namespace, which no other object has.
    fn next_name(&mut self, store: &Store, owner: &ObjectKey, stem: &str, kind: &'static str) -> String {
        let kind = kinds::find("", kind).expect("pods and claims are known kinds");
        let made = self.made.entry(owner.clone()).or_default();
        loop {
            let name = naming::generated(stem, &owner.qualified(), *made);
            if !store.contains(&ObjectKey::new(kind, owner.namespace.as_deref(), &name)) {
                return name;
            }
            *made += 1;
        }
    }

    /// Says that the name of [`Self::next_name`] was used.
    fn name_used(&mut self, owner: &ObjectKey) {
        *self.made.entry(owner.clone()).or_default() += 1;
    }

    /// What the engine is told of an object, read the same way here.
    fn facts(&mut self, object: &Value) -> Vec<Fact> {
        self.translator.upsert(object).facts
    }
}

/// A number that may be written as a percentage of `total`, as `maxSurge: 25%` is. `None` where it is
/// neither.
fn int_or_percent(value: &Value, total: i64, rounding: Rounding) -> Option<i64> {
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let percent: i64 = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    let hundredths = percent.checked_mul(total)?;
    Some(match rounding {
        Rounding::Up => hundredths.div_euclid(100) + i64::from(hundredths.rem_euclid(100) != 0),
        Rounding::Down => hundredths.div_euclid(100),
    })
}

/// Which way a percentage is made whole.
#[derive(Debug, Clone, Copy)]
enum Rounding {
    Up,
    Down,
}

/// Writes `status.<field>` for each field given, and leaves the rest of the status as it is.
fn write_status(server: &mut Server, key: &ObjectKey, fields: &[(&str, Value)]) {
    server.amend(key, |object| {
        for (name, value) in fields {
            field::put(object, &["status", name], value.clone());
        }
    });
}

/// The generation of an object's spec that a status speaks of.
fn observed(object: &Value) -> (&'static str, Value) {
    ("observedGeneration", object["metadata"]["generation"].clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn percentages_are_rounded_as_asked() {
        let cases = [
            (json!("25%"), 10, Rounding::Up, Some(3)),
            (json!("25%"), 10, Rounding::Down, Some(2)),
            (json!("100%"), 7, Rounding::Up, Some(7)),
            (json!("0%"), 7, Rounding::Up, Some(0)),
            (json!(4), 7, Rounding::Up, Some(4)),
            (json!("4"), 7, Rounding::Up, None),
        ];
        for (value, total, rounding, expected) in cases {
            assert_eq!(int_or_percent(&value, total, rounding), expected, "{value} of {total}");
        }
    }
}
