//! The objects of a virtual cluster: raw JSON by key, with what is asked of them often kept at hand.
//!
//! The store keeps and finds; it knows nothing of admission, controllers or time. Everything that
//! changes is noted in the order it happened, once for each object between two readings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quotient_api::{ObjectKey, ObjectMap, View, kinds};
use quotient_engine::fact::Name;
use rustc_hash::FxHashSet;
use serde_json::Value;

use crate::server::is_pod;
use crate::{field, forecast};

/// Something that happened to an object.
#[derive(Debug, Clone)]
pub enum Change {
    /// It was made or changed; the store has it as it is now.
    Seen(ObjectKey),
    /// It is gone; this is what it was last.
    Gone(ObjectKey, Arc<Value>),
}

impl Change {
    /// Which object.
    pub fn key(&self) -> &ObjectKey {
        match self {
            Change::Seen(key) | Change::Gone(key, _) => key,
        }
    }
}

/// What is kept at hand of an object.
#[derive(Debug, PartialEq, Eq)]
struct AtHand {
    /// Its owners, and whether each is the controller.
    owners: Vec<(ObjectKey, bool)>,
    place: Place,
}

/// Where an object is, as far as it is asked for.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// It is no pod.
    Nowhere,
    /// It is a pod that names no node.
    Waiting,
    /// It is a pod that names a node.
    On(Name),
}

impl AtHand {
    fn of(key: &ObjectKey, object: &Value) -> Self {
        AtHand { owners: field::ranked_owners(object, key.namespace.as_deref()), place: Place::of(key, object) }
    }
}

impl Place {
    fn of(key: &ObjectKey, object: &Value) -> Self {
        if !is_pod(key) {
            return Place::Nowhere;
        }
        field::text(object, "/spec/nodeName").map_or(Place::Waiting, |node| Place::On(Name::from(node)))
    }
}

/// All objects. A copy shares what neither of the two changes.
#[derive(Debug, Clone, Default)]
pub struct Store {
    objects: ObjectMap<Arc<Value>>,
    /// What each object owns, whether the owner exists or not, and whether it is the controller.
    dependents: ObjectMap<BTreeMap<ObjectKey, bool>>,
    /// The pods that name a node in `spec.nodeName`.
    pods_on: Arc<BTreeMap<Name, Arc<BTreeSet<ObjectKey>>>>,
    /// The pods that name no node: few among many, most often.
    waiting: Arc<FxHashSet<ObjectKey>>,
    /// The pods that say how long they run, or how long pods like them run: few, and asked for among many.
    timed: Arc<BTreeSet<ObjectKey>>,
    changes: Vec<Change>,
    /// Objects that the last entries of `changes` already tell of.
    told: FxHashSet<ObjectKey>,
}

impl Store {
    /// The object of that key.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    /// The object of that key, with the key as it is kept.
    pub fn get_key_value(&self, key: &ObjectKey) -> Option<(&ObjectKey, &Arc<Value>)> {
        self.objects.get_key_value(key)
    }

    /// Whether there is such an object.
    pub fn contains(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// All objects, by group, kind, namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<Value>)> {
        self.objects.iter()
    }

