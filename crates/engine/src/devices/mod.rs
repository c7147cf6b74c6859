//! Devices: the pools, who holds what of them, and the search for those that a pod's claims can have.
//!
//! This module knows nothing of quotas, selectors or notation. Selectors come as verdicts; what a device costs is asked
//! of whoever starts a search.

pub(crate) mod bill;
pub(crate) mod bills;
pub(crate) mod claims;
pub(crate) mod found;
mod kept;
pub(crate) mod prospect;
pub(crate) mod search;
pub(crate) mod site;
#[cfg(test)]
mod tests;
pub(crate) mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::device::{
    Allocation, ClaimSpec, DeviceClassFact, DeviceFact, DeviceResult, PoolFact, PoolKey, PoolState, Reach, Verdict,
    VerdictsFact,
};
use crate::devices::bills::{Asked, Bills};
use crate::devices::found::{Affordable, Chosen, Fault, Found};
use crate::devices::search::search;
use crate::devices::site::Site;
use crate::fact::{Amount, Labels, Name, NodeTerm, Operator, Requirement};
use crate::lookup::LookupMap;
use crate::resources::ResourceId;
use crate::select::term_matches;
use crate::shape::ShapeId;
use crate::sign::Sign;

/// What claims have of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// How many claims have all of it. More than one only where somebody else allocated it twice.
    pub whole: u32,
    pub shares: u32,
    /// What shares consume, by capacity as written.
    pub consumed: BTreeMap<Name, i128>,
}

/// A pool with what is held of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pool {
    /// `devices` is empty where nothing is known of the pool but that claims hold devices of it.
    pub fact: PoolFact,
    pub verdicts: BTreeMap<Name, Arc<[Verdict]>>,
    /// By device. A device that is no longer listed stays held.
    pub held: BTreeMap<Name, Held>,
    listed: bool,
}

impl Pool {
    /// What is left of the counters: devices draw from them wherever they are used.
    pub fn counters_left(&self) -> Vec<Vec<i128>> {
        let mut left: Vec<Vec<i128>> =
            self.fact.counters.iter().map(|(_, set)| set.iter().map(|(_, value)| *value).collect()).collect();
        if left.is_empty() {
            return left;
        }
        for device in self.fact.devices.iter().filter(|device| self.held.contains_key(&device.name)) {
            for (set, counter, amount) in &device.draws {
                left[*set][*counter] -= amount;
            }
        }
        left
    }

    fn is_late(&self) -> bool {
        self.fact.devices.iter().any(|device| device.binds_late)
    }
}

/// All devices, and the classes by which they are asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Devices {
    pools: BTreeMap<PoolKey, Pool>,
    /// The pools with devices or slices of one node alone, by node.
    of_node: BTreeMap<Name, BTreeSet<PoolKey>>,
    /// The pools that more nodes than one may reach.
    wide: BTreeSet<PoolKey>,
    classes: BTreeMap<Name, DeviceClassFact>,
    /// What there is in all has to be counted anew.
    pub totals_changed: bool,
    /// What was counted: by resource.
    pub totals: Vec<(ResourceId, Amount)>,
    /// The nodes that were found to have devices of their own of a class that is one of GPUs.
    pub gpu_nodes: BTreeSet<Name>,
    /// What pods may be charged, by shape, as far as it was worked out.
    pub bills: LookupMap<ShapeId, Arc<Bills>>,
    pub bills_by_request: LookupMap<Asked, Arc<Bills>>,
    /// What pods may be charged may differ from what it was.
    pub bills_changed: bool,
}

/// Devices that were found for the claims of a pod on a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Choice {
    /// By claim.
    pub allocations: Vec<Allocation>,
    /// What the alternatives that were used score: 8 for the first of a list, 7 for the second.
    pub score: i64,
}

fn reaches(reach: &Reach, node: &Name, labels: &Labels) -> bool {
    match reach {
        Reach::All => true,
        Reach::Node(name) => name == node,
        Reach::Nodes(term) => term_matches(term, node, labels),
    }
}

