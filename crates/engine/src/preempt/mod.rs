//! Preemption: the cheapest pods, anywhere, whose going lets a claimant run.

pub(crate) mod cost;
pub(crate) mod cover;
pub(crate) mod missing;
pub(crate) mod right;

use crate::filter::Filter;
use crate::nodes::NodeId;
use crate::place::Question;
use crate::pods::{Place, PodId};
use crate::preempt::cost::Cost;
use crate::preempt::cover::{Allowances, Victim};
use crate::preempt::missing::Short;
use crate::relations::Effects;
use crate::world::World;

/// What a search for victims comes to.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// These go, and the claimant gets the node.
    Plan(Plan),
    /// Pods that leave already make room: nobody need go.
    Wait,
    /// No set of victims would do.
    Hopeless,
}

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub node: NodeId,
    /// By namespace and name.
    pub victims: Vec<PodId>,
    /// The victims that pass over a disruption budget.
    pub violating: Vec<PodId>,
}

/// Up to so many possible victims in the whole cluster every set of them is tried, where more than amounts are short.
const EXACT_MAX: usize = 12;

/// Beyond that, at most so many nodes are looked at closely.
const NODES_MAX: usize = 64;

impl World {
    /// Looks for the cheapest victims for a claimant that no node takes.
    pub fn find_victims(&mut self, claimant: PodId, question: &Question) -> Outcome {
        let shape = self.shapes.get(question.shape);
        let amounts_only = shape.spec().ports.is_empty()
            && shape.spec().volumes.is_empty()
            && !shape.is_bound_to_others()
            && !question.has_objections();
        if amounts_only { self.cover_amounts(claimant, question) } else { self.try_sets(claimant) }
    }

    /// Whether a pod can be a victim of the claimant's at all.
    fn is_victim(&self, claimant: PodId, victim: PodId) -> bool {
        let pod = self.pods.get(victim);
        matches!(pod.place, Place::Placed(node) if self.nodes.is_present(node))
            && !pod.is_leaving()
            && right::to_evict(self.pods.get(claimant), pod).is_some()
    }

    fn victim(&self, id: PodId, missing: &[(Short, i128)], allowances: &mut Allowances) -> Victim {
        let pod = self.pods.get(id);
        let demand = &self.shapes.get(pod.shape).demand;
        let mut budgets = Vec::new();
        if !self.budgets.is_empty() {
            for key in self.budgets.of(pod) {
                let at = allowances.keys.iter().position(|k| k == key).unwrap_or_else(|| {
                    allowances.keys.push(key.clone());
                    allowances.allowed.push(self.budgets.allows(key, &self.pods));
                    allowances.keys.len() - 1
                });
                budgets.push(at);
            }
        }
        Victim {
            id,
            key: pod.key(),
            priority: pod.priority,
            created: pod.created,
            gives: missing.iter().map(|(short, _)| short.given_by(demand)).collect(),
            budgets,
        }
    }

    fn plan(&self, node: NodeId, mut victims: Vec<Victim>, allowances: &Allowances) -> Plan {
        victims.sort_by(|a, b| a.key.cmp(&b.key));
        let mut taken = vec![0u32; allowances.allowed.len()];
        for budget in victims.iter().flat_map(|v| &v.budgets) {
            taken[*budget] += 1;
        }
        let violates = |v: &&Victim| v.budgets.iter().any(|b| taken[*b] > allowances.allowed[*b]);
        let violating = victims.iter().filter(violates).map(|v| v.id).collect();
        Plan { node, violating, victims: victims.into_iter().map(|v| v.id).collect() }
    }

