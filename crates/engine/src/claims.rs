//! Claims: room that is kept for a waiting pod, from the decision to evict until it is bound.

use crate::nodes::NodeId;
use crate::pods::PodId;
use crate::world::World;

/// Why room is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimKind {
    /// Victims leave for it.
    Preemption,
    /// It waited so long that a node is kept for it.
    Patience,
}

/// Room that is kept on a node. While the pod waits the claim counts there; once it is bound the claim sleeps until
/// the bind is seen, in case it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    pub node: NodeId,
    pub kind: ClaimKind,
}

impl World {
    /// Counts a pod's claim on its node (or no longer).
    pub fn count_claim(&mut self, id: PodId, add: bool) {
        let pod = self.pods.get(id);
        let Some(claim) = pod.claim else { return };
        let shape = self.shapes.get(pod.shape);
        self.nodes.claim(claim.node, &shape.demand, add);
        self.quotas.count_claim(pod, &shape.charge, add);
        for port in &shape.spec().ports {
            self.nodes.use_port(claim.node, port, add);
        }
    }
}
