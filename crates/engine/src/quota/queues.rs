//! Queues: a capability that is the limit, a guarantee that is kept free, and what is deserved in between.
//!
//! *Ceiling*: the capability, and what the guarantees of others leave, at every level; cards are counted by name.
//! *Entitlement*: what is deserved, never less than the guarantee.

use std::collections::{BTreeMap, BTreeSet};

use crate::fact::{Amount, Name, QueueFact};
use crate::quota::amounts::Sums;
use crate::quota::share::Share;
use crate::quota::{
    Ledger, LedgerId, Policy, QuotaId, Quotas, Refusal, Shortage, above_unless_circle, amount_of, chain, compile,
};
use crate::reason::{Code, Numbers};
use crate::resources::{CPU_ID, MEMORY_ID, ResourceId, ResourceNames};

/// The queue above all others.
pub(crate) const ROOT_QUEUE: &str = "root";
/// The queue of pods that name none.
pub(crate) const DEFAULT_QUEUE: &str = "default";

/// What a queue says.
#[derive(Debug, Clone, Default)]
pub(crate) struct QueuePolicy {
    pub fact: QueueFact,
    pub capability: Vec<(ResourceId, Amount)>,
    deserved: Option<Vec<(ResourceId, Amount)>>,
    pub guarantee: Vec<(ResourceId, Amount)>,
    pub cards: Option<Vec<(ResourceId, Amount)>>,
    /// Σ guarantee of the queues below it.
    guaranteed_below: Sums,
    children: u32,
}

impl QueuePolicy {
    fn new(fact: QueueFact, names: &mut ResourceNames) -> Self {
        QueuePolicy {
            capability: compile(&fact.capability, names),
            deserved: fact.deserved.as_ref().map(|deserved| compile(deserved, names)),
            guarantee: compile(&fact.guarantee, names),
            cards: fact.card_quota.as_ref().map(|cards| compile(cards, names)),
            fact,
            ..QueuePolicy::default()
        }
    }

    /// Whether it says nothing: such a queue counts as none.
    pub fn is_plain(&self) -> bool {
        self.capability.is_empty() && self.deserved.is_none() && self.guarantee.is_empty() && self.cards.is_none()
    }

    pub fn guarantee(&self, resource: ResourceId) -> i128 {
        amount_of(&self.guarantee, resource).unwrap_or(0)
    }

    /// The resources of which something is deserved.
    fn deserving(&self) -> &[(ResourceId, Amount)] {
        self.deserved.as_ref().unwrap_or(&self.guarantee)
    }

    /// The largest of used / deserved; the more important queue first.
    pub fn share(&self, ledger: &Ledger) -> Share {
        let owed = |(resource, amount): &(ResourceId, Amount)| {
            Share::of(ledger.used.get(*resource), i128::from(*amount).max(self.guarantee(*resource)))
        };
        let share = self.deserving().iter().map(owed).max().unwrap_or(Share::EVEN);
        share.with_priority(self.fact.priority)
    }
}

/// All queues.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queues {
    by_name: BTreeMap<Name, QuotaId>,
    /// The queues that name a parent, by its name.
    naming: BTreeMap<Name, BTreeSet<QuotaId>>,
    /// Σ guarantee of the queues that have no other above them.
    guaranteed_top: Sums,
    /// By resource number: whether it is a kind of card.
    is_card: Vec<bool>,
    /// The resources by which nodes have cards now.
    pub card_resources: BTreeSet<ResourceId>,
    /// Pods with cards are not held to cpu and memory.
    pub unlimited_cpu_memory: bool,
}

impl Queues {
    pub fn find(&self, name: &str) -> Option<QuotaId> {
        self.by_name.get(name).copied()
    }

    pub fn is_card(&self, resource: ResourceId) -> bool {
        self.is_card.get(resource.0 as usize).is_some_and(|is_card| *is_card)
    }

    /// Notes that a resource is a kind of card.
    pub fn note_card(&mut self, resource: ResourceId) {
        let at = resource.0 as usize;
        if self.is_card.len() <= at {
            self.is_card.resize(at + 1, false);
        }
        self.is_card[at] = true;
    }
}

impl Quotas {
    /// Whether one of these quotas, or one above them, says how many of a card may be held.
    pub fn speak_of(&self, quotas: &[QuotaId], card: ResourceId) -> bool {
        quotas.iter().flat_map(|id| self.path(*id)).any(|id| {
            let quota = self.get(id);
            match &quota.policy {
                Policy::Elastic(elastic) => {
                    amount_of(&elastic.max, card).is_some() || self.pool(quota.pool).governs(card)
                }
                Policy::Tree(tree) => tree.runtime(card).is_some(),
                Policy::Queue(_) => self.real_capability(id, card).is_some(),
            }
        })
    }

    fn queue(&self, id: QuotaId) -> &QueuePolicy {
        self.get(id).queue().expect("a quota that is listed with the queues is one of them")
    }

