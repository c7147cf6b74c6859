//! Objects by key, in parts that copies share until one of them changes it.
//!
//! A cluster of 50,000 pods is copied for every what-if question, and each touches a few objects. So the objects of one
//! kind and namespace are in a map of their own, and only the maps that are changed are copied.

use std::hash::Hash;
use std::sync::{Arc, OnceLock};

use quotient_engine::fact::Name;
use rustc_hash::FxHashMap;

use crate::object::ObjectKey;

/// A group and a kind.
type OfKind = (&'static str, &'static str);

/// A map that is mostly asked for one entry, and now and then for all in order. Keys have much in common: to hash one
/// takes less time than to compare it with a dozen others.
#[derive(Debug, Clone)]
struct Sorted<K, V> {
    entries: FxHashMap<K, V>,
    /// The keys in order, once they were asked for and until another comes or goes.
    order: OnceLock<Vec<K>>,
}

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        Sorted { entries: FxHashMap::default(), order: OnceLock::new() }
    }
}

impl<K: Clone + Eq + Hash + Ord, V> Sorted<K, V> {
    /// The value, made where there is none.
    fn or_insert_with(&mut self, key: K, new: impl FnOnce() -> V) -> &mut V {
        self.entries.entry(key).or_insert_with(|| {
            self.order.take();
            new()
        })
    }

    fn insert(&mut self, key: K, value: V) -> Option<V> {
        let before = self.entries.insert(key, value);
        if before.is_none() {
            self.order.take();
        }
        before
    }

    fn remove(&mut self, key: &K) -> Option<V> {
        let removed = self.entries.remove(key)?;
        self.order.take();
        Some(removed)
    }

    /// All values, by key.
    fn values(&self) -> impl Iterator<Item = &V> {
        let sorted = || {
            let mut keys: Vec<K> = self.entries.keys().cloned().collect();
            keys.sort_unstable();
            keys
        };
        self.order.get_or_init(sorted).iter().filter_map(|key| self.entries.get(key))
    }
}

/// The objects of a kind by namespace. No part is empty.
type ByNamespace<V> = Sorted<Option<Name>, Arc<ByName<V>>>;

/// The objects of a kind and namespace.
type ByName<V> = Sorted<Name, (ObjectKey, V)>;

/// All objects of a part, by name.
fn of_part<V>(part: &ByName<V>) -> impl Iterator<Item = (&ObjectKey, &V)> {
    part.values().map(|(key, value)| (key, value))
}

/// Whether objects are of one kind and namespace.
fn are_together(key: &ObjectKey, other: &ObjectKey) -> bool {
    let same_kind = std::ptr::eq(key.kind, other.kind) || key.kind == other.kind;
    let same_group = std::ptr::eq(key.group, other.group) || key.group == other.group;
    same_kind && same_group && key.namespace == other.namespace
}

/// Values by the keys of objects, in the order of the keys.
#[derive(Debug, Clone)]
pub struct ObjectMap<V> {
    /// No kind is empty.
    kinds: Sorted<OfKind, Arc<ByNamespace<V>>>,
    len: usize,
}

impl<V> Default for ObjectMap<V> {
    fn default() -> Self {
        ObjectMap { kinds: Sorted::default(), len: 0 }
    }
}

/// The part that an object of that key belongs to, to be changed.
fn part_of<'a, V: Clone>(kinds: &'a mut Sorted<OfKind, Arc<ByNamespace<V>>>, key: &ObjectKey) -> &'a mut ByName<V> {
    let kind = Arc::make_mut(kinds.or_insert_with((key.group, key.kind), Arc::default));
    Arc::make_mut(kind.or_insert_with(key.namespace.clone(), Arc::default))
}

impl<V: Clone> ObjectMap<V> {
    pub fn get(&self, key: &ObjectKey) -> Option<&V> {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// The value with the key as it is kept.
    pub fn get_key_value(&self, key: &ObjectKey) -> Option<(&ObjectKey, &V)> {
        let kind = self.kinds.entries.get(&(key.group, key.kind))?;
        let (key, value) = kind.entries.get(&key.namespace)?.entries.get(&key.name)?;
        Some((key, value))
    }

    /// The values of these keys, with the keys as they are kept. It takes the least time where keys of a part follow
    /// each other.
    pub fn get_all<'a>(
        &'a self,
        keys: impl Iterator<Item = &'a ObjectKey>,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a V)> {
        let mut last: Option<(&ObjectKey, &ByName<V>)> = None;
        keys.filter_map(move |key| {
            if last.is_none_or(|(other, _)| !are_together(key, other)) {
                let kind = self.kinds.entries.get(&(key.group, key.kind));
                last = kind.and_then(|kind| kind.entries.get(&key.namespace)).map(|part| (key, part.as_ref()));
            }
            last.and_then(|(_, part)| part.entries.get(&key.name)).map(|(key, value)| (key, value))
        })
    }

