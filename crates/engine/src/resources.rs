//! Resource names as small numbers, and request vectors in them.

use crate::fact::{Amount, Amounts, CPU, MEMORY, Name, PODS};
use crate::lookup::LookupMap;

/// A resource that was named by a node or a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ResourceId(pub u16);

pub(crate) const CPU_ID: ResourceId = ResourceId(0);
pub(crate) const MEMORY_ID: ResourceId = ResourceId(1);
pub(crate) const PODS_ID: ResourceId = ResourceId(2);

/// All resources named so far. Numbers are in order of first sight and only ever compared for
/// equality; cpu, memory and pods have theirs from the start.
#[derive(Debug, Clone)]
pub(crate) struct ResourceNames {
    names: Vec<Name>,
    ids: LookupMap<Name, ResourceId>,
}

impl Default for ResourceNames {
    fn default() -> Self {
        let mut names = ResourceNames { names: Vec::new(), ids: LookupMap::default() };
        for name in [CPU, MEMORY, PODS] {
            names.intern(&Name::from(name));
        }
        names
    }
}

impl ResourceNames {
    pub fn intern(&mut self, name: &Name) -> ResourceId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        // A cluster names some dozens of resources; 65,535 are beyond any API server's objects.
        let id = ResourceId(u16::try_from(self.names.len()).expect("fewer than 65,536 resource names"));
        self.names.push(name.clone());
        self.ids.insert(name.clone(), id);
        id
    }

    /// The number of a resource that was named before.
    pub fn find(&self, name: &Name) -> Option<ResourceId> {
        self.ids.get(name).copied()
    }

    pub fn name(&self, id: ResourceId) -> &Name {
        &self.names[id.0 as usize]
    }

    pub fn len(&self) -> usize {
        self.names.len()
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
    pub fn new(requests: &Amounts, assumed: (Amount, Amount), names: &mut ResourceNames) -> Self {
        let mut amounts: Vec<(ResourceId, Amount)> = requests
            .iter()
            .filter(|(name, amount)| *amount > 0 && &**name != PODS)
            .map(|(name, amount)| (names.intern(name), *amount))
            .collect();
        amounts.push((PODS_ID, 1));
        Demand { amounts, assumed: (assumed.0.max(0), assumed.1.max(0)), capped: false }
    }

    pub fn get(&self, id: ResourceId) -> Amount {
        self.amounts.iter().find(|(r, _)| *r == id).map_or(0, |(_, a)| *a)
    }
}
