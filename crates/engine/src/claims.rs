//! Claims: room that is kept for a waiting pod, from the decision to evict until it is bound.

use crate::fact::Name;
use crate::nodes::NodeId;
use crate::pods::PodId;
use crate::world::{World, charge_of};

/// Why room is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimKind {
    /// Victims leave for it.
    Preemption,
    /// Room is on its way to it, without anybody's going for it.
    Room,
    /// It waited so long that a node is kept for it.
    Patience,
}

/// Room that is kept on a node while the pod waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    pub node: NodeId,
    pub kind: ClaimKind,
}

/// The claim of a pod that was decided onto a node: it counts for nothing until the bind is seen to fail. The node may
/// go meanwhile and its number be given to another, so it is known by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SleepingClaim {
    pub node: Name,
    pub kind: ClaimKind,
}

impl World {
    /// Counts a pod's claim on its node (or no longer).
    pub fn count_claim(&mut self, id: PodId, add: bool) {
        let pod = self.pods.get(id);
        let Some(claim) = pod.claim else { return };
        debug_assert_eq!(self.claims.contains(&id), !add, "a claim counts once");
        if add {
            self.claims.insert(id);
            let cards = self.nodes.cards_for(claim.node, &self.shapes.get(pod.shape).demand);
            let devices = self.asked_devices(id);
            self.pods.get_mut(id).cards = cards.into_iter().chain(devices).collect();
        }
        let pod = self.pods.get(id);
        let shape = self.shapes.get(pod.shape);
        self.nodes.claim(claim.node, &shape.demand, add);
        self.quotas.count_claim(pod, &charge_of(&self.shapes, pod), add);
        for port in &shape.spec().ports {
            self.nodes.use_port(claim.node, port, add);
        }
        if !add {
            self.claims.remove(&id);
            self.pods.get_mut(id).cards = Vec::new();
        }
    }
}
