//! Fair elastic quotas: elastic ones that share what others leave unused in proportion to min.
//!
//! *Ceiling*: as for elastic quotas. *Entitlement*: min, and a share of what the pool leaves unused. Pods are marked as
//! within their quota or over it, and only those over it are evicted.

use crate::decision::Rule;
use crate::fact::Amount;
use crate::ledger::amount_of;
use crate::ledger::fraction::mul_div;
use crate::ledger::share::Share;
use crate::policy::elastic::Elastic;
use crate::policy::{Ask, At, Ceiling, Charge, Draw, DrawDepth, PolicyKind, QuotaId, Rules, Standing};
use crate::resources::ResourceId;

/// What a fair elastic quota says.
#[derive(Debug, Clone, Default)]
pub(super) struct Fair(pub Elastic);

impl<'a> At<'a, Fair> {
    /// The same quota without what is fair about it.
    fn elastic(&self) -> At<'a, Elastic> {
        At { quotas: self.quotas, id: self.id, quota: self.quota, policy: &self.policy.0 }
    }

    /// Min and ⌊unused of the pool × min / Σ min⌋.
    fn fair_share(&self, resource: ResourceId, unused: i128) -> i128 {
        let (min, total) = (self.policy.0.min(resource), self.pool().min.get(resource));
        min + if total <= 0 { 0 } else { mul_div(unused, min.max(0), total) }
    }

    fn fair_share_now(&self, resource: ResourceId) -> i128 {
        self.fair_share(resource, self.pool().unused.get(resource))
    }
}

impl<'a> Rules<'a> for At<'a, Fair> {
    fn kind(&self) -> PolicyKind {
        PolicyKind::ElasticFair
    }

    fn min(&self) -> &'a Charge {
        &self.policy.0.min
    }

    fn max(&self) -> Vec<(ResourceId, Amount)> {
        self.elastic().max()
    }

    fn ceilings(&self, ask: &Ask<'_>, direct: bool, each: &mut impl FnMut(Ceiling)) {
        self.elastic().ceilings(ask, direct, each);
    }

    fn standing(&self, charge: &Charge) -> Standing {
        let standing = self.elastic().standing(charge);
        if standing.draw.is_some() || !self.stays_within(charge, |resource| self.fair_share_now(resource)) {
            return standing;
        }
        Standing { draw: Some(Draw { rule: Rule::ElasticFairShare, depth: DrawDepth::FairShare }), ..standing }
    }

    fn keeps(&self, resource: ResourceId, depth: DrawDepth) -> Option<i128> {
        match depth {
            DrawDepth::Min => Some(self.policy.0.min(resource)),
            DrawDepth::FairShare => Some(self.fair_share_now(resource)),
        }
    }

    fn entitlement(&self, resource: ResourceId) -> Option<i128> {
        self.pool().governs(resource).then(|| self.fair_share_now(resource))
    }

    fn within(&self) -> Vec<(ResourceId, i128)> {
        self.elastic().within()
    }

    fn own(&self) -> Vec<(ResourceId, i128)> {
        self.elastic().own()
    }

    fn share(&self) -> Share {
        self.elastic().share()
    }

    fn claimable_if(&self, used: &dyn Fn(QuotaId, ResourceId) -> i128) -> Vec<(ResourceId, i128)> {
        let members = self.quotas.iter().filter(|(_, member)| member.pool == self.quota.pool);
        let members: Vec<(QuotaId, &Charge)> =
            members.filter_map(|(id, member)| Some((id, member.policy.pooled()?))).collect();
        let claimable = |r: ResourceId| {
            let unused = |(id, min): &(QuotaId, &Charge)| (amount_of(min, r).unwrap_or(0) - used(*id, r)).max(0);
            let unused = members.iter().map(unused).sum();
            (r, self.fair_share(r, unused) - used(self.id, r))
        };
        self.pool().governed().map(claimable).collect()
    }

    fn marks_pods(&self) -> bool {
        true
    }

    fn counts_requests(&self) -> bool {
        false
    }
}
