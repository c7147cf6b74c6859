//! A scheduler process: the host as it ships, between watches that lag, break and repeat themselves and a network that
//! does what networks do.

use quotient_api::Configuration;
use quotient_engine::{Budget, Tick};
use quotient_host::watched::{Event, Watched};
use quotient_host::{
    CallError, Hold, LANES, Lane, Now, Outcome, Parts, PodRef, Session, SharedObjects, Subject, Verb, Write, WriteQueue,
};
use serde_json::Value;

use crate::storm::dice::Dice;
use crate::storm::town::Town;
use crate::storm::wire::{Network, UnderWay};

/// How many writes are under way at once, unless more are asked for.
const CONCURRENT: usize = 8;

/// How long a list is looked at before it is complete, in steps.
const LIST_STEPS: usize = 2;

enum State {
    /// It begins again at this time.
    Down(u64),
    /// The objects of a list that is not complete, and what is left of it.
    Listing(Vec<Value>),
    Watching,
}

struct Watch {
    subject: Subject,
    watched: Watched,
    state: State,
    /// How far it has come in what happened.
    at: usize,
    lag_ms: u64,
    /// How many events it told twice.
    doubled: u64,
}

pub struct Process {
    session: Session,
    queue: WriteQueue,
    under_way: Vec<(Write, UnderWay<Outcome>)>,
    watches: Vec<Watch>,
    /// Until when it may write.
    pub fence_until_ms: u64,
    /// The pod that is touched after the lease was taken.
    probing: Option<(PodRef, UnderWay<Result<u64, CallError>>)>,
    told_ms: u64,
    /// Why nothing was decided last, if so.
    pub held: Option<Hold>,
    /// How far its time of day is off.
    pub clock_off_ms: i64,
    /// How many writes of a lane are under way at once.
    pub concurrent: usize,
}

impl Process {
    /// One that has just started.
    pub fn new() -> Self {
        let configuration = Configuration::default();
        let names = Some(configuration.scheduler_names.clone());
        let session = Session::new(&configuration, names, Parts::default(), SharedObjects::default());
        let subjects: Vec<Subject> = session.first_subjects().collect();
        Process {
            session,
            queue: WriteQueue::default(),
            under_way: Vec::new(),
            watches: subjects.into_iter().map(watch).collect(),
            fence_until_ms: 0,
            probing: None,
            told_ms: 0,
            held: None,
            clock_off_ms: 0,
            concurrent: CONCURRENT,
        }
    }

    /// It has the lease.
    pub fn lead(&mut self, now: u64) {
        self.session.lead(self.clock(now));
    }

    pub fn leads(&self) -> bool {
        self.session.leads()
    }

    /// Whether nothing is under way or waits to be written.
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty() && LANES.iter().all(|lane| self.queue.backlog(*lane) == 0)
    }

    /// Whether no bind, eviction or nomination is under way or waits to be sent.
    pub fn is_placed(&self) -> bool {
        self.queue.ready(Lane::Place) + self.queue.under_way(Lane::Place) == 0
    }

    /// Now, as this process sees it: the clock that only grows, and a time of day that may be wrong.
    fn clock(&self, now_ms: u64) -> Now {
        let wall_ms = i64::try_from(now_ms).expect("it is not that late") + self.clock_off_ms;
        Now { tick: Tick(now_ms), wall_us: wall_ms * 1000 }
    }

    /// One step of everything.
    pub fn step(&mut self, town: &Town, network: &mut Network, dice: &mut Dice, is_stormy: bool) {
        let now = town.now_ms();
        self.look(town, network, dice, is_stormy);
        self.take_answers(now);
        self.catch_up(now);
        for gone in self.session.take_gone() {
            self.queue.forget(&gone, Tick(now));
        }
        while let Some(feedback) = self.queue.feedback(Tick(now)) {
            self.session.take_feedback(self.clock(now), feedback);
        }
        loop {
            let turn = self.session.turn(self.clock(now), false, Budget { pods_max: 4 });
            self.held = turn.held;
            turn.writes.into_iter().for_each(|write| self.queue.push(write, Tick(now)));
            if !turn.more {
                break;
            }
        }
        if now >= self.told_ms + 1_000 {
            self.told_ms = now;
            for write in self.session.tell(self.clock(now)) {
                self.queue.push(write, Tick(now));
            }
        }
        self.send(network, dice, now, is_stormy);
    }

    /// Goes on with what was decided, and decides nothing more.
    pub fn drain(&mut self, network: &mut Network, dice: &mut Dice, now: u64) {
        self.take_answers(now);
        self.send(network, dice, now, false);
    }

    fn send(&mut self, network: &mut Network, dice: &mut Dice, now: u64, is_stormy: bool) {
        for lane in LANES {
            while self.queue.under_way(lane) < self.concurrent
                && let Some(write) = self.queue.take(lane, Tick(now))
            {
                let under_way = UnderWay::write(&write, self.clock(now).wall_us);
                self.under_way.push((write, under_way));
            }
        }
        self.take_answers(now);
        let fence = self.fence_until_ms;
        for (_, under_way) in &self.under_way {
            pass_on(under_way, fence, network, dice, now, is_stormy);
        }
        if let Some((_, under_way)) = &self.probing {
            pass_on(under_way, fence, network, dice, now, is_stormy);
        }
        self.take_answers(now);
    }

    /// Goes on with what was answered.
    fn take_answers(&mut self, now: u64) {
        let mut done: Vec<(Write, Outcome)> = Vec::new();
        self.under_way.retain_mut(|(write, under_way)| match under_way.go_on() {
            Some(outcome) => {
                done.push((write.clone(), outcome));
                false
            }
            None => true,
        });
        let clock = self.clock(now);
        for (write, outcome) in done {
            if let (Outcome::Done, Write::Bind { pod, node, .. }) = (&outcome, &write)
                && let Some(event) = self.session.scheduler_mut().bound_event(clock, pod, node)
            {
                self.queue.push(event, Tick(now));
            }
            self.queue.done(&write.slot(), outcome, Tick(now));
        }
    }

    /// Touches a pod that waits, as a new leader does.
    fn catch_up(&mut self, now: u64) {
        if self.probing.is_none()
            && let Some(pod) = self.session.probe()
        {
            let mut under_way = UnderWay::probe(pod.clone(), self.clock(now).wall_us);
            let _ = under_way.go_on();
            self.probing = Some((pod, under_way));
        }
        if let Some(answer) = self.probing.as_mut().and_then(|(_, under_way)| under_way.go_on())
            && let Some((pod, _)) = self.probing.take()
            && let Ok(version) = answer
        {
            self.session.probed(pod, version);
        }
    }

    /// Sees what watches say.
    fn look(&mut self, town: &Town, network: &mut Network, dice: &mut Dice, is_stormy: bool) {
        let now = town.now_ms();
        let mut seen = Vec::new();
        for watch in &mut self.watches {
            // What is seen of pods decides most.
            let is_of_pods = watch.subject.kind().kind == "Pod";
            if is_stormy && dice.in_thousand(if is_of_pods { 15 } else { 2 }) {
                *network.struck.entry(watch.disturb(now, dice, &mut seen)).or_default() += 1;
            }
            watch.look(town, dice, is_stormy, &mut seen);
            *network.struck.entry("event twice").or_default() += std::mem::take(&mut watch.doubled);
        }
        for seen in seen {
            if let Some(subject) = self.session.see(self.clock(now), seen)
                && !self.watches.iter().any(|watch| watch.subject == subject)
            {
                self.watches.push(watch(subject));
            }
        }
    }
}

