//! The nodes: what each has, what is used and reserved of it, and a log of which ones changed.
//!
//! Nodes are numbered; amounts lie in one array per resource, so that a scan over nodes reads
//! memory in order. Every change appends the node's number to a log, and whoever keeps something
//! derived from nodes keeps a position in that log and catches up on what changed since.

mod columns;
mod usage;

use std::collections::{BTreeMap, BTreeSet};

use crate::cap::Cap;
use crate::fact::{Amount, Effect, HostPort, Labels, Limits, Name, NodeCard, NodeFact, Taint};
use crate::lookup::LookupMap;
use crate::resources::{CPU_ID, Demand, MEMORY_ID, ResourceId, ResourceNames};
use crate::score::resources::Load;
use crate::sign::Sign;

/// A node's number. Numbers are reused after a node has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(pub u32);

impl NodeId {
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// What is known of a node beside its amounts.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub name: Name,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    /// The features that it declares.
    pub features: Vec<Name>,
    pub unschedulable: bool,
    pub images: Vec<(Vec<Name>, u64)>,
    /// Whether a node object is there. Pods can be seen before their node and outlive it.
    pub present: bool,
    /// Host ports in use, with how many hold each.
    pub ports: Vec<(HostPort, u32)>,
    /// Volumes attached, by (driver, handle), with how many pods use each.
    pub attached: BTreeMap<(Name, Name), u32>,
    /// Disks in use: by id, how many pods write and how many read.
    pub disks: BTreeMap<Name, (u32, u32)>,
    /// How many volumes of a driver may be attached.
    pub attach_limits: Vec<(Name, u32)>,
    /// What pods without GPUs may hold here, and hold.
    pub cap: Cap,
    /// Its kinds of card: the resource by which they are asked for, and the name by which they are counted.
    pub cards: Vec<(ResourceId, ResourceId)>,
    /// Amounts held by pods and reservations, exactly, by resource number.
    held: Vec<i128>,
    reserved: Vec<i128>,
    /// Of what is held, by pods that are leaving.
    leaving: Vec<i128>,
    assumed: [i128; 2],
}

/// What an amount on a node is counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    Held,
    Reserved,
    Leaving,
}

/// All nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Nodes {
    list: Vec<Node>,
    ids: LookupMap<Name, NodeId>,
    vacant: Vec<NodeId>,
    /// Nodes with a number whose object is not there.
    absent: BTreeSet<NodeId>,
    /// By resource, by node: allocatable − held − reserved, cut off at the ends of 64 bits. A cut-off value
    /// compares with any request as the true one would. The columns of resources that no node has are empty: pods
    /// name what they like.
    free: Vec<Vec<Amount>>,
    allocatable: Vec<Vec<Amount>>,
    /// How many columns are not empty.
    columns: usize,
    load: Vec<Load>,
    present: Vec<bool>,
    present_count: usize,
    /// Position of the name among all, with gaps: names compare as their ranks do.
    rank: Vec<u64>,
    by_name: BTreeMap<Name, NodeId>,
    log: Vec<NodeId>,
    /// How many entries were dropped from the log's front.
    log_base: u64,
    /// Counts changes in kind: labels, taints, coming and going.
    pub epoch: u64,
    /// The epoch of each node's last change in kind.
    kind_epoch: Vec<u64>,
    /// Changed when ranks were dealt anew.
    pub rank_epoch: u64,
    /// How many nodes have a label, by its key.
    label_nodes: LookupMap<Name, u32>,
    /// How many nodes have an image, by any of its names.
    image_nodes: LookupMap<Name, u32>,
    /// Counts changes of images and of the number of nodes.
    pub image_epoch: u64,
}

const CLAMP_LOW: i128 = i64::MIN as i128;
const CLAMP_HIGH: i128 = i64::MAX as i128;

fn clamp(x: i128) -> Amount {
    x.clamp(CLAMP_LOW, CLAMP_HIGH) as i64
}

