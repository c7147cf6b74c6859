//! Writes that wait for their turn.
//!
//! One slot of one object has one write at most: a later one replaces an earlier one that was not sent. So the queue
//! is bounded by what there is: no more than one bind, eviction, nomination, label and condition for each pod, one
//! status for each quota, and as many events as there are objects to speak of. The engine is not asked for more
//! decisions while [`WriteQueue::backlog`] is long.
//!
//! An eviction is not sent before the nomination of the pod it makes room for was written: it is by the nomination that
//! a scheduler that starts anew knows whose the room is.
//!
//! ```text
//!            push                 take                  done
//!   (none) ───────▶ ready ─────────────▶ under way ──────────────▶ (none), or the fact that it failed
//!                     ▲                     │ failed, later
//!                     └────── delayed ◀─────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quotient_engine::fact::PodKey;
use quotient_engine::{Fact, Tick};

use crate::write::{Lane, PodRef, Slot, Write};

/// How often a bind or an eviction is tried before the engine is told that it did not happen. Together the tries take
/// some seconds, in which the engine keeps the room.
const PLACE_ATTEMPTS_MAX: u32 = 6;

/// For how long a bind may wait for the volumes of its pod, as kube-scheduler does.
const VOLUMES_WAIT_MAX: Duration = Duration::from_secs(600);

/// The longest pause before something is tried again.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How soon it is looked again whether the lease was renewed.
const FENCED_PAUSE: Duration = Duration::from_millis(100);

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
    write: Write,
    attempts: u32,
    number: u64,
    begun: Option<Tick>,
}

#[derive(Debug, Clone, Default)]
struct LaneState {
    /// By priority, then in the order of their coming.
    ready: BTreeSet<(u8, u64, Slot)>,
    delayed: BTreeSet<(Tick, Slot)>,
    /// Those of the delayed that wait for something that is under way.
    later: BTreeSet<Slot>,
    under_way: usize,
}

/// Writes by slot.
#[derive(Debug, Clone, Default)]
pub struct WriteQueue {
    pending: BTreeMap<Slot, Pending>,
    /// What was sent and not answered yet.
    sent: BTreeMap<Slot, Pending>,
    place: LaneState,
    tell: LaneState,
    /// Evictions that wait for the nomination of their claimant.
    parked: BTreeMap<PodKey, Vec<Slot>>,
    failures: BTreeMap<PodKey, (u32, Tick)>,
    number: u64,
}

impl WriteQueue {
    fn lane(&mut self, lane: Lane) -> &mut LaneState {
        match lane {
            Lane::Place => &mut self.place,
            Lane::Tell => &mut self.tell,
        }
    }

    /// How many writes of a lane wait or are under way.
    pub fn backlog(&self, lane: Lane) -> usize {
        let parked: usize = self.parked.values().map(Vec::len).sum();
        match lane {
            Lane::Place => self.place.ready.len() + self.place.delayed.len() + self.place.under_way + parked,
            Lane::Tell => self.tell.ready.len() + self.tell.delayed.len() + self.tell.under_way,
        }
    }

    /// How many writes of a lane are under way.
    pub fn under_way(&self, lane: Lane) -> usize {
        match lane {
            Lane::Place => self.place.under_way,
            Lane::Tell => self.tell.under_way,
        }
    }

    /// Takes in something to be written.
    pub fn push(&mut self, write: Write) {
        if let Write::Bind { pod, .. } = &write {
            // Why it waited is history, and so is what was to be kept for it.
            self.withdraw(&Slot::Condition(pod.key.clone()));
            self.withdraw(&Slot::Nominate(pod.key.clone()));
        }
        let slot = write.slot();
        if let Some(pending) = self.pending.get_mut(&slot) {
            pending.write = pending.write.clone().followed_by(write);
            pending.attempts = 0;
            return;
        }
        self.number += 1;
        let claimant = match &write {
            Write::Evict { claimant, .. } => claimant.clone(),
            _ => None,
        };
        self.pending.insert(slot.clone(), Pending { write, attempts: 0, number: self.number, begun: None });
        if let Some(claimant) = claimant {
            let nomination = Slot::Nominate(claimant.clone());
            if self.pending.contains_key(&nomination) || self.sent.contains_key(&nomination) {
                self.parked.entry(claimant).or_default().push(slot);
                return;
            }
        }
        self.make_ready(slot);
    }

