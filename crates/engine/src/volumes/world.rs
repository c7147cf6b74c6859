//! Volumes as pods on nodes use them, and what changes with what is known of claims.

use crate::fact::{ClaimFact, Name, PodVolume, StorageClassFact, VolumeFact};
use crate::nodes::NodeId;
use crate::pods::PodId;
use crate::sign::Sign;
use crate::volumes::{ClaimKey, Volumes};
use crate::world::World;

impl World {
    pub fn use_volumes(&mut self, id: PodId, node: NodeId, sign: Sign) {
        let pod = self.pods.get(id);
        let shape = self.shapes.get(pod.shape);
        self.volumes.use_claims(id, shape, sign);
        for volume in &shape.spec().volumes {
            if let PodVolume::Disk { id, read_only } = volume {
                self.nodes.use_disk(node, id, *read_only, sign);
            }
        }
        self.attach(id, node, sign);
    }

    fn attach(&mut self, id: PodId, node: NodeId, sign: Sign) {
        let pod = self.pods.get(id);
        for (driver, handle) in self.volumes.attachments(self.shapes.get(pod.shape), &pod.uid) {
            self.nodes.use_volume(node, &driver, &handle, sign);
        }
    }

    /// Changes what is known of claims, volumes or classes. What pods attach follows from that, so the volumes of its
    /// `users`, pods on nodes, are detached before and attached after.
    pub fn change_volumes<T>(&mut self, mut users: Vec<PodId>, change: impl FnOnce(&mut Volumes) -> T) -> T {
        users.sort_unstable();
        users.dedup();
        let places: Vec<(PodId, NodeId)> =
            users.into_iter().filter_map(|id| Some((id, self.pods.get(id).node()?))).collect();
        for (pod, node) in &places {
            self.attach(*pod, *node, Sign::Take);
        }
        let outcome = change(&mut self.volumes);
        for (pod, node) in places {
            self.attach(pod, node, Sign::Add);
        }
        outcome
    }

    /// Takes in a volume. Returns whether the fact says something new.
    pub fn observe_volume(&mut self, fact: VolumeFact) -> bool {
        if self.volumes.volume(&fact.name) == Some(&fact) {
            return false;
        }
        let users = self.volumes.users_of_volume(&fact.name);
        self.change_volumes(users, |volumes| volumes.observe_volume(fact));
        true
    }

    pub fn volume_gone(&mut self, name: &Name) -> bool {
        let users = self.volumes.users_of_volume(name);
        self.volumes.volume(name).is_some() && {
            self.change_volumes(users, |volumes| volumes.volume_gone(name));
            true
        }
    }

    /// Takes in a volume claim. Returns whether the fact says something new.
    pub fn observe_volume_claim(&mut self, fact: ClaimFact) -> bool {
        let key = (fact.namespace.clone(), fact.name.clone());
        // One that is known to be bound may have been decided anew since.
        if self.volumes.claim(&key) == Some(&fact) && self.volumes.decided(&key).is_none() {
            return false;
        }
        let users = self.volumes.users(&key).to_vec();
        self.change_volumes(users, |volumes| volumes.observe_claim(fact));
        true
    }

    pub fn volume_claim_gone(&mut self, key: &ClaimKey) -> bool {
        let users = self.volumes.users(key).to_vec();
        self.volumes.claim(key).is_some() && {
            self.change_volumes(users, |volumes| volumes.claim_gone(key));
            true
        }
    }

    /// Takes in a storage class. Returns whether the fact says something new.
    pub fn observe_storage_class(&mut self, fact: StorageClassFact) -> bool {
        if self.volumes.class(&fact.name) == Some(&fact) {
            return false;
        }
        let users = self.users_of_claims();
        self.change_volumes(users, |volumes| volumes.observe_class(fact));
        true
    }

    pub fn storage_class_gone(&mut self, name: &Name) -> bool {
        let users = self.users_of_claims();
        self.volumes.class(name).is_some() && {
            self.change_volumes(users, |volumes| volumes.class_gone(name));
            true
        }
    }

    /// The pods on known nodes that have claims: a storage class may be that of any.
    pub fn users_of_claims(&self) -> Vec<PodId> {
        let uses = |pod: &crate::pods::Pod| {
            let known = pod.node().is_some_and(|node| self.nodes.is_present(node));
            known && self.shapes.get(pod.shape).claims().next().is_some()
        };
        self.pods.placed().filter(|(_, pod)| uses(pod)).map(|(id, _)| id).collect()
    }
}
