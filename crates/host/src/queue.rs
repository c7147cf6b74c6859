//! Writes that wait for their turn.
//!
//! One slot of one object has one write at most: a later one replaces an earlier one that was not sent. So the queue
//! is bounded by what there is: no more than one bind, eviction, nomination, label and condition for each pod, and one
//! status for each quota. Each class of writes has a lane of its own, and within a lane namespaces take turns
//! ([`lane`]). Events are kept until the API server took them, within a bound on their size ([`events`]). The engine is
//! not asked for more decisions while what places pods has a long backlog; nothing else ever holds it up.
//!
//! An eviction is not sent before the nomination of the pod it makes room for was written: it is by the nomination that
//! a scheduler that starts anew knows whose the room is. When that pod is bound, is gone or gives up its claim, its
//! evictions that were not sent are cancelled. Binds and evictions go in the order of their coming.
//!
//! ```text
//!            push                 take                  done
//!   (none) ───────▶ ready ─────────────▶ under way ──────────────▶ (none), or the fact that it failed
//!                     ▲                     │ failed, later
//!                     └────── delayed ◀─────┘
//! ```

mod events;
mod lane;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quotient_api::ObjectKey;
use quotient_engine::fact::PodKey;
use quotient_engine::lookup::LookupMap;
use quotient_engine::{Fact, Tick};

use crate::event::FAILED_SCHEDULING;
use crate::write::{LANES, Lane, PodRef, Slot, Write};
use events::WaitingEvents;
use lane::{LaneState, Rank};

/// How often a bind or an eviction is tried before the engine is told that it did not happen. Together the tries take
/// some seconds, in which the engine keeps the room.
const PLACE_ATTEMPTS_MAX: u32 = 6;

/// For how long a bind may wait for the volumes of its pod, as kube-scheduler does.
const VOLUMES_WAIT_MAX: Duration = Duration::from_secs(600);

/// The longest pause before something is tried again.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How soon it is looked again whether the lease was renewed.
const FENCED_PAUSE: Duration = Duration::from_millis(100);

/// For how long an event is tried: API servers forget events after an hour, by default.
const EVENT_TRIED_MAX: Duration = Duration::from_secs(3600);

/// How long the failures of a pod's binds are remembered, for how long the next one is put off.
const FAILURES_KEPT: Duration = Duration::from_secs(300);

/// What came of a write that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// It will not happen, and why.
    Refused(String),
    /// It waits for something that is under way; ask again after a while.
    Later(Duration),
    /// The server did not do it, and may do it another time.
    Failed(String),
    /// It was not sent: the lease is not renewed. If it is in time, it is sent then; if another has it, all that waits
    /// here ends with the session.
    Fenced,
}

/// Something that did not happen, and when to tell. What fails is told later each time, so that a pod whose bind is
/// refused is not bound again and again without a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feedback {
    pub at: Tick,
    pub failed: Failed,
    pub message: String,
}

/// What did not happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    /// A decision of the engine, which has to know.
    Decision(Box<Fact>),
    /// Something that a controller asked for.
    Asked(Slot),
}

/// Failures that are told later, by when.
#[derive(Debug, Clone, Default)]
pub struct PutOff {
    by_time: BTreeMap<(Tick, u64), Feedback>,
    number: u64,
}

impl PutOff {
    /// Keeps something to be told at its time.
    pub fn push(&mut self, feedback: Feedback) {
        self.number += 1;
        self.by_time.insert((feedback.at, self.number), feedback);
    }

    /// The next one whose time has come.
    pub fn pop(&mut self, now: Tick) -> Option<Feedback> {
        let entry = self.by_time.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }

    /// When the next one is to be told.
    pub fn next_due(&self) -> Option<Tick> {
        self.by_time.first_key_value().map(|((at, _), _)| *at)
    }
}

#[derive(Debug, Clone)]
struct Pending {
    /// Apart, so that what it takes is given back as soon as it is done: thousands may come at once.
    write: Box<Write>,
    attempts: u32,
    rank: Rank,
    /// Until when it is put off, if it is.
    due: Option<Tick>,
    begun: Option<Tick>,
}

