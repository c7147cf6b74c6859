//! The objects that are kept as they are, for controllers, for admission, and to compare what is to be written with
//! what is there.
//!
//! Kept whole are kinds of which there are few. Of pods and of what makes pods there may be hundreds of thousands, so
//! of those only the ones are kept that speak of a quota tree, a queue or a group. All others leave a name behind, and
//! one pod for each namespace: to whom it belongs is a matter of its namespace then, and what holds of one holds of
//! all.
//!
//! The objects are shared: the scheduler takes in what it sees, and webhooks look at the same from other tasks, whether
//! this process leads or not. Locks are held for moments, and never while waiting for a network.

mod arrival;
mod ended;
mod slim;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use quotient_api::field::of;
use quotient_api::gpu_memory::WHOLE_GPU_GB;
use quotient_api::volcano::{self, GROUP_MIN_MEMBER, command};
use quotient_api::{
    Configuration, Held, Kind, ObjectKey, ObjectMap, View, at, field, gangs, is_quota, kinds, told_kinds, tree,
};
use quotient_engine::fact::Name;
use serde_json::{Value, json};

use crate::subject::Subject;
pub use arrival::Arrival;
use slim::{slim_node, slim_pod};

/// The kinds that are watched: those that the engine is told of, and those that only controllers and admission ask for.
pub fn watched_kinds() -> impl Iterator<Item = &'static Kind> {
    told_kinds().chain(kinds::KINDS.iter().filter(|kind| {
        matches!(
            (kind.group, kind.kind),
            (tree::PROFILE_GROUP, tree::PROFILE)
                | (volcano::BATCH, volcano::JOB)
                | (command::BUS, command::COMMAND)
                | ("apps", "Deployment")
                | ("batch", "Job")
        )
    }))
}

/// What is looked at besides kinds, and the kind without which there is nothing to see.
pub fn pods_of_kind(kind: &Kind) -> Option<Subject> {
    match (kind.group, kind.kind) {
        (volcano::BATCH, volcano::JOB) => Some(Subject::JobPods),
        (group, gangs::POD_GROUP) if gangs::source_of(group).is_some() => Some(Subject::EndedPods),
        _ => None,
    }
}

/// What makes pods, and may say by annotation how many of them must be able to run.
pub fn is_owner(key: &ObjectKey) -> bool {
    matches!(
        (key.group, key.kind),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") | ("batch", "Job") | ("", "ReplicationController")
    )
}

fn is_pod(key: &ObjectKey) -> bool {
    (key.group, key.kind) == ("", "Pod")
}

/// Objects that several tasks look at. Clones are the same objects.
#[derive(Debug, Clone, Default)]
pub struct SharedObjects(Arc<RwLock<Objects>>);

impl SharedObjects {
    /// Objects that are as these are now, and go their own way.
    pub fn fork(&self) -> Self {
        SharedObjects(Arc::new(RwLock::new(self.read().clone())))
    }

    /// The objects, for a moment.
    pub fn read(&self) -> RwLockReadGuard<'_, Objects> {
        // Whoever panicked did so between whole objects: what is there can be read.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The objects to change, for a moment.
    pub fn write(&self) -> RwLockWriteGuard<'_, Objects> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What came of an object that was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct News {
    /// Whether anything changed about it that anybody asks for.
    pub is_news: bool,
    /// Pods of which it turned out now that they belong to a group.
    pub joined: Vec<Value>,
}

/// The pods of one namespace that say nothing of their own.
#[derive(Debug, Clone)]
struct Ordinary {
    names: BTreeSet<Name>,
    /// One of them, as much as there is to say of any.
    example: Value,
}

/// Objects by key. A copy shares what neither of the two changes.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    kept: ObjectMap<Arc<Value>>,
    /// The kept pods that name a group, by group.
    members: ObjectMap<BTreeSet<ObjectKey>>,
    /// The ordinary pods of each namespace.
    ordinary: BTreeMap<Name, Arc<Ordinary>>,
    /// What makes pods, with what made it.
    owners: ObjectMap<Option<ObjectKey>>,
    /// Pods without a node whose owner was not seen yet, by owner: whether they matter is not known.
    undecided: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// The pods of jobs of several tasks, whatever became of them.
    job_pods: ObjectMap<Arc<Value>>,
    /// The names of these pods, by job.
    pods_of_jobs: ObjectMap<BTreeSet<ObjectKey>>,
    /// Pods that have ended, with their groups and whether they succeeded.
    ended: ObjectMap<(ObjectKey, bool)>,
    /// What the API server serves, as far as it was listed.
    served: BTreeSet<Subject>,
    is_complete: bool,
    whole_gpu_gb: Option<u32>,
    needs_consent: bool,
    /// What all nodes hold together, once it was asked for and until a node changes.
    held: OnceLock<Arc<Held>>,
}