impl Devices {
    pub fn class(&self, name: &Name) -> Option<&DeviceClassFact> {
        self.classes.get(name)
    }

    /// Something changed by which pods may be charged differently.
    pub fn forget_bills(&mut self) {
        self.bills = LookupMap::default();
        self.bills_by_request = LookupMap::default();
        self.bills_changed = true;
    }

    /// What there is changed.
    fn note_changed(&mut self) {
        self.totals_changed = true;
        self.forget_bills();
    }

    /// All classes, by name.
    pub fn classes(&self) -> impl Iterator<Item = &DeviceClassFact> {
        self.classes.values()
    }

    /// Takes in a class. Returns whether it says something new, as do the others here.
    pub fn observe_class(&mut self, fact: DeviceClassFact) -> bool {
        self.note_changed();
        self.classes.insert(fact.name.clone(), fact.clone()).as_ref() != Some(&fact)
    }

    pub fn class_gone(&mut self, name: &Name) -> bool {
        self.note_changed();
        self.classes.remove(name).is_some()
    }

    /// The device of that name, if it is listed.
    pub fn device(&self, pool: &PoolKey, name: &Name) -> Option<&DeviceFact> {
        self.pools.get(pool)?.fact.devices.iter().find(|device| device.name == *name)
    }

    pub fn observe_pool(&mut self, fact: PoolFact) -> bool {
        if self.pools.get(&fact.key).is_some_and(|pool| pool.listed && pool.fact == fact) {
            return false;
        }
        self.note_changed();
        self.list(&fact.key, Sign::Take);
        let key = fact.key.clone();
        let pool = self.pools.entry(key.clone()).or_default();
        pool.fact = fact;
        pool.verdicts.clear();
        pool.listed = true;
        self.list(&key, Sign::Add);
        true
    }

    pub fn pool_gone(&mut self, key: &PoolKey) -> bool {
        self.note_changed();
        let was_listed = self.pools.get(key).is_some_and(|pool| pool.listed);
        self.list(key, Sign::Take);
        if let Some(pool) = self.pools.get_mut(key) {
            pool.fact = PoolFact { key: key.clone(), ..PoolFact::default() };
            pool.verdicts.clear();
            pool.listed = false;
        }
        self.forget_if_idle(key);
        was_listed
    }

    fn forget_if_idle(&mut self, key: &PoolKey) {
        if self.pools.get(key).is_some_and(|pool| !pool.listed && pool.held.is_empty()) {
            self.pools.remove(key);
        }
    }

    pub fn observe_verdicts(&mut self, fact: VerdictsFact) -> bool {
        self.note_changed();
        let Some(pool) = self.pools.get_mut(&fact.pool) else { return false };
        pool.verdicts.insert(fact.matcher, fact.verdicts.clone()).as_ref() != Some(&fact.verdicts)
    }

    pub fn matcher_gone(&mut self, matcher: &Name) {
        for pool in self.pools.values_mut() {
            pool.verdicts.remove(matcher);
        }
    }

    /// Lists a pool under the nodes that reach it (or no longer).
    fn list(&mut self, key: &PoolKey, sign: Sign) {
        let Some(pool) = self.pools.get(key) else { return };
        let of_devices = pool.fact.devices.iter().map(|device| &device.reach);
        for reach in of_devices.chain(&pool.fact.slices) {
            let pools = match reach {
                Reach::Node(node) if sign.is_add() => self.of_node.entry(node.clone()).or_default(),
                Reach::Node(node) => match self.of_node.get_mut(node) {
                    Some(pools) => pools,
                    None => continue,
                },
                _ => &mut self.wide,
            };
            if sign.is_add() {
                pools.insert(key.clone())
            } else {
                pools.remove(key)
            };
            if let Reach::Node(node) = reach
                && self.of_node.get(node).is_some_and(BTreeSet::is_empty)
            {
                self.of_node.remove(node);
            }
        }
    }

