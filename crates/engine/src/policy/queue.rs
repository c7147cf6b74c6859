//! Queues: a capability that is the limit, a guarantee that is kept free, and what is deserved in between.
//!
//! *Ceiling*: the capability, and what the guarantees of others leave, at every level; cards are counted by name. What
//! is guaranteed is kept from all others together (`lent.rs`).
//! *Entitlement*: what is deserved, never less than the guarantee.

pub(super) mod lent;
mod links;

use std::collections::{BTreeMap, BTreeSet};

use crate::decision::Rule;
use crate::engine::CardSettings;
use crate::fact::{Amount, Name};
use crate::ledger::links::Links;
use crate::ledger::share::Share;
use crate::ledger::sums::Sums;
use crate::ledger::{Ledger, amount_of, compile};
use crate::policy::queue::lent::Lent;
use crate::policy::{
    Amounts, Ask, At, Ceiling, Charge, Draw, DrawDepth, LedgerId, PolicyKind, QueueFact, QuotaId, Quotas, Rules,
    Standing, Strength, Taking, Users,
};
use crate::reason::Code;
use crate::resources::{CPU_ID, MEMORY_ID, ResourceId, ResourceNames};

/// The queue above all others.
const ROOT_QUEUE: &str = "root";
/// The queue of pods that name none.
const DEFAULT_QUEUE: &str = "default";

/// What a queue says.
#[derive(Debug, Clone, Default)]
pub(super) struct QueuePolicy {
    fact: QueueFact,
    capability: Vec<(ResourceId, Amount)>,
    deserved: Option<Vec<(ResourceId, Amount)>>,
    guarantee: Vec<(ResourceId, Amount)>,
    cards: Option<Vec<(ResourceId, Amount)>>,
    /// Σ guarantee of the queues below it.
    guaranteed_below: Sums,
    /// Σ what those leave of it.
    lent_below: Lent,
    /// What it leaves itself counts above it; not while it changes or goes.
    is_counted: bool,
    children: u32,
}

