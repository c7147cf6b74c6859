//! A live scheduler whose time stands still and that answers questions: for scenarios on a real API server.
//!
//! Whoever runs a scenario holds one end, the *conductor*. The session at the other end does what it always does, but
//! time passes only when the conductor says so, it decides nothing while it is held, and it says what it has seen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quotient_api::ObjectKey;
use quotient_engine::fact::PodKey;
use quotient_engine::{NodeReport, QuotaReport, Reason, Tick};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use quotient_host::scheduler::{Happened, Seen};
use quotient_host::subject::Subject;

/// How many questions may wait. The conductor waits for each answer, so that one is enough.
const QUESTIONS_MAX: usize = 1;

/// What a session knows and has done.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// Everything that there is was seen once.
    pub is_listed: bool,
    /// All there is to decide is decided; never so while it is held.
    pub is_decided: bool,
    /// All there is to write was written and answered.
    pub is_written: bool,
    /// What is watched.
    pub subjects: BTreeSet<Subject>,
    /// The version of each object as it was last seen.
    pub versions: BTreeMap<(Subject, ObjectKey), String>,
    /// When time alone will change something next.
    pub wakes_at: Option<Tick>,
}

/// What the engine has to say, and what happened since it was last asked.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    pub quotas: Vec<QuotaReport>,
    pub nodes: Vec<NodeReport>,
    /// Why pods wait, as things stand now.
    pub reasons: BTreeMap<PodKey, Arc<Reason>>,
    pub happened: Vec<Happened>,
}

/// What the conductor asks for.
#[derive(Debug)]
pub(crate) enum Question {
    Hold(bool, oneshot::Sender<()>),
    Standing(oneshot::Sender<Standing>),
    Figures(oneshot::Sender<Figures>),
    /// The clock was moved.
    Later(oneshot::Sender<()>),
    Restart(oneshot::Sender<()>),
}

/// Time that stands still, in milliseconds since the Unix epoch.
#[derive(Debug, Clone)]
pub(crate) struct HeldTime(Arc<AtomicU64>);

impl HeldTime {
    pub(crate) fn tick(&self) -> Tick {
        Tick(self.0.load(Ordering::Acquire))
    }
}

/// What a rehearsed session keeps beyond others.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) is_held: bool,
    /// Nothing was left to decide when last it decided.
    pub(crate) rests: bool,
    pub(crate) wakes_at: Option<Tick>,
    pub(crate) versions: BTreeMap<(Subject, ObjectKey), String>,
    pub(crate) happened: Vec<Happened>,
}

impl Asked {
    pub(crate) fn see(&mut self, seen: &Seen) {
        match seen {
            Seen::Object(subject, object) => {
                let text = |field: &str| object.pointer(field).and_then(Value::as_str);
                if let Some(name) = text("/metadata/name") {
                    let version = text("/metadata/resourceVersion").unwrap_or_default().to_string();
                    let key = ObjectKey::new(subject.kind(), text("/metadata/namespace"), name);
                    self.versions.insert((*subject, key), version);
                }
            }
            Seen::Gone(subject, key) => {
                self.versions.remove(&(*subject, key.clone()));
            }
            Seen::Unreadable(..) | Seen::Listed(_) | Seen::Stale(..) | Seen::Unavailable(_) => {}
        }
    }
}

/// The session's end.
#[derive(Debug)]
pub struct Rehearsal {
    pub(crate) time: HeldTime,
    questions: mpsc::Receiver<Question>,
}

impl Rehearsal {
    /// The next question; none comes any more when the conductor is gone.
    pub(crate) async fn next(&mut self) -> Question {
        match self.questions.recv().await {
            Some(question) => question,
            None => std::future::pending().await,
        }
    }
}

/// The scheduler ended before it answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the scheduler has ended")]
pub struct Ended;

/// The end of whoever runs a scenario.
#[derive(Debug)]
pub struct Conductor {
    time: HeldTime,
    questions: mpsc::Sender<Question>,
}

/// Both ends; time stands at `now`.
pub fn rehearsal(now: Tick) -> (Conductor, Rehearsal) {
    let time = HeldTime(Arc::new(AtomicU64::new(now.0)));
    let (sender, questions) = mpsc::channel(QUESTIONS_MAX);
    (Conductor { time: time.clone(), questions: sender }, Rehearsal { time, questions })
}

impl Conductor {
    /// Now, which is for ever.
    pub fn now(&self) -> Tick {
        self.time.tick()
    }

    /// Lets time pass until `now`.
    pub async fn advance_to(&self, now: Tick) -> Result<(), Ended> {
        self.time.0.fetch_max(now.0, Ordering::AcqRel);
        self.ask(Question::Later).await
    }

    /// Nothing is decided from now on, or everything again.
    pub async fn hold(&self, is_held: bool) -> Result<(), Ended> {
        self.ask(|answer| Question::Hold(is_held, answer)).await
    }

    /// What the session knows and has done.
    pub async fn standing(&self) -> Result<Standing, Ended> {
        self.ask(Question::Standing).await
    }

    /// What the engine has to say.
    pub async fn figures(&self) -> Result<Figures, Ended> {
        self.ask(Question::Figures).await
    }

    /// The session ends, and the next one knows only what the objects say.
    pub async fn restart(&self) -> Result<(), Ended> {
        self.ask(Question::Restart).await
    }

    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Result<T, Ended> {
        let (answer, answered) = oneshot::channel();
        self.questions.send(question(answer)).await.map_err(|_| Ended)?;
        answered.await.map_err(|_| Ended)
    }
}
