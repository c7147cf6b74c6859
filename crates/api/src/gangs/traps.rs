//! Groups and pods that are let in and still do not mean what they seem to.

use std::collections::BTreeMap;

use quotient_engine::fact::Amount;
use quotient_engine::quantity::canonical;
use serde_json::Value;

use super::koordinator::MODE;
use super::{coscheduling, koordinator, named_by, of_pod};
use crate::cursor::{Cursor, Notes};
use crate::intern::Interner;
use crate::object::{ObjectKey, key_of};
use crate::pod::requests::requests;
use crate::pod::usage::unit;
use crate::problem::Problem;
use crate::volcano::annotation;

/// What is wrong with these objects, object by object in the order given.
pub fn traps(objects: &[&Value]) -> Vec<(ObjectKey, Problem)> {
    let objects: Vec<(ObjectKey, &Value)> =
        objects.iter().filter_map(|object| Some((key_of(object).ok()?, *object))).collect();
    let mut found = Vec::new();
    let mut add = |key: &ObjectKey, field: String, message: String| {
        found.push((key.clone(), Problem::new(message).of_object(key).at_field(field)));
    };
    for (key, object) in &objects {
        if is_of_others(key) {
            group(key, object, &objects, &mut add);
        } else if let Some((field, pod)) = pod_of(key, object) {
            several_groups(key, field, pod, &mut add);
        }
    }
    found
}

fn is_of_others(key: &ObjectKey) -> bool {
    key.kind == super::POD_GROUP && matches!(key.group, coscheduling::GROUP | koordinator::GROUP)
}

/// A pod, or the template of one, with the field that it is.
fn pod_of<'a>(key: &ObjectKey, object: &'a Value) -> Option<(&'static str, &'a Value)> {
    match (key.group, key.kind) {
        ("", "Pod") => Some(("metadata", object)),
        ("apps" | "batch", _) | ("", "ReplicationController") => {
            Some(("spec.template.metadata", object.pointer("/spec/template")?))
        }
        _ => None,
    }
}

fn several_groups(key: &ObjectKey, field: &str, pod: &Value, add: &mut impl FnMut(&ObjectKey, String, String)) {
    let named: Vec<String> = named_by(pod).map(|(source, name)| format!("{name} of {}", source.name)).collect();
    if let [first, _, ..] = &named[..] {
        let message = format!("names several groups, {}: {first} counts", named.join(", "));
        add(key, field.to_string(), message);
    }
    mode(key, field, pod, add);
}

/// Pods that hold a place for the others are what the other mode is about; here nobody does.
fn mode(key: &ObjectKey, field: &str, object: &Value, add: &mut impl FnMut(&ObjectKey, String, String)) {
    if annotation(object, MODE) == Some("NonStrict") {
        let message = "NonStrict: has no effect, no pod holds a place while others of its gang have none".to_string();
        add(key, format!("{field}.annotations[{MODE:?}]"), message);
    }
}

/// Resources that a group names, beside what the pods of its minimum ask for.
fn group(
    key: &ObjectKey,
    group: &Value,
    objects: &[(ObjectKey, &Value)],
    add: &mut impl FnMut(&ObjectKey, String, String),
) {
    mode(key, "metadata", group, add);
    let members = objects
        .iter()
        .filter(|(pod, object)| (pod.group, pod.kind) == ("", "Pod") && of_pod(pod, object).as_ref() == Some(key));
    let min = group.pointer("/spec/minMember").and_then(Value::as_u64).unwrap_or(0);
    let min = usize::try_from(min).unwrap_or(usize::MAX);
    let (notes, mut interner) = (Notes::default(), Interner::default());
    let mut asked: BTreeMap<String, i128> = BTreeMap::new();
    for (_, pod) in members.take(min) {
        let (requested, _) = requests(&Cursor::root(pod, &notes).field("spec"), None, &mut interner);
        for (resource, amount) in requested.iter() {
            *asked.entry(resource.to_string()).or_default() += i128::from(*amount);
        }
    }
    let root = Cursor::root(group, &notes);
    for (resource, value) in root.field("spec").field("minResources").entries() {
        let (Some(named), Some(needed)) = (value.amount(unit(resource)), asked.get(resource)) else { continue };
        let named: Amount = named;
        if i128::from(named) < *needed {
            let message = format!(
                "{}: less than the {} that the pods of its minimum request together",
                canonical(resource, named.into()),
                canonical(resource, *needed)
            );
            add(key, format!("spec.minResources[{resource:?}]"), message);
        }
    }
}
