//! What quotas are entitled to once a plan is carried out, where that depends on what others hold or request.

use std::collections::BTreeMap;

use crate::policy::QuotaId;
use crate::preempt::Plan;
use crate::resources::ResourceId;
use crate::sign::Sign;
use crate::world::{World, requested_of};

/// By quota and resource; a quota whose entitlement never moves is left out.
pub(crate) type EntitledAfter = BTreeMap<(QuotaId, ResourceId), i128>;

impl World {
    /// The entitlement of the claimant's and the victims' quotas once the victims and all others that leave are gone
    /// and the claimant's pods run, for what the claimant requests.
    ///
    /// It takes a copy of all quotas, so it is asked of a plan that is carried out, and not of each that is weighed.
    pub(crate) fn entitled_after(&self, plan: &Plan) -> EntitledAfter {
        let Plan { places, going, rights, choices, .. } = plan;
        let of_claimant = places.iter().flat_map(|(pod, _)| &self.pods.get(*pod).quotas);
        let concerned = of_claimant.chain(going.iter().flat_map(|goes| &goes.quotas));
        let moving: Vec<QuotaId> = concerned.copied().filter(|quota| self.quotas.entitlement_moves(*quota)).collect();
        if moving.is_empty() {
            return EntitledAfter::new();
        }
        let mut quotas = self.quotas.clone();
        let victims = going.iter().filter(|goes| !goes.is_reservation).flat_map(|goes| goes.pods.iter().copied());
        // What a pool leaves unused is without those who leave already.
        let is_shared_out = moving.iter().any(|quota| self.quotas.is_shared_out(*quota));
        let leaving = if is_shared_out { self.leaving_pods() } else { Vec::new() };
        for id in victims.chain(leaving) {
            let pod = self.pods.get(id);
            let requested = requested_of(&self.shapes, pod);
            quotas.charge_amounts(pod, &self.charge_of(id), Sign::Take);
            if pod.counted {
                quotas.count_request(pod, &requested, Sign::Take);
            }
        }
        for (id, node) in places {
            let charge = self.charge_on(choices.attempt(*id), *node);
            quotas.charge_amounts(self.pods.get(*id), &charge, Sign::Add);
        }
        quotas.refresh();
        let of_quota = |quota: QuotaId| {
            let requested = rights.charge.iter().map(|(resource, _)| *resource);
            let known = requested.filter_map(|resource| Some((resource, quotas.entitlement(quota, resource)?)));
            known.map(|(resource, amount)| ((quota, resource), amount)).collect::<Vec<_>>()
        };
        moving.into_iter().flat_map(of_quota).collect()
    }
}
