//! A driver attaches only so many volumes to a node.

use crate::nodes::Node;
use crate::shape::Shape;
use crate::volumes::Volumes;

pub(crate) fn closes(node: &Node, shape: &Shape, volumes: &Volumes, pod: &str) -> bool {
    if node.attach_limits.is_empty() {
        return false;
    }
    let wanted = volumes.attachments(shape, pod);
    node.attach_limits.iter().any(|(driver, limit)| {
        let new = wanted.iter().filter(|a| a.0 == *driver && !node.attached.contains_key(*a)).count();
        let old = node.attached.keys().filter(|(d, _)| d == driver).count();
        new > 0 && old + new > *limit as usize
    })
}
