//! What a claimant is short of at a place, as things that victims can give.

use std::collections::BTreeSet;

use crate::fact::{Amount, Name};
use crate::filter::{ports, spread, volume_restrictions};
use crate::nodes::NodeId;
use crate::place::Question;
use crate::pods::{Place, PodId};
use crate::policy::Shortage;
use crate::preempt::rights::Going;
use crate::relations::{Bearing, RelationId};
use crate::resources::{Demand, ResourceId};
use crate::topology::{DomainId, NO_DOMAIN, TopoId};
use crate::world::World;

/// What is short.
#[derive(Debug, Clone)]
pub(crate) enum Short {
    /// A resource of a node.
    Node(NodeId, ResourceId),
    /// What pods without GPUs may hold there; only such pods can give of it.
    Cap(NodeId, ResourceId),
    /// A ledger.
    Ledger(Shortage),
    /// Pods that must go: all of them, or so many.
    Pods(BTreeSet<PodId>),
    /// Places for volumes of a driver on a node.
    Volumes(NodeId, Name),
}

impl Short {
    /// The resource of which something is short, if it is one.
    pub fn resource(&self) -> Option<ResourceId> {
        match self {
            Short::Node(_, resource) | Short::Cap(_, resource) => Some(*resource),
            Short::Ledger(shortage) => Some(shortage.resource),
            Short::Pods(_) | Short::Volumes(..) => None,
        }
    }
}

/// What is short, and how much.
pub(crate) type Missing = Vec<(Short, i128)>;

impl World {
    /// What goes gives at most, of something that is short. What a tree shares out, and how much more of it the
    /// claimant's quota has once pods outside are gone, is known when a set is tried.
    pub fn given(&self, short: &Short, going: &Going) -> i128 {
        let of_pods = |gift: &dyn Fn(PodId) -> i128| going.pods.iter().map(|pod| gift(*pod)).sum();
        let demand = |pod: PodId| &self.shapes.get(self.pods.get(pod).shape).demand;
        match short {
            Short::Node(node, r) => of_pods(&|pod| match self.stands_on(pod) == Some(*node) {
                true => i128::from(demand(pod).get(*r)),
                false => 0,
            }),
            Short::Cap(node, r) => of_pods(&|pod| match self.stands_on(pod) == Some(*node) && demand(pod).capped {
                true => i128::from(demand(pod).get(*r)),
                false => 0,
            }),
            Short::Ledger(shortage) => of_pods(&|pod| {
                let may_gain = self.quotas.may_gain(shortage.ledger, &self.pods.get(pod).quotas);
                let passed = self.passed_on(pod, &going.pods);
                let passed = crate::ledger::amount_of(&passed, shortage.resource).unwrap_or(0);
                if may_gain { self.charged(pod, shortage.resource) - passed } else { 0 }
            }),
            Short::Pods(pods) => of_pods(&|pod| i128::from(pods.contains(&pod))),
            Short::Volumes(node, driver) => of_pods(&|pod| {
                let known = self.pods.get(pod);
                if known.node() != Some(*node) {
                    return 0;
                }
                let attached = self.volumes.attachments(self.shapes.get(known.shape), &known.uid);
                attached.iter().filter(|(of, _)| of == driver).count() as i128
            }),
        }
    }

    /// The node that a pod is on, or claims.
    pub fn stands_on(&self, pod: PodId) -> Option<NodeId> {
        let pod = self.pods.get(pod);
        match pod.place {
            Place::Waiting => pod.reservation.map(|reservation| reservation.node),
            Place::Assumed(node) | Place::Placed(node) => Some(node),
        }
    }

