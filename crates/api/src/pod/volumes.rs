//! The volumes of a pod that bear on where it can run.

use quotient_engine::fact::PodVolume;

use crate::cursor::Cursor;
use crate::intern::Interner;

/// The volumes of the pod `pod_name`, in their order. Kinds that any node can mount are left out.
pub(crate) fn volumes(spec: &Cursor<'_, '_>, pod_name: &str, interner: &mut Interner) -> Vec<PodVolume> {
    let mut volumes = Vec::new();
    for at in spec.field("volumes").items() {
        volume(&at, pod_name, interner, &mut volumes);
    }
    volumes
}

fn volume(at: &Cursor<'_, '_>, pod_name: &str, interner: &mut Interner, volumes: &mut Vec<PodVolume>) {
    let claim = at.field("persistentVolumeClaim");
    if claim.exists() {
        let name = claim.field("claimName");
        match name.non_empty_str() {
            Some(name) => volumes.push(PodVolume::Claim(interner.name(name))),
            None => name.note("expected the name of a claim"),
        }
    }
    if at.field("ephemeral").exists() {
        // The claim is made for the pod, and named after the pod and the volume.
        let name = format!("{pod_name}-{}", at.field("name").str().unwrap_or_default());
        volumes.push(PodVolume::Claim(interner.name(&name)));
    }
    if let Some(driver) = at.field("csi").field("driver").non_empty_str() {
        volumes.push(PodVolume::Inline { driver: interner.name(driver) });
    }
    let mut disk = |id: String, read_only: bool| volumes.push(PodVolume::Disk { id: interner.name(&id), read_only });
    let gce = at.field("gcePersistentDisk");
    if let Some(name) = gce.field("pdName").non_empty_str() {
        disk(format!("gce/{name}"), gce.field("readOnly").bool().unwrap_or(false));
    }
    let aws = at.field("awsElasticBlockStore");
    if let Some(id) = aws.field("volumeID").non_empty_str() {
        // It attaches once, whatever it is used for.
        disk(format!("aws/{id}"), false);
    }
    let iscsi = at.field("iscsi");
    if let Some(name) = iscsi.field("iqn").non_empty_str() {
        disk(format!("iscsi/{name}"), iscsi.field("readOnly").bool().unwrap_or(false));
    }
    let rbd = at.field("rbd");
    if let Some(image) = rbd.field("image").non_empty_str() {
        let pool = rbd.field("pool").non_empty_str().unwrap_or("rbd").to_string();
        let read_only = rbd.field("readOnly").bool().unwrap_or(false);
        // Two uses meet where they share a monitor.
        for monitor in rbd.field("monitors").strs() {
            disk(format!("rbd/{monitor}/{pool}/{image}"), read_only);
        }
    }
}
