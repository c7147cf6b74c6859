//! What pods say about each other: who is near whom, counted by domain as pods come and go.
//!
//! A *relation* is a distinct set of pods that some rule speaks of (namespaces and a selector). A *counter* counts, for
//! a relation and a topology key, the placed pods in each domain; it is made when first asked for and then kept
//! up to date pod by pod. A *holder* is the other direction: a term that placed pods have themselves, with the
//! domains where they are, so that an arriving pod finds those who object to it.

mod counters;
mod postings;

use std::collections::BTreeMap;

use crate::fact::{Labels, Name, Operator, Requirement, Selector};
use crate::lookup::LookupMap;
use crate::node_rules::NodeRules;
use crate::nodes::{NodeId, Nodes};
use crate::pods::{PodId, Pods};
use crate::queue::GroupId;
use crate::relations::counters::EligibleNodes;
pub(crate) use crate::relations::counters::{Counter, CounterId, CounterKey, Eligible};
use crate::relations::postings::Posting;
use crate::select::selects;
use crate::sign::Sign;
use crate::topology::{DomainId, NO_DOMAIN, TopoId, Topologies};

/// A distinct set of pods that a rule speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RelationId(pub u32);

/// One condition of a relation: pods of these namespaces that the selector selects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    pub namespaces: Vec<Name>,
    pub namespace_selector: Option<Selector>,
    pub selector: Option<Selector>,
}

#[derive(Debug, Clone)]
struct Relation {
    /// All must hold.
    parts: Vec<Part>,
    users: u32,
    counters: Vec<CounterId>,
    /// Groups that wait for a pod of this kind to come or go.
    waiters: Vec<GroupId>,
}

/// The tables that counting reads.
#[derive(Clone, Copy)]
pub(crate) struct CountingTables<'a> {
    pub pods: &'a Pods,
    pub nodes: &'a Nodes,
    pub topologies: &'a Topologies,
    pub node_rules: &'a NodeRules,
}

/// What a change of the counts has for others.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Nodes that see another count of a fine key.
    pub touched: Vec<NodeId>,
    /// Groups that waited for a pod of this kind.
    pub woken: Vec<GroupId>,
    /// It is only a look at what would be: nobody is woken.
    tentative: bool,
}

impl Effects {
    pub fn tentative() -> Self {
        Effects { tentative: true, ..Effects::default() }
    }
}

/// What a placed pod's term does to a pod that it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Bearing {
    /// Keeps it away.
    Objects,
    /// Adds this to the raw affinity score.
    Inclines(i64),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct HolderKey {
    pub relation: RelationId,
    pub topology: TopoId,
    pub bearing: Bearing,
}

#[derive(Debug, Clone)]
struct Holder {
    key: HolderKey,
    by_domain: BTreeMap<DomainId, u32>,
}

/// A placed pod's terms that match an arriving one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Matched {
    /// Domains that are closed to it.
    pub objections: Vec<(TopoId, DomainId)>,
    /// What domains add to its raw affinity score.
    pub inclinations: Vec<(TopoId, DomainId, i64)>,
}

/// All relations, counters and holders.
#[derive(Debug, Clone, Default)]
pub(crate) struct Relations {
    list: Vec<Option<Relation>>,
    vacant: Vec<RelationId>,
    ids: LookupMap<Vec<Part>, RelationId>,
    /// Relations by a label that their pods must have, and the rest.
    by_label: LookupMap<(Name, Name), Vec<RelationId>>,
    unlabelled: Vec<RelationId>,
    counters: Vec<Option<Counter>>,
    counter_ids: LookupMap<CounterKey, CounterId>,
    counters_live: usize,
    eligible_nodes: EligibleNodes,
    clock: u64,
    /// How many counters were ever counted anew.
    pub counted: u64,
    holders: Vec<Option<Holder>>,
    holder_vacant: Vec<usize>,
    holder_ids: LookupMap<HolderKey, usize>,
    /// Holders by relation.
    holders_of: LookupMap<RelationId, Vec<usize>>,
    namespaces: BTreeMap<Name, Labels>,
    namespace_epoch: u64,
    postings: LookupMap<(Name, Name, Name), Posting>,
    namespace_postings: LookupMap<Name, Posting>,
    /// Label keys that postings exist for.
    posted_keys: Vec<Name>,
    /// Label keys that some selector looks at.
    pub seen_keys: Vec<Name>,
    /// Changed when `seen_keys` grew.
    pub keys_epoch: u64,
}

/// The requirement by which a relation's pods are found: a label that must have one of some values.
fn anchor(parts: &[Part]) -> Option<&Requirement> {
    let all = parts.iter().filter_map(|part| part.selector.as_ref()).flat_map(|selector| &selector.requirements);
    all.filter(|r| r.operator == Operator::In).min_by_key(|r| r.values.len())
}

