//! What a profile asks for: the root of a tree that shares the nodes that it selects.
//!
//! This is one pure function of the profile, its nodes and the root as it is, so that everybody who keeps roots current
//! (the live program, the simulator, `lint`) wants the same of them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::ratio::Ratio;
use super::{GROUP, QUOTA, ROOT, annotation, keys, label, name};
use crate::cursor::{Cursor, Notes};
use crate::intern::Interner;
use crate::kinds;
use crate::object::{ObjectKey, key_of};
use crate::problem::Problem;
use crate::selector::{label_selector, labels, selects};

/// The resources that a root governs if its profile does not say so.
const RESOURCE_KEYS: [&str; 2] = ["cpu", "memory"];

/// The max of a root: more than any node pool has, and small enough that as many cpus can be counted in thousandths.
const UNLIMITED: &str = "4611686018427387";

/// A number that stands for a text (FNV-1a, 64 bits).
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The id of the tree whose root belongs to that namespace and name, if nothing else is said.
pub(crate) fn derived_tree_id(namespace: &str, name: &str) -> String {
    fingerprint(&format!("{namespace}/{name}")).to_string()
}

/// The id of the profile's tree: what its own label presets, or a number that stands for its namespace and name.
pub fn tree_id(profile: &Value) -> String {
    let preset = label(profile, keys::TREE_ID).map(str::to_string);
    preset.unwrap_or_else(|| derived_tree_id(namespace(profile), name(profile)))
}

fn namespace(profile: &Value) -> &str {
    profile.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default()
}

/// The root that the profile asks for; `None` where it names none.
pub fn root_key(profile: &Value) -> Option<ObjectKey> {
    let quota = profile.pointer("/spec/quotaName").and_then(Value::as_str).filter(|name| !name.is_empty())?;
    let kind = kinds::find(GROUP, QUOTA)?;
    let namespace = key_of(profile).ok()?.namespace?;
    Some(ObjectKey::new(kind, Some(&namespace), quota))
}

/// A profile as it can be read, and what of it cannot.
pub struct Profile<'a> {
    object: &'a Value,
    ratio: Ratio,
    resource_keys: Vec<String>,
    /// What it selects nodes by, if that can be read.
    selector: Option<quotient_engine::fact::Selector>,
    problems: Vec<Problem>,
}

impl<'a> Profile<'a> {
    /// Reads a profile. A ratio or resource keys that cannot be read count as not given; a selector that cannot be
    /// read selects nothing.
    pub fn read(object: &'a Value) -> Self {
        let notes = Notes::default();
        let root = Cursor::root(object, &notes);
        let (metadata, spec) = (root.field("metadata"), root.field("spec"));
        let ratio_at = spec.field("resourceRatio");
        let ratio = match ratio_at.non_empty_str().map(str::parse) {
            Some(Ok(ratio)) => ratio,
            Some(Err(error)) => {
                let error: super::ratio::NoRatio = error;
                ratio_at.note(error.to_string());
                Ratio::ALL
            }
            None => Ratio::ALL,
        };
        let annotations = metadata.field("annotations");
        let resource_keys = annotation::names(&annotations.field(keys::RESOURCE_KEYS));
        let selector_at = spec.field("nodeSelector");
        if !selector_at.exists() {
            spec.note_missing("nodeSelector", "without it the tree has no nodes");
        }
        if spec.field("quotaName").non_empty_str().is_none() {
            spec.note_missing("quotaName", "the name of the root of the tree");
        }
        let selector = label_selector(&selector_at, &mut Interner::default());
        let problem = |note| match key_of(object) {
            Ok(key) => Problem::from(note).of_object(key),
            Err(_) => Problem::from(note),
        };
        Profile {
            object,
            ratio,
            resource_keys: resource_keys.unwrap_or_else(|| RESOURCE_KEYS.map(str::to_string).to_vec()),
            selector,
            problems: notes.into_vec().into_iter().map(problem).collect(),
        }
    }

    /// What of it cannot be read.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Whether the profile's tree has this node.
    pub fn selects(&self, node: &Value) -> bool {
        let notes = Notes::default();
        let root = Cursor::root(node, &notes);
        let metadata = root.field("metadata");
        let labels = labels(&metadata.field("labels"), &mut Interner::default());
        self.selector.as_ref().is_some_and(|selector| selects(selector, &labels))
    }

