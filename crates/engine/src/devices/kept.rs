//! Devices that are kept for a pod with a reservation: no other pod takes them while its victims leave.
//!
//! Which ones is decided once, when the reservation is made, as if the pods that leave had left. A device that a
//! victim still has is held twice meanwhile. While the pod itself, or another in its place, is looked at, what is kept
//! for it is not held; afterwards the same devices are held again. They are chosen anew only where they will not do any
//! more: the pod asks for others, or one of them is gone. Where no devices would do, none are kept: the pod waits for
//! something else.

use std::sync::Arc;

use crate::device::Allocation;
use crate::devices::bills::DeviceCharge;
use crate::devices::world::DeviceAsk;
use crate::nodes::NodeId;
use crate::pods::PodId;
use crate::sign::Sign;
use crate::world::World;

/// The devices that are kept for a pod.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub node: NodeId,
    pub ask: DeviceAsk,
    pub allocations: Vec<Arc<Allocation>>,
    /// They are not while the pod's reservation does not count.
    pub are_held: bool,
}

impl World {
    /// Chooses devices to keep for a pod that is to have a node, instead of those that were kept for it: such as cost
    /// no more than a way, if one is given. What they cost is what is reserved in its quotas.
    pub fn keep_devices(&mut self, id: PodId, node: NodeId, way: Option<&DeviceCharge>) {
        self.forget_kept_devices(id);
        let Some(mut ask) = self.device_ask(id).filter(|ask| !ask.open.is_empty() || !ask.extended.is_empty()) else {
            return;
        };
        let is_leaving = |pod: &PodId| self.pods.get(*pod).departure.is_under_way();
        let leaving: Vec<PodId> = self.device_holders(node).into_iter().filter(is_leaving).collect();
        let expiring = self.device_claims.expiring();
        let lifted = self.lift(&leaving);
        self.device_claims.set_lingering(&expiring, false, &mut self.devices);
        // What is reserved for the pod in its quotas is not in its way.
        let is_counted = self.reservations.contains(&id);
        if is_counted {
            self.count_reserved(id, Sign::Take);
        }
        ask.way = way.cloned();
        let allocations = self.devices_to_keep(&ask, node);
        ask.way = None;
        self.device_claims.set_lingering(&expiring, true, &mut self.devices);
        self.put_back(lifted);
        let is_any = !allocations.is_empty();
        if is_any {
            self.device_claims.kept.insert(id, Kept { node, ask, allocations, are_held: false });
        }
        if is_counted {
            self.count_reserved(id, Sign::Add);
        }
        if is_any {
            self.hold_kept_devices(id, Sign::Add);
        }
    }

    /// What a pod will be charged for devices that are kept for it, or at least for those that it asks for.
    pub fn reserved_devices(&self, id: PodId) -> DeviceCharge {
        match self.device_claims.kept.get(&id) {
            Some(Kept { node, ask, allocations, .. }) => {
                let mut charge = self.devices_with(id, &DeviceCharge::new());
                self.add_bill(&mut charge, &self.bill_found(ask, *node, allocations));
                charge
            }
            None => self.asked_devices(id),
        }
    }

    /// Those that its quotas have room for, if there are such.
    fn devices_to_keep(&self, ask: &DeviceAsk, node: NodeId) -> Vec<Arc<Allocation>> {
        let found = [true, false].into_iter().find_map(|limited| match self.find_devices(ask, node, limited) {
            Ok((choice, _)) => choice,
            Err(_) => None,
        });
        found.map(|choice| choice.allocations.into_iter().map(Arc::new).collect()).unwrap_or_default()
    }

    /// Holds the devices that were chosen for a pod, or others where those will not do any more.
    pub fn hold_kept_devices_on(&mut self, id: PodId, node: NodeId) {
        if !self.may_use_devices(self.pods.get(id)) {
            return;
        }
        let will_do = |kept: &Kept| {
            let mut results = kept.allocations.iter().flat_map(|allocation| &allocation.results);
            kept.node == node
                && self.device_ask(id).is_some_and(|ask| ask == kept.ask)
                && results.all(|result| self.devices.device(&result.device.pool, &result.device.device).is_some())
        };
        match self.device_claims.kept.get(&id).is_some_and(will_do) {
            true => self.hold_kept_devices(id, Sign::Add),
            false => self.keep_devices(id, node, None),
        }
    }

    /// Holds what is kept for a pod (or no longer).
    pub fn hold_kept_devices(&mut self, id: PodId, sign: Sign) {
        let Some(kept) = self.device_claims.kept.get_mut(&id).filter(|kept| kept.are_held != sign.is_add()) else {
            return;
        };
        kept.are_held = sign.is_add();
        for allocation in &kept.allocations {
            self.devices.hold(allocation, sign);
        }
    }

    /// Gives up what was kept for a pod.
    pub fn forget_kept_devices(&mut self, id: PodId) {
        self.hold_kept_devices(id, Sign::Take);
        self.device_claims.kept.remove(&id);
    }
}