impl Relations {
    pub fn observe_namespace(&mut self, name: Name, labels: Labels) -> bool {
        if self.namespaces.get(&name) == Some(&labels) {
            return false;
        }
        self.namespaces.insert(name, labels);
        self.namespace_epoch += 1;
        true
    }

    /// A namespace that is gone, or was never told, has no labels; its pods may still be there.
    pub fn namespace_gone(&mut self, name: &Name) -> bool {
        self.observe_namespace(name.clone(), Labels::default())
    }

    /// Makes sure that a namespace is listed.
    pub fn mention_namespace(&mut self, name: &Name) {
        if !self.namespaces.contains_key(name) {
            self.namespaces.insert(name.clone(), Labels::default());
        }
    }

    /// What a namespace is labelled.
    pub fn labels_of(&self, namespace: &Name) -> &Labels {
        static NONE: Labels = Labels::NONE;
        self.namespaces.get(namespace).unwrap_or(&NONE)
    }

    pub fn namespace_epoch(&self) -> u64 {
        self.namespace_epoch
    }

    /// The relation with these parts, for one more user.
    pub fn intern(&mut self, parts: Vec<Part>, pods: &Pods) -> RelationId {
        if let Some(id) = self.ids.get(&parts) {
            let id = *id;
            self.relation_mut(id).users += 1;
            return id;
        }
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.list.push(None);
            RelationId(self.list.len() as u32 - 1)
        });
        for requirement in parts.iter().filter_map(|p| p.selector.as_ref()).flat_map(|s| &s.requirements) {
            if !self.seen_keys.contains(&requirement.key) {
                self.seen_keys.push(requirement.key.clone());
                self.keys_epoch += 1;
            }
        }
        match anchor(&parts).cloned() {
            Some(requirement) => {
                self.post_key(&requirement.key, pods);
                for value in &requirement.values {
                    let key = (requirement.key.clone(), value.clone());
                    self.by_label.or_insert_with(key, Vec::new).push(id);
                }
            }
            None => self.unlabelled.push(id),
        }
        self.ids.insert(parts.clone(), id);
        self.list[id.0 as usize] = Some(Relation { parts, users: 1, counters: Vec::new(), waiters: Vec::new() });
        id
    }

    /// One user more of a relation that has some.
    pub fn retain(&mut self, id: RelationId) {
        self.relation_mut(id).users += 1;
    }

    /// One user less; a relation that nobody uses is forgotten with its counters.
    pub fn release(&mut self, id: RelationId) {
        let relation = self.relation_mut(id);
        relation.users -= 1;
        if relation.users > 0 {
            return;
        }
        let relation = self.list[id.0 as usize].take().expect("a relation with users exists");
        match anchor(&relation.parts) {
            Some(requirement) => {
                for value in &requirement.values {
                    let key = (requirement.key.clone(), value.clone());
                    if let Some(list) = self.by_label.get_mut(&key) {
                        list.retain(|r| *r != id);
                        if list.is_empty() {
                            self.by_label.remove(&key);
                        }
                    }
                }
            }
            None => self.unlabelled.retain(|r| *r != id),
        }
        for counter in relation.counters {
            self.drop_counter(counter);
        }
        self.ids.remove(&relation.parts);
        self.vacant.push(id);
    }

    fn relation(&self, id: RelationId) -> &Relation {
        self.list[id.0 as usize].as_ref().expect("a relation is used only while it has users")
    }

    fn relation_mut(&mut self, id: RelationId) -> &mut Relation {
        self.list[id.0 as usize].as_mut().expect("a relation is used only while it has users")
    }

    /// Whether a pod is one of those that the relation speaks of.
    pub fn matches(&self, id: RelationId, namespace: &Name, labels: &Labels) -> bool {
        self.relation(id).parts.iter().all(|part| self.part_matches(part, namespace, labels))
    }

    pub fn part_matches(&self, part: &Part, namespace: &Name, labels: &Labels) -> bool {
        let Some(selector) = &part.selector else { return false };
        self.part_has_namespace(part, namespace) && selects(selector, labels)
    }

    fn part_has_namespace(&self, part: &Part, namespace: &Name) -> bool {
        part.namespaces.contains(namespace)
            || part
                .namespace_selector
                .as_ref()
                .is_some_and(|selector| self.namespaces.get(namespace).is_some_and(|labels| selects(selector, labels)))
    }

    /// The relations that speak of a pod.
    fn of_pod(&self, namespace: &Name, labels: &Labels) -> Vec<RelationId> {
        if self.ids.is_empty() {
            return Vec::new();
        }
        let labelled = labels.iter().filter_map(|pair| self.by_label.get(pair)).flatten();
        let all = labelled.chain(&self.unlabelled);
        let mut all: Vec<RelationId> = all.copied().filter(|id| self.matches(*id, namespace, labels)).collect();
        // A requirement that names a value twice lists its relation twice.
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Lets a group be woken when a pod that the relation speaks of comes or goes.
    pub fn wait(&mut self, id: RelationId, group: GroupId) {
        let waiters = &mut self.relation_mut(id).waiters;
        if !waiters.contains(&group) {
            waiters.push(group);
        }
    }

    /// Takes in that a pod came onto its node, or left it.
    pub fn count_pod(
        &mut self,
        id: PodId,
        node: NodeId,
        sign: Sign,
        around: &CountingTables<'_>,
        effects: &mut Effects,
    ) {
        self.post(id, sign, around.pods);
        self.count(id, node, sign, false, around, effects);
    }

    /// Takes in that a placed pod began to leave (or stays after all): spreading no longer counts it.
    pub fn count_leaving(
        &mut self,
        id: PodId,
        node: NodeId,
        leaves: bool,
        around: &CountingTables<'_>,
        effects: &mut Effects,
    ) {
        self.count(id, node, Sign::adding_if(!leaves), true, around, effects);
    }

    fn count(
        &mut self,
        id: PodId,
        node: NodeId,
        sign: Sign,
        spread_only: bool,
        around: &CountingTables<'_>,
        effects: &mut Effects,
    ) {
        let pod = around.pods.get(id);
        let epoch = (around.nodes.epoch, self.namespace_epoch);
        for relation in self.of_pod(&pod.namespace, &pod.labels) {
            let relation = self.relation_mut(relation);
            if !effects.tentative {
                effects.woken.append(&mut relation.waiters);
            }
            for id in relation.counters.clone() {
                let counter = self.counters[id.0 as usize].as_mut().expect("a relation lists live counters only");
                if counter.epoch != epoch {
                    continue; // It is counted anew when next asked for.
                }
                let topology = counter.key.topology;
                let domain = around.topologies.domain(topology, node);
                let counts = match &counter.key.eligible {
                    Some(eligible) => (spread_only || !pod.is_leaving()) && eligible.holds(node, around),
                    None => !spread_only,
                };
                if domain != NO_DOMAIN && counts {
                    counter.add(domain, sign.of(1));
                    if around.topologies.is_fine(topology) {
                        effects.touched.extend(around.topologies.members(topology, domain));
                    }
                }
            }
        }
    }

    /// Adds a term that a placed pod has (or takes it off).
    pub fn hold(&mut self, key: &HolderKey, domain: DomainId, sign: Sign) {
        if domain == NO_DOMAIN {
            return;
        }
        let at = match self.holder_ids.get(key) {
            Some(at) => *at,
            None => {
                let holder = Holder { key: key.clone(), by_domain: BTreeMap::new() };
                let at = match self.holder_vacant.pop() {
                    Some(at) => {
                        self.holders[at] = Some(holder);
                        at
                    }
                    None => {
                        self.holders.push(Some(holder));
                        self.holders.len() - 1
                    }
                };
                self.holder_ids.insert(key.clone(), at);
                self.holders_of.or_insert_with(key.relation, Vec::new).push(at);
                at
            }
        };
        let holder = self.holders[at].as_mut().expect("found or made above");
        let count = holder.by_domain.entry(domain).or_insert(0);
        *count = if sign.is_add() { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            holder.by_domain.remove(&domain);
        }
        if holder.by_domain.is_empty() {
            self.holders[at] = None;
            self.holder_vacant.push(at);
            self.holder_ids.remove(key);
            if let Some(list) = self.holders_of.get_mut(&key.relation) {
                list.retain(|h| *h != at);
                if list.is_empty() {
                    self.holders_of.remove(&key.relation);
                }
            }
        }
    }

    /// The terms of placed pods that match an arriving one.
    pub fn matched(&self, namespace: &Name, labels: &Labels) -> Matched {
        let mut matched = Matched::default();
        if self.holder_ids.is_empty() {
            return matched;
        }
        for relation in self.of_pod(namespace, labels) {
            for at in self.holders_of.get(&relation).into_iter().flatten() {
                let holder = self.holders[*at].as_ref().expect("holders are listed while they have domains");
                let topology = holder.key.topology;
                for (domain, count) in &holder.by_domain {
                    match holder.key.bearing {
                        Bearing::Objects => matched.objections.push((topology, *domain)),
                        Bearing::Inclines(by) => {
                            matched.inclinations.push((topology, *domain, by * i64::from(*count)));
                        }
                    }
                }
            }
        }
        matched
    }
}
