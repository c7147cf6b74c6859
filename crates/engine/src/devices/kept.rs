//! Devices that are kept for a pod with a reservation: no other pod takes them while its victims leave.
//!
//! Which ones is decided when the reservation begins to count, as if the pods that leave had left. A device that a
//! victim still has is held twice meanwhile. Where no devices would do even then, none are kept: the pod waits for
//! something else.

use std::sync::Arc;

use crate::devices::world::DeviceAsk;
use crate::nodes::NodeId;
use crate::pods::PodId;
use crate::sign::Sign;
use crate::world::World;

impl World {
    /// Keeps devices for a pod that is to have a node, instead of those that were kept for it.
    pub fn keep_devices(&mut self, id: PodId, node: NodeId) {
        self.release_kept_devices(id);
        let Some(ask) = self.device_ask(id).filter(|ask| !ask.open.is_empty() || !ask.extended.is_empty()) else {
            return;
        };
        let is_leaving = |pod: &PodId| self.pods.get(*pod).departure.is_under_way();
        let leaving: Vec<PodId> = self.device_holders(node).into_iter().filter(is_leaving).collect();
        let expiring = self.device_claims.expiring();
        let lifted = self.lift(&leaving);
        self.device_claims.set_lingering(&expiring, false, &mut self.devices);
        let kept = self.devices_to_keep(&ask, node);
        self.device_claims.set_lingering(&expiring, true, &mut self.devices);
        self.put_back(lifted);
        for allocation in &kept {
            self.devices.hold(allocation, Sign::Add);
        }
        if !kept.is_empty() {
            self.device_claims.kept.insert(id, kept);
        }
    }

    /// Those that its quotas have room for, if there are such.
    fn devices_to_keep(&self, ask: &DeviceAsk, node: NodeId) -> Vec<Arc<crate::device::Allocation>> {
        let found = [true, false].into_iter().find_map(|limited| match self.find_devices(ask, node, limited) {
            Ok((choice, _)) => choice,
            Err(_) => None,
        });
        found.map(|choice| choice.allocations.into_iter().map(Arc::new).collect()).unwrap_or_default()
    }

    /// Gives up what was kept for a pod.
    pub fn release_kept_devices(&mut self, id: PodId) {
        for allocation in self.device_claims.kept.remove(&id).unwrap_or_default() {
            self.devices.hold(&allocation, Sign::Take);
        }
    }
}