/// Writes by slot.
#[derive(Debug, Clone, Default)]
pub struct WriteQueue {
    pending: LookupMap<Slot, Pending>,
    /// What was sent and not answered yet.
    sent: LookupMap<Slot, Pending>,
    lanes: [LaneState; LANES.len()],
    /// Evictions that wait for the nomination of their claimant.
    parked: BTreeMap<PodKey, Vec<Slot>>,
    /// Evictions that were not sent, by the pod they make room for.
    for_claimants: BTreeMap<PodKey, BTreeSet<Slot>>,
    events: WaitingEvents,
    events_dropped: u64,
    failures: BTreeMap<PodKey, (u32, Tick)>,
    put_off: PutOff,
    number: u64,
}

impl WriteQueue {
    fn lane(&mut self, lane: Lane) -> &mut LaneState {
        &mut self.lanes[lane as usize]
    }

    fn seen_lane(&self, lane: Lane) -> &LaneState {
        &self.lanes[lane as usize]
    }

    /// How many writes of a lane wait or are under way.
    pub fn backlog(&self, lane: Lane) -> usize {
        let parked: usize = match lane {
            Lane::Place => self.parked.values().map(Vec::len).sum(),
            _ => 0,
        };
        self.seen_lane(lane).backlog() + parked
    }

    /// How many writes of a lane could be sent now and are not.
    pub fn ready(&self, lane: Lane) -> usize {
        self.seen_lane(lane).ready.len()
    }

    /// How many writes of a lane are under way.
    pub fn under_way(&self, lane: Lane) -> usize {
        self.seen_lane(lane).under_way
    }

    /// How many events were dropped so far.
    pub fn events_dropped(&self) -> u64 {
        self.events_dropped
    }

    /// The next thing to tell that did not happen, whose time has come.
    pub fn feedback(&mut self, now: Tick) -> Option<Feedback> {
        self.put_off.pop(now)
    }

    /// When the next thing is to be told that did not happen.
    pub fn next_feedback(&self) -> Option<Tick> {
        self.put_off.next_due()
    }

    /// Takes in something to be written.
    pub fn push(&mut self, write: Write, now: Tick) {
        match &write {
            Write::Bind { pod, .. } => {
                // Why it waited is history, and so are what was to be kept for it and who was to go for it.
                self.withdraw(&Slot::Condition(pod.key.clone()));
                self.withdraw(&Slot::Event(ObjectKey::pod(&pod.key.namespace, &pod.key.name), FAILED_SCHEDULING));
                self.withdraw(&Slot::Nominate(pod.key.clone()));
                self.cancel_evictions(&pod.key.clone(), "its claimant is bound", now);
            }
            Write::Nominate { pod, node: None } => {
                self.cancel_evictions(&pod.key.clone(), "its claimant gave up the claim", now);
            }
            _ => {}
        }
        let slot = write.slot();
        if let Some(pending) = self.pending.get_mut(&slot) {
            *pending.write = (*pending.write).clone().followed_by(write);
            pending.attempts = 0;
            self.note_event(&slot);
            return;
        }
        self.number += 1;
        let claimant = match &write {
            Write::Evict { claimant, .. } => claimant.clone(),
            _ => None,
        };
        let number = self.number;
        let rank = self.lane(slot.lane()).rank(&slot, number);
        let pending = Pending { write: Box::new(write), attempts: 0, rank, due: None, begun: None };
        self.pending.insert(slot.clone(), pending);
        self.note_event(&slot);
        if let Some(claimant) = claimant {
            self.for_claimants.entry(claimant.clone()).or_default().insert(slot.clone());
            let nomination = Slot::Nominate(claimant.clone());
            if self.pending.contains_key(&nomination) || self.sent.contains_key(&nomination) {
                self.parked.entry(claimant).or_default().push(slot);
                return;
            }
        }
        self.make_ready(slot);
    }

    /// A pod is gone: what was to be written for it is not, and nobody goes for it any more.
    pub fn forget(&mut self, pod: &PodKey, now: Tick) {
        let slots =
            [Slot::Bind, Slot::Nominate, Slot::Record, Slot::Label, Slot::Condition].map(|slot| slot(pod.clone()));
        slots.iter().for_each(|slot| self.withdraw(slot));
        self.cancel_evictions(pod, "its claimant is gone", now);
    }

    fn cancel_evictions(&mut self, claimant: &PodKey, why: &str, now: Tick) {
        self.parked.remove(claimant);
        for slot in self.for_claimants.remove(claimant).unwrap_or_default() {
            let Some(pending) = self.take_out(&slot) else { continue };
            if let Write::Evict { pod: PodRef { key, uid }, .. } = *pending.write {
                let failed = Failed::Decision(Fact::EvictFailed { pod: key, uid }.into());
                self.put_off.push(Feedback { at: now, failed, message: format!("the eviction is not needed: {why}") });
            }
        }
    }

