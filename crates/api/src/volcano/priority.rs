//! The priority of groups: the value of the PriorityClass that a group names. What a group means depends on two
//! objects, so both are remembered.

use std::collections::BTreeMap;

use quotient_engine::Fact;
use quotient_engine::fact::{GroupFact, Name};

use crate::admission::pod_priority::BUILT_IN;
use crate::object::ObjectKey;

/// The classes that there are, and the groups that name one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Priorities {
    values: BTreeMap<Name, i32>,
    groups: BTreeMap<ObjectKey, (Name, GroupFact)>,
}

/// Whether objects of the kind say what a priority is.
pub(crate) fn is_class(group: &str, kind: &str) -> bool {
    (group, kind) == ("scheduling.k8s.io", "PriorityClass")
}

impl Priorities {
    /// A group was seen that names this class. Where there is no such class, its pods have their own priorities.
    pub fn group_seen(&mut self, key: &ObjectKey, class: Option<Name>, fact: GroupFact) -> GroupFact {
        self.groups.remove(key);
        let Some(class) = class else { return fact };
        self.groups.insert(key.clone(), (class.clone(), fact.clone()));
        self.resolved(&class, fact)
    }

    /// A group is gone.
    pub fn group_gone(&mut self, key: &ObjectKey) {
        self.groups.remove(key);
    }

    /// A class was seen with this value, or is gone: what there is to tell about groups that name it.
    pub fn class_seen(&mut self, name: &Name, value: Option<i32>) -> Vec<Fact> {
        let before = match value {
            Some(value) => self.values.insert(name.clone(), value),
            None => self.values.remove(name),
        };
        if before == value {
            return Vec::new();
        }
        let naming = self.groups.values().filter(|(class, _)| class == name);
        naming.map(|(class, fact)| Fact::Group(self.resolved(class, fact.clone()))).collect()
    }

    fn resolved(&self, class: &Name, fact: GroupFact) -> GroupFact {
        let built_in = || BUILT_IN.iter().find(|(name, _)| *name == &**class).and_then(|(_, v)| i32::try_from(*v).ok());
        GroupFact { members_priority: self.values.get(class).copied().or_else(built_in), ..fact }
    }
}
