//! What a pod's template says about nodes by their labels and taints alone.
//!
//! This part of feasibility and preference changes only when nodes change in kind, so it is kept by node for
//! each distinct rule and shared by all shapes that have the rule.

use std::sync::Arc;

use crate::fact::PodSpec;
use crate::filter::{Filter, cards, declared_features, node_affinity, taints, unschedulable};
use crate::lookup::LookupMap;
use crate::nodes::{NodeId, Nodes};
use crate::resources::ResourceNames;

/// A distinct rule about nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeRuleId(pub u32);

/// The node is cordoned to the pod.
pub(crate) const CORDONED: u8 = 1;
/// The node has a taint that the pod does not tolerate.
pub(crate) const TAINTED: u8 = 2;
/// The pod's selector or affinity excludes the node.
pub(crate) const EXCLUDED: u8 = 4;
/// The node has no card that the pod may take.
pub(crate) const CARDLESS: u8 = 8;
/// There is no such node.
const ABSENT: u8 = 16;
/// The node does not declare a feature that the pod needs.
const UNDECLARED: u8 = 32;

/// Nodes of one class are alike to the template: as many taints ask to be spared, and as much is preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RuleClass {
    pub spared: i64,
    pub preference: i64,
    /// By how much its card is preferred, out of 100.
    pub card: i64,
}

#[derive(Debug, Clone)]
pub(crate) struct NodeRule {
    spec: Arc<PodSpec>,
    flags: Vec<u8>,
    class: Vec<u32>,
    classes: Vec<RuleClass>,
    epoch: u64,
    limit: usize,
}

impl NodeRule {
    pub fn flags(&self, node: NodeId) -> u8 {
        self.flags[node.at()]
    }

    /// What closes each node, by number: 0 where it is there and none of these filters closes it.
    pub fn all_flags(&self) -> &[u8] {
        &self.flags
    }

    /// The filter that closes the node, if one of these does.
    pub fn closed_by(&self, node: NodeId) -> Option<Filter> {
        match self.flags[node.at()] {
            0 => None,
            flags if flags & CORDONED != 0 => Some(Filter::NodeUnschedulable),
            flags if flags & TAINTED != 0 => Some(Filter::TaintToleration),
            flags if flags & (EXCLUDED | ABSENT) != 0 => Some(Filter::NodeAffinity),
            flags if flags & UNDECLARED != 0 => Some(Filter::NodeDeclaredFeatures),
            _ => Some(Filter::Cards),
        }
    }

    pub fn class(&self, node: NodeId) -> u32 {
        self.class[node.at()]
    }

    pub fn classes(&self) -> &[RuleClass] {
        &self.classes
    }

    fn judge(&mut self, node: NodeId, nodes: &Nodes, names: &ResourceNames) {
        let facts = nodes.get(node);
        let spec = &self.spec;
        let mut flags = if facts.present { 0 } else { ABSENT };
        if unschedulable::closes(facts, &spec.tolerations) {
            flags |= CORDONED;
        }
        if taints::closes(facts, &spec.tolerations) {
            flags |= TAINTED;
        }
        if node_affinity::closes(facts, spec) {
            flags |= EXCLUDED;
        }
        if declared_features::closes(facts, spec) {
            flags |= UNDECLARED;
        }
        if cards::closes(facts, spec, names) {
            flags |= CARDLESS;
        }
        let class = RuleClass {
            spared: i64::from(taints::asks_to_be_spared(facts, &spec.tolerations)),
            preference: node_affinity::preference(facts, spec),
            card: cards::preference(facts, spec, names),
        };
        let number = self.classes.iter().position(|c| *c == class).unwrap_or_else(|| {
            self.classes.push(class);
            self.classes.len() - 1
        });
        self.flags[node.at()] = flags;
        self.class[node.at()] = number as u32;
    }
}

/// The parts of a spec that a rule consists of, as a key.
#[derive(Debug, Clone)]
struct Key(Arc<PodSpec>);

impl Key {
    fn parts(&self) -> impl PartialEq + std::hash::Hash + '_ {
        let spec = &*self.0;
        // What is asked for matters only to those who name cards.
        let cards = (!spec.cards.is_empty()).then_some((&spec.cards, spec.any_card, &spec.requests));
        (&spec.node_selector, &spec.required_nodes, &spec.preferred_nodes, &spec.tolerations, &spec.features, cards)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (&*self.0, &*other.0);
        a.node_selector == b.node_selector
            && a.required_nodes == b.required_nodes
            && a.preferred_nodes == b.preferred_nodes
            && a.tolerations == b.tolerations
            && a.features == b.features
            && (&a.cards, a.any_card) == (&b.cards, b.any_card)
            && (a.cards.is_empty() || a.requests == b.requests)
    }
}

impl Eq for Key {}

impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

/// All rules about nodes that are in use.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeRules {
    list: Vec<NodeRule>,
    ids: LookupMap<Key, NodeRuleId>,
    /// Changed when all rules were dropped to make room: numbers from before mean nothing any more.
    pub generation: u64,
}

impl NodeRules {
    /// How many rules are kept. Each takes three bytes a node; when a cluster has more, all are dropped and the
    /// ones in use come back at a scan each.
    const KEPT_MAX: usize = 1024;

    /// The number of the spec's rule.
    pub fn intern(&mut self, spec: &Arc<PodSpec>) -> NodeRuleId {
        let key = Key(spec.clone());
        if let Some(id) = self.ids.get(&key) {
            return *id;
        }
        if self.list.len() >= NodeRules::KEPT_MAX {
            self.list.clear();
            self.ids.clear();
            self.generation += 1;
        }
        let id = NodeRuleId(self.list.len() as u32);
        self.list.push(NodeRule {
            spec: spec.clone(),
            flags: Vec::new(),
            class: Vec::new(),
            classes: Vec::new(),
            epoch: 0,
            limit: 0,
        });
        self.ids.insert(key, id);
        id
    }

    /// Brings a rule up to date with the nodes.
    pub fn refresh(&mut self, id: NodeRuleId, nodes: &Nodes, names: &ResourceNames) {
        let rule = &mut self.list[id.0 as usize];
        if rule.epoch == nodes.epoch && rule.limit == nodes.limit() {
            return;
        }
        rule.flags.resize(nodes.limit(), EXCLUDED);
        rule.class.resize(nodes.limit(), 0);
        for i in 0..nodes.limit() {
            let node = NodeId(i as u32);
            if i >= rule.limit || nodes.kind_changed_after(node, rule.epoch) {
                rule.judge(node, nodes, names);
            }
        }
        rule.epoch = nodes.epoch;
        rule.limit = nodes.limit();
    }

    pub fn get(&self, id: NodeRuleId) -> &NodeRule {
        &self.list[id.0 as usize]
    }
}
