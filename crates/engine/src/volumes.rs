//! Volumes, claims and storage classes, and what was decided about them but not yet seen.

mod world;

use std::collections::BTreeMap;

use crate::decision::ClaimBinding;
use crate::fact::{ClaimFact, Name, PodVolume, StorageClassFact, VolumeFact};
use crate::lookup::LookupMap;
use crate::pods::PodId;
use crate::shape::Shape;
use crate::sign::Sign;

/// A claim, by namespace and name.
pub(crate) type ClaimKey = (Name, Name);

#[derive(Debug, Clone, Default)]
pub(crate) struct Volumes {
    volumes: BTreeMap<Name, VolumeFact>,
    claims: LookupMap<ClaimKey, ClaimFact>,
    classes: LookupMap<Name, StorageClassFact>,
    /// The pods on nodes that use a claim, each as often as it names it.
    users: LookupMap<ClaimKey, Vec<PodId>>,
    /// The claims that name a volume.
    named_by: LookupMap<Name, Vec<ClaimKey>>,
    /// What was decided for claims and is not yet seen on them.
    decided: LookupMap<ClaimKey, Promise>,
    /// The claims that volumes were decided for.
    taken: LookupMap<Name, ClaimKey>,
}

/// What a claim will have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decided {
    Volume(Name),
    /// A volume will be made on this node.
    Provision(Name),
}

/// What was decided for a claim, and the uids of the pods that were bound on the strength of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Promise {
    decided: Decided,
    relying: Vec<Name>,
}

impl Volumes {
    pub fn observe_volume(&mut self, fact: VolumeFact) {
        self.volumes.insert(fact.name.clone(), fact);
    }

    pub fn volume_gone(&mut self, name: &Name) {
        self.volumes.remove(name);
    }

    pub fn observe_claim(&mut self, fact: ClaimFact) {
        let key = (fact.namespace.clone(), fact.name.clone());
        if fact.bound || fact.selected_node.is_some() {
            self.undecide(&key);
        }
        self.unname(&key);
        if let Some(volume) = &fact.volume {
            self.named_by.or_insert_with(volume.clone(), Vec::new).push(key.clone());
        }
        self.claims.insert(key, fact);
    }

    pub fn claim_gone(&mut self, key: &ClaimKey) {
        self.undecide(key);
        self.unname(key);
        self.claims.remove(key);
    }

    /// A claim no longer names the volume that it named.
    fn unname(&mut self, key: &ClaimKey) {
        let Some(volume) = self.claims.get(key).and_then(|claim| claim.volume.as_ref()) else { return };
        if let Some(claims) = self.named_by.get_mut(volume) {
            claims.retain(|claim| claim != key);
            if claims.is_empty() {
                self.named_by.remove(volume);
            }
        }
    }

    pub fn observe_class(&mut self, fact: StorageClassFact) {
        self.classes.insert(fact.name.clone(), fact);
    }

    pub fn class_gone(&mut self, name: &Name) {
        self.classes.remove(name);
    }

    pub fn claim(&self, key: &ClaimKey) -> Option<&ClaimFact> {
        self.claims.get(key)
    }

    pub fn class(&self, name: &Name) -> Option<&StorageClassFact> {
        self.classes.get(name)
    }

    pub fn volume(&self, name: &Name) -> Option<&VolumeFact> {
        self.volumes.get(name)
    }

    /// All volumes, by name.
    pub fn volumes(&self) -> impl Iterator<Item = &VolumeFact> {
        self.volumes.values()
    }

    pub fn decided(&self, key: &ClaimKey) -> Option<&Decided> {
        self.decided.get(key).map(|promise| &promise.decided)
    }

    /// Whether a volume was decided for some other claim.
    pub fn is_taken_from(&self, volume: &Name, claim: &ClaimKey) -> bool {
        self.taken.get(volume).is_some_and(|taken| taken != claim)
    }

    /// The pods on nodes that use a claim.
    pub fn users(&self, key: &ClaimKey) -> &[PodId] {
        self.users.get(key).map_or(&[], Vec::as_slice)
    }

