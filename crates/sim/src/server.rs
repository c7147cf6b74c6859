//! The virtual API server: what happens to an object on its way into the store and out of it.
//!
//! Admission is the one that the live program has; metadata is assigned as an API server assigns it,
//! but the same input always gets the same. What hangs on an object goes with it: the pods of a
//! node, the dependents of an owner, everything in a namespace.

mod admitting;
mod events;
mod guaranteed;
mod pod;
mod replacement;

pub use pod::{end, is_leaving, is_over, is_pod, is_ready, run};
pub use replacement::replacement;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use quotient_api::{
    CheckedSpecs, Configuration, Held, ObjectKey, Operation, Problem, at, key_of, kinds, pod_group, time,
};
use quotient_engine::fact::Name;
use serde_json::{Value, json};

use crate::bounds;
use crate::clock::Clock;
use crate::field;
use crate::naming;
use crate::server::events::Events;
use crate::server::guaranteed::Guaranteed;
use crate::store::Store;

/// The label that every namespace has: its name.
const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// An object that was not let in, or not let go.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rejected {
    pub object: ObjectKey,
    pub message: String,
}

/// Why an object was not applied.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// It is not an object that can be kept.
    #[error("{0}")]
    Unreadable(Problem),
    /// Admission said no.
    #[error("{} was rejected: {}", .0.object, .0.message)]
    Rejected(Rejected),
    /// There is no such object.
    #[error("{0} does not exist")]
    Missing(ObjectKey),
}

/// A pod on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Departure {
    pod: ObjectKey,
    uid: String,
}

/// Objects, time, and what an API server does with them.
#[derive(Debug, Clone, Default)]
pub struct Server {
    pub clock: Clock,
    store: Store,
    /// How many objects were made so far, for uids.
    made: u64,
    /// How many changes were written so far, for resource versions.
    written: u64,
    /// How long evicted pods take to go.
    eviction_takes: Duration,
    /// Pods that are leaving, by the time at which they are gone, then by the order of their eviction.
    departures: BTreeMap<(i64, u64), Departure>,
    rejected: Vec<Rejected>,
    warnings: Vec<Problem>,
    /// What a whole GPU counts in gigabytes, where it is configured.
    whole_gpu_gb: Option<u32>,
    /// What all nodes hold, once it was asked for and until a node changes.
    held: OnceLock<Arc<Held>>,
    /// What the elastic quotas of each group guarantee.
    guaranteed: Guaranteed,
    /// Whether a composite quota governs only namespaces that agree.
    needs_consent: bool,
    /// Specs of pods with which nothing was wrong.
    checked: CheckedSpecs,
    events: Events,
}

impl Server {
    /// A server without objects, in a cluster with this configuration.
    pub fn new(configuration: &Configuration) -> Self {
        let needs_consent = configuration.listed_users_only;
        let whole_gpu_gb = Some(configuration.nvidia_gpu_resource_memory_gb);
        Server { whole_gpu_gb, needs_consent, ..Server::default() }
    }

    /// The objects as they are.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// How many objects and events there are.
    pub fn len(&self) -> usize {
        self.store.len() + self.events.len()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The store's changes since they were last taken.
    pub fn take_changes(&mut self) -> Vec<crate::store::Change> {
        self.store.take_changes()
    }

    /// What was rejected since this was last asked, each object and message once.
    pub fn take_rejected(&mut self) -> Vec<Rejected> {
        std::mem::take(&mut self.rejected)
    }

    /// What admission warned of since this was last asked.
    pub fn take_warnings(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.warnings)
    }

    /// From now on, evicted pods take this long to go.
    pub fn set_eviction_takes(&mut self, takes: Duration) {
        self.eviction_takes = takes;
    }

    /// Makes the object, or replaces the spec, labels and annotations of the one that exists (and its
    /// status where one is given), as `kubectl replace` does.
    pub fn apply(&mut self, mut object: Value) -> Result<ObjectKey, Refusal> {
        let key = key_of(&object).map_err(Refusal::Unreadable)?;
        if let Some(message) = bounds::beyond(&key, &object) {
            return Err(self.reject(Rejected { object: key, message }));
        }
        match self.store.get(&key).cloned() {
            None => {
                if is_pod(&key) && !runs_elsewhere(&key, &object) {
                    pod::make_room(&mut object);
                }
                self.create_as(key, object)
            }
            // A pod that runs elsewhere takes the place of the one that was made here meanwhile.
            Some(old) if runs_elsewhere(&key, &object) && old["metadata"]["uid"] != object["metadata"]["uid"] => {
                self.store.remove(&key);
                self.create_as(key, object)
            }
            Some(old) => {
                let replacement = replacement(&old, object);
                self.update(&key, replacement)
            }
        }
    }

