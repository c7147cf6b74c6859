//! The nodes that take pods of a shape, kept in order of their scores.
//!
//! A decision changes one node, so the next pod of the shape need not look at the others again. For a shape that is
//! asked for more than once, every node's verdict and points are kept; before an answer only the nodes that the log
//! names since are judged anew. Nodes that differ in nothing but their points form a *bucket*: they have the same
//! preferences, and are in the same domains (or, where a key has very many domains, see the same counts). What depends
//! on other pods is then decided bucket by bucket, and of a bucket only the best node matters.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::filter::{Filter, pod_affinity};
use crate::lookup::LookupMap;
use crate::nodes::NodeId;
use crate::place::{Answer, Question};
use crate::scan::{DeviceScores, Taker};
use crate::score;
use crate::shape::{Shape, ShapeId};
use crate::topology::{NO_DOMAIN, TopoId};
use crate::world::World;

/// Everything outside the node log that the kept verdicts rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Basis {
    ranks: u64,
    rules: u64,
    /// For shapes that depend on other pods: nodes' kinds, namespaces, grain of the keys.
    surroundings: Option<(u64, u64, u64)>,
    images: Option<u64>,
}

/// In `verdict`: the node takes the pod as far as it alone is concerned.
const OPEN: u8 = u8::MAX;
/// In `verdict`: there is no such node.
const ABSENT: u8 = u8::MAX - 1;

#[derive(Debug, Clone)]
struct Bucket {
    class: u32,
    /// For each rule about other pods: the domain, or for a key with very many domains the count; [`NOWHERE`] without
    /// the key.
    places: Vec<i64>,
    open: u32,
    /// By points, then by name. Entries that no longer hold are passed over.
    heap: BinaryHeap<(i64, Reverse<u64>, NodeId)>,
}

const NOWHERE: i64 = -1;

/// So many changes of nodes are judged anew in less time than the index of loads takes to search. Each is a few lines
/// of memory that is not at hand.
const CHANGES_FEW: u64 = 64;

/// The kept verdicts of one shape.
#[derive(Debug, Clone)]
pub(crate) struct Candidates {
    basis: Basis,
    position: u64,
    verdict: Vec<u8>,
    bucket: Vec<u32>,
    points: Vec<i64>,
    /// The rank it is listed with: a number may have been given to a node of another name since.
    ranks: Vec<u64>,
    closed: [u32; Filter::COUNT],
    buckets: Vec<Bucket>,
    ids: LookupMap<(u32, Vec<i64>), u32>,
    outgrown: bool,
    used: u64,
}

/// The kept verdicts of all shapes that have some. They are shared with forks: a fork copies those of a shape when it
/// brings them up to date.
#[derive(Debug, Clone, Default)]
pub(crate) struct CandidateCache {
    by_shape: Vec<Option<Arc<Candidates>>>,
    count: usize,
    clock: u64,
}

impl CandidateCache {
    /// How many shapes have their verdicts kept. Each takes some 40 bytes a node: 192 shapes at 15,000 nodes are 115
    /// MB.
    const SHAPES_MAX: usize = 192;

    fn take(&mut self, shape: ShapeId) -> Option<Arc<Candidates>> {
        let taken = self.by_shape.get_mut(shape.0 as usize)?.take();
        self.count -= usize::from(taken.is_some());
        taken
    }

    fn put(&mut self, shape: ShapeId, mut candidates: Arc<Candidates>) {
        self.clock += 1;
        Arc::make_mut(&mut candidates).used = self.clock;
        if self.count >= CandidateCache::SHAPES_MAX {
            let used = |kept: &Option<Arc<Candidates>>| kept.as_ref().map_or(u64::MAX, |c| c.used);
            if let Some(oldest) = self.by_shape.iter_mut().min_by_key(|kept| used(kept)) {
                *oldest = None;
                self.count -= 1;
            }
        }
        if self.by_shape.len() <= shape.0 as usize {
            self.by_shape.resize(shape.0 as usize + 1, None);
        }
        self.by_shape[shape.0 as usize] = Some(candidates);
        self.count += 1;
    }

    /// The shape is forgotten; its number will mean another.
    pub fn forget(&mut self, shape: ShapeId) {
        self.take(shape);
    }

