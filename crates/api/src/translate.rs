//! From objects to facts: what the engine is told when an object is seen or gone.

use std::sync::Arc;

use quotient_engine::Fact;
use quotient_engine::device::{Allocation, ClaimKey};
use quotient_engine::fact::{GroupKey, Name, PodKey, PodSpec, SelectorFact};
use serde_json::Value;

use crate::crossquota::CrossQuota;
use crate::crossquota::caps::Caps;
use crate::cursor::{Cursor, Notes};
use crate::device;
use crate::elastic::consent::ALLOWED_COMPOSITES;
use crate::elastic::{self, pools};
use crate::gpu_memory::WHOLE_GPU_GB;
use crate::intern::Interner;
use crate::kinds::{KINDS, Kind};
use crate::object::{ObjectKey, key_of};
use crate::pod::known_specs::KnownSpecs;
use crate::problem::Problem;
use crate::selector::{label_selector, labels, map_selector};
use crate::tree::{self, forest};
use crate::volcano::priority::{self, Priorities};
use crate::volcano::{self, group};
use crate::{budget, gangs, node, pod, quota_kinds, volume};

/// What can be set about the translation.
#[derive(Debug, Clone, PartialEq)]
pub struct TranslatorSettings {
    /// The values of `spec.schedulerName` that make a pod ours. `None`: every pod is.
    pub scheduler_names: Option<Vec<String>>,
    /// Whether pods without spread constraints are spread by the Services and controllers that select
    /// them, as Kubernetes does by default.
    pub default_topology: bool,
    /// What a whole NVIDIA GPU counts in gigabytes of GPU memory.
    pub whole_gpu_gb: u32,
    /// The caps on what pods without GPUs hold on GPU nodes.
    pub cross_quota: Option<CrossQuota>,
    /// Whether a composite quota governs only namespaces that agree.
    pub needs_consent: bool,
}

impl Default for TranslatorSettings {
    fn default() -> Self {
        TranslatorSettings {
            scheduler_names: None,
            default_topology: true,
            whole_gpu_gb: WHOLE_GPU_GB,
            cross_quota: None,
            needs_consent: false,
        }
    }
}

/// What an object means for the engine, and what in it could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Translation {
    pub facts: Vec<Fact>,
    pub problems: Vec<Problem>,
    /// All that is wrong with other objects now, for those about which that may have changed: two quotas that claim one
    /// namespace depend on each other.
    pub elsewhere: Vec<(ObjectKey, Vec<Problem>)>,
}

/// Turns objects into facts. It remembers nothing about objects but equal parts it can share, and those whose meaning
/// depends on others: quotas of pools and trees, devices, groups that name a priority class.
#[derive(Debug, Clone, Default)]
pub struct Translator {
    settings: TranslatorSettings,
    interner: Interner,
    known_specs: KnownSpecs<Arc<PodSpec>>,
    pools: pools::Pools,
    forest: forest::Forest,
    devices: device::Book,
    priorities: Priorities,
    caps: Caps,
}

impl Translator {
    /// A translator with these settings.
    pub fn new(settings: TranslatorSettings) -> Self {
        let caps = Caps::new(settings.cross_quota.clone());
        let pools = pools::Pools::new(settings.needs_consent);
        Translator { settings, caps, pools, ..Translator::default() }
    }

    /// What there is to tell about an object that was seen, new or changed. Objects of kinds that mean
    /// nothing to the engine give no facts.
    pub fn upsert(&mut self, object: &Value) -> Translation {
        match key_of(object) {
            Ok(key) => self.upsert_as(&key, object),
            Err(problem) => Translation { problems: vec![problem], ..Translation::default() },
        }
    }

    /// The same for an object of which the key is known.
    pub fn upsert_as(&mut self, key: &ObjectKey, object: &Value) -> Translation {
        let notes = Notes::default();
        let root = Cursor::root(object, &notes);
        if elastic::is_elastic(key) {
            let declared = elastic::declared(&root, key, &mut self.interner);
            return translation(key, self.pools.seen(key, declared, problems(notes, key)));
        }
        if tree::is_tree(key) {
            let declared = tree::quota::fact(&root, key, &mut self.interner);
            return translation(key, self.forest.seen(key, declared, problems(notes, key)));
        }
        if device::is_device_kind(key.group, key.kind) {
            let Translator { devices, interner, caps, .. } = self;
            let facts = devices.seen(key, &root, &notes, interner, &mut |resource| caps.is_gpu(resource));
            return Translation { facts, problems: problems(notes, key), ..Translation::default() };
        }
        if priority::is_class(key.group, key.kind) {
            let facts = self.priorities.class_seen(&key.name, root.field("value").int());
            return Translation { facts, problems: problems(notes, key), ..Translation::default() };
        }
        let mut facts: Vec<Fact> = self.seen(key, &root, &notes).into_iter().collect();
        facts.extend(self.queue_of_namespace(key, Some(&root)));
        let agreed = self.agreed(key, Some(&root));
        facts.extend(agreed.facts);
        let elsewhere = agreed.problems.into_iter().collect();
        Translation { facts, problems: problems(notes, key), elsewhere }
    }

