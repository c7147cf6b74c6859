//! A node that has the pod's images already starts it sooner.

use crate::fact::Name;
use crate::nodes::{NodeId, Nodes};
use crate::score::FULL;

const MEBIBYTE: u128 = 1024 * 1024;
const SMALL: u128 = 23 * MEBIBYTE;
const LARGE: u128 = 1000 * MEBIBYTE;

/// An image counts by its size and, so that pods do not gather where an image happens to be, by how many nodes have it.
pub(crate) fn points(nodes: &Nodes, node: NodeId, images: &[Name]) -> i64 {
    let present = nodes.present_count() as u128;
    if images.is_empty() || present == 0 {
        return 0;
    }
    let here = &nodes.get(node).images;
    let size = |image: &Name| here.iter().find(|(names, _)| names.contains(image)).map_or(0, |(_, size)| *size);
    let sum: u128 =
        images.iter().map(|image| u128::from(size(image)) * u128::from(nodes.image_nodes(image)) / present).sum();
    let (low, high) = (SMALL, LARGE * images.len() as u128);
    let within = sum.clamp(low, high);
    ((within - low) * FULL as u128 / (high - low)) as i64
}