    /// Makes a pod anew in place of the one of its name, as old as that one is.
    pub fn replace_pod(&mut self, key: &ObjectKey, mut pod: Value) -> Result<(), Refusal> {
        for part in ["status", "spec/nodeName"] {
            field::remove(&mut pod, &part.split('/').collect::<Vec<_>>());
        }
        // Admission looks at it as at a new one; the uid and the creation time are the old one's afterwards.
        let uid = pod["metadata"].as_object_mut().and_then(|metadata| metadata.shift_remove("uid"));
        self.store.remove(key);
        self.create_as(key.clone(), pod)?;
        if let Some(uid) = uid {
            self.amend(key, |pod| field::put(pod, &["metadata", "uid"], uid));
        }
        Ok(())
    }

    /// Gives a pod up, when nothing is asked of the cluster any more.
    pub fn give_up(&mut self, pod: &ObjectKey) -> Option<Arc<Value>> {
        self.store.give_up(pod)
    }

    /// Does something for a program, whose it is to tell what was refused and what it was warned of.
    pub fn quietly<T>(&mut self, change: impl FnOnce(&mut Server) -> T) -> T {
        let told = (self.rejected.len(), self.warnings.len());
        let outcome = change(self);
        self.rejected.truncate(told.0);
        self.warnings.truncate(told.1);
        outcome
    }

    /// Makes an object; one of that key that exists already is a refusal.
    pub fn create(&mut self, object: Value) -> Result<ObjectKey, Refusal> {
        let key = key_of(&object).map_err(Refusal::Unreadable)?;
        if self.store.contains(&key) {
            let message = format!("{key} already exists");
            return Err(self.reject(Rejected { object: key, message }));
        }
        if self.len() >= bounds::OBJECTS_MAX {
            let message = format!("the cluster has {} objects, the most that are simulated", bounds::OBJECTS_MAX);
            return Err(self.reject(Rejected { object: key, message }));
        }
        self.create_as(key, object)
    }

    fn create_as(&mut self, key: ObjectKey, mut object: Value) -> Result<ObjectKey, Refusal> {
        field::put(&mut object, &["metadata", "name"], json!(*key.name));
        if let Some(namespace) = &key.namespace {
            field::put(&mut object, &["metadata", "namespace"], json!(**namespace));
            self.ensure_namespace(namespace);
        } else {
            field::remove(&mut object, &["metadata", "namespace"]);
        }
        if key.kind == "Namespace" && key.group.is_empty() {
            field::put(&mut object, &["metadata", "labels", NAMESPACE_NAME_LABEL], json!(*key.name));
        }
        let mut object = if runs_elsewhere(&key, &object) {
            self.adopted(&key, object)
        } else {
            self.admitted(Operation::Create, &key, object, None)?
        };
        self.made += 1;
        // A creation time that is given is kept too: of objects written down from another cluster, age is part.
        let given = field::text(&object, "/metadata/creationTimestamp").map(time::parse_timestamp);
        let created = match given {
            Some(Ok(given)) => given,
            _ => self.clock.created(),
        };
        // A uid that is given is kept: objects written down from another cluster refer to each other by it.
        if field::text(&object, "/metadata/uid").is_none() {
            field::put(&mut object, &["metadata", "uid"], json!(naming::uid(self.made)));
        }
        field::put(&mut object, &["metadata", "creationTimestamp"], json!(time::format_timestamp(created)));
        field::put(&mut object, &["metadata", "generation"], json!(1));
        if is_pod(&key) {
            if field::text(&object, "/status/phase").is_none() {
                field::put(&mut object, &["status", "phase"], json!("Pending"));
            }
            self.start_if_assigned(&mut object);
        }
        self.write(key.clone(), object);
        Ok(key)
    }

