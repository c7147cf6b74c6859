//! Volumes, claims and storage classes, and what was decided about them but not yet seen.

use std::collections::BTreeMap;

use crate::decision::ClaimBinding;
use crate::fact::{ClaimFact, Name, PodVolume, StorageClassFact, VolumeFact};
use crate::lookup::LookupMap;
use crate::shape::Shape;

/// A claim, by namespace and name.
pub(crate) type ClaimKey = (Name, Name);

#[derive(Debug, Clone, Default)]
pub(crate) struct Volumes {
    volumes: BTreeMap<Name, VolumeFact>,
    claims: LookupMap<ClaimKey, ClaimFact>,
    classes: LookupMap<Name, StorageClassFact>,
    /// How many pods on nodes use a claim.
    users: LookupMap<ClaimKey, u32>,
    /// What was decided for claims and is not yet seen on them.
    decided: LookupMap<ClaimKey, Promise>,
    /// The claims that volumes were decided for.
    taken: LookupMap<Name, ClaimKey>,
    /// Counts every change, for whoever keeps something derived.
    pub epoch: u64,
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
        self.epoch += 1;
        self.volumes.insert(fact.name.clone(), fact);
    }

    pub fn volume_gone(&mut self, name: &Name) {
        self.epoch += 1;
        self.volumes.remove(name);
    }

    pub fn observe_claim(&mut self, fact: ClaimFact) {
        self.epoch += 1;
        let key = (fact.namespace.clone(), fact.name.clone());
        if fact.bound || fact.selected_node.is_some() {
            self.undecide(&key);
        }
        self.claims.insert(key, fact);
    }

    pub fn claim_gone(&mut self, key: &ClaimKey) {
        self.epoch += 1;
        self.undecide(key);
        self.claims.remove(key);
    }

    pub fn observe_class(&mut self, fact: StorageClassFact) {
        self.epoch += 1;
        self.classes.insert(fact.name.clone(), fact);
    }

    pub fn class_gone(&mut self, name: &Name) {
        self.epoch += 1;
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

    pub fn users(&self, key: &ClaimKey) -> u32 {
        self.users.get(key).copied().unwrap_or(0)
    }

    /// The volume that a claim is bound to, or will be.
    pub fn volume_of(&self, key: &ClaimKey) -> Option<&VolumeFact> {
        if let Some(Decided::Volume(name)) = self.decided(key) {
            return self.volumes.get(name);
        }
        self.claims.get(key).filter(|claim| claim.bound)?.volume.as_ref().and_then(|name| self.volumes.get(name))
    }

    /// Takes in what the bind of a pod decided for its claims. Another pod that shares a claim relies on the same.
    pub fn decide(&mut self, namespace: &Name, bindings: &[ClaimBinding], node: &Name, pod: &Name) {
        for binding in bindings {
            self.epoch += 1;
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
        if let Some(promise) = self.decided.remove(key) {
            self.epoch += 1;
            if let Decided::Volume(volume) = promise.decided {
                self.taken.remove(&volume);
            }
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
    pub fn use_claims(&mut self, shape: &Shape, add: bool) {
        let Some(namespace) = shape.namespace() else { return };
        for claim in shape.claims() {
            self.epoch += 1;
            let key = (namespace.clone(), claim.clone());
            let users = self.users.or_insert_with(key.clone(), || 0);
            *users = if add { *users + 1 } else { users.saturating_sub(1) };
            if *users == 0 {
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