    fn withdraw(&mut self, slot: &Slot) {
        let Some(pending) = self.pending.remove(slot) else { return };
        let lane = self.lane(slot.lane());
        lane.ready.remove(&(slot.priority(), pending.number, slot.clone()));
        lane.delayed.retain(|(_, delayed)| delayed != slot);
        if let Slot::Nominate(claimant) = slot {
            self.release(claimant);
        }
    }

    fn make_ready(&mut self, slot: Slot) {
        let Some(pending) = self.pending.get(&slot) else { return };
        let entry = (slot.priority(), pending.number, slot.clone());
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
        let (_, _, slot) = self.lane(lane).ready.pop_first()?;
        let pending = self.pending.remove(&slot)?;
        self.lane(lane).later.remove(&slot);
        self.lane(lane).under_way += 1;
        let write = pending.write.clone();
        self.sent.insert(slot, Pending { begun: pending.begun.or(Some(now)), ..pending });
        Some(write)
    }

    /// What is waited for may have come: what was put off because of it is due now.
    pub fn hurry(&mut self, now: Tick) {
        for lane in [&mut self.place, &mut self.tell] {
            let waiting = std::mem::take(&mut lane.later);
            let due = lane.delayed.extract_if(.., |(_, slot)| waiting.contains(slot));
            let due: Vec<(Tick, Slot)> = due.map(|(at, slot)| (at.min(now), slot)).collect();
            lane.delayed.extend(due);
        }
    }

    /// When the next write that is put off is due.
    pub fn next_due(&self, lane: Lane) -> Option<Tick> {
        let lane = match lane {
            Lane::Place => &self.place,
            Lane::Tell => &self.tell,
        };
        lane.delayed.first().map(|(due, _)| *due)
    }