    /// What a node is short of for so much, once all who leave are gone and all who hold a reservation have come.
    pub fn missing_amounts(
        &self,
        node: NodeId,
        amounts: &[(ResourceId, i128)],
        capped: &[(ResourceId, i128)],
    ) -> Missing {
        let mut missing = Vec::new();
        for (resource, amount) in amounts {
            let then = self.nodes.to_be_held(*resource, node);
            let over = then + amount - i128::from(self.nodes.allocatable(*resource, node));
            if *amount > 0 && over > 0 {
                missing.push((Short::Node(node, *resource), over));
            }
        }
        let cap = &self.nodes.get(node).cap;
        for (resource, limit) in cap.limits().unwrap_or_default() {
            let asked: i128 = capped.iter().filter(|(r, _)| r == resource).map(|(_, amount)| *amount).sum();
            let over = cap.to_be_held(*resource) + asked - i128::from(*limit);
            if asked > 0 && over > 0 {
                missing.push((Short::Cap(node, *resource), over));
            }
        }
        missing
    }

    /// The same for one pod.
    pub fn missing(&self, node: NodeId, demand: &Demand) -> Missing {
        let amounts: Vec<(ResourceId, i128)> = widened(&demand.amounts);
        let capped = if demand.capped { amounts.clone() } else { Vec::new() };
        self.missing_amounts(node, &amounts, &capped)
    }

    /// Whether the node could take the claimant if it were empty.
    pub fn could_serve(&self, question: &Question, node: NodeId) -> bool {
        self.nodes.is_present(node)
            && self.node_rules.get(question.rule).closed_by(node).is_none()
            && self.would_do_empty(question, node)
    }

    /// What is missing on a node beside amounts, for a claimant that depends on other pods, with all who leave lifted:
    /// one list for each way to mend it, none where nobody's going helps.
    pub fn missing_company(&self, claimant: PodId, question: &Question, node: NodeId) -> Vec<Missing> {
        let shape = self.shapes.get(question.shape);
        let mut must: BTreeSet<PodId> = self.port_holders(question, node);
        must.extend(self.volume_holders(question, node));
        must.extend(self.adversaries(claimant, question, node));
        let mut missing = Missing::new();
        // Near those that it must be near; or as the first of its kind, once all of that kind are gone.
        let (mut has_company, mut all_of_kind) = (true, None);
        if let Some((relation, keys)) = &shape.affinity {
            let counts = keys.iter().zip(&question.affinity).map(|(key, counter)| {
                let domain = self.topologies.domain(*key, node);
                (domain, self.relations.get(*counter).at(domain))
            });
            let counts: Vec<_> = counts.collect();
            if counts.iter().any(|(domain, _)| *domain == NO_DOMAIN) {
                return Vec::new();
            }
            has_company = question.may_be_first || counts.iter().all(|(_, count)| *count > 0);
            if shape.affine_to_itself && !question.may_be_first {
                // Those on nodes outside all its topologies keep nobody from being the first.
                let counts = |pod: &PodId| {
                    let node = self.stands_on(*pod);
                    node.is_some_and(|node| keys.iter().any(|key| self.topologies.domain(*key, node) != NO_DOMAIN))
                };
                let placed = self.relations.placed_ids(*relation, &self.pods);
                all_of_kind = Some(placed.into_iter().filter(counts).collect::<Vec<PodId>>());
            }
        }
        for (rule, counter) in shape.spread.iter().zip(&question.spread) {
            let domain = self.topologies.domain(rule.topology, node);
            if domain == NO_DOMAIN {
                return Vec::new();
            }
            let counter = self.relations.get(*counter);
            let (placed, claimants) = self.spread_near(claimant, rule.relation, rule.topology, domain);
            let too_many = spread::too_many(domain, counter, rule, 0);
            let too_many = too_many.max(spread::too_many(domain, counter, rule, claimants.len() as i64));
            if too_many > 0 {
                missing.push((Short::Pods(placed.into_iter().chain(claimants).collect()), i128::from(too_many)));
            }
        }
        missing.extend(self.missing_in_crowds(claimant, question, node));
        missing.extend(self.missing_attachments(claimant, question, node));
        if self.closed_by_devices(question, node).is_some() {
            // At least one of those that hold devices which the node reaches must go; which, and how many, is tried.
            missing.push((Short::Pods(self.device_holders(node)), 1));
        }
        let with = |must: BTreeSet<PodId>| {
            let count = must.len() as i128;
            let must = (count > 0).then_some((Short::Pods(must), count));
            missing.iter().cloned().chain(must).collect::<Missing>()
        };
        let mut ways = Vec::new();
        if has_company {
            ways.push(with(must.clone()));
        }
        ways.extend(all_of_kind.map(|kind| with(must.into_iter().chain(kind).collect())));
        ways
    }

