//! Lets the demo run in real time: pause, speed, steps, back in time; publishes views for the pages.

use std::fs::File;
use std::io::BufWriter;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quotient_api::ObjectKey;
use quotient_replay::lines::Recorder;
use quotient_sim::{Cluster, Stuck};
use serde_json::{Value, json};

use crate::demo::core::{Core, Input, MINUTE_MS};
use crate::demo::story;
use crate::gate::{Later, Refusal, Source};
use crate::hub::Hub;
use crate::viewer::Viewer;
use crate::what_if::{Answer, documents, what_if};

/// How often virtual time moves on, and how often pages are told.
const BEAT: Duration = Duration::from_millis(100);
const PUBLISH_EVERY: u32 = 3;

/// Virtual seconds for each real one.
const SPEEDS: [u32; 6] = [1, 5, 20, 60, 180, 600];
const SPEED: u32 = 20;

/// Copies to go back to. When there are more, every other one is dropped, and they come half as often.
const COPIES_MAX: usize = 48;

/// A step of virtual time.
const STEP_MS: i64 = 30_000;

/// Frames of the history.
pub const FRAME_MS: i64 = 30_000;

/// A file to which everything that is put in is written.
pub type Recording = Recorder<BufWriter<File>>;

struct State {
    core: Core,
    paused: bool,
    speed: u32,
    copies: Vec<(i64, Core)>,
    copy_every_ms: i64,
    recording: Option<Recording>,
    /// Why it cannot go on, if it cannot.
    stuck: Option<String>,
}

/// A demo that runs.
pub struct Player {
    state: Mutex<State>,
    hub: Arc<Hub>,
    seed: u64,
    nodes: u32,
}

impl Player {
    /// A demo at its beginning, not yet moving.
    pub fn new(seed: u64, nodes: u32, recording: Option<Recording>) -> Result<Arc<Player>, Stuck> {
        let hub = Hub::new(FRAME_MS);
        let core = Core::new(seed, nodes, recording.is_some())?;
        let copies = vec![(0, core.clone())];
        let state =
            State { core, paused: false, speed: SPEED, copies, copy_every_ms: MINUTE_MS, recording, stuck: None };
        let player = Player { state: Mutex::new(state), hub, seed, nodes };
        player.publish(&mut player.state());
        Ok(Arc::new(player))
    }

    /// The hub that its views go to.
    pub fn hub(&self) -> Arc<Hub> {
        self.hub.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves on for ever, in a thread of its own.
    pub fn play(&self) {
        for beat in 0u32.. {
            std::thread::sleep(BEAT);
            let mut state = self.state();
            if state.paused || state.stuck.is_some() {
                continue;
            }
            let to_ms = state.core.at_ms() + i64::from(state.speed) * BEAT.as_millis() as i64;
            self.advance(&mut state, to_ms);
            if beat.is_multiple_of(PUBLISH_EVERY) {
                self.publish(&mut state);
            }
        }
    }

    fn advance(&self, state: &mut State, to_ms: i64) {
        if let Err(stuck) = state.core.advance(to_ms) {
            state.stuck = Some(stuck.to_string());
        }
        let last = state.copies.last().map_or(0, |(at, _)| *at);
        if state.core.at_ms() >= last + state.copy_every_ms {
            state.copies.push((state.core.at_ms(), state.core.clone()));
            if state.copies.len() > COPIES_MAX {
                let mut index = 0;
                state.copies.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                state.copy_every_ms *= 2;
            }
        }
        self.record(state);
    }

    /// Moves on to a moment and publishes on the way, so that the history has no gap.
    fn move_to(&self, state: &mut State, to_ms: i64) {
        while state.core.at_ms() < to_ms && state.stuck.is_none() {
            let next = (state.core.at_ms() + FRAME_MS).min(to_ms);
            self.advance(state, next);
            self.publish(state);
        }
    }

    fn publish(&self, state: &mut State) {
        let evictions = state.core.take_evictions();
        self.hub.publish(state.core.view(), &evictions);
    }

    /// Writes what was put in. A disk that is full ends the recording and not the demo.
    fn record(&self, state: &mut State) {
        let inputs = state.core.take_inputs();
        let Some(recording) = &mut state.recording else { return };
        let written = inputs.iter().try_for_each(|input| match input {
            Input::Applied { at_ms, object, runs_ms } => {
                recording.applied(at_ms.unsigned_abs(), object, runs_ms.map(i64::unsigned_abs))
            }
            // A pod that has run its time says so by `runs`.
            Input::Deleted { .. } => Ok(()),
        });
        if written.and_then(|()| recording.flush()).is_err() {
            state.recording = None;
        }
    }

    /// Goes to an earlier moment, or to a later one.
    fn seek(&self, state: &mut State, at_ms: i64) -> Result<(), Refusal> {
        if at_ms >= state.core.at_ms() {
            let most = state.core.at_ms() + 12 * 60 * MINUTE_MS;
            self.move_to(state, at_ms.min(most));
            return Ok(());
        }
        if state.recording.is_some() {
            return Err(Refusal::Bad("a demo that is recorded does not go back".into()));
        }
        let at = state.copies.iter().rposition(|(copied, _)| *copied <= at_ms).unwrap_or(0);
        state.copies.truncate(at + 1);
        let Some((_, core)) = state.copies.last() else { return Ok(()) };
        state.core = core.clone();
        state.stuck = None;
        if let Err(stuck) = state.core.advance(at_ms.max(0)) {
            state.stuck = Some(stuck.to_string());
        }
        state.core.take_evictions();
        self.hub.go_back(state.core.view());
        Ok(())
    }

    /// A copy of the cluster, so that nothing waits while something is tried out on it.
    fn copy(&self) -> Cluster {
        self.state().core.cluster.clone()
    }
}

impl Source for Player {
    fn about(&self) -> Value {
        let state = self.state();
        let at_ms = state.core.at_ms();
        json!({
            "mode": "demo", "acts": true, "seed": self.seed, "nodes": self.nodes, "paused": state.paused,
            "speed": state.speed, "speeds": SPEEDS, "atMs": at_ms, "startMs": state.core.start_ms(),
            "endMs": story::END_MS, "nowMs": state.core.start_ms() + at_ms, "story": state.core.told,
            "preview": state.core.preview, "recorded": state.recording.is_some(), "stuck": state.stuck,
            "example": example(&state.core),
        })
    }

