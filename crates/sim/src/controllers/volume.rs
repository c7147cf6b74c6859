//! Claims and volumes: who has which, and volumes made on demand.
//!
//! Claims that wait for their first consumer are left to the scheduler, which says on the volume which claim it is for,
//! or on the claim near which node its volume is to be made.

use std::sync::Arc;

use quotient_api::{ObjectKey, kinds};
use quotient_engine::fact::{ClaimFact, StorageClassFact, VolumeFact};
use quotient_engine::{Fact, selects};
use serde_json::{Value, json};

use super::Controllers;
use super::template::created;
use crate::field;
use crate::provisioner::provisioned_volume;
use crate::server::Server;
use crate::store::Store;

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

pub(super) fn reconcile_claim(controllers: &mut Controllers, server: &mut Server, key: &ObjectKey, claim: &Value) {
    if claim["spec"].get("storageClassName").is_none_or(Value::is_null)
        && let Some(class) = default_class(server.store())
    {
        // The claim is looked at again as it is then.
        server.amend(key, |claim| field::put(claim, &["spec", "storageClassName"], json!(*class)));
        return;
    }
    let Some(fact) = claim_fact(controllers, claim) else { return };
    if let Some(volume) = &fact.volume {
        if claimed_by(server.store(), volume).is_none_or(|owner| owner == *key) {
            bind(server, key, volume);
        }
        return;
    }
    if field::text(claim, "/status/phase").is_none() {
        server.amend(key, |claim| field::put(claim, &["status", "phase"], json!("Pending")));
    }
    let reserved = server
        .store()
        .of_kind("", "PersistentVolume", None)
        .find(|(_, volume)| claim_of(volume).is_some_and(|owner| owner == *key));
    if let Some(name) = reserved.map(|(volume, _)| volume.name.clone()) {
        return bind(server, key, &name);
    }
    let class = class_fact(controllers, server.store(), &fact.class);
    if class.as_ref().is_some_and(|class| class.waits_for_consumer) {
        // The scheduler says near which node the volume is to be.
        if let Some(node) = claim["metadata"]["annotations"][SELECTED_NODE].as_str() {
            provision(server, key, Some(node));
        }
        return;
    }
    if let Some(volume) = smallest_fitting(controllers, server.store(), &fact) {
        bind(server, key, &volume);
    } else if class.is_some_and(|class| class.provisions) {
        provision(server, key, None);
    }
}

pub(super) fn reconcile_volume(server: &mut Server, key: &ObjectKey, volume: &Value) {
    let phase = field::text(volume, "/status/phase");
    let claim_exists = claim_of(volume).map(|claim| server.store().contains(&claim));
    let next = match (phase, claim_exists) {
        (None | Some("Pending"), None | Some(false)) => "Available",
        (Some("Bound"), Some(false)) => {
            if field::text(volume, "/spec/persistentVolumeReclaimPolicy") == Some("Delete") {
                return server.remove(key);
            }
            "Released"
        }
        _ => return,
    };
    server.amend(key, |volume| field::put(volume, &["status", "phase"], json!(next)));
}

/// Gives a volume to a claim, on both sides.
fn bind(server: &mut Server, claim: &ObjectKey, volume: &str) {
    let volume_key = volume_key(volume);
    let Some(volume_object) = server.store().get(&volume_key).cloned() else { return };
    let Some(claim_object) = server.store().get(claim).cloned() else { return };
    let reference = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace.as_deref(),
        "name": *claim.name, "uid": claim_object["metadata"]["uid"],
    });
    server.amend(&volume_key, |volume| {
        field::put(volume, &["spec", "claimRef"], reference);
        field::put(volume, &["status", "phase"], json!("Bound"));
    });
    server.amend(claim, |claim| {
        field::put(claim, &["spec", "volumeName"], json!(volume));
        field::put(claim, &["metadata", "annotations", BIND_COMPLETED], json!("yes"));
        field::put(claim, &["status", "phase"], json!("Bound"));
        for part in ["capacity", "accessModes"] {
            if let Some(value) = volume_object["spec"].get(part) {
                field::put(claim, &["status", part], value.clone());
            }
        }
    });
}

