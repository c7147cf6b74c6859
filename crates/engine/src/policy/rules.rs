//! What a policy is asked, and the values it answers with.

use std::collections::BTreeSet;

use crate::decision::Rule;
use crate::fact::{Amount, Name};
use crate::ledger::pool::{Pool, PoolId};
use crate::ledger::share::Share;
use crate::policy::{PolicyKind, Quota, QuotaId, Quotas, Users};
use crate::reason::Code;
use crate::resources::ResourceId;

/// Amounts by resource: what a pod is charged, or what a quota is said to have.
pub(crate) type Charge = [(ResourceId, Amount)];

/// What a pod, or a group, asks of its quotas.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub charge: &'a Charge,
    /// It is never evicted.
    pub non_preemptible: bool,
    /// Pods went for it: what others' victims still hold and what those claim are not both counted against it.
    pub has_victims: bool,
}

/// Whose holdings are limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LedgerId {
    /// A quota's, with those below it.
    Quota(QuotaId),
    /// A pool's.
    Pool(PoolId),
    /// Of a quota, what pods that are never evicted hold: no eviction frees any of it.
    NonPreemptible(QuotaId),
    /// What is held below a queue, or of everything, with what other queues there than this one leave of what they are
    /// guaranteed.
    Kept { queue: QuotaId, below: Option<QuotaId> },
}

/// The most that may be held of a resource in one ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ceiling {
    /// The quota, at whatever level, that has it.
    pub quota: QuotaId,
    pub ledger: LedgerId,
    pub resource: ResourceId,
    /// What the pod asks for.
    pub requested: i128,
    pub limit: i128,
    /// What a pod beyond it is refused with.
    pub code: Code,
}

/// How far a quota may be drawn on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DrawDepth {
    /// Down to what it is entitled to without regard to what others leave unused.
    Min,
    /// Down to its fair share of what others leave unused, which is more.
    FairShare,
}

/// How strong a right to evict is: where two cannot both have their way, the weaker gives way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Strength {
    /// To be more important than others without a quota, or of the same one.
    Priority,
    /// A share of what others leave unused.
    FairShare,
    /// What is deserved beyond a guarantee.
    Deserved,
    /// A min, or a guarantee.
    Guarantee,
}

impl Strength {
    /// All of them, from the weakest on.
    pub const ALL: [Strength; 4] = [Strength::Priority, Strength::FairShare, Strength::Deserved, Strength::Guarantee];
}

/// A right to take from others of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Draw {
    pub rule: Rule,
    pub depth: DrawDepth,
    pub strength: Strength,
}

/// How a claimant stands in one of its quotas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Standing {
    /// `None`: it may only borrow what is free.
    pub draw: Option<Draw>,
    /// What is compared between the claimant and those it takes from.
    pub compared: Vec<ResourceId>,
}

/// Amounts by resource that are worked out when they are asked for.
pub(crate) type Amounts<'a> = &'a dyn Fn(ResourceId) -> i128;

/// One pod that is taken from a quota for a claimant.
#[derive(Clone, Copy)]
pub(crate) struct Taking<'a> {
    /// The claimant's quota, and what it will be charged.
    pub claimant: QuotaId,
    pub charge: &'a Charge,
    pub compared: &'a [ResourceId],
    /// What is gone from the victim's quota before this pod.
    pub gone_before: Amounts<'a>,
}

/// When a quota came to hold more than it keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Crossing {
    Before,
    Now,
}

/// What came of changes since this was last asked.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moved {
    /// Quotas that are served better or worse than before.
    pub shares: BTreeSet<QuotaId>,
    /// Whether some ceiling or entitlement moved.
    pub limits: bool,
    /// Quotas that may hold more, with those below them, or less than what is held and reserved: their pods that rest
    /// until a ceiling moves are tried again.
    pub gates: Vec<QuotaId>,
    /// Pools in which somebody holds what others may claim.
    pub drawn_on: BTreeSet<PoolId>,
}

/// Which pods, and groups, may answer to other quotas than before.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reassigned {
    pub namespaces: BTreeSet<Name>,
    /// Pods that name these quotas.
    pub named: BTreeSet<Name>,
    /// All pods.
    pub all: bool,
    /// All groups.
    pub groups: bool,
}

