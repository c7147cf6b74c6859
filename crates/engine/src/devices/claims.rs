//! Claims on devices: what they ask for, what they have, and which pods use them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::device::{Allocation, ClaimKey, ClaimSpec, DeviceClaimFact, ExtendedRequest, PoolKey};
use crate::devices::Devices;
use crate::devices::bills::DeviceCharge;
use crate::devices::kept::Kept;
use crate::fact::{Created, Name};
use crate::pods::PodId;
use crate::sign::Sign;

/// A pod on a node that uses a claim: in the order of the claim's reservations, then by age and name. The first pays.
pub(crate) type User = (usize, Created, Name, PodId);

/// A claim.
#[derive(Debug, Clone, Default)]
pub(crate) struct Claim {
    pub fact: DeviceClaimFact,
    /// What was decided for it and is not yet seen.
    pub decided: Option<Arc<Allocation>>,
    /// What was decided was said: it stays, though the pod that it is for is taken off its node for a look.
    firm: bool,
    /// The pods on nodes that use it.
    pub users: BTreeSet<User>,
    /// Its object says that it has devices though no pod that we know of uses it.
    lingers: bool,
    /// What it holds of the devices now.
    held: Option<Arc<Allocation>>,
}

impl Claim {
    /// The devices that it has: those that its object names, or those that were decided for a pod that uses it.
    pub fn allocation(&self) -> Option<&Arc<Allocation>> {
        let decided = self.decided.as_ref().filter(|_| self.firm || !self.users.is_empty());
        self.fact.allocation.as_ref().or(decided)
    }

    /// The pod that is charged for it.
    pub fn payer(&self) -> Option<PodId> {
        self.users.first().map(|user| user.3)
    }

    /// Whether its devices will be free shortly: the pods that it is reserved for are gone.
    pub fn expires(&self) -> bool {
        self.lingers && !self.fact.reserved_for.is_empty()
    }
}

/// All claims.
#[derive(Debug, Clone, Default)]
pub(crate) struct Claims {
    list: BTreeMap<ClaimKey, Claim>,
    /// How many claims have several users.
    shared: usize,
    /// The pods that name a claim, on nodes or not.
    pub named_by: BTreeMap<ClaimKey, BTreeSet<PodId>>,
    /// The pods that have claims, or extended resources that a class may serve.
    pub askers: BTreeSet<PodId>,
    /// What was decided for the extended resources of a pod.
    pub extended: BTreeMap<PodId, Extended>,
    /// What pods are taken to be charged for devices that were not found for them, while it is asked what would be.
    pub supposed: BTreeMap<PodId, DeviceCharge>,
    /// What is kept for pods with a reservation.
    pub kept: BTreeMap<PodId, Kept>,
}

/// Devices for the extended resources of a pod on a node.
#[derive(Debug, Clone)]
pub(crate) struct Extended {
    pub spec: Arc<ClaimSpec>,
    pub allocation: Arc<Allocation>,
    pub served: Vec<ExtendedRequest>,
    /// It was said, and stays though the pod is taken off its node for a look.
    pub firm: bool,
}

impl Claims {
    pub fn get(&self, key: &ClaimKey) -> Option<&Claim> {
        self.list.get(key)
    }

    pub fn observe(&mut self, fact: DeviceClaimFact, devices: &mut Devices) {
        let key = fact.key.clone();
        let claim = self.list.entry(key.clone()).or_default();
        if fact.uid != claim.fact.uid {
            claim.decided = None;
        }
        if fact.allocation.is_some() {
            claim.decided = None;
        }
        claim.fact = fact;
        self.settle(&key, devices);
    }

    pub fn gone(&mut self, key: &ClaimKey, devices: &mut Devices) {
        let Some(claim) = self.list.get_mut(key) else { return };
        claim.fact = DeviceClaimFact { key: key.clone(), ..DeviceClaimFact::default() };
        claim.decided = None;
        self.settle(key, devices);
        self.forget_if_idle(key);
    }

    fn forget_if_idle(&mut self, key: &ClaimKey) {
        let idle =
            |claim: &Claim| claim.fact.uid.is_empty() && claim.users.is_empty() && claim.fact.spec.requests.is_empty();
        if self.list.get(key).is_some_and(idle) {
            self.list.remove(key);
        }
    }

    /// Takes in that something about a claim is so for good: whether its devices are held though no pod uses it.
    pub fn settle(&mut self, key: &ClaimKey, devices: &mut Devices) {
        if let Some(claim) = self.list.get_mut(key) {
            claim.lingers = claim.fact.allocation.is_some() && claim.users.is_empty();
            if claim.users.is_empty() {
                claim.decided = None;
            }
            claim.firm = claim.decided.is_some();
        }
        self.sync(key, devices);
    }

