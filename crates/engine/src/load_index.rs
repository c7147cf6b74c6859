//! Nodes sorted by how full they are, so that the best one for a pod of a new shape is found without a look at all.
//!
//! Nodes of like load lie together in blocks, and a block knows bounds of all that the scores of load are made of: no
//! node of it has more points than [`Bounds::most`]. A search looks at the blocks in order of that, and stops when no
//! block that is left can hold a better node. Filters only take nodes away, so the bounds hold whatever the filters
//! are; a pod that has other scores than those of load is not searched for here.
//!
//! A change of a node changes the bounds of its block at once. Blocks grow wide as their nodes part, and are dealt anew
//! when as many nodes changed as a quarter of all.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::fact::Amount;
use crate::nodes::{NodeId, Nodes};
use crate::place::{Answer, Question};
use crate::resources::ResourceId;
use crate::score::resources::{Bounds, COORDINATES, Coordinates};
use crate::world::World;

/// With fewer nodes than this there is nothing to gain.
const NODES_MIN: usize = 128;

/// Nodes of a block: few enough that their loads are alike, many enough that there are few blocks.
const BLOCK: usize = 32;

#[derive(Debug, Clone, Default)]
pub(crate) struct LoadIndex(Arc<Blocks>);

#[derive(Debug, Clone, Default)]
struct Blocks {
    /// Where in the log of nodes it stands.
    position: u64,
    /// How many nodes changed since the blocks were dealt.
    changes: usize,
    /// How many nodes were found by a look at all since the blocks could no longer be brought up to date.
    missed: u32,
    /// The nodes, block after block.
    order: Vec<NodeId>,
    /// Where in `order` a node is.
    at: Vec<u32>,
    bounds: Vec<Bounds>,
    /// How many resources nodes had.
    columns: usize,
    /// By resource, by block: the most that a node of it has free.
    free: Vec<Vec<Amount>>,
}

impl Blocks {
    fn deal(nodes: &Nodes) -> Self {
        let limit = nodes.limit();
        let mut order: Vec<NodeId> = (0..limit as u32).map(NodeId).collect();
        let loads: Vec<Coordinates> = order.iter().map(|node| nodes.load(*node).coordinates()).collect();
        sort_by_load(&loads, &mut order);
        let mut at = vec![0; limit];
        for (place, node) in order.iter().enumerate() {
            at[node.at()] = place as u32;
        }
        let count = limit.div_ceil(BLOCK);
        let column = |resource: usize| match nodes.free_of(ResourceId(resource as u32)) {
            Some(_) => vec![Amount::MIN; count],
            None => Vec::new(),
        };
        let free = (0..nodes.resource_count()).map(column).collect();
        let bounds = vec![Bounds::default(); count];
        let (position, columns) = (nodes.log_end(), nodes.columns());
        let mut blocks = Blocks { position, changes: 0, missed: 0, order, at, bounds, columns, free };
        for block in 0..count {
            blocks.refresh(nodes, block);
        }
        blocks
    }

    fn members(&self, block: usize) -> &[NodeId] {
        &self.order[block * BLOCK..((block + 1) * BLOCK).min(self.order.len())]
    }

    /// Finds the bounds of a block anew.
    fn refresh(&mut self, nodes: &Nodes, block: usize) {
        let mut bounds = Bounds::default();
        for node in self.members(block) {
            bounds.include(nodes.load(*node));
        }
        self.bounds[block] = bounds;
        for resource in 0..self.free.len() {
            let Some(column) = nodes.free_of(ResourceId(resource as u32)) else { continue };
            let most = self.members(block).iter().map(|node| column.get(node.at()).copied().unwrap_or(0)).max();
            self.free[resource][block] = most.unwrap_or(Amount::MIN);
        }
    }