    pub fn queue_mut(&mut self, id: QuotaId) -> &mut QueuePolicy {
        match &mut self.get_mut(id).policy {
            Policy::Queue(queue) => queue,
            _ => unreachable!("a quota that is listed with the queues is one of them"),
        }
    }

    /// Why a queue starts nothing, if so.
    pub fn closed_queue(&self, id: QuotaId) -> Option<(Code, String)> {
        if let Some(closed) = self.path(id).find(|level| self.queue(*level).fact.closed) {
            let name = &self.get(closed).key.name;
            return Some((Code::QueueClosed, format!("the queue {name} is closed, and starts nothing new")));
        }
        (self.queue(id).children > 0).then(|| {
            let name = &self.get(id).key.name;
            (Code::QueueNotLeaf, format!("the queue {name} has queues below it; pods go into one of these"))
        })
    }

    /// Takes in a queue. Returns whether it is a new one, to which pods may answer from now on.
    pub fn observe_queue(&mut self, fact: QueueFact, names: &mut ResourceNames) -> bool {
        let key = fact.key.clone();
        let pool = self.pool_of(&key.group, &Name::default());
        let is_new = self.find(&key).is_none();
        let new = QueuePolicy::new(fact, names);
        for (resource, _) in new.cards.iter().flatten() {
            self.queues.note_card(*resource);
        }
        let mut near = Vec::new();
        let id = if is_new {
            let id = self.find_or_insert(key.clone(), pool, Policy::Queue(new));
            self.queues.by_name.insert(key.name.clone(), id);
            id
        } else {
            let id = self.find(&key).expect("it was just found");
            near = chain(id, |id| self.named_above(id));
            self.detach_queue(id);
            let old = self.queue_mut(id);
            let QueuePolicy { guaranteed_below, children, .. } = std::mem::take(old);
            self.get_mut(id).policy = Policy::Queue(QueuePolicy { guaranteed_below, children, ..new });
            id
        };
        self.attach_queue(id);
        // Those below it may have waited for it, and it may have closed a circle, or opened one.
        near.extend(chain(id, |id| self.named_above(id)));
        near.extend(self.queues.naming.get(&key.name).into_iter().flatten());
        self.link_queues_anew(near);
        self.changed.insert(id);
        is_new
    }

    /// The queue that one names as the one above it, if it exists.
    fn named_above(&self, id: QuotaId) -> Option<QuotaId> {
        self.queues.find(&self.named_parent(id)?)
    }

    /// Puts those of these queues below the right one that are not.
    fn link_queues_anew(&mut self, mut queues: Vec<QuotaId>) {
        queues.sort_unstable();
        queues.dedup();
        for id in queues {
            if self.get(id).parent != above_unless_circle(id, |id| self.named_above(id)) {
                self.detach_queue(id);
                self.attach_queue(id);
            }
        }
    }

    /// The name of the queue above, which is the root where none is named.
    fn named_parent(&self, id: QuotaId) -> Option<Name> {
        let queue = self.queue(id);
        let is_root = *queue.fact.key.name == *ROOT_QUEUE;
        (!is_root).then(|| queue.fact.parent.clone().unwrap_or_else(|| Name::from(ROOT_QUEUE)))
    }

    fn attach_queue(&mut self, id: QuotaId) {
        let Some(name) = self.named_parent(id) else { return };
        self.queues.naming.entry(name).or_default().insert(id);
        self.set_parent(id, above_unless_circle(id, |id| self.named_above(id)));
        self.count_child(id, true);
    }

    fn detach_queue(&mut self, id: QuotaId) {
        let Some(name) = self.named_parent(id) else { return };
        if let Some(naming) = self.queues.naming.get_mut(&name) {
            naming.remove(&id);
        }
        self.count_child(id, false);
        self.set_parent(id, None);
    }

    /// Counts a queue with its parent (or no longer).
    fn count_child(&mut self, id: QuotaId, add: bool) {
        let guarantee = self.queue(id).guarantee.clone();
        let Some(parent) = self.get(id).parent else {
            self.queues.guaranteed_top.charge(&guarantee, add);
            return;
        };
        let parent = self.queue_mut(parent);
        parent.guaranteed_below.charge(&guarantee, add);
        parent.children = if add { parent.children + 1 } else { parent.children - 1 };
    }

    /// Takes a queue out, before it is forgotten.
    pub(super) fn unlist_queue(&mut self, id: QuotaId) {
        self.detach_queue(id);
        let name = self.get(id).key.name.clone();
        self.release_queue(id);
        let mut near = chain(id, |id| self.named_above(id));
        near.extend(self.queues.naming.get(&name).into_iter().flatten());
        near.retain(|queue| *queue != id);
        self.link_queues_anew(near);
    }

    /// From now on no pod answers to a queue that is about to be forgotten.
    pub fn release_queue(&mut self, id: QuotaId) {
        let name = self.get(id).key.name.clone();
        if self.queues.by_name.get(&name) == Some(&id) {
            self.queues.by_name.remove(&name);
        }
    }

