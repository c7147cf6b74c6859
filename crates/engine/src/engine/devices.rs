//! Taking in claims on devices.

use crate::decision::{ClaimGrant, DeviceGrants, ExtendedGrant};
use crate::device::{ClaimKey, DeviceClaimFact, DeviceClassFact};
use crate::engine::Engine;
use crate::engine::cycle::Turn;
use crate::explain;
use crate::fact::{Name, PodFact, PodKey, PodSpec};
use crate::place::{Answer, Question};
use crate::pods::{Place, PodId};
use crate::reason::{Code, Reason};
use crate::sign::Sign;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Engine {
    /// The claims of a waiting pod that have devices though no pod uses them, and none but it is meant to.
    pub fn idle_device_claims(&self, pod: &PodKey) -> Vec<ClaimKey> {
        let Some(id) = self.world.pods.find(pod) else { return Vec::new() };
        let pod = self.world.pods.get(id);
        let is_idle = |key: &ClaimKey| {
            self.world.device_claims.get(key).is_some_and(|claim| {
                let is_its = claim.fact.reserved_for.iter().all(|uid| *uid == pod.uid);
                claim.fact.allocation.is_some() && !claim.fact.extended && claim.users.is_empty() && is_its
            })
        };
        let waits = pod.place == Place::Waiting;
        self.world.claim_keys(pod).into_iter().filter(|key| waits && is_idle(key)).collect()
    }

    /// Lists a pod under its claims (or no longer).
    pub(super) fn list_asker(&mut self, id: PodId, sign: Sign) {
        let pod = self.world.pods.get(id);
        let keys = self.world.claim_keys(pod);
        let asks = !pod.device_claims.is_empty() || !self.world.shapes.get(pod.shape).spec().extended.is_empty();
        let claims = &mut self.world.device_claims;
        if sign.is_add() && asks {
            claims.askers.insert(id);
        } else {
            claims.askers.remove(&id);
        }
        for key in keys {
            let pods = claims.named_by.entry(key.clone()).or_default();
            if sign.is_add() {
                pods.insert(id)
            } else {
                pods.remove(&id)
            };
            if pods.is_empty() {
                claims.named_by.remove(&key);
            }
        }
    }

    /// What a pod does with its claims is so for good, and not for a look.
    pub(super) fn settle_devices(&mut self, id: PodId) {
        let world = &mut self.world;
        if !world.may_use_devices(world.pods.get(id)) {
            return;
        }
        let mut is_seen = false;
        for key in world.claim_keys(world.pods.get(id)) {
            world.device_claims.settle(&key, &mut world.devices);
            let claim = world.device_claims.get(&key);
            is_seen |= claim.is_some_and(|claim| claim.fact.extended && claim.fact.allocation.is_some());
        }
        let is_placed = world.pods.get(id).node().is_some();
        match world.device_claims.extended.get_mut(&id) {
            Some(extended) if is_placed && !is_seen => extended.firm = true,
            Some(extended) => {
                // The claim that was made for it says the same from now on; or it is not bound after all.
                if is_placed {
                    world.devices.hold(&extended.allocation, Sign::Take);
                }
                world.device_claims.extended.remove(&id);
                world.recharge(id);
            }
            None => {}
        }
        // Who pays for a claim requests it.
        let keys = world.claim_keys(world.pods.get(id));
        let users = keys.iter().filter_map(|key| world.device_claims.get(key)).flat_map(|claim| &claim.users);
        let users: BTreeSet<PodId> = users.map(|user| user.3).chain([id]).collect();
        users.into_iter().for_each(|user| world.renew_request(user));
    }

    pub(super) fn observe_device_class(&mut self, fact: DeviceClassFact) -> bool {
        let is_new = self.world.devices.observe_class(fact);
        if is_new {
            self.renew_needs(None);
        }
        is_new
    }

    pub(super) fn device_class_gone(&mut self, name: &Name) -> bool {
        let was_known = self.world.devices.class_gone(name);
        if was_known {
            self.renew_needs(None);
        }
        was_known
    }

    /// Takes in a claim. Returns whether it says something new.
    pub(super) fn observe_device_claim(&mut self, fact: DeviceClaimFact) -> bool {
        let key = fact.key.clone();
        if self.world.device_claims.get(&key).is_some_and(|claim| claim.fact == fact) {
            return false;
        }
        let before = self.world.device_claims.get(&key).and_then(|claim| claim.payer());
        self.world.device_claims.observe(fact, &mut self.world.devices);
        let pods = &self.world.pods;
        self.world.device_claims.reorder(&key, |id| pods.get(id).uid.clone());
        let after = self.world.device_claims.get(&key).and_then(|claim| claim.payer());
        // What it has may differ from what was decided, and who pays for it.
        let mut concerned: Vec<PodId> = [before, after].into_iter().flatten().collect();
        concerned.dedup();
        for pod in concerned {
            self.world.recharge(pod);
            self.world.renew_request(pod);
        }
        for user in self.world.device_claims.get(&key).map(|claim| claim.users.clone()).unwrap_or_default() {
            self.settle_devices(user.3);
        }
        self.renew_needs(Some(&key));
        true
    }

    /// Fills in what a pod that is seen again needs, and says why that is not known, if so. Where a pod is on a node
    /// already, what it needed when it came there stays.
    pub(super) fn read_needs(&self, id: PodId, fact: &mut PodFact) -> Option<Name> {
        let pod = self.world.pods.get(id);
        if pod.place == Place::Waiting {
            let owner = (&fact.namespace, &fact.uid);
            let (spec, unready) = self.world.with_needs(&fact.spec, owner, &fact.device_claims);
            fact.spec = spec;
            return unready;
        }
        let old = self.world.shapes.get(pod.shape).spec();
        if !old.needs.is_empty() || !old.served.is_empty() {
            let (needs, served, capped) = (old.needs.clone(), old.served.clone(), old.capped);
            fact.spec = Arc::new(PodSpec { needs, served, capped, ..(*fact.spec).clone() });
        }
        pod.unready.clone()
    }

    pub(super) fn device_claim_gone(&mut self, key: &ClaimKey) -> bool {
        let was_known = self.world.device_claims.get(key).is_some();
        let payer = self.world.device_claims.get(key).and_then(|claim| claim.payer());
        self.world.device_claims.gone(key, &mut self.world.devices);
        if let Some(payer) = payer {
            self.world.recharge(payer);
            self.world.renew_request(payer);
        }
        self.renew_needs(Some(key));
        was_known
    }

    /// Looks again at what waiting pods need: those that name a claim, or all that ask for devices.
    pub(super) fn renew_needs(&mut self, claim: Option<&ClaimKey>) {
        let claims = &self.world.device_claims;
        let pods: Vec<PodId> = match claim {
            Some(key) => claims.named_by.get(key).into_iter().flatten().copied().collect(),
            None => claims.askers.iter().copied().collect(),
        };
        for id in pods {
            let pod = self.world.pods.get(id);
            if pod.place != Place::Waiting {
                continue;
            }
            let old = self.world.shapes.get(pod.shape).spec().clone();
            let (spec, unready) = self.world.with_needs(&old, (&pod.namespace, &pod.uid), &pod.device_claims);
            if spec == old && unready == pod.unready {
                continue;
            }
            let (namespace, labels, owner) = (pod.namespace.clone(), pod.labels.clone(), pod.owner.clone());
            self.change_pod(id, |engine| {
                let shape = engine.world.shape(&spec, &namespace, &labels, owner.as_ref());
                engine.set_shape(id, shape);
                engine.world.pods.get_mut(id).unready = unready;
            });
        }
    }

    /// What a pod that was just decided onto a node gets of devices.
    pub(super) fn grants(&self, id: PodId) -> DeviceGrants {
        let pod = self.world.pods.get(id);
        if !self.world.may_use_devices(pod) {
            return DeviceGrants::default();
        }
        let grant = |key: ClaimKey| {
            let claim = self.world.device_claims.get(&key)?;
            let allocation = claim.decided.clone().filter(|_| claim.fact.allocation.is_none());
            Some(ClaimGrant { claim: key.name, allocation })
        };
        let claims = self.world.claim_keys(pod).into_iter().filter_map(grant).collect();
        let extended = self.world.device_claims.extended.get(&id).map(|extended| ExtendedGrant {
            spec: extended.spec.clone(),
            allocation: extended.allocation.clone(),
            served: extended.served.clone(),
        });
        DeviceGrants { claims, extended }
    }

    /// Where devices of pods that are gone will do, nobody goes for the pod: it waits until they are given back.
    pub(super) fn await_devices<'q>(&mut self, id: PodId, tried: impl Iterator<Item = &'q Question>) -> Option<Turn> {
        let asking: Vec<Question> = tried.filter(|question| question.devices.is_some()).cloned().collect();
        let expiring = if asking.is_empty() { Vec::new() } else { self.world.device_claims.expiring() };
        if expiring.is_empty() || !self.world.refusals(id).is_empty() {
            return None;
        }
        let world = &mut self.world;
        world.device_claims.set_lingering(&expiring, false, &mut world.devices);
        let fits = asking.iter().any(|question| matches!(world.answer(question), Answer::Node(_)));
        world.device_claims.set_lingering(&expiring, true, &mut world.devices);
        let names: Vec<String> = expiring.iter().map(ToString::to_string).collect();
        fits.then(|| {
            let message = format!("devices of pods that are gone are being given back by claims {}", names.join(", "));
            let remedies = vec!["wait until they are given back".to_owned()];
            Turn::Rests(explain::plain(Code::AwaitingVictims, message, remedies), Vec::new())
        })
    }

    /// Why a claim of a pod cannot be served yet.
    pub(super) fn unready(why: &Name) -> Reason {
        let remedies = vec!["create what is missing".to_owned()];
        explain::plain(Code::ClaimNotReady, why.to_string(), remedies)
    }
}