    /// Takes in what changed since, or deals all anew, which costs as much as a few looks at every node: it is done
    /// when it would have been of use more often. Returns whether the blocks are as things stand.
    fn catch_up(&mut self, nodes: &Nodes) -> bool {
        const MISSED_MAX: u32 = 4;
        let changed =
            nodes.changed_since(self.position).filter(|changed| changed.len() + self.changes <= nodes.limit() / 4);
        let Some(changed) = changed.filter(|_| self.at.len() == nodes.limit() && self.columns == nodes.columns())
        else {
            let deals = self.missed >= MISSED_MAX;
            if deals {
                *self = Blocks::deal(nodes);
            }
            return deals;
        };
        self.changes += changed.len();
        let mut last = None;
        for node in changed {
            if last.replace(*node) != Some(*node) {
                self.refresh(nodes, self.at[node.at()] as usize / BLOCK);
            }
        }
        self.position = nodes.log_end();
        true
    }
}

/// Sorts nodes so that those whose loads are alike lie together, in pieces that end where blocks do.
fn sort_by_load(loads: &[Coordinates], order: &mut [NodeId]) {
    if order.len() <= BLOCK {
        return;
    }
    let range = |key: usize| {
        let values = order.iter().map(|node| loads[node.at()][key]);
        let (least, most) = values.fold((i64::MAX, i64::MIN), |(least, most), v| (least.min(v), most.max(v)));
        most - least
    };
    let widest = (0..COORDINATES).max_by_key(|key| (range(*key), Reverse(*key))).unwrap_or(0);
    let middle = (order.len() / 2).next_multiple_of(BLOCK);
    order.select_nth_unstable_by_key(middle, |node| (loads[node.at()][widest], *node));
    let (low, high) = order.split_at_mut(middle);
    sort_by_load(loads, low);
    sort_by_load(loads, high);
}

impl World {
    /// The best node for a pod whose only scores are those of load. `None` if it has others, or if there are too few
    /// nodes for it to be worth it; and where none fits, which has to be counted at every node.
    pub fn best_by_load(&mut self, question: &Question) -> Option<Answer> {
        if !self.is_found_by_load(question) {
            return None;
        }
        let mut index = std::mem::take(&mut self.load_index);
        let is_current = Arc::make_mut(&mut index.0).catch_up(&self.nodes);
        let best = is_current.then(|| self.search_blocks(question, &index.0)).flatten();
        self.load_index = index;
        best.map(Answer::Node)
    }

    /// A node was found by a look at all of them: the index would have been of use, if it could have told.
    pub fn note_found_by_scan(&mut self, question: &Question) {
        if self.is_found_by_load(question) {
            Arc::make_mut(&mut self.load_index.0).missed += 1;
        }
    }

    /// Whether a pod has no other scores than those of load and goes by nothing else that differs much between nodes,
    /// and there are enough nodes for an index to be worth it.
    pub fn is_found_by_load(&self, question: &Question) -> bool {
        let shape = self.shapes.get(question.shape);
        let spec = shape.spec();
        let has_other_scores = self.node_rules.get(question.rule).classes().len() > 1
            || shape.is_related()
            || !spec.images.is_empty()
            || question.has_inclinations()
            || question.devices.is_some()
            || spec.capped.is_some();
        !has_other_scores && self.nodes.limit() >= NODES_MIN
    }

    fn search_blocks(&self, question: &Question, blocks: &Blocks) -> Option<NodeId> {
        let shape = self.shapes.get(question.shape);
        let wanted = &shape.demand.amounts;
        let columns: Option<Vec<(&[Amount], Amount)>> =
            wanted.iter().map(|(resource, amount)| Some((self.nodes.free_of(*resource)?, *amount))).collect();
        let columns = columns?;
        let has_room = |block: &usize| wanted.iter().all(|(r, amount)| blocks.free[r.0 as usize][*block] >= *amount);
        let rooms = (0..blocks.bounds.len()).filter(has_room);
        let mut heap: BinaryHeap<(i64, usize)> = rooms.map(|at| (blocks.bounds[at].most(&shape.size), at)).collect();
        let flags = self.node_rules.get(question.rule).all_flags();
        let mut best: Option<(i64, Reverse<u64>, NodeId)> = None;
        while let Some((most, block)) = heap.pop() {
            if best.is_some_and(|(points, ..)| most < points) {
                break;
            }
            for node in blocks.members(block) {
                if flags[node.at()] != 0 || columns.iter().any(|(free, amount)| free[node.at()] < *amount) {
                    continue;
                }
                let candidate = (self.nodes.load(*node).points(&shape.size), Reverse(self.nodes.rank(*node)), *node);
                if best.is_none_or(|best| candidate > best) && self.closed_by(question, *node).is_none() {
                    best = Some(candidate);
                }
            }
        }
        best.map(|(_, _, node)| node)
    }
}

