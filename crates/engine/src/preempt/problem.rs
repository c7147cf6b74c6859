//! From pods, quotas and budgets to a problem that the search solves.

use std::collections::BTreeMap;

use crate::budgets::BudgetKey;
use crate::fact::Amount;
use crate::pods::PodId;
use crate::policy::{DrawDepth, QuotaId};
use crate::preempt::missing::{Missing, Short};
use crate::preempt::rights::{Going, Right, Rights};
use crate::preempt::search::{Problem, Source, Unit};
use crate::resources::ResourceId;
use crate::world::World;

/// What the rules look at in one that goes.
type Kind<'a> = (&'a [QuotaId], &'a [(ResourceId, Amount)], Right, Option<PodId>);

impl World {
    /// The search's view of those who may go and what is missing. `alone`: it is like no other in what the claimant's
    /// place depends on.
    pub fn problem(
        &self,
        rights: &Rights,
        going: &[Going],
        missing: &Missing,
        alone: &dyn Fn(PodId) -> bool,
    ) -> Problem {
        let mut problem =
            Problem { missing: missing.iter().map(|(_, amount)| *amount).collect(), ..Problem::default() };
        let mut kinds: BTreeMap<Kind<'_>, u32> = BTreeMap::new();
        let mut budgets: BTreeMap<BudgetKey, usize> = BTreeMap::new();
        let mut sources: BTreeMap<QuotaId, usize> = BTreeMap::new();
        // What is reserved for a pod is taken over without an eviction: beside victims its priority is none of theirs.
        let is_any_victim = going.iter().any(|goes| !goes.is_reservation);
        let priority = |goes: &Going| match goes.is_reservation && is_any_victim {
            true => i32::MIN,
            false => goes.pods.iter().map(|pod| self.pods.get(*pod).priority).max().unwrap_or(i32::MIN),
        };
        for goes in going {
            let first = goes.pods[0];
            let kind = (&goes.quotas[..], &goes.charge[..], goes.right, Some(first).filter(|pod| alone(*pod)));
            let next = kinds.len() as u32;
            let kind = *kinds.entry(kind).or_insert(next);
            for quota in &goes.quotas {
                let next = sources.len();
                sources.entry(*quota).or_insert(next);
            }
            let party = goes.party.map(|first| (first.0, true));
            let unit = Unit {
                pods: self.members(goes),
                priority: priority(goes),
                entitled: self.entitled(rights, goes),
                is_gang: goes.is_whole_gang,
                is_whole: goes.is_whole_gang || goes.is_party,
                gang: party.or(goes.gang.map(|gang| (gang.0, false))),
                budgets: self.budgets_of(goes, &mut budgets, &mut problem.allowed),
                gives: missing.iter().map(|(short, _)| self.given(short, goes)).collect(),
                kind,
                sources: goes.quotas.iter().map(|quota| sources[quota]).collect(),
            };
            problem.units.push(unit);
        }
        let mut by_number: Vec<(usize, QuotaId)> = sources.into_iter().map(|(quota, at)| (at, quota)).collect();
        by_number.sort_unstable();
        problem.sources = by_number.into_iter().map(|(_, quota)| self.source(rights, quota, going, missing)).collect();
        problem
    }

    fn members(&self, goes: &Going) -> Vec<(crate::fact::Created, crate::fact::PodKey)> {
        let pods = goes.pods.iter().map(|pod| self.pods.get(*pod));
        let mut members: Vec<_> = pods.map(|pod| (pod.created, pod.key())).collect();
        members.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        members
    }

    /// How many of them are within what one of their quotas is entitled to.
    fn entitled(&self, rights: &Rights, goes: &Going) -> u32 {
        if goes.is_reservation {
            return 0;
        }
        let within = |pod: &&PodId| goes.quotas.iter().any(|quota| self.is_within(rights, **pod, *quota));
        goes.pods.iter().filter(within).count() as u32
    }

    fn budgets_of(
        &self,
        goes: &Going,
        numbers: &mut BTreeMap<BudgetKey, usize>,
        allowed: &mut Vec<u32>,
    ) -> Vec<(usize, u32)> {
        let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
        if self.budgets.is_empty() || goes.is_reservation {
            return Vec::new();
        }
        for pod in &goes.pods {
            for key in self.budgets.of(self.pods.get(*pod)) {
                let at = *numbers.entry(key.clone()).or_insert_with(|| {
                    allowed.push(self.budgets.allows(key, &self.pods));
                    allowed.len() - 1
                });
                *counts.entry(at).or_default() += 1;
            }
        }
        counts.into_iter().collect()
    }

    /// The most that all who draw on a quota can give: where one resource is compared, the last of them finds the quota
    /// above what it keeps.
    fn source(&self, rights: &Rights, quota: QuotaId, going: &[Going], missing: &Missing) -> Source {
        let of_quota = || going.iter().filter(|goes| goes.quotas.contains(&quota));
        let depths: Vec<Option<DrawDepth>> =
            of_quota().map(|goes| goes.right.from.filter(|(from, _)| *from == quota).map(|(_, depth)| depth)).collect();
        let compared = rights.compared_in(quota, self);
        let most = |short: &Short| {
            let (resource, [only]) = (short.resource()?, compared.as_deref()?) else { return None };
            let first = (*depths.first()?)?;
            if resource != *only || depths.iter().any(|depth| *depth != Some(first)) {
                return None;
            }
            let kept = self.quotas.keeps(quota, resource, first)?;
            let over = self.quotas.get(quota).ledger.to_be_used(resource) - kept;
            let charged = |goes: &Going| goes.charge.iter().find(|(r, _)| *r == resource).map_or(0, |(_, a)| *a);
            let largest = of_quota().map(charged).max().unwrap_or(0);
            Some(if over <= 0 { 0 } else { over - 1 + i128::from(largest) })
        };
        let family = self.quotas.get(quota).pool.0 as usize;
        Source { family, most: missing.iter().map(|(short, _)| most(short)).collect() }
    }
}