    /// The pods in a domain that a spread rule counts, and those who hold reservations there.
    fn spread_near(
        &self,
        claimant: PodId,
        relation: RelationId,
        topology: TopoId,
        domain: DomainId,
    ) -> (Vec<PodId>, Vec<PodId>) {
        let is_near = |pod: &PodId| {
            let node = self.stands_on(*pod);
            node.is_some_and(|node| self.topologies.domain(topology, node) == domain)
        };
        let placed = self.relations.placed_ids(relation, &self.pods).into_iter().filter(is_near).collect();
        let reserved = self.reserved_for(claimant, relation, topology).filter(|(_, at)| *at == domain);
        (placed, reserved.map(|(pod, _)| pod).collect())
    }

    /// Where the claimant would close others' nodes to them by how they are to be spread: at least one of them must go,
    /// or of those that count there; which, and how many, is tried.
    fn missing_in_crowds(&self, claimant: PodId, question: &Question, node: NodeId) -> Missing {
        let full = question.crowds.iter().filter(|crowd| crowd.is_full);
        let here = full.filter(|crowd| self.topologies.domain(crowd.topology, node) == crowd.domain);
        let missing = here.map(|crowd| {
            let (placed, reserved) = self.spread_near(claimant, crowd.relation, crowd.topology, crowd.domain);
            let pods = placed.into_iter().chain(reserved).chain(crowd.holders.iter().copied());
            (Short::Pods(pods.collect()), 1)
        });
        missing.collect()
    }

    fn port_holders(&self, question: &Question, node: NodeId) -> BTreeSet<PodId> {
        let wanted = &self.shapes.get(question.shape).spec().ports;
        let collides = |pod: &PodId| {
            let theirs = &self.shapes.get(self.pods.get(*pod).shape).spec().ports;
            wanted.iter().any(|wanted| theirs.iter().any(|taken| ports::collide(wanted, taken)))
        };
        if wanted.is_empty() {
            return BTreeSet::new();
        }
        let residents = self.pods.on_node(node).iter().map(|resident| resident.id);
        residents.chain(self.claimants_on(node)).filter(collides).collect()
    }