    pub fn contains_key(&self, key: &ObjectKey) -> bool {
        self.get(key).is_some()
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value, to be changed.
    pub fn get_mut(&mut self, key: &ObjectKey) -> Option<&mut V> {
        // A part is not copied for what it does not hold.
        if !self.contains_key(key) {
            return None;
        }
        let kind = Arc::make_mut(self.kinds.entries.get_mut(&(key.group, key.kind))?);
        let part = Arc::make_mut(kind.entries.get_mut(&key.namespace)?);
        part.entries.get_mut(&key.name).map(|(_, value)| value)
    }

    /// The value, which is made where there is none, to be changed.
    pub fn get_or_insert_with(&mut self, key: ObjectKey, new: impl FnOnce() -> V) -> &mut V {
        let Self { kinds, len } = self;
        let (_, value) = part_of(kinds, &key).or_insert_with(key.name.clone(), || {
            *len += 1;
            (key, new())
        });
        value
    }

    /// Keeps the value and gives back the one that was there.
    pub fn insert(&mut self, key: ObjectKey, value: V) -> Option<V> {
        let before = part_of(&mut self.kinds, &key).insert(key.name.clone(), (key, value));
        self.len += usize::from(before.is_none());
        before.map(|(_, value)| value)
    }

    pub fn remove(&mut self, key: &ObjectKey) -> Option<V> {
        if !self.contains_key(key) {
            return None;
        }
        let of = (key.group, key.kind);
        let kind = Arc::make_mut(self.kinds.entries.get_mut(&of)?);
        let part = Arc::make_mut(kind.entries.get_mut(&key.namespace)?);
        let (_, value) = part.remove(&key.name)?;
        if part.entries.is_empty() {
            kind.remove(&key.namespace);
        }
        if kind.entries.is_empty() {
            self.kinds.remove(&of);
        }
        self.len -= 1;
        Some(value)
    }

    /// All values, by group, kind, namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &V)> {
        let parts = self.kinds.values().flat_map(|kind| kind.values());
        parts.flat_map(|part| of_part(part))
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Those of a kind, of one namespace or of all, by namespace and name.
    pub fn of_kind<'a>(
        &'a self,
        group: &'static str,
        kind: &'static str,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a V)> + use<'a, V> {
        let kind = self.kinds.entries.get(&(group, kind));
        let one = namespace.and_then(|namespace| kind?.entries.get(&Some(Name::from(namespace))));
        let all = kind.filter(|_| namespace.is_none()).into_iter().flat_map(|kind| kind.values());
        one.into_iter().chain(all).flat_map(|part| of_part(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;

    fn pod(namespace: &str, name: &str) -> ObjectKey {
        ObjectKey::pod(namespace, name)
    }

    #[test]
    fn a_copy_shares_what_it_does_not_change() {
        let mut map = ObjectMap::default();
        for (at, key) in [pod("a", "p"), pod("a", "q"), pod("b", "p"), ObjectKey::node("n")].into_iter().enumerate() {
            assert_eq!(map.insert(key, at), None);
        }
        let mut copy = map.clone();
        assert_eq!(copy.insert(pod("a", "p"), 9), Some(0));
        assert_eq!(copy.remove(&pod("a", "q")), Some(1));
        assert_eq!(copy.remove(&pod("a", "q")), None);
        *copy.get_or_insert_with(pod("c", "p"), || 7) += 1;
        assert_eq!((map.get(&pod("a", "p")), map.len()), (Some(&0), 4));
        assert_eq!((copy.get(&pod("a", "p")), copy.get(&pod("c", "p")), copy.len()), (Some(&9), Some(&8), 4));
        let part = |map: &ObjectMap<usize>, key: &ObjectKey| {
            map.kinds.entries[&(key.group, key.kind)].entries[&key.namespace].clone()
        };
        assert!(Arc::ptr_eq(&part(&map, &pod("b", "p")), &part(&copy, &pod("b", "p"))));
        assert!(!Arc::ptr_eq(&part(&map, &pod("a", "p")), &part(&copy, &pod("a", "p"))));
    }

    #[test]
    fn what_is_of_a_kind_comes_by_namespace_and_name() {
        let mut map = ObjectMap::default();
        for key in [pod("b", "p"), pod("a", "q"), pod("a", "p"), ObjectKey::node("n")] {
            map.insert(key, ());
        }
        let names = |namespace| map.of_kind("", "Pod", namespace).map(|(key, ())| key.to_string()).collect::<Vec<_>>();
        assert_eq!(names(None), ["Pod/a/p", "Pod/a/q", "Pod/b/p"]);
        assert_eq!(names(Some("a")), ["Pod/a/p", "Pod/a/q"]);
        assert_eq!(names(Some("c")), [""; 0]);
        let kind = kinds::find("", "Node").expect("known");
        assert_eq!(map.of_kind(kind.group, kind.kind, None).count(), 1);
    }
}
