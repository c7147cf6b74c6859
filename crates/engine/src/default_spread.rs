//! Services and controllers, by what they select: their pods are spread even where they do not ask for it.

use std::collections::BTreeMap;

use crate::fact::{Labels, Name, Selector, SelectorFact};
use crate::select::selects;

#[derive(Debug, Clone, Default)]
pub(crate) struct DefaultSpread {
    /// By namespace, then by `Kind/name`.
    by_namespace: BTreeMap<Name, BTreeMap<Name, Selector>>,
}

const SERVICE: &str = "Service/";

impl DefaultSpread {
    /// Returns whether anything changed.
    pub fn observe(&mut self, fact: SelectorFact) -> bool {
        let objects = self.by_namespace.entry(fact.namespace).or_default();
        objects.insert(fact.object, fact.selector.clone()) != Some(fact.selector)
    }

    /// Returns whether anything changed.
    pub fn gone(&mut self, namespace: &Name, object: &Name) -> bool {
        let Some(objects) = self.by_namespace.get_mut(namespace) else { return false };
        let removed = objects.remove(object).is_some();
        if objects.is_empty() {
            self.by_namespace.remove(namespace);
        }
        removed
    }

    /// The conditions of all services that select the pod and of its controller, together; `None` without any.
    pub fn selector(&self, namespace: &Name, labels: &Labels, owner: Option<&Name>) -> Option<Selector> {
        let objects = self.by_namespace.get(namespace)?;
        let mut requirements = Vec::new();
        for (object, selector) in objects {
            let concerns = if object.starts_with(SERVICE) {
                !selector.requirements.is_empty() && selects(selector, labels)
            } else {
                owner == Some(object)
            };
            if concerns {
                requirements.extend(selector.requirements.iter().cloned());
            }
        }
        requirements.sort();
        requirements.dedup();
        (!requirements.is_empty()).then_some(Selector { requirements })
    }
}
