//! Sends what is to be written: not more at once than the server takes well, the most important first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::stream::{FuturesUnordered, StreamExt};
use quotient_engine::Tick;
use quotient_engine::fact::{Name, PodKey};
use quotient_host::carry_out;
use quotient_host::queue::{Feedback, Outcome, WriteQueue};
use quotient_host::write::{LANES, Lane, PodRef, Slot, Write};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::call::{CallError, Http};
use crate::clock::wall_us;
use crate::connect::Clients;
use crate::lease::Fence;
use crate::limit::Limit;
use crate::metrics::Metrics;

/// How many writes of each lane are under way at once: at first, and at most. HTTP/1.1 has a connection for each; with
/// 10 ms for an answer, 128 of them are some ten thousand binds a second, which is more than an API server does.
const PLACE_CONCURRENT: (u32, u32) = (16, 128);
const TELL_CONCURRENT: (u32, u32) = (8, 32);

/// While binds wait for their turn, what only tells of things has to do with this many.
const TELL_CONCURRENT_BUSY: usize = 2;

/// The engine is not asked for decisions while more than this wait to be sent: what it would decide on top could not be
/// done soon, and would be decided better later. It is enough for the longest queue of a second.
pub const BACKLOG_MAX: usize = 4096;

/// What the dispatcher has to say.
#[derive(Debug)]
pub enum Report {
    /// Something that was decided did not happen.
    Failed(Box<Feedback>),
    /// A pod was bound.
    Bound { pod: PodRef, node: Name, created_us: Option<i64> },
}

/// What the dispatcher is given.
#[derive(Debug)]
enum Order {
    Write(Box<Write>),
    /// The pod is gone: what was to be written for it is not.
    Forget(PodKey),
}

/// The end of the dispatcher that writes are given to.
#[derive(Debug, Clone)]
pub struct Dispatcher {
    /// Not bounded by itself: the task behind it takes everything out at once, into a queue that is bounded by what
    /// there is to write about.
    orders: UnboundedSender<Order>,
    /// How many writes that place pods wait for their turn or are under way.
    placing: Arc<AtomicUsize>,
    /// How many writes were handed over.
    pushed: Arc<AtomicU64>,
    /// How many writes had been taken in when last there was nothing left to do about any.
    done: Arc<AtomicU64>,
}

impl Dispatcher {
    /// Hands something over to be written.
    pub fn push(&self, write: Write) {
        if write.slot().lane() == Lane::Place {
            self.placing.fetch_add(1, Ordering::AcqRel);
        }
        self.order(Order::Write(write.into()));
    }

    /// A pod is gone: what was to be written for it is not, and nobody is evicted for it.
    pub fn forget(&self, pod: PodKey) {
        self.order(Order::Forget(pod));
    }

