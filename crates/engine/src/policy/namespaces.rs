//! Quotas that pods answer to by their namespace.

use std::collections::BTreeSet;

use crate::fact::Name;
use crate::lookup::LookupMap;
use crate::policy::{QuotaId, Quotas};

/// The quotas that pods of a namespace answer to.
#[derive(Debug, Clone, Default)]
pub(super) struct Namespaces(LookupMap<Name, Vec<QuotaId>>);

impl Namespaces {
    pub fn quotas_of(&self, namespace: &Name) -> &[QuotaId] {
        self.0.get(namespace).map_or(&[], Vec::as_slice)
    }
}

impl Quotas {
    /// Takes in which namespaces a quota is for. Returns those whose pods answer to other quotas than before.
    pub(super) fn rename_namespaces(&mut self, id: QuotaId, old: &[Name], new: &[Name]) -> BTreeSet<Name> {
        let mut changed = BTreeSet::new();
        let by_namespace = &mut self.shared.namespaces.0;
        for namespace in old.iter().filter(|namespace| !new.contains(namespace)) {
            if let Some(quotas) = by_namespace.get_mut(namespace) {
                quotas.retain(|quota| *quota != id);
            }
            changed.insert(namespace.clone());
        }
        for namespace in new.iter().filter(|namespace| !old.contains(namespace)) {
            let quotas = by_namespace.or_insert_with(namespace.clone(), Vec::new);
            if !quotas.contains(&id) {
                quotas.push(id);
            }
            changed.insert(namespace.clone());
        }
        // The order of a pod's quotas must not depend on the order in which they were seen.
        for namespace in &changed {
            let mut quotas = self.shared.namespaces.quotas_of(namespace).to_vec();
            quotas.sort_by(|a, b| self.get(*a).key.cmp(&self.get(*b).key));
            self.shared.namespaces.0.insert(namespace.clone(), quotas);
        }
        changed
    }
}