    /// Whether one more shape can be kept without losing one that is in use: with more shapes in turn than are kept,
    /// each would push out the next one needed.
    fn has_room(&mut self, may_push_out: bool) -> bool {
        self.clock += 1;
        if self.count < CandidateCache::SHAPES_MAX || !may_push_out {
            return self.count < CandidateCache::SHAPES_MAX;
        }
        let oldest = self.by_shape.iter().flatten().map(|kept| kept.used).min().unwrap_or(0);
        self.clock - oldest > 8 * CandidateCache::SHAPES_MAX as u64
    }

    /// Up to where in the log of nodes the verdicts of a shape are known, where they are kept.
    fn position(&self, shape: ShapeId) -> Option<u64> {
        self.by_shape.get(shape.0 as usize)?.as_ref().map(|kept| kept.position)
    }
}

impl World {
    /// The best node for the pod: from what is kept of its shape, or by looking at every node.
    pub fn answer(&mut self, question: &Question) -> Answer {
        let now = self.nodes.log_end();
        let shape = self.shapes.get_mut(question.shape);
        shape.asked.times = shape.asked.times.saturating_add(1);
        let is_soon = now - std::mem::replace(&mut shape.asked.at, now) <= CHANGES_FEW;
        shape.asked.soon = if is_soon { shape.asked.soon.saturating_add(1) } else { 0 };
        let (is_asked_again, asked_soon) = (shape.asked.times >= 2, shape.asked.soon);
        // Volumes bind by what all claims are at the moment, devices are anybody's, and inclinations differ by pod:
        // these are looked at anew.
        let keeps = shape.spec().volumes.is_empty() && question.devices.is_none() && !question.has_inclinations();
        // Where the index of loads can tell, it is not worth it to push another shape out, nor to judge more nodes anew
        // than the index looks at: with many shapes in turn, each would judge what all others changed.
        let by_load = self.is_found_by_load(question);
        let behind = self.candidates.position(question.shape).map(|position| now - position);
        let is_worth_it = match behind {
            _ if !by_load => true,
            Some(behind) => behind <= CHANGES_FEW || asked_soon >= 2,
            None => asked_soon > 0,
        };
        if !keeps || !is_worth_it || !(behind.is_some() || (is_asked_again && self.candidates.has_room(!by_load))) {
            return self.scan(question);
        }
        let mut candidates = self.candidates(question);
        let answer = self.choose(question, Arc::make_mut(&mut candidates));
        self.candidates.put(question.shape, candidates);
        answer
    }

    fn basis(&self, shape: &Shape) -> Basis {
        let surroundings = (self.nodes.epoch, self.relations.namespace_epoch(), self.topologies.grain_epoch);
        Basis {
            ranks: self.nodes.rank_epoch,
            rules: self.node_rules.generation,
            surroundings: shape.is_related().then_some(surroundings),
            images: (!shape.spec().images.is_empty()).then_some(self.nodes.image_epoch),
        }
    }

    /// The kept verdicts, brought up to date.
    fn candidates(&mut self, question: &Question) -> Arc<Candidates> {
        let shape = self.shapes.get(question.shape);
        let basis = self.basis(shape);
        let holds = |kept: &Candidates| kept.basis == basis && !kept.outgrown && !question.counted_anew();
        let kept = self.candidates.take(question.shape).filter(|kept| holds(kept));
        if let Some(mut shared) = kept
            && let Some(changed) = self.nodes.changed_since(shared.position)
            && changed.len() < self.nodes.limit().max(64)
        {
            let kept = Arc::make_mut(&mut shared);
            kept.widen(self.nodes.limit());
            let mut last = None;
            for node in changed {
                if last.replace(*node) != Some(*node) {
                    self.judge(question, shape, kept, *node);
                }
            }
            kept.position = self.nodes.log_end();
            return shared;
        }
        let mut fresh = Candidates {
            basis,
            position: self.nodes.log_end(),
            verdict: Vec::new(),
            bucket: Vec::new(),
            points: Vec::new(),
            ranks: Vec::new(),
            closed: [0; Filter::COUNT],
            buckets: Vec::new(),
            ids: LookupMap::default(),
            outgrown: false,
            used: 0,
        };
        fresh.widen(self.nodes.limit());
        for i in 0..self.nodes.limit() {
            self.judge(question, shape, &mut fresh, NodeId(i as u32));
        }
        Arc::new(fresh)
    }