    /// The pods on nodes that use a volume, by a claim that names it or for which it was decided.
    pub fn users_of_volume(&self, volume: &Name) -> Vec<PodId> {
        let named = self.named_by.get(volume).into_iter().flatten();
        named.chain(self.taken.get(volume)).flat_map(|claim| self.users(claim)).copied().collect()
    }

    /// The volume that a claim names, bound or not yet, or will be bound to.
    pub fn volume_of(&self, key: &ClaimKey) -> Option<&VolumeFact> {
        if let Some(Decided::Volume(name)) = self.decided(key) {
            return self.volumes.get(name);
        }
        self.volumes.get(self.claims.get(key)?.volume.as_ref()?)
    }

    /// Takes in what the bind of a pod decided for its claims. Another pod that shares a claim relies on the same.
    pub fn decide(&mut self, namespace: &Name, bindings: &[ClaimBinding], node: &Name, pod: &Name) {
        for binding in bindings {
            let key = (namespace.clone(), binding.claim().clone());
            let decided = match binding {
                ClaimBinding::Volume { volume, .. } => {
                    self.taken.insert(volume.clone(), key.clone());
                    Decided::Volume(volume.clone())
                }
                ClaimBinding::Provision { .. } => Decided::Provision(node.clone()),
            };
            let promise = self.decided.or_insert_with(key, || Promise { decided, relying: Vec::new() });
            promise.relying.push(pod.clone());
        }
    }

    /// What was decided for a claim is seen, or the claim is gone.
    fn undecide(&mut self, key: &ClaimKey) {
        if let Some(Promise { decided: Decided::Volume(volume), .. }) = self.decided.remove(key) {
            self.taken.remove(&volume);
        }
    }

    /// The bind of a pod did not happen: what was decided for its claim falls, unless another pod relies on it.
    pub fn undecide_for(&mut self, key: &ClaimKey, pod: &Name) {
        if let Some(promise) = self.decided.get_mut(key) {
            promise.relying.retain(|uid| uid != pod);
            if promise.relying.is_empty() {
                self.undecide(key);
            }
        }
    }

    /// Counts a pod on a node as a user of its claims (or no longer).
    pub fn use_claims(&mut self, pod: PodId, shape: &Shape, sign: Sign) {
        let Some(namespace) = shape.namespace() else { return };
        for claim in shape.claims() {
            let key = (namespace.clone(), claim.clone());
            let users = self.users.or_insert_with(key.clone(), Vec::new);
            if sign.is_add() {
                users.push(pod);
                continue;
            }
            match users.iter().position(|user| *user == pod) {
                Some(at) => drop(users.swap_remove(at)),
                None => debug_assert!(false, "only a claim in use can be given back"),
            }
            if users.is_empty() {
                self.users.remove(&key);
            }
        }
    }

    /// What a pod attaches to a node: (driver, handle) each. `pod` tells inline volumes apart.
    pub fn attachments(&self, shape: &Shape, pod: &str) -> Vec<(Name, Name)> {
        let mut attachments = Vec::new();
        for (i, volume) in shape.spec().volumes.iter().enumerate() {
            match volume {
                PodVolume::Inline { driver } => {
                    attachments.push((driver.clone(), Name::from(format!("inline {pod} {i}"))));
                }
                PodVolume::Claim(name) => {
                    let Some(namespace) = shape.namespace() else { continue };
                    let key = (namespace.clone(), name.clone());
                    attachments.extend(self.attachment(&key));
                }
                PodVolume::Disk { .. } => {}
            }
        }
        attachments.sort();
        attachments.dedup();
        attachments
    }

    fn attachment(&self, key: &ClaimKey) -> Option<(Name, Name)> {
        if let Some(volume) = self.volume_of(key) {
            return volume.driver.clone().map(|driver| (driver, volume.handle.clone()));
        }
        // A volume that is yet to be made will be of its class's driver.
        let class = self.classes.get(&self.claims.get(key)?.class)?;
        let handle = Name::from(format!("claim {}/{}", key.0, key.1));
        class.provisions.then(|| (class.provisioner.clone(), handle))
    }
}
