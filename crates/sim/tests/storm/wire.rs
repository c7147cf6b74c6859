//! The way to the API server: requests and answers take time, get lost, and are refused.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use quotient_host::{Api, Call, CallError, Outcome, PodRef, Verb, Write, carry_out, probe};
use serde_json::Value;

use crate::storm::dice::Dice;
use crate::storm::say;
use crate::storm::town::Town;

/// A request is given up after this long, as the live program does.
const TIMEOUT_MS: u64 = 5_000;

type Answer = Result<Value, CallError>;

/// One end of a request: what is asked, until it is taken, and what was answered.
#[derive(Debug, Default)]
struct Line {
    asked: Option<Call>,
    answer: Option<Answer>,
}

#[derive(Debug, Clone, Default)]
struct SharedLine(Arc<Mutex<Line>>);

impl Api for SharedLine {
    async fn call(&self, call: Call) -> Answer {
        self.with(|line| line.asked = Some(call));
        std::future::poll_fn(|_| match self.with(|line| line.answer.take()) {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        })
        .await
    }

    fn secret_bytes(&self) -> Result<[u8; 32], CallError> {
        Ok([0; 32])
    }
}

impl SharedLine {
    fn with<T>(&self, change: impl FnOnce(&mut Line) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

type Going<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Something that takes requests and answers.
pub struct UnderWay<T> {
    line: SharedLine,
    going: Going<T>,
}

impl UnderWay<Outcome> {
    /// Carries a write out.
    pub fn write(write: &Write, wall_us: i64) -> Self {
        let (line, write) = (SharedLine::default(), write.clone());
        let api = line.clone();
        UnderWay { line, going: Box::pin(async move { carry_out(&api, &write, wall_us).await.0 }) }
    }
}

impl UnderWay<Result<u64, CallError>> {
    /// Touches a pod.
    pub fn probe(pod: PodRef, wall_us: i64) -> Self {
        let line = SharedLine::default();
        let api = line.clone();
        UnderWay { line, going: Box::pin(async move { probe(&api, &pod, wall_us).await }) }
    }
}

impl<T> UnderWay<T> {
    /// Goes on as far as it can; the outcome, once there is one.
    pub fn go_on(&mut self) -> Option<T> {
        match self.going.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }

    /// The next request, to be sent.
    pub fn take_asked(&self) -> Option<Call> {
        self.line.with(|line| line.asked.take())
    }

    /// Not sent: the lease is not renewed.
    pub fn fence(&self) {
        self.line.with(|line| line.answer = Some(Err(CallError::Fenced)));
    }
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq)]
enum Fate {
    Good,
    /// The server says no, and nothing was done.
    Refused(CallError),
    /// It does not arrive.
    Lost,
    /// It is done, and the answer does not arrive.
    AnswerLost,
    /// It is answered as if it was done, and is not.
    Swallowed,
}

/// A request on its way.
struct Packet {
    call: Call,
    line: SharedLine,
    fate: Fate,
    arrives_ms: u64,
    answered_ms: u64,
    sent_ms: u64,
}

/// All requests on their way, of all processes: they arrive though who sent them is gone.
#[derive(Default)]
pub struct Network {
    by_arrival: BTreeMap<(u64, u64), Packet>,
    answers: BTreeMap<(u64, u64), (SharedLine, Answer)>,
    number: u64,
    /// How often each fault struck.
    pub struck: BTreeMap<&'static str, u64>,
}

impl Network {
    /// Sends a request.
    pub fn send<T>(&mut self, call: Call, from: &UnderWay<T>, now: u64, dice: &mut Dice, is_stormy: bool) {
        let slow = |dice: &mut Dice| match dice.roll(20) {
            0 if is_stormy => 1_000 + dice.roll(1_400),
            _ => 1 + dice.roll(20),
        };
        let (there, back) = (slow(dice), slow(dice));
        let fate = if is_stormy { self.fate(&call, dice) } else { Fate::Good };
        if there + back > 1_000 {
            *self.struck.entry("slow").or_default() += 1;
        }
        self.number += 1;
        let packet = Packet {
            call,
            line: from.line.clone(),
            fate,
            arrives_ms: now + there,
            answered_ms: now + there + back,
            sent_ms: now,
        };
        self.by_arrival.insert((packet.arrives_ms, self.number), packet);
    }

    fn fate(&mut self, call: &Call, dice: &mut Dice) -> Fate {
        let (name, fate) = match dice.roll(40) {
            0 => ("lost", Fate::Lost),
            1 | 2 => ("answer lost", Fate::AnswerLost),
            3 => ("403", Fate::Refused(CallError::Refused { code: 403, message: "forbidden".to_string() })),
            4 if call.verb == Verb::Patch => ("409", Fate::Refused(CallError::Conflict("modified".to_string()))),
            5 if call.verb != Verb::Get => {
                ("422", Fate::Refused(CallError::Refused { code: 422, message: "invalid".to_string() }))
            }
            6 => ("429", Fate::Refused(CallError::Throttled { after: None, message: "too many".to_string() })),
            7 => ("500", Fate::Refused(CallError::Broken("internal".to_string()))),
            9 if call.verb == Verb::Delete => ("deletion swallowed", Fate::Swallowed),
            8 => ("503", Fate::Refused(CallError::Unavailable("unavailable".to_string()))),
            _ => return Fate::Good,
        };
        *self.struck.entry(name).or_default() += 1;
        fate
    }

    /// Lets arrive what arrives by now.
    pub fn deliver(&mut self, town: &mut Town, now: u64) {
        while let Some(entry) = self.by_arrival.first_entry()
            && entry.key().0 <= now
        {
            let Packet { call, line, fate, answered_ms, sent_ms, .. } = entry.remove();
            say(|| {
                format!("{now} of {sent_ms}: {fate:?} {:?} {:?} {:?} {}", call.verb, call.target, call.part, call.body)
            });
            let lost = || Err(CallError::Unavailable("no answer in time".to_string()));
            let (answer, at) = match fate {
                Fate::Good => (town.server.answer(call), answered_ms),
                Fate::Refused(error) => (Err(error), answered_ms),
                Fate::Swallowed => (Ok(Value::Null), answered_ms),
                Fate::Lost => (lost(), sent_ms + TIMEOUT_MS),
                Fate::AnswerLost => {
                    let _ = town.server.answer(call);
                    (lost(), sent_ms + TIMEOUT_MS)
                }
            };
            town.settle();
            self.number += 1;
            self.answers.insert((at, self.number), (line, answer));
        }
        while let Some(entry) = self.answers.first_entry()
            && entry.key().0 <= now
        {
            let (line, answer) = entry.remove();
            line.with(|line| line.answer = Some(answer));
        }
    }
}