/// Makes a volume for a claim, reachable from the node that will use it, and binds it.
fn provision(server: &mut Server, claim: &ObjectKey, node: Option<&str>) {
    let Some(object) = server.store().get(claim).cloned() else { return };
    let class_name = field::text(&object, "/spec/storageClassName");
    let class = class_name.and_then(|name| server.store().get(&class_key(name)).cloned());
    let Some(class) = class else { return };
    let node = node.and_then(|node| server.store().get(&ObjectKey::node(node)).cloned());
    let volume = provisioned_volume(&object, &class, node.as_deref());
    let name = volume["metadata"]["name"].as_str().unwrap_or_default().to_string();
    if server.create(volume).is_ok() {
        bind(server, claim, &name);
    }
}

/// The name of the class that claims without one get: of several, the youngest.
fn default_class(store: &Store) -> Option<Arc<str>> {
    let classes = store.of_kind("storage.k8s.io", "StorageClass", None);
    classes
        .filter(|(_, class)| class["metadata"]["annotations"][DEFAULT_CLASS] == "true")
        .max_by_key(|(_, class)| created(class))
        .map(|(key, _)| key.name.clone())
}

/// The least of the volumes that will do, the first by name where they are equal.
fn smallest_fitting(controllers: &mut Controllers, store: &Store, claim: &ClaimFact) -> Option<Arc<str>> {
    let volumes: Vec<_> = store.of_kind("", "PersistentVolume", None).map(|(_, volume)| volume.clone()).collect();
    let mut fitting: Vec<VolumeFact> = volumes
        .iter()
        .flat_map(|volume| controllers.facts(volume))
        .filter_map(|fact| if let Fact::Volume(volume) = fact { Some(volume) } else { None })
        .filter(|volume| fits(claim, volume))
        .collect();
    fitting.sort_by(|a, b| (a.capacity, &a.name).cmp(&(b.capacity, &b.name)));
    fitting.first().map(|volume| volume.name.clone())
}

fn fits(claim: &ClaimFact, volume: &VolumeFact) -> bool {
    volume.available
        && volume.claim.is_none()
        && volume.class == claim.class
        && volume.volume_mode == claim.volume_mode
        && volume.capacity >= claim.request
        && claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
        && claim.selector.as_ref().is_none_or(|selector| selects(selector, &volume.labels))
}

fn claim_fact(controllers: &mut Controllers, claim: &Value) -> Option<ClaimFact> {
    controllers.facts(claim).into_iter().find_map(|fact| if let Fact::Claim(claim) = fact { Some(claim) } else { None })
}

fn class_fact(controllers: &mut Controllers, store: &Store, name: &str) -> Option<StorageClassFact> {
    let class = store.get(&class_key(name))?.clone();
    controllers
        .facts(&class)
        .into_iter()
        .find_map(|fact| if let Fact::StorageClass(class) = fact { Some(class) } else { None })
}

/// The claim that a volume is bound to or held for.
fn claim_of(volume: &Value) -> Option<ObjectKey> {
    let namespace = field::text(volume, "/spec/claimRef/namespace")?;
    Some(claim_key(namespace, field::text(volume, "/spec/claimRef/name")?))
}

fn claimed_by(store: &Store, volume: &str) -> Option<ObjectKey> {
    store.get(&volume_key(volume)).and_then(|volume| claim_of(volume))
}

/// The key of a claim.
fn claim_key(namespace: &str, name: &str) -> ObjectKey {
    let kind = kinds::find("", "PersistentVolumeClaim").expect("claims are a known kind");
    ObjectKey::new(kind, Some(namespace), name)
}

/// The key of a volume.
pub fn volume_key(name: &str) -> ObjectKey {
    ObjectKey::new(kinds::find("", "PersistentVolume").expect("volumes are a known kind"), None, name)
}

fn class_key(name: &str) -> ObjectKey {
    ObjectKey::new(kinds::find("storage.k8s.io", "StorageClass").expect("classes are a known kind"), None, name)
}