    /// The root as it should be, of the profile's nodes and of the root as it is. What the profile does not speak of
    /// stays as it is; a label that the profile gave it before and gives no longer is taken off.
    pub fn root(&self, nodes: &[&Value], existing: Option<&Value>) -> Option<Value> {
        let key = root_key(self.object)?;
        let mut root = existing.cloned().unwrap_or_else(|| {
            let api_version = key.kind_entry().map(kinds::Kind::api_version).unwrap_or_default();
            let metadata = json!({"name": *key.name, "namespace": key.namespace.as_deref()});
            json!({"apiVersion": api_version, "kind": QUOTA, "metadata": metadata})
        });
        let (total, unschedulable) = (self.share(nodes.iter().copied()), self.share(unschedulable(nodes)));
        let given = self.object.pointer("/spec/quotaLabels").and_then(Value::as_object);
        let given: BTreeMap<&str, &Value> = given.into_iter().flatten().map(|(key, v)| (key.as_str(), v)).collect();
        let before = annotation(&root, keys::LABELS_OF_PROFILE).and_then(annotation::parsed_names).unwrap_or_default();
        let own = [
            (keys::PARENT, Value::from(ROOT)),
            (keys::IS_ROOT, Value::from("true")),
            (keys::PROFILE, Value::from(name(self.object))),
            (keys::TREE_ID, Value::from(tree_id(self.object))),
        ];
        let labels = map_at(&mut root, &["metadata", "labels"])?;
        for key in before.iter().filter(|key| !given.contains_key(key.as_str())) {
            labels.shift_remove(key);
        }
        for (key, value) in &given {
            labels.insert((*key).to_string(), (*value).clone());
        }
        for (key, value) in own {
            labels.insert(key.to_string(), value);
        }
        let listed: BTreeSet<&str> = given.keys().copied().collect();
        let annotations = map_at(&mut root, &["metadata", "annotations"])?;
        for (key, value) in [
            (keys::TOTAL_RESOURCE, written(&total)),
            (keys::UNSCHEDULABLE_RESOURCE, written(&unschedulable)),
            (keys::LABELS_OF_PROFILE, serde_json::to_string(&listed).unwrap_or_default()),
        ] {
            annotations.insert(key.to_string(), Value::from(value));
        }
        let min = |resource: &String| {
            let amount = total.get(resource).copied().unwrap_or(0);
            (resource.clone(), Value::from(quotient_engine::quantity::canonical(resource, amount)))
        };
        let min: Map<String, Value> = self.resource_keys.iter().map(min).collect();
        let max = self.resource_keys.iter().map(|resource| (resource.clone(), Value::from(UNLIMITED)));
        let max: Map<String, Value> = max.collect();
        let spec = map_at(&mut root, &["spec"])?;
        spec.insert("min".to_string(), Value::Object(min));
        spec.insert("max".to_string(), Value::Object(max));
        Some(root)
    }

    /// The ratio's part of what these nodes hold together, by resource, rounded down.
    fn share<'n>(&self, nodes: impl IntoIterator<Item = &'n Value>) -> BTreeMap<String, i128> {
        let mut sums: BTreeMap<String, i128> = BTreeMap::new();
        for node in nodes {
            let notes = Notes::default();
            let root = Cursor::root(node, &notes);
            let status = root.field("status");
            let (allocatable, capacity) = (status.field("allocatable"), status.field("capacity"));
            let held = if allocatable.exists() { allocatable } else { capacity };
            for (resource, value) in held.entries() {
                if let Some(amount) = value.amount(resource) {
                    *sums.entry(resource.to_string()).or_default() += i128::from(amount);
                }
            }
        }
        sums.values_mut().for_each(|sum| *sum = self.ratio.of(*sum));
        sums
    }
}

/// Of these nodes, those that take no pods: cordoned or not ready. One that says nothing about itself is ready.
fn unschedulable<'n>(nodes: &[&'n Value]) -> impl Iterator<Item = &'n Value> {
    nodes.iter().copied().filter(|node| {
        let conditions = node.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
        let is_ready = ready.next().is_none_or(|condition| condition["status"] == "True");
        node.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) || !is_ready
    })
}

fn written(amounts: &BTreeMap<String, i128>) -> String {
    annotation::written(amounts.iter().map(|(resource, amount)| (resource.as_str(), *amount)))
}

/// The map at that path, made where nothing stands there. `None` where something else does.
fn map_at<'a>(object: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    let mut at = object;
    for name in path {
        let entry = at.as_object_mut()?.entry(*name).or_insert(Value::Null);
        if entry.is_null() {
            *entry = Value::Object(Map::new());
        }
        at = entry;
    }
    at.as_object_mut()
}