/// A quota whose policy is asked.
pub(super) struct At<'a, P> {
    pub quotas: &'a Quotas,
    pub id: QuotaId,
    pub quota: &'a Quota,
    pub policy: &'a P,
}

impl<'a, P> At<'a, P> {
    pub fn pool(&self) -> &'a Pool {
        self.quotas.pool(self.quota.pool)
    }

    /// What the quota holds and would hold with this charge stays within `bound`, for everything the pool governs.
    pub fn stays_within(&self, charge: &Charge, bound: impl Fn(ResourceId) -> i128) -> bool {
        let mut governed = charge.iter().filter(|(resource, _)| self.pool().governs(*resource));
        governed.all(|(r, amount)| self.quota.ledger.to_be_used(*r) + i128::from(*amount) <= bound(*r))
    }
}

/// What a policy answers about one quota, which is one level of a path. What has a default here, most policies need not
/// say.
pub(super) trait Rules<'a> {
    fn kind(&self) -> PolicyKind;

    /// What its object guarantees, and limits, for reports.
    fn min(&self) -> &'a Charge;
    fn max(&self) -> Vec<(ResourceId, Amount)>;

    /// Every ceiling of this level for what is asked. `direct`: the pod answers to this quota, and not to one below it.
    fn ceilings(&self, ask: &Ask<'_>, direct: bool, each: &mut impl FnMut(Ceiling));

    /// How a pod with this charge stands here.
    fn standing(&self, charge: &Charge) -> Standing;

    /// What the quota keeps of a resource, however far it is drawn on; `None` where it is not drawn on for it.
    fn keeps(&self, resource: ResourceId, depth: DrawDepth) -> Option<i128>;

    /// What it is entitled to; `None` where it does not speak of the resource.
    fn entitlement(&self, resource: ResourceId) -> Option<i128>;

    /// Up to what its pods are within it: the oldest are, as far as this goes.
    fn within(&self) -> Vec<(ResourceId, i128)>;

    /// What is its own: what it holds beyond is borrowed, what it leaves of it is lent.
    fn own(&self) -> Vec<(ResourceId, i128)>;

    /// How well it is served.
    fn share(&self) -> Share;

    /// Whether it says what it is entitled to: only then is it served well or badly.
    fn has_entitlement(&self) -> bool {
        true
    }

    /// What it must never be left with less of.
    fn guarantees(&self) -> &'a Charge {
        &[]
    }

    /// Whether one more pod may be taken from it.
    fn permits(&self, _taking: &Taking<'_>) -> bool {
        true
    }

    /// Whether, after so much is gone from all quotas below it, one more pod may be taken from one of them.
    fn permits_below(&self, _compared: &[ResourceId], _gone: Amounts<'_>) -> bool {
        true
    }

    /// Whether it says nothing, and counts as no quota.
    fn is_plain(&self) -> bool {
        false
    }

    /// Whether it marks its pods as within it or over it.
    fn marks_pods(&self) -> bool {
        false
    }

    /// Why it starts nothing, if so.
    fn closed(&self) -> Option<(Code, String)> {
        None
    }

    /// The namespaces that may use it, where it says so.
    fn users(&self) -> &'a Users {
        &Users::Everyone
    }

    /// Whether its pods may claim what others hold beyond what they are entitled to.
    fn may_reclaim(&self) -> bool {
        true
    }

    /// Whether what it holds beyond `within` is evicted after a while, for nobody in particular.
    fn ends_overuse(&self) -> bool {
        false
    }

    /// Whether its ceilings move with what other quotas ask for. Pods wait for such a ceiling to rise; and what one of
    /// its pods is given does not change what the others of the pool may claim.
    fn is_shared_out(&self) -> bool {
        false
    }

    /// Whether its entitlement moves with what other quotas hold or ask for.
    fn entitlement_moves(&self) -> bool {
        self.is_shared_out()
    }

    /// Whether what its pods request is counted while they are pending.
    fn counts_requests(&self) -> bool {
        true
    }

    /// What it may hold now, where that is worked out from what all quotas ask for.
    fn runtime(&self) -> Vec<(ResourceId, i128)> {
        Vec::new()
    }

    /// What its pods request as far as it counts, and what is requested below it, for reports.
    fn requested(&self, _resource: ResourceId) -> i128 {
        0
    }

    fn requested_below(&self, _resource: ResourceId) -> i128 {
        0
    }
}
