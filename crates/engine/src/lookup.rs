//! Hash maps that can be asked and changed, but not walked.
//!
//! The order of a hash map is an accident of its hashes. A decision that walks one would depend on
//! that accident, so the engine's maps do not offer it: what must be walked is kept in a vector or
//! an ordered map.

use std::borrow::Borrow;
use std::hash::Hash;

use rustc_hash::{FxBuildHasher, FxHashMap};

/// A map for look-ups.
#[derive(Debug, Clone)]
pub struct LookupMap<K, V>(FxHashMap<K, V>);

impl<K, V> Default for LookupMap<K, V> {
    fn default() -> Self {
        LookupMap(FxHashMap::with_hasher(FxBuildHasher))
    }
}

impl<K: Eq + Hash, V> LookupMap<K, V> {
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key)
    }

    pub fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.0.get_mut(key)
    }

    pub fn contains_key<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.contains_key(key)
    }

    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.0.remove(key)
    }

    /// The value under `key`, made by `make` where there is none yet.
    pub fn or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.0.entry(key).or_insert_with(make)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}
