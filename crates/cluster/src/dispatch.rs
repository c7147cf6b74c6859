//! Sends what is to be written: not more at once than the server takes well, the most important first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::stream::{FuturesUnordered, StreamExt};
use quotient_engine::Tick;
use quotient_engine::fact::{Name, PodKey};
use quotient_host::carry_out;
use quotient_host::queue::{Feedback, Outcome, WriteQueue};
use quotient_host::write::{LANES, Lane, PodRef, Slot, Waited, Write};
use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;

use crate::bulk::BulkHandle;
use crate::call::{CallError, Http};
use crate::clock::wall_us;
use crate::connect::Clients;
use crate::lease::Fence;
use crate::limit::Limit;
use crate::lines::Lines;
use crate::metrics::Metrics;

/// How many writes of a lane are under way at once: at first, and at most. HTTP/1.1 has a connection for each; with
/// 20 ms for an answer, 96 of them are some five thousand binds a second, which is more than an API server does. Of the
/// 600 requests that it has under way at most, by default, less than half may be those of pods' accounts.
fn concurrent(lane: Lane) -> (u32, u32) {
    match lane {
        Lane::Place => (16, 96),
        Lane::Make => (8, 32),
        Lane::Status => (8, 16),
        Lane::Event => (16, 64),
    }
}

/// More binds and evictions than this that wait for their turn or are under way are a rush.
const RUSH: usize = 4;

/// With more than this that wait for their turn there is enough to send for some milliseconds.
const AHEAD: usize = 32;

/// In a rush no more creations and deletions of controllers than this are under way.
const MAKES_IN_A_RUSH: usize = 8;

/// In a rush a status has one request for so many answers to binds and evictions: each takes its time from the server.
const ANSWERS_FOR_STATUS: u32 = 256;

/// What was answered is saved up for this many at most.
const ANSWERS_SAVED_MAX: u32 = 4 * ANSWERS_FOR_STATUS;

/// With more events than the first number one is sent for so many answers: few come late in a short rush, and in a long
/// one there are no more of them than there were.
const ANSWERS_FOR_EVENT: [(usize, u32); 3] = [(32_768, 1), (8192, 4), (0, 256)];

/// How long the thread rests before it takes in the next answers, while there is enough to send: where decisions wait,
/// and where only events and statuses do, which a decision may come to in the meantime.
const REST_PLACING: Duration = Duration::from_millis(8);
const REST_TELLING: Duration = Duration::from_millis(4);

/// One is sent after so long whatever they answered: a server that answers none of them may do the other.
const ONE_AT_LEAST_EVERY: Duration = Duration::from_millis(100);

/// The engine is not asked for decisions while more than this wait to be sent: what it would decide on top could not be
/// done soon, and would be decided better later. It is what an API server answers in about a second.
pub const BACKLOG_MAX: usize = 1024;

/// The most reports that wait to be read. Nothing more is sent while so many do: what is under way adds 208 at most.
/// They are read after every cycle, so that they are few unless one takes long.
pub const REPORTS_MAX: usize = 1024;

/// What the dispatcher has to say.
#[derive(Debug)]
pub enum Report {
    /// Something that was decided did not happen.
    Failed(Box<Feedback>),
    /// A pod was bound.
    Bound { pod: PodRef, node: Name, waited: Option<Waited> },
}

/// What both ends share. The queue is bounded by what there is to write about, see [`WriteQueue`].
#[derive(Debug)]
struct Shared {
    /// The queue counts time from here.
    begun: Instant,
    desk: Mutex<Desk>,
    /// Something was put on the desk.
    news: Notify,
}

#[derive(Debug, Default)]
struct Desk {
    queue: WriteQueue,
    /// What is to be reported and was not yet.
    unreported: VecDeque<Report>,
    /// The other end is gone: nothing is left to do.
    is_closed: bool,
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A moment as the queue counts time.
    fn tick(&self, now: Instant) -> Tick {
        Tick(u64::try_from(now.saturating_duration_since(self.begun).as_millis()).unwrap_or(u64::MAX))
    }
}

/// The end of the dispatcher that writes are given to.
#[derive(Debug)]
pub struct Dispatcher(Arc<Shared>);

impl Dispatcher {
    /// Hands something over to be written.
    pub fn push(&self, write: Write) {
        let now = self.0.tick(Instant::now());
        self.0.desk().queue.push(write, now);
        self.0.news.notify_one();
    }