    /// Keeps what waiting events take within its bound.
    fn note_event(&mut self, slot: &Slot) {
        let Some(Pending { write, rank, .. }) = self.pending.get(slot) else { return };
        let Write::Event(note) = &**write else { return };
        self.events.insert(rank.2, slot.clone(), events::size(note));
        while let Some(oldest) = self.events.excess() {
            self.take_out(&oldest);
            self.events_dropped += 1;
        }
    }

    /// Takes a write out that was not sent.
    fn take_out(&mut self, slot: &Slot) -> Option<Pending> {
        let pending = self.pending.remove(slot)?;
        let lane = self.lane(slot.lane());
        lane.ready.remove(&(pending.rank, slot.clone()));
        if let Some(due) = pending.due {
            lane.delayed.remove(&(due, slot.clone()));
        }
        lane.later.remove(slot);
        self.unlist(&pending);
        Some(pending)
    }

    /// Takes a write that is sent or taken out from what is kept at hand.
    fn unlist(&mut self, pending: &Pending) {
        if let Write::Event(_) = &*pending.write {
            self.events.remove(pending.rank.2, &pending.write.slot());
        }
        if let Write::Evict { claimant: Some(claimant), .. } = &*pending.write
            && let Some(slots) = self.for_claimants.get_mut(claimant)
        {
            slots.remove(&pending.write.slot());
            if slots.is_empty() {
                self.for_claimants.remove(claimant);
            }
        }
    }

    fn withdraw(&mut self, slot: &Slot) {
        if self.take_out(slot).is_some()
            && let Slot::Nominate(claimant) = slot
        {
            self.release(claimant);
        }
    }

    fn make_ready(&mut self, slot: Slot) {
        let Some(pending) = self.pending.get_mut(&slot) else { return };
        pending.due = None;
        let entry = (pending.rank, slot.clone());
        // One at a time for each slot: what is under way makes it ready when it is done.
        if !self.sent.contains_key(&slot) {
            self.lane(slot.lane()).ready.insert(entry);
        }
    }

    fn release(&mut self, claimant: &PodKey) {
        for slot in self.parked.remove(claimant).unwrap_or_default() {
            self.make_ready(slot);
        }
    }

    /// The next write to send; it is under way from now on.
    pub fn take(&mut self, lane: Lane, now: Tick) -> Option<Write> {
        while let Some((due, _)) = self.lane(lane).delayed.first()
            && *due <= now
        {
            let (_, slot) = self.lane(lane).delayed.pop_first()?;
            self.make_ready(slot);
        }
        let slot = self.lane(lane).pop()?;
        let pending = self.pending.remove(&slot)?;
        self.unlist(&pending);
        self.lane(lane).later.remove(&slot);
        self.lane(lane).under_way += 1;
        let write = (*pending.write).clone();
        self.sent.insert(slot, Pending { begun: pending.begun.or(Some(now)), ..pending });
        Some(write)
    }

    /// What is waited for may have come: what was put off because of it is due now.
    pub fn hurry(&mut self, now: Tick) {
        for lane in &mut self.lanes {
            for slot in std::mem::take(&mut lane.later) {
                let Some(due) = self.pending.get_mut(&slot).and_then(|pending| pending.due.as_mut()) else { continue };
                lane.delayed.remove(&(*due, slot.clone()));
                *due = now.min(*due);
                lane.delayed.insert((*due, slot));
            }
        }
    }

    /// When the next write that is put off is due.
    pub fn next_due(&self, lane: Lane) -> Option<Tick> {
        self.seen_lane(lane).delayed.first().map(|(due, _)| *due)
    }