    /// Counts what is kept for a group in its queue, and what it could give back (or no longer).
    pub fn count_gang(
        &mut self,
        queue: Option<QuotaId>,
        reserved: &[(ResourceId, Amount)],
        elastic: &[(ResourceId, Amount)],
        add: bool,
    ) {
        let Some(queue) = queue.filter(|id| self.is_listed(*id)) else { return };
        self.change(queue, |ledger| {
            ledger.kept.charge(reserved, add);
            ledger.elastic.charge(elastic, add);
        });
    }

    /// The most a queue may hold of a resource, by itself and by what the others are guaranteed; `None` where nothing
    /// limits it.
    pub fn real_capability(&self, id: QuotaId, resource: ResourceId) -> Option<i128> {
        let queue = self.queue(id);
        let named = match &queue.cards {
            Some(cards) if self.queues.is_card(resource) => Some(amount_of(cards, resource).unwrap_or(0)),
            _ => None,
        };
        let capability = [named, amount_of(&queue.capability, resource)].into_iter().flatten().min();
        let parent = self.get(id).parent;
        if parent.is_none() && *queue.fact.key.name == *ROOT_QUEUE {
            return capability;
        }
        let all = parent.map_or(&self.queues.guaranteed_top, |parent| &self.queue(parent).guaranteed_below);
        let (all, own) = (all.get(resource), queue.guarantee(resource));
        if all - own <= 0 {
            return capability;
        }
        let above = parent.and_then(|parent| self.real_capability(parent, resource));
        let above = above.unwrap_or_else(|| self.total.get(resource));
        let is_top = parent.is_none_or(|parent| *self.get(parent).key.name == *ROOT_QUEUE);
        let left = if is_top { (above - (all - own)).max(0) } else { (above - all).max(0) + own };
        Some(capability.map_or(left, |capability| capability.min(left)))
    }

    /// What a queue deserves of a resource; `None` where nothing is reclaimed, for it or from it.
    pub fn deserved(&self, id: QuotaId, resource: ResourceId) -> Option<i128> {
        let queue = self.queue(id);
        let guarantee = queue.guarantee(resource);
        let base = match &queue.deserved {
            Some(deserved) => amount_of(deserved, resource)?,
            None => guarantee,
        };
        let most = self.real_capability(id, resource).unwrap_or(i128::MAX);
        Some(base.min(most).max(guarantee))
    }

    /// What a queue above others deserves, where it says so.
    pub fn deserved_above(&self, id: QuotaId, resource: ResourceId) -> Option<i128> {
        self.queue(id).deserved.as_ref()?;
        self.deserved(id, resource)
    }

    /// What is named in what a queue deserves.
    pub fn deserving(&self, id: QuotaId) -> Vec<ResourceId> {
        self.queue(id).deserving().iter().map(|(resource, _)| *resource).collect()
    }

    /// What a charge is held to in queues.
    fn held_to<'a>(&'a self, charge: &'a [(ResourceId, Amount)]) -> impl Iterator<Item = (ResourceId, i128)> + 'a {
        let is_of_cards = |r: ResourceId| self.queues.is_card(r) || self.queues.card_resources.contains(&r);
        let has_card = charge.iter().any(|(resource, _)| is_of_cards(*resource));
        let free = self.queues.unlimited_cpu_memory && has_card;
        let held = charge.iter().filter(move |(r, _)| !(free && (*r == CPU_ID || *r == MEMORY_ID)));
        held.map(|(resource, amount)| (*resource, i128::from(*amount)))
    }

    pub(super) fn refused_by_queue(
        &self,
        id: QuotaId,
        charge: &[(ResourceId, Amount)],
        names: &ResourceNames,
    ) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        for level in self.path(id) {
            for (resource, requested) in self.held_to(charge) {
                let Some(limit) = self.real_capability(level, resource) else { continue };
                let used = self.get(level).ledger.taken(resource);
                if used + requested > limit {
                    let is_card = self.queues.is_card(resource);
                    let code = if is_card { Code::CardQuotaExceeded } else { Code::QuotaMaxExceeded };
                    let numbers = Numbers { resource: names.name(resource).clone(), used, requested, limit };
                    refusals.push(Refusal { code, quota: level, resource, numbers });
                }
            }
        }
        refusals
    }

    pub(super) fn short_in_queue(&self, id: QuotaId, charge: &[(ResourceId, Amount)]) -> Vec<Shortage> {
        let mut shortages = Vec::new();
        for level in self.path(id) {
            for (resource, requested) in self.held_to(charge) {
                let Some(limit) = self.real_capability(level, resource) else { continue };
                let amount = self.get(level).ledger.to_be_used(resource) + requested - limit;
                if amount > 0 {
                    shortages.push(Shortage { ledger: LedgerId::Quota(level), resource, amount });
                }
            }
        }
        shortages
    }
}
