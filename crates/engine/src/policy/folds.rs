//! What follows from ceilings, once for all policies: refusals, shortages, room for groups, which cards are counted.

use crate::fact::Amount;
use crate::policy::{Ask, LedgerId, QuotaId, Quotas};
use crate::reason::{Code, Numbers};
use crate::resources::{ResourceId, ResourceNames};

/// Why a quota refuses a pod.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub code: Code,
    pub quota: QuotaId,
    pub resource: ResourceId,
    pub numbers: Numbers,
}

/// Something that a claimant is short of in a ledger, and how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shortage {
    pub ledger: LedgerId,
    pub resource: ResourceId,
    pub amount: i128,
}

impl Quotas {
    /// Why the quotas refuse a pod that asks for this; the first is the one that counts.
    pub fn refusals(&self, quotas: &[QuotaId], ask: &Ask<'_>, names: &ResourceNames) -> Vec<Refusal> {
        let mut refusals: Vec<Refusal> = Vec::new();
        self.ceilings(quotas, ask, |ceiling| {
            // For one for whom pods went a ceiling holds now, pods that are leaving included, and when all have come
            // and gone: each on its own. Others leave what is reserved alone, too.
            let (ledger, resource) = (ceiling.ledger, ceiling.resource);
            let apart = self.used(ledger, resource).max(self.to_be_used(ledger, resource));
            // Whoever is refused by one of the two alone is told that one: their sum is held at no time.
            let is_told_apart = ask.has_victims || apart + ceiling.requested > ceiling.limit;
            let used = if is_told_apart { apart } else { self.taken(ledger, resource) };
            if used + ceiling.requested > ceiling.limit {
                refusals.push(ceiling.refusal(used, names));
            }
        });
        refusals.sort_by_key(|refusal| refusal.code);
        refusals
    }

    /// What is short in the ledgers for a pod that asks for this, once those who leave are gone.
    pub fn shortages(&self, quotas: &[QuotaId], ask: &Ask<'_>) -> Vec<Shortage> {
        let mut shortages = Vec::new();
        self.ceilings(quotas, ask, |ceiling| {
            let (ledger, resource) = (ceiling.ledger, ceiling.resource);
            let amount = self.to_be_used(ledger, resource) + ceiling.requested - ceiling.limit;
            if amount > 0 {
                shortages.push(Shortage { ledger, resource, amount });
            }
        });
        shortages
    }

    /// Whether a quota, and those above it, have room for so much more of a resource beside what is used and reserved.
    pub fn room_for(&self, quota: QuotaId, asked: (ResourceId, Amount), names: &ResourceNames) -> Result<(), Refusal> {
        let mut refusal = None;
        self.ceilings(&[quota], &Ask { charge: &[asked], non_preemptible: false, has_victims: false }, |ceiling| {
            let used = match ceiling.ledger {
                LedgerId::Quota(id) => self.get(id).ledger.admitted(ceiling.resource),
                LedgerId::Pool(id) => self.pool(id).ledger.admitted(ceiling.resource),
                LedgerId::NonPreemptible(_) => return,
            };
            if refusal.is_none() && used + ceiling.requested > ceiling.limit {
                refusal = Some(ceiling.refusal(used, names));
            }
        });
        refusal.map_or(Ok(()), Err)
    }

    /// Whether one of these quotas, or one above them, limits how many of a card may be held.
    pub fn counts_card(&self, quotas: &[QuotaId], card: ResourceId) -> bool {
        let mut counts = false;
        self.ceilings(quotas, &Ask { charge: &[(card, 0)], non_preemptible: false, has_victims: false }, |_| {
            counts = true
        });
        counts
    }

    /// Whether some quota limits a resource, or is entitled to some of it.
    pub fn speaks_of(&self, resource: ResourceId) -> bool {
        self.iter().any(|(id, _)| self.entitlement(id, resource).is_some() || self.counts_card(&[id], resource))
    }

    /// What is held and claimed in a ledger now.
    fn taken(&self, ledger: LedgerId, resource: ResourceId) -> i128 {
        match ledger {
            LedgerId::Quota(id) => self.get(id).ledger.taken(resource),
            LedgerId::Pool(id) => self.pool(id).ledger.taken(resource),
            LedgerId::NonPreemptible(id) => self.get(id).ledger.taken_by_non_preemptible(resource),
        }
    }

