//! Who waits, and whose turn comes first.

use quotient_engine::fact::{PodFact, PodKey};

use super::world::World;

/// Every waiting pod, in order.
pub fn waiting(world: &World) -> Vec<&PodFact> {
    let mut waiting: Vec<&PodFact> = world.pods.values().filter(|pod| world.waits(pod)).collect();
    waiting.sort_by_key(|pod| (std::cmp::Reverse(pod.priority), pod.created, pod.key()));
    waiting
}

/// The waiting pods that can be placed if there is room, in order.
pub fn candidates(world: &World) -> Vec<PodKey> {
    let candidates = waiting(world).into_iter().filter(|pod| pod.problem.is_none() && pod.gates.is_empty());
    candidates.map(PodFact::key).collect()
}
