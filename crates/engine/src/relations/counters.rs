//! Counters: for a relation and a topology key, how many placed pods are in each domain.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::lookup::LookupMap;
use crate::node_rules::{EXCLUDED, NodeRuleId, TAINTED};
use crate::nodes::NodeId;
use crate::relations::{CountingTables, RelationId, Relations};
use crate::topology::{DomainId, NO_DOMAIN, TopoId};

/// How many counters are kept; beyond it the one not asked for the longest goes. A counter of a fine key takes
/// 8 bytes a node: 512 of them at 15,000 nodes are 60 MB.
const COUNTERS_MAX: usize = 512;

/// Which nodes a spread constraint counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Eligible {
    /// The keys a node must have.
    pub keys: Vec<TopoId>,
    /// The pod's rule about nodes, and which of its flags exclude one.
    pub rule: Option<(NodeRuleId, u8)>,
}

impl Eligible {
    /// The flags that the policies of a constraint look at.
    pub fn mask(honor_affinity: bool, honor_taints: bool) -> u8 {
        (if honor_affinity { EXCLUDED } else { 0 }) | (if honor_taints { TAINTED } else { 0 })
    }

    pub fn holds(&self, node: NodeId, around: &CountingTables<'_>) -> bool {
        self.keys.iter().all(|key| around.topologies.domain(*key, node) != NO_DOMAIN)
            && self.rule.is_none_or(|(rule, mask)| around.node_rules.get(rule).flags(node) & mask == 0)
    }
}

/// What a counter counts. With `eligible` it is for spreading: on those nodes only, and pods that leave do not count.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CounterKey {
    pub relation: RelationId,
    pub topology: TopoId,
    pub eligible: Option<Eligible>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CounterId(pub u32);

#[derive(Debug, Clone)]
pub(crate) struct Counter {
    pub(super) key: CounterKey,
    by_domain: Vec<i64>,
    total: i64,
    /// For spreading: the eligible nodes of each domain.
    eligible_nodes: Arc<[u32]>,
    /// For spreading: how many domains with an eligible node have a count, by count.
    spectrum: BTreeMap<i64, u32>,
    /// Up to date with nodes and namespaces of these epochs.
    pub(super) epoch: (u64, u64),
    used: u64,
}

impl Counter {
    pub fn at(&self, domain: DomainId) -> i64 {
        self.by_domain.get(domain as usize).copied().unwrap_or(0)
    }

    pub fn total(&self) -> i64 {
        self.total
    }

    /// The least count of a domain with an eligible node, taken as 0 where there are fewer domains than wanted.
    pub fn least(&self, min_domains: Option<u32>) -> i64 {
        if self.has_too_few_domains(min_domains) {
            return 0;
        }
        self.spectrum.first_key_value().map_or(0, |(count, _)| *count)
    }

    /// The same with so many more in a domain.
    pub fn least_with(&self, domain: DomainId, more: i64, min_domains: Option<u32>) -> i64 {
        let is_eligible = || self.eligible_nodes.get(domain as usize).is_some_and(|nodes| *nodes > 0);
        if more == 0 || self.has_too_few_domains(min_domains) || !is_eligible() {
            return self.least(min_domains);
        }
        let (here, mut spectrum) = (self.at(domain), self.spectrum.iter());
        match (spectrum.next(), spectrum.next()) {
            // No other domain has as few.
            (Some((least, 1)), next) if *least == here => {
                next.map_or(here + more, |(next, _)| (here + more).min(*next))
            }
            _ => self.least(min_domains),
        }
    }

    fn has_too_few_domains(&self, min_domains: Option<u32>) -> bool {
        min_domains.is_some_and(|wanted| self.spectrum.values().sum::<u32>() < wanted)
    }

    pub(super) fn add(&mut self, domain: DomainId, by: i64) {
        let at = domain as usize;
        if self.by_domain.len() <= at {
            self.by_domain.resize(at + 1, 0);
        }
        let old = self.by_domain[at];
        self.by_domain[at] += by;
        self.total += by;
        if self.key.eligible.is_some() && self.eligible_nodes.get(at).is_some_and(|nodes| *nodes > 0) {
            note(&mut self.spectrum, old, -1);
            note(&mut self.spectrum, old + by, 1);
        }
    }
}

fn note(spectrum: &mut BTreeMap<i64, u32>, count: i64, by: i32) {
    let domains = spectrum.entry(count).or_insert(0);
    *domains = domains.saturating_add_signed(by);
    if *domains == 0 {
        spectrum.remove(&count);
    }
}

/// How many eligible nodes domains have. Many counters ask for the same, and it takes a look at every node.
#[derive(Debug, Clone, Default)]
pub(super) struct EligibleNodes {
    by_key: LookupMap<(TopoId, Eligible), Arc<[u32]>>,
    count: usize,
    /// Up to date with nodes of this epoch.
    epoch: u64,
}

