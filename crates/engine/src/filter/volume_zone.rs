//! A bound volume with a zone or region label can be used only there.

use crate::fact::{Labels, VolumeFact};
use crate::nodes::Node;
use crate::shape::Shape;
use crate::volumes::Volumes;

/// The labels that say where a volume is, each with its former name.
const PLACES: [[&str; 2]; 2] = [
    ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"],
    ["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"],
];

pub(crate) fn closes(node: &Node, shape: &Shape, volumes: &Volumes) -> bool {
    let Some(namespace) = shape.namespace() else { return false };
    // A node that says nothing of where it is takes any volume.
    if PLACES.iter().flatten().all(|key| node.labels.get(key).is_none()) {
        return false;
    }
    shape.claims().any(|name| {
        let volume = volumes.volume_of(&(namespace.clone(), name.clone()));
        volume.is_some_and(|volume| elsewhere(volume, &node.labels))
    })
}

fn elsewhere(volume: &VolumeFact, node: &Labels) -> bool {
    PLACES.iter().any(|[key, former]| {
        let of = |labels: &Labels, first: &str, second: &str| labels.get(first).or(labels.get(second)).cloned();
        [(key, former), (former, key)].iter().any(|(key, other)| {
            let Some(places) = volume.labels.get(key) else { return false };
            !of(node, key, other).is_some_and(|here| places.split("__").any(|place| place == &*here))
        })
    })
}
