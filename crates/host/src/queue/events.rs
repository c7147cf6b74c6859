//! The events that wait: none is dropped while the API server takes them, and what they take is bounded.
//!
//! They wait without a bound on their number, since there is one for each object and reason at most; but objects go and
//! their events stay, and a server may take none for hours. Beyond the bound on their size the namespace that has most
//! loses its oldest.

use std::collections::BTreeMap;

use quotient_engine::fact::Name;

use crate::event::EventNote;
use crate::write::Slot;

/// The most that waiting events may take: some 100,000 of usual length.
pub const EVENT_BYTES_MAX: usize = 64 << 20;

/// What an event takes beside its message: its keys and its places in the queue.
const EVENT_BYTES: usize = 600;

/// What an event takes while it waits.
pub fn size(note: &EventNote) -> usize {
    EVENT_BYTES + note.message.len()
}

/// The events that were not sent, by namespace and in the order of their coming.
#[derive(Debug, Clone, Default)]
pub struct WaitingEvents {
    by_namespace: BTreeMap<Option<Name>, OfNamespace>,
    bytes: usize,
}

#[derive(Debug, Clone, Default)]
struct OfNamespace {
    events: BTreeMap<u64, (Slot, usize)>,
    bytes: usize,
}

impl WaitingEvents {
    /// Takes in an event, or what it takes now.
    pub fn insert(&mut self, number: u64, slot: Slot, bytes: usize) {
        self.remove(number, &slot);
        let of = self.by_namespace.entry(slot.namespace().cloned()).or_default();
        of.events.insert(number, (slot, bytes));
        of.bytes += bytes;
        self.bytes += bytes;
    }

    /// An event is sent or withdrawn.
    pub fn remove(&mut self, number: u64, slot: &Slot) {
        let namespace = slot.namespace().cloned();
        let Some(of) = self.by_namespace.get_mut(&namespace) else { return };
        if let Some((_, bytes)) = of.events.remove(&number) {
            of.bytes -= bytes;
            self.bytes -= bytes;
        }
        if of.events.is_empty() {
            self.by_namespace.remove(&namespace);
        }
    }

    /// The event to drop, if they take more than they may: the oldest of the namespace whose events take most.
    pub fn excess(&self) -> Option<Slot> {
        if self.bytes <= EVENT_BYTES_MAX {
            return None;
        }
        let most = self.by_namespace.values().max_by_key(|of| of.bytes)?;
        most.events.first_key_value().map(|(_, (slot, _))| slot.clone())
    }
}