    /// A pod is gone: what was to be written for it is not, and nobody is evicted for it.
    pub fn forget(&self, pod: PodKey) {
        let now = self.0.tick(Instant::now());
        self.0.desk().queue.forget(&pod, now);
        self.0.news.notify_one();
    }

    /// Whether everything that was handed over so far was written and answered, or given up and reported.
    pub fn is_idle(&self) -> bool {
        let desk = self.0.desk();
        let waiting: usize = LANES.into_iter().map(|lane| desk.queue.backlog(lane)).sum();
        waiting == 0 && desk.queue.next_feedback().is_none() && desk.unreported.is_empty()
    }

    /// Whether so many binds and evictions wait that no more should be decided. Statuses and events do not count.
    pub fn is_full(&self) -> bool {
        self.placing() > BACKLOG_MAX
    }

    /// Whether more binds and evictions wait for their turn than are answered in a moment.
    pub fn is_ahead(&self) -> bool {
        is_ahead(&self.0.desk().queue)
    }

    /// Whether no bind, eviction or nomination is under way or waits for its turn.
    pub fn is_placed(&self) -> bool {
        self.placing() == 0
    }

    fn placing(&self) -> usize {
        let desk = self.0.desk();
        desk.queue.ready(Lane::Place) + desk.queue.under_way(Lane::Place)
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.0.desk().is_closed = true;
        self.0.news.notify_one();
    }
}

/// A dispatcher, and the task that does its work until the other end is dropped. In `shadow` nothing is written.
pub fn dispatcher(
    clients: &Clients,
    fence: Fence,
    metrics: Metrics,
    reports: Sender<Report>,
) -> (Dispatcher, impl Future<Output = ()> + Send + use<>) {
    let shared = Arc::new(Shared { begun: Instant::now(), desk: Mutex::default(), news: Notify::new() });
    let http = |lines: &Lines| Arc::new(Http { lines: lines.clone(), fence: fence.clone(), metrics: metrics.clone() });
    let task = Task {
        shared: shared.clone(),
        place: http(&clients.place),
        tell: http(&clients.tell),
        bulk: clients.bulk.clone(),
        limits: LANES.map(|lane| Limit::new(concurrent(lane).0, concurrent(lane).1)),
        rush: Default::default(),
        events_dropped: 0,
        metrics,
        reports,
    };
    (Dispatcher(shared), task.run())
}

struct Task {
    shared: Arc<Shared>,
    place: Arc<Http>,
    tell: Arc<Http>,
    bulk: BulkHandle,
    metrics: Metrics,
    limits: [Limit; LANES.len()],
    /// What statuses and events may take while decisions are on their way.
    rush: [Rush; LANES.len()],
    /// How many events were dropped, as far as it was counted.
    events_dropped: u64,
    reports: Sender<Report>,
}

/// How much of a lane may be sent while many binds and evictions are on their way.
#[derive(Debug, Default)]
struct Rush {
    /// Answers to binds and evictions that nothing was sent for.
    answers: u32,
    sent_at: Option<Instant>,
}

impl Rush {
    /// A bind or an eviction was answered.
    fn answered(&mut self) {
        self.answers = (self.answers + 1).min(ANSWERS_SAVED_MAX);
    }

    /// How many more may be sent now, at one for so many answers.
    fn allowed(&self, now: Instant, answers_for: u32) -> usize {
        let is_due = self.sent_at.is_none_or(|at| now.duration_since(at) >= ONE_AT_LEAST_EVERY);
        (self.answers / answers_for).max(u32::from(is_due)) as usize
    }

    /// When the next one may be sent, whatever is answered.
    fn due(&self) -> Option<Instant> {
        self.sent_at.map(|at| at + ONE_AT_LEAST_EVERY)
    }

    /// So many were sent.
    fn sent(&mut self, count: usize, now: Instant, answers_for: u32) {
        if count > 0 {
            self.answers = self.answers.saturating_sub(answers_for.saturating_mul(count as u32));
            self.sent_at = Some(now);
        }
    }
}

/// For how many answers to binds and evictions one write of a lane is sent, if that limits it.
fn answers_for(lane: Lane, queue: &WriteQueue) -> Option<u32> {
    match lane {
        Lane::Place | Lane::Make => None,
        Lane::Status => Some(ANSWERS_FOR_STATUS),
        Lane::Event => {
            let backlog = queue.backlog(Lane::Event);
            ANSWERS_FOR_EVENT.iter().find(|(more_than, _)| backlog >= *more_than).map(|(_, answers)| *answers)
        }
    }
}