    /// What is held in a ledger now.
    fn used(&self, ledger: LedgerId, resource: ResourceId) -> i128 {
        match ledger {
            LedgerId::Quota(id) => self.get(id).ledger.used.get(resource),
            LedgerId::Pool(id) => self.pool(id).ledger.used.get(resource),
            LedgerId::NonPreemptible(id) => self.get(id).ledger.non_preemptible.get(resource),
        }
    }

    /// What will be held in a ledger when those who leave are gone and those who claim have come.
    fn to_be_used(&self, ledger: LedgerId, resource: ResourceId) -> i128 {
        match ledger {
            LedgerId::Quota(id) => self.get(id).ledger.to_be_used(resource),
            LedgerId::Pool(id) => self.pool(id).ledger.to_be_used(resource),
            LedgerId::NonPreemptible(id) => self.get(id).ledger.taken_by_non_preemptible(resource),
        }
    }

    /// Whether there may be more room in a ledger when a pod of these quotas goes: it holds something there, or it
    /// stands outside all trees, and what is shared out in one grows.
    pub fn may_gain(&self, ledger: LedgerId, quotas: &[QuotaId]) -> bool {
        let is_shared = matches!(ledger, LedgerId::Quota(id) if self.is_shared_out(id));
        self.is_charged(ledger, quotas) || is_shared && !self.is_any_shared_out(quotas)
    }

    /// Whether one of these quotas has ceilings that move with what others hold and request.
    pub fn is_any_shared_out(&self, quotas: &[QuotaId]) -> bool {
        quotas.iter().any(|quota| self.is_shared_out(*quota))
    }

    /// Whether holdings in a ledger go down when a pod of these quotas goes.
    fn is_charged(&self, ledger: LedgerId, quotas: &[QuotaId]) -> bool {
        quotas.iter().any(|quota| match ledger {
            LedgerId::Quota(id) => self.path(*quota).any(|above| above == id),
            LedgerId::Pool(pool) => self.get(*quota).pool == pool,
            LedgerId::NonPreemptible(_) => false,
        })
    }

    /// The levels at which something must be given up, or a ceiling must rise, before a pod that was refused there can
    /// run. One level does where nobody below it could give anything up: nothing else helps as long as it has no more.
    pub fn gates(&self, refusals: &[Refusal]) -> Vec<QuotaId> {
        let moving = || refusals.iter().filter(|refusal| refusal.code == Code::RuntimeExceeded);
        let holds_nothing = |refusal: &&Refusal| self.get(refusal.quota).ledger.stays(refusal.resource) <= 0;
        match moving().find(holds_nothing) {
            Some(refusal) => vec![refusal.quota],
            None => moving().map(|refusal| refusal.quota).collect(),
        }
    }

    /// Whether no eviction helps a pod of these quotas that was refused so: nobody holds anything where it was, and no
    /// other quota entitles it to evict those who stand outside.
    pub fn is_beyond_help(&self, quotas: &[QuotaId], refusals: &[Refusal]) -> bool {
        if quotas.iter().any(|quota| !self.is_shared_out(*quota) && !self.is_plain(*quota)) {
            return false;
        }
        let mut moving = refusals.iter().filter(|refusal| refusal.code == Code::RuntimeExceeded);
        moving.any(|refusal| self.get(refusal.quota).ledger.taken(refusal.resource) <= 0)
    }

    /// All levels of these quotas whose ceilings move with what other quotas ask for.
    pub fn moving_levels(&self, quotas: &[QuotaId]) -> Vec<QuotaId> {
        let moving = quotas.iter().filter(|quota| self.is_shared_out(**quota));
        moving.flat_map(|quota| self.path(*quota)).collect()
    }
}

impl crate::policy::Ceiling {
    /// What a pod is told that would pass it.
    fn refusal(&self, used: i128, names: &ResourceNames) -> Refusal {
        let (resource, requested, limit) = (self.resource, self.requested, self.limit);
        let numbers = Numbers { resource: names.name(resource).clone(), used, requested, limit };
        Refusal { code: self.code, quota: self.quota, resource, numbers }
    }
}
