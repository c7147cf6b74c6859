//! Queues: amounts that make sense, a tree that is one, and promises that the queue above can keep.
//!
//! What an update leaves as it was is not held against it, so that a queue that got in by another way can be mended.

use std::collections::BTreeMap;

use quotient_engine::quantity::Quantity;
use serde_json::{Map, Value};

use super::{Context, Operation, View};
use crate::cursor::Cursor;
use crate::elastic::capacity::Sums;
use crate::field;
use crate::object::ObjectKey;
use crate::volcano::queue::parent_of;
use crate::volcano::{DEFAULT_QUEUE, GROUP_NAMES, QUEUE, QUEUE_NAME, ROOT_QUEUE, SCHEDULING, annotation, queue_key};
use quotient_engine::quantity::canonical;

/// The deepest level. A queue right below the root has depth 1.
const DEPTH_MAX: usize = 5;

/// Checks a Queue.
pub(crate) fn check(root: &Cursor<'_, '_>, context: &Context<'_>) {
    let spec = root.field("spec");
    check_amounts(&spec);
    check_numbers(&spec, root);
    let Some(queue) = root.value() else { return };
    let changed = |part: &str| context.old.is_none_or(|old| old.pointer(part) != queue.pointer(part));
    if context.operation == Operation::Update && !changed("/spec") {
        return;
    }
    let queues = Queues::of(context);
    let at = spec.field("parent");
    match (&*context.key.name, at.non_empty_str()) {
        (ROOT_QUEUE, Some(_)) => return at.note(format!("{ROOT_QUEUE} has no queue above it")),
        (ROOT_QUEUE, None) => {}
        (_, None | Some(ROOT_QUEUE)) => {}
        (_, Some(parent)) => {
            if changed("/spec/parent") && !check_parent(&at, parent, &queues, context) {
                return;
            }
        }
    }
    check_depth(&at, queue, &queues, context.key);
    check_within_ancestors(&spec, queue, &queues);
    check_siblings(&spec, queue, &queues, context.key);
    check_children(&spec, &queues, context.key);
}

/// Amounts can be counted and are not below 0, and guarantee ≤ deserved ≤ capability where both name a resource.
fn check_amounts(spec: &Cursor<'_, '_>) {
    let guarantee = spec.field("guarantee");
    let (capability, deserved, guarantee) =
        (spec.field("capability"), spec.field("deserved"), guarantee.field("resource"));
    for at in [&capability, &deserved, &guarantee] {
        for (resource, value) in at.entries() {
            // A card's name has characters that a resource's has not.
            if resource.is_empty() || resource.contains(|c: char| c.is_whitespace() || c.is_control()) {
                value.note(format!("{resource:?} is no name of a resource or card"));
            }
            value.amount(resource);
        }
    }
    for (low, high, word, above) in [
        (&deserved, &capability, "deserved", "capability"),
        (&guarantee, &deserved, "guarantee", "deserved"),
        (&guarantee, &capability, "guarantee", "capability"),
    ] {
        for (resource, value) in low.entries() {
            let (Some(low), Some(high)) = (readable(&value), readable(&high.field(resource))) else { continue };
            if low > high {
                value.note(format!("{word} must not be more than {above}, which is {high}"));
            }
        }
    }
}

/// The quantity at `at`; whether it is one was said already.
fn readable(at: &Cursor<'_, '_>) -> Option<Quantity> {
    match at.value()? {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

fn check_numbers(spec: &Cursor<'_, '_>, root: &Cursor<'_, '_>) {
    let weight = spec.field("weight");
    if weight.int::<i64>().is_some_and(|weight| !(1..=65_535).contains(&weight)) {
        weight.note("expected a weight from 1 to 65535");
    }
    let priority = spec.field("priority");
    if priority.int::<i32>().is_some_and(|priority| priority < 0) {
        priority.note("must not be negative");
    }
    spec.field("reclaimable").bool();
    spec.field("parent").str();
    let status = root.field("status");
    let state = status.field("state");
    if state.non_empty_str().is_some_and(|state| !["Open", "Closed", "Closing", "Unknown"].contains(&state)) {
        state.note("expected Open, Closed, Closing or Unknown");
    }
}

/// All queues but the one on its way in, with their names and the queues above them.
struct Queues<'a> {
    view: &'a dyn View,
    own: &'a str,
    all: Vec<Listed<'a>>,
}

struct Listed<'a> {
    name: &'a str,
    parent: Option<&'a str>,
    queue: &'a Value,
}

