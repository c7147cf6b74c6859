//! What came of decisions: binds and evictions that did not happen.

use crate::engine::Engine;
use crate::engine::wake::Change;
use crate::fact::{Name, PodKey};
use crate::pods::Place;
use crate::relations::Effects;
use crate::reservations::{Reservation, ReservationKind};
use crate::sign::Sign;

impl Engine {
    pub(super) fn bind_failed(&mut self, key: &PodKey, uid: &Name) {
        let Some(id) = self.world.pods.find(key) else { return };
        let pod = self.world.pods.get(id);
        let Place::Assumed(node) = pod.place else { return };
        if pod.uid != *uid {
            return;
        }
        let mut effects = Effects::default();
        self.world.leave(id, Place::Waiting, &mut effects);
        self.wake(effects);
        self.undecide_claims(id);
        self.settle_devices(id);
        self.reshape(id);
        let reservation = self.world.pods.get_mut(id).reservation_if_bind_fails.take().map(|reservation| {
            let node = self.world.nodes.number(&reservation.node);
            Reservation { node, kind: reservation.kind }
        });
        // The others of its gang are bound: what it was to hold stays its own, or the gang would be left without it.
        let of_gang = || self.unstarted_gang(id).map(|_| Reservation { node, kind: ReservationKind::Room });
        if let Some(reservation) = reservation.or_else(of_gang)
            && !self.world.pods.get(id).is_leaving()
        {
            self.take_reservation(id, reservation);
        }
        self.enqueue(id);
        // It may have been asked to go meanwhile, and then it asks for nothing more.
        self.world.settle_request(id);
        self.note(Change::BindFailed);
    }

    pub(super) fn evict_failed(&mut self, key: &PodKey, uid: &Name) {
        let Some(id) = self.world.pods.find(key) else { return };
        let pod = self.world.pods.get(id);
        if pod.uid != *uid || !pod.departure.is_decided() {
            return;
        }
        self.note_leaving_for(id, Sign::Take);
        self.world.budgets.eviction_settled(id);
        let mut effects = Effects::default();
        self.world.change_leaving(id, &mut effects, |pod| pod.departure.undecide());
        self.wake(effects);
        self.note_leaving_for(id, Sign::Add);
        self.note(Change::EvictFailed);
    }
}
