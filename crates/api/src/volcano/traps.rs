//! Queues and cards that are let in and still do not do what they say.

use std::collections::{BTreeMap, BTreeSet};

use quotient_engine::fact::{Amount, Amounts, Name, NodeCard};
use quotient_engine::quantity::canonical;
use serde_json::Value;

use super::job::declared::Declared;
use super::queue::parent_of;
use super::{
    CARD_NAME, CARD_QUOTA, CARD_REQUEST, DEFAULT_QUEUE, ROOT_QUEUE, annotation, cards, discovery, is_job, is_queue,
};
use crate::cursor::{Cursor, Notes};
use crate::elastic::capacity::{Held, Sums};
use crate::intern::Interner;
use crate::object::{ObjectKey, key_of};
use crate::problem::Problem;

/// What is wrong with these objects on these nodes, object by object in the order given. Where there are no nodes, what
/// they hold is not looked at.
pub fn traps(objects: &[&Value], nodes: &[&Value]) -> Vec<(ObjectKey, Problem)> {
    let objects: Vec<(ObjectKey, &Value)> =
        objects.iter().filter_map(|object| Some((key_of(object).ok()?, *object))).collect();
    let queues: Vec<(&ObjectKey, &Value)> =
        objects.iter().filter(|(key, _)| is_queue(key)).map(|(key, queue)| (key, *queue)).collect();
    let mut found = Found(Vec::new());
    let held = (!nodes.is_empty()).then(|| Held::by(nodes, 0));
    let cards = Cards::of(nodes);
    let mut guaranteed = Sums::default();
    let top = || queues.iter().filter(|(_, queue)| parent_of(queue) == Some(ROOT_QUEUE));
    top().for_each(|(_, queue)| guaranteed.add(queue.pointer("/spec/guarantee/resource")));
    let mut told: BTreeSet<String> = BTreeSet::new();
    for (key, object) in &objects {
        if is_queue(key) {
            if let Some(held) = &held {
                promises(
                    key,
                    object,
                    &|name| held.amount(name).max(cards.count(name)),
                    &guaranteed,
                    &mut told,
                    &mut found,
                );
            }
            effect(key, object, &queues, &mut found);
        }
        if !nodes.is_empty() {
            named_cards(key, object, &cards, &mut found);
        }
    }
    found.0
}

struct Found(Vec<(ObjectKey, Problem)>);

impl Found {
    fn add(&mut self, key: &ObjectKey, field: String, value: &Value, message: String) {
        self.0.push((key.clone(), Problem::new(message).of_object(key).at_field(field).with_value(value)));
    }
}

/// Guarantees and what is deserved, beside what the nodes hold. Of guarantees that are too much together, the first
/// queue that has one of the resource is named.
fn promises(
    key: &ObjectKey,
    queue: &Value,
    held: &dyn Fn(&str) -> i128,
    guaranteed: &Sums,
    told: &mut BTreeSet<String>,
    found: &mut Found,
) {
    for (part, word) in [("guarantee.resource", "guarantee"), ("deserved", "deserved")] {
        let amounts = Sums::of(queue.pointer(&format!("/spec/{}", part.replace('.', "/"))));
        for (resource, amount) in amounts.iter() {
            let there = held(resource);
            let field = match resource.contains(['.', '/']) {
                true => format!("spec.{part}[{resource:?}]"),
                false => format!("spec.{part}.{resource}"),
            };
            let value = Value::from(canonical(resource, amount));
            if amount > there {
                let message = match there {
                    0 => format!("no node has {resource}: this {word} can never be had"),
                    _ => {
                        format!("all nodes together hold {}: this {word} can never be had", canonical(resource, there))
                    }
                };
                found.add(key, field, &value, message);
            } else if word == "guarantee" && guaranteed.get(resource) > there && told.insert(resource.to_string()) {
                let message = format!(
                    "the guarantees of all queues below {ROOT_QUEUE} sum up to {} of {resource}, and the nodes hold {}: \
                     not all of them can be kept",
                    canonical(resource, guaranteed.get(resource)),
                    canonical(resource, there)
                );
                found.add(key, field, &value, message);
            }
        }
    }
}

/// Settings that mean nothing as they stand.
fn effect(key: &ObjectKey, queue: &Value, queues: &[(&ObjectKey, &Value)], found: &mut Found) {
    let others: Vec<&Value> = queues
        .iter()
        .filter(|(other, _)| *other != key && *other.name != *ROOT_QUEUE)
        .map(|(_, queue)| *queue)
        .collect();
    let is_kept = |queue: &&Value| queue.pointer("/spec/reclaimable") == Some(&Value::Bool(false));
    let deserves = queue.pointer("/spec/deserved").filter(|map| map.as_object().is_some_and(|map| !map.is_empty()));
    if let Some(deserved) = deserves.filter(|_| !others.is_empty() && others.iter().all(is_kept)) {
        let message = "nothing can be taken back for it: no other queue is reclaimable".to_string();
        found.add(key, "spec.deserved".to_string(), deserved, message);
    }
    let weight = queue.pointer("/spec/weight").filter(|weight| weight.as_i64().is_some_and(|weight| weight > 1));
    if let Some(weight) = weight {
        let message = "has no effect: what a queue may claim is spec.deserved".to_string();
        found.add(key, "spec.weight".to_string(), weight, message);
    }
    let is_parent = others.iter().any(|other| parent_of(other) == Some(&*key.name));
    let is_standing = matches!(&*key.name, ROOT_QUEUE | DEFAULT_QUEUE);
    if !is_parent && !is_standing && !is_limited(queue, queues) {
        let message = format!(
            "missing, and so is {CARD_QUOTA}, here and above: the queue limits nothing, its pods may hold whatever is free"
        );
        let problem = Problem::new(message).of_object(key).at_field("spec.capability");
        found.0.push((key.clone(), problem));
    }
}

