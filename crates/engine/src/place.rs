//! Where a pod can go: the filters and the scores of one node.

mod reserved;

use std::collections::BTreeSet;

use crate::cards::Attempt;
use crate::devices::world::DeviceAsk;
use crate::fact::{Amount, Name};
use crate::filter::{
    Filter, node_cap, pod_affinity, ports, resources_fit, spread, volume_binding, volume_limits, volume_restrictions,
    volume_zone,
};
use crate::node_rules::NodeRuleId;
use crate::nodes::NodeId;
pub(crate) use crate::place::reserved::Crowd;
use crate::pods::PodId;
use crate::relations::{CounterId, CounterKey, CountingTables, Eligible, Matched};
use crate::resources::ResourceId;
use crate::score;
use crate::shape::{Shape, ShapeId, Spread};
use crate::topology::{NO_DOMAIN, TopoId};
use crate::world::World;

/// How many nodes each filter closes.
pub(crate) type ClosedCounts = [u32; Filter::COUNT];

/// The question where a pod can go, with all it takes to answer it made ready.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub shape: ShapeId,
    pub rule: NodeRuleId,
    pub spread: Vec<CounterId>,
    pub soft_spread: Vec<CounterId>,
    pub affinity: Vec<CounterId>,
    pub may_be_first: bool,
    pub anti_affinity: Vec<CounterId>,
    pub preferred: Vec<CounterId>,
    /// Some of the counters were counted anew for this question.
    counted_anew: bool,
    /// Domains closed by placed pods that object, as marks by topology.
    objections: Vec<(TopoId, Vec<bool>)>,
    inclinations: Vec<(TopoId, Vec<i64>)>,
    /// The rules of those who hold reservations that count the pod.
    pub crowds: Vec<Crowd>,
    /// Tells the pod's inline volumes apart from others'.
    uid: Name,
    /// What it asks of devices.
    pub devices: Option<DeviceAsk>,
}

/// What can be said of the nodes for a pod.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Node(NodeId),
    Nowhere(ClosedCounts),
}

impl Question {
    /// Whether others may object to the pod somewhere: those in place, or those who hold reservations.
    pub fn has_objections(&self) -> bool {
        !self.objections.is_empty() || !self.crowds.is_empty()
    }

    /// Whether placed pods incline the score of this one.
    pub fn has_inclinations(&self) -> bool {
        !self.inclinations.is_empty()
    }

    pub fn counted_anew(&self) -> bool {
        self.counted_anew
    }

    /// All rules of the shape about other pods: required spread, affinity, anti-affinity, then soft spread and
    /// preferences.
    pub fn rules<'a>(&'a self, shape: &'a Shape) -> impl Iterator<Item = (TopoId, CounterId)> + 'a {
        let spread = shape.spread.iter().map(|s| s.topology).zip(self.spread.iter().copied());
        let near = shape.affinity.iter().flat_map(|(_, keys)| keys.iter().copied());
        let affinity = near.zip(self.affinity.iter().copied());
        let anti = shape.anti_affinity.iter().map(|t| t.topology).zip(self.anti_affinity.iter().copied());
        let soft = shape.soft_spread.iter().map(|s| s.topology).zip(self.soft_spread.iter().copied());
        let preferred = shape.preferred.iter().map(|t| t.topology).zip(self.preferred.iter().copied());
        spread.chain(affinity).chain(anti).chain(soft).chain(preferred)
    }

    /// What placed pods add to the raw affinity score of domains, by topology.
    pub fn inclining(&self) -> impl Iterator<Item = (TopoId, &[i64])> {
        self.inclinations.iter().map(|(topology, sums)| (*topology, sums.as_slice()))
    }

    /// The domains where a placed pod objects, as marks by topology.
    pub fn objecting(&self) -> impl Iterator<Item = (TopoId, &[bool])> {
        self.objections.iter().map(|(topology, marks)| (*topology, marks.as_slice()))
    }
}

/// What a spread rule counts, among nodes with these keys, for pods with a rule about nodes.
fn spread_key(rule: &Spread, keys: &[TopoId], node_rule: NodeRuleId) -> CounterKey {
    let mask = (rule.mask != 0).then_some((node_rule, rule.mask));
    let eligible = Eligible { keys: keys.to_vec(), rule: mask };
    CounterKey { relation: rule.relation, topology: rule.topology, eligible: Some(eligible) }
}