    /// The devices of the pools that are ready and match, for what there is in all.
    pub fn matching(&self, matcher: &Name) -> impl Iterator<Item = &DeviceFact> {
        let ready = self.pools.values().filter(|pool| pool.fact.state == PoolState::Ready);
        let of_pool = move |pool: &Pool| {
            let row = pool.verdicts.get(matcher).cloned();
            let yes = move |place: usize| row.as_ref().is_some_and(|row| row.get(place) == Some(&Verdict::Yes));
            (0..pool.fact.devices.len()).filter(move |place| yes(*place))
        };
        ready.flat_map(move |pool| of_pool(pool).map(move |place| &pool.fact.devices[place]))
    }

    /// The nodes with devices of their own of a class that is one of GPUs.
    pub fn nodes_with_gpus(&self) -> BTreeSet<Name> {
        let gpus = self.classes().filter(|class| class.gpu).flat_map(|class| self.matching(&class.name));
        let of_node = gpus.filter_map(|device| match &device.reach {
            Reach::Node(node) => Some(node.clone()),
            Reach::All | Reach::Nodes(_) => None,
        });
        of_node.collect()
    }

    /// The devices of a node's own that are cards: how many there are of each name, and how many are held.
    pub fn cards_of(&self, node: &Name) -> BTreeMap<Name, (i128, i128)> {
        let mut cards: BTreeMap<Name, (i128, i128)> = BTreeMap::new();
        let pools = self.of_node.get(node).into_iter().flatten().filter_map(|key| self.pools.get(key));
        for pool in pools.filter(|pool| pool.fact.state == PoolState::Ready) {
            let is_here = |device: &&DeviceFact| matches!(&device.reach, Reach::Node(name) if name == node);
            for device in pool.fact.devices.iter().filter(is_here) {
                let Some(card) = &device.card else { continue };
                let counts = cards.entry(card.clone()).or_default();
                counts.0 += 1;
                counts.1 += i128::from(pool.held.contains_key(&device.name));
            }
        }
        cards
    }

    /// The devices of pools that are ready.
    pub fn ready(&self) -> impl Iterator<Item = &DeviceFact> {
        self.pools.values().filter(|pool| pool.fact.state == PoolState::Ready).flat_map(|pool| &pool.fact.devices)
    }

    /// Whether every device is for the pods of one node.
    pub fn are_local(&self) -> bool {
        self.wide.is_empty()
    }

    /// How many devices and shares are held.
    pub fn held_count(&self) -> u64 {
        let held = self.pools.values().flat_map(|pool| pool.held.values());
        held.map(|held| u64::from(held.whole) + u64::from(held.shares)).sum()
    }

    /// Counts what an allocation holds (or no longer).
    pub fn hold(&mut self, allocation: &Allocation, sign: Sign) {
        for result in allocation.results.iter().filter(|result| !result.admin) {
            let key = &result.device.pool;
            let pool = self.pools.entry(key.clone()).or_insert_with(|| Pool {
                fact: PoolFact { key: key.clone(), ..PoolFact::default() },
                ..Pool::default()
            });
            let held = pool.held.entry(result.device.device.clone()).or_default();
            let count = if result.share { &mut held.shares } else { &mut held.whole };
            *count = if sign.is_add() { *count + 1 } else { *count - 1 };
            for (capacity, amount) in &result.consumed {
                let sum = held.consumed.entry(capacity.clone()).or_default();
                *sum += sign.of(*amount);
            }
            if held.whole == 0 && held.shares == 0 {
                pool.held.remove(&result.device.device);
            }
            self.forget_if_idle(key);
        }
    }

