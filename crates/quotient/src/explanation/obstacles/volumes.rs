//! Which claim or volume of a pod is in the way.

use quotient_api::{ObjectKey, kinds};
use quotient_engine::Filter;
use serde_json::Value;

use super::selectors::{label, text};
use crate::state::State;

const ZONES: [&str; 4] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

/// The claims that a pod names, those of its ephemeral volumes too.
pub fn claims(pod: &Value) -> Vec<String> {
    let name = text(pod, "/metadata/name").unwrap_or_default();
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    volumes
        .filter_map(|volume| match text(volume, "/persistentVolumeClaim/claimName") {
            Some(claim) => Some(claim.to_owned()),
            None => volume.get("ephemeral").map(|_| format!("{name}-{}", text(volume, "/name").unwrap_or_default())),
        })
        .collect()
}

fn find<'a>(state: &'a State, group: &str, kind: &str, namespace: Option<&str>, name: &str) -> Option<&'a Value> {
    state.object(&ObjectKey::new(kinds::find(group, kind)?, namespace, name))
}

/// What is the matter with a pod's volumes on a node.
pub fn obstacle(state: &State, pod: &Value, node: &Value, filter: Filter) -> Option<String> {
    let namespace = text(pod, "/metadata/namespace");
    claims(pod).iter().find_map(|name| {
        let Some(claim) = find(state, "", "PersistentVolumeClaim", namespace, name) else {
            return Some(format!("PVC {name} not found"));
        };
        match (filter, text(claim, "/spec/volumeName")) {
            (Filter::VolumeRestrictions, _) => {
                is_exclusive(claim).then(|| format!("PVC {name} is in use by another pod"))
            }
            (Filter::NodeVolumeLimits, _) => Some(format!("no room to attach PVC {name}")),
            (_, Some(volume)) => bound(state, name, volume, node, filter),
            (_, None) => unbound(state, name, claim),
        }
    })
}

fn is_exclusive(claim: &Value) -> bool {
    let modes = claim.pointer("/spec/accessModes").and_then(Value::as_array);
    modes.into_iter().flatten().any(|mode| mode == "ReadWriteOncePod")
}

fn bound(state: &State, claim: &str, volume: &str, node: &Value, filter: Filter) -> Option<String> {
    let Some(object) = find(state, "", "PersistentVolume", None, volume) else {
        return Some(format!("PV {volume} of PVC {claim} not found"));
    };
    if filter == Filter::VolumeZone {
        let zone = ZONES.iter().find_map(|key| {
            let zone = label(object, key)?;
            (!zone.split("__").any(|zone| label(node, key) == Some(zone))).then_some(zone)
        })?;
        return Some(format!("PV {volume} of PVC {claim} is in {zone}"));
    }
    Some(format!("PV {volume} of PVC {claim} is not reachable by its node affinity"))
}

fn unbound(state: &State, name: &str, claim: &Value) -> Option<String> {
    let Some(class) = text(claim, "/spec/storageClassName") else {
        return Some(format!("PVC {name} is unbound, and names no StorageClass"));
    };
    let Some(object) = find(state, "storage.k8s.io", "StorageClass", None, class) else {
        return Some(format!("PVC {name} is unbound: StorageClass {class} not found"));
    };
    Some(match text(object, "/volumeBindingMode") {
        Some("WaitForFirstConsumer") => format!("PVC {name}: StorageClass {class} has no volume for the node"),
        _ => format!("PVC {name} is unbound, though StorageClass {class} binds at once"),
    })
}
