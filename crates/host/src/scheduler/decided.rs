//! Decisions become writes, and what happened.

use quotient_api::ObjectKey;
use quotient_api::device::write::{extended_claim, extended_name};
use quotient_engine::device::ClaimKey;
use quotient_engine::fact::{Name, PodKey};
use quotient_engine::{ClaimGrant, Decision, DeviceGrants, OF_ANOTHER, ToldTo};

use super::{Happened, Now, Round, Scheduler, Waiting};
use crate::event::{Remark, whole_seconds};
use crate::write::{ClaimWrite, DeviceWrites, ExtendedWrite, PodRef, Write};

impl Scheduler {
    pub(super) fn write(&mut self, now: Now, decision: Decision, round: &mut Round) {
        match decision {
            Decision::Bind { pod, uid, node, claims, devices } => {
                let waiting = self.waiting.get_mut(&pod);
                let (waited, bound_as) = (waiting.as_deref().map(Waiting::waited), waiting.and_then(Waiting::bind));
                round.happened.push(Happened::Bound { pod: pod.clone(), node: node.clone() });
                let devices = self.device_writes(now, &pod, &uid, devices);
                let pod = PodRef { key: pod, uid };
                round.writes.push(Write::Bind { pod, node, claims, devices, bound_as, waited });
            }
            Decision::Evict { pod, uid, node, claimant, violates_budget: _, reason } => {
                let (rule, message) = (reason.rule, reason.to_string());
                let told = ToldTo { reason: &reason, namespace: &pod.namespace };
                let said = match &claimant {
                    Some(claimant) if claimant.namespace == pod.namespace => {
                        format!("Preempted by {claimant} ({}): {told}", rule.name())
                    }
                    Some(_) => format!("Preempted by {OF_ANOTHER} ({}): {told}", rule.name()),
                    None => format!("Evicted ({}): {told}", rule.name()),
                };
                let remark = Remark { is_warning: false, reason: "Preempted", message: said };
                round.writes.extend(self.event(now, &pod, &uid, remark));
                let evicted = (pod.clone(), claimant.clone(), message.clone());
                round.writes.push(Write::Evict { pod: PodRef { key: pod, uid }, claimant, message });
                let (pod, claimant, message) = evicted;
                round.happened.push(Happened::Evicted { pod, node, claimant, reason, message });
            }
            Decision::Nominate { pod, uid, node } => {
                round.happened.push(Happened::Nominated { pod: pod.clone(), node: node.clone() });
                round.writes.push(Write::Nominate { pod: PodRef { key: pod, uid }, node });
            }
            Decision::Mark { pod, uid, group, capacity } => {
                let label = (format!("{group}/capacity"), capacity.map(|capacity| capacity.name().to_string()));
                round.writes.push(Write::Label { pod: PodRef { key: pod, uid }, labels: [label].into() });
            }
            Decision::Admit(group) => {
                let group = ObjectKey::of_group(&group);
                if self.controllers.admits(&group, &self.objects.read()) {
                    round.writes.push(Write::Admit { group });
                }
            }
            Decision::Hold { pod, uid, reason } => self.hold(now, pod, uid, reason, round),
        }
    }

    /// What is to be written about the devices of a pod before it is bound.
    fn device_writes(&self, now: Now, pod: &PodKey, uid: &Name, grants: DeviceGrants) -> DeviceWrites {
        let at = whole_seconds(now.wall_us);
        let write = |grant: ClaimGrant| {
            let key = ClaimKey { namespace: pod.namespace.clone(), name: grant.claim };
            let allocation = grant.allocation.and_then(|given| self.translator.device_allocation(&key, &given, &at));
            let uid = self.translator.device_claim_uid(&key).unwrap_or_default().into();
            ClaimWrite { claim: key.name, uid, allocation }
        };
        let claims = grants.claims.into_iter().map(write).collect();
        let extended = grants.extended.map(|grant| {
            let claim = extended_claim(&pod.namespace, &pod.name, uid, &grant.spec);
            let allocation = self.translator.new_allocation(&claim, &grant.allocation, &at);
            let name = extended_name(&pod.name, uid).into();
            ExtendedWrite { name, claim, allocation, served: grant.served }
        });
        DeviceWrites { claims, extended: extended.map(Box::new) }
    }
}
