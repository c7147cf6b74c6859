//! The order in which the objects of a file are applied, whatever order they are written in.
//!
//! `kubectl get` sorts by kind and name, so that a child queue stands before its parent and a pod before its priority
//! class. What others refer to comes first here. Objects of one rank keep the order in which they are written: between
//! pods without a creation time, it says which is older.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::field::at;
use crate::object::ObjectKey;
use crate::quota_kinds::is_quota;
use crate::read::Document;
use crate::{tree, volcano};

/// The objects in the order in which they can be applied.
pub fn applicable(documents: Vec<Document>) -> Vec<Document> {
    let mut ranked: Vec<(u8, Document)> =
        documents.into_iter().map(|document| (rank(&document.key), document)).collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    let mut ordered = Vec::with_capacity(ranked.len());
    let mut level: Vec<Document> = Vec::new();
    let mut at = 0;
    for (rank, document) in ranked {
        if rank != at {
            ordered.append(&mut parents_first(std::mem::take(&mut level)));
            at = rank;
        }
        level.push(document);
    }
    ordered.append(&mut parents_first(level));
    ordered
}

/// What others refer to has a lower rank than those who do.
fn rank(key: &ObjectKey) -> u8 {
    match (key.group, key.kind) {
        ("", "Namespace") => 0,
        ("scheduling.k8s.io", _) | ("node.k8s.io", _) | ("storage.k8s.io", _) => 1,
        ("", "Node") => 2,
        ("", "LimitRange" | "ResourceQuota") => 3,
        (tree::PROFILE_GROUP, _) => 4,
        (tree::GROUP, _) | (volcano::SCHEDULING, volcano::QUEUE) => 5,
        (group, kind) if is_quota(group, kind) => 6,
        ("policy", _) | ("", "PersistentVolume" | "PersistentVolumeClaim") => 7,
        _ => 8,
    }
}

/// The name of the quota or queue above this one, where its kind has such.
fn parent<'a>(key: &ObjectKey, object: &'a Value) -> Option<&'a str> {
    if tree::is_tree(key) {
        return tree::label(object, tree::keys::PARENT);
    }
    let is_queue = (key.group, key.kind) == (volcano::SCHEDULING, volcano::QUEUE);
    is_queue.then(|| at(object, "/spec/parent")).flatten().and_then(Value::as_str)
}

/// Each object after the one above it. Those that are above each other in a circle keep their order.
fn parents_first(documents: Vec<Document>) -> Vec<Document> {
    if documents.iter().all(|document| parent(&document.key, &document.value).is_none()) {
        return documents;
    }
    let id = |key: &ObjectKey, name: &str| (key.group, key.kind, name.to_owned());
    let places: BTreeMap<_, usize> =
        documents.iter().enumerate().map(|(place, document)| (id(&document.key, &document.key.name), place)).collect();
    let above = |place: usize| {
        let document = &documents[place];
        let parent = parent(&document.key, &document.value)?;
        places.get(&id(&document.key, parent)).copied()
    };
    let mut order = Vec::with_capacity(documents.len());
    let mut placed = BTreeSet::new();
    for start in 0..documents.len() {
        let mut way = Vec::new();
        let mut next = Some(start);
        while let Some(place) = next.filter(|place| !placed.contains(place) && !way.contains(place)) {
            way.push(place);
            next = above(place);
        }
        placed.extend(way.iter().copied());
        order.extend(way.into_iter().rev());
    }
    let mut documents: Vec<Option<Document>> = documents.into_iter().map(Some).collect();
    order.into_iter().filter_map(|place| documents[place].take()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::read;

    #[test]
    fn what_others_refer_to_comes_first() {
        let text = "
{apiVersion: v1, kind: Pod, metadata: {name: b}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a}}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: a-child}, spec: {parent: m}}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: m}, spec: {parent: z}}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: z}}
---
{apiVersion: v1, kind: Node, metadata: {name: n}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: x}, spec: {parent: 'y'}}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: 'y'}, spec: {parent: x}}
";
        let read = read("f.yaml", text);
        assert_eq!(read.problems, []);
        let names: Vec<String> = applicable(read.documents).iter().map(|document| document.key.to_string()).collect();
        let expected = [
            "PriorityClass/high",
            "Node/n",
            "Queue/z",
            "Queue/m",
            "Queue/a-child",
            "Queue/y",
            "Queue/x",
            "Pod/default/b",
            "Pod/default/a",
        ];
        assert_eq!(names, expected);
    }
}
