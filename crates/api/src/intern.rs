//! Sharing equal names and pod specs, so that many pods of few templates are cheap.

use std::hash::Hash;
use std::sync::Arc;

use quotient_engine::fact::{Name, PodSpec};
use rustc_hash::FxHashSet;

/// The most names kept for sharing. Clusters have thousands of distinct label keys, values and node
/// names; pod names are not kept. Beyond it names are still made, and no longer shared.
const NAMES_MAX: usize = 1 << 18;

/// The most pod specs kept for sharing: one a template is used by many pods, so that a cluster at its
/// largest (200,000 pods) has far fewer. Beyond it specs are still made, and no longer shared.
const SPECS_MAX: usize = 1 << 16;

/// How many are kept before the first look for those that nobody uses any more.
const SWEEP_AT_LEAST: usize = 1 << 10;

/// A bounded table of shared values.
#[derive(Debug)]
struct Shared<T: ?Sized + Eq + Hash> {
    values: FxHashSet<Arc<T>>,
    /// When the table has grown to this, values that only the table holds are dropped. It is set to
    /// twice what remains, so that the cost of looking is spread over as many insertions.
    sweep_at: usize,
    max: usize,
}

// A copy begins empty: the table saves memory and decides nothing, and what-if questions copy it for a few objects.
impl<T: ?Sized + Eq + Hash> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared::new(self.max)
    }
}

impl<T: ?Sized + Eq + Hash> Shared<T> {
    fn new(max: usize) -> Self {
        Shared { values: FxHashSet::default(), sweep_at: SWEEP_AT_LEAST, max }
    }

    /// Keeps `value`, if there is room.
    fn keep(&mut self, value: &Arc<T>) {
        if self.values.len() >= self.sweep_at {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.sweep_at = (2 * self.values.len()).max(SWEEP_AT_LEAST);
        }
        if self.values.len() < self.max {
            self.values.insert(Arc::clone(value));
        }
    }
}

/// Gives one shared value for all that are equal.
#[derive(Debug, Clone)]
pub(crate) struct Interner {
    names: Shared<str>,
    specs: Shared<PodSpec>,
}

impl Default for Interner {
    fn default() -> Self {
        Interner { names: Shared::new(NAMES_MAX), specs: Shared::new(SPECS_MAX) }
    }
}

impl Interner {
    /// The name of that text.
    pub fn name(&mut self, text: &str) -> Name {
        if let Some(name) = self.names.values.get(text) {
            return Arc::clone(name);
        }
        let name = Name::from(text);
        self.names.keep(&name);
        name
    }

    /// The spec that equals `spec`.
    pub fn spec(&mut self, spec: Arc<PodSpec>) -> Arc<PodSpec> {
        if let Some(shared) = self.specs.values.get(&spec) {
            return Arc::clone(shared);
        }
        self.specs.keep(&spec);
        spec
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one() {
        let mut interner = Interner::default();
        let spec = || Arc::new(PodSpec { assumed: (1, 2), ..PodSpec::default() });
        assert!(Arc::ptr_eq(&interner.name("a"), &interner.name("a")));
        assert!(Arc::ptr_eq(&interner.spec(spec()), &interner.spec(spec())));
    }

    #[test]
    fn values_that_nobody_uses_are_dropped() {
        let mut interner = Interner::default();
        let kept = interner.name("kept");
        for i in 0..10 * SWEEP_AT_LEAST {
            interner.name(&format!("name-{i}"));
        }
        assert!(interner.names.values.len() <= SWEEP_AT_LEAST);
        assert!(Arc::ptr_eq(&kept, &interner.name("kept")));
    }

    #[test]
    fn the_table_is_bounded() {
        let mut shared: Shared<str> = Shared::new(3);
        let names: Vec<Arc<str>> = ["a", "b", "c", "d"].map(Arc::from).to_vec();
        names.iter().for_each(|name| shared.keep(name));
        assert_eq!(shared.values.len(), 3);
    }
}