    /// What a node reaches.
    pub fn site(&self, node: &Name, labels: &Labels) -> Site<'_> {
        let local = self.of_node.get(node);
        let mut keys: Vec<&PoolKey> = local.into_iter().flatten().chain(&self.wide).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut site = Site::default();
        for late in [false, true] {
            for key in &keys {
                let Some(pool) = self.pools.get(*key).filter(|pool| pool.is_late() == late) else { continue };
                let here = |place: &usize| reaches(&pool.fact.devices[*place].reach, node, labels);
                if pool.fact.state == PoolState::Ready {
                    let places: Vec<usize> = (0..pool.fact.devices.len()).filter(here).collect();
                    if !places.is_empty() {
                        site.add(pool, places.into_iter());
                    }
                } else if pool.fact.slices.iter().any(|slice| reaches(slice, node, labels)) {
                    site.unready = site.unready.or(Some(pool));
                }
            }
        }
        site
    }

    /// Devices for claims on a node. `None` where there are none; the second value says whether the search was given
    /// up.
    pub fn choose(
        &self,
        node: &Name,
        labels: &Labels,
        claims: &[Arc<ClaimSpec>],
        affordable: Affordable<'_>,
    ) -> Result<(Option<Choice>, bool), Fault> {
        let site = self.site(node, labels);
        match search(&site, claims, affordable)? {
            Found::Nothing => Ok((None, false)),
            Found::TooLong => Ok((None, true)),
            Found::Devices(chosen) => Ok((Some(choice(&site, claims, &chosen, node)), false)),
        }
    }
}

/// What was chosen, as allocations.
fn choice(site: &Site<'_>, claims: &[Arc<ClaimSpec>], chosen: &[Chosen], node: &Name) -> Choice {
    let mut choice = Choice { allocations: vec![Allocation::default(); claims.len()], score: 0 };
    let mut scored = BTreeSet::new();
    for Chosen { claim, request, alternative, candidate, consumed } in chosen {
        let asked = &claims[*claim].requests[*request];
        if asked.listed && scored.insert((*claim, *request)) {
            choice.score += 8 - *alternative as i64;
        }
        let used = &asked.alternatives[*alternative];
        let known = &site.candidates[*candidate];
        let device = known.device;
        let amounts = device.capacity.iter().zip(consumed);
        choice.allocations[*claim].results.push(DeviceResult {
            request: used.name.clone(),
            device: crate::device::DeviceKey {
                pool: site.pools[known.pool].fact.key.clone(),
                device: device.name.clone(),
            },
            admin: used.admin,
            share: device.shared,
            consumed: amounts.map(|(capacity, amount)| (capacity.written.clone(), *amount)).collect(),
        });
        let nodes = &mut choice.allocations[*claim].nodes;
        add_node_rule(nodes, device, node);
    }
    choice
}

/// Narrows the nodes of an allocation to those that reach one more device.
fn add_node_rule(nodes: &mut Option<Vec<NodeTerm>>, device: &DeviceFact, node: &Name) {
    let local = NodeTerm {
        labels: Vec::new(),
        fields: vec![Requirement {
            key: Name::from("metadata.name"),
            operator: Operator::In,
            values: vec![node.clone()],
        }],
    };
    let is_local = |nodes: &Option<Vec<NodeTerm>>| nodes.as_deref() == Some(std::slice::from_ref(&local));
    match &device.reach {
        Reach::Node(_) => *nodes = Some(vec![local]),
        _ if device.binds_to_node => *nodes = Some(vec![local]),
        Reach::All => {}
        Reach::Nodes(_) if is_local(nodes) => {}
        Reach::Nodes(term) => {
            let terms = nodes.get_or_insert_with(|| vec![NodeTerm::default()]);
            for requirement in term.labels.iter().filter(|r| !terms[0].labels.contains(r)).cloned().collect::<Vec<_>>()
            {
                terms[0].labels.push(requirement);
            }
            for requirement in term.fields.iter().filter(|r| !terms[0].fields.contains(r)).cloned().collect::<Vec<_>>()
            {
                terms[0].fields.push(requirement);
            }
        }
    }
}
