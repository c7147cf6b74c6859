//! The roots of all profiles together: which to write, which to delete, and what is wrong.
//!
//! A root that no profile asks for any more, because its profile is gone or names another quota, is deleted as soon as
//! nothing is below it. Until then it is kept as it is, and that is a problem: its total follows no nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::membership::{a_pod_of, children};
use super::profile::{Profile, root_key, tree_id};
use super::{GROUP, PROFILE, PROFILE_GROUP, QUOTA, annotation, keys, label, name};
use crate::admission::View;
use crate::conditions::Condition;
use crate::kinds;
use crate::object::{ObjectKey, key_of};
use crate::problem::Problem;
use crate::time::parse_timestamp;

/// What there is to do.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// Each profile, in order of age.
    pub profiles: Vec<Wanted>,
    /// Roots that nobody asks for and that nothing is below.
    pub obsolete: Vec<ObjectKey>,
    /// Roots that nobody asks for and that cannot go, and why.
    pub kept: Vec<(ObjectKey, Problem)>,
}

/// What there is to do for one profile.
#[derive(Debug, PartialEq)]
pub struct Wanted {
    pub profile: ObjectKey,
    /// The root as it should be, if it is not so already.
    pub write: Option<Value>,
    pub tree: String,
    /// How many nodes it selects.
    pub nodes: usize,
    /// What is wrong with the profile.
    pub problems: Vec<Problem>,
}

impl Wanted {
    /// The profile's condition; `refused` is why its root could not be written, if so.
    pub fn condition(&self, refused: Option<&str>) -> Condition {
        let (holds, reason, message) = match (refused, self.problems.first()) {
            (Some(refused), _) => (false, "RootRefused", refused.to_string()),
            (None, Some(problem)) => {
                (false, "Problem", Problem { object: None, file: None, ..problem.clone() }.to_string())
            }
            (None, None) if self.nodes == 0 => (true, "NoNodes", "the selector selects no node".to_string()),
            (None, None) => (true, "RootIsCurrent", "the root of the tree says what the nodes hold".to_string()),
        };
        Condition { kind: "Ready", holds, reason, message }
    }
}

/// What there is to do now. An older profile comes before a younger one where both ask for the same.
pub fn plan(view: &dyn View) -> Plan {
    let mut objects: Vec<(i64, ObjectKey, &Value)> = view
        .list(PROFILE_GROUP, PROFILE, None)
        .into_iter()
        .filter_map(|profile| Some((created(profile), key_of(profile).ok()?, profile)))
        .collect();
    objects.sort_by(|(created, key, _), (other_created, other, _)| (created, key).cmp(&(other_created, other)));
    let nodes = if objects.is_empty() { Vec::new() } else { view.list("", "Node", None) };
    let mut plan = Plan::default();
    let mut roots: BTreeMap<String, &ObjectKey> = BTreeMap::new();
    let mut trees: BTreeMap<String, &ObjectKey> = BTreeMap::new();
    let mut selected_by: BTreeMap<&str, &ObjectKey> = BTreeMap::new();
    for (_, key, object) in &objects {
        let profile = Profile::read(object);
        let mut problems = profile.problems().to_vec();
        let selected: Vec<&Value> = nodes.iter().copied().filter(|node| profile.selects(node)).collect();
        problems.extend(overlap(key, &selected, &mut selected_by));
        let tree = tree_id(object);
        let root = root_key(object);
        let taken = root.as_ref().and_then(|root| {
            let other = *roots.entry(root.name.to_string()).or_insert(key);
            (other != key).then(|| ("spec.quotaName".to_string(), Value::from(&*root.name), other))
        });
        let taken = taken.or_else(|| {
            let other = *trees.entry(tree.clone()).or_insert(key);
            (other != key).then(|| (format!("metadata.labels[{:?}]", keys::TREE_ID), Value::from(tree.as_str()), other))
        });
        let write = match &taken {
            Some((field, value, other)) => {
                let message = format!("is that of the older {other}: expected a tree of its own for each profile");
                problems.push(Problem::new(message).of_object(key).at_field(field.as_str()).with_value(value));
                None
            }
            None => root.and_then(|root| {
                let existing = view.get(&root);
                profile.root(&selected, existing).filter(|wanted| existing != Some(wanted))
            }),
        };
        plan.profiles.push(Wanted { profile: key.clone(), write, tree, nodes: selected.len(), problems });
    }
    let asked_for: BTreeSet<ObjectKey> = objects.iter().filter_map(|(_, _, profile)| root_key(profile)).collect();
    for quota in view.list(GROUP, QUOTA, None) {
        let Ok(key) = key_of(quota) else { continue };
        if annotation(quota, keys::LABELS_OF_PROFILE).is_none() || asked_for.contains(&key) {
            continue;
        }
        match in_the_way(quota, view) {
            None => plan.obsolete.push(key),
            Some(what) => plan.kept.push((key.clone(), left_behind(quota, &key, &what, view))),
        }
    }
    plan
}

/// Nodes that an older profile selects too. One is named for each such profile.
fn overlap<'a>(
    key: &'a ObjectKey,
    selected: &[&'a Value],
    selected_by: &mut BTreeMap<&'a str, &'a ObjectKey>,
) -> Vec<Problem> {
    let mut shared: BTreeMap<&ObjectKey, (&str, usize)> = BTreeMap::new();
    for node in selected {
        let node = name(node);
        let first = *selected_by.entry(node).or_insert(key);
        if first != key {
            shared.entry(first).or_insert((node, 0)).1 += 1;
        }
    }
    let problem = |(other, (node, count)): (&ObjectKey, (&str, usize))| {
        let nodes = match count {
            1 => format!("node {node}"),
            _ => format!("node {node} and {} more", count - 1),
        };
        let message =
            format!("selects {nodes}, as the older {other} does: both trees count them, expected each in one tree");
        Problem::new(message).of_object(key).at_field("spec.nodeSelector")
    };
    shared.into_iter().map(problem).collect()
}

/// What is below a root, so that it cannot go.
fn in_the_way(root: &Value, view: &dyn View) -> Option<String> {
    let below = children(view, name(root));
    if let Some(child) = below.first().and_then(|child| key_of(child).ok()) {
        return Some(format!("{child} is below it"));
    }
    a_pod_of(view, name(root)).map(|pod| format!("{pod} is in it"))
}

fn left_behind(root: &Value, key: &ObjectKey, in_the_way: &str, view: &dyn View) -> Problem {
    let profile = label(root, keys::PROFILE).unwrap_or_default();
    let kind = kinds::find(PROFILE_GROUP, PROFILE);
    let profile_key = kind.map(|kind| ObjectKey::new(kind, key.namespace.as_deref(), profile));
    let why = match profile_key.as_ref().and_then(|key| view.get(key)) {
        Some(_) => format!("{PROFILE} {profile} names another quota"),
        None => format!("{PROFILE} {profile} is gone"),
    };
    let message = format!(
        "{why} and {in_the_way}: the root is kept, and its total follows no nodes; expected nothing below it, or the profile"
    );
    let field = format!("metadata.labels[{:?}]", keys::PROFILE);
    Problem::new(message).of_object(key).at_field(field).with_value(&Value::from(profile))
}

/// When an object was made, in microseconds; what does not say so is taken to be the youngest.
fn created(object: &Value) -> i64 {
    let text = object.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
    text.and_then(|text| parse_timestamp(text).ok()).unwrap_or(i64::MAX)
}