    /// What there is to tell about an object that is gone.
    pub fn remove(&mut self, key: &ObjectKey) -> Translation {
        if elastic::is_elastic(key) {
            return translation(key, self.pools.gone(key));
        }
        if tree::is_tree(key) {
            return translation(key, self.forest.gone(key));
        }
        if device::is_device_kind(key.group, key.kind) {
            let facts = self.devices.gone(key, &mut self.interner);
            return Translation { facts, ..Translation::default() };
        }
        if priority::is_class(key.group, key.kind) {
            return Translation { facts: self.priorities.class_seen(&key.name, None), ..Translation::default() };
        }
        self.priorities.group_gone(key);
        let mut facts: Vec<Fact> = self.gone(key).into_iter().collect();
        facts.extend(self.queue_of_namespace(key, None));
        let agreed = self.agreed(key, None);
        facts.extend(agreed.facts);
        Translation { facts, problems: Vec::new(), elsewhere: agreed.problems.into_iter().collect() }
    }

    /// What to write into the status of a claim that gets these devices, and its uid. `None` where it is not known.
    pub fn device_allocation(&self, claim: &ClaimKey, allocation: &Allocation, now: &str) -> Option<Value> {
        self.devices.allocation(claim, allocation, now)
    }

    /// The same for a claim that is yet to be made.
    pub fn new_allocation(&self, claim: &Value, allocation: &Allocation, now: &str) -> Value {
        device::write::allocation(&self.devices, claim, allocation, Some(now))
    }

    /// The uid of a claim on devices.
    pub fn device_claim_uid(&self, claim: &ClaimKey) -> Option<&str> {
        self.devices.uid(claim)
    }

    /// The queue of the pods of a namespace, where the object is one.
    fn queue_of_namespace(&mut self, key: &ObjectKey, namespace: Option<&Cursor<'_, '_>>) -> Option<Fact> {
        if (key.group, key.kind) != ("", "Namespace") {
            return None;
        }
        let queue = namespace.and_then(|root| {
            let metadata = root.field("metadata");
            metadata.field("annotations").field(volcano::QUEUE_NAME).non_empty_str()
        });
        let queue = queue.map(|queue| self.interner.name(queue));
        Some(Fact::QueueOfNamespace { namespace: self.interner.name(&key.name), queue })
    }

    /// Which composite quotas a namespace agrees to, where the object is one.
    fn agreed(&mut self, key: &ObjectKey, namespace: Option<&Cursor<'_, '_>>) -> pools::Outcome {
        if (key.group, key.kind) != ("", "Namespace") {
            return pools::Outcome::default();
        }
        let name = self.interner.name(&key.name);
        let metadata = namespace.map(|root| root.field("metadata"));
        let annotations = metadata.as_ref().map(|metadata| metadata.field("annotations"));
        let listed = annotations.as_ref().map(|annotations| annotations.field(ALLOWED_COMPOSITES));
        self.pools.agrees(&name, listed.as_ref().and_then(|listed| listed.str()))
    }

    fn seen(&mut self, key: &ObjectKey, root: &Cursor<'_, '_>, notes: &Notes) -> Option<Fact> {
        let Translator { settings, interner, known_specs, caps, priorities, .. } = self;
        if let Some(kind) = quota_kinds::find(key.group, key.kind) {
            return Some(Fact::from((kind.read)(root, key, interner)));
        }
        let name = &key.name;
        let fact = match (key.group, key.kind) {
            ("", "Pod") => {
                let ours = |scheduler: &str| {
                    settings.scheduler_names.as_ref().is_none_or(|names| names.iter().any(|name| name == scheduler))
                };
                let reading = pod::Reading { whole_gpu_gb: settings.whole_gpu_gb, interner, known: known_specs, caps };
                Fact::Pod(pod::pod(root, notes, key, ours, reading))
            }
            ("", "Node") => Fact::Node(node::node(root, name, interner, caps)),
            ("", "Namespace") => {
                let metadata = root.field("metadata");
                Fact::Namespace(interner.name(name), labels(&metadata.field("labels"), interner))
            }
            ("", "PersistentVolume") => Fact::Volume(volume::volume(root, name, interner)),
            ("", "PersistentVolumeClaim") => Fact::Claim(volume::claim(root, key, interner)),
            ("storage.k8s.io", "StorageClass") => Fact::StorageClass(volume::storage_class(root, name, interner)),
            ("storage.k8s.io", "CSINode") => Fact::AttachLimits(node::attach_limits(root, name, interner)),
            ("policy", "PodDisruptionBudget") => Fact::Budget(budget::budget(root, key, interner)),
            (volcano::SCHEDULING, volcano::POD_GROUP) => {
                let spec = root.field("spec");
                let class = spec.field("priorityClassName").non_empty_str().map(|class| interner.name(class));
                Fact::Group(priorities.group_seen(key, class, group::group(root, notes, key, interner)))
            }
            (_, gangs::POD_GROUP) => Fact::Group(gangs::group(root, notes, key, interner)?),
            kind if selects_pods(kind) && settings.default_topology => {
                let spec = root.field("spec");
                let at = spec.field("selector");
                // A Service and a ReplicationController select by a plain map, the others by a selector.
                let selector = match key.group {
                    "" => map_selector(&at, interner),
                    _ => label_selector(&at, interner),
                };
                let (namespace, object) = selector_key(key);
                match selector {
                    Some(selector) => Fact::Selector(SelectorFact { object, namespace, selector }),
                    None => Fact::SelectorGone { namespace, object },
                }
            }
            _ => return None,
        };
        Some(fact)
    }