/// What came of a write that was sent.
struct Answer {
    slot: Slot,
    write: Write,
    outcome: Outcome,
    error: Option<CallError>,
}

/// What the task has to do.
struct Next {
    /// To be sent now.
    writes: Vec<(Lane, Write)>,
    /// When something is due next, by time alone.
    wake: Option<Instant>,
    /// Whether something waits to be reported.
    has_reports: bool,
}

impl Task {
    async fn run(mut self) {
        let mut under_way = FuturesUnordered::new();
        let (shared, reports) = (self.shared.clone(), self.reports.clone());
        loop {
            let now = Instant::now();
            let Some(Next { writes, wake, has_reports }) = self.next(now) else { return };
            under_way.extend(writes.into_iter().map(|(lane, write)| self.send(lane, write)));
            tokio::select! {
                () = shared.news.notified() => {}
                Some(answer) = under_way.next(), if !under_way.is_empty() => {
                    self.answered(answer);
                    // The next ones are sent when all that were answered are taken in.
                    while let Some(Some(answer)) = futures::FutureExt::now_or_never(under_way.next()) {
                        self.answered(answer);
                    }
                }
                // There is place for a report: it is sent above.
                permit = reports.reserve(), if has_reports => match permit {
                    Ok(permit) => drop(permit),
                    Err(_) => return,
                },
                () = sleep_until(wake) => {}
            }
        }
    }

    /// What there is to do. `None`: the other end is gone.
    fn next(&mut self, now: Instant) -> Option<Next> {
        let shared = self.shared.clone();
        let (tick, mut desk) = (shared.tick(now), shared.desk());
        let Desk { queue, unreported, is_closed } = &mut *desk;
        if *is_closed {
            return None;
        }
        while unreported.len() < REPORTS_MAX
            && let Some(feedback) = queue.feedback(tick)
        {
            unreported.push_back(Report::Failed(Box::new(feedback)));
        }
        while !unreported.is_empty()
            && let Ok(permit) = self.reports.try_reserve()
            && let Some(report) = unreported.pop_front()
        {
            permit.send(report);
        }
        let mut writes = Vec::new();
        for lane in LANES.into_iter().filter(|_| unreported.len() < REPORTS_MAX) {
            let (allowed, before) = (self.allowed(lane, queue, now), writes.len());
            let answers_for = answers_for(lane, queue);
            while queue.under_way(lane) < allowed
                && let Some(write) = queue.take(lane, tick)
            {
                writes.push((lane, write));
            }
            if let Some(answers_for) = answers_for {
                self.rush[lane as usize].sent(writes.len() - before, now, answers_for);
            }
        }
        self.bulk.rest(rest(queue));
        self.metrics.set_backlog(LANES.map(|lane| (lane, queue.backlog(lane))));
        let dropped = queue.events_dropped();
        self.metrics.count_events_dropped(dropped - std::mem::replace(&mut self.events_dropped, dropped));
        Some(Next { writes, wake: self.next_wake(queue, now), has_reports: !unreported.is_empty() })
    }

    fn send(&self, lane: Lane, write: Write) -> impl Future<Output = Answer> + Send + use<> {
        let http = match lane {
            Lane::Place => Arc::clone(&self.place),
            Lane::Make | Lane::Status | Lane::Event => Arc::clone(&self.tell),
        };
        async move {
            let begun = Instant::now();
            let (outcome, error) = carry_out(&*http, &write, wall_us()).await;
            let slot = write.slot();
            http.metrics.write_took(&slot, begun.elapsed());
            Answer { slot, write, outcome, error }
        }
    }

    fn allowed(&self, lane: Lane, queue: &WriteQueue, now: Instant) -> usize {
        let allowed = self.limits[lane as usize].allowed(now);
        match (lane, answers_for(lane, queue)) {
            _ if !is_rush(queue) => allowed,
            (Lane::Make, _) => allowed.min(MAKES_IN_A_RUSH),
            (_, None) => allowed,
            (_, Some(answers)) => allowed.min(queue.under_way(lane) + self.rush[lane as usize].allowed(now, answers)),
        }
    }