impl QueuePolicy {
    fn new(fact: QueueFact, names: &mut ResourceNames) -> Self {
        QueuePolicy {
            capability: compile(&fact.capability, names),
            // One that names nothing says nothing.
            deserved: fact.deserved.as_ref().map(|d| compile(d, names)).filter(|deserved| !deserved.is_empty()),
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

    /// What is deserved or guaranteed of each resource that is named in either, whichever is more.
    fn deserving(&self) -> Vec<(ResourceId, i128)> {
        let mut deserving: BTreeMap<ResourceId, i128> = BTreeMap::new();
        for (resource, amount) in self.deserved.iter().flatten().chain(&self.guarantee) {
            let most = deserving.entry(*resource).or_insert(i128::MIN);
            *most = (*most).max(i128::from(*amount));
        }
        deserving.into_iter().collect()
    }
}

/// All queues.
#[derive(Debug, Clone, Default)]
pub(super) struct Queues {
    links: Links,
    /// The queues of namespaces.
    of_namespace: BTreeMap<Name, Name>,
    /// Σ guarantee of the queues that have no other above them.
    guaranteed_top: Sums,
    /// Σ what those leave of it.
    lent: Lent,
    /// What all pods hold and reserve, those of no queue too.
    everything: Ledger,
    /// By resource number: whether it is a kind of card.
    is_card: Vec<bool>,
    /// The resources by which nodes have cards now.
    card_resources: BTreeSet<ResourceId>,
    /// Pods with cards are not held to cpu and memory.
    unlimited_cpu_memory: bool,
}

impl Queues {
    pub fn configure(&mut self, settings: &CardSettings) {
        self.unlimited_cpu_memory = settings.unlimited_cpu_memory;
    }

    fn is_card(&self, resource: ResourceId) -> bool {
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

    /// Notes whether nodes have cards that are had by this resource.
    pub fn note_card_resource(&mut self, resource: ResourceId, has_cards: bool) {
        if has_cards {
            self.card_resources.insert(resource);
        } else {
            self.card_resources.remove(&resource);
        }
    }

    /// The queue of those in a namespace that name none.
    pub fn default_of(&self, namespace: &Name) -> Option<Name> {
        let default = || self.links.find(DEFAULT_QUEUE).map(|_| Name::from(DEFAULT_QUEUE));
        self.of_namespace.get(namespace).cloned().or_else(default)
    }

    /// Returns whether it is another one than before.
    pub fn set_of_namespace(&mut self, namespace: Name, queue: Option<Name>) -> bool {
        match queue {
            Some(queue) => self.of_namespace.insert(namespace, queue.clone()) != Some(queue),
            None => self.of_namespace.remove(&namespace).is_some(),
        }
    }

    pub fn find(&self, name: &str) -> Option<QuotaId> {
        self.links.find(name)
    }

    /// What a charge is held to in queues.
    fn held_to<'a>(&'a self, charge: &'a Charge) -> impl Iterator<Item = (ResourceId, i128)> + 'a {
        let is_of_cards = |r: ResourceId| self.is_card(r) || self.card_resources.contains(&r);
        let has_card = charge.iter().any(|(resource, _)| is_of_cards(*resource));
        let free = self.unlimited_cpu_memory && has_card;
        let held = charge.iter().filter(move |(r, _)| !(free && (*r == CPU_ID || *r == MEMORY_ID)));
        held.map(|(resource, amount)| (*resource, i128::from(*amount)))
    }
}

impl<'a> At<'a, QueuePolicy> {
    /// Whether, below the queue that both are under, the queues of the claimant deserve what it asks for, and those of
    /// the victim hold more than they deserve.
    fn draws_through(&self, taking: &Taking<'_>) -> bool {
        let quotas = self.quotas;
        let Taking { claimant, charge, compared, gone_before, .. } = *taking;
        let mine: Vec<QuotaId> = quotas.path(claimant).collect();
        let theirs: Vec<QuotaId> = quotas.path(self.id).collect();
        let deserves = |level: &QuotaId| {
            let ledger = &quotas.get(*level).ledger;
            charge.iter().filter(|(r, _)| compared.contains(r)).all(|(r, amount)| {
                quotas.deserved_above(*level, *r).is_none_or(|d| ledger.to_be_used(*r) + i128::from(*amount) <= d)
            })
        };
        let over = |level: &QuotaId| quotas.permits_below(*level, compared, gone_before);
        mine.iter().skip(1).filter(|level| !theirs.contains(level)).all(deserves)
            && theirs.iter().skip(1).filter(|level| !mine.contains(level)).all(over)
    }
}

impl<'a> Rules<'a> for At<'a, QueuePolicy> {
    fn kind(&self) -> PolicyKind {
        PolicyKind::Queue
    }

    fn min(&self) -> &'a Charge {
        &self.policy.guarantee
    }

    fn max(&self) -> Vec<(ResourceId, Amount)> {
        let cards = self.policy.cards.iter().flatten();
        self.policy.capability.iter().chain(cards).copied().collect()
    }

    fn ceilings(&self, ask: &Ask<'_>, direct: bool, each: &mut impl FnMut(Ceiling)) {
        let (quota, queues) = (self.id, &self.quotas.shared.queues);
        for (resource, requested) in queues.held_to(ask.charge) {
            let code = if queues.is_card(resource) { Code::CardQuotaExceeded } else { Code::QuotaMaxExceeded };
            if let Some(limit) = self.quotas.real_capability(quota, resource) {
                each(Ceiling { quota, ledger: LedgerId::Quota(quota), resource, requested, limit, code });
            }
            if !direct || !queues.lent.has(resource) {
                continue;
            }
            // What others leave of their guarantees is kept from this one and all others together, wherever there is
            // only so much: below a queue that says how much, and in the cluster.
            let mut kept = |below: Option<QuotaId>, limit: i128| {
                each(Ceiling {
                    quota,
                    ledger: LedgerId::Kept { queue: quota, below },
                    resource,
                    requested,
                    limit,
                    code,
                });
            };
            for level in self.quotas.path(quota).skip(1) {
                if let Some(limit) = self.quotas.capability(level, resource) {
                    kept(Some(level), limit);
                }
            }
            kept(None, self.quotas.total.get(resource));
        }
    }

    fn standing(&self, charge: &Charge) -> Standing {
        let stays_within = |(resource, amount): &&(ResourceId, Amount)| {
            let taken = self.quota.ledger.to_be_used(*resource);
            self.quotas.deserved(self.id, *resource).is_some_and(|d| taken + i128::from(*amount) <= d)
        };
        let compared: Vec<ResourceId> = charge.iter().filter(stays_within).map(|(resource, _)| *resource).collect();
        let is_entitled = !compared.is_empty() && self.closed().is_none();
        let is_guaranteed = |r: &ResourceId| self.quotas.is_guaranteed(self.id, *r, charge);
        let strength = if compared.iter().any(is_guaranteed) { Strength::Guarantee } else { Strength::Deserved };
        let (rule, depth) = (Rule::QueueReclaim, DrawDepth::Min);
        let draw = is_entitled.then_some(Draw { rule, depth, strength });
        Standing { draw, compared }
    }

    fn keeps(&self, resource: ResourceId, _depth: DrawDepth) -> Option<i128> {
        if self.policy.fact.reclaimable { self.quotas.deserved(self.id, resource) } else { None }
    }

    fn entitlement(&self, resource: ResourceId) -> Option<i128> {
        let is_named = |list: &[(ResourceId, Amount)]| list.iter().any(|(r, _)| *r == resource);
        let is_named = self.policy.deserved.as_deref().is_some_and(is_named) || is_named(&self.policy.guarantee);
        is_named.then(|| self.quotas.deserved(self.id, resource)).flatten()
    }

    fn within(&self) -> Vec<(ResourceId, i128)> {
        let deserving = self.policy.deserving().into_iter();
        deserving.filter_map(|(r, _)| Some((r, self.quotas.deserved(self.id, r)?))).collect()
    }

    fn own(&self) -> Vec<(ResourceId, i128)> {
        self.within()
    }

    /// The largest of used / deserved; the more important queue first.
    fn share(&self) -> Share {
        let (queue, ledger) = (self.policy, &self.quota.ledger);
        let deserving = queue.deserving().into_iter();
        let share = Share::largest(deserving.map(|(resource, amount)| (ledger.used.get(resource), amount)));
        share.with_priority(queue.fact.priority)
    }

    fn has_entitlement(&self) -> bool {
        self.policy.deserved.is_some() || !self.policy.guarantee.is_empty()
    }

    fn guarantees(&self) -> &'a Charge {
        &self.policy.guarantee
    }