    /// Where amounts alone are short, each node is a question of its own.
    fn cover_amounts(&self, claimant: PodId, question: &Question) -> Outcome {
        let demand = &self.shapes.get(question.shape).demand;
        let rule = self.statics.get(question.rule);
        let mut allowances = Allowances::default();
        let mut best: Option<(Cost, NodeId, Vec<Victim>)> = None;
        for i in 0..self.nodes.limit() {
            let node = NodeId(i as u32);
            if !self.nodes.is_present(node) || rule.closed_by(node).is_some() {
                continue;
            }
            if demand.amounts.iter().any(|(resource, amount)| self.nodes.allocatable(*resource, node) < *amount) {
                continue;
            }
            let mut missing = self.missing(node, demand);
            let mut possible = Vec::new();
            for pod in self.pods.on_node(node) {
                if self.pods.get(*pod).is_leaving() {
                    let leaving = &self.shapes.get(self.pods.get(*pod).shape).demand;
                    missing.iter_mut().for_each(|(short, amount)| *amount -= short.given_by(leaving));
                } else if self.is_victim(claimant, *pod) {
                    possible.push(*pod);
                }
            }
            missing.retain(|(_, amount)| *amount > 0);
            if missing.is_empty() {
                return Outcome::Wait;
            }
            let amounts: Vec<i128> = missing.iter().map(|(_, amount)| *amount).collect();
            let victims: Vec<Victim> =
                possible.iter().map(|pod| self.victim(*pod, &missing, &mut allowances)).collect();
            if let Some(chosen) = cover::cheapest(&victims, &amounts, &allowances) {
                let cost = cover::cost(chosen.iter().map(|i| &victims[*i]), &allowances);
                if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                    best = Some((cost, node, chosen.into_iter().map(|i| victims[i].clone()).collect()));
                }
            }
        }
        match best {
            Some((_, node, victims)) => Outcome::Plan(self.plan(node, victims, &allowances)),
            None => Outcome::Hopeless,
        }
    }

    /// Where pods are in each other's way for other reasons than amounts, sets of victims are tried for real: taken off
    /// their nodes, looked at, put back.
    fn try_sets(&mut self, claimant: PodId) -> Outcome {
        let leaving: Vec<PodId> = self
            .pods
            .placed()
            .filter(|(_, pod)| pod.is_leaving() && pod.node().is_some_and(|node| self.nodes.is_present(node)))
            .map(|(id, _)| id)
            .collect();
        let lifted_leaving = self.lift(&leaving);
        let outcome = self.try_sets_without_leaving(claimant);
        self.put_back(lifted_leaving);
        outcome
    }

    fn try_sets_without_leaving(&mut self, claimant: PodId) -> Outcome {
        if self.open_node(claimant).is_some() {
            return Outcome::Wait;
        }
        let possible: Vec<PodId> =
            self.pods.placed().map(|(id, _)| id).filter(|id| self.is_victim(claimant, *id)).collect();
        let mut allowances = Allowances::default();
        let victims: Vec<Victim> = possible.iter().map(|id| self.victim(*id, &[], &mut allowances)).collect();
        if victims.len() <= EXACT_MAX {
            self.try_all_sets(claimant, &victims, &allowances)
        } else {
            self.try_nodes(claimant, victims, &allowances)
        }
    }

    fn try_all_sets(&mut self, claimant: PodId, victims: &[Victim], allowances: &Allowances) -> Outcome {
        let chosen = |set: u32| victims.iter().enumerate().filter(move |(i, _)| set >> i & 1 == 1).map(|(_, v)| v);
        let mut sets: Vec<(Cost, u32)> =
            (1u32..1 << victims.len()).map(|set| (cover::cost(chosen(set), allowances), set)).collect();
        sets.sort();
        for (_, set) in sets {
            let ids: Vec<PodId> = chosen(set).map(|v| v.id).collect();
            let lifted = self.lift(&ids);
            let open = self.open_node(claimant);
            self.put_back(lifted);
            if let Some(node) = open {
                return Outcome::Plan(self.plan(node, chosen(set).cloned().collect(), allowances));
            }
        }
        Outcome::Hopeless
    }

    /// With many possible victims: node by node, all that are in the way go, and come back one by one, the most
    /// expensive first, while the claimant still fits.
    fn try_nodes(&mut self, claimant: PodId, mut victims: Vec<Victim>, allowances: &Allowances) -> Outcome {
        // The most expensive first: those with a budget to pass over, then by priority, then the older.
        victims.sort_by(|a, b| {
            let spent = |v: &Victim| v.budgets.iter().any(|budget| allowances.allowed[*budget] == 0);
            spent(b)
                .cmp(&spent(a))
                .then(b.priority.cmp(&a.priority))
                .then(a.created.cmp(&b.created))
                .then_with(|| b.key.cmp(&a.key))
        });
        let question = self.question(claimant);
        let nodes: Vec<NodeId> = self
            .nodes
            .by_name()
            .filter(|node| self.closed_by(&question, *node).is_some_and(Filter::opens_by_eviction))
            .take(NODES_MAX)
            .collect();
        let mut best: Option<(Cost, NodeId, Vec<Victim>)> = None;
        for node in nodes {
            let elsewhere = self.in_the_way_elsewhere(&question, node);
            let here: Vec<Victim> = victims
                .iter()
                .filter(|v| self.pods.get(v.id).node() == Some(node) || elsewhere.contains(&v.id))
                .cloned()
                .collect();
            let ids: Vec<PodId> = here.iter().map(|v| v.id).collect();
            let lifted = self.lift(&ids);
            let mut gone = here.clone();
            if self.is_open(claimant, node) {
                for victim in &here {
                    self.put_back_one(&lifted, victim.id);
                    if self.is_open(claimant, node) {
                        gone.retain(|v| v.id != victim.id);
                    } else {
                        self.lift(&[victim.id]);
                    }
                }
                let cost = cover::cost(gone.iter(), allowances);
                if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                    best = Some((cost, node, gone));
                }
            }
            self.put_back(lifted);
        }
        match best {
            Some((_, node, victims)) => Outcome::Plan(self.plan(node, victims, allowances)),
            None => Outcome::Hopeless,
        }
    }

    /// Pods on other nodes whose going may open this one: those in its domains that spreading or anti-affinity counts.
    fn in_the_way_elsewhere(&self, question: &Question, node: NodeId) -> Vec<PodId> {
        let shape = self.shapes.get(question.shape);
        let rules = shape.spread.iter().map(|s| (s.relation, s.topology));
        let rules = rules.chain(shape.anti_affinity.iter().map(|t| (t.relation, t.topology)));
        let mut found = Vec::new();
        for (relation, topology) in rules {
            let domain = self.topologies.domain(topology, node);
            let near =
                |pod: &PodId| self.pods.get(*pod).node().is_some_and(|n| self.topologies.domain(topology, n) == domain);
            found.extend(self.relations.placed_ids(relation, &self.pods).into_iter().filter(near));
        }
        for (topology, marks) in question.objecting() {
            let domain = self.topologies.domain(topology, node);
            if domain != crate::topology::NO_DOMAIN && marks[domain as usize] {
                for near in self.topologies.members(topology, domain) {
                    let objects = |pod: &&PodId| !self.shapes.get(self.pods.get(**pod).shape).holds.is_empty();
                    found.extend(self.pods.on_node(*near).iter().filter(objects));
                }
            }
        }
        if crate::filter::volume_restrictions::claim_in_use(shape, &self.volumes) {
            let uses = |pod: &crate::pods::Pod| {
                let other = self.shapes.get(pod.shape);
                other.namespace() == shape.namespace() && other.claims().any(|c| shape.claims().any(|d| c == d))
            };
            found.extend(self.pods.placed().filter(|(_, pod)| uses(pod)).map(|(id, _)| id));
        }
        found
    }

    fn is_open(&mut self, claimant: PodId, node: NodeId) -> bool {
        let question = self.question(claimant);
        self.closed_by(&question, node).is_none()
    }

    /// The best node that takes the claimant as things stand.
    fn open_node(&mut self, claimant: PodId) -> Option<NodeId> {
        let question = self.question(claimant);
        match self.scan(&question) {
            crate::place::Answer::Node(node) => Some(node),
            crate::place::Answer::Nowhere(_) => None,
        }
    }

    /// Takes pods off their nodes for a look at what would be.
    fn lift(&mut self, ids: &[PodId]) -> Vec<(PodId, Place)> {
        let mut effects = Effects::tentative();
        let mut lifted = Vec::new();
        for id in ids {
            let place = self.pods.get(*id).place;
            if place != Place::Waiting {
                self.leave(*id, Place::Waiting, &mut effects);
                lifted.push((*id, place));
            }
        }
        lifted
    }

    fn put_back(&mut self, lifted: Vec<(PodId, Place)>) {
        let mut effects = Effects::tentative();
        for (id, place) in lifted {
            if self.pods.get(id).place == Place::Waiting {
                self.enter(id, place, &mut effects);
            }
        }
    }

    fn put_back_one(&mut self, lifted: &[(PodId, Place)], id: PodId) {
        if let Some(entry) = lifted.iter().find(|(lifted, _)| *lifted == id) {
            self.put_back(vec![*entry]);
        }
    }
}
