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

use crate::call::{CallError, Http};
use crate::clock::wall_us;
use crate::connect::Clients;
use crate::lease::Fence;
use crate::limit::Limit;
use crate::lines::Lines;
use crate::metrics::Metrics;

/// How many writes of each lane are under way at once: at first, and at most. HTTP/1.1 has a connection for each; with
/// 20 ms for an answer, 96 of them are some five thousand binds a second, which is more than an API server does. Of the
/// 600 requests that it has under way at most, by default, less than half may be those of pods' accounts.
const PLACE_CONCURRENT: (u32, u32) = (16, 96);
const TELL_CONCURRENT: (u32, u32) = (8, 16);

/// More binds and evictions than this that wait for their turn or are under way are a rush.
const RUSH: usize = 4;

/// With more than this that wait for their turn there is enough to send for some milliseconds.
const AHEAD: usize = 32;

/// In a rush, what only tells of things has one request for so many answers to binds and evictions: each takes its time
/// from the server.
const ANSWERS_FOR_TELL: u32 = 256;

/// What they answered is saved up for this many at most.
const TELLS_SAVED_MAX: u32 = 4;

/// One is sent after so long whatever they answered: a server that answers none of them may do the other.
const TELL_AT_LEAST_EVERY: Duration = Duration::from_millis(100);

/// The engine is not asked for decisions while more than this wait to be sent: what it would decide on top could not be
/// done soon, and would be decided better later. It is what an API server answers in about a second.
pub const BACKLOG_MAX: usize = 1024;

/// The most reports that wait to be read. Nothing more is sent while so many do: what is under way adds 112 at most.
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
        place_limit: Limit::new(PLACE_CONCURRENT.0, PLACE_CONCURRENT.1),
        tell_limit: Limit::new(TELL_CONCURRENT.0, TELL_CONCURRENT.1),
        rush: Rush::default(),
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
    metrics: Metrics,
    place_limit: Limit,
    tell_limit: Limit,
    rush: Rush,
    /// How many events were dropped, as far as it was counted.
    events_dropped: u64,
    reports: Sender<Report>,
}

/// How much may be told of things while many binds and evictions are on their way.
#[derive(Debug, Default)]
struct Rush {
    /// Answers to binds and evictions that nothing was told for.
    answers: u32,
    told_at: Option<Instant>,
}

impl Rush {
    /// A bind or an eviction was answered.
    fn answered(&mut self) {
        self.answers = (self.answers + 1).min(ANSWERS_FOR_TELL * TELLS_SAVED_MAX);
    }

    /// How many more may be sent now.
    fn allowed(&self, now: Instant) -> usize {
        let is_due = self.told_at.is_none_or(|at| now.duration_since(at) >= TELL_AT_LEAST_EVERY);
        (self.answers / ANSWERS_FOR_TELL).max(u32::from(is_due)) as usize
    }

    /// When the next one may be sent, whatever is answered.
    fn due(&self) -> Option<Instant> {
        self.told_at.map(|at| at + TELL_AT_LEAST_EVERY)
    }

    /// So many were sent.
    fn told(&mut self, count: usize, now: Instant) {
        if count > 0 {
            self.answers = self.answers.saturating_sub(ANSWERS_FOR_TELL.saturating_mul(count as u32));
            self.told_at = Some(now);
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
            while queue.under_way(lane) < allowed
                && let Some(write) = queue.take(lane, tick)
            {
                writes.push((lane, write));
            }
            if lane == Lane::Tell {
                self.rush.told(writes.len() - before, now);
            }
        }
        self.metrics.set_ahead(is_ahead(queue));
        self.metrics.set_backlog(queue.backlog(Lane::Place), queue.backlog(Lane::Tell));
        let dropped = queue.events_dropped();
        self.metrics.count_events_dropped(dropped - std::mem::replace(&mut self.events_dropped, dropped));
        Some(Next { writes, wake: self.next_wake(queue, now), has_reports: !unreported.is_empty() })
    }

    fn send(&self, lane: Lane, write: Write) -> impl Future<Output = Answer> + Send + use<> {
        let http = match lane {
            Lane::Place => Arc::clone(&self.place),
            Lane::Tell => Arc::clone(&self.tell),
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
        match lane {
            Lane::Place => self.place_limit.allowed(now),
            Lane::Tell => {
                let allowed = self.tell_limit.allowed(now);
                match is_rush(queue) {
                    true => allowed.min(queue.under_way(Lane::Tell) + self.rush.allowed(now)),
                    false => allowed,
                }
            }
        }
    }

    /// When something is due next, by time alone.
    fn next_wake(&self, queue: &WriteQueue, now: Instant) -> Option<Instant> {
        let lanes = LANES.into_iter().filter_map(|lane| queue.next_due(lane));
        let begun = self.shared.begun;
        let due = lanes.chain(queue.next_feedback()).min().map(|tick| begun + Duration::from_millis(tick.0));
        let paused = [self.place_limit.paused_until(now), self.tell_limit.paused_until(now)];
        let told = self.rush.due().filter(|_| is_rush(queue) && queue.ready(Lane::Tell) > 0);
        due.into_iter().chain(paused.into_iter().flatten()).chain(told).min()
    }

    fn answered(&mut self, answer: Answer) {
        let Answer { slot, write, outcome, error } = answer;
        let now = Instant::now();
        let limit = match slot.lane() {
            Lane::Place => {
                self.rush.answered();
                &mut self.place_limit
            }
            Lane::Tell => &mut self.tell_limit,
        };
        limit.learn(now, error.as_ref());
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
        self.metrics.set_ahead(false);
    }
}

/// Whether more binds and evictions wait for their turn than are answered in a moment.
fn is_ahead(queue: &WriteQueue) -> bool {
    queue.ready(Lane::Place) > AHEAD
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
    fn in_a_rush_one_is_told_for_some_answers_and_one_after_a_while_without_any() {
        let (mut rush, begun) = (Rush::default(), Instant::now());
        assert_eq!(rush.allowed(begun), 1, "none was told yet");
        rush.told(1, begun);
        assert_eq!(rush.allowed(begun), 0);
        (0..ANSWERS_FOR_TELL * 2).for_each(|_| rush.answered());
        assert_eq!(rush.allowed(begun), 2);
        rush.told(2, begun);
        assert_eq!(rush.allowed(begun), 0);
        assert_eq!(rush.allowed(begun + TELL_AT_LEAST_EVERY), 1, "nothing is answered");
        (0..ANSWERS_FOR_TELL * 10).for_each(|_| rush.answered());
        assert_eq!(rush.allowed(begun), TELLS_SAVED_MAX as usize, "what was not used is not saved up without end");
    }
}