    fn order(&self, order: Order) {
        // It fails only when everything ends.
        if self.orders.send(order).is_ok() {
            self.pushed.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether everything that was handed over so far was written and answered, or given up and told.
    pub fn is_idle(&self) -> bool {
        self.done.load(Ordering::Acquire) == self.pushed.load(Ordering::Acquire)
    }

    /// Whether so many binds and evictions wait that no more should be decided. Statuses and events do not count.
    pub fn is_full(&self) -> bool {
        self.placing.load(Ordering::Acquire) > BACKLOG_MAX
    }

    /// Whether no bind, eviction or nomination is under way or waits for its turn.
    pub fn is_placed(&self) -> bool {
        self.placing.load(Ordering::Acquire) == 0
    }
}

/// A dispatcher, and the task that does its work until the other end is dropped. In `shadow` nothing is written.
pub fn dispatcher(
    clients: &Clients,
    fence: Fence,
    metrics: Metrics,
    reports: UnboundedSender<Report>,
) -> (Dispatcher, impl Future<Output = ()> + Send + use<>) {
    let (orders, receiver) = tokio::sync::mpsc::unbounded_channel();
    let placing = Arc::new(AtomicUsize::new(0));
    let done = Arc::new(AtomicU64::new(0));
    let task = Task {
        begun: Instant::now(),
        place: Http { client: clients.bind.clone(), fence: fence.clone() },
        tell: Http { client: clients.status.clone(), fence },
        metrics,
        queue: WriteQueue::default(),
        place_limit: Limit::new(PLACE_CONCURRENT.0, PLACE_CONCURRENT.1),
        tell_limit: Limit::new(TELL_CONCURRENT.0, TELL_CONCURRENT.1),
        events_dropped: 0,
        reports,
        placing: placing.clone(),
        taken: 0,
        done: done.clone(),
    };
    (Dispatcher { orders, placing, pushed: Arc::default(), done }, task.run(receiver))
}

struct Task {
    /// The queue counts time from here.
    begun: Instant,
    place: Http,
    tell: Http,
    metrics: Metrics,
    queue: WriteQueue,
    place_limit: Limit,
    tell_limit: Limit,
    /// How many events were dropped, as far as it was counted.
    events_dropped: u64,
    reports: UnboundedSender<Report>,
    placing: Arc<AtomicUsize>,
    /// How many orders were taken in.
    taken: u64,
    done: Arc<AtomicU64>,
}

/// What came of a write that was sent.
struct Answer {
    slot: Slot,
    write: Write,
    outcome: Outcome,
    error: Option<CallError>,
}

impl Task {
    async fn run(mut self, mut receiver: UnboundedReceiver<Order>) {
        let mut under_way = FuturesUnordered::new();
        loop {
            let now = Instant::now();
            while let Some(feedback) = self.queue.feedback(self.tick(now)) {
                let _ = self.reports.send(Report::Failed(Box::new(feedback)));
            }
            for lane in LANES {
                while self.queue.under_way(lane) < self.allowed(lane, now)
                    && let Some(write) = self.queue.take(lane, self.tick(now))
                {
                    let http = match lane {
                        Lane::Place => self.place.clone(),
                        Lane::Tell => self.tell.clone(),
                    };
                    let metrics = self.metrics.clone();
                    under_way.push(async move {
                        let begun = Instant::now();
                        let (outcome, error) = carry_out(&http, &write, wall_us()).await;
                        let slot = write.slot();
                        metrics.write_took(&slot, begun.elapsed());
                        Answer { slot, write, outcome, error }
                    });
                }
            }
            let waiting = self.queue.backlog(Lane::Place) + self.queue.backlog(Lane::Tell);
            self.metrics.set_backlog(self.queue.backlog(Lane::Place), self.queue.backlog(Lane::Tell));
            let dropped = self.queue.events_dropped();
            self.metrics.count_events_dropped(dropped - std::mem::replace(&mut self.events_dropped, dropped));
            // What was not taken in yet may place a pod.
            let placing = self.queue.ready(Lane::Place) + self.queue.under_way(Lane::Place) + receiver.len();
            self.placing.store(placing, Ordering::Release);
            if waiting == 0 && self.queue.next_feedback().is_none() {
                self.done.store(self.taken, Ordering::Release);
            }
            let wake = self.next_wake(now);
            tokio::select! {
                order = receiver.recv() => match order {
                    Some(order) => {
                        self.take_in(order);
                        // What came with it is sorted with it.
                        while let Ok(order) = receiver.try_recv() {
                            self.take_in(order);
                        }
                    }
                    None => return,
                },
                Some(answer) = under_way.next(), if !under_way.is_empty() => {
                    self.answered(answer);
                    // The next ones are sent when all that were answered are taken in.
                    while let Some(Some(answer)) = futures::FutureExt::now_or_never(under_way.next()) {
                        self.answered(answer);
                    }
                }
                () = sleep_until(wake) => {}
            }
        }
    }

    fn take_in(&mut self, order: Order) {
        let now = self.tick(Instant::now());
        match order {
            Order::Write(write) => self.queue.push(*write, now),
            Order::Forget(pod) => self.queue.forget(&pod, now),
        }
        self.taken += 1;
    }

    /// A moment as the queue counts time.
    fn tick(&self, now: Instant) -> Tick {
        Tick(u64::try_from(now.saturating_duration_since(self.begun).as_millis()).unwrap_or(u64::MAX))
    }

    fn allowed(&self, lane: Lane, now: Instant) -> usize {
        match lane {
            Lane::Place => self.place_limit.allowed(now),
            Lane::Tell => {
                let allowed = self.tell_limit.allowed(now);
                let busy = self.queue.ready(Lane::Place) > 0;
                if busy { allowed.min(TELL_CONCURRENT_BUSY) } else { allowed }
            }
        }
    }

    /// When something is due next, by time alone.
    fn next_wake(&self, now: Instant) -> Option<Instant> {
        let lanes = LANES.into_iter().filter_map(|lane| self.queue.next_due(lane));
        let due = lanes.chain(self.queue.next_feedback()).min().map(|tick| self.begun + Duration::from_millis(tick.0));
        let paused = [self.place_limit.paused_until(now), self.tell_limit.paused_until(now)];
        due.into_iter().chain(paused.into_iter().flatten()).min()
    }

    fn answered(&mut self, answer: Answer) {
        let Answer { slot, write, outcome, error } = answer;
        let now = Instant::now();
        let limit = match slot.lane() {
            Lane::Place => &mut self.place_limit,
            Lane::Tell => &mut self.tell_limit,
        };
        match &error {
            Some(CallError::Throttled { after, .. }) => limit.overloaded(now, *after),
            Some(CallError::Unavailable(_)) => limit.overloaded(now, None),
            Some(CallError::Fenced) => {}
            // One object that the server fails at says nothing about the others.
            _ => limit.answered(),
        }
        self.metrics.count_write(&slot, &outcome, error.as_ref());
        match (&outcome, error) {
            (Outcome::Refused(message), _) => tracing::warn!(?slot, "was refused: {message}"),
            (Outcome::Failed(message), _) => tracing::warn!(?slot, "failed and is tried again: {message}"),
            (_, Some(error)) => tracing::debug!(?slot, %error),
            _ => {}
        }
        if let (Outcome::Done, Write::Bind { pod, node, created_us, .. }) = (&outcome, write) {
            let _ = self.reports.send(Report::Bound { pod, node, created_us });
        }
        self.queue.done(&slot, outcome, self.tick(now));
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