    /// Judges a node anew and moves it to where it belongs.
    fn judge(&self, question: &Question, shape: &Shape, kept: &mut Candidates, node: NodeId) {
        let at = node.at();
        let listed = (kept.verdict[at], kept.bucket[at], kept.points[at], kept.ranks[at]);
        let (old_verdict, old_bucket, ..) = listed;
        let closing = if self.nodes.is_present(node) {
            let rule = self.node_rules.get(question.rule).closed_by(node);
            rule.or_else(|| self.closed_locally(question, shape, node)).map_or(OPEN, |filter| filter as u8)
        } else {
            ABSENT
        };
        match old_verdict {
            OPEN => kept.buckets[old_bucket as usize].open -= 1,
            ABSENT => {}
            filter => kept.closed[filter as usize] -= 1,
        }
        kept.verdict[at] = closing;
        match closing {
            ABSENT => {}
            OPEN => {
                let class = self.node_rules.get(question.rule).class(node);
                let bucket = kept.bucket_of(old_bucket, class, self.places(question, shape, node));
                let (points, rank) = (self.points(shape, node), self.nodes.rank(node));
                kept.bucket[at] = bucket;
                kept.points[at] = points;
                kept.ranks[at] = rank;
                kept.buckets[bucket as usize].open += 1;
                if listed != (OPEN, bucket, points, rank) {
                    kept.list(bucket, points, rank, node);
                }
            }
            filter => kept.closed[filter as usize] += 1,
        }
    }

    /// Where the node is, for each rule of the shape about other pods.
    fn places(&self, question: &Question, shape: &Shape, node: NodeId) -> Vec<i64> {
        if !shape.is_related() {
            return Vec::new();
        }
        let place = |(topology, counter): (TopoId, crate::relations::CounterId)| {
            let domain = self.topologies.domain(topology, node);
            if domain == NO_DOMAIN {
                NOWHERE
            } else if self.topologies.is_fine(topology) {
                self.relations.get(counter).at(domain)
            } else {
                i64::from(domain)
            }
        };
        question.rules(shape).map(place).collect()
    }

    fn choose(&self, question: &Question, kept: &mut Candidates) -> Answer {
        let shape = self.shapes.get(question.shape);
        let rules: Vec<(TopoId, crate::relations::CounterId)> = match shape.is_related() {
            true => question.rules(shape).collect(),
            false => Vec::new(),
        };
        let fine: Vec<bool> = rules.iter().map(|(topology, _)| self.topologies.is_fine(*topology)).collect();
        let mut closed = kept.closed;
        let mut inhabited = 0;
        let mut takers = Vec::new();
        let mut counts = Vec::new();
        for at in 0..kept.buckets.len() {
            let bucket = &kept.buckets[at];
            if bucket.open == 0 {
                continue;
            }
            inhabited += 1;
            counts.clear();
            counts.extend(bucket.places.iter().enumerate().map(|(i, place)| match *place {
                NOWHERE => None,
                count if fine[i] => Some(count),
                domain => Some(self.relations.get(rules[i].1).at(domain as u32)),
            }));
            if let Some(filter) = self.closed_by_counts(question, shape, &counts) {
                closed[filter as usize] += bucket.open;
                continue;
            }
            let class = bucket.class;
            let (top, objected) = self.top(question, kept, at);
            closed[Filter::InterPodAffinity as usize] += objected;
            if let Some((points, node)) = top {
                let (spread, affinity) = self.raw_by_counts(question, shape, &counts);
                takers.push(Taker { node, points, class, spread, affinity });
            }
        }
        // Counts move on and leave empty buckets behind; when these are by far the most, all is sorted anew next time.
        kept.outgrown = kept.buckets.len() > 64 + 4 * inhabited;
        match self.best(self.node_rules.get(question.rule), shape, &takers, &DeviceScores::new()) {
            Some(node) => Answer::Node(node),
            None => Answer::Nowhere(closed),
        }
    }