    /// Holds what a claim has, as long as a pod uses it or its object says so.
    fn sync(&mut self, key: &ClaimKey, devices: &mut Devices) {
        let Some(claim) = self.list.get_mut(key) else { return };
        let wanted = claim.allocation().filter(|_| !claim.users.is_empty() || claim.lingers).cloned();
        if wanted != claim.held {
            if let Some(old) = &claim.held {
                devices.hold(old, Sign::Take);
            }
            if let Some(new) = &wanted {
                devices.hold(new, Sign::Add);
            }
            claim.held = wanted;
        }
    }

    /// Counts a pod on a node as a user (or no longer).
    pub fn use_claim(&mut self, key: &ClaimKey, user: (Name, Created, Name, PodId), sign: Sign, devices: &mut Devices) {
        let (uid, created, name, id) = user;
        let claim = self.list.entry(key.clone()).or_insert_with(|| Claim {
            fact: DeviceClaimFact { key: key.clone(), ..DeviceClaimFact::default() },
            ..Claim::default()
        });
        let was_shared = claim.users.len() > 1;
        if sign.is_add() {
            let at = claim.fact.reserved_for.iter().position(|reserved| *reserved == uid).unwrap_or(usize::MAX);
            claim.users.insert((at, created, name, id));
        } else {
            claim.users.retain(|user| user.3 != id);
        }
        match (was_shared, claim.users.len() > 1) {
            (false, true) => self.shared += 1,
            (true, false) => self.shared -= 1,
            _ => {}
        }
        self.sync(key, devices);
        self.forget_if_idle(key);
    }

    /// Puts users in the order that the claim's reservations say by now.
    pub fn reorder(&mut self, key: &ClaimKey, uid: impl Fn(PodId) -> Name) {
        let Some(claim) = self.list.get_mut(key) else { return };
        let users = std::mem::take(&mut claim.users);
        let place = |uid: Name| claim.fact.reserved_for.iter().position(|known| *known == uid).unwrap_or(usize::MAX);
        claim.users = users.into_iter().map(|(_, created, name, id)| (place(uid(id)), created, name, id)).collect();
    }

    /// Decides what a claim gets.
    pub fn decide(&mut self, key: &ClaimKey, allocation: Arc<Allocation>) {
        if let Some(claim) = self.list.get_mut(key).filter(|claim| claim.fact.allocation.is_none() && !claim.firm) {
            claim.decided = Some(allocation);
        }
    }

    /// Whether some claim has several users.
    pub fn are_any_shared(&self) -> bool {
        self.shared > 0
    }

    /// Whether a claim holds devices now.
    pub fn holds_devices(&self, key: &ClaimKey) -> bool {
        self.get(key).is_some_and(|claim| claim.held.as_ref().is_some_and(|held| held.takes_devices()))
    }

    /// The pods that use devices of some pools.
    pub fn users_of(&self, is_meant: impl Fn(&PoolKey) -> bool) -> BTreeSet<PodId> {
        let meant = |allocation: &Arc<Allocation>| {
            allocation.results.iter().any(|result| !result.admin && is_meant(&result.device.pool))
        };
        let claims = self.list.values().filter(|claim| claim.held.as_ref().is_some_and(meant));
        let users = claims.flat_map(|claim| claim.users.iter().map(|user| user.3));
        let extended = self.extended.iter().filter(|(_, extended)| meant(&extended.allocation)).map(|(pod, _)| *pod);
        users.chain(extended).collect()
    }

    /// How many devices and shares claims hold, with those for extended resources of pods on nodes and those that are
    /// kept for pods with a reservation.
    pub fn held_count(&self, is_placed: impl Fn(PodId) -> bool) -> u64 {
        let taken =
            |allocation: &Arc<Allocation>| allocation.results.iter().filter(|result| !result.admin).count() as u64;
        let claims = self.list.values().filter_map(|claim| claim.held.as_ref());
        let extended =
            self.extended.iter().filter(|(pod, _)| is_placed(**pod)).map(|(_, extended)| &extended.allocation);
        let kept = self.kept.values().filter(|kept| kept.are_held).flat_map(|kept| &kept.allocations);
        claims.chain(extended).chain(kept).map(taken).sum()
    }

    /// The claims whose devices will be free shortly.
    pub fn expiring(&self) -> Vec<ClaimKey> {
        self.list.iter().filter(|(_, claim)| claim.expires()).map(|(key, _)| key.clone()).collect()
    }

    /// Takes these claims' devices as free for a look, or holds them again.
    pub fn set_lingering(&mut self, keys: &[ClaimKey], lingers: bool, devices: &mut Devices) {
        for key in keys {
            if let Some(claim) = self.list.get_mut(key) {
                claim.lingers = lingers;
            }
            self.sync(key, devices);
        }
    }
}
