//! Two pods cannot have the same host port on one node.

use crate::fact::HostPort;
use crate::nodes::Node;

/// The address that stands for every address.
const ANY: &str = "0.0.0.0";

pub(crate) fn closes(node: &Node, ports: &[HostPort]) -> bool {
    ports.iter().any(|wanted| node.ports.iter().any(|(taken, _)| collide(wanted, taken)))
}

pub(crate) fn collide(a: &HostPort, b: &HostPort) -> bool {
    a.port == b.port && a.protocol == b.protocol && (a.ip == b.ip || &*a.ip == ANY || &*b.ip == ANY)
}