impl Objects {
    /// No objects, in a cluster with this configuration.
    pub fn new(configuration: &Configuration) -> Self {
        let needs_consent = configuration.listed_users_only;
        let whole_gpu_gb = Some(configuration.nvidia_gpu_resource_memory_gb);
        Objects { whole_gpu_gb, needs_consent, ..Objects::default() }
    }

    /// Whether everything that there is was seen. What is asked before that may be answered wrongly.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Says that everything that there is was seen.
    pub fn complete(&mut self) {
        self.is_complete = true;
    }

    /// The API server serves it, and all there is was listed; or does not.
    pub fn serves(&mut self, subject: Subject, is_served: bool) {
        if is_served {
            self.served.insert(subject);
        } else {
            self.served.remove(&subject);
        }
    }

    /// Whether the API server serves a kind.
    pub fn is_served(&self, group: &str, kind: &str) -> bool {
        kinds::find(group, kind).is_some_and(|kind| self.served.contains(&Subject::Kind(kind)))
    }

    /// Whether all pods of jobs were listed.
    pub fn knows_job_pods(&self) -> bool {
        self.served.contains(&Subject::JobPods)
    }

    /// Takes in an object that was seen.
    pub fn seen(&mut self, key: &ObjectKey, object: &Value) -> News {
        self.take_in(key, object, None)
    }

    /// Takes in an object that somebody else keeps as it is: of what is kept here too, no copy is made.
    pub fn seen_shared(&mut self, key: &ObjectKey, object: &Arc<Value>) -> News {
        self.take_in(key, object, Some(object))
    }

    fn take_in(&mut self, key: &ObjectKey, object: &Value, shared: Option<&Arc<Value>>) -> News {
        if is_pod(key) {
            self.pod_seen(key, object, shared);
        } else if is_owner(key) {
            return News { is_news: true, joined: self.owner_seen(key, object) };
        } else if is_kept(key) {
            let is_node = is_node(key);
            let object = kept(shared, || if is_node { slim_node(object) } else { object.clone() });
            let before = self.kept.insert(key.clone(), Arc::clone(&object));
            // Of a node that is kept whole, what nobody asks for is no news.
            let is_news = before.is_none_or(|before| match is_node && shared.is_some() {
                true => slim_node(&before) != slim_node(&object),
                false => before != object,
            });
            if is_news && is_node {
                self.held.take();
            }
            return News { is_news, joined: Vec::new() };
        }
        News { is_news: true, joined: Vec::new() }
    }

    /// Takes in that an object is gone.
    pub fn gone(&mut self, key: &ObjectKey) {
        let was_kept = self.drop_kept(key);
        if is_node(key) {
            self.held.take();
        }
        self.owners.remove(key);
        if is_pod(key) && !was_kept {
            self.forget_ordinary(key);
        }
        if is_pod(key) && was_kept {
            self.undecided.retain(|_, pods| {
                pods.remove(key);
                !pods.is_empty()
            });
        }
    }

    fn pod_seen(&mut self, key: &ObjectKey, pod: &Value, shared: Option<&Arc<Value>>) {
        let labels = at(pod, "/metadata/labels");
        let is_of_tree = labels.and_then(|labels| of(labels, tree::keys::QUOTA_NAME)).is_some();
        let owner = controller_of(pod);
        let is_made_by_job = owner.as_ref().is_some_and(volcano::is_job);
        let has_node = at(pod, "/spec/nodeName").and_then(Value::as_str).is_some_and(|node| !node.is_empty());
        let says_more = volcano::uses_queues(key, pod) || gangs::named_by(pod).next().is_some();
        let is_of_gang = owner.as_ref().is_some_and(|owner| !self.chain_of(owner).is_empty());
        let unseen = owner.filter(|owner| is_owner(owner) && !has_node && !self.is_chain_known(owner));
        if is_of_tree || is_made_by_job || says_more || is_of_gang {
            self.forget_ordinary(key);
            self.keep_pod(key, kept(shared, || slim_pod(pod)));
        } else if let Some(owner) = unseen {
            self.forget_ordinary(key);
            // What it says beside may be asked for once it is known.
            self.keep_pod(key, kept(shared, || pod.clone()));
            self.undecided.entry(owner).or_default().insert(key.clone());
        } else {
            self.drop_kept(key);
            self.note_ordinary(key);
        }
    }

