//! Fair elastic quotas: elastic ones that share what others leave unused in proportion to min.
//!
//! *Ceiling*: as for elastic quotas. *Entitlement*: min, and a share of what the pool leaves unused. Pods are marked as
//! within their quota or over it, and only those over it are evicted.

use crate::decision::Rule;
use crate::fact::Amount;
use crate::ledger::fraction::mul_div;
use crate::ledger::share::Share;
use crate::policy::elastic::Elastic;
use crate::policy::{Ask, At, Ceiling, Charge, Draw, DrawDepth, PolicyKind, Rules, Standing, Strength};
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
        let is_within = || self.stays_within(charge, |resource| self.fair_share_now(resource));
        if standing.draw.is_some() || standing.compared.is_empty() || !is_within() {
            return standing;
        }
        let (rule, depth, strength) = (Rule::ElasticFairShare, DrawDepth::FairShare, Strength::FairShare);
        Standing { draw: Some(Draw { rule, depth, strength }), ..standing }
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

    fn marks_pods(&self) -> bool {
        true
    }

    /// With what the pool leaves unused.
    fn entitlement_moves(&self) -> bool {
        true
    }

    fn counts_requests(&self) -> bool {
        false
    }
}