impl Nodes {
    pub fn get(&self, id: NodeId) -> &Node {
        &self.list[id.at()]
    }

    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.ids.get(name).copied()
    }

    /// The node of that name if its object is there.
    pub fn find_present(&self, name: &str) -> Option<NodeId> {
        self.find(name).filter(|id| self.present[id.at()])
    }

    pub fn is_present(&self, id: NodeId) -> bool {
        self.present[id.at()]
    }

    pub fn present_count(&self) -> usize {
        self.present_count
    }

    /// One more than the largest number in use.
    pub fn limit(&self) -> usize {
        self.list.len()
    }

    /// The nodes that are there, by name.
    pub fn by_name(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.by_name.values().copied().filter(|id| self.present[id.at()])
    }

    pub fn rank(&self, id: NodeId) -> u64 {
        self.rank[id.at()]
    }

    pub fn load(&self, id: NodeId) -> &Load {
        &self.load[id.at()]
    }

    pub fn free(&self, resource: ResourceId, id: NodeId) -> Amount {
        self.free_of(resource).map_or(0, |column| column[id.at()])
    }

    /// What is free of a resource on every node, by number; `None` for one that no node has.
    pub fn free_of(&self, resource: ResourceId) -> Option<&[Amount]> {
        self.free.get(resource.0 as usize).map(Vec::as_slice).filter(|column| !column.is_empty())
    }

    /// How many resources have a column, be it an empty one.
    pub fn resource_count(&self) -> usize {
        self.free.len()
    }

    /// How many resources some node has or had.
    pub fn columns(&self) -> usize {
        self.columns
    }

    pub fn allocatable(&self, resource: ResourceId, id: NodeId) -> Amount {
        self.allocatable.get(resource.0 as usize).and_then(|column| column.get(id.at())).copied().unwrap_or(0)
    }

    /// What pods hold of a resource.
    pub fn held(&self, resource: ResourceId, id: NodeId) -> i128 {
        self.list[id.at()].held.get(resource.0 as usize).copied().unwrap_or(0)
    }

    /// What reservations hold of a resource.
    pub fn reserved(&self, resource: ResourceId, id: NodeId) -> i128 {
        self.list[id.at()].reserved.get(resource.0 as usize).copied().unwrap_or(0)
    }

    /// What will be held of a resource when all who leave are gone and all who hold a reservation have come.
    pub fn to_be_held(&self, resource: ResourceId, id: NodeId) -> i128 {
        let leaving = self.list[id.at()].leaving.get(resource.0 as usize).copied().unwrap_or(0);
        self.held(resource, id) - leaving + self.reserved(resource, id)
    }

    pub fn image_nodes(&self, image: &Name) -> u32 {
        self.image_nodes.get(image).copied().unwrap_or(0)
    }

    /// The log's end: what is appended later is at or after this position.
    pub fn log_end(&self) -> u64 {
        self.log_base + self.log.len() as u64
    }

    /// What changed since a position, or `None` if the log no longer goes back that far.
    pub fn changed_since(&self, position: u64) -> Option<&[NodeId]> {
        let skip = position.checked_sub(self.log_base)?;
        Some(&self.log[skip as usize..])
    }

    /// Notes that something about the node changed.
    pub fn touch(&mut self, id: NodeId) {
        // Long enough that a shape which rests for some thousand decisions catches up instead of scanning anew,
        // short enough to be nothing (4 bytes an entry).
        const LOG_MAX: usize = 1 << 18;
        if self.log.len() >= LOG_MAX {
            let drop = LOG_MAX / 2;
            self.log.drain(..drop);
            self.log_base += drop as u64;
        }
        self.log.push(id);
    }

    /// The node of that name, numbered now if it was never seen.
    pub fn number(&mut self, name: &Name) -> NodeId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let node = Node {
            name: name.clone(),
            labels: Labels::default(),
            taints: Vec::new(),
            features: Vec::new(),
            unschedulable: false,
            images: Vec::new(),
            present: false,
            ports: Vec::new(),
            attached: BTreeMap::new(),
            disks: BTreeMap::new(),
            attach_limits: Vec::new(),
            cap: Cap::default(),
            cards: Vec::new(),
            held: Vec::new(),
            leaving: Vec::new(),
            reserved: Vec::new(),
            assumed: [0; 2],
        };
        let id = match self.vacant.pop() {
            Some(id) => {
                self.list[id.at()] = node;
                id
            }
            None => {
                self.list.push(node);
                for column in self.free.iter_mut().chain(&mut self.allocatable).filter(|column| !column.is_empty()) {
                    column.push(0);
                }
                self.load.push(Load::default());
                self.present.push(false);
                self.rank.push(0);
                self.kind_epoch.push(0);
                NodeId(self.list.len() as u32 - 1)
            }
        };
        self.ids.insert(name.clone(), id);
        self.by_name.insert(name.clone(), id);
        self.absent.insert(id);
        self.deal_rank(name, id);
        id
    }

    /// Gives the node a rank between its neighbours', or deals all ranks anew where no gap is left.
    fn deal_rank(&mut self, name: &Name, id: NodeId) {
        let below = self.by_name.range::<Name, _>(..name).next_back().map_or(0, |(_, n)| self.rank[n.at()]);
        let above = self
            .by_name
            .range::<Name, _>((std::ops::Bound::Excluded(name), std::ops::Bound::Unbounded))
            .next()
            .map_or(u64::MAX, |(_, n)| self.rank[n.at()]);
        let middle = below + (above - below) / 2;
        // Names often come in order; a fixed step then leaves room for far more than halving would.
        let rank = if above == u64::MAX { below.saturating_add(1 << 40).min(middle) } else { middle };
        if rank > below && rank < above {
            self.rank[id.at()] = rank;
            return;
        }
        self.rank_epoch += 1;
        for (i, id) in self.by_name.values().enumerate() {
            self.rank[id.at()] = (i as u64 + 1) << 40;
        }
    }

    /// Whether a fact says nothing new of a node.
    pub fn knows(&self, id: NodeId, fact: &NodeFact, names: &ResourceNames) -> bool {
        let NodeFact {
            name: _,
            labels,
            taints,
            unschedulable,
            allocatable,
            images,
            cap,
            cap_with_devices,
            cards,
            features,
        } = fact;
        let node = &self.list[id.at()];
        let number = |name: &Name| names.find(name);
        let has = |(name, amount): &(Name, Amount)| number(name).map_or(0, |r| self.allocatable(r, id)) == *amount;
        let is_same_cap = node.cap.is_declared_as([cap, cap_with_devices].map(Option::as_ref), names);
        let named = allocatable.iter().filter(|(_, amount)| *amount != 0).count();
        let has_card = |card: &NodeCard| match (number(&card.resource), number(&card.name)) {
            (Some(resource), Some(name)) => node.cards.contains(&(resource, name)),
            _ => false,
        };
        node.present
            && node.labels == *labels
            && node.taints == *taints
            && node.unschedulable == *unschedulable
            && node.images == *images
            && node.features == *features
            && is_same_cap
            && node.cards.len() == cards.len()
            && cards.iter().all(has_card)
            && allocatable.iter().all(has)
            && self.allocatable.iter().filter(|column| column.get(id.at()).is_some_and(|amount| *amount != 0)).count()
                == named
    }

    /// Takes in a node object. Returns whether labels, taints, cordon or presence changed.
    pub fn observe(&mut self, fact: NodeFact, names: &mut ResourceNames) -> (NodeId, bool) {
        let id = self.number(&fact.name);
        let mut cards: Vec<(ResourceId, ResourceId)> =
            fact.cards.iter().map(|card| (names.intern(&card.resource), names.intern(&card.name))).collect();
        cards.sort_unstable();
        let node = &mut self.list[id.at()];
        let kind_changed = !node.present
            || node.cards != cards
            || node.labels != fact.labels
            || node.taints != fact.taints
            || node.features != fact.features
            || node.unschedulable != fact.unschedulable;
        let came = !node.present;
        node.present = true;
        node.cards = cards;
        node.taints = fact.taints;
        node.features = fact.features;
        node.unschedulable = fact.unschedulable;
        if self.list[id.at()].labels != fact.labels {
            self.count_labels(id, Sign::Take);
            self.list[id.at()].labels = fact.labels;
            self.count_labels(id, Sign::Add);
        }
        if came {
            self.present[id.at()] = true;
            self.present_count += 1;
            self.image_epoch += 1;
        }
        if self.list[id.at()].images != fact.images {
            self.count_images(id, Sign::Take);
            self.list[id.at()].images = fact.images;
            self.count_images(id, Sign::Add);
            self.image_epoch += 1;
        }
        let allocatable: Vec<(ResourceId, Amount)> =
            fact.allocatable.iter().map(|(name, amount)| (names.intern(name), *amount)).collect();
        self.set_allocatable(id, &allocatable);
        let mut cap = |limits: &Limits| limits.iter().map(|(name, amount)| (names.intern(name), *amount)).collect();
        let (limits, with_devices) = (fact.cap.as_ref().map(&mut cap), fact.cap_with_devices.as_ref().map(&mut cap));
        self.list[id.at()].cap.set_limits(limits, with_devices);
        if kind_changed {
            self.change_kind(id);
        }
        self.touch(id);
        (id, kind_changed)
    }

    /// The cards that a pod of this size holds on a node, by name.
    pub fn cards_for(&self, id: NodeId, demand: &Demand) -> Vec<(ResourceId, Amount)> {
        let cards = self.list[id.at()].cards.iter().map(|(resource, card)| (*card, demand.get(*resource)));
        cards.filter(|(_, amount)| *amount > 0).collect()
    }

    /// What a node has of everything, cards by name too.
    pub fn all_allocatable(&self, id: NodeId) -> Vec<(ResourceId, Amount)> {
        let resources = (0..self.allocatable.len()).map(|i| ResourceId(i as u32));
        let amounts = resources.map(|resource| (resource, self.allocatable(resource, id)));
        let cards = self.list[id.at()].cards.iter().map(|(resource, card)| (*card, self.allocatable(*resource, id)));
        amounts.chain(cards).filter(|(_, amount)| *amount != 0).collect()
    }

    fn change_kind(&mut self, id: NodeId) {
        self.epoch += 1;
        self.kind_epoch[id.at()] = self.epoch;
    }

    /// Whether the node changed in kind after an epoch.
    pub fn kind_changed_after(&self, id: NodeId, epoch: u64) -> bool {
        self.kind_epoch[id.at()] > epoch
    }

    fn count_images(&mut self, id: NodeId, sign: Sign) {
        let names: BTreeSet<&Name> = self.list[id.at()].images.iter().flat_map(|(names, _)| names).collect();
        for name in names {
            let count = self.image_nodes.or_insert_with(name.clone(), || 0);
            *count = if sign.is_add() { *count + 1 } else { count.saturating_sub(1) };
        }
    }

    /// Takes in whether a node has devices that are GPUs.
    pub fn set_gpu_devices(&mut self, id: NodeId, has_devices: bool) {
        if self.list[id.at()].cap.set_has_devices(has_devices) {
            self.touch(id);
        }
    }

    fn refresh_load(&mut self, id: NodeId) {
        let allocatable = [CPU_ID, MEMORY_ID].map(|r| self.allocatable(r, id));
        let used = [CPU_ID, MEMORY_ID].map(|r| self.held(r, id) + self.reserved(r, id));
        self.load[id.at()].set(allocatable, used, self.list[id.at()].assumed);
    }

    /// The node's object is gone. Its number stays while pods are still on it.
    pub fn gone(&mut self, id: NodeId) {
        if !self.present[id.at()] {
            return;
        }
        self.count_images(id, Sign::Take);
        self.count_labels(id, Sign::Take);
        let node = &mut self.list[id.at()];
        node.present = false;
        node.labels = Labels::default();
        node.taints = Vec::new();
        node.features = Vec::new();
        node.unschedulable = false;
        node.images = Vec::new();
        node.cap.set_limits(None, None);
        self.present[id.at()] = false;
        self.absent.insert(id);
        self.present_count -= 1;
        self.change_kind(id);
        self.image_epoch += 1;
        self.set_allocatable(id, &[]);
        self.touch(id);
    }

    /// Forgets nodes that are not there and that nothing is on. To be called only when no change is under way.
    pub fn forget_idle(&mut self) {
        for id in std::mem::take(&mut self.absent) {
            let node = &self.list[id.at()];
            if node.present {
                continue;
            }
            if !node.attach_limits.is_empty() || node.held.iter().chain(&node.reserved).any(|amount| *amount != 0) {
                self.absent.insert(id);
                continue;
            }
            let name = node.name.clone();
            self.ids.remove(&name);
            self.by_name.remove(&name);
            self.vacant.push(id);
            self.touch(id);
        }
    }

    /// Returns whether they are others than before.
    pub fn set_attach_limits(&mut self, id: NodeId, limits: Vec<(Name, u32)>) -> bool {
        let known = &mut self.list[id.at()].attach_limits;
        if *known == limits {
            return false;
        }
        *known = limits;
        self.touch(id);
        true
    }
}

/// Whether a taint keeps pods away (and does not merely ask them to).
pub(crate) fn repels(taint: &Taint) -> bool {
    matches!(taint.effect, Effect::NoSchedule | Effect::NoExecute)
}