    fn permits(&self, taking: &Taking<'_>) -> bool {
        self.draws_through(taking)
    }

    /// It holds more than it deserves, where it says what that is.
    fn permits_below(&self, compared: &[ResourceId], gone: Amounts<'_>) -> bool {
        let is_over = |r: &ResourceId, d: i128| self.quota.ledger.stays(*r) - gone(*r) > d;
        compared.iter().any(|r| self.quotas.deserved_above(self.id, *r).is_none_or(|d| is_over(r, d)))
    }

    fn is_plain(&self) -> bool {
        self.policy.is_plain()
    }

    fn users(&self) -> &'a Users {
        &self.policy.fact.users
    }

    fn closed(&self) -> Option<(Code, String)> {
        let quotas = self.quotas;
        if let Some(closed) = quotas.path(self.id).find(|level| quotas.queue(*level).fact.closed) {
            let name = &quotas.get(closed).key.name;
            return Some((Code::QueueClosed, format!("queue {name} is closed")));
        }
        (self.policy.children > 0).then(|| {
            let name = &self.quota.key.name;
            (Code::QueueNotLeaf, format!("queue {name} has child queues; pods run in leaf queues only"))
        })
    }

    fn requested(&self, resource: ResourceId) -> i128 {
        self.quota.ledger.requested.get(resource)
    }
}