/// Whether a queue or one above it limits anything.
fn is_limited(queue: &Value, queues: &[(&ObjectKey, &Value)]) -> bool {
    let limits = |queue: &Value| {
        let capability = queue.pointer("/spec/capability").and_then(Value::as_object);
        capability.is_some_and(|map| !map.is_empty()) || annotation(queue, CARD_QUOTA).is_some()
    };
    let mut at = Some(queue);
    // A chain is as long as there are queues, if it is not a circle.
    for _ in 0..=queues.len() {
        let Some(queue) = at else { return false };
        if limits(queue) {
            return true;
        }
        let parent = parent_of(queue);
        at = queues.iter().find(|(key, _)| Some(&*key.name) == parent).map(|(_, queue)| *queue);
    }
    false
}

/// The cards that the nodes have.
struct Cards {
    counts: BTreeMap<String, i128>,
}

impl Cards {
    fn of(nodes: &[&Value]) -> Self {
        let mut counts: BTreeMap<String, i128> = BTreeMap::new();
        for node in nodes {
            let notes = Notes::default();
            let root = Cursor::root(node, &notes);
            let allocatable = root.field("status").field("allocatable").entries().fold(BTreeMap::new(), add_amount);
            let allocatable: Amounts = allocatable.into_iter().collect();
            let metadata = root.field("metadata");
            let cards = discovery::cards(&metadata.field("labels"), &allocatable, &mut Interner::default());
            for NodeCard { name, resource } in cards {
                *counts.entry(name.to_string()).or_default() += i128::from(allocatable.get(&resource));
            }
        }
        Cards { counts }
    }

    /// How many of a card the nodes have.
    fn count(&self, name: &str) -> i128 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// What is wrong with a name, if no node has such a card.
    fn lacks(&self, name: &str) -> Option<String> {
        if self.counts.contains_key(name) {
            return None;
        }
        Some(match self.counts.keys().filter_map(|known| Some((distance(name, known)?, known))).min() {
            Some((_, near)) => format!("no node has a card {name:?}: did you mean {near:?}?"),
            None => format!("no node has a card {name:?}"),
        })
    }
}

fn add_amount(
    mut amounts: BTreeMap<Name, Amount>,
    (resource, value): (&str, Cursor<'_, '_>),
) -> BTreeMap<Name, Amount> {
    amounts.extend(value.amount(resource).map(|amount| (resource.into(), amount)));
    amounts
}

/// Names of cards, wherever an object has them.
fn named_cards(key: &ObjectKey, object: &Value, cards: &Cards, found: &mut Found) {
    let field = |prefix: &str, name: &str| format!("{prefix}metadata.annotations[{name:?}]");
    if let Some(text) = annotation(object, CARD_QUOTA).filter(|_| is_queue(key)) {
        for (name, _) in cards::readable_quota(text).iter().filter(|(_, count)| *count > 0) {
            if let Some(message) = cards.lacks(name) {
                found.add(key, field("", CARD_QUOTA), &Value::from(name.as_str()), message);
            }
        }
    }
    if let Some(text) = annotation(object, CARD_REQUEST) {
        for (name, _) in cards::readable_quota(text) {
            alternatives(key, &field("", CARD_REQUEST), &name, cards, found);
        }
    }
    let mut templates = vec![(String::new(), object), ("spec.template.".to_string(), &object["spec"]["template"])];
    let declared;
    if is_job(key) {
        declared = Declared::of(object);
        let of_tasks = declared.tasks.iter().enumerate();
        templates.extend(of_tasks.map(|(index, task)| (format!("spec.tasks[{index}].template."), task.template)));
    }
    for (prefix, template) in templates {
        if let Some(text) = annotation(template, CARD_NAME) {
            alternatives(key, &field(&prefix, CARD_NAME), text, cards, found);
        }
    }
}

fn alternatives(key: &ObjectKey, field: &str, text: &str, cards: &Cards, found: &mut Found) {
    for name in text.split('|').map(str::trim).filter(|name| !name.is_empty()) {
        if let Some(message) = cards.lacks(name) {
            found.add(key, field.to_string(), &Value::from(text), message);
        }
    }
}

/// How far two names are from each other in letters and digits, if they are near enough to be mistaken.
fn distance(a: &str, b: &str) -> Option<usize> {
    let plain = |text: &str| -> Vec<char> {
        text.chars().filter(|c| c.is_ascii_alphanumeric()).map(|c| c.to_ascii_lowercase()).collect()
    };
    let (a, b) = (plain(a), plain(b));
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = before + usize::from(x != y);
            before = row[j + 1];
            row[j + 1] = changed.min(before + 1).min(row[j] + 1);
        }
    }
    // A third of a name that is otherwise another is another name.
    row.last().copied().filter(|distance| *distance <= 2 || distance * 4 <= a.len().min(b.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_near() {
        assert_eq!(distance("NVIDIA-A100-80GB", "nvidia_a100_80gb"), Some(0));
        assert_eq!(distance("NVIDIA-A100-80G", "NVIDIA-A100-80GB"), Some(1));
        assert_eq!(distance("NVIDIA-A100-40GB", "NVIDIA-A100-80GB"), Some(1));
        assert_eq!(distance("Tesla-T4", "NVIDIA-A100-80GB"), None);
    }
}