    /// All objects of a kind, of one namespace or of all, by namespace and name.
    pub fn of_kind<'a>(
        &'a self,
        group: &'static str,
        kind: &'static str,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Arc<Value>)> {
        self.objects.of_kind(group, kind, namespace)
    }

    /// All pods, by namespace and name.
    pub fn pods(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<Value>)> {
        self.of_kind("", "Pod", None)
    }

    /// What this object owns, by key.
    pub fn dependents(&self, owner: &ObjectKey) -> Vec<ObjectKey> {
        self.dependents.get(owner).map_or_else(Vec::new, |keys| keys.keys().cloned().collect())
    }

    /// The objects of a kind and namespace that others name as their owners, and that are not there.
    pub fn missing_owners(&self, group: &'static str, kind: &'static str, namespace: &str) -> Vec<ObjectKey> {
        let owners = self.dependents.of_kind(group, kind, Some(namespace)).map(|(owner, _)| owner);
        owners.filter(|owner| !self.objects.contains_key(owner)).cloned().collect()
    }

    /// The objects that this one controls, of one kind.
    pub fn controlled<'a>(&'a self, owner: &ObjectKey, kind: &'static str) -> Vec<(&'a ObjectKey, &'a Arc<Value>)> {
        let Some(keys) = self.dependents.get(owner) else { return Vec::new() };
        let controlled = keys.iter().filter(|(key, is_controlled)| **is_controlled && key.kind == kind);
        self.objects.get_all(controlled.map(|(key, _)| key)).collect()
    }

    /// The pods that name this node.
    pub fn pods_on(&self, node: &str) -> Vec<ObjectKey> {
        self.pods_on.get(node).map_or_else(Vec::new, |keys| keys.iter().cloned().collect())
    }

    /// The pods that name no node, by namespace and name; those that have ended too.
    pub fn pods_without_node(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<Value>)> {
        let mut keys: Vec<&ObjectKey> = self.waiting.iter().collect();
        keys.sort();
        self.objects.get_all(keys.into_iter())
    }

    /// The nodes that pods name, each with these pods.
    pub fn nodes_of_pods(&self) -> impl Iterator<Item = (&Name, &BTreeSet<ObjectKey>)> {
        self.pods_on.iter().map(|(node, pods)| (node, &**pods))
    }

    /// Keeps the object under `key`, and says whether that changed anything.
    pub fn put(&mut self, key: ObjectKey, object: Value) -> bool {
        let known = self.objects.get(&key);
        if known.is_some_and(|known| **known == object) {
            return false;
        }
        let before = known.map(|known| AtHand::of(&key, known));
        self.note_timed(&key, &object);
        self.keep_at_hand(&key, before, Some(AtHand::of(&key, &object)));
        self.objects.insert(key.clone(), Arc::new(object));
        self.tell(key);
        true
    }

    /// Changes the object in place, but not who owns it. Copies of the store keep it as it was.
    pub fn change(&mut self, key: &ObjectKey, change: impl FnOnce(&mut Value)) {
        let Some(kept) = self.objects.get_mut(key) else { return };
        let before = Place::of(key, kept);
        let object = Arc::make_mut(kept);
        change(object);
        let after = Place::of(key, object);
        self.keep_place(key, Some(&before), Some(&after));
        self.tell(key.clone());
    }

    /// Follows an object that comes, changes or goes with what is asked of it often.
    fn keep_at_hand(&mut self, key: &ObjectKey, before: Option<AtHand>, after: Option<AtHand>) {
        let (old, new) = (before.as_ref(), after.as_ref());
        if old.map(|old| &old.owners) != new.map(|new| &new.owners) {
            old.into_iter().flat_map(|old| &old.owners).for_each(|(owner, _)| self.forget_owner(key, owner));
            for (owner, is_controller) in new.into_iter().flat_map(|new| &new.owners) {
                let dependents = self.dependents.get_or_insert_with(owner.clone(), BTreeMap::new);
                *dependents.entry(key.clone()).or_default() |= is_controller;
            }
        }
        self.keep_place(key, old.map(|old| &old.place), new.map(|new| &new.place));
    }

    /// Follows an object that comes, moves or goes with where it is.
    fn keep_place(&mut self, key: &ObjectKey, old: Option<&Place>, new: Option<&Place>) {
        if old == new {
            return;
        }
        match old {
            Some(Place::Waiting) => drop(Arc::make_mut(&mut self.waiting).remove(key)),
            Some(Place::On(node)) => self.forget_node(key, node),
            Some(Place::Nowhere) | None => {}
        }
        match new {
            Some(Place::Waiting) => drop(Arc::make_mut(&mut self.waiting).insert(key.clone())),
            Some(Place::On(node)) => {
                let pods = Arc::make_mut(&mut self.pods_on).entry(node.clone()).or_default();
                Arc::make_mut(pods).insert(key.clone());
            }
            Some(Place::Nowhere) | None => {}
        }
    }

    fn forget_owner(&mut self, key: &ObjectKey, owner: &ObjectKey) {
        if let Some(keys) = self.dependents.get_mut(owner) {
            keys.remove(key);
            if keys.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }

    fn forget_node(&mut self, key: &ObjectKey, node: &Name) {
        let pods_on = Arc::make_mut(&mut self.pods_on);
        if let Some(keys) = pods_on.get_mut(node) {
            Arc::make_mut(keys).remove(key);
            if keys.is_empty() {
                pods_on.remove(node);
            }
        }
    }

    fn tell(&mut self, key: ObjectKey) {
        if self.told.insert(key.clone()) {
            self.changes.push(Change::Seen(key));
        }
    }

    /// Takes the object out.
    pub fn remove(&mut self, key: &ObjectKey) -> Option<Arc<Value>> {
        let object = self.objects.remove(key)?;
        self.keep_at_hand(key, Some(AtHand::of(key, &object)), None);
        if self.timed.contains(key) {
            Arc::make_mut(&mut self.timed).remove(key);
        }
        self.told.remove(key);
        self.changes.push(Change::Gone(key.clone(), object.clone()));
        Some(object)
    }

    /// Gives the object up, and tells nobody: nothing is asked of what is kept at hand any more.
    pub fn give_up(&mut self, key: &ObjectKey) -> Option<Arc<Value>> {
        self.objects.remove(key)
    }

    fn note_timed(&mut self, key: &ObjectKey, object: &Value) {
        if !is_pod(key) {
            return;
        }
        let is_timed = forecast::is_timed(object);
        if is_timed != self.timed.contains(key) {
            let timed = Arc::make_mut(&mut self.timed);
            let _ = if is_timed { timed.insert(key.clone()) } else { timed.remove(key) };
        }
    }

    /// The pods that say how long they run, or how long pods like them run.
    pub fn timed_pods(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<Value>)> {
        self.timed.iter().filter_map(|key| self.objects.get_key_value(key))
    }

    /// What changed since this was last asked, in order.
    pub fn take_changes(&mut self) -> Vec<Change> {
        // Thousands change at once, and then a few: no room is kept for as many again.
        self.told = FxHashSet::default();
        std::mem::take(&mut self.changes)
    }

    /// Whether something changed since the changes were last taken.
    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }
}

