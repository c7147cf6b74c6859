//! What a snapshot leaves out of objects: what bears on nothing, and what is nobody else's business.

use serde_json::{Map, Value, json};

/// Annotations that repeat the object, secrets and all.
const REPEATING: [&str; 2] =
    ["kubectl.kubernetes.io/last-applied-configuration", "control-plane.alpha.kubernetes.io/leader"];

/// What of a container may hold secrets, or is long and bears on nothing.
const OF_CONTAINERS: [&str; 9] = [
    "env",
    "envFrom",
    "command",
    "args",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "securityContext",
];

/// Takes out of an object what a snapshot does not keep.
pub(super) fn strip(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            REPEATING.iter().for_each(|key| drop(annotations.shift_remove(*key)));
        }
    }
    strip_containers(object);
    if object["kind"] == "Pod"
        && let Some(status) = object.get_mut("status").and_then(Value::as_object_mut)
    {
        // Images and commands of containers again; what they have counts while they are resized.
        status.shift_remove("ephemeralContainerStatuses");
        for init in status.get_mut("initContainerStatuses").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(init) = init.as_object_mut() {
                init.retain(|key, _| ["name", "allocatedResources", "resources"].contains(&key.as_str()));
            }
        }
    }
    if object["kind"] == "Node"
        && let Some(status) = object.get_mut("status").and_then(Value::as_object_mut)
    {
        for part in ["addresses", "nodeInfo", "daemonEndpoints"] {
            status.shift_remove(part);
        }
    }
}

/// Templates stand at several depths, so that every list of containers is found wherever it is.
fn strip_containers(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, value) in map.iter_mut() {
                if matches!(name.as_str(), "containers" | "initContainers") {
                    for container in value.as_array_mut().into_iter().flatten() {
                        if let Some(container) = container.as_object_mut() {
                            OF_CONTAINERS.iter().for_each(|part| drop(container.shift_remove(*part)));
                            strip_mounts(container);
                        }
                    }
                } else {
                    strip_containers(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(strip_containers),
        _ => {}
    }
}

/// Of mounts only options are read: not every node has them.
fn strip_mounts(container: &mut Map<String, Value>) {
    let Some(mounts) = container.get_mut("volumeMounts").and_then(Value::as_array_mut) else { return };
    mounts.retain(|mount| mount.get("bindMountOptions").is_some());
    mounts
        .iter_mut()
        .filter_map(Value::as_object_mut)
        .for_each(|mount| mount.retain(|key, _| key == "bindMountOptions"));
    if mounts.is_empty() {
        container.shift_remove("volumeMounts");
    }
}

/// What is kept of an event that tells of an eviction.
pub(super) fn eviction(event: &Value) -> Value {
    let involved = &event["involvedObject"];
    let times = ["lastTimestamp", "eventTime", "firstTimestamp"].into_iter().map(|name| &event[name]);
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": event["metadata"]["namespace"], "name": event["metadata"]["name"]},
        "involvedObject": {"kind": involved["kind"], "namespace": involved["namespace"], "name": involved["name"]},
        "reason": event["reason"],
        "message": event["message"],
        "lastTimestamp": times.into_iter().find(|time| !time.is_null()),
    })
}
