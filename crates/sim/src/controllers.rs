//! Stand-ins for the controllers of every cluster, those of kube-controller-manager: what people's workloads rely on.
//! Quotient's own controllers are in `quotient-host` and run here as they are.
//!
//! They are level-triggered, as the real ones are: a change puts the objects it concerns into a
//! queue, and each is then compared with how it should be, whatever happened before. They see
//! objects only, never the engine.

mod adoption;
mod claim;
mod daemonset;
mod deployment;
pub mod disruption;
mod job;
mod node;
mod pod_group;
mod replicaset;
mod statefulset;
mod template;
mod volume;

use std::collections::{BTreeMap, BTreeSet};

use quotient_api::{ObjectKey, Translator, TranslatorSettings, at, kinds};
use quotient_engine::Fact;
use serde_json::Value;

use crate::field;
use crate::naming;
use crate::server::{Refusal, Server, controlled_by, is_pod};
use crate::store::{Change, Store};

/// The controllers of one cluster, and what they still have to look at.
#[derive(Debug, Clone)]
pub struct Controllers {
    queue: BTreeSet<ObjectKey>,
    /// Objects that were refused something: they try again when the cluster next settles.
    refused: BTreeSet<ObjectKey>,
    /// How many objects each owner has made, so that each has a name of its own.
    made: BTreeMap<ObjectKey, u64>,
    /// The owner that made something last, and the reference to it.
    last_reference: Option<(ObjectKey, Value)>,
    /// What is known of owners that came with pods of another cluster.
    adoption: adoption::Adoption,
    /// Reads selectors, requests and affinity as the engine is told them.
    translator: Translator,
}

impl Default for Controllers {
    fn default() -> Self {
        Controllers {
            queue: BTreeSet::new(),
            refused: BTreeSet::new(),
            made: BTreeMap::new(),
            last_reference: None,
            adoption: adoption::Adoption::default(),
            translator: Translator::new(TranslatorSettings::default()),
        }
    }
}

impl Controllers {
    /// Takes note of a change: whom it concerns has to look again.
    pub fn note(&mut self, change: &Change, store: &Store) {
        let key = change.key();
        let object = match change {
            Change::Seen(key) => store.get(key),
            Change::Gone(_, object) => Some(object),
        };
        // Pods are many, and of most there is nothing to be done.
        if !is_pod(key) || object.is_some_and(|pod| !field::list(pod, "/spec/resourceClaims").is_empty()) {
            self.queue.insert(key.clone());
        }
        let controller = object.and_then(|object| field::controller(object));
        let namespace = key.namespace.as_deref();
        // A pod of a set that is not there: its Deployment has to look for it.
        if let Some(set) = controller.as_ref().filter(|set| set.kind == "ReplicaSet" && !store.contains(set)) {
            let deployments = store.of_kind("apps", "Deployment", set.namespace.as_deref());
            self.queue.extend(deployments.map(|(key, _)| key.clone()));
        }
        self.queue.extend(controller);
        let mut concerns = |group: &'static str, kind: &'static str, namespace: Option<&str>| {
            self.queue.extend(store.of_kind(group, kind, namespace).map(|(key, _)| key.clone()));
        };
        match (key.group, key.kind) {
            ("", "Pod") => {
                concerns("policy", "PodDisruptionBudget", namespace);
                concerns("resource.k8s.io", "ResourceClaim", namespace);
                self.queue.extend(object.and_then(|pod| quotient_api::gangs::of_pod(key, pod)));
            }
            ("resource.k8s.io", "ResourceClaimTemplate") => concerns("", "Pod", namespace),
            ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") => {
                concerns("policy", "PodDisruptionBudget", namespace);
            }
            ("", "Node") => concerns("apps", "DaemonSet", None),
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
        !self.queue.is_empty()
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
    }

    fn reconcile(&mut self, server: &mut Server, key: &ObjectKey) {
        let Some(object) = server.store().get(key).cloned() else { return };
        match (key.group, key.kind) {
            ("apps", "Deployment") => deployment::reconcile(self, server, key, &object),
            ("apps", "ReplicaSet") | ("", "ReplicationController") => {
                replicaset::reconcile(self, server, key, &object);
            }
            ("apps", "StatefulSet") => statefulset::reconcile(self, server, key, &object),
            ("apps", "DaemonSet") => daemonset::reconcile(self, server, key, &object),
            ("batch", "Job") => job::reconcile(self, server, key, &object),
            ("policy", "PodDisruptionBudget") => disruption::reconcile(self, server, key, &object),
            ("", "PersistentVolumeClaim") => volume::reconcile_claim(self, server, key, &object),
            ("", "PersistentVolume") => volume::reconcile_volume(server, key, &object),
            ("", "Node") => node::reconcile(server, key, &object),
            ("", "Pod") => claim::reconcile_pod(self, server, key, &object),
            ("resource.k8s.io", "ResourceClaim") => claim::reconcile(server, key, &object),
            ("scheduling.k8s.io", "PodGroup") => pod_group::reconcile(server, key, &object),
            _ => {}
        }
    }

    /// Makes an object for its owner. Where it is refused, the owner has an event and tries again later.
    fn make(&mut self, server: &mut Server, owner: &ObjectKey, mut object: Value) -> Option<ObjectKey> {
        let reference = self.reference_to(owner, server.store().get(owner)?);
        field::put(&mut object, &["metadata", "ownerReferences"], reference);
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
                server.event(owner, "FailedCreate", &message);
                self.refused.insert(owner.clone());
                None
            }
        }
    }

    /// A reference that makes `owner` the controller of an object. Many are made for one owner after the other.
    fn reference_to(&mut self, owner: &ObjectKey, object: &Value) -> Value {
        let uid = at(object, "/metadata/uid");
        if let Some((known, reference)) = &self.last_reference
            && known == owner
            && at(reference, "/0/uid") == uid
        {
            return reference.clone();
        }
        let reference = controlled_by(owner, object);
        self.last_reference = Some((owner.clone(), reference.clone()));
        reference
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