    /// Takes in what came of a write. What did not happen is told in its time, by [`WriteQueue::feedback`].
    pub fn done(&mut self, slot: &Slot, outcome: Outcome, now: Tick) {
        let Some(sent) = self.sent.remove(slot) else { return };
        self.lane(slot.lane()).under_way -= 1;
        let is_replaced = self.pending.contains_key(slot);
        let attempts = sent.attempts + 1;
        let is_old = slot.lane() == Lane::Event && sent.begun.is_some_and(|begun| since(begun, now) > EVENT_TRIED_MAX);
        match outcome {
            Outcome::Done => {
                if let Slot::Bind(pod) | Slot::Evict(pod) = slot {
                    self.failures.remove(pod);
                }
            }
            Outcome::Refused(message) => self.give_up(*sent.write, message, now),
            Outcome::Failed(message) if slot.lane() == Lane::Place && attempts >= PLACE_ATTEMPTS_MAX => {
                self.give_up(*sent.write, message, now);
            }
            Outcome::Failed(_) if is_old => self.events_dropped += 1,
            Outcome::Later(_) if sent.begun.is_some_and(|begun| since(begun, now) > VOLUMES_WAIT_MAX) => {
                self.give_up(*sent.write, "its volumes did not come in time".to_string(), now);
            }
            Outcome::Failed(_) if !is_replaced => {
                return self.put_off(slot, Pending { attempts, ..sent }, later(now, pause(attempts)));
            }
            Outcome::Later(after) if !is_replaced => {
                self.lane(slot.lane()).later.insert(slot.clone());
                return self.put_off(slot, sent, later(now, after));
            }
            Outcome::Fenced if !is_replaced => return self.put_off(slot, sent, later(now, FENCED_PAUSE)),
            // What replaces it goes instead.
            Outcome::Failed(_) | Outcome::Later(_) | Outcome::Fenced => {}
        }
        self.make_ready(slot.clone());
        if let Slot::Nominate(claimant) = slot
            && !self.pending.contains_key(slot)
        {
            self.release(claimant);
        }
    }

    fn put_off(&mut self, slot: &Slot, pending: Pending, until: Tick) {
        if let Write::Evict { claimant: Some(claimant), .. } = &*pending.write {
            self.for_claimants.entry(claimant.clone()).or_default().insert(slot.clone());
        }
        self.pending.insert(slot.clone(), Pending { due: Some(until), ..pending });
        self.lane(slot.lane()).delayed.insert((until, slot.clone()));
        self.note_event(slot);
    }

    fn give_up(&mut self, write: Write, message: String, now: Tick) {
        self.failures.retain(|_, (_, at)| since(*at, now) < FAILURES_KEPT);
        match write {
            Write::Bind { pod: PodRef { key, uid }, .. } => {
                let at = later(now, self.count_failure(&key, now));
                let failed = Failed::Decision(Fact::BindFailed { pod: key, uid }.into());
                self.put_off.push(Feedback { at, failed, message });
            }
            Write::Evict { pod: PodRef { key, uid }, .. } => {
                let at = later(now, self.count_failure(&key, now));
                let failed = Failed::Decision(Fact::EvictFailed { pod: key, uid }.into());
                self.put_off.push(Feedback { at, failed, message });
            }
            Write::Nominate { pod, .. } => {
                // Without it the room would be anybody's after a restart: nobody is evicted for it.
                let parked = self.parked.remove(&pod.key).unwrap_or_default();
                let evictions = parked.iter().filter_map(|slot| self.take_out(slot)).collect::<Vec<_>>();
                evictions.into_iter().for_each(|eviction| self.give_up(*eviction.write, message.clone(), now));
            }
            Write::Amend(_)
            | Write::Make { .. }
            | Write::MakeWithKeys { .. }
            | Write::Renew { .. }
            | Write::Delete { .. } => {
                self.put_off.push(Feedback { at: now, failed: Failed::Asked(write.slot()), message });
            }
            Write::Record { .. }
            | Write::Label { .. }
            | Write::Condition { .. }
            | Write::Event(_)
            | Write::Admit { .. }
            | Write::Deallocate { .. } => {}
        }
    }

    /// How long to keep a failure of a pod to ourselves.
    fn count_failure(&mut self, pod: &PodKey, now: Tick) -> Duration {
        let (count, at) = self.failures.entry(pod.clone()).or_insert((0, now));
        *count += 1;
        *at = now;
        pause(*count)
    }
}

/// The moment so long after another.
fn later(now: Tick, pause: Duration) -> Tick {
    Tick(now.0.saturating_add(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)))
}

/// How long it is from one moment to another.
fn since(from: Tick, to: Tick) -> Duration {
    Duration::from_millis(to.0.saturating_sub(from.0))
}

/// The pause before something is tried for the n-th time again.
fn pause(n: u32) -> Duration {
    (Duration::from_millis(100) * 2u32.pow(n.saturating_sub(1).min(10))).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests;
