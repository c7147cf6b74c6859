//! Objects by key, in parts that copies share until one of them changes it.
//!
//! A cluster of 50,000 pods is copied for every what-if question, and each touches a few objects. So the objects of one
//! kind and namespace lie in a map of their own, and only the maps that are changed are copied.

use std::collections::BTreeMap;
use std::sync::Arc;

use quotient_engine::fact::Name;

use crate::object::ObjectKey;

/// The group, kind and namespace that the keys of a part have in common.
type Part = (&'static str, &'static str, Option<Name>);

/// The objects of a part.
type ByName<V> = BTreeMap<Name, (ObjectKey, V)>;

/// Values by the keys of objects, in the order of the keys.
#[derive(Debug, Clone)]
pub struct ObjectMap<V> {
    /// No part is empty. Within a part, objects differ by name alone.
    parts: BTreeMap<Part, Arc<ByName<V>>>,
    len: usize,
}

impl<V> Default for ObjectMap<V> {
    fn default() -> Self {
        ObjectMap { parts: BTreeMap::new(), len: 0 }
    }
}

fn part_of(key: &ObjectKey) -> Part {
    (key.group, key.kind, key.namespace.clone())
}

impl<V: Clone> ObjectMap<V> {
    pub fn get(&self, key: &ObjectKey) -> Option<&V> {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// The value with the key as it is kept.
    pub fn get_key_value(&self, key: &ObjectKey) -> Option<(&ObjectKey, &V)> {
        let (key, value) = self.parts.get(&part_of(key))?.get(&*key.name)?;
        Some((key, value))
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
        Arc::make_mut(self.parts.get_mut(&part_of(key))?).get_mut(&*key.name).map(|(_, value)| value)
    }

    /// The value, which is made where there is none, to be changed.
    pub fn get_or_insert_with(&mut self, key: ObjectKey, new: impl FnOnce() -> V) -> &mut V {
        let part = Arc::make_mut(self.parts.entry(part_of(&key)).or_default());
        let len = &mut self.len;
        let (_, value) = part.entry(key.name.clone()).or_insert_with(|| {
            *len += 1;
            (key, new())
        });
        value
    }

    /// Keeps the value and gives back the one that was there.
    pub fn insert(&mut self, key: ObjectKey, value: V) -> Option<V> {
        let part = Arc::make_mut(self.parts.entry(part_of(&key)).or_default());
        let before = part.insert(key.name.clone(), (key, value));
        self.len += usize::from(before.is_none());
        before.map(|(_, value)| value)
    }

    pub fn remove(&mut self, key: &ObjectKey) -> Option<V> {
        if !self.contains_key(key) {
            return None;
        }
        let of = part_of(key);
        let part = Arc::make_mut(self.parts.get_mut(&of)?);
        let (_, value) = part.remove(&*key.name)?;
        if part.is_empty() {
            self.parts.remove(&of);
        }
        self.len -= 1;
        Some(value)
    }

    /// All values, by group, kind, namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &V)> {
        self.parts.values().flat_map(|part| part.values()).map(|(key, value)| (key, value))
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
        let namespace: Option<Name> = namespace.map(Name::from);
        let from = (group, kind, namespace.clone());
        let parts = self.parts.range(from..).take_while(move |((of_group, of_kind, of), _)| {
            (*of_group, *of_kind) == (group, kind) && (namespace.is_none() || *of == namespace)
        });
        parts.flat_map(|(_, part)| part.values()).map(|(key, value)| (key, value))
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
        let part = |map: &ObjectMap<usize>, key: &ObjectKey| map.parts.get(&part_of(key)).cloned().expect("there");
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
