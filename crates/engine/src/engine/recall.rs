//! What a scheduler that starts anew makes of the claims that it reads: nobody waits for another's victims because of a
//! restart, and what was freed for a claimant stays its own.

use crate::engine::Engine;
use crate::pods::PodId;
use crate::reservations::ReservationKind;

impl Engine {
    /// The first cycle begins: it has the claims that the last one before it had.
    pub(super) fn recall_claims(&mut self) {
        self.take_in_all_quotas();
        let read = |id: &PodId| {
            let reservation = self.world.pods.get(*id).reservation;
            reservation.is_some_and(|reservation| reservation.kind == ReservationKind::Room)
        };
        let claimants: Vec<PodId> = self.claimants.iter().copied().filter(read).collect();
        for id in claimants {
            let has_victims = !self.victims_still_leaving(self.world.pods.get(id)).is_empty();
            // Of one whose victims are gone nothing tells that it had any. One that could evict nobody had none.
            if !has_victims && !self.could_have_evicted(id) {
                continue;
            }
            let granted = if has_victims { self.world.grant_anew(id) } else { Vec::new() };
            let pod = self.world.pods.get_mut(id);
            pod.granted = granted;
            pod.awaits_victims = has_victims;
            if let Some(reservation) = pod.reservation.as_mut() {
                reservation.kind = ReservationKind::Preemption;
            }
        }
    }

    /// Whether a pod may take from others, or some pod that is less important is on a node.
    fn could_have_evicted(&self, id: PodId) -> bool {
        let pod = self.world.pods.get(id);
        let is_lower = |least: i32| least < pod.priority;
        !pod.never_preempts && (self.world.is_owed(id) || self.world.pods.least_priority().is_some_and(is_lower))
    }
}