impl<'a> Queues<'a> {
    fn of(context: &Context<'a>) -> Self {
        let own = &*context.key.name;
        let listed = |queue: &'a Value| {
            let name = field::at(queue, "/metadata/name")?.as_str().filter(|name| *name != own)?;
            Some(Listed { name, parent: parent_of(queue), queue })
        };
        let all = context.view.list(SCHEDULING, QUEUE, None).into_iter().filter_map(listed).collect();
        Queues { view: context.view, own, all }
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        if name == self.own { None } else { self.view.get(&queue_key(name)) }
    }

    /// The queues above this one, the nearest first, without the root. A circle is walked once.
    fn above(&self, queue: &'a Value) -> Vec<&'a Value> {
        let mut above = Vec::new();
        let mut at = queue;
        while let Some(parent) = parent_of(at).filter(|name| *name != ROOT_QUEUE).and_then(|name| self.get(name)) {
            if above.len() > self.all.len() {
                break;
            }
            above.push(parent);
            at = parent;
        }
        above
    }

    fn children<'s>(&'s self, name: &'s str) -> impl Iterator<Item = (&'a str, &'a Value)> + 's {
        self.all.iter().filter(move |listed| listed.parent == Some(name)).map(|listed| (listed.name, listed.queue))
    }

    /// How many levels there are below a queue.
    fn height(&self, name: &str, left: usize) -> usize {
        if left == 0 {
            return 0;
        }
        self.children(name).map(|(child, _)| 1 + self.height(child, left - 1)).max().unwrap_or(0)
    }
}

/// The queue above is there, is not this one, is not below it, and can have children. Says whether it is worth looking
/// further.
fn check_parent(at: &Cursor<'_, '_>, parent: &str, queues: &Queues<'_>, context: &Context<'_>) -> bool {
    let name = &*context.key.name;
    if parent == name {
        at.note("a queue cannot be its own parent");
        return false;
    }
    let Some(above) = queues.get(parent) else {
        at.note("no such queue: expected the name of a queue that exists");
        return false;
    };
    let mut way = vec![parent];
    way.extend(queues.above(above).iter().filter_map(|queue| queue.pointer("/metadata/name")?.as_str()));
    let leads_back = way.iter().filter_map(|queue| queues.get(queue)).any(|queue| parent_of(queue) == Some(name));
    if leads_back {
        at.note(format!("is below {name} itself: expected a queue that is not"));
        return false;
    }
    // A queue that has children has no pods of its own.
    let is_first = queues.children(parent).next().is_none();
    if let Some(pod) = is_first.then(|| pod_in(parent, context)).flatten() {
        at.note(format!("{parent} has pods of its own ({pod}): expected a queue without"));
        return false;
    }
    true
}

/// A pod that has not ended and whose queue this is.
fn pod_in(queue: &str, context: &Context<'_>) -> Option<String> {
    let namespaces: BTreeMap<&str, &str> = context
        .view
        .list("", "Namespace", None)
        .into_iter()
        .filter_map(|namespace| {
            Some((namespace.pointer("/metadata/name")?.as_str()?, annotation(namespace, QUEUE_NAME)?))
        })
        .collect();
    let pods = context.view.list("", "Pod", None);
    let is_in = |pod: &&Value| {
        let namespace = pod.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
        let group = GROUP_NAMES.iter().find_map(|name| annotation(pod, name));
        let group = group.and_then(|group| context.view.get(&ObjectKey::pod_group(namespace, group)));
        let of_group = group.and_then(|group| group.pointer("/spec/queue")?.as_str()).filter(|name| !name.is_empty());
        let named = of_group.or_else(|| annotation(pod, QUEUE_NAME)).or_else(|| namespaces.get(namespace).copied());
        named.unwrap_or(DEFAULT_QUEUE) == queue
    };
    let has_ended =
        |pod: &&Value| matches!(pod.pointer("/status/phase").and_then(Value::as_str), Some("Succeeded" | "Failed"));
    let found = pods.into_iter().filter(|pod| !has_ended(pod)).find(is_in)?;
    let text = |pointer: &str| found.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    Some(format!("Pod/{}/{}", text("/metadata/namespace"), text("/metadata/name")))
}