impl View for Store {
    fn get(&self, key: &ObjectKey) -> Option<&Value> {
        self.objects.get(key).map(Arc::as_ref)
    }

    fn list(&self, group: &str, kind: &str, namespace: Option<&str>) -> Vec<&Value> {
        let Some(kind) = kinds::find(group, kind) else { return Vec::new() };
        self.of_kind(kind.group, kind.kind, namespace).map(|(_, object)| object.as_ref()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(node: &str) -> Value {
        json!({
            "metadata": {"namespace": "a", "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": true}]},
            "spec": {"nodeName": node},
        })
    }

    #[test]
    fn what_is_kept_at_hand_follows_the_objects() {
        let mut store = Store::default();
        let key = ObjectKey::pod("a", "p");
        let web = ObjectKey::new(kinds::find("apps", "ReplicaSet").expect("known"), Some("a"), "web");
        assert!(store.put(key.clone(), pod("n1")));
        assert!(!store.put(key.clone(), pod("n1")), "the same again is no change");
        assert!(store.put(key.clone(), pod("n2")));
        assert_eq!(store.pods_on("n1"), []);
        assert_eq!(store.pods_on("n2"), std::slice::from_ref(&key));
        store.change(&key, |pod| pod["spec"]["nodeName"] = Value::Null);
        assert_eq!((store.pods_on("n2").len(), store.pods_without_node().count()), (0, 1));
        store.change(&key, |pod| pod["spec"]["nodeName"] = json!("n2"));
        assert_eq!((store.pods_on("n2").len(), store.pods_without_node().count()), (1, 0));
        assert_eq!(store.controlled(&web, "Pod").len(), 1);
        assert_eq!(store.take_changes().len(), 1, "two changes of one object are told once");
        store.remove(&key);
        assert_eq!((store.pods_on("n2"), store.dependents(&web)), (vec![], vec![]));
        assert!(matches!(store.take_changes()[..], [Change::Gone(..)]));
    }

    #[test]
    fn an_object_that_goes_and_comes_again_is_told_as_both() {
        let mut store = Store::default();
        let key = ObjectKey::pod("a", "p");
        store.put(key.clone(), json!({"metadata": {"uid": "1"}}));
        store.take_changes();
        store.remove(&key);
        store.put(key.clone(), json!({"metadata": {"uid": "2"}}));
        assert!(matches!(store.take_changes()[..], [Change::Gone(..), Change::Seen(_)]));
    }

    #[test]
    fn objects_of_a_kind_are_listed_by_namespace() {
        let mut store = Store::default();
        for (namespace, name) in [("b", "p"), ("a", "q"), ("a", "p")] {
            store.put(ObjectKey::pod(namespace, name), json!({"name": name}));
        }
        store.put(ObjectKey::node("n"), json!({}));
        let names = |namespace| store.of_kind("", "Pod", namespace).map(|(k, _)| k.to_string()).collect::<Vec<_>>();
        assert_eq!(names(None), ["Pod/a/p", "Pod/a/q", "Pod/b/p"]);
        assert_eq!(names(Some("a")), ["Pod/a/p", "Pod/a/q"]);
    }
}