impl Quotas {
    fn queue(&self, id: QuotaId) -> &QueuePolicy {
        self.get(id).policy.queue().expect("a quota that is listed with the queues is one of them")
    }

    fn queue_mut(&mut self, id: QuotaId) -> &mut QueuePolicy {
        self.get_mut(id).policy.queue_mut().expect("a quota that is listed with the queues is one of them")
    }

    /// The most a queue says that it may hold of a resource, or of a card.
    fn capability(&self, id: QuotaId, resource: ResourceId) -> Option<i128> {
        let queue = self.queue(id);
        let named = match &queue.cards {
            Some(cards) if self.shared.queues.is_card(resource) => Some(amount_of(cards, resource).unwrap_or(0)),
            _ => None,
        };
        [named, amount_of(&queue.capability, resource)].into_iter().flatten().min()
    }

    /// The most a queue may hold of a resource, by itself and by what the others are guaranteed; `None` where nothing
    /// limits it.
    fn real_capability(&self, id: QuotaId, resource: ResourceId) -> Option<i128> {
        let queue = self.queue(id);
        let capability = self.capability(id, resource);
        let parent = self.get(id).parent;
        if parent.is_none() && *queue.fact.key.name == *ROOT_QUEUE {
            return capability;
        }
        let all = parent.map_or(&self.shared.queues.guaranteed_top, |parent| &self.queue(parent).guaranteed_below);
        let (all, own) = (all.get(resource), queue.guarantee(resource));
        if all - own <= 0 {
            return capability;
        }
        let above = parent.and_then(|parent| self.real_capability(parent, resource));
        let above = above.unwrap_or_else(|| self.total.get(resource));
        let left = (above - all).max(0) + own;
        Some(capability.map_or(left, |capability| capability.min(left)))
    }

    /// Whether a queue that says nothing may be drawn on for a resource. It counts as no quota, and yet it is entitled
    /// to nothing of what the queues above it are entitled to, nor of what others are guaranteed: who stays within a
    /// guarantee takes it back from anybody who has a queue.
    pub(super) fn owes_though_plain(
        &self,
        from: QuotaId,
        claimant: QuotaId,
        charge: &Charge,
        resource: ResourceId,
    ) -> bool {
        let has_queues = self.get(from).policy.queue().is_some() && self.get(claimant).policy.queue().is_some();
        let speaks = || self.path(from).skip(1).any(|level| self.entitlement(level, resource).is_some());
        has_queues && (self.is_guaranteed(claimant, resource, charge) || speaks())
    }

    /// Whether a queue stays within its guarantee of a resource with a pod that is charged so much.
    fn is_guaranteed(&self, id: QuotaId, resource: ResourceId, charge: &Charge) -> bool {
        let asked = amount_of(charge, resource).unwrap_or(0);
        asked > 0 && self.get(id).ledger.to_be_used(resource) + asked <= self.queue(id).guarantee(resource)
    }

    /// What a queue deserves of a resource; `None` where nothing is reclaimed, for it or from it.
    fn deserved(&self, id: QuotaId, resource: ResourceId) -> Option<i128> {
        let queue = self.queue(id);
        let guarantee = queue.guarantee(resource);
        // What is guaranteed is deserved, whatever else is.
        let base = match &queue.deserved {
            Some(deserved) => amount_of(deserved, resource).or_else(|| amount_of(&queue.guarantee, resource))?,
            None => guarantee,
        };
        let most = self.real_capability(id, resource).unwrap_or(i128::MAX);
        Some(base.min(most).max(guarantee))
    }

    /// What a queue above others deserves, where it says so.
    fn deserved_above(&self, id: QuotaId, resource: ResourceId) -> Option<i128> {
        self.queue(id).deserved.as_ref()?;
        self.deserved(id, resource)
    }
}
