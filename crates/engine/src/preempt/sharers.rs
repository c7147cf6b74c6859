//! Pods that share claims on devices. A claim is one thing with several holders: its devices are free, and its charge
//! ends, when all of them are gone. So those that hold claims together go as one, and one that goes alone frees what it
//! holds by itself: what it paid for a shared claim passes to the next holder.

use std::collections::{BTreeMap, BTreeSet};

use crate::devices::bill::Bill;
use crate::fact::Amount;
use crate::gangs::GangId;
use crate::pods::PodId;
use crate::policy::QuotaId;
use crate::preempt::rights::{Going, Right, Rights, add_charges};
use crate::resources::ResourceId;
use crate::world::World;

impl World {
    /// What passes to other holders when these go: what one of them pays for claims that others hold, too.
    pub(super) fn passed_on(&self, pod: PodId, going: &[PodId]) -> Vec<(ResourceId, Amount)> {
        let known = self.pods.get(pod);
        if known.device_claims.is_empty() || !self.device_claims.are_any_shared() {
            return Vec::new();
        }
        let mut bill = Bill::default();
        for key in self.claim_keys(known) {
            let Some(claim) = self.device_claims.get(&key).filter(|claim| claim.payer() == Some(pod)) else { continue };
            let stays = claim.users.iter().any(|user| !going.contains(&user.3) && !self.pods.get(user.3).is_leaving());
            if let Some(allocation) = claim.allocation().filter(|_| stays) {
                self.bill_allocation(&mut bill, &claim.fact.spec, allocation, &[]);
            }
        }
        let named = bill.0.into_iter().filter_map(|(name, amount)| Some((self.names.find(&name)?, amount)));
        named.collect()
    }

    /// What ends when these go.
    pub(super) fn ending_charge(&self, pod: PodId, going: &[PodId]) -> Vec<(ResourceId, Amount)> {
        let mut charge = self.charge_of(pod).to_vec();
        for (resource, amount) in self.passed_on(pod, going) {
            if let Some((_, sum)) = charge.iter_mut().find(|(known, _)| *known == resource) {
                *sum -= amount;
            }
        }
        charge
    }

    /// What ends when all of these go.
    pub(super) fn charge_of_all(&self, pods: &[PodId]) -> Vec<(ResourceId, Amount)> {
        let charges: Vec<_> = pods.iter().flat_map(|pod| self.ending_charge(*pod, pods)).collect();
        add_charges(charges.iter())
    }

    /// Whether a gang runs whose pods depend on each other.
    pub fn is_running_gang(&self, gang: GangId) -> bool {
        let known = self.gangs.get(gang);
        known.is_evicted_whole() || known.is_gang() && known.is_started()
    }

    /// The pods that hold claims together with a pod, itself among them, and those of gangs that would be broken.
    /// `None` where it holds all its claims alone.
    pub(super) fn sharers(&self, pod: PodId) -> Option<BTreeSet<PodId>> {
        if self.pods.get(pod).device_claims.is_empty() || !self.device_claims.are_any_shared() {
            return None;
        }
        let mut all = BTreeSet::from([pod]);
        let mut next = vec![pod];
        loop {
            while let Some(pod) = next.pop() {
                for key in self.claim_keys(self.pods.get(pod)) {
                    if !self.device_claims.holds_devices(&key) {
                        continue;
                    }
                    let users = self.device_claims.get(&key).into_iter().flat_map(|claim| &claim.users);
                    let stays = users.map(|user| user.3).filter(|user| !self.pods.get(*user).is_leaving());
                    next.extend(stays.filter(|user| all.insert(*user)));
                }
            }
            if all.len() < 2 {
                return None;
            }
            let going: Vec<PodId> = all.iter().copied().collect();
            let broken = self.running_gangs(&going).into_iter().filter(|gang| self.breaks(*gang, &going));
            let broken: Vec<GangId> = broken.collect();
            let members = broken.iter().flat_map(|gang| self.gangs.get(*gang).settled(&self.pods)).map(|(id, _)| id);
            next.extend(members.filter(|member| all.insert(*member)));
            if next.is_empty() {
                return Some(all);
            }
        }
    }

    /// The running gangs that pods are of.
    pub(super) fn running_gangs(&self, pods: &[PodId]) -> BTreeSet<GangId> {
        let gangs = pods.iter().filter_map(|pod| self.pods.get(*pod).gang);
        gangs.filter(|gang| self.is_running_gang(*gang)).collect()
    }

    /// Pods that hold claims together, if the claimant has a right to those who are charged for them.
    pub(super) fn going_sharers(&self, rights: &Rights, sharers: &BTreeSet<PodId>) -> Option<Going> {
        let mut pods: Vec<PodId> = sharers.iter().copied().collect();
        let is_there = |pod: &PodId| self.pods.get(*pod).node().is_some_and(|node| self.nodes.is_present(node));
        if !pods.iter().all(is_there) {
            return None;
        }
        pods.sort_by_key(|pod| self.pods.get(*pod).key());
        let mut by_quotas: BTreeMap<Vec<QuotaId>, Vec<PodId>> = BTreeMap::new();
        for pod in &pods {
            by_quotas.entry(self.binding(*pod)).or_default().push(*pod);
        }
        let mut right: Option<Right> = None;
        for alike in by_quotas.values() {
            let charge = self.charge_of_all(alike);
            match self.right(rights, alike, &charge) {
                Some(of_these) => {
                    let strength = right.map_or(of_these.strength, |right| right.strength.min(of_these.strength));
                    right = Some(Right { strength, ..right.unwrap_or(of_these) });
                }
                None if self.goes_along(rights, alike, &charge) => {}
                None => return None,
            }
        }
        let mut quotas: Vec<QuotaId> = by_quotas.into_keys().flatten().collect();
        quotas.extend(right.and_then(|right| right.from).map(|(from, _)| from));
        quotas.sort_unstable();
        quotas.dedup();
        let gang = self.running_gangs(&pods).into_iter().find(|gang| self.breaks(*gang, &pods));
        let charge = self.charge_of_all(&pods);
        let party = pods.iter().min().copied();
        Some(Going {
            charge,
            quotas,
            right: right?,
            is_whole_gang: gang.is_some(),
            gang,
            is_reservation: false,
            party,
            is_party: true,
            pods,
        })
    }

    /// Whether pods go with others with whom they hold claims though the claimant has no right to them by themselves:
    /// they hold nothing that it requests from their quotas, and nothing protects them.
    fn goes_along(&self, rights: &Rights, pods: &[PodId], charge: &[(ResourceId, Amount)]) -> bool {
        let holds = |quota: &QuotaId| {
            let compared = rights.compared_in(*quota, self).unwrap_or_default();
            charge.iter().any(|(resource, amount)| *amount > 0 && compared.contains(resource))
        };
        let is_kept = |pod: &PodId| {
            let known = self.pods.get(*pod);
            let is_own = known.quotas.iter().any(|quota| rights.is_own(*quota));
            self.is_protected(rights, *pod) || is_own && known.priority >= rights.priority
        };
        !self.binding(pods[0]).iter().any(holds) && !pods.iter().any(is_kept)
    }
}