    fn gone(&self, key: &ObjectKey) -> Option<Fact> {
        if quota_kinds::find(key.group, key.kind).is_some() {
            return Some(Fact::QuotaGone(pools::quota_key(key)));
        }
        let name = key.name.clone();
        let namespace = || key.namespace.clone().unwrap_or_default();
        let fact = match (key.group, key.kind) {
            ("", "Pod") => Fact::PodGone(PodKey { namespace: namespace(), name }),
            ("", "Node") => Fact::NodeGone(name),
            ("", "Namespace") => Fact::NamespaceGone(name),
            ("", "PersistentVolume") => Fact::VolumeGone(name),
            ("", "PersistentVolumeClaim") => Fact::ClaimGone { namespace: namespace(), name },
            ("storage.k8s.io", "StorageClass") => Fact::StorageClassGone(name),
            ("storage.k8s.io", "CSINode") => Fact::AttachLimitsGone(name),
            ("policy", "PodDisruptionBudget") => Fact::BudgetGone { namespace: namespace(), name },
            _ if gangs::is_group(key) => {
                Fact::GroupGone(GroupKey { api_group: key.group.into(), namespace: namespace(), name })
            }
            kind if selects_pods(kind) && self.settings.default_topology => {
                let (namespace, object) = selector_key(key);
                Fact::SelectorGone { namespace, object }
            }
            _ => return None,
        };
        Some(fact)
    }
}

/// The kinds of which the engine is told: what a live cluster has to be watched for.
pub fn told_kinds() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|kind| is_told(kind))
}

/// Whether the engine is told of a kind.
pub fn is_told(kind: &Kind) -> bool {
    let elastic = elastic::is_fair(kind.group).is_some() && matches!(kind.kind, elastic::PLAIN | elastic::COMPOSITE);
    let other = matches!(
        (kind.group, kind.kind),
        ("", "Pod" | "Node" | "Namespace" | "PersistentVolume" | "PersistentVolumeClaim")
            | ("storage.k8s.io", "StorageClass" | "CSINode")
            | ("policy", "PodDisruptionBudget")
            | (device::GROUP, _)
            | (tree::GROUP, tree::QUOTA)
    );
    let is_group = kind.kind == gangs::POD_GROUP && gangs::source_of(kind.group).is_some();
    elastic
        || other
        || is_group
        || priority::is_class(kind.group, kind.kind)
        || quota_kinds::find(kind.group, kind.kind).is_some()
        || selects_pods((kind.group, kind.kind))
}

/// What was noted, as problems of the object.
fn problems(notes: Notes, key: &ObjectKey) -> Vec<Problem> {
    notes.into_vec().into_iter().map(|note| Problem::from(note).of_object(key)).collect()
}

/// What a change of the quota `key` means.
fn translation(key: &ObjectKey, outcome: pools::Outcome) -> Translation {
    let pools::Outcome { facts, mut problems } = outcome;
    Translation { facts, problems: problems.remove(key).unwrap_or_default(), elsewhere: problems.into_iter().collect() }
}

/// Whether objects of a kind name a set of pods that is spread by default.
fn selects_pods((group, kind): (&str, &str)) -> bool {
    matches!((group, kind), ("", "Service" | "ReplicationController") | ("apps", "ReplicaSet" | "StatefulSet"))
}

/// The namespace and `Kind/name` of an object that names a set of pods.
fn selector_key(key: &ObjectKey) -> (Name, Name) {
    (key.namespace.clone().unwrap_or_default(), format!("{}/{}", key.kind, key.name).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_kind_that_gives_facts_is_one_that_is_watched() {
        let told: Vec<&Kind> = told_kinds().collect();
        for kind in KINDS {
            // Some give facts together: slices as pools, claims with their classes, priority classes with groups.
            if kind.group == device::GROUP || priority::is_class(kind.group, kind.kind) {
                assert!(told.contains(&kind), "{}", kind.kind);
                continue;
            }
            // Enough for every kind to be worth a fact.
            let object = json!({
                "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": "x", "namespace": "y"},
                "spec": {"namespaces": ["y"], "selector": {"matchLabels": {"a": "b"}, "a": "b"}},
            });
            let facts = Translator::default().upsert(&object).facts;
            assert_eq!(told.contains(&kind), !facts.is_empty(), "{}/{}: {facts:?}", kind.group, kind.kind);
        }
    }
}
