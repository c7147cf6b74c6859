//! Sends what is to be written: not more at once than the server takes well, the most important first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use futures::stream::{FuturesUnordered, StreamExt};
use kube::Client;
use quotient_engine::fact::Name;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::call::CallError;
use crate::carry_out::carry_out;
use crate::connect::Clients;
use crate::lease::Fence;
use crate::limit::Limit;
use crate::metrics::Metrics;
use crate::queue::{Feedback, Outcome, WriteQueue};
use crate::write::{LANES, Lane, PodRef, Slot, Write};

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

/// The end of the dispatcher that writes are given to.
#[derive(Debug, Clone)]
pub struct Dispatcher {
    /// Not bounded by itself: the queue behind it is, by what there is to write about.
    writes: UnboundedSender<Write>,
    backlog: Arc<AtomicUsize>,
    /// How many writes were handed over.
    pushed: Arc<AtomicU64>,
    /// How many writes had been taken in when last there was nothing left to do about any.
    done: Arc<AtomicU64>,
}

impl Dispatcher {
    /// Hands something over to be written.
    pub fn push(&self, write: Write) {
        // It fails only when everything ends.
        if self.writes.send(write).is_ok() {
            self.backlog.fetch_add(1, Ordering::Relaxed);
            self.pushed.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether everything that was handed over so far was written and answered, or given up and told.
    pub fn is_idle(&self) -> bool {
        self.done.load(Ordering::Acquire) == self.pushed.load(Ordering::Acquire)
    }

    /// Whether so much waits that no more should be decided.
    pub fn is_full(&self) -> bool {
        self.backlog.load(Ordering::Relaxed) > BACKLOG_MAX
    }
}

/// A dispatcher, and the task that does its work until the other end is dropped. In `shadow` nothing is written.
pub fn dispatcher(
    clients: &Clients,
    fence: Fence,
    metrics: Metrics,
    reports: UnboundedSender<Report>,
) -> (Dispatcher, impl Future<Output = ()> + Send + use<>) {
    let (writes, receiver) = tokio::sync::mpsc::unbounded_channel();
    let backlog = Arc::new(AtomicUsize::new(0));
    let done = Arc::new(AtomicU64::new(0));
    let task = Task {
        place: clients.bind.clone(),
        tell: clients.status.clone(),
        fence,
        metrics,
        queue: WriteQueue::default(),
        place_limit: Limit::new(PLACE_CONCURRENT.0, PLACE_CONCURRENT.1),
        tell_limit: Limit::new(TELL_CONCURRENT.0, TELL_CONCURRENT.1),
        put_off: BTreeMap::new(),
        reports,
        backlog: backlog.clone(),
        taken: 0,
        done: done.clone(),
    };
    (Dispatcher { writes, backlog, pushed: Arc::default(), done }, task.run(receiver))
}

struct Task {
    place: Client,
    tell: Client,
    fence: Fence,
    metrics: Metrics,
    queue: WriteQueue,
    place_limit: Limit,
    tell_limit: Limit,
    /// Failures that are told later.
    put_off: BTreeMap<(Instant, u64), Feedback>,
    reports: UnboundedSender<Report>,
    backlog: Arc<AtomicUsize>,
    /// How many writes were taken in.
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
    async fn run(mut self, mut receiver: UnboundedReceiver<Write>) {
        let mut under_way = FuturesUnordered::new();
        let mut number = 0;
        loop {
            let now = Instant::now();
            while let Some(entry) = self.put_off.first_entry()
                && entry.key().0 <= now
            {
                let feedback = entry.remove();
                let _ = self.reports.send(Report::Failed(Box::new(feedback)));
            }
            for lane in LANES {
                while self.queue.under_way(lane) < self.allowed(lane, now)
                    && let Some(write) = self.queue.take(lane, now)
                {
                    let client = match lane {
                        Lane::Place => self.place.clone(),
                        Lane::Tell => self.tell.clone(),
                    };
                    let fence = self.fence.clone();
                    under_way.push(async move {
                        let (outcome, error) = carry_out(&client, &fence, &write).await;
                        Answer { slot: write.slot(), write, outcome, error }
                    });
                }
            }
            let waiting = self.queue.backlog(Lane::Place) + self.queue.backlog(Lane::Tell);
            self.metrics.set_backlog(self.queue.backlog(Lane::Place), self.queue.backlog(Lane::Tell));
            self.backlog.store(waiting.max(receiver.len()), Ordering::Relaxed);
            if waiting == 0 && self.put_off.is_empty() {
                self.done.store(self.taken, Ordering::Release);
            }
            let wake = self.next_wake(now);
            tokio::select! {
                write = receiver.recv() => match write {
                    Some(write) => {
                        self.queue.push(write);
                        self.taken += 1;
                        // What came with it is sorted with it.
                        while let Ok(write) = receiver.try_recv() {
                            self.queue.push(write);
                            self.taken += 1;
                        }
                    }
                    None => return,
                },
                Some(answer) = under_way.next(), if !under_way.is_empty() => {
                    self.answered(answer, &mut number);
                    // The next ones are sent when all that were answered are taken in.
                    while let Some(Some(answer)) = futures::FutureExt::now_or_never(under_way.next()) {
                        self.answered(answer, &mut number);
                    }
                }
                () = sleep_until(wake) => {}
            }
        }
    }

    fn allowed(&self, lane: Lane, now: Instant) -> usize {
        match lane {
            Lane::Place => self.place_limit.allowed(now),
            Lane::Tell => {
                let allowed = self.tell_limit.allowed(now);
                let busy = self.queue.backlog(Lane::Place) > self.queue.under_way(Lane::Place);
                if busy { allowed.min(TELL_CONCURRENT_BUSY) } else { allowed }
            }
        }
    }

    /// When something is due next, by time alone.
    fn next_wake(&self, now: Instant) -> Option<Instant> {
        let lanes = LANES.into_iter().filter_map(|lane| self.queue.next_due(lane));
        let told = self.put_off.first_key_value().map(|((at, _), _)| *at);
        let paused = [self.place_limit.paused_until(now), self.tell_limit.paused_until(now)];
        lanes.chain(told).chain(paused.into_iter().flatten()).min()
    }

    fn answered(&mut self, answer: Answer, number: &mut u64) {
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
        for feedback in self.queue.done(&slot, outcome, now) {
            *number += 1;
            self.put_off.insert((feedback.at, *number), feedback);
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
