//! Volumes of a job: every container of its pods has them mounted. A volume names a volume claim that exists, or says
//! what a claim of the job's own should be.

use serde_json::{Value, json};

use super::belongings::{Belonging, Made};
use super::svc::{job_name, push};

fn volumes(job: &Value) -> impl Iterator<Item = (usize, &Value)> {
    job.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten().enumerate()
}

/// The name of the claim of a volume. That of the job's own has the job's uid: a claim of an earlier job of the same
/// name may be on its way out.
fn claim_name(job: &Value, index: usize, volume: &Value) -> String {
    let given = volume.get("volumeClaimName").and_then(Value::as_str).filter(|name| !name.is_empty());
    let uid = job.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
    given.map_or_else(|| format!("{}-volume-{index}-{uid}", job_name(job)), str::to_string)
}

/// The claims that the job makes.
pub(super) fn claims(job: &Value) -> Vec<Belonging> {
    let own = volumes(job).filter(|(_, volume)| volume.get("volumeClaim").is_some_and(|claim| !claim.is_null()));
    own.map(|(index, volume)| {
        let name = claim_name(job, index, volume);
        let object = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": job["metadata"]["namespace"]},
            "spec": volume["volumeClaim"],
        });
        Belonging { record: (format!("volume-pvc-{name}"), name), object: Made::Once(object) }
    })
    .collect()
}

/// Mounts the volumes in the containers of a pod. What a container mounts at the same place itself goes before.
pub(super) fn add(spec: &mut Value, job: &Value) {
    for (index, volume) in volumes(job) {
        let Some(path) = volume.get("mountPath").and_then(Value::as_str) else { continue };
        let name = format!("job-volume-{index}");
        let claim = json!({"claimName": claim_name(job, index, volume)});
        push(spec, "volumes", json!({"name": name, "persistentVolumeClaim": claim}));
        for list in ["containers", "initContainers"] {
            for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                let mounts = container.get("volumeMounts").and_then(Value::as_array);
                if !mounts.into_iter().flatten().any(|mount| mount["mountPath"] == path) {
                    push(container, "volumeMounts", json!({"name": name, "mountPath": path}));
                }
            }
        }
    }
}
