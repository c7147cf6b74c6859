//! Objects as they come from a watch, without what nobody here reads.
//!
//! Most of a pod's bytes are its containers' commands, probes and environment, and who managed which field. They are
//! dropped while the bytes are parsed, before they are kept anywhere. What is left is a plain JSON value, as
//! [`quotient_api::Translator`] reads it; an object of any shape can be taken in, and what is wrong with it is said
//! there.

use std::hash::{Hash, Hasher};

use quotient_api::Kind;
use quotient_api::json::{self, Dropped, Pruned, all, inside};
use serde::de::{Deserialize, DeserializeSeed, Deserializer};
use serde_json::Value;

use crate::wire::Plan;

/// An object without what nobody reads, as it is taken from JSON.
#[derive(Debug, Clone, Default)]
pub struct Thin(pub Value);

impl<'de> Deserialize<'de> for Thin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Pruned(DROPPED).deserialize(deserializer).map(Thin)
    }
}

/// How objects of a kind are read from the binary format, if they are asked for in it: those that there are many of.
pub fn plan(kind: &Kind) -> Option<Plan> {
    let is_frequent = kind.group.is_empty() && matches!(kind.kind, "Pod" | "Node");
    if is_frequent { Plan::of(kind.kind, DROPPED) } else { None }
}

/// A hash of all that an object says but for its version, and its kind: what is listed does not name it, what is
/// watched does.
pub fn fingerprint(object: &Value, mut hasher: impl Hasher) -> u64 {
    let fields = object.as_object().into_iter().flatten();
    for (key, value) in fields.filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind")) {
        key.hash(&mut hasher);
        hash(value, &mut hasher);
    }
    hasher.finish()
}

fn hash(value: &Value, hasher: &mut impl Hasher) {
    match value {
        Value::Object(fields) => {
            fields.len().hash(hasher);
            for (key, value) in fields.iter().filter(|(key, _)| *key != "resourceVersion") {
                key.hash(hasher);
                hash(value, hasher);
            }
        }
        Value::Array(items) => {
            items.len().hash(hasher);
            items.iter().for_each(|item| hash(item, hasher));
        }
        other => other.hash(hasher),
    }
}

const CONTAINER: &[Dropped] = &json::joined::<14>(
    json::CONTAINER,
    // Options of mounts are read: not every node has them.
    &[inside(
        "volumeMounts",
        &[
            all("mountPath"),
            all("mountPropagation"),
            all("name"),
            all("readOnly"),
            all("recursiveReadOnly"),
            all("subPath"),
            all("subPathExpr"),
        ],
    )],
);

/// What a container ended with is read, whether it is ready, how often it was restarted, and what it has while it is
/// resized.
const CONTAINER_STATUS: &[Dropped] = &[
    all("allocatedResourcesStatus"),
    all("containerID"),
    all("image"),
    all("imageID"),
    all("lastState"),
    inside("resources", &[all("claims"), all("limits")]),
    all("started"),
    all("user"),
    all("volumeMounts"),
];

/// Of those that start before the others only what they have is read.
const INIT_STATUS: &[Dropped] =
    &json::joined::<12>(CONTAINER_STATUS, &[all("ready"), all("restartCount"), all("state")]);

/// What a claim tells a driver. Its owner may write anything there, and it is read when the claim is allocated
/// (`quotient_host::carry_out`).
const CLAIM_DEVICES: &[Dropped] = &[inside("config", &[inside("opaque", &[all("parameters")])])];

const SPEC: &[Dropped] = &json::joined::<12>(
    json::POD_SPEC,
    &[
        inside("containers", CONTAINER),
        inside("initContainers", CONTAINER),
        // Of what makes pods the selector is read, and what the template says beside the spec.
        inside("template", &[all("spec")]),
        all("volumeClaimTemplates"),
        inside("devices", CLAIM_DEVICES),
        // Of a template of claims.
        inside("spec", &[inside("devices", CLAIM_DEVICES)]),
    ],
);

const DROPPED: &[Dropped] = &[
    inside(
        "metadata",
        &[all("managedFields"), inside("annotations", &[all("kubectl.kubernetes.io/last-applied-configuration")])],
    ),
    inside("spec", SPEC),
    inside(
        "status",
        &[
            inside("containerStatuses", CONTAINER_STATUS),
            all("ephemeralContainerStatuses"),
            // Of nodes. The time of a heartbeat is what changes, all the time.
            inside("conditions", &[all("lastHeartbeatTime")]),
            all("addresses"),
            all("daemonEndpoints"),
            all("nodeInfo"),
            all("hostIP"),
            all("hostIPs"),
            all("podIP"),
            all("podIPs"),
            all("qosClass"),
            all("volumesAttached"),
            all("volumesInUse"),
            inside("initContainerStatuses", INIT_STATUS),
            // Of claims: what drivers were told, and what they say.
            inside("allocation", &[inside("devices", &[all("config")])]),
            inside("devices", &[all("data")]),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_nobody_reads_is_dropped_and_the_rest_is_kept() {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "a", "resourceVersion": "7", "managedFields": [{"manager": "x"}],
                "labels": {"env": "prod", "template": "t"},
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"}},
            "spec": {"containers": [{"name": "c", "env": [{"name": "A"}], "resources": {"requests": {"cpu": "1"}}}],
                "priority": 3, "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "csi": {"driver": "d"}}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [
                {"name": "c", "image": "i", "ready": true, "state": {"terminated": {"exitCode": 3}},
                    "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}}]},
        });
        let thin: Thin = serde_json::from_str(&pod.to_string()).expect("it is JSON");
        let kept = json!({
            "metadata": {"name": "p", "namespace": "a", "resourceVersion": "7",
                "labels": {"env": "prod", "template": "t"}, "annotations": {"kept": "yes"}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "priority": 3,
                "volumes": [{"name": "v"}, {"name": "w", "csi": {"driver": "d"}}]},
            "status": {"phase": "Running", "containerStatuses": [{"name": "c", "ready": true,
                "state": {"terminated": {"exitCode": 3}}, "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "2"}}}]},
        });
        assert_eq!(thin.0, kept);
    }

    #[test]
    fn an_object_of_the_wrong_shape_is_taken_in_as_it_is() {
        for odd in [
            json!({"metadata": 3, "spec": "x"}),
            json!({"metadata": {"name": "p"}, "spec": [1, -2, 0.5, null, true]}),
            json!({"spec": {"containers": {"args": 1, "image": null}}, "status": []}),
        ] {
            let thin: Thin = serde_json::from_str(&odd.to_string()).expect("it is JSON");
            assert!(thin.0.is_object());
        }
    }
}
