//! Disruption budgets: how many more pods of a kind may go.

use std::collections::BTreeMap;

use crate::fact::{BudgetFact, Name};
use crate::pods::{Pod, PodId, Pods};
use crate::select::selects;

/// A budget's number, by namespace and name.
pub(crate) type BudgetKey = (Name, Name);

#[derive(Debug, Clone, Default)]
pub(crate) struct Budgets {
    by_key: BTreeMap<BudgetKey, BudgetFact>,
    /// Pods whose eviction was decided and is not yet seen: the budgets' status does not know of it.
    unseen: Vec<PodId>,
}

impl Budgets {
    /// Returns whether anything changed.
    pub fn observe(&mut self, fact: BudgetFact) -> bool {
        let key = (fact.namespace.clone(), fact.name.clone());
        self.by_key.insert(key, fact.clone()) != Some(fact)
    }

    /// Returns whether anything changed.
    pub fn gone(&mut self, key: &BudgetKey) -> bool {
        self.by_key.remove(key).is_some()
    }

    /// An eviction was decided.
    pub fn eviction_decided(&mut self, pod: PodId) {
        self.unseen.push(pod);
    }

    /// A pod's eviction was seen, or will not be.
    pub fn eviction_settled(&mut self, pod: PodId) {
        self.unseen.retain(|unseen| *unseen != pod);
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The budgets that select a pod.
    pub fn of<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = &'a BudgetKey> + 'a {
        let namespace = &pod.namespace;
        self.by_key
            .range((namespace.clone(), Name::from(""))..)
            .take_while(move |((ns, _), _)| ns == namespace)
            .filter(|(_, budget)| budget.selector.as_ref().is_some_and(|selector| selects(selector, &pod.labels)))
            .map(|(key, _)| key)
    }

    /// How many pods a budget lets go now.
    pub fn allows(&self, key: &BudgetKey, pods: &Pods) -> u32 {
        let Some(budget) = self.by_key.get(key) else { return 0 };
        let unseen = self.unseen.iter().filter(|id| self.of(pods.get(**id)).any(|k| k == key)).count();
        budget.allowed.saturating_sub(unseen as u32)
    }
}
