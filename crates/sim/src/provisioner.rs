//! Volumes made on demand, as the provisioner of a storage class makes them.

use serde_json::{Value, json};

use crate::field;

const ZONE: &str = "topology.kubernetes.io/zone";

/// The volume for a claim of this class, reachable from the node that will use it, where that is known.
pub fn provisioned_volume(claim: &Value, class: &Value, node: Option<&Value>) -> Value {
    let uid = field::text(claim, "/metadata/uid").unwrap_or_default();
    let name = format!("pvc-{uid}");
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": class["provisioner"]}},
        "spec": {
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "volumeMode": claim["spec"].get("volumeMode").cloned().unwrap_or_else(|| json!("Filesystem")),
            "storageClassName": claim["spec"]["storageClassName"],
            "persistentVolumeReclaimPolicy": class.get("reclaimPolicy").cloned().unwrap_or_else(|| json!("Delete")),
            "csi": {"driver": class["provisioner"], "volumeHandle": name},
        },
    });
    if let Some(terms) = reach(class, node) {
        field::put(&mut volume, &["spec", "nodeAffinity", "required", "nodeSelectorTerms"], terms);
    }
    volume
}

/// From which nodes a new volume can be reached: those of the node's zone, where it has one, else
/// those that the class names.
fn reach(class: &Value, node: Option<&Value>) -> Option<Value> {
    let zone = node.map(|node| node["metadata"]["labels"][ZONE].clone());
    if let Some(zone @ Value::String(_)) = zone {
        return Some(json!([{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]));
    }
    let topologies = field::list(class, "/allowedTopologies");
    let term = |topology: &Value| {
        let expressions: Vec<Value> = field::list(topology, "/matchLabelExpressions")
            .iter()
            .map(|label| json!({"key": label["key"], "operator": "In", "values": label["values"]}))
            .collect();
        json!({"matchExpressions": expressions})
    };
    (!topologies.is_empty()).then(|| topologies.iter().map(term).collect())
}