    /// Takes in what came of a write, and gives what the engine has to be told.
    pub fn done(&mut self, slot: &Slot, outcome: Outcome, now: Tick) -> Vec<Feedback> {
        let Some(sent) = self.sent.remove(slot) else { return Vec::new() };
        self.lane(slot.lane()).under_way -= 1;
        let is_replaced = self.pending.contains_key(slot);
        let mut feedback = Vec::new();
        match outcome {
            Outcome::Done => {
                if let Slot::Bind(pod) | Slot::Evict(pod) = slot {
                    self.failures.remove(pod);
                }
            }
            Outcome::Refused(message) => feedback.extend(self.give_up(sent.write, message, now)),
            Outcome::Failed(message) if slot.lane() == Lane::Place && sent.attempts + 1 >= PLACE_ATTEMPTS_MAX => {
                feedback.extend(self.give_up(sent.write, message, now));
            }
            Outcome::Later(_) if sent.begun.is_some_and(|begun| since(begun, now) > VOLUMES_WAIT_MAX) => {
                feedback.extend(self.give_up(sent.write, "its volumes did not come in time".to_string(), now));
            }
            Outcome::Failed(_) if !is_replaced => {
                let attempts = sent.attempts + 1;
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
        feedback
    }

    fn put_off(&mut self, slot: &Slot, pending: Pending, until: Tick) -> Vec<Feedback> {
        self.pending.insert(slot.clone(), pending);
        self.lane(slot.lane()).delayed.insert((until, slot.clone()));
        Vec::new()
    }

    fn give_up(&mut self, write: Write, message: String, now: Tick) -> Vec<Feedback> {
        self.failures.retain(|_, (_, at)| since(*at, now) < FAILURES_KEPT);
        match write {
            Write::Bind { pod: PodRef { key, uid }, .. } => {
                let at = later(now, self.count_failure(&key, now));
                vec![Feedback { at, failed: Failed::Decision(Fact::BindFailed { pod: key, uid }.into()), message }]
            }
            Write::Evict { pod: PodRef { key, uid }, .. } => {
                let at = later(now, self.count_failure(&key, now));
                vec![Feedback { at, failed: Failed::Decision(Fact::EvictFailed { pod: key, uid }.into()), message }]
            }
            Write::Nominate { pod, .. } => {
                // Without it the room would be anybody's after a restart: nobody is evicted for it.
                let parked = self.parked.remove(&pod.key).unwrap_or_default();
                let evictions = parked.into_iter().filter_map(|slot| self.pending.remove(&slot)).collect::<Vec<_>>();
                evictions.into_iter().flat_map(|eviction| self.give_up(eviction.write, message.clone(), now)).collect()
            }
            Write::Amend(_) | Write::Make { .. } | Write::Delete { .. } => {
                vec![Feedback { at: now, failed: Failed::Asked(write.slot()), message }]
            }
            Write::Label { .. } | Write::Condition { .. } | Write::Event(_) | Write::Admit { .. } => Vec::new(),
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
mod tests {
    use super::*;

    fn pod(name: &str) -> PodRef {
        PodRef { key: PodKey { namespace: "a".into(), name: name.into() }, uid: "1".into() }
    }

    fn bind(name: &str, node: &str) -> Write {
        Write::Bind { pod: pod(name), node: node.into(), claims: Vec::new(), created_us: None }
    }

    fn nominate(name: &str) -> Write {
        Write::Nominate { pod: pod(name), node: Some("n".into()) }
    }

    fn evict(name: &str, claimant: &str) -> Write {
        Write::Evict { pod: pod(name), claimant: Some(pod(claimant).key), message: String::new() }
    }

    fn condition(name: &str, message: &str) -> Write {
        let message = message.to_string();
        Write::Condition { pod: pod(name), reason: "Unschedulable", message, since: None }
    }

    #[test]
    fn a_later_write_replaces_an_earlier_one_and_a_bind_ends_the_waiting() {
        let (mut queue, now) = (WriteQueue::default(), Tick(0));
        queue.push(condition("p", "no room"));
        queue.push(condition("p", "no quota"));
        assert_eq!(queue.take(Lane::Tell, now), Some(condition("p", "no quota")));
        assert_eq!(queue.take(Lane::Tell, now), None);
        queue.push(condition("p", "no node"));
        assert_eq!(queue.take(Lane::Tell, now), None, "one at a time for each slot");
        queue.done(&Slot::Condition(pod("p").key), Outcome::Done, now);
        queue.push(bind("p", "n"));
        assert_eq!(queue.take(Lane::Tell, now), None, "a pod that is bound waits no longer");
        assert_eq!(queue.take(Lane::Place, now), Some(bind("p", "n")));
    }

    #[test]
    fn what_is_fenced_is_not_forgotten() {
        let (mut queue, now) = (WriteQueue::default(), Tick(0));
        queue.push(nominate("c"));
        queue.push(evict("v", "c"));
        assert_eq!(queue.take(Lane::Place, now), Some(nominate("c")));
        assert_eq!(queue.done(&Slot::Nominate(pod("c").key), Outcome::Fenced, now), []);
        assert_eq!(queue.take(Lane::Place, now), None, "neither is sent");
        let later = later(now, FENCED_PAUSE);
        assert_eq!(queue.take(Lane::Place, later), Some(nominate("c")));
        assert_eq!(queue.done(&Slot::Nominate(pod("c").key), Outcome::Done, later), []);
        for _ in 0..2 * PLACE_ATTEMPTS_MAX {
            let later = queue.next_due(Lane::Place).unwrap_or(later);
            assert_eq!(queue.take(Lane::Place, later), Some(evict("v", "c")));
            assert_eq!(queue.done(&Slot::Evict(pod("v").key), Outcome::Fenced, later), []);
        }
        assert_eq!(queue.backlog(Lane::Place), 1);
    }

    #[test]
    fn an_eviction_waits_for_the_nomination_of_its_claimant() {
        let (mut queue, now) = (WriteQueue::default(), Tick(0));
        queue.push(nominate("c"));
        queue.push(evict("v", "c"));
        queue.push(evict("w", "d"));
        assert_eq!(queue.backlog(Lane::Place), 3);
        assert_eq!(queue.take(Lane::Place, now), Some(nominate("c")));
        assert_eq!(queue.take(Lane::Place, now), Some(evict("w", "d")), "it waits for nobody");
        assert_eq!(queue.take(Lane::Place, now), None);
        assert_eq!(queue.done(&Slot::Nominate(pod("c").key), Outcome::Done, now), []);
        assert_eq!(queue.take(Lane::Place, now), Some(evict("v", "c")));
    }

    #[test]
    fn nobody_is_evicted_for_a_claim_that_cannot_be_written() {
        let (mut queue, now) = (WriteQueue::default(), Tick(0));
        queue.push(nominate("c"));
        queue.push(evict("v", "c"));
        queue.take(Lane::Place, now);
        let told = queue.done(&Slot::Nominate(pod("c").key), Outcome::Refused("gone".to_string()), now);
        let failed: Vec<Failed> = told.into_iter().map(|feedback| feedback.failed).collect();
        assert_eq!(failed, [Failed::Decision(Fact::EvictFailed { pod: pod("v").key, uid: "1".into() }.into())]);
        assert_eq!(queue.take(Lane::Place, now), None);
        assert_eq!(queue.backlog(Lane::Place), 0);
    }

    #[test]
    fn what_fails_is_tried_again_after_longer_and_longer_and_then_told() {
        let (mut queue, mut now) = (WriteQueue::default(), Tick(0));
        queue.push(bind("p", "n"));
        let slot = Slot::Bind(pod("p").key);
        for attempt in 1..PLACE_ATTEMPTS_MAX {
            assert!(queue.take(Lane::Place, now).is_some(), "attempt {attempt}");
            assert_eq!(queue.done(&slot, Outcome::Failed("busy".to_string()), now), []);
            assert_eq!(queue.take(Lane::Place, now), None, "not at once");
            now = queue.next_due(Lane::Place).expect("it is put off");
        }
        assert!(queue.take(Lane::Place, now).is_some());
        let told = queue.done(&slot, Outcome::Failed("busy".to_string()), now);
        assert_eq!(told.len(), 1);
        assert!(told[0].at > now, "the engine would decide the same at once");
        let mut refused = |now: Tick| {
            queue.push(bind("p", "n"));
            queue.take(Lane::Place, now);
            queue.done(&slot, Outcome::Refused("no".to_string()), now)[0].at.0 - now.0
        };
        assert!(refused(now) < refused(now), "each time later");
    }

    #[test]
    fn what_tells_is_tried_until_it_is_replaced() {
        let (mut queue, mut now) = (WriteQueue::default(), Tick(0));
        queue.push(condition("p", "no room"));
        let slot = Slot::Condition(pod("p").key);
        for _ in 0..50 {
            assert!(queue.take(Lane::Tell, now).is_some());
            queue.done(&slot, Outcome::Failed("busy".to_string()), now);
            now = queue.next_due(Lane::Tell).expect("it is put off");
        }
        queue.take(Lane::Tell, now);
        queue.push(condition("p", "no quota"));
        queue.done(&slot, Outcome::Failed("busy".to_string()), now);
        assert_eq!(queue.take(Lane::Tell, now), Some(condition("p", "no quota")));
        queue.done(&slot, Outcome::Done, now);
        assert_eq!(queue.backlog(Lane::Tell), 0);
    }

    #[test]
    fn a_bind_does_not_wait_for_volumes_for_ever() {
        let (mut queue, mut now) = (WriteQueue::default(), Tick(0));
        let slot = Slot::Bind(pod("p").key);
        queue.push(bind("p", "n"));
        let mut asked = 0;
        loop {
            queue.take(Lane::Place, now).expect("it is tried");
            let told = queue.done(&slot, Outcome::Later(Duration::from_secs(60)), now);
            asked += 1;
            if !told.is_empty() {
                break;
            }
            now = queue.next_due(Lane::Place).expect("it is put off");
        }
        assert_eq!(asked, 12);
    }
}
