//! Volumes made on demand: kwok plays nodes, this plays the provisioner of every storage class.

use std::sync::Arc;

use quotient_api::{ObjectKey, kinds};
use quotient_sim::Trouble;
use quotient_sim::provisioner::provisioned_volume;
use serde_json::{Value, json};

use super::fit::LABEL;
use super::server::{Manner, Objects, Server};

/// Set by Kubernetes on a claim that is to get a volume, and by the scheduler where it is to be near a node.
const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Makes the volumes that are asked for, and takes out those that nobody needs; says whether there was anything to do.
pub async fn provision(server: &Server, objects: &Objects) -> Result<bool, Trouble> {
    let mut did = false;
    for (key, object) in objects {
        match (key.group, key.kind) {
            ("", "PersistentVolumeClaim") => did |= make(server, objects, key, object).await?,
            ("", "PersistentVolume") if is_done_with(object) => {
                server.delete(key, Manner::Usual).await?;
                did = true;
            }
            _ => {}
        }
    }
    Ok(did)
}

async fn make(server: &Server, objects: &Objects, key: &ObjectKey, claim: &Value) -> Result<bool, Trouble> {
    let annotations = &claim["metadata"]["annotations"];
    let waits = claim["status"]["phase"] == "Pending" && claim["spec"]["volumeName"].is_null();
    if !waits || annotations[PROVISIONER].is_null() || !claim["metadata"]["deletionTimestamp"].is_null() {
        return Ok(false);
    }
    let find = |group: &str, kind: &str, name: &Value| -> Option<&Arc<Value>> {
        objects.get(&ObjectKey::new(kinds::find(group, kind)?, None, name.as_str()?))
    };
    let class = find("storage.k8s.io", "StorageClass", &claim["spec"]["storageClassName"]);
    let Some(class) = class else { return Ok(false) };
    let node = find("", "Node", &annotations[SELECTED_NODE]);
    let mut volume = provisioned_volume(claim, class, node.map(|node| &**node));
    if find("", "PersistentVolume", &volume["metadata"]["name"]).is_some() {
        // It is there; Kubernetes will bind the two.
        return Ok(true);
    }
    volume["metadata"]["labels"] = json!({LABEL: "true"});
    volume["spec"]["claimRef"] = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": key.namespace.as_deref(), "name": *key.name,
        "uid": claim["metadata"]["uid"], "resourceVersion": claim["metadata"]["resourceVersion"],
    });
    let Ok(volume_key) = quotient_api::key_of(&volume) else { return Ok(false) };
    server.create(&volume_key, &volume).await?;
    Ok(true)
}

/// A volume that was made for a claim goes with it.
fn is_done_with(volume: &Value) -> bool {
    let made = volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"].is_string();
    let is_leaving = !volume["metadata"]["deletionTimestamp"].is_null();
    let released = volume["status"]["phase"] == "Released";
    made && released && !is_leaving && volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
}
