//! What came of decisions: binds and evictions that did not happen.

use crate::cards::Attempt;
use crate::decision::Decisions;
use crate::engine::Engine;
use crate::engine::wake::Change;
use crate::fact::{Name, PodKey};
use crate::pods::{Place, PodId};
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
        // A group of which any one pod is enough is no gang.
        let room = Reservation { node, kind: ReservationKind::Room };
        let of_gang = || self.world.is_of_gang_to_start(id).then_some(room);
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
        self.recheck_reservations = true;
        self.note(Change::EvictFailed);
    }

    /// Drops reservations for which no room comes since an eviction did not happen. They would count as held by their
    /// quotas, whose pods would be open to claimants for it. The least important go first: what one gives up may do for
    /// others. Those whose victims leave wait for them, and gangs are looked at as a whole when it is their turn.
    pub(super) fn drop_baseless_reservations(&mut self, decisions: &mut Decisions) {
        if !std::mem::take(&mut self.recheck_reservations) {
            return;
        }
        let is_in_doubt = |id: &PodId| {
            let pod = self.world.pods.get(*id);
            let is_patient = pod.reservation.is_none_or(|held| held.kind == ReservationKind::Patience);
            !is_patient && self.unstarted_gang(*id).is_none() && self.victims_still_leaving(pod).is_empty()
        };
        let mut holders: Vec<PodId> = self.claimants.iter().copied().filter(is_in_doubt).collect();
        holders.sort_by_cached_key(|id| {
            let pod = self.world.pods.get(*id);
            (pod.priority, std::cmp::Reverse((pod.created, pod.key())))
        });
        let leaving = self.world.leaving_pods();
        let lifted = self.world.lift(&leaving);
        let mut baseless = Vec::new();
        for id in holders {
            let Some(reservation) = self.world.pods.get(id).reservation else { continue };
            self.count_reservation(id, Sign::Take);
            let choices = self.world.card_choices(id);
            let mut attempts = choices.iter().map(|choice| Attempt { pod: id, choice: choice.as_ref() });
            match attempts.any(|attempt| self.world.is_open(attempt, reservation.node)) {
                true => self.count_reservation(id, Sign::Add),
                false => baseless.push(id),
            }
        }
        self.world.put_back(lifted);
        for id in baseless {
            self.drop_turn(id, decisions);
        }
    }
}
