//! The demo's cluster, and what is due in it. Virtual time; no clock is read here.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::shared::Name;
use quotient_api::{ObjectKey, key_of, time};
use quotient_sim::cluster::Happened;
use quotient_sim::random::Random;
use quotient_sim::{Cluster, Setup, Stuck};
use serde_json::Value;

use crate::demo::objects::{self, Layout, PodPlan, gpus};
use crate::demo::story::{self, Telling};
use crate::journal::Eviction;
use crate::view::View;
use crate::what_if::view_of;

pub const MINUTE_MS: i64 = 60_000;

/// How long evicted pods take to go.
const GRACE: Duration = Duration::from_secs(20);

/// When the owner of an evicted pod makes it anew.
const RESUBMIT_MS: i64 = 45_000;

/// What happens at a moment.
#[derive(Debug, Clone)]
enum Due {
    /// The owner of an evicted pod makes it anew.
    Resubmit {
        object: Value,
        runs_ms: i64,
    },
    End {
        pod: ObjectKey,
        uid: String,
    },
    Chapter(usize),
    Outcome(usize),
    /// The story previews its change of quotas.
    Preview,
    /// The story applies it.
    Change,
    Notebooks,
    Jobs,
}

/// What was put in from outside, for a recording.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    Applied { at_ms: i64, object: Value, runs_ms: Option<i64> },
    Deleted { at_ms: i64, key: ObjectKey },
}

/// The cluster and its future. A clone goes its own way.
#[derive(Debug, Clone)]
pub struct Core {
    pub cluster: Cluster,
    pub layout: Layout,
    pub told: Vec<Telling>,
    /// What the story's change of quotas would do, once it was tried.
    pub preview: Option<String>,
    start_ms: i64,
    draw: Random,
    due: BTreeMap<(i64, u64), Due>,
    counted: u64,
    /// How long pods run once they are bound, and their objects, to be made anew after an eviction.
    lives: BTreeMap<ObjectKey, (Value, i64)>,
    evictions: Vec<Eviction>,
    /// Evictions of the whole run, for what the story says of them.
    pub evicted: Vec<Eviction>,
    inputs: Vec<Input>,
    records: bool,
}

impl Core {
    /// A cluster of so many nodes, at the beginning of the story.
    pub fn new(seed: u64, nodes: u32, records: bool) -> Result<Core, Stuck> {
        let layout = Layout::of(nodes);
        let mut cluster = Cluster::new(Setup { configuration: objects::configuration(), scheduler_names: None });
        cluster.set_eviction_takes(GRACE);
        let start_ms = cluster.now_us() / 1000;
        let mut core = Core {
            cluster,
            layout,
            told: story::begin(),
            preview: None,
            start_ms,
            draw: Random::new(seed),
            due: BTreeMap::new(),
            counted: 0,
            lives: BTreeMap::new(),
            evictions: Vec::new(),
            evicted: Vec::new(),
            inputs: Vec::new(),
            records,
        };
        for object in objects::nodes(layout).into_iter().chain(objects::quotas(layout)) {
            core.put(object, None);
        }
        core.begin()?;
        for (index, chapter) in story::CHAPTERS.iter().enumerate() {
            core.schedule(chapter.at_ms, Due::Chapter(index));
            core.schedule(chapter.outcome_at_ms, Due::Outcome(index));
        }
        core.schedule(MINUTE_MS, Due::Notebooks);
        core.schedule(story::END_MS, Due::Jobs);
        Ok(core)
    }

