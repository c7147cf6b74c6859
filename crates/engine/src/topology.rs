//! Domains: nodes that share the value of a label, for every label key that some rule spreads or gathers pods by.

use crate::fact::Name;
use crate::lookup::LookupMap;
use crate::nodes::{NodeId, Nodes};
use crate::score::spread::ln1024;

/// A topology key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TopoId(pub u16);

/// A value of a topology key; [`NO_DOMAIN`] for nodes without the label.
pub(crate) type DomainId = u32;
pub(crate) const NO_DOMAIN: DomainId = u32::MAX;

/// With more domains than this a key is *fine*: what depends on it is decided node by node. With fewer it is
/// *coarse*, and decided domain by domain.
const COARSE_MAX: usize = 64;

#[derive(Debug, Clone)]
struct Topology {
    key: Name,
    domain_of: Vec<DomainId>,
    ids: LookupMap<Name, DomainId>,
    members: Vec<Vec<NodeId>>,
    /// Domains that have a node.
    inhabited: usize,
    /// The logarithm of that number and two, as the spread score takes it.
    ln1024: i64,
}

/// The domains of nodes by one key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Domains<'a>(&'a [DomainId]);

impl Domains<'_> {
    pub fn of(self, node: NodeId) -> DomainId {
        self.0.get(node.at()).copied().unwrap_or(NO_DOMAIN)
    }
}

/// All topology keys that are in use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Topologies {
    list: Vec<Topology>,
    ids: LookupMap<Name, TopoId>,
    /// Counts how often a key turned from coarse to fine or back.
    pub grain_epoch: u64,
}

impl Topologies {
    pub fn intern(&mut self, key: &Name, nodes: &Nodes) -> TopoId {
        if let Some(id) = self.ids.get(key) {
            return *id;
        }
        // Keys come from pod templates; a cluster has a handful.
        let id = TopoId(u16::try_from(self.list.len()).expect("fewer than 65,536 topology keys"));
        self.ids.insert(key.clone(), id);
        self.list.push(Topology {
            key: key.clone(),
            domain_of: Vec::new(),
            ids: LookupMap::default(),
            members: Vec::new(),
            inhabited: 0,
            ln1024: ln1024(2),
        });
        for node in nodes.by_name() {
            self.place(id, node, nodes);
        }
        id
    }

    /// Takes in that a node's labels or presence changed.
    pub fn node_changed(&mut self, node: NodeId, nodes: &Nodes) {
        for i in 0..self.list.len() {
            self.place(TopoId(i as u16), node, nodes);
        }
    }

    fn place(&mut self, id: TopoId, node: NodeId, nodes: &Nodes) {
        let was_fine = self.is_fine(id);
        let topology = &mut self.list[id.0 as usize];
        let inhabited = topology.inhabited;
        if topology.domain_of.len() <= node.at() {
            topology.domain_of.resize(node.at() + 1, NO_DOMAIN);
        }
        let value = if nodes.is_present(node) { nodes.get(node).labels.get(&topology.key).cloned() } else { None };
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