    fn claimants_on(&self, node: NodeId) -> impl Iterator<Item = PodId> + '_ {
        self.reservations.iter().copied().filter(move |pod| self.stands_on(*pod) == Some(node))
    }

    /// The pods that use a volume which the claimant cannot share.
    fn volume_holders(&self, question: &Question, node: NodeId) -> BTreeSet<PodId> {
        let shape = self.shapes.get(question.shape);
        let mut holders = BTreeSet::new();
        if shape.spec().volumes.is_empty() {
            return holders;
        }
        if let Some(namespace) = shape.namespace() {
            for name in shape.claims() {
                let key = (namespace.clone(), name.clone());
                if volume_restrictions::is_exclusive(&key, &self.volumes) {
                    holders.extend(self.volumes.users(&key));
                }
            }
        }
        let residents = self.pods.on_node(node).iter().map(|resident| resident.id);
        holders.extend(residents.filter(|pod| {
            let theirs = &self.shapes.get(self.pods.get(*pod).shape).spec().volumes;
            volume_restrictions::share_no_disk(&shape.spec().volumes, theirs)
        }));
        holders
    }

    /// The pods that the claimant must not be near, and those that must not have it near.
    fn adversaries(&self, claimant: PodId, question: &Question, node: NodeId) -> BTreeSet<PodId> {
        let (shape, arriving) = (self.shapes.get(question.shape), self.pods.get(claimant));
        let mut found = BTreeSet::new();
        for term in &shape.anti_affinity {
            let domain = self.topologies.domain(term.topology, node);
            let near = |pod: &PodId| {
                let node = self.stands_on(*pod);
                domain != NO_DOMAIN && node.is_some_and(|n| self.topologies.domain(term.topology, n) == domain)
            };
            let known = |pod: &PodId| {
                let pod = self.pods.get(*pod);
                self.relations.matches(term.relation, &pod.namespace, &pod.labels)
            };
            let claimants = self.reservations.iter().copied().filter(known);
            found
                .extend(self.relations.placed_ids(term.relation, &self.pods).into_iter().chain(claimants).filter(near));
        }
        for (topology, marks) in question.objecting() {
            let domain = self.topologies.domain(topology, node);
            if domain == NO_DOMAIN || !marks[domain as usize] {
                continue;
            }
            let objects = |pod: &PodId| {
                let holds = &self.shapes.get(self.pods.get(*pod).shape).holds;
                holds.iter().any(|held| {
                    held.topology == topology
                        && matches!(held.bearing, Bearing::Objects)
                        && self.relations.matches(held.relation, &arriving.namespace, &arriving.labels)
                })
            };
            let near = self.topologies.members(topology, domain);
            let residents = near.iter().flat_map(|node| self.pods.on_node(*node).iter().map(|resident| resident.id));
            let claimants = near.iter().flat_map(|node| self.claimants_on(*node));
            found.extend(residents.chain(claimants).filter(objects));
        }
        found
    }

    fn missing_attachments(&self, claimant: PodId, question: &Question, node: NodeId) -> Missing {
        let (shape, facts) = (self.shapes.get(question.shape), self.nodes.get(node));
        if shape.spec().volumes.is_empty() || facts.attach_limits.is_empty() {
            return Missing::new();
        }
        let wanted = self.volumes.attachments(shape, &self.pods.get(claimant).uid);
        let missing = facts.attach_limits.iter().filter_map(|(driver, limit)| {
            let new = wanted.iter().filter(|a| a.0 == *driver && !facts.attached.contains_key(*a)).count() as i128;
            let old = facts.attached.keys().filter(|(d, _)| d == driver).count() as i128;
            let over = old + new - i128::from(*limit);
            (new > 0 && over > 0).then(|| (Short::Volumes(node, driver.clone()), over))
        });
        missing.collect()
    }

    /// Whether a pod bears on the claimant by more than amounts: a search must not take it for one like it.
    pub fn bears_on(&self, question: &Question, pod: PodId) -> bool {
        if question.devices.is_some() && self.has_devices(pod) {
            return true;
        }
        let shape = self.shapes.get(question.shape);
        let known = self.pods.get(pod);
        let relations = shape.spread.iter().map(|rule| rule.relation);
        let relations = relations.chain(question.crowds.iter().map(|crowd| crowd.relation));
        let mut relations = relations.chain(shape.affinity.iter().map(|(relation, _)| *relation));
        question.crowds.iter().any(|crowd| crowd.holders.contains(&pod))
            || relations.any(|relation| self.relations.matches(relation, &known.namespace, &known.labels))
            || !shape.spec().volumes.is_empty() && !self.shapes.get(known.shape).spec().volumes.is_empty()
    }
}

/// Amounts as sums are kept.
pub(crate) fn widened(amounts: &[(ResourceId, Amount)]) -> Vec<(ResourceId, i128)> {
    amounts.iter().map(|(resource, amount)| (*resource, i128::from(*amount))).collect()
}