/// Sends the next request, if there is one and we may.
fn pass_on<T>(from: &UnderWay<T>, fence: u64, network: &mut Network, dice: &mut Dice, now: u64, is_stormy: bool) {
    let Some(call) = from.take_asked() else { return };
    // What reads may always be sent.
    if call.verb != Verb::Get && now >= fence {
        from.fence();
    } else {
        network.send(call, from, now, dice, is_stormy);
    }
}

fn watch(subject: Subject) -> Watch {
    Watch { subject, watched: Watched::new(subject), state: State::Down(0), at: 0, lag_ms: 0, doubled: 0 }
}

impl Watch {
    /// Something goes wrong with it; what.
    fn disturb(&mut self, now: u64, dice: &mut Dice, seen: &mut Vec<quotient_host::Seen>) -> &'static str {
        match dice.roll(6) {
            0..=2 => {
                self.lag_ms = dice.roll(4_000);
                "watch lags"
            }
            3 => {
                // 410: it has to be listed again.
                self.state = State::Down(now + dice.roll(1_000));
                "watch cut"
            }
            4 => {
                seen.extend(self.watched.take(Event::Lost("forbidden".to_string())));
                self.state = State::Down(now + dice.roll(8_000));
                "watch forbidden"
            }
            _ => {
                // It begins a list and does not come to its end.
                self.state = State::Listing(Vec::new());
                seen.extend(self.watched.take(Event::Listing));
                self.state = State::Down(now + dice.roll(2_000));
                "list broken off"
            }
        }
    }

    fn look(&mut self, town: &Town, dice: &mut Dice, is_stormy: bool, seen: &mut Vec<quotient_host::Seen>) {
        let now = town.now_ms();
        if let State::Down(until) = self.state
            && now >= until
        {
            seen.extend(self.watched.take(Event::Listing));
            let objects = town.server.store().iter().filter(|(key, object)| self.subject.includes(key, object));
            self.state = State::Listing(objects.map(|(_, object)| (**object).clone()).collect());
            self.at = town.log.len();
        }
        if let State::Listing(left) = &mut self.state {
            let page = (left.len().div_ceil(LIST_STEPS)).max(1).min(left.len());
            for object in left.drain(..page) {
                seen.extend(self.watched.take(Event::Item(object)));
            }
            if left.is_empty() {
                seen.extend(self.watched.take(Event::Complete));
                self.state = State::Watching;
            }
            return;
        }
        if !matches!(self.state, State::Watching) {
            return;
        }
        if !is_stormy {
            self.lag_ms = 0;
        }
        while let Some(entry) = town.log.get(self.at).filter(|entry| entry.at_ms + self.lag_ms <= now) {
            self.at += 1;
            if entry.key.kind_entry().is_none_or(|kind| !std::ptr::eq(kind, self.subject.kind())) {
                continue;
            }
            let event = match !entry.is_gone && self.subject.includes(&entry.key, &entry.object) {
                true => Event::Changed((*entry.object).clone()),
                false => Event::Deleted((*entry.object).clone()),
            };
            let times = if is_stormy && dice.in_thousand(50) { 2 } else { 1 };
            self.doubled += times - 1;
            for _ in 0..times {
                seen.extend(self.watched.take(event.clone()));
            }
        }
    }
}
