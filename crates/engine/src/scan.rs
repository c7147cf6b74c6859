//! The best node for a pod, by looking at every node, or by the index of loads where that can tell.
//!
//! The filters go over the nodes one after the other, each over those that the former left, so that each is a short
//! loop over arrays. They are asked together, node by node, only to say which of them closed how many, where no node
//! is left.

use std::collections::BTreeMap;

use crate::devices::world::DeviceAsk;
use crate::fact::Amount;
use crate::filter::{Filter, node_cap, ports};
use crate::node_rules::{NodeRule, RuleClass};
use crate::nodes::NodeId;
use crate::place::{Answer, ClosedCounts, Question};
use crate::resources::ResourceId;
use crate::score::{self, weight};
use crate::shape::Shape;
use crate::topology::{NO_DOMAIN, TopoId};
use crate::world::World;

/// A node that takes the pod, with its scores before they are made comparable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taker {
    pub node: NodeId,
    pub points: i64,
    pub class: u32,
    /// `None` where the node lacks a key of the soft spread rules.
    pub spread: Option<i64>,
    pub affinity: i64,
}

/// What the alternatives of a pod's device claims score, by node; empty where it has none.
pub(crate) type DeviceScores = BTreeMap<NodeId, i64>;

impl World {
    /// The best node for the pod, by looking at every node.
    pub fn scan(&mut self, question: &Question) -> Answer {
        let by_load = self.best_by_load(question);
        if let Some(Answer::Node(found)) = by_load {
            debug_assert!(
                matches!(self.scan_all(question), Answer::Node(node) if node == found),
                "the best node by the index is the best of all"
            );
            return Answer::Node(found);
        }
        let answer = self.scan_all(question);
        if matches!(answer, Answer::Node(_)) {
            self.note_found_by_scan(question);
        }
        answer
    }

    fn scan_all(&mut self, question: &Question) -> Answer {
        let mut open = std::mem::take(&mut self.open);
        self.find_open(question, &mut open);
        let scores = question.devices.as_ref().map(|ask| self.keep_equipped(ask, &mut open)).unwrap_or_default();
        let answer = match self.best_of(question, &open, &scores) {
            Some(node) => Answer::Node(node),
            None => Answer::Nowhere(self.count_closed(question)),
        };
        self.open = open;
        answer
    }

    /// The nodes that take the pod.
    fn find_open(&self, question: &Question, open: &mut Vec<NodeId>) {
        let shape = self.shapes.get(question.shape);
        self.find_roomy(question, shape, open);
        let spec = shape.spec();
        if !spec.ports.is_empty() {
            open.retain(|node| !ports::closes(self.nodes.get(*node), &spec.ports));
        }
        if shape.demand.capped {
            open.retain(|node| !node_cap::closes(&self.nodes.get(*node).cap, &shape.demand));
        }
        self.keep_befriended(question, shape, open);
        if !spec.volumes.is_empty() {
            open.retain(|node| self.closed_by_volumes(question, shape, *node).is_none());
        }
    }

    /// Leaves the nodes with devices for the pod, with what they score. What ends the attempt ends it on all nodes.
    fn keep_equipped(&self, ask: &DeviceAsk, open: &mut Vec<NodeId>) -> DeviceScores {
        let mut scores = DeviceScores::new();
        for node in open.iter() {
            match self.find_devices(ask, *node, true) {
                Ok((Some(choice), _)) => drop(scores.insert(*node, choice.score)),
                Ok((None, _)) => {}
                Err(_) => {
                    open.clear();
                    return DeviceScores::new();
                }
            }
        }
        open.retain(|node| scores.contains_key(node));
        scores
    }