    /// Replaces an object that exists.
    pub fn update(&mut self, key: &ObjectKey, object: Value) -> Result<ObjectKey, Refusal> {
        let Some(old) = self.store.get(key).cloned() else { return Err(Refusal::Missing(key.clone())) };
        let mut object = self.admitted(Operation::Update, key, object, Some(&old))?;
        if object.get("spec") != old.get("spec") {
            let generation = field::integer(&old, "/metadata/generation").unwrap_or(1) + 1;
            field::put(&mut object, &["metadata", "generation"], json!(generation));
        }
        if is_pod(key) {
            self.start_if_assigned(&mut object);
        }
        self.write(key.clone(), object);
        Ok(key.clone())
    }

    /// Changes an object in place, past admission: what controllers, the scheduler and kubelets write
    /// about an object. Says whether anything changed; an object that is gone is left so.
    pub fn amend(&mut self, key: &ObjectKey, amend: impl FnOnce(&mut Value)) -> bool {
        let Some(old) = self.store.get(key) else { return false };
        let mut object = (**old).clone();
        amend(&mut object);
        if object == **old {
            return false;
        }
        if object.get("spec") != old.get("spec") {
            let generation = field::integer(old, "/metadata/generation").unwrap_or(1) + 1;
            field::put(&mut object, &["metadata", "generation"], json!(generation));
        }
        self.put(key.clone(), object);
        true
    }

    /// The same for what surely changes an object and its spec: it is not copied, nor compared with what it was.
    pub fn change(&mut self, key: &ObjectKey, change: impl FnOnce(&mut Value)) {
        if !self.store.contains(key) {
            return;
        }
        self.written += 1;
        let version = self.written.to_string();
        self.store.change(key, |object| {
            change(object);
            let generation = field::integer(object, "/metadata/generation").unwrap_or(1) + 1;
            field::put(object, &["metadata", "generation"], json!(generation));
            field::put(object, &["metadata", "resourceVersion"], json!(version));
        });
        if key.kind == "Node" {
            self.held.take();
        }
    }

    fn write(&mut self, key: ObjectKey, mut object: Value) {
        // An object that did not change keeps its version, so the version is not part of the comparison.
        if let Some(old) = self.store.get(&key)
            && let Some(version) = at(old, "/metadata/resourceVersion")
        {
            field::put(&mut object, &["metadata", "resourceVersion"], version.clone());
            if object == **old {
                return;
            }
        }
        self.put(key, object);
    }

    /// Keeps an object that changed.
    fn put(&mut self, key: ObjectKey, mut object: Value) {
        self.written += 1;
        field::put(&mut object, &["metadata", "resourceVersion"], json!(self.written.to_string()));
        if key.kind == "Node" {
            self.held.take();
        }
        if Guaranteed::concerns(&key) {
            self.guaranteed.replace(&key, self.store.get(&key).map(AsRef::as_ref), Some(&object));
        }
        self.store.put(key, object);
    }

    fn reject(&mut self, rejected: Rejected) -> Refusal {
        if !self.rejected.contains(&rejected) {
            self.rejected.push(rejected.clone());
        }
        Refusal::Rejected(rejected)
    }

