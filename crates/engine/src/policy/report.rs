//! Quotas as people see them.

use std::collections::BTreeMap;

use crate::engine::QuotaReport;
use crate::fact::Name;
use crate::ledger::fraction::mul_div;
use crate::ledger::pool::PoolId;
use crate::ledger::sums::Sums;
use crate::policy::{At, DrawDepth, QuotaId, Quotas, Rules};
use crate::resources::{PODS_ID, ResourceId, ResourceNames};

/// By pool and parent: what quotas hold beyond what is their own, and what they leave of it.
pub(crate) type Lending = BTreeMap<(PoolId, Option<QuotaId>), (Sums, Sums)>;

impl Quotas {
    /// What siblings hold beyond what is their own, and what they leave of it: what one lends, another holds.
    pub fn lending(&self) -> Lending {
        let mut lending = Lending::default();
        for (id, quota) in self.iter() {
            let own = self.own(id);
            if own.is_empty() {
                continue;
            }
            let (over, unused) = lending.entry((quota.pool, quota.parent)).or_default();
            for (resource, own) in own {
                let used = quota.ledger.used.get(resource);
                over.add(resource, (used - own).max(0));
                unused.add(resource, (own - used).max(0));
            }
        }
        lending
    }
}

/// What is said of one quota, resource by resource.
pub(super) struct Reporter<'a, 'b, P> {
    at: &'b At<'a, P>,
    names: &'b ResourceNames,
    /// All resources, by name.
    resources: Vec<(Name, ResourceId)>,
    max: Vec<(ResourceId, i64)>,
}

impl<'a, 'b, P> Reporter<'a, 'b, P>
where
    At<'a, P>: Rules<'a>,
{
    pub fn new(at: &'b At<'a, P>, names: &'b ResourceNames) -> Self {
        let mut resources: Vec<(Name, ResourceId)> =
            names.iter().map(|(resource, name)| (name.clone(), resource)).collect();
        resources.sort();
        Reporter { at, names, resources, max: at.max() }
    }

    /// Every pod is one of `pods`; that is worth saying only where the quota speaks of it.
    fn is_shown(&self, resource: ResourceId) -> bool {
        resource != PODS_ID || self.at.min().iter().chain(&self.max).any(|(named, _)| *named == resource)
    }

    /// What is not 0, by name.
    fn amounts(&self, of: impl Fn(ResourceId) -> i128) -> Vec<(Name, i128)> {
        let shown = self.resources.iter().filter(|(_, resource)| self.is_shown(*resource));
        shown.map(|(name, resource)| (name.clone(), of(*resource))).filter(|(_, amount)| *amount != 0).collect()
    }

    /// What is listed, 0 or not, by name.
    fn listed(&self, limits: impl Iterator<Item = (ResourceId, i128)>) -> Vec<(Name, i128)> {
        let mut named: Vec<(Name, i128)> = limits.map(|(r, amount)| (self.names.name(r).clone(), amount)).collect();
        named.sort();
        named
    }

    pub fn report(&self, lending: &Lending) -> QuotaReport {
        let at = self.at;
        let (quotas, quota) = (at.quotas, at.quota);
        let ledger = &quota.ledger;
        let own = at.own();
        let own_of = |resource: ResourceId| own.iter().find(|(r, _)| *r == resource).map(|(_, own)| *own);
        let siblings = lending.get(&(quota.pool, quota.parent));
        QuotaReport {
            key: quota.key.clone(),
            policy: at.kind(),
            parent: quota.parent.map(|parent| quotas.get(parent).key.clone()),
            tree: Some(at.pool().part.clone()).filter(|part| !part.is_empty()),
            min: self.listed(at.min().iter().map(|(r, amount)| (*r, i128::from(*amount)))),
            max: self.listed(self.max.iter().map(|(r, amount)| (*r, i128::from(*amount)))),
            used: self.amounts(|r| ledger.used.get(r)),
            used_running: self.amounts(|r| ledger.running.get(r)),
            entitlement: self.amounts(|r| at.entitlement(r).unwrap_or(0)),
            requested: self.amounts(|r| at.requested(r)),
            child_requested: self.amounts(|r| at.requested_below(r)),
            non_preemptible_used: self.amounts(|r| ledger.non_preemptible.get(r)),
            non_preemptible_requested: self.amounts(|r| ledger.non_preemptible_requested.get(r)),
            runtime: self.listed(at.runtime().into_iter().filter(|(r, _)| self.is_shown(*r))),
            borrowed: self.amounts(|r| own_of(r).map_or(0, |own| (ledger.used.get(r) - own).max(0))),
            // What siblings hold beyond their own comes from those who leave some of theirs, in proportion.
            lent: self.amounts(|r| {
                let mine = own_of(r).map_or(0, |own| (own - ledger.used.get(r)).max(0));
                let (over, unused) = siblings.map_or((0, 0), |(over, unused)| (over.get(r), unused.get(r)));
                if unused == 0 { 0 } else { mul_div(mine, over.min(unused), unused) }
            }),
            // A fair share protects from others' fair shares, and not from those who are within their min.
            reclaimable: self.amounts(|r| {
                let kept = at.entitlement(r).and_then(|_| at.keeps(r, DrawDepth::Min));
                kept.map_or(0, |kept| (ledger.used.get(r) - kept).max(0))
            }),
        }
    }
}
