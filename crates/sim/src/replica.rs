//! One scheduler of a virtual cluster: the host, as it ships, between the virtual API server's watches and its answers.

use std::task::{Context, Poll, Waker};

use quotient_api::{ObjectKey, Problem, kinds, volcano};
use quotient_engine::{Budget, Engine, Tick};
use quotient_host::objects::watched_kinds;
use quotient_host::{
    Api, Arrival, Happened, LANES, Now, Outcome, Scheduler, Seen, SharedObjects, Subject, Write, WriteQueue, carry_out,
};

use crate::answer::AtOnce;
use crate::cluster::Setup;
use crate::server::{Server, is_pod};
use crate::store::{Change, Store};

/// A scheduler whose writes are answered at once. A clone goes its own way.
#[derive(Debug, Clone)]
pub struct Replica {
    scheduler: Scheduler,
    queue: WriteQueue,
    /// When time alone makes the engine decide something.
    wake_at: Option<Tick>,
    /// Something uses queues, so that there can be queues: nobody installs their kinds here.
    serves_queues: bool,
}

impl Replica {
    /// One that has listed everything there is in an empty cluster. `watched_until_us`: until then another one saw
    /// everything, as the Lease says.
    pub fn new(setup: &Setup, watched_until_us: Option<i64>) -> Self {
        let names = setup.scheduler_names.clone();
        let mut scheduler = Scheduler::new(&setup.configuration, names, SharedObjects::default());
        if let Some(until) = watched_until_us {
            scheduler.was_watched_until(until);
        }
        let start = Now { tick: Tick(0), wall_us: 0 };
        let subjects = watched_kinds().map(Subject::Kind).chain([Subject::JobPods, Subject::EndedPods]);
        for subject in subjects.filter(|subject| *subject != queues()) {
            scheduler.see(start, Seen::Listed(subject));
        }
        scheduler.seen_everything();
        Replica { scheduler, queue: WriteQueue::default(), wake_at: None, serves_queues: false }
    }

    /// The engine as it is.
    pub fn engine(&self) -> &Engine {
        self.scheduler.engine()
    }

    /// Whether reasons leave out which node comes closest to having room.
    pub fn be_brief(&mut self, brief: bool) {
        self.scheduler.be_brief(brief);
    }

    /// Takes in a change as watches tell of it.
    pub fn see(&mut self, now: Now, change: &Change, store: &Store) {
        let key = change.key();
        let object = match change {
            Change::Gone(..) => None,
            // It went again meanwhile, which is told next.
            Change::Seen(key) if !store.contains(key) => return,
            Change::Seen(key) => store.get(key),
        };
        if let Some(object) = object
            && !self.serves_queues
            && volcano::uses_queues(key, object)
        {
            self.serves_queues = true;
            self.scheduler.see(now, Seen::Listed(queues()));
        }
        for subject in subjects(key) {
            match object.filter(|object| subject.includes(key, object)) {
                Some(object) => self.scheduler.see_keyed(now, subject, key, Arrival::Shared(object)),
                None => self.scheduler.see(now, Seen::Gone(subject, key.clone())),
            }
        }
    }

    /// What was refused is tried again at once.
    pub fn retry(&mut self) {
        self.scheduler.retry();
    }

    /// What writes wait for may have come.
    pub fn hurry(&mut self, now: Now) {
        self.queue.hurry(now.tick);
    }

    /// Lets controllers make and delete what follows from what was seen.
    pub fn follow(&mut self, now: Now, server: &mut Server) {
        let writes = self.scheduler.follow(now);
        self.write(now, writes, server);
        self.keep(now, server);
    }

    /// The same for what has to be there before anything else: roots of trees, and queues.
    pub fn keep(&mut self, now: Now, server: &mut Server) {
        let writes = self.scheduler.keep(now);
        self.write(now, writes, server);
    }

    /// Lets objects say how things stand.
    pub fn tell(&mut self, now: Now, server: &mut Server) {
        let quotas = self.scheduler.engine().quotas();
        let writes = self.scheduler.tell_standing(now, &quotas);
        self.write(now, writes, server);
    }

    /// Decides; what is to be written is given back with what happened, and whether there is more to decide.
    pub fn decide(&mut self, now: Now, budget: Budget) -> (Vec<Write>, Vec<Happened>, bool) {
        let round = self.scheduler.decide(now, budget);
        self.wake_at = round.wake_at;
        (round.writes, round.happened, round.more)
    }

    /// What happened without a decision.
    pub fn take_happened(&mut self) -> Vec<Happened> {
        self.scheduler.take_happened()
    }

    /// All that is wrong with objects now.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.scheduler.problems()
    }

    /// When time alone changes something next.
    pub fn next_due(&self) -> Option<Tick> {
        let lanes = LANES.into_iter().filter_map(|lane| self.queue.next_due(lane));
        lanes.chain(self.queue.next_feedback()).chain(self.wake_at).min()
    }

    /// Writes all that is due; what does not happen is told back in its time.
    pub fn write(&mut self, now: Now, writes: Vec<Write>, server: &mut Server) {
        self.scheduler.take_gone().iter().for_each(|pod| self.queue.forget(pod, now.tick));
        writes.into_iter().for_each(|write| self.queue.push(write, now.tick));
        for lane in LANES {
            while let Some(write) = self.queue.take(lane, now.tick) {
                let outcome = match &write {
                    // Nobody here reads the object that would be made of it.
                    Write::Event(note) => {
                        server.tell(note);
                        Outcome::Done
                    }
                    write => at_once(&AtOnce::new(server), write, now.wall_us),
                };
                if let (Outcome::Done, Write::Bind { pod, node, .. }) = (&outcome, &write) {
                    let event = self.scheduler.bound_event(now, pod, node);
                    event.into_iter().for_each(|event| self.queue.push(event, now.tick));
                }
                self.queue.done(&write.slot(), outcome, now.tick);
            }
        }
        while let Some(feedback) = self.queue.feedback(now.tick) {
            self.scheduler.take_feedback(now, feedback);
        }
    }
}

/// Carries a write out on a server that answers at once.
fn at_once(api: &impl Api, write: &Write, wall_us: i64) -> Outcome {
    let mut carried = std::pin::pin!(carry_out(api, write, wall_us));
    match carried.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready((outcome, _)) => outcome,
        Poll::Pending => unreachable!("every answer is there when it is asked for"),
    }
}

fn queues() -> Subject {
    Subject::Kind(kinds::find(volcano::SCHEDULING, volcano::QUEUE).expect("queues are a known kind"))
}

/// The watches that tell of an object.
fn subjects(key: &ObjectKey) -> impl Iterator<Item = Subject> {
    let kind = key.kind_entry().filter(|kind| watched_kinds().any(|watched| std::ptr::eq(watched, *kind)));
    let pods = is_pod(key).then_some([Subject::JobPods, Subject::EndedPods]);
    kind.map(Subject::Kind).into_iter().chain(pods.into_iter().flatten())
}
