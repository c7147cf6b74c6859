//! Domains: nodes that share the value of a label, for every label key that some rule spreads or gathers pods by.

use crate::fact::Name;
use crate::limits::POD_NAMES_MAX;
use crate::lookup::LookupMap;
use crate::nodes::{NodeId, Nodes};
use crate::score::spread::ln1024;

/// A topology key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TopoId(pub u32);

/// A value of a topology key; [`NO_DOMAIN`] for nodes without the label.
pub(crate) type DomainId = u32;
pub(crate) const NO_DOMAIN: DomainId = u32::MAX;

/// With more domains than this a key is *fine*: what depends on it is decided node by node. With fewer it is
/// *coarse*, and decided domain by domain.
const COARSE_MAX: usize = 64;

#[derive(Debug, Clone)]
struct Topology {
    key: Name,
    /// How often pods' shapes have it.
    users: u32,
    /// Empty for a key that no node had since it was named.
    domain_of: Vec<DomainId>,
    ids: LookupMap<Name, DomainId>,
    members: Vec<Vec<NodeId>>,
    /// Domains that have a node.
    inhabited: usize,
    /// The logarithm of that number and two, as the spread score takes it.
    ln1024: i64,
}

impl Default for Topology {
    fn default() -> Self {
        Topology {
            key: Name::default(),
            users: 0,
            domain_of: Vec::new(),
            ids: LookupMap::default(),
            members: Vec::new(),
            inhabited: 0,
            ln1024: ln1024(2),
        }
    }
}

/// The domains of nodes by one key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Domains<'a>(&'a [DomainId]);

impl Domains<'_> {
    pub fn of(self, node: NodeId) -> DomainId {
        self.0.get(node.at()).copied().unwrap_or(NO_DOMAIN)
    }
}

/// So many keys that no pod names any more are remembered, since others of a kind often follow.
const IDLE_MAX: usize = 256;

/// All topology keys that are in use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Topologies {
    list: Vec<Topology>,
    ids: LookupMap<Name, TopoId>,
    vacant: Vec<TopoId>,
    /// How many have no users.
    idle: usize,
    /// Counts how often a key turned from coarse to fine or back.
    pub grain_epoch: u64,
}

impl Topologies {
    /// The number of a key for as long as it is not given back.
    pub fn lend(&mut self, key: &Name, nodes: &Nodes) -> TopoId {
        if let Some(id) = self.ids.get(key) {
            let users = &mut self.list[id.0 as usize].users;
            self.idle -= usize::from(*users == 0);
            *users += 1;
            return *id;
        }
        let topology = Topology { key: key.clone(), users: 1, ..Topology::default() };
        let id = match self.vacant.pop() {
            Some(id) => {
                self.list[id.0 as usize] = topology;
                id
            }
            None => {
                self.list.push(topology);
                TopoId(self.list.len() as u32 - 1)
            }
        };
        self.ids.insert(key.clone(), id);
        for node in nodes.by_name() {
            self.place(id, node, nodes);
        }
        id
    }

    /// Takes a number back that was lent.
    pub fn give_back(&mut self, id: TopoId) {
        let users = &mut self.list[id.0 as usize].users;
        *users -= 1;
        self.idle += usize::from(*users == 0);
    }

    /// Forgets the keys without users, where there are many. Returns whether it did.
    pub fn forget_idle(&mut self) -> bool {
        if self.idle <= IDLE_MAX {
            return false;
        }
        for (i, topology) in self.list.iter_mut().enumerate() {
            if topology.users == 0 && self.ids.remove(&topology.key).is_some() {
                *topology = Topology::default();
                self.vacant.push(TopoId(i as u32));
            }
        }
        self.idle = 0;
        true
    }

    /// Whether a key is new, and no node has it.
    pub fn is_new(&self, key: &Name, nodes: &Nodes) -> bool {
        !self.ids.contains_key(key) && !nodes.has_label(key)
    }

    /// Whether pods may bring so many keys more that no node has.
    pub fn has_room_for(&self, more: usize) -> bool {
        let is_of_pods = |topology: &&Topology| topology.users > 0 && topology.inhabited == 0;
        self.list.len() + more <= POD_NAMES_MAX || self.list.iter().filter(is_of_pods).count() + more <= POD_NAMES_MAX
    }

    /// Takes in that a node's labels or presence changed.
    pub fn node_changed(&mut self, node: NodeId, nodes: &Nodes) {
        for i in 0..self.list.len() {
            self.place(TopoId(i as u32), node, nodes);
        }
    }

    fn place(&mut self, id: TopoId, node: NodeId, nodes: &Nodes) {
        let was_fine = self.is_fine(id);
        let topology = &mut self.list[id.0 as usize];
        let inhabited = topology.inhabited;
        let value = if nodes.is_present(node) { nodes.get(node).labels.get(&topology.key).cloned() } else { None };
        if topology.domain_of.len() <= node.at() {
            if value.is_none() {
                return; // It has none, and had none.
            }
            topology.domain_of.resize(node.at() + 1, NO_DOMAIN);
        }
        let new = match value {
            None => NO_DOMAIN,
            Some(value) => {
                let next = topology.members.len() as DomainId;
                let domain = *topology.ids.or_insert_with(value, || next);
                if domain == next {
                    topology.members.push(Vec::new());
                }
                domain
            }
        };
        let old = std::mem::replace(&mut topology.domain_of[node.at()], new);
        if old == new {
            return;
        }
        if old != NO_DOMAIN {
            let members = &mut topology.members[old as usize];
            members.retain(|n| *n != node);
            topology.inhabited -= usize::from(members.is_empty());
        }
        if new != NO_DOMAIN {
            let members = &mut topology.members[new as usize];
            topology.inhabited += usize::from(members.is_empty());
            members.push(node);
        }
        if topology.inhabited != inhabited {
            topology.ln1024 = ln1024(topology.inhabited as u64 + 2);
        }
        if self.is_fine(id) != was_fine {
            self.grain_epoch += 1;
        }
    }

    pub fn domain(&self, id: TopoId, node: NodeId) -> DomainId {
        self.domains(id).of(node)
    }

    /// One more than the largest domain number in use.
    pub fn domain_limit(&self, id: TopoId) -> usize {
        self.list[id.0 as usize].members.len()
    }

    /// The logarithm of how many values the key has among the nodes, and two.
    pub fn ln1024(&self, id: TopoId) -> i64 {
        self.list[id.0 as usize].ln1024
    }

    /// The domain of each node by number; nodes beyond the end have none.
    pub fn domains(&self, id: TopoId) -> Domains<'_> {
        Domains(&self.list[id.0 as usize].domain_of)
    }

    pub fn members(&self, id: TopoId, domain: DomainId) -> &[NodeId] {
        &self.list[id.0 as usize].members[domain as usize]
    }

    pub fn is_fine(&self, id: TopoId) -> bool {
        self.list[id.0 as usize].inhabited > COARSE_MAX
    }
}