impl EligibleNodes {
    fn clear(&mut self) {
        self.by_key.clear();
        self.count = 0;
    }

    fn of(&mut self, topology: TopoId, eligible: &Eligible, around: &CountingTables<'_>) -> Arc<[u32]> {
        if self.epoch != around.nodes.epoch || self.count >= COUNTERS_MAX {
            self.epoch = around.nodes.epoch;
            self.clear();
        }
        let Self { by_key, count, .. } = self;
        let made = by_key.or_insert_with((topology, eligible.clone()), || {
            *count += 1;
            let mut nodes = vec![0; around.topologies.domain_limit(topology)];
            for i in 0..around.nodes.limit() {
                let node = NodeId(i as u32);
                let domain = around.topologies.domain(topology, node);
                if domain != NO_DOMAIN && eligible.holds(node, around) {
                    nodes[domain as usize] += 1;
                }
            }
            nodes.into()
        });
        made.clone()
    }
}

impl Relations {
    /// The counter for a key, counted now if there is none or nodes changed in kind since.
    pub fn counter(&mut self, key: &CounterKey, around: &CountingTables<'_>) -> CounterId {
        self.clock += 1;
        let epoch = (around.nodes.epoch, self.namespace_epoch);
        let id = match self.counter_ids.get(key) {
            Some(id) => *id,
            None => {
                if self.counters_live >= COUNTERS_MAX {
                    self.drop_oldest_counter();
                }
                let has_free = self.counters_live < self.counters.len();
                let id = match self.counters.iter().position(Option::is_none).filter(|_| has_free) {
                    Some(free) => CounterId(free as u32),
                    None => {
                        self.counters.push(None);
                        CounterId(self.counters.len() as u32 - 1)
                    }
                };
                self.counters[id.0 as usize] = Some(Counter {
                    key: key.clone(),
                    by_domain: Vec::new(),
                    total: 0,
                    eligible_nodes: Arc::default(),
                    spectrum: BTreeMap::new(),
                    epoch: (u64::MAX, u64::MAX),
                    used: 0,
                });
                self.counters_live += 1;
                self.counter_ids.insert(key.clone(), id);
                self.relation_mut(key.relation).counters.push(id);
                id
            }
        };
        let counter = self.counters[id.0 as usize].as_mut().expect("found or made above");
        counter.used = self.clock;
        if counter.epoch != epoch {
            self.counted += 1;
            let fresh = self.count_anew(key, epoch, around);
            self.counters[id.0 as usize] = Some(fresh);
        }
        id
    }

    pub fn get(&self, id: CounterId) -> &Counter {
        self.counters[id.0 as usize].as_ref().expect("a counter is used right after it was asked for")
    }

    fn count_anew(&mut self, key: &CounterKey, epoch: (u64, u64), around: &CountingTables<'_>) -> Counter {
        let CountingTables { pods, topologies, .. } = *around;
        let mut counter = Counter {
            key: key.clone(),
            by_domain: Vec::new(),
            total: 0,
            eligible_nodes: Arc::default(),
            spectrum: BTreeMap::new(),
            epoch,
            used: self.clock,
        };
        if let Some(eligible) = &key.eligible {
            counter.eligible_nodes = self.eligible_nodes.of(key.topology, eligible, around);
            let domains = counter.eligible_nodes.iter().filter(|nodes| **nodes > 0).count() as u32;
            if domains > 0 {
                counter.spectrum.insert(0, domains);
            }
        }
        for pod in self.placed(key.relation, pods) {
            let Some(node) = pod.node() else { continue };
            let domain = topologies.domain(key.topology, node);
            let counts = match &key.eligible {
                Some(eligible) => !pod.is_leaving() && eligible.holds(node, around),
                None => true,
            };
            if domain != NO_DOMAIN && counts {
                counter.add(domain, 1);
            }
        }
        counter
    }

    fn drop_oldest_counter(&mut self) {
        let live = self.counters.iter().enumerate().filter_map(|(i, c)| c.as_ref().map(|c| (c.used, i)));
        if let Some((_, oldest)) = live.min() {
            let counter = self.counters[oldest].as_ref().expect("it was just found");
            let relation = counter.key.relation;
            let id = CounterId(oldest as u32);
            self.relation_mut(relation).counters.retain(|c| *c != id);
            self.drop_counter(id);
        }
    }

    pub(super) fn drop_counter(&mut self, id: CounterId) {
        if let Some(counter) = self.counters[id.0 as usize].take() {
            self.counter_ids.remove(&counter.key);
            self.counters_live -= 1;
        }
    }

    /// All counters go: rules about nodes got new numbers.
    pub fn drop_counters(&mut self) {
        self.eligible_nodes.clear();
        for i in 0..self.counters.len() {
            if let Some(counter) = &self.counters[i] {
                let (relation, id) = (counter.key.relation, CounterId(i as u32));
                self.relation_mut(relation).counters.retain(|c| *c != id);
                self.drop_counter(id);
            }
        }
    }
}