    fn what_if<'a>(&'a self, change: String, _: Viewer) -> Later<'a, Result<Answer, Refusal>> {
        let cluster = self.copy();
        Box::pin(async move {
            let tried = tokio::task::spawn_blocking(move || what_if(&cluster, &change)).await;
            tried.map_err(|_| Refusal::Bad("the change could not be tried".into()))?.map_err(Refusal::Bad)
        })
    }

    fn apply<'a>(&'a self, change: String, _: Option<String>) -> Later<'a, Result<Vec<String>, Refusal>> {
        Box::pin(async move {
            let objects = documents(&change).map_err(Refusal::Bad)?;
            let mut state = self.state();
            let mut applied = Vec::new();
            for object in objects {
                applied.push(state.core.apply(object).map_err(Refusal::Bad)?);
            }
            if let Err(stuck) = state.core.settle() {
                state.stuck = Some(stuck.to_string());
            }
            self.record(&mut state);
            self.publish(&mut state);
            Ok(applied)
        })
    }

    fn control(&self, command: &Value) -> Result<(), Refusal> {
        let mut state = self.state();
        match command.get("do").and_then(Value::as_str) {
            Some("pause") => state.paused = true,
            Some("resume") => state.paused = false,
            Some("speed") => {
                let speed = command.get("value").and_then(Value::as_u64).and_then(|speed| u32::try_from(speed).ok());
                let speed = speed.filter(|speed| SPEEDS.contains(speed));
                state.speed = speed.ok_or_else(|| Refusal::Bad(format!("value: expected one of {SPEEDS:?}")))?;
            }
            Some("step") => {
                state.paused = true;
                let to_ms = state.core.at_ms() + STEP_MS;
                self.move_to(&mut state, to_ms);
            }
            Some("next") => {
                let now = state.core.at_ms();
                let next = story::CHAPTERS.iter().flat_map(|chapter| [chapter.at_ms, chapter.outcome_at_ms]);
                let next = next.filter(|at| *at > now).min().unwrap_or(now + STEP_MS);
                self.move_to(&mut state, next);
            }
            Some("reset") => self.seek(&mut state, 0)?,
            Some("seek") => {
                let at = command.get("atMs").and_then(Value::as_i64);
                let at = at.ok_or_else(|| Refusal::Bad("atMs: expected milliseconds".into()))?;
                self.seek(&mut state, at.max(0))?;
            }
            _ => return Err(Refusal::Bad("do: expected pause, resume, speed, step, next, reset or seek".into())),
        }
        drop(state);
        self.hub.touch();
        Ok(())
    }

    fn object<'a>(&'a self, name: String, _: Viewer) -> Later<'a, Result<String, Refusal>> {
        Box::pin(async move {
            let cluster = self.copy();
            let keys = ObjectKey::parse(&name).map_err(|problem| Refusal::Bad(problem.to_string()))?;
            let found = keys.iter().find_map(|key| cluster.store().get(key));
            found.map(|object| manifest(object)).ok_or_else(|| Refusal::Bad(format!("there is no {name}")))
        })
    }
}

/// A manifest that a visitor may submit.
fn example(core: &Core) -> String {
    let pod = crate::demo::objects::PodPlan {
        pool: Some("a100"),
        ..crate::demo::objects::PodPlan::new(
            "vision",
            format!("mine-{}", core.at_ms() / 1000),
            crate::demo::objects::gpus(8),
        )
    };
    manifest(&pod.object())
}

/// An object as YAML, without what the cluster itself wrote.
pub fn manifest(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for assigned in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"] {
            metadata.remove(assigned);
        }
        metadata.retain(|_, value| !matches!(value, Value::Object(fields) if fields.is_empty()));
    }
    serde_saphyr::to_string(&object).unwrap_or_else(|_| object.to_string())
}