fn check_depth(at: &Cursor<'_, '_>, queue: &Value, queues: &Queues<'_>, key: &ObjectKey) {
    if parent_of(queue).is_none() {
        return;
    }
    let depth = 1 + queues.above(queue).len() + queues.height(&key.name, DEPTH_MAX + 1);
    if depth > DEPTH_MAX {
        at.note(format!("makes the tree {depth} levels deep: expected at most {DEPTH_MAX} below {ROOT_QUEUE}"));
    }
}

/// A capability is not more than that of the nearest queue above that names the resource.
fn check_within_ancestors(spec: &Cursor<'_, '_>, queue: &Value, queues: &Queues<'_>) {
    let above = queues.above(queue);
    for (resource, value) in spec.field("capability").entries() {
        let Some(own) = value.quantity() else { continue };
        let limit = above.iter().find_map(|queue| {
            let limit = amount(queue.pointer("/spec/capability")?.get(resource)?)?;
            Some((queue.pointer("/metadata/name")?.as_str()?, limit))
        });
        if let Some((name, limit)) = limit.filter(|(_, limit)| own > *limit) {
            value.note(format!("capability must not be more than that of {name} above it, which is {limit}"));
        }
    }
}

fn amount(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

/// What the children of one queue are promised, and what it is promised itself.
#[derive(Clone, Copy)]
struct Promise {
    word: &'static str,
    pointer: &'static str,
    /// Whether a queue that says nothing about it has none to give. What is deserved is an aim and may be left open.
    is_owed: bool,
}

const PROMISES: [Promise; 2] = [
    Promise { word: "guarantee", pointer: "/spec/guarantee/resource", is_owed: true },
    Promise { word: "deserved", pointer: "/spec/deserved", is_owed: false },
];

/// The promises of this queue and its siblings are not more than that of the queue above.
fn check_siblings(spec: &Cursor<'_, '_>, queue: &Value, queues: &Queues<'_>, key: &ObjectKey) {
    let Some(parent) = parent_of(queue).filter(|parent| *parent != ROOT_QUEUE) else { return };
    let Some(above) = queues.get(parent) else { return };
    for Promise { word, pointer, is_owed } in PROMISES {
        let given = above.pointer(pointer).and_then(Value::as_object);
        if given.is_none_or(Map::is_empty) && !is_owed {
            continue;
        }
        let limit = Sums::of(above.pointer(pointer));
        let mut sums = Sums::of(queue.pointer(pointer));
        let own = Sums::of(queue.pointer(pointer));
        queues
            .children(parent)
            .filter(|(name, _)| *name != &*key.name)
            .for_each(|(_, child)| sums.add(child.pointer(pointer)));
        let guarantee = spec.field("guarantee");
        let at = if word == "guarantee" { guarantee.field("resource") } else { spec.field(word) };
        for (resource, amount) in own.iter().filter(|(_, amount)| *amount > 0) {
            let (sum, limit) = (sums.get(resource), limit.get(resource));
            if sum > limit {
                let (sum, limit) = (canonical(resource, sum), canonical(resource, limit));
                let of = canonical(resource, amount);
                at.field(resource).note(format!(
                    "with {of} here the {word} of all queues below {parent} is {sum}: expected at most its own {word}, {limit}"
                ));
            }
        }
    }
}

/// The promises of this queue are not less than those of its children, nor its capability less than any of theirs.
fn check_children(spec: &Cursor<'_, '_>, queues: &Queues<'_>, key: &ObjectKey) {
    if *key.name == *ROOT_QUEUE {
        return;
    }
    let children: Vec<(&str, &Value)> = queues.children(&key.name).collect();
    if children.is_empty() {
        return;
    }
    let guarantee = spec.field("guarantee");
    for Promise { word, is_owed, pointer } in PROMISES {
        let at = if word == "guarantee" { guarantee.field("resource") } else { spec.field(word) };
        let is_given = at.value().and_then(Value::as_object).is_some_and(|map| !map.is_empty());
        if !is_given && !is_owed {
            continue;
        }
        let own = Sums::of(at.value());
        let mut sums = Sums::default();
        children.iter().for_each(|(_, child)| sums.add(child.pointer(pointer)));
        for (resource, sum) in sums.iter() {
            if sum > own.get(resource) {
                let sum = canonical(resource, sum);
                spec.field(word)
                    .note(format!("the queues below it have a {word} of {sum} of {resource}: expected at least that"));
            }
        }
    }
    for (resource, value) in spec.field("capability").entries() {
        let Some(own) = value.quantity() else { continue };
        let larger = children.iter().find_map(|(name, child)| {
            let of_child = amount(child.pointer("/spec/capability")?.get(resource)?)?;
            (of_child > own).then_some((*name, of_child))
        });
        if let Some((name, of_child)) = larger {
            value.note(format!("capability must not be less than that of {name} below it, which is {of_child}"));
        }
    }
}

/// Checks that a Queue may go.
pub(crate) fn check_delete(root: &Cursor<'_, '_>, context: &Context<'_>) {
    let name = &*context.key.name;
    let metadata = root.field("metadata");
    let at = metadata.field("name");
    if matches!(name, ROOT_QUEUE | DEFAULT_QUEUE) {
        return at.note("cannot be deleted: it exists always");
    }
    let queues = Queues::of(context);
    let children: Vec<&str> = queues.children(name).map(|(child, _)| child).collect();
    if let Some(first) = children.first() {
        at.note(format!("cannot be deleted while queues are below it ({first}): delete those first"));
    }
}

/// The queue of a job or group that is made: the one it names, or that of its namespace. `default` is what programs
/// write that name none, so that it is no way out of the namespace's queue. One that exists stays in its queue.
pub(super) fn of_workload<'a>(named: Option<&'a str>, before: Option<&'a str>, context: &Context<'a>) -> &'a str {
    let named = named.filter(|name| !name.is_empty());
    if context.operation == Operation::Update {
        return named.or(before).unwrap_or(DEFAULT_QUEUE);
    }
    let name = context.key.namespace.clone().unwrap_or_default();
    let namespace = context.view.get(&ObjectKey { group: "", kind: "Namespace", namespace: None, name });
    let of_namespace = namespace.and_then(|namespace| annotation(namespace, QUEUE_NAME));
    named.filter(|name| *name != DEFAULT_QUEUE).or(of_namespace).unwrap_or(DEFAULT_QUEUE)
}

/// Notes a queue that has queues below it, which takes no pods itself.
pub(super) fn check_leaf(at: &Cursor<'_, '_>, context: &Context<'_>) {
    let name = at.non_empty_str().unwrap_or(DEFAULT_QUEUE);
    let has_children = || Queues::of(context).children(name).next().is_some();
    if name == ROOT_QUEUE || has_children() {
        at.note(format!("queue {name} has queues below it: expected one without"));
    }
}

/// What is wrong with the queue that a group or job names, if anything.
pub(super) fn check_open(at: &Cursor<'_, '_>, context: &Context<'_>) {
    let name = at.non_empty_str().unwrap_or(DEFAULT_QUEUE);
    match context.view.get(&queue_key(name)) {
        Some(queue) if crate::volcano::queue::is_closed(queue) => {
            at.note(format!("queue {name} is closed: expected one that is open"));
        }
        Some(_) => {}
        // It exists always, whether it was made yet or not.
        None if name == DEFAULT_QUEUE => {}
        None => at.note(format!("no such queue: expected the name of a queue that exists, not {name}")),
    }
}