impl World {
    /// What a shape says about nodes, up to date.
    fn node_rule(&mut self, shape: ShapeId) -> NodeRuleId {
        let World { nodes, shapes, node_rules, relations, names, .. } = self;
        let generation = node_rules.generation;
        let rule = node_rules.intern(shapes.get(shape).spec());
        if node_rules.generation != generation {
            relations.drop_counters();
        }
        node_rules.refresh(rule, nodes, names);
        rule
    }

    /// Makes ready what it takes to say where the pod can go.
    pub fn question<'a>(&mut self, attempt: impl Into<Attempt<'a>>) -> Question {
        let Attempt { pod: id, choice } = attempt.into();
        // Before anything is counted for the pod itself: few counters are kept.
        let crowds = if self.spreading_reservations.is_empty() { Vec::new() } else { self.crowds(id) };
        let shape_id = choice.map_or(self.pods.get(id).shape, |choice| choice.shape);
        let rule = self.node_rule(shape_id);
        let World { nodes, pods, shapes, topologies, node_rules, relations, .. } = self;
        let (pod, shape) = (pods.get(id), shapes.get(shape_id));
        let mut question = Question {
            shape: shape_id,
            rule,
            spread: Vec::new(),
            soft_spread: Vec::new(),
            affinity: Vec::new(),
            may_be_first: false,
            anti_affinity: Vec::new(),
            preferred: Vec::new(),
            counted_anew: false,
            objections: Vec::new(),
            inclinations: Vec::new(),
            crowds,
            uid: pod.uid.clone(),
            devices: None,
        };
        if shape.is_related() {
            let around = CountingTables { pods, nodes, topologies, node_rules };
            let counted = relations.counted;
            let mut spread_counter =
                |s: &Spread, keys: &[TopoId]| relations.counter(&spread_key(s, keys, rule), &around);
            let hard_keys: Vec<TopoId> = shape.spread.iter().map(|s| s.topology).collect();
            question.spread = shape.spread.iter().map(|s| spread_counter(s, &hard_keys)).collect();
            let soft_keys: Vec<TopoId> = match shape.spread_implied {
                true => Vec::new(),
                false => shape.soft_spread.iter().map(|s| s.topology).collect(),
            };
            question.soft_spread = shape.soft_spread.iter().map(|s| spread_counter(s, &soft_keys)).collect();
            let mut counter =
                |relation, topology| relations.counter(&CounterKey { relation, topology, eligible: None }, &around);
            question.anti_affinity = shape.anti_affinity.iter().map(|t| counter(t.relation, t.topology)).collect();
            question.preferred = shape.preferred.iter().map(|t| counter(t.relation, t.topology)).collect();
            if let Some((relation, keys)) = &shape.affinity {
                question.affinity = keys.iter().map(|key| counter(*relation, *key)).collect();
                let totals = question.affinity.iter().map(|id| relations.get(*id).total());
                question.may_be_first = pod_affinity::may_be_first(shape.affine_to_itself, totals);
            }
            question.counted_anew = relations.counted != counted;
        }
        let matched = relations.matched(&pod.namespace, &pod.labels);
        self.mark(&mut question, matched);
        self.mark_reservations(&mut question, id);
        question.devices = self.device_ask(id);
        if let Some(ask) = &mut question.devices {
            ask.way = choice.and_then(|choice| choice.devices.clone());
        }
        question
    }

    fn mark(&self, question: &mut Question, matched: Matched) {
        for (topology, domain) in matched.objections {
            let marks = match question.objections.iter_mut().find(|(t, _)| *t == topology) {
                Some((_, marks)) => marks,
                None => {
                    question.objections.push((topology, vec![false; self.topologies.domain_limit(topology)]));
                    &mut question.objections.last_mut().expect("just pushed").1
                }
            };
            marks[domain as usize] = true;
        }
        for (topology, domain, by) in matched.inclinations {
            let sums = match question.inclinations.iter_mut().find(|(t, _)| *t == topology) {
                Some((_, sums)) => sums,
                None => {
                    question.inclinations.push((topology, vec![0; self.topologies.domain_limit(topology)]));
                    &mut question.inclinations.last_mut().expect("just pushed").1
                }
            };
            sums[domain as usize] += by;
        }
    }

    /// The first filter that closes the node to the pod, if any does.
    pub fn closed_by(&self, question: &Question, node: NodeId) -> Option<Filter> {
        let shape = self.shapes.get(question.shape);
        self.node_rules
            .get(question.rule)
            .closed_by(node)
            .or_else(|| self.closed_locally(question, shape, node))
            .or_else(|| self.closed_by_others(question, shape, node))
            .or_else(|| self.closed_by_devices(question, node))
    }

    /// Whether the node lacks devices for the pod's claims.
    pub fn closed_by_devices(&self, question: &Question, node: NodeId) -> Option<Filter> {
        let ask = question.devices.as_ref()?;
        let found = matches!(self.find_devices(ask, node, true), Ok((Some(_), _)));
        (!found).then_some(Filter::Devices)
    }

    /// Whether the node that is reserved for a pod fits it. For a claimant an amount must be free now, with terminating
    /// pods counted, and also when all have come and gone, each on its own: it does not wait for others' victims.
    pub fn takes_claimant(&self, id: PodId, question: &Question) -> bool {
        let Some(reservation) = self.pods.get(id).reservation else { return false };
        self.takes_apart(question, reservation.node, self.pods.get(id).has_victims())
    }

    /// A node for a pod within what its quota keeps, which does not wait beside what others claim of it: room now and
    /// when all have come and gone, each on its own, and so have its quotas. It is the best as things are, or else of
    /// those on which others claim room the first by name.
    pub fn node_beside_claims(&mut self, attempt: Attempt<'_>, question: &Question) -> Option<NodeId> {
        let charge = self.asked_charge(attempt);
        if !self.refusals_apart(attempt.pod, &charge, true).is_empty() {
            return None;
        }
        if let Answer::Node(node) = self.answer(question) {
            return Some(node);
        }
        let claimed: BTreeSet<NodeId> = self.reservations.iter().filter_map(|pod| self.stands_on(*pod)).collect();
        let mut open: Vec<NodeId> = claimed.into_iter().filter(|node| self.nodes.is_present(*node)).collect();
        open.retain(|node| {
            let shape = self.shapes.get(self.pods.get(attempt.pod).shape);
            let cards = self.nodes.cards_for(*node, &shape.demand);
            let charge: Vec<(ResourceId, Amount)> = shape.charge.iter().chain(&cards).copied().collect();
            self.takes_apart(question, *node, true) && self.refusals_apart(attempt.pod, &charge, true).is_empty()
        });
        open.into_iter().min_by(|a, b| self.nodes.get(*a).name.cmp(&self.nodes.get(*b).name))
    }

    /// Whether a node fits a pod. `apart`: amounts must be free now, and when all have come and gone, each on its own.
    fn takes_apart(&self, question: &Question, node: NodeId, apart: bool) -> bool {
        let shape = self.shapes.get(question.shape);
        match self.closed_by(question, node) {
            None => true,
            Some(Filter::NodeResourcesFit | Filter::NodeCap) if apart => {
                let demand = &shape.demand;
                let has_room = |(r, amount): &(ResourceId, Amount)| {
                    let most = self.nodes.held(*r, node).max(self.nodes.to_be_held(*r, node));
                    most + i128::from(*amount) <= i128::from(self.nodes.allocatable(*r, node))
                };
                let cap = &self.nodes.get(node).cap;
                let is_allowed = |(r, limit): &(ResourceId, Amount)| {
                    let (asked, most) = (i128::from(demand.get(*r)), cap.held(*r).max(cap.to_be_held(*r)));
                    !demand.capped || asked == 0 || most + asked <= i128::from(*limit)
                };
                demand.amounts.iter().all(has_room)
                    && cap.limits().unwrap_or_default().iter().all(is_allowed)
                    && self.closed_by_volumes(question, shape, node).is_none()
                    && self.closed_by_others(question, shape, node).is_none()
                    && self.closed_by_devices(question, node).is_none()
            }
            Some(_) => false,
        }
    }

    /// The filters that look at the node alone.
    pub fn closed_locally(&self, question: &Question, shape: &Shape, node: NodeId) -> Option<Filter> {
        let spec = shape.spec();
        if !spec.ports.is_empty() && ports::closes(self.nodes.get(node), &spec.ports) {
            return Some(Filter::NodePorts);
        }
        if resources_fit::closes(&self.nodes, node, &shape.demand) {
            return Some(Filter::NodeResourcesFit);
        }
        if shape.demand.capped && node_cap::closes(&self.nodes.get(node).cap, &shape.demand) {
            return Some(Filter::NodeCap);
        }
        self.closed_by_volumes(question, shape, node)
    }

    pub fn closed_by_volumes(&self, question: &Question, shape: &Shape, node: NodeId) -> Option<Filter> {
        let spec = shape.spec();
        if spec.volumes.is_empty() {
            return None;
        }
        let facts = self.nodes.get(node);
        if volume_restrictions::closes(facts, shape, &self.volumes) {
            return Some(Filter::VolumeRestrictions);
        }
        if volume_limits::closes(facts, shape, &self.volumes, &question.uid) {
            return Some(Filter::NodeVolumeLimits);
        }
        if volume_binding::closes(&self.nodes, node, shape, &self.volumes) {
            return Some(Filter::VolumeBinding);
        }
        volume_zone::closes(facts, shape, &self.volumes).then_some(Filter::VolumeZone)
    }

    /// Whether the node's cap, and nothing else, keeps the pod out.
    pub fn closed_by_cap_alone(&self, question: &Question, node: NodeId) -> bool {
        let shape = self.shapes.get(question.shape);
        self.closed_by(question, node) == Some(Filter::NodeCap)
            && self.closed_by_volumes(question, shape, node).is_none()
            && self.closed_by_others(question, shape, node).is_none()
            && self.closed_by_devices(question, node).is_none()
    }

    /// The filters that look at other pods.
    pub fn closed_by_others(&self, question: &Question, shape: &Shape, node: NodeId) -> Option<Filter> {
        let domain = |topology: TopoId| self.topologies.domain(topology, node);
        let uneven = |(rule, counter): (&Spread, &CounterId)| {
            spread::closes(domain(rule.topology), self.relations.get(*counter), rule)
        };
        if shape.spread.iter().zip(&question.spread).any(uneven) {
            return Some(Filter::PodTopologySpread);
        }
        if let Some((_, keys)) = &shape.affinity {
            let near = keys.iter().zip(&question.affinity).map(|(key, counter)| {
                let domain = domain(*key);
                (domain, self.relations.get(*counter).at(domain))
            });
            let closed = if question.may_be_first {
                keys.iter().any(|key| domain(*key) == NO_DOMAIN)
            } else {
                pod_affinity::lacks_company(near)
            };
            if closed {
                return Some(Filter::InterPodAffinity);
            }
        }
        let adverse = |(term, counter): (&crate::shape::Term, &CounterId)| {
            pod_affinity::meets_adversary(domain(term.topology), self.relations.get(*counter))
        };
        if shape.anti_affinity.iter().zip(&question.anti_affinity).any(adverse) {
            return Some(Filter::InterPodAffinity);
        }
        self.is_objected(question, node).then_some(Filter::InterPodAffinity)
    }

    /// Whether a placed pod objects to this one being on the node.
    pub fn is_objected(&self, question: &Question, node: NodeId) -> bool {
        question.objections.iter().any(|(topology, marks)| {
            let domain = self.topologies.domain(*topology, node);
            domain != NO_DOMAIN && marks[domain as usize]
        })
    }

    /// The points of the scores that look at the node alone, for a pod that fits there.
    pub fn points(&self, shape: &Shape, node: NodeId) -> i64 {
        let mut points = self.nodes.load(node).points(&shape.size);
        if !shape.spec().images.is_empty() {
            points += score::image::points(&self.nodes, node, &shape.spec().images);
        }
        if let Some(strategy) = shape.spec().capped {
            points += score::node_cap::points(&self.nodes.get(node).cap, &shape.demand, strategy, &self.cap_weights);
        }
        points
    }
}