#[cfg(test)]
mod tests {
    use crate::decision::{Budget, Decision};
    use crate::engine::{Engine, Settings};
    use crate::fact::{Amounts, Fact, Name, NodeFact, Phase, PodFact, PodSpec, Tick};

    /// A number that looks random, the same each time.
    fn mixed(seed: u64) -> u64 {
        let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x ^ (x >> 27)
    }

    fn node(number: u64) -> NodeFact {
        let cores = [8_000, 16_000, 64_000, 0][(mixed(number) % 16 / 5) as usize];
        let amounts = [("cpu", cores), ("memory", 4 * cores * 1_000_000), ("pods", 40)];
        let name = Name::from(format!("node-{number}"));
        let allocatable = amounts.into_iter().map(|(name, amount)| (Name::from(name), amount));
        NodeFact { name, allocatable: Amounts::from_iter(allocatable), ..NodeFact::default() }
    }

    fn pod(number: u64, shapes: u64) -> PodFact {
        let shape = number % shapes;
        let (cpu, memory) = ((mixed(shape) % 2_000) as i64, (mixed(shape + 1) % 8_000_000_000) as i64);
        let requests = Amounts::from_iter([(Name::from("cpu"), cpu), (Name::from("memory"), memory)]);
        let name = Name::from(format!("pod-{number}"));
        let spec = PodSpec { requests, assumed: (cpu.max(100), memory.max(1 << 27)), ..PodSpec::default() };
        PodFact {
            namespace: Name::from("a"),
            uid: name.clone(),
            name,
            spec: std::sync::Arc::new(spec),
            phase: Phase::Pending,
            ours: true,
            ..PodFact::default()
        }
    }

    /// Every pod has a shape of its own, so every one is searched for; the engine itself compares each answer with a
    /// look at every node while this runs. Nodes and pods come and go in between.
    #[test]
    fn pods_that_are_all_different_get_the_best_node() {
        fill(u64::MAX);
    }

    /// So many shapes in turn that the index is searched for some, and others are found among those that are kept.
    #[test]
    fn pods_of_many_shapes_in_turn_get_the_best_node() {
        [7, 45, 90].into_iter().for_each(fill);
    }

    fn fill(shapes: u64) {
        let mut engine = Engine::new(Settings::default());
        (0..400).for_each(|number| engine.observe(Tick(0), Fact::Node(node(number))));
        let mut bound = 0;
        for round in 0..30u64 {
            (0..60).for_each(|number| engine.observe(Tick(0), Fact::Pod(pod(1000 * round + 7 * number, shapes))));
            for decision in engine.decide(Tick(0), Budget::default()).list {
                let Decision::Bind { pod: key, node, .. } = decision else { continue };
                bound += 1;
                let number = key.name.trim_start_matches("pod-").parse().expect("names end with a number");
                let fact = PodFact { phase: Phase::Running, node: Some(node), ..pod(number, shapes) };
                let gone = number % 3 == 0;
                engine.observe(Tick(0), Fact::Pod(fact));
                if gone {
                    engine.observe(Tick(0), Fact::PodGone(key));
                }
            }
            if round % 7 == 3 {
                engine.observe(Tick(0), Fact::NodeGone(Name::from(format!("node-{}", 3 * round))));
                engine.observe(Tick(0), Fact::Node(node(400 + round)));
            }
        }
        assert!(bound > 1_500, "{bound} of 1,800 pods were bound");
        let dealt = engine.world.load_index.0.order.len();
        assert!(dealt > 400, "the index was in use, with {dealt} nodes");
    }
}
