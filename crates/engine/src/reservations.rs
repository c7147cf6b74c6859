//! Reservations: room that is kept for a waiting pod, from the decision to evict until it is bound.

use crate::fact::Name;
use crate::nodes::NodeId;
use crate::pods::PodId;
use crate::relations::Bearing;
use crate::sign::Sign;
use crate::world::{World, charge_of};

/// Why room is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReservationKind {
    /// Victims leave for it.
    Preemption,
    /// Room is on its way to it, without anybody's going for it.
    Room,
    /// It waited so long that a node is kept for it.
    Patience,
}

/// Room that is kept on a node while the pod waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reservation {
    pub node: NodeId,
    pub kind: ReservationKind,
}

/// The reservation of a pod that was decided onto a node: it counts for nothing until the bind is seen to fail. The
/// node may go meanwhile and its number be given to another, so it is known by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReservationIfBindFails {
    pub node: Name,
    pub kind: ReservationKind,
}

impl World {
    /// Takes a pod's reservation, as it is remembered while the pod is bound.
    pub fn take_reservation_for_bind(&mut self, id: PodId) -> Option<ReservationIfBindFails> {
        let Reservation { node, kind } = self.pods.get(id).reservation?;
        self.pods.get_mut(id).reservation = None;
        self.forget_kept_devices(id);
        Some(ReservationIfBindFails { node: self.nodes.get(node).name.clone(), kind })
    }

    /// Counts a pod's reservation on its node (or no longer).
    pub fn count_reservation(&mut self, id: PodId, sign: Sign) {
        let Some(reservation) = self.pods.get(id).reservation else { return };
        self.count_reserved(id, sign);
        match sign.is_add() {
            true => self.hold_kept_devices_on(id, reservation.node),
            false => self.hold_kept_devices(id, sign),
        }
    }

    /// The same without the devices that are kept for it.
    pub fn count_reserved(&mut self, id: PodId, sign: Sign) {
        let pod = self.pods.get(id);
        let Some(reservation) = pod.reservation else { return };
        debug_assert_eq!(self.reservations.contains(&id), !sign.is_add(), "a reservation counts once");
        if sign.is_add() {
            self.reservations.insert(id);
            if self.shapes.get(pod.shape).holds.iter().any(|held| held.bearing == Bearing::Objects) {
                self.objecting_reservations.insert(id);
            }
            if !self.shapes.get(pod.shape).spread.is_empty() {
                self.spreading_reservations.insert(id);
            }
            let cards = self.nodes.cards_for(reservation.node, &self.shapes.get(pod.shape).demand);
            let devices = self.reserved_devices(id);
            self.pods.get_mut(id).cards = cards.into_iter().chain(devices).collect();
        }
        let pod = self.pods.get(id);
        let shape = self.shapes.get(pod.shape);
        self.nodes.reserve(reservation.node, &shape.demand, sign);
        self.quotas.count_reservation(pod, &charge_of(&self.shapes, pod), sign);
        for port in &shape.spec().ports {
            self.nodes.use_port(reservation.node, port, sign);
        }
        if !sign.is_add() {
            self.reservations.remove(&id);
            self.objecting_reservations.remove(&id);
            self.spreading_reservations.remove(&id);
            self.pods.get_mut(id).cards = Vec::new();
        }
    }
}