    /// Namespaces that are mentioned exist.
    fn ensure_namespace(&mut self, name: &Name) {
        let key = ObjectKey { group: "", kind: "Namespace", namespace: None, name: name.clone() };
        if self.store.contains(&key) {
            return;
        }
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": **name}, "status": {"phase": "Active"},
        });
        // A namespace has nothing that admission could refuse; if a policy does, the objects in it still come.
        let _ = self.create_as(key, namespace);
    }

    /// A pod that names a node runs there: the simulated kubelet does nothing else.
    fn start_if_assigned(&mut self, pod: &mut Value) {
        if field::text(pod, "/spec/nodeName").is_none() || is_over(pod) {
            return;
        }
        if field::text(pod, "/status/phase") == Some("Running") && field::has_condition(pod, "Ready") {
            return;
        }
        run(pod, self.clock.now_us());
    }

    /// Takes an object out, if admission lets it go, with everything that hangs on it.
    pub fn delete(&mut self, key: &ObjectKey) -> Result<(), Refusal> {
        let Some(object) = self.store.get(key).cloned() else { return Err(Refusal::Missing(key.clone())) };
        let as_it_is = (*object).clone();
        let now = time::format_timestamp(self.clock.now_us());
        self.admitted(Operation::Delete, key, as_it_is, Some(&object))?;
        // A group of pods is protected: it goes when none is left that names it.
        match pod_group::is_group(key) {
            true => drop(self.amend(key, |group| field::put(group, &["metadata", "deletionTimestamp"], json!(now)))),
            false => self.remove(key),
        }
        Ok(())
    }

    /// Takes an object out with everything that hangs on it; nobody is asked.
    pub fn remove(&mut self, key: &ObjectKey) {
        let mut gone = vec![key.clone()];
        while let Some(key) = gone.pop() {
            let Some(object) = self.store.remove(&key) else { continue };
            self.guaranteed.replace(&key, Some(&object), None);
            match (key.group, key.kind) {
                ("", "Node") => drop(self.held.take()),
                ("", "Namespace") => self.events.forget_namespace(&key.name),
                _ => {}
            }
            let mut hanging: Vec<ObjectKey> = match (key.group, key.kind) {
                ("", "Node") => self.store.pods_on(&key.name),
                ("", "Namespace") => {
                    let inside = self.store.iter().filter(|(k, _)| k.namespace.as_ref() == Some(&key.name));
                    inside.map(|(k, _)| k.clone()).collect()
                }
                _ => Vec::new(),
            };
            // A dependent of several owners goes with the last of them.
            hanging.extend(self.store.dependents(&key).into_iter().filter(|dependent| {
                let object = self.store.get(dependent);
                object.is_some_and(|object| {
                    let owners = field::owners(object, dependent.namespace.as_deref());
                    !owners.iter().any(|owner| self.store.contains(owner))
                })
            }));
            hanging.reverse();
            gone.extend(hanging);
            drop(object);
        }
    }

    /// Sends a pod away, as the eviction of a running pod does: it is gone at once, or leaves for as
    /// long as evictions take.
    pub fn evict(&mut self, key: &ObjectKey) {
        if self.eviction_takes.is_zero() {
            return self.remove(key);
        }
        let Some(pod) = self.store.get(key) else { return };
        if pod.pointer("/metadata/deletionTimestamp").is_some() {
            return;
        }
        let uid = field::text(pod, "/metadata/uid").unwrap_or_default().to_string();
        let due = self.clock.after_us(self.eviction_takes);
        // The deletion time of a pod is the time at which its grace period ends; grace has whole seconds.
        let grace = i64::try_from(self.eviction_takes.as_secs()).unwrap_or(i64::MAX);
        let deletion = self.clock.after_us(Duration::from_secs(self.eviction_takes.as_secs()));
        self.amend(key, |pod| {
            field::put(pod, &["metadata", "deletionTimestamp"], json!(time::format_timestamp(deletion)));
            field::put(pod, &["metadata", "deletionGracePeriodSeconds"], json!(grace));
        });
        self.written += 1;
        self.departures.insert((due, self.written), Departure { pod: key.clone(), uid });
    }

    /// When the next leaving pod will be gone.
    pub fn next_departure_us(&self) -> Option<i64> {
        self.departures.keys().next().map(|(due, _)| *due)
    }

    /// Takes out the pods whose time has come.
    pub fn depart(&mut self) {
        while let Some(entry) = self.departures.first_entry() {
            if entry.key().0 > self.clock.now_us() {
                return;
            }
            let Departure { pod, uid } = entry.remove();
            let same = self.store.get(&pod).is_some_and(|p| field::text(p, "/metadata/uid") == Some(&uid));
            if same {
                self.remove(&pod);
            }
        }
    }
}

/// Whether this is a pod on a node of the cluster that it is written down from: an API server gave it a uid.
fn runs_elsewhere(key: &ObjectKey, object: &Value) -> bool {
    let has = |pointer: &str| field::text(object, pointer).is_some();
    is_pod(key) && has("/metadata/uid") && has("/spec/nodeName") && !is_over(object)
}

/// A reference that makes `owner` the controller of an object.
pub fn controlled_by(owner: &ObjectKey, object: &Value) -> Value {
    let api_version = kinds::find(owner.group, owner.kind).map(kinds::Kind::api_version).unwrap_or_default();
    json!([{
        "apiVersion": api_version, "kind": owner.kind, "name": *owner.name, "uid": object["metadata"]["uid"],
        "controller": true, "blockOwnerDeletion": true,
    }])
}
