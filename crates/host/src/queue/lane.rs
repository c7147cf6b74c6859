//! The writes of one lane that wait: in which order they go.
//!
//! Decisions go in the order in which they were made. Everything else takes turns by namespace and by what it is: the
//! tenth write of one namespace goes after the first of every other, however many a tenant has.

use std::collections::{BTreeMap, BTreeSet};

use quotient_engine::Tick;
use quotient_engine::fact::Name;

use crate::write::{Lane, Slot};

/// The place of a write in the order of its lane: its turn, its priority, and the number by which it came.
pub type Rank = (u64, u8, u64);

/// What takes turns with others: a namespace, and what is written of it.
type Flow = (Option<Name>, u8);

#[derive(Debug, Clone, Default)]
pub struct LaneState {
    pub ready: BTreeSet<(Rank, Slot)>,
    pub delayed: BTreeSet<(Tick, Slot)>,
    /// Those of the delayed that wait for something that is under way.
    pub later: BTreeSet<Slot>,
    pub under_way: usize,
    turns: Turns,
}

impl LaneState {
    /// The rank of a write that comes now.
    pub fn rank(&mut self, slot: &Slot, number: u64) -> Rank {
        let turn = match slot.lane() {
            Lane::Place => 0,
            _ => self.turns.next((slot.namespace().cloned(), slot.priority())),
        };
        (turn, slot.priority(), number)
    }

    /// Takes out the one whose turn it is.
    pub fn pop(&mut self) -> Option<Slot> {
        let ((turn, ..), slot) = self.ready.pop_first()?;
        self.turns.is_at(turn);
        Some(slot)
    }

    /// How many wait or are under way.
    pub fn backlog(&self) -> usize {
        self.ready.len() + self.delayed.len() + self.under_way
    }
}

/// Turns by flow. A flow that has nothing waiting begins at the current turn, and one that has goes behind itself.
#[derive(Debug, Clone, Default)]
struct Turns {
    now: u64,
    last: BTreeMap<Flow, u64>,
    /// How many went since flows with nothing waiting were forgotten.
    gone: usize,
}

impl Turns {
    fn next(&mut self, flow: Flow) -> u64 {
        let now = self.now;
        let last = self.last.entry(flow).or_insert(now);
        *last = now.max(*last) + 1;
        *last
    }

    fn is_at(&mut self, turn: u64) {
        self.now = self.now.max(turn);
        self.gone += 1;
        if self.gone > self.last.len() {
            let now = self.now;
            self.last.retain(|_, last| *last > now);
            self.gone = 0;
        }
    }
}
