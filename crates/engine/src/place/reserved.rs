//! What reservations close to a pod. Their holders count as if they were there: the pod keeps away from those that it
//! must not be near, and closes no holder's node. A reservation opens nothing: a pod that must be near another waits
//! until that one runs.

use std::collections::BTreeMap;

use crate::filter::spread;
use crate::place::{Question, spread_key};
use crate::pods::PodId;
use crate::relations::{Bearing, CounterId, CountingTables, Matched, RelationId};
use crate::shape::ShapeId;
use crate::topology::{DomainId, NO_DOMAIN, TopoId};
use crate::world::World;

/// Holders of reservations in a domain that are to be spread, by a rule that counts the pod as well.
#[derive(Debug, Clone)]
pub(crate) struct Crowd {
    /// Whom the rule counts.
    pub relation: RelationId,
    pub topology: TopoId,
    pub domain: DomainId,
    pub holders: Vec<PodId>,
    /// With the pod in the domain, the rule would close it to the holders.
    pub is_full: bool,
}

impl World {
    /// The rules of holders about how pods are spread that count a pod.
    pub(super) fn crowds(&mut self, id: PodId) -> Vec<Crowd> {
        let mut found = Vec::new();
        for ((shape, at), domains) in self.spread_of_holders(id) {
            let counter = self.spread_counter(shape, at);
            let rule = &self.shapes.get(shape).spread[at];
            let near = self.reserved_by_domain(id, rule.relation, rule.topology);
            for (domain, holders) in domains {
                // Beside a holder there are the others, and the pod.
                let more = near.get(&domain).copied().unwrap_or(0) - rule.itself + 1;
                let is_full = spread::too_many(domain, self.relations.get(counter), rule, more) > 0;
                found.push(Crowd { relation: rule.relation, topology: rule.topology, domain, holders, is_full });
            }
        }
        found
    }

    /// The spread rules of other holders that count a pod, by shape and number, with the holders by domain.
    fn spread_of_holders(&self, id: PodId) -> BTreeMap<(ShapeId, usize), BTreeMap<DomainId, Vec<PodId>>> {
        let pod = self.pods.get(id);
        let mut rules: BTreeMap<_, BTreeMap<_, Vec<PodId>>> = BTreeMap::new();
        for holder in self.spreading_reservations.iter().filter(|holder| **holder != id) {
            let shape = self.pods.get(*holder).shape;
            let Some(node) = self.stands_on(*holder).filter(|node| self.nodes.is_present(*node)) else { continue };
            for (at, rule) in self.shapes.get(shape).spread.iter().enumerate() {
                let domain = self.topologies.domain(rule.topology, node);
                if domain != NO_DOMAIN && self.relations.matches(rule.relation, &pod.namespace, &pod.labels) {
                    rules.entry((shape, at)).or_default().entry(domain).or_default().push(*holder);
                }
            }
        }
        rules
    }

    /// The counter of a spread rule of a shape.
    fn spread_counter(&mut self, shape: ShapeId, at: usize) -> CounterId {
        let node_rule = self.node_rule(shape);
        let World { nodes, pods, shapes, topologies, node_rules, relations, .. } = self;
        let shape = shapes.get(shape);
        let keys: Vec<TopoId> = shape.spread.iter().map(|rule| rule.topology).collect();
        let key = spread_key(&shape.spread[at], &keys, node_rule);
        relations.counter(&key, &CountingTables { pods, nodes, topologies, node_rules })
    }

    /// Whether company may decide where a pod of a shape can go.
    pub fn may_depend_on_company(&self, shape: ShapeId) -> bool {
        self.shapes.get(shape).is_related() || !self.spreading_reservations.is_empty()
    }

    /// Other holders of reservations that a relation speaks of, each with the domain that its node is in.
    pub fn reserved_for(
        &self,
        id: PodId,
        relation: RelationId,
        topology: TopoId,
    ) -> impl Iterator<Item = (PodId, DomainId)> + '_ {
        let others = self.reservations.iter().copied().filter(move |holder| *holder != id);
        others.filter_map(move |holder| {
            let node = self.stands_on(holder).filter(|node| self.nodes.is_present(*node))?;
            let (domain, pod) = (self.topologies.domain(topology, node), self.pods.get(holder));
            let is_meant = domain != NO_DOMAIN && self.relations.matches(relation, &pod.namespace, &pod.labels);
            is_meant.then_some((holder, domain))
        })
    }

    /// How many other holders of reservations a relation speaks of in each domain.
    fn reserved_by_domain(&self, id: PodId, relation: RelationId, topology: TopoId) -> BTreeMap<DomainId, i64> {
        let mut near = BTreeMap::new();
        for (_, domain) in self.reserved_for(id, relation, topology) {
            *near.entry(domain).or_default() += 1;
        }
        near
    }

    /// Marks the domains that reservations close: those whose holders object to the pod, or that the pod objects to,
    /// and those that would be too full, for the pod or for a holder.
    pub(super) fn mark_reservations(&self, question: &mut Question, id: PodId) {
        let full = question.crowds.iter().filter(|crowd| crowd.is_full);
        let mut closed: Vec<(TopoId, DomainId)> = full.map(|crowd| (crowd.topology, crowd.domain)).collect();
        let (pod, shape) = (self.pods.get(id), self.shapes.get(question.shape));
        for holder in self.objecting_reservations.iter().filter(|holder| **holder != id) {
            let theirs = self.shapes.get(self.pods.get(*holder).shape);
            let Some(node) = self.stands_on(*holder).filter(|node| self.nodes.is_present(*node)) else { continue };
            let objects = theirs.holds.iter().filter(|held| matches!(held.bearing, Bearing::Objects));
            let objects = objects.filter(|held| self.relations.matches(held.relation, &pod.namespace, &pod.labels));
            closed.extend(objects.map(|held| (held.topology, self.topologies.domain(held.topology, node))));
        }
        if !self.reservations.is_empty() {
            for term in &shape.anti_affinity {
                let averse = self.reserved_for(id, term.relation, term.topology);
                closed.extend(averse.map(|(_, domain)| (term.topology, domain)));
            }
            for (rule, counter) in shape.spread.iter().zip(&question.spread) {
                let near = self.reserved_by_domain(id, rule.relation, rule.topology);
                let counter = self.relations.get(*counter);
                let full = near.iter().filter(|(domain, more)| spread::too_many(**domain, counter, rule, **more) > 0);
                closed.extend(full.map(|(domain, _)| (rule.topology, *domain)));
            }
        }
        closed.retain(|(_, domain)| *domain != NO_DOMAIN);
        self.mark(question, Matched { objections: closed, inclinations: Vec::new() });
    }
}