    /// The nodes that are there, that the template does not exclude, and that have what it asks for.
    fn find_roomy(&self, question: &Question, shape: &Shape, open: &mut Vec<NodeId>) {
        open.clear();
        let column = |(resource, amount): &(ResourceId, Amount)| Some((self.nodes.free_of(*resource)?, *amount));
        let Some(columns) = shape.demand.amounts.iter().map(column).collect::<Option<Vec<_>>>() else { return };
        // Nearly every pod asks for cpu, memory and a place: the first three are looked at together.
        let last = columns.len() - 1;
        let [(first, least), (second, less), (third, little)] =
            [columns[0], columns[last.min(1)], columns[last.min(2)]];
        let flags = self.node_rules.get(question.rule).all_flags();
        let amounts = first.iter().zip(second).zip(third);
        open.resize(flags.len(), NodeId(0));
        let mut count = 0;
        for (i, (flags, ((first, second), third))) in flags.iter().zip(amounts).enumerate() {
            // Written down in any case, and left standing if it fits: nobody can foresee which do.
            open[count] = NodeId(i as u32);
            count += usize::from((*flags == 0) & (*first >= least) & (*second >= less) & (*third >= little));
        }
        open.truncate(count);
        for (free, amount) in columns.iter().skip(3) {
            open.retain(|node| free[node.at()] >= *amount);
        }
    }

    /// Leaves the nodes where the pod may be, as far as other pods are concerned.
    fn keep_befriended(&self, question: &Question, shape: &Shape, open: &mut Vec<NodeId>) {
        for (rule, counter) in shape.spread.iter().zip(&question.spread) {
            let (domains, counter) = (self.topologies.domains(rule.topology), self.relations.get(*counter));
            let most = counter.least(rule.min_domains) + i64::from(rule.max_skew) - rule.itself;
            open.retain(|node| {
                let domain = domains.of(*node);
                domain != NO_DOMAIN && counter.at(domain) <= most
            });
        }
        let near = shape.affinity.iter().flat_map(|(_, keys)| keys);
        for (key, counter) in near.zip(&question.affinity) {
            let (domains, counter) = (self.topologies.domains(*key), self.relations.get(*counter));
            open.retain(|node| {
                let domain = domains.of(*node);
                domain != NO_DOMAIN && (question.may_be_first || counter.at(domain) > 0)
            });
        }
        for (term, counter) in shape.anti_affinity.iter().zip(&question.anti_affinity) {
            let (domains, counter) = (self.topologies.domains(term.topology), self.relations.get(*counter));
            if counter.total() > 0 {
                open.retain(|node| {
                    let domain = domains.of(*node);
                    domain == NO_DOMAIN || counter.at(domain) == 0
                });
            }
        }
        for (topology, marks) in question.objecting() {
            let domains = self.topologies.domains(topology);
            open.retain(|node| {
                let domain = domains.of(*node);
                domain == NO_DOMAIN || !marks[domain as usize]
            });
        }
    }

    /// How many nodes each filter closes.
    fn count_closed(&self, question: &Question) -> ClosedCounts {
        let mut closed = [0; Filter::COUNT];
        for i in 0..self.nodes.limit() {
            let node = NodeId(i as u32);
            if self.nodes.is_present(node)
                && let Some(filter) = self.closed_by(question, node)
            {
                closed[filter as usize] += 1;
            }
        }
        closed
    }

    /// The best of the nodes that take the pod.
    fn best_of(&self, question: &Question, open: &[NodeId], devices: &DeviceScores) -> Option<NodeId> {
        let shape = self.shapes.get(question.shape);
        let rule = self.node_rules.get(question.rule);
        let is_plain = rule.classes().len() <= 1
            && shape.soft_spread.is_empty()
            && shape.preferred.is_empty()
            && !question.has_inclinations()
            && devices.values().all(|score| *score == 0);
        if is_plain && shape.spec().images.is_empty() && shape.spec().capped.is_none() {
            return self.highest(open.iter().map(|node| (self.nodes.load(*node).points(&shape.size), *node)));
        }
        if is_plain {
            return self.highest(open.iter().map(|node| (self.points(shape, *node), *node)));
        }
        let taker = |node: &NodeId| Taker {
            node: *node,
            points: self.points(shape, *node),
            class: rule.class(*node),
            spread: Some(0),
            affinity: 0,
        };
        let mut takers: Vec<Taker> = open.iter().map(taker).collect();
        self.add_raw_spread(question, shape, &mut takers);
        self.add_raw_affinity(question, shape, &mut takers);
        self.best(rule, shape, &takers, devices)
    }

