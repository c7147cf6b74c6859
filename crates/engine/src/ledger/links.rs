//! Parents by name: which quota is above which, in whatever order they are seen.

use std::collections::{BTreeMap, BTreeSet};

use crate::fact::Name;
use crate::policy::QuotaId;

/// Quotas whose names are unique, and the parents that they name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Links {
    by_name: BTreeMap<Name, QuotaId>,
    /// The quotas that name a parent, by its name.
    naming: BTreeMap<Name, BTreeSet<QuotaId>>,
}

impl Links {
    pub fn find(&self, name: &str) -> Option<QuotaId> {
        self.by_name.get(name).copied()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Lists a quota by its name. The first of a name keeps it.
    pub fn list(&mut self, name: Name, id: QuotaId) {
        self.by_name.entry(name).or_insert(id);
    }

    /// A quota is no longer found by its name.
    pub fn unlist(&mut self, name: &Name, id: QuotaId) {
        if self.by_name.get(name) == Some(&id) {
            self.by_name.remove(name);
        }
    }

    /// Notes that a quota names a parent, which may not be there yet.
    pub fn name_parent(&mut self, parent: Name, id: QuotaId) {
        self.naming.entry(parent).or_default().insert(id);
    }

    pub fn unname_parent(&mut self, parent: &Name, id: QuotaId) {
        if let Some(naming) = self.naming.get_mut(parent) {
            naming.remove(&id);
            if naming.is_empty() {
                self.naming.remove(parent);
            }
        }
    }

    /// The quotas that name this one as their parent.
    pub fn naming(&self, parent: &Name) -> impl Iterator<Item = QuotaId> + '_ {
        self.naming.get(parent).into_iter().flatten().copied()
    }
}

/// A quota and those above it, each once, as far as `above` leads.
pub(crate) fn chain(id: QuotaId, above: impl Fn(QuotaId) -> Option<QuotaId>) -> Vec<QuotaId> {
    let mut chain = vec![id];
    while let Some(next) = above(chain[chain.len() - 1])
        && !chain.contains(&next)
    {
        chain.push(next);
    }
    chain
}

/// The quota above, where `above` is what quotas name. Quotas that would be above themselves have none, whichever of
/// them was seen first.
pub(crate) fn above_unless_circle(id: QuotaId, above: impl Fn(QuotaId) -> Option<QuotaId>) -> Option<QuotaId> {
    let last = chain(id, &above).last().copied();
    above(id).filter(|_| last.and_then(&above) != Some(id))
}