    fn keep_pod(&mut self, key: &ObjectKey, pod: Arc<Value>) {
        self.drop_kept(key);
        if let Some(group) = gangs::of_pod(key, &pod) {
            self.members.get_or_insert_with(group, BTreeSet::new).insert(key.clone());
        }
        self.kept.insert(key.clone(), pod);
    }

    /// Says whether the object was kept.
    fn drop_kept(&mut self, key: &ObjectKey) -> bool {
        let Some(object) = self.kept.remove(key) else { return false };
        if is_pod(key)
            && let Some(group) = gangs::of_pod(key, &object)
            && let Some(pods) = self.members.get_mut(&group)
        {
            pods.remove(key);
            if pods.is_empty() {
                self.members.remove(&group);
            }
        }
        true
    }

    /// The kept pods that name a group.
    pub fn members_of(&self, group: &ObjectKey) -> impl Iterator<Item = (&ObjectKey, &Value)> {
        self.members.get(group).into_iter().flatten().filter_map(|pod| self.find(pod))
    }

    /// A kept object with its key as it is kept.
    fn find(&self, key: &ObjectKey) -> Option<(&ObjectKey, &Value)> {
        self.kept.get_key_value(key).map(|(key, object)| (key, object.as_ref()))
    }

    /// Whether an owner was seen, and what made it too.
    fn is_chain_known(&self, owner: &ObjectKey) -> bool {
        match self.owners.get(owner) {
            Some(Some(above)) if is_owner(above) => self.owners.contains_key(above),
            Some(_) => true,
            None => false,
        }
    }

    fn owner_seen(&mut self, key: &ObjectKey, owner: &Value) -> Vec<Value> {
        let in_template = field::at(owner, "/spec/template").is_some_and(says_gang);
        if says_gang(owner) || in_template {
            self.kept.insert(key.clone(), Arc::new(owner.clone()));
        } else {
            self.kept.remove(key);
        }
        self.owners.insert(key.clone(), controller_of(owner));
        // Those whose owner this is, and those whose owner was made by it, may be ordinary after all.
        let in_namespace = |other: &ObjectKey| other.namespace == key.namespace && other.group == key.group;
        let first = ObjectKey { kind: "ReplicaSet", name: Name::from(""), ..key.clone() };
        let below = self.undecided.range(first..).map(|(owner, _)| owner).take_while(|owner| in_namespace(owner));
        let below = below.filter(|owner| self.owners.get(owner).is_some_and(|above| above.as_ref() == Some(key)));
        let concerned: BTreeSet<ObjectKey> = below.chain([key]).cloned().collect();
        let decided: Vec<ObjectKey> = concerned.into_iter().filter(|owner| self.is_chain_known(owner)).collect();
        let mut joined = Vec::new();
        for owner in decided {
            for pod in self.undecided.remove(&owner).unwrap_or_default() {
                if let Some(object) = self.kept.get(&pod).cloned() {
                    self.pod_seen(&pod, &object, None);
                    joined.extend(self.kept.contains_key(&pod).then(|| Value::clone(&object)));
                }
            }
        }
        joined
    }

    /// The objects that made a pod, and that made those, as far as they speak of a group.
    pub fn owners_of(&self, pod: &Value) -> impl Iterator<Item = &Value> {
        controller_of(pod).map(|owner| self.chain_of(&owner)).into_iter().flatten()
    }

    /// An object that makes pods, and what made it, as far as they speak of a group.
    fn chain_of(&self, owner: &ObjectKey) -> Vec<&Value> {
        let above = self.owners.get(owner).and_then(Option::as_ref);
        let owners = [owner].into_iter().chain(above).filter(|owner| is_owner(owner));
        owners.filter_map(|owner| self.kept.get(owner).map(AsRef::as_ref)).collect()
    }

    /// Whether a pod, or what made it, says how many pods must be able to run.
    pub fn is_of_gang(&self, pod: &Value) -> bool {
        says_gang(pod) || self.owners_of(pod).next().is_some()
    }

    fn note_ordinary(&mut self, key: &ObjectKey) {
        let Some(namespace) = &key.namespace else { return };
        let ordinary = self.ordinary.entry(namespace.clone());
        let ordinary = ordinary
            .or_insert_with(|| Arc::new(Ordinary { names: BTreeSet::new(), example: example(namespace, &key.name) }));
        if !ordinary.names.contains(&key.name) {
            Arc::make_mut(ordinary).names.insert(key.name.clone());
        }
    }