    fn add_raw_spread(&self, question: &Question, shape: &Shape, takers: &mut [Taker]) {
        for (rule, counter) in shape.soft_spread.iter().zip(&question.soft_spread) {
            let (domains, counter) = (self.topologies.domains(rule.topology), self.relations.get(*counter));
            let ln1024 = self.topologies.ln1024(rule.topology);
            for taker in takers.iter_mut() {
                match domains.of(taker.node) {
                    NO_DOMAIN if shape.spread_implied => {}
                    NO_DOMAIN => taker.spread = None,
                    domain => {
                        let raw = score::spread::raw(counter.at(domain), ln1024, rule.max_skew);
                        taker.spread = taker.spread.map(|sum| sum + raw);
                    }
                }
            }
        }
    }

    fn add_raw_affinity(&self, question: &Question, shape: &Shape, takers: &mut [Taker]) {
        let mut add = |topology: TopoId, raw: &dyn Fn(u32) -> i64| {
            let domains = self.topologies.domains(topology);
            for taker in takers.iter_mut() {
                let domain = domains.of(taker.node);
                if domain != NO_DOMAIN {
                    taker.affinity += raw(domain);
                }
            }
        };
        for (term, counter) in shape.preferred.iter().zip(&question.preferred) {
            let counter = self.relations.get(*counter);
            add(term.topology, &|domain| term.weight * counter.at(domain));
        }
        for (topology, sums) in question.inclining() {
            add(topology, &|domain| sums[domain as usize]);
        }
    }

    /// The taker with the highest total, the first by name among equals.
    pub fn best(&self, rule: &NodeRule, shape: &Shape, takers: &[Taker], devices: &DeviceScores) -> Option<NodeId> {
        let classes = rule.classes();
        // Where all are of one class, or nothing is spread, no taker need be looked at.
        let most_of = |of: fn(&RuleClass) -> i64| match classes {
            [one] => of(one),
            _ => takers.iter().map(|t| of(&classes[t.class as usize])).max().unwrap_or(0),
        };
        let (most_spared, most_preferred) = (most_of(|class| class.spared), most_of(|class| class.preference));
        let spreads = takers.iter().filter(|_| !shape.soft_spread.is_empty()).filter_map(|t| t.spread);
        let (least_spread, most_spread) = least_and_most(spreads);
        let (least_affine, most_affine) = least_and_most(takers.iter().map(|t| t.affinity));
        let most_devices = devices.values().copied().max().unwrap_or(0);
        let of_class = |class: &RuleClass| {
            self.card_weight * class.card * (score::FULL / 100)
                + weight::TAINTS * score::normal::fewer_is_better(class.spared, most_spared)
                + weight::PREFERRED_NODES * score::normal::more_is_better(class.preference, most_preferred)
        };
        let of_class: Vec<i64> = classes.iter().map(of_class).collect();
        let total = |t: &Taker| {
            let even = match t.spread {
                Some(raw) if !shape.soft_spread.is_empty() => score::normal::even(raw, least_spread, most_spread),
                _ => 0,
            };
            let equipped = match most_devices {
                0 => 0,
                most => score::normal::more_is_better(devices.get(&t.node).copied().unwrap_or(0), most),
            };
            t.points
                + of_class[t.class as usize]
                + weight::SPREAD * even
                + weight::DEVICES * equipped
                + weight::POD_AFFINITY * score::normal::between(t.affinity, least_affine, most_affine)
        };
        self.highest(takers.iter().map(|taker| (total(taker), taker.node)))
    }

    /// The node with the highest total, the first by name among equals.
    fn highest(&self, totals: impl Iterator<Item = (i64, NodeId)>) -> Option<NodeId> {
        let (mut best, mut most, mut first) = (None, i64::MIN, u64::MAX);
        for (total, node) in totals {
            // Nearly every node is behind the best so far, which one comparison tells.
            if total < most {
                continue;
            }
            let rank = self.nodes.rank(node);
            if total > most || rank < first {
                (best, most, first) = (Some(node), total, rank);
            }
        }
        best
    }
}

/// The least and the most; 0 where there are none.
fn least_and_most(mut values: impl Iterator<Item = i64>) -> (i64, i64) {
    let Some(first) = values.next() else { return (0, 0) };
    values.fold((first, first), |(least, most), value| (least.min(value), most.max(value)))
}