    /// The best open node of a bucket to which no placed pod objects, and how many better ones were objected to.
    fn top(&self, question: &Question, kept: &mut Candidates, at: usize) -> (Option<(i64, NodeId)>, u32) {
        let Candidates { verdict, bucket: bucket_of, points, buckets, .. } = kept;
        let heap = &mut buckets[at].heap;
        let mut objected = Vec::new();
        let top = loop {
            let Some((score, rank, node)) = heap.peek().copied() else { break None };
            let holds = verdict[node.at()] == OPEN && bucket_of[node.at()] as usize == at && points[node.at()] == score;
            let rank_holds = self.nodes.rank(node) == rank.0;
            if !holds || !rank_holds || objected.last() == Some(&(score, rank, node)) {
                heap.pop();
            } else if self.is_objected(question, node) {
                objected.push((score, rank, node));
                heap.pop();
            } else {
                break Some((score, node));
            }
        };
        let count = objected.len() as u32;
        heap.extend(objected);
        (top, count)
    }

    /// The filters that look at other pods, given the counts for each rule of the shape.
    fn closed_by_counts(&self, question: &Question, shape: &Shape, counts: &[Option<i64>]) -> Option<Filter> {
        let mut counts = counts.iter();
        let mut next = || *counts.next().expect("there is a count for every rule");
        for (rule, counter) in shape.spread.iter().zip(&question.spread) {
            let least = self.relations.get(*counter).least(rule.min_domains);
            let fits = next().is_some_and(|count| count + rule.itself - least <= i64::from(rule.max_skew));
            if !fits {
                return Some(Filter::PodTopologySpread);
            }
        }
        if let Some((_, keys)) = &shape.affinity {
            let near: Vec<Option<i64>> = keys.iter().map(|_| next()).collect();
            let closed = if question.may_be_first {
                near.iter().any(Option::is_none)
            } else {
                pod_affinity::lacks_company(near.iter().map(|count| count.map_or((NO_DOMAIN, 0), |count| (0, count))))
            };
            if closed {
                return Some(Filter::InterPodAffinity);
            }
        }
        let adverse = shape.anti_affinity.iter().any(|_| next().is_some_and(|count| count > 0));
        adverse.then_some(Filter::InterPodAffinity)
    }

    /// The raw spread and affinity scores, given the counts for each rule of the shape.
    fn raw_by_counts(&self, question: &Question, shape: &Shape, counts: &[Option<i64>]) -> (Option<i64>, i64) {
        let hard = question.spread.len() + question.affinity.len() + question.anti_affinity.len();
        let (soft, preferred) = counts[hard..].split_at(shape.soft_spread.len());
        let mut spread = Some(0);
        for (rule, count) in shape.soft_spread.iter().zip(soft) {
            match count {
                Some(count) => {
                    let ln1024 = self.topologies.ln1024(rule.topology);
                    spread = spread.map(|sum| sum + score::spread::raw(*count, ln1024, rule.max_skew));
                }
                None if shape.spread_implied => {}
                None => spread = None,
            }
        }
        let inclined = shape.preferred.iter().zip(preferred).map(|(term, count)| term.weight * count.unwrap_or(0));
        (spread, inclined.sum())
    }
}

impl Candidates {
    fn widen(&mut self, nodes: usize) {
        self.verdict.resize(nodes, ABSENT);
        self.bucket.resize(nodes, 0);
        self.points.resize(nodes, 0);
        self.ranks.resize(nodes, 0);
    }

    /// The bucket of nodes of this class in these places. A node is mostly where it was before.
    fn bucket_of(&mut self, before: u32, class: u32, places: Vec<i64>) -> u32 {
        let is_it = |bucket: &&Bucket| bucket.class == class && bucket.places == places;
        if self.buckets.get(before as usize).filter(is_it).is_some() {
            return before;
        }
        let key = (class, places);
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        let id = self.buckets.len() as u32;
        self.buckets.push(Bucket { class: key.0, places: key.1.clone(), open: 0, heap: BinaryHeap::new() });
        self.ids.insert(key, id);
        id
    }

    fn list(&mut self, bucket: u32, score: i64, rank: u64, node: NodeId) {
        let Candidates { verdict, bucket: bucket_of, points, buckets, .. } = self;
        let Bucket { heap, open, .. } = &mut buckets[bucket as usize];
        heap.push((score, Reverse(rank), node));
        if heap.len() > 2 * *open as usize + 64 {
            let holds = |(score, _, node): &(i64, Reverse<u64>, NodeId)| {
                verdict[node.at()] == OPEN && bucket_of[node.at()] == bucket && points[node.at()] == *score
            };
            let mut entries = std::mem::take(heap).into_vec();
            entries.retain(holds);
            entries.sort_unstable();
            entries.dedup();
            *heap = BinaryHeap::from(entries);
        }
    }
}