    fn forget_ordinary(&mut self, key: &ObjectKey) {
        let Some(namespace) = &key.namespace else { return };
        let Some(ordinary) = self.ordinary.get_mut(namespace) else { return };
        if !ordinary.names.contains(&key.name) {
            return;
        }
        let ordinary = Arc::make_mut(ordinary);
        ordinary.names.remove(&key.name);
        match ordinary.names.first() {
            Some(name) if ordinary.example["metadata"]["name"] == *key.name => {
                ordinary.example = example(namespace, name);
            }
            Some(_) => {}
            None => {
                self.ordinary.remove(namespace);
            }
        }
    }

    /// The objects of a kind that are kept, with their keys, of one namespace or of all.
    pub fn of_kind<'a>(
        &'a self,
        group: &str,
        kind: &str,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Value)> + use<'a> {
        let found = kinds::find(group, kind).map(|kind| self.kept.of_kind(kind.group, kind.kind, namespace));
        found.into_iter().flatten().map(|(key, object)| (key, object.as_ref()))
    }
}

impl View for Objects {
    fn get(&self, key: &ObjectKey) -> Option<&Value> {
        self.kept.get(key).map(AsRef::as_ref)
    }

    /// Of pods, those that are kept, and one for each namespace that has ordinary ones.
    fn list(&self, group: &str, kind: &str, namespace: Option<&str>) -> Vec<&Value> {
        let kept = self.of_kind(group, kind, namespace).map(|(_, object)| object);
        if (group, kind) != ("", "Pod") {
            return kept.collect();
        }
        let wanted = |name: &Name| namespace.is_none_or(|wanted| **name == *wanted);
        let ordinary = self.ordinary.iter().filter(|(name, _)| wanted(name)).map(|(_, ordinary)| &ordinary.example);
        kept.chain(ordinary).collect()
    }

    fn needs_consent(&self) -> bool {
        self.needs_consent
    }

    fn whole_gpu_gb(&self) -> u32 {
        self.whole_gpu_gb.unwrap_or(WHOLE_GPU_GB)
    }

    fn held(&self) -> Arc<Held> {
        let add_up = || Arc::new(Held::by(&self.list("", "Node", None), self.whole_gpu_gb()));
        self.held.get_or_init(add_up).clone()
    }
}

/// What is kept of an object: what somebody else keeps anyway, or as much as is needed.
fn kept(shared: Option<&Arc<Value>>, copy: impl FnOnce() -> Value) -> Arc<Value> {
    shared.map_or_else(|| Arc::new(copy()), Arc::clone)
}

/// Whether all objects of the key's kind are kept.
fn is_kept(key: &ObjectKey) -> bool {
    let other = matches!(
        (key.group, key.kind),
        ("", "Node" | "Namespace") | ("scheduling.k8s.io", "PriorityClass") | (volcano::BATCH, volcano::JOB)
    );
    other || gangs::is_group(key) || is_quota(key.group, key.kind) || tree::is_profile(key) || command::is_command(key)
}

fn is_node(key: &ObjectKey) -> bool {
    (key.group, key.kind) == ("", "Node")
}

/// Whether an object was made by this one, and not by another of its name.
pub fn is_made_by(object: &Value, owner: &Value) -> bool {
    let owners = at(object, "/metadata/ownerReferences").and_then(Value::as_array);
    let mut owners = owners.into_iter().flatten().filter(|reference| reference["controller"] == true);
    owners.any(|reference| reference["uid"] == owner["metadata"]["uid"])
}

/// Whether an object, or a template, says how many pods must be able to run.
fn says_gang(object: &Value) -> bool {
    let annotations = at(object, "/metadata/annotations");
    annotations.and_then(|annotations| of(annotations, GROUP_MIN_MEMBER)).is_some()
}

/// The object that made this one.
pub fn controller_of(object: &Value) -> Option<ObjectKey> {
    let owners = at(object, "/metadata/ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| of(owner, "controller").is_some_and(|known| known == true))?;
    let api_version = of(owner, "apiVersion")?.as_str()?;
    let (group, _) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = kinds::find(group, of(owner, "kind")?.as_str()?)?;
    let namespace = at(object, "/metadata/namespace").and_then(Value::as_str);
    Some(ObjectKey::new(kind, namespace, of(owner, "name")?.as_str()?))
}

/// As much as there is to say of an ordinary pod.
fn example(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}})
}

mod commands;
#[cfg(test)]
mod tests;
