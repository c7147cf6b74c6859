//! What follows from ceilings, once for all policies: refusals, shortages, room for groups, which cards are counted.

use std::collections::BTreeMap;

use crate::fact::Amount;
use crate::policy::queue::lent::When;
use crate::policy::{Ask, Ceiling, LedgerId, QuotaId, Quotas};
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

/// What pods that wait for room are expected to hold, in each ledger that limits them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expected(BTreeMap<(LedgerId, ResourceId), i128>);

impl Quotas {
    /// Counts the pods, of so many that each request this, that are admitted beside what is taken and expected; says
    /// what refuses the next. Those that are admitted are expected from then on.
    pub fn admitted_beside(
        &self,
        quotas: &[QuotaId],
        ask: &Ask<'_>,
        many: usize,
        expected: &mut Expected,
    ) -> (usize, Option<Code>) {
        let mut admitted = i128::try_from(many).unwrap_or(i128::MAX);
        let mut refused: Option<Code> = None;
        let mut ceilings = Vec::new();
        self.ceilings(quotas, ask, |ceiling| {
            let Ceiling { ledger, resource, requested, limit, code, .. } = ceiling;
            if let Some(held) = self.held(&ceiling, When::Both).filter(|_| requested > 0) {
                let beside = expected.0.get(&(ledger, resource)).copied().unwrap_or(0);
                let left = (limit - held - beside).max(0) / requested;
                if left < admitted || left == admitted && refused.is_some_and(|known| code < known) {
                    (admitted, refused) = (left, Some(code));
                }
                ceilings.push((ledger, resource, requested));
            }
        });
        for (ledger, resource, requested) in ceilings {
            *expected.0.entry((ledger, resource)).or_default() += requested * admitted;
        }
        (usize::try_from(admitted).unwrap_or(many), refused)
    }

    /// Why the quotas refuse a pod that asks for this; the first is the one that counts.
    pub fn refusals(&self, quotas: &[QuotaId], ask: &Ask<'_>, names: &ResourceNames) -> Vec<Refusal> {
        let mut refusals: Vec<Refusal> = Vec::new();
        self.ceilings(quotas, ask, |ceiling| {
            // For one for whom pods went a ceiling holds now, pods that are leaving included, and when all have come
            // and gone: each on its own. Others leave what is reserved alone, too.
            let passes = |used: &i128| used + ceiling.requested > ceiling.limit;
            let apart = self.held(&ceiling, When::Now).max(self.held(&ceiling, When::Later));
            // Whoever is refused by one of the two alone is told that one: their sum is held at no time.
            let together = || if ask.has_victims { None } else { self.held(&ceiling, When::Both) };
            if let Some(used) = apart.filter(passes).or_else(|| together().filter(passes)) {
                refusals.push(self.refusal(&ceiling, used, names));
            }
        });
        refusals.sort_by_key(|refusal| refusal.code);
        refusals
    }

    /// What is short in the ledgers for a pod that asks for this, once those who leave are gone.
    pub fn shortages(&self, quotas: &[QuotaId], ask: &Ask<'_>) -> Vec<Shortage> {
        let mut shortages = Vec::new();
        self.ceilings(quotas, ask, |ceiling| {
            let Some(held) = self.held(&ceiling, When::Later) else { return };
            let amount = held + ceiling.requested - ceiling.limit;
            if amount > 0 {
                shortages.push(Shortage { ledger: ceiling.ledger, resource: ceiling.resource, amount });
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
                LedgerId::NonPreemptible(_) | LedgerId::Kept { .. } => return,
            };
            if refusal.is_none() && used + ceiling.requested > ceiling.limit {
                refusal = Some(self.refusal(&ceiling, used, names));
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

    /// What is held in the ledger of a ceiling; `None` where the ceiling does not bind what is asked.
    fn held(&self, ceiling: &Ceiling, when: When) -> Option<i128> {
        let resource = ceiling.resource;
        Some(match ceiling.ledger {
            LedgerId::Quota(id) => self.get(id).ledger.held(resource, when),
            LedgerId::Pool(id) => self.pool(id).ledger.held(resource, when),
            LedgerId::NonPreemptible(id) if when == When::Now => self.get(id).ledger.non_preemptible.get(resource),
            LedgerId::NonPreemptible(id) => self.get(id).ledger.taken_by_non_preemptible(resource),
            LedgerId::Kept { queue, below } => {
                return self.kept_with(queue, below, (resource, ceiling.requested), when);
            }
        })
    }

    /// What a pod is told that would pass a ceiling.
    fn refusal(&self, ceiling: &Ceiling, used: i128, names: &ResourceNames) -> Refusal {
        let Ceiling { quota, ledger, resource, requested, limit, code } = *ceiling;
        // Of what is kept from all others together, a queue is told what is left for it.
        let others = match ledger {
            LedgerId::Kept { .. } => (used - self.get(quota).ledger.taken(resource)).clamp(0, limit.max(0)),
            _ => 0,
        };
        let (used, limit) = (used - others, limit - others);
        Refusal {
            code,
            quota,
            resource,
            numbers: Numbers { resource: names.name(resource).clone(), used, requested, limit },
        }
    }

    /// Whether there may be more room in a ledger when a pod of these quotas goes: it holds something there, or it
    /// stands outside all trees, and what is shared out in one grows.
    pub fn may_gain(&self, ledger: LedgerId, quotas: &[QuotaId]) -> bool {
        self.is_charged(ledger, quotas) || self.is_moving(ledger) && !self.is_any_shared_out(quotas)
    }

    /// Whether what may be held in a ledger moves with what others hold and request.
    pub fn is_moving(&self, ledger: LedgerId) -> bool {
        matches!(ledger, LedgerId::Quota(id) if self.is_shared_out(id))
    }

    /// Whether one of these quotas has ceilings that move with what others hold and request.
    pub fn is_any_shared_out(&self, quotas: &[QuotaId]) -> bool {
        quotas.iter().any(|quota| self.is_shared_out(*quota))
    }

    /// Whether holdings in a ledger go down when a pod of these quotas goes.
    fn is_charged(&self, ledger: LedgerId, quotas: &[QuotaId]) -> bool {
        if matches!(ledger, LedgerId::Kept { below: None, .. }) {
            return true;
        }
        quotas.iter().any(|quota| match ledger {
            LedgerId::Quota(id) => self.path(*quota).any(|above| above == id),
            LedgerId::Pool(pool) => self.get(*quota).pool == pool,
            LedgerId::NonPreemptible(_) => false,
            LedgerId::Kept { below: Some(id), .. } => self.path(*quota).any(|above| above == id),
            LedgerId::Kept { below: None, .. } => true,
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
