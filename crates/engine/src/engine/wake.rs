//! Which change wakes whom: the only place that decides it.
//!
//! A pending pod that found no way to run rests. It is tried again when something changes that may let it run; this
//! table says who is woken by what. Beside it only two things wake pods, and both name the pods themselves: a pod that
//! comes to a node wakes those whose affinity waits for its kind ([`Engine::wake`]), and a quota that rises, or a pool
//! that is drawn on, wakes those who wait for it (`Moved`, in the cycle, and `owed.rs`).

use crate::engine::Engine;
use crate::relations::Effects;

/// Something that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// A node came, went, or has other labels, taints, amounts, images, cards, a cap or attach limits.
    Node,
    /// A quota came, went or says something else; or the queue of a namespace.
    Quota,
    /// A group came, went or says something else.
    Group,
    /// A namespace has other labels, or a service or controller selects other pods.
    Selection,
    /// A disruption budget came, went, or allows more or less.
    Budget,
    /// A volume, volume claim or storage class came, went or says something else.
    Volume,
    /// Devices, a device class or a claim on devices came, went or say something else.
    Devices,
    /// A pod is on a node, or on another one, and not by a decision.
    PodPlaced,
    /// A pod is no longer on its node.
    PodLeft,
    /// A pod has another spec, priority, labels or quotas.
    PodChanged,
    /// A pod began to terminate, or does not after all.
    PodTerminating,
    /// A pod that was evicted is seen to terminate, as it was decided.
    EvictionSeen,
    /// A pod is nominated for another node.
    Nomination,
    /// A bind did not happen.
    BindFailed,
    /// An eviction did not happen.
    EvictFailed,
    /// A pending pod gave up what was reserved for it.
    ReservationDropped,
    /// A node, or nodes, are reserved for pods that were pending for long.
    Reserved,
    /// A pod is bound, which frees what was reserved for it elsewhere, decides a volume, or takes what others count on.
    BoundWithEffect,
    /// A pod is bound where room was reserved for it.
    ReservationUsed,
    /// A pod that was bound is seen on its node, where a claimant is to evict it.
    VictimAppeared,
    /// Victims are evicted for a claimant.
    Preempted,
    /// Pods are evicted from a quota that was over-used for too long.
    OveruseEvicted,
    /// A group was admitted.
    GroupAdmitted,
}

/// Who is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wakes {
    /// Every pending pod; and groups that are not admitted are looked at again.
    Everyone,
    /// Every pending pod but those for whom victims are terminating: they have a reservation, what others get only
    /// takes from them, and they evict nobody else.
    AllButAwaiting,
}

impl Change {
    #[cfg(test)]
    pub const ALL: [Change; 23] = [
        Change::Node,
        Change::Quota,
        Change::Group,
        Change::Selection,
        Change::Budget,
        Change::Volume,
        Change::Devices,
        Change::PodPlaced,
        Change::PodLeft,
        Change::PodChanged,
        Change::PodTerminating,
        Change::EvictionSeen,
        Change::Nomination,
        Change::BindFailed,
        Change::EvictFailed,
        Change::ReservationDropped,
        Change::Reserved,
        Change::BoundWithEffect,
        Change::ReservationUsed,
        Change::VictimAppeared,
        Change::Preempted,
        Change::OveruseEvicted,
        Change::GroupAdmitted,
    ];

    /// The table.
    pub fn wakes(self) -> Wakes {
        match self {
            Change::Preempted | Change::EvictionSeen | Change::ReservationUsed => Wakes::AllButAwaiting,
            Change::Node
            | Change::Quota
            | Change::Group
            | Change::Selection
            | Change::Budget
            | Change::Volume
            | Change::Devices
            | Change::PodPlaced
            | Change::PodLeft
            | Change::PodChanged
            | Change::PodTerminating
            | Change::Nomination
            | Change::BindFailed
            | Change::EvictFailed
            | Change::ReservationDropped
            | Change::Reserved
            | Change::BoundWithEffect
            | Change::VictimAppeared
            | Change::OveruseEvicted
            | Change::GroupAdmitted => Wakes::Everyone,
        }
    }
}

impl Engine {
    /// Something changed that may let pods run that could not before.
    pub(super) fn note(&mut self, change: Change) {
        // What was found hopeless may not be any more.
        self.changes += 1;
        match change.wakes() {
            Wakes::Everyone => {
                self.admission_due = true;
                self.queue.wake_all();
            }
            Wakes::AllButAwaiting => self.queue.wake_all_but_awaiting(),
        }
    }

    /// Wakes the pods whose affinity waited for what came or went.
    pub(super) fn wake(&mut self, effects: Effects) {
        for group in effects.woken {
            self.queue.wake(group);
        }
    }
}

#[cfg(test)]
mod tests;