    /// What runs before the story begins.
    fn begin(&mut self) -> Result<(), Stuck> {
        let layout = self.layout;
        let hours = |draw: &mut Random| draw.between(150, 330) * MINUTE_MS;
        for i in 0..layout.vision_pods() {
            let runs = hours(&mut self.draw);
            self.submit(
                PodPlan { pool: Some("a100"), ..PodPlan::new("vision", format!("train-{i:03}"), gpus(8)) },
                runs,
            );
        }
        for i in 0..layout.research_pods() {
            let runs = hours(&mut self.draw);
            self.submit(
                PodPlan { pool: Some("a100"), ..PodPlan::new("research", format!("study-{i:03}"), gpus(8)) },
                runs,
            );
        }
        let h100 = |team: &'static str, name: String| PodPlan {
            queue: Some(team),
            card: Some(objects::H100),
            ..PodPlan::new(team, name, gpus(8))
        };
        for i in 0..layout.speech_nodes() {
            // The last of them end when the story says so.
            let released = i >= layout.speech_nodes() - layout.released();
            let runs = if released { story::RELEASE_MS } else { hours(&mut self.draw) };
            self.submit(h100("speech", format!("decode-{i:03}")), runs);
        }
        for i in 0..layout.llm_nodes() {
            let runs = hours(&mut self.draw);
            self.submit(h100("llm", format!("serve-{i:03}")), runs);
        }
        let whole = serde_json::json!({"cpu": "64", "memory": "128Gi"});
        for i in 0..layout.cpu {
            let team = if i * 10 < layout.cpu * 6 { "etl" } else { "reports" };
            let runs = hours(&mut self.draw);
            self.submit(PodPlan::new(team, format!("batch-{i:03}"), whole.clone()), runs);
        }
        self.settle()
    }

    /// Virtual time since the story began.
    pub fn at_ms(&self) -> i64 {
        self.cluster.now_us() / 1000 - self.start_ms
    }

    /// The moment of the cluster at which the story began.
    pub fn start_ms(&self) -> i64 {
        self.start_ms
    }

    /// The cluster as pages show it.
    pub fn view(&self) -> View {
        view_of(&self.cluster)
    }

    /// Evictions since this was last asked.
    pub fn take_evictions(&mut self) -> Vec<Eviction> {
        std::mem::take(&mut self.evictions)
    }

    /// What was put in since this was last asked, where it is recorded.
    pub fn take_inputs(&mut self) -> Vec<Input> {
        std::mem::take(&mut self.inputs)
    }

    fn schedule(&mut self, at_ms: i64, due: Due) {
        self.counted += 1;
        self.due.insert((at_ms, self.counted), due);
    }

    /// Submits a pod now; once it is bound it runs for so long.
    pub fn submit(&mut self, plan: PodPlan<'_>, runs_ms: i64) {
        self.put_pod(plan.object(), runs_ms);
    }

    fn put_pod(&mut self, object: Value, runs_ms: i64) {
        if let Ok(key) = key_of(&object) {
            self.lives.insert(key, (object.clone(), runs_ms));
        }
        self.put(object, Some(runs_ms));
    }

    fn put(&mut self, object: Value, runs_ms: Option<i64>) {
        if self.records {
            self.inputs.push(Input::Applied { at_ms: self.at_ms(), object: object.clone(), runs_ms });
        }
        // A refusal is the cluster's to tell; the story's own objects are admitted, which its test shows.
        let _ = self.cluster.apply(object);
    }

    /// Applies an object of the story's own or of a visitor; says why it is refused. A pod runs for half an hour.
    pub fn apply(&mut self, object: Value) -> Result<String, String> {
        let applied = self.cluster.apply(object.clone()).map_err(|refusal| refusal.to_string())?;
        if (applied.group, applied.kind) == ("", "Pod") {
            self.lives.insert(applied.clone(), (object.clone(), 30 * MINUTE_MS));
        }
        if self.records {
            let runs_ms = self.lives.get(&applied).map(|(_, runs)| *runs);
            self.inputs.push(Input::Applied { at_ms: self.at_ms(), object, runs_ms });
        }
        Ok(applied.to_string())
    }

    /// The story's change of quotas is tried soon, and applied after so long.
    pub fn apply_later(&mut self, after_ms: i64) {
        self.schedule(self.at_ms() + after_ms / 2, Due::Preview);
        self.schedule(self.at_ms() + after_ms, Due::Change);
    }

    /// Lets everything settle that can without time passing, and notes what happened.
    pub fn settle(&mut self) -> Result<(), Stuck> {
        self.cluster.settle()?;
        self.note();
        Ok(())
    }

    /// Lets time pass up to a moment of the story, and everything happen that is due meanwhile.
    pub fn advance(&mut self, to_ms: i64) -> Result<(), Stuck> {
        while let Some((at, _)) = self.due.keys().next().copied().filter(|(at, _)| *at <= to_ms) {
            self.wait_until(at)?;
            let mut changed = false;
            while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= at) {
                let due = entry.remove();
                changed |= self.happen(due)?;
            }
            if changed {
                self.settle()?;
            }
        }
        self.wait_until(to_ms)
    }

    /// The moment at which something of the story's or of the load is due next.
    pub fn next_due_ms(&self) -> Option<i64> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    fn wait_until(&mut self, at_ms: i64) -> Result<(), Stuck> {
        let passed = at_ms - self.at_ms();
        if passed > 0 {
            self.cluster.wait(Duration::from_millis(passed.unsigned_abs()))?;
            self.note();
        }
        Ok(())
    }

    /// Says whether the cluster must settle.
    fn happen(&mut self, due: Due) -> Result<bool, Stuck> {
        match due {
            Due::Resubmit { object, runs_ms } => {
                // A replay makes evicted pods anew by itself: this is not recorded.
                if let Ok(key) = key_of(&object) {
                    self.lives.insert(key, (object.clone(), runs_ms));
                }
                let _ = self.cluster.apply(object);
            }
            Due::End { pod, uid } => {
                let same = self.cluster.store().get(&pod).is_some_and(|object| object["metadata"]["uid"] == uid);
                if !same {
                    return Ok(false);
                }
                self.lives.remove(&pod);
                if self.records {
                    self.inputs.push(Input::Deleted { at_ms: self.at_ms(), key: pod.clone() });
                }
                let _ = self.cluster.delete(&pod);
            }
            Due::Chapter(index) => {
                self.told[index].begun = true;
                (story::CHAPTERS[index].act)(self);
            }
            Due::Outcome(index) => {
                let (as_told, text) = (story::CHAPTERS[index].outcome)(self);
                self.told[index].outcome = Some(text);
                self.told[index].as_told = as_told;
                return Ok(false);
            }
            Due::Preview => {
                self.preview = Some(story::preview(self));
                return Ok(false);
            }
            Due::Change => {
                for object in story::change(self) {
                    self.put(object, None);
                }
            }
            Due::Notebooks => self.notebooks(),
            Due::Jobs => self.jobs(),
        }
        Ok(true)
    }

    /// Small pods that come and go all the time.
    fn notebooks(&mut self) {
        let at_ms = self.at_ms();
        let number = self.counted;
        let mig = self.draw.between(0, 2) > 0;
        let team = if self.draw.between(0, 1) == 0 { "notebooks-a" } else { "notebooks-b" };
        let runs = self.draw.between(5, 40) * MINUTE_MS;
        let slices = self.draw.between(1, 3).to_string();
        let resource = if mig { "nvidia.com/mig-1g.10gb" } else { "nvidia.com/gpu.shared" };
        let mut requests = serde_json::json!({"cpu": "2", "memory": "8Gi"});
        requests[resource] = serde_json::json!(slices);
        self.submit(PodPlan::new(team, format!("notebook-{number}"), requests), runs);
        let pause = self.draw.between(10, 50) * 1000;
        self.schedule(at_ms + pause, Due::Notebooks);
    }

    /// After the story: jobs of all teams, so that borrowing and reclaiming go on.
    fn jobs(&mut self) {
        let (at_ms, number) = (self.at_ms(), self.counted);
        let size = if self.draw.between(0, 2) == 0 { 8 } else { 4 };
        let runs = self.draw.between(20, 90) * MINUTE_MS;
        match self.draw.between(0, 9) {
            team @ 0..=6 => {
                let team = if team < 4 { "vision" } else { "research" };
                let plan = PodPlan { pool: Some("a100"), ..PodPlan::new(team, format!("job-{number}"), gpus(size)) };
                self.submit(plan, runs);
            }
            7 => {
                let (queue, card) = (Some("speech"), Some(objects::H100));
                self.submit(
                    PodPlan { queue, card, ..PodPlan::new("speech", format!("job-{number}"), gpus(size)) },
                    runs,
                );
            }
            other => {
                let team = if other == 8 { "etl" } else { "reports" };
                let requests = serde_json::json!({"cpu": "64", "memory": "128Gi"});
                self.submit(PodPlan::new(team, format!("job-{number}"), requests), runs);
            }
        }
        let pause = self.draw.between(20, 70) * 1000;
        self.schedule(at_ms + pause, Due::Jobs);
    }

    /// Takes what happened: bound pods will end, evicted ones come again.
    fn note(&mut self) {
        let Happened { bound, evicted, .. } = self.cluster.take_happened();
        for bound in bound {
            let key = ObjectKey::pod(&bound.namespace, &bound.name);
            let Some((_, runs_ms)) = self.lives.get(&key) else { continue };
            let Some(object) = self.cluster.store().get(&key) else { continue };
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let started =
                time::parse_timestamp(text("/status/startTime")).map_or(self.at_ms(), |us| us / 1000 - self.start_ms);
            let (at_ms, uid) = (started + runs_ms, text("/metadata/uid").to_string());
            self.schedule(at_ms.max(self.at_ms()), Due::End { pod: key, uid });
        }
        for evicted in evicted {
            let key = ObjectKey::pod(&evicted.namespace, &evicted.name);
            let at_ms = self.cluster.now_us() / 1000;
            let eviction = Eviction {
                at_ms,
                namespace: Name::from(evicted.namespace.as_str()),
                name: Name::from(evicted.name.as_str()),
                claimant: evicted.claimant,
                rule: evicted.rule,
                message: evicted.message,
            };
            self.evictions.push(eviction.clone());
            self.evicted.push(eviction);
            if let Some((object, runs_ms)) = self.lives.get(&key).cloned() {
                self.schedule(self.at_ms() + RESUBMIT_MS, Due::Resubmit { object, runs_ms });
            }
        }
    }
}
