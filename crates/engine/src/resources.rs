//! Resource names as small numbers, and request vectors in them.
//!
//! What nodes, quotas and groups name is kept. What only pods name is kept as long as a pod has it, and there is a
//! bound on how much of that there is: whoever makes pods makes up names.

use crate::fact::{Amount, Amounts, CPU, MEMORY, Name, PODS};
use crate::limits::POD_NAMES_MAX;
use crate::lookup::LookupMap;

/// A resource that was named by a node or a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ResourceId(pub u32);

pub(crate) const CPU_ID: ResourceId = ResourceId(0);
pub(crate) const MEMORY_ID: ResourceId = ResourceId(1);
pub(crate) const PODS_ID: ResourceId = ResourceId(2);

#[derive(Debug, Clone)]
struct Entry {
    name: Name,
    /// How often pods' shapes have it.
    users: u32,
    /// A node, a quota or a device named it.
    kept: bool,
    /// A pod or a group named it as a card, and what was found of cards is not forgotten.
    pinned: bool,
}

/// All resources named so far. Numbers are only ever compared for equality; cpu, memory and pods have theirs from the
/// start, and that of a name that was given back goes to another.
#[derive(Debug, Clone)]
pub(crate) struct ResourceNames {
    entries: Vec<Entry>,
    vacant: Vec<ResourceId>,
    ids: LookupMap<Name, ResourceId>,
    /// How many are named by pods alone.
    of_pods: usize,
}

impl Default for ResourceNames {
    fn default() -> Self {
        let (entries, vacant, ids) = (Vec::new(), Vec::new(), LookupMap::default());
        let mut names = ResourceNames { entries, vacant, ids, of_pods: 0 };
        for name in [CPU, MEMORY, PODS] {
            names.intern(&Name::from(name));
        }
        names
    }
}

impl ResourceNames {
    /// The number of a resource, for good.
    pub fn intern(&mut self, name: &Name) -> ResourceId {
        let id = self.number(name);
        let entry = &mut self.entries[id.0 as usize];
        if !std::mem::replace(&mut entry.kept, true) && (entry.users > 0 || entry.pinned) {
            self.of_pods -= 1;
        }
        id
    }

    /// The number of a card that a pod or a group names, for good.
    pub fn pin(&mut self, name: &Name) -> ResourceId {
        let id = self.number(name);
        let entry = &mut self.entries[id.0 as usize];
        if !std::mem::replace(&mut entry.pinned, true) && entry.users == 0 && !entry.kept {
            self.of_pods += 1;
        }
        id
    }

    /// The number of a resource for as long as it is not given back.
    pub fn lend(&mut self, name: &Name) -> ResourceId {
        let id = self.number(name);
        let entry = &mut self.entries[id.0 as usize];
        entry.users += 1;
        if entry.users == 1 && !entry.kept && !entry.pinned {
            self.of_pods += 1;
        }
        id
    }

    /// Takes a number back that was lent.
    pub fn give_back(&mut self, id: ResourceId) {
        let entry = &mut self.entries[id.0 as usize];
        entry.users -= 1;
        if entry.users > 0 || entry.kept || entry.pinned {
            return;
        }
        let name = std::mem::take(&mut entry.name);
        self.of_pods -= 1;
        self.ids.remove(&name);
        self.vacant.push(id);
    }

    /// How many of these names are new.
    pub fn count_new<'n>(&self, names: impl Iterator<Item = &'n Name>) -> usize {
        names.filter(|name| !self.ids.contains_key(*name)).count()
    }

    /// Whether pods may bring so many names more that nobody else has.
    pub fn has_room_for(&self, more: usize) -> bool {
        self.of_pods + more <= POD_NAMES_MAX
    }

    fn number(&mut self, name: &Name) -> ResourceId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let entry = Entry { name: name.clone(), users: 0, kept: false, pinned: false };
        let id = match self.vacant.pop() {
            Some(id) => {
                self.entries[id.0 as usize] = entry;
                id
            }
            None => {
                self.entries.push(entry);
                // An API server does not hold 2^32 objects, and a pod has a bounded number of names.
                ResourceId(self.entries.len() as u32 - 1)
            }
        };
        self.ids.insert(name.clone(), id);
        id
    }

    /// The number of a resource that was named before.
    pub fn find(&self, name: &Name) -> Option<ResourceId> {
        self.ids.get(name).copied()
    }

    pub fn name(&self, id: ResourceId) -> &Name {
        &self.entries[id.0 as usize].name
    }

    /// All that have a name, by number.
    pub fn iter(&self) -> impl Iterator<Item = (ResourceId, &Name)> {
        let all = self.entries.iter().enumerate().map(|(i, entry)| (ResourceId(i as u32), entry));
        all.filter(|(_, entry)| entry.kept || entry.pinned || entry.users > 0).map(|(id, entry)| (id, &entry.name))
    }
}

/// What a pod takes on a node: amounts above 0 by resource, one of `pods` included.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Demand {
    /// By resource name, so that equal demands are listed alike and messages are in order.
    pub amounts: Vec<(ResourceId, Amount)>,
    /// What the least-allocated score takes it to be: (cpu, memory).
    pub assumed: (Amount, Amount),
    /// Whether it counts under the caps of GPU nodes.
    pub capped: bool,
}

impl Demand {
    /// What these requests demand. `number` gives the numbers of names.
    pub fn new(requests: &Amounts, assumed: (Amount, Amount), mut number: impl FnMut(&Name) -> ResourceId) -> Self {
        let mut amounts: Vec<(ResourceId, Amount)> = requests
            .iter()
            .filter(|(name, amount)| *amount > 0 && &**name != PODS)
            .map(|(name, amount)| (number(name), *amount))
            .collect();
        amounts.push((PODS_ID, 1));
        Demand { amounts, assumed: (assumed.0.max(0), assumed.1.max(0)), capped: false }
    }

    pub fn get(&self, id: ResourceId) -> Amount {
        self.amounts.iter().find(|(r, _)| *r == id).map_or(0, |(_, a)| *a)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_given_back_when_no_pod_has_it_and_nobody_else_named_it() {
        let mut names = ResourceNames::default();
        let (a, b) = (Name::from("a"), Name::from("b"));
        let first = names.lend(&a);
        assert_eq!(names.lend(&a), first);
        names.give_back(first);
        assert_eq!(names.find(&a), Some(first), "one pod has it still");
        names.give_back(first);
        assert_eq!((names.find(&a), names.lend(&b)), (None, first), "its number goes to another");
        assert_eq!(names.intern(&b), first);
        names.give_back(first);
        assert_eq!(names.find(&b), Some(first), "a node has it");
    }

    #[test]
    fn pods_bring_as_many_names_as_they_may_and_no_more() {
        let mut names = ResourceNames::default();
        let lent: Vec<ResourceId> = (0..POD_NAMES_MAX).map(|i| names.lend(&format!("n{i}").into())).collect();
        assert!(names.has_room_for(0) && !names.has_room_for(1));
        names.intern(&"n0".into());
        assert!(names.has_room_for(1), "it is a node's now");
        lent.into_iter().for_each(|id| names.give_back(id));
        assert!(names.has_room_for(POD_NAMES_MAX));
    }
}
