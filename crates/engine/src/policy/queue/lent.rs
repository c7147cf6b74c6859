//! What queues leave of their guarantees: it is kept for them from all others together, at every level.
//!
//! A queue *leaves* what it is guaranteed and does not hold, or what the queues below it leave, whichever is more.
//! What is held at a level and what is left there together never pass what the level has: who would take more is
//! refused. The sums are kept up to date from below with every change of a ledger.

use std::collections::BTreeMap;

use crate::ledger::Ledger;
use crate::policy::queue::QueuePolicy;
use crate::policy::{Charge, Counted, Policy, QuotaId, Quotas};
use crate::resources::ResourceId;
use crate::sign::Sign;

/// What counts as held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// What is held now, pods that leave included.
    Now,
    /// What will be held when all have come and gone.
    Later,
    /// What is held now, and what is reserved.
    Both,
}

/// An amount for each [`When`].
type Whenever = [i128; 3];

const WHENEVER: [When; 3] = [When::Now, When::Later, When::Both];

impl Ledger {
    pub fn held(&self, resource: ResourceId, when: When) -> i128 {
        match when {
            When::Now => self.used.get(resource),
            When::Later => self.to_be_used(resource),
            When::Both => self.taken(resource),
        }
    }
}

/// What is left of guarantees, by resource; what is not there is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::policy) struct Lent(BTreeMap<ResourceId, Whenever>);

impl Lent {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, resource: ResourceId) -> bool {
        self.0.contains_key(&resource)
    }

    pub fn get(&self, resource: ResourceId, when: When) -> i128 {
        self.0.get(&resource).map_or(0, |amounts| amounts[when as usize])
    }

    fn add(&mut self, other: &Lent, sign: Sign) {
        for (resource, amounts) in &other.0 {
            let sums = self.0.entry(*resource).or_default();
            sums.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += sign.of(*amount));
            if *sums == Whenever::default() {
                self.0.remove(resource);
            }
        }
    }

    fn less(mut self, other: &Lent) -> Lent {
        self.add(other, Sign::Take);
        self
    }
}

impl QueuePolicy {
    /// What a queue with such a ledger leaves of what it and those below it are guaranteed.
    pub fn leaves(&self, ledger: &Ledger) -> Lent {
        let named = self.guarantee.iter().map(|(resource, _)| *resource);
        let resources = named.chain(self.lent_below.0.keys().copied());
        let amounts = resources.map(|r| (r, WHENEVER.map(|when| self.leaves_beside(ledger, r, when, 0, 0))));
        Lent(amounts.filter(|(_, amounts)| *amounts != Whenever::default()).collect())
    }

    /// What it leaves with so much more held, of which it takes so much out of what those below it leave.
    fn leaves_beside(&self, ledger: &Ledger, resource: ResourceId, when: When, more: i128, below: i128) -> i128 {
        let own = self.guarantee(resource) - ledger.held(resource, when) - more;
        own.max(self.lent_below.get(resource, when) + below).max(0)
    }

    /// Changes a queue's ledger, where those below it leave so much more than before. Returns what it leaves more.
    pub fn change_ledger(&mut self, ledger: &mut Ledger, below: &Lent, change: impl Fn(&mut Ledger)) -> Lent {
        if self.guarantee.is_empty() && self.lent_below.is_empty() && below.is_empty() {
            change(ledger);
            return Lent::default();
        }
        let before = self.leaves(ledger);
        self.lent_below.add(below, Sign::Add);
        change(ledger);
        if self.is_counted { self.leaves(ledger).less(&before) } else { Lent::default() }
    }
}

impl Quotas {
    /// What is left at the top is so much more than before.
    pub(in crate::policy) fn lend_at_top(&mut self, more: &Lent) {
        self.shared.queues.lent.add(more, Sign::Add);
    }

    /// Counts what some pod holds or reserves, whatever its quotas (or no longer).
    pub(in crate::policy) fn count_everything(&mut self, what: Counted, charge: &Charge, sign: Sign) {
        what.of(&mut self.shared.queues.everything).charge(charge, sign);
    }

    /// Counts what a queue leaves with those above it (or no longer).
    pub(super) fn count_lent(&mut self, id: QuotaId, sign: Sign) {
        let mut lent = Lent::default();
        debug_assert_ne!(self.queue(id).is_counted, sign.is_add(), "what a queue leaves counts once");
        lent.add(&self.queue(id).leaves(&self.get(id).ledger), sign);
        self.change_from(self.get(id).parent, lent, |_| ());
        self.queue_mut(id).is_counted = sign.is_add();
    }

    /// What is held at a level, and what queues leave there once a pod of `queue` has so much more: below one above it,
    /// or of everything. `None`: nobody leaves anything there, or the pod takes no more than what is kept for its own.
    pub(in crate::policy) fn kept_with(
        &self,
        queue: QuotaId,
        below: Option<QuotaId>,
        (resource, more): (ResourceId, i128),
        when: When,
    ) -> Option<i128> {
        let mut change = 0;
        for level in self.path(queue).take_while(|level| Some(*level) != below) {
            let (policy, ledger) = (self.queue(level), &self.get(level).ledger);
            let before = policy.leaves_beside(ledger, resource, when, 0, 0);
            change = policy.leaves_beside(ledger, resource, when, more, change) - before;
        }
        let (held, lent) = match below {
            Some(level) => (&self.get(level).ledger, &self.queue(level).lent_below),
            None => (&self.shared.queues.everything, &self.shared.queues.lent),
        };
        let left = lent.get(resource, when) + change;
        (left > 0 && more + change > 0).then(|| held.held(resource, when) + left)
    }

    /// What is left at every level equals a recount.
    pub(in crate::policy) fn check_lent(&self) -> Result<(), String> {
        let mut counted: BTreeMap<Option<QuotaId>, Lent> = BTreeMap::new();
        let queues = || self.iter().filter(|(_, quota)| matches!(quota.policy, Policy::Queue(_)));
        for (id, quota) in queues() {
            let lent = self.queue(id).leaves(&quota.ledger);
            counted.entry(quota.parent).or_default().add(&lent, Sign::Add);
        }
        let mut is_same = |level: Option<QuotaId>, lent: &Lent| counted.remove(&level).unwrap_or_default() == *lent;
        if !is_same(None, &self.shared.queues.lent) {
            return Err("what queues leave of their guarantees is not what a recount gives".to_string());
        }
        for (id, quota) in queues() {
            if !is_same(Some(id), &self.queue(id).lent_below) {
                return Err(format!("{}: what is left below it is not what a recount gives", quota.key));
            }
        }
        Ok(())
    }
}