    /// When something is due next, by time alone.
    fn next_wake(&self, queue: &WriteQueue, now: Instant) -> Option<Instant> {
        let lanes = LANES.into_iter().filter_map(|lane| queue.next_due(lane));
        let begun = self.shared.begun;
        let due = lanes.chain(queue.next_feedback()).min().map(|tick| begun + Duration::from_millis(tick.0));
        let paused = self.limits.iter().filter_map(|limit| limit.paused_until(now));
        let waits = |lane: &Lane| is_rush(queue) && queue.ready(*lane) > 0;
        let slowed = [Lane::Status, Lane::Event].into_iter().filter(waits);
        let slowed = slowed.filter_map(|lane| self.rush[lane as usize].due());
        due.into_iter().chain(paused).chain(slowed).min()
    }

    fn answered(&mut self, answer: Answer) {
        let Answer { slot, write, outcome, error } = answer;
        let now = Instant::now();
        if slot.lane() == Lane::Place {
            self.rush.iter_mut().for_each(Rush::answered);
        }
        self.limits[slot.lane() as usize].learn(now, error.as_ref());
        self.metrics.count_write(&slot, &outcome, error.as_ref());
        match (&outcome, error) {
            (Outcome::Refused(message), _) => tracing::warn!(?slot, "was refused: {message}"),
            (Outcome::Failed(message), _) => tracing::warn!(?slot, "failed and is tried again: {message}"),
            (_, Some(error)) => tracing::debug!(?slot, %error),
            _ => {}
        }
        let mut desk = self.shared.desk();
        if let (Outcome::Done, Write::Bind { pod, node, waited, .. }) = (&outcome, write) {
            desk.unreported.push_back(Report::Bound { pod, node, waited });
        }
        desk.queue.done(&slot, outcome, self.shared.tick(now));
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.bulk.rest(Duration::ZERO);
    }
}

/// Whether more binds and evictions wait for their turn than are answered in a moment.
fn is_ahead(queue: &WriteQueue) -> bool {
    queue.ready(Lane::Place) > AHEAD
}

/// How long the thread may rest before it takes in the next answers.
fn rest(queue: &WriteQueue) -> Duration {
    match LANES.into_iter().any(|lane| queue.ready(lane) > AHEAD && queue.under_way(lane) > 0) {
        _ if is_ahead(queue) => REST_PLACING,
        true => REST_TELLING,
        false => Duration::ZERO,
    }
}

/// Whether many binds and evictions are on their way.
fn is_rush(queue: &WriteQueue) -> bool {
    queue.ready(Lane::Place) + queue.under_way(Lane::Place) > RUSH
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_rush_one_is_sent_for_some_answers_and_one_after_a_while_without_any() {
        let (mut rush, begun, each) = (Rush::default(), Instant::now(), ANSWERS_FOR_STATUS);
        assert_eq!(rush.allowed(begun, each), 1, "none was sent yet");
        rush.sent(1, begun, each);
        assert_eq!(rush.allowed(begun, each), 0);
        (0..each * 2).for_each(|_| rush.answered());
        assert_eq!(rush.allowed(begun, each), 2);
        rush.sent(2, begun, each);
        assert_eq!(rush.allowed(begun, each), 0);
        assert_eq!(rush.allowed(begun + ONE_AT_LEAST_EVERY, each), 1, "nothing is answered");
        (0..each * 10).for_each(|_| rush.answered());
        assert_eq!(rush.allowed(begun, each), 4, "what was not used is not saved up without end");
    }

    #[test]
    fn many_events_go_as_fast_as_binds_and_few_wait() {
        let mut queue = WriteQueue::default();
        assert_eq!(answers_for(Lane::Event, &queue), Some(256));
        let mut pushed = 0;
        for (count, expected) in [(8191, 256), (8192, 4), (32_768, 1)] {
            for index in pushed..count {
                queue.push(event(index), Tick(0));
            }
            pushed = count;
            assert_eq!(answers_for(Lane::Event, &queue), Some(expected), "{count}");
        }
        assert_eq!(answers_for(Lane::Place, &queue), None);
    }

    fn event(index: usize) -> Write {
        Write::Event(quotient_host::event::EventNote {
            about: quotient_api::ObjectKey::pod("a", &format!("p-{index}")),
            uid: "1".into(),
            is_warning: false,
            reason: "Scheduled",
            message: String::new(),
            count: 1,
            first_us: 0,
            last_us: 0,
        })
    }
}
