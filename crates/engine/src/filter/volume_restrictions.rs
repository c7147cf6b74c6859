//! A volume that only one pod may use at a time.

use crate::fact::{Name, PodVolume};
use crate::nodes::Node;
use crate::shape::Shape;
use crate::volumes::Volumes;

/// The access mode of a claim that one pod in the cluster may use.
const ONE_POD: &str = "ReadWriteOncePod";

pub(crate) fn closes(node: &Node, shape: &Shape, volumes: &Volumes) -> bool {
    claim_in_use(shape, volumes) || shape.spec().volumes.iter().any(|volume| disk_in_use(node, volume))
}

/// Whether a claim that one pod may use is in use, anywhere.
pub(crate) fn claim_in_use(shape: &Shape, volumes: &Volumes) -> bool {
    let Some(namespace) = shape.namespace() else { return false };
    shape.claims().any(|name| {
        let key = (namespace.clone(), name.clone());
        is_exclusive(&key, volumes) && !volumes.users(&key).is_empty()
    })
}

/// Whether one pod may use a claim, and no other at the same time.
pub(crate) fn is_exclusive(key: &(Name, Name), volumes: &Volumes) -> bool {
    volumes.claim(key).is_some_and(|claim| claim.access_modes.iter().any(|mode| &**mode == ONE_POD))
}

/// Whether pods with these volumes cannot be on one node because of a disk.
pub(crate) fn share_no_disk(a: &[PodVolume], b: &[PodVolume]) -> bool {
    let disks = |volumes: &[PodVolume]| {
        let disk = |volume: &PodVolume| match volume {
            PodVolume::Disk { id, read_only } => Some((id.clone(), *read_only)),
            _ => None,
        };
        volumes.iter().filter_map(disk).collect::<Vec<_>>()
    };
    let theirs = disks(b);
    disks(a).iter().any(|(id, reads)| theirs.iter().any(|(other, only)| id == other && !(*reads && *only)))
}

fn disk_in_use(node: &Node, volume: &PodVolume) -> bool {
    let PodVolume::Disk { id, read_only } = volume else { return false };
    node.disks.get(id).is_some_and(|(writers, readers)| *writers > 0 || (*readers > 0 && !read_only))
}
