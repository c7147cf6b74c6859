//! How often forecasts of starts hold: pods of the trace that become pending are asked about, with what is known then,
//! and each answer is compared with what came.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use quotient_engine::Engine;
use quotient_engine::fact::{PodSpec, Tick};
use quotient_sim::forecast::{Forecast, History, Life, Running, Window};
use serde::Serialize;

use crate::world::{Job, Place};

/// Pods that are expected to run alike: of one team, and with the same spec.
type Kind = (usize, Arc<PodSpec>);

/// How often forecasts were right. Field names are a contract with whoever reads the JSON.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Coverage {
    /// Pods that were asked about and started later.
    pub asked: usize,
    /// Of these, those whose start was said to be unknown.
    pub unknown: usize,
    /// Of the others, those that started within the interval, before it and after it.
    pub inside: usize,
    pub early: usize,
    pub late: usize,
    /// The part of the answers that held, from 0 to 1.
    pub coverage: f64,
    /// How long the intervals were.
    pub width_p50_seconds: f64,
}

/// What was asked, and what is known of how long pods run.
#[derive(Debug, Default)]
pub(crate) struct Forecasts {
    /// One in so many pods is asked about; 0 for none.
    every: usize,
    seen: usize,
    /// Pods that were just submitted and are to be asked about if they wait.
    fresh: Vec<usize>,
    ended: HashMap<Kind, Vec<u64>>,
    ended_of_team: BTreeMap<usize, Vec<u64>>,
    open: BTreeMap<usize, (u64, Option<Window>)>,
    answers: Vec<(u64, Option<Window>)>,
}

impl Forecasts {
    /// About this many of the pods of a trace are asked about.
    pub fn new(count: usize, pods: usize) -> Self {
        let every = pods.checked_div(count).map_or(0, |every| every.max(1));
        Forecasts { every, ..Forecasts::default() }
    }

    pub fn submitted(&mut self, job: usize) {
        self.seen += 1;
        if self.every > 0 && self.seen.is_multiple_of(self.every) {
            self.fresh.push(job);
        }
    }

    pub fn ended(&mut self, team: usize, spec: &Arc<PodSpec>, ran_ms: u64) {
        if self.every > 0 {
            self.ended.entry((team, spec.clone())).or_default().push(ran_ms);
            self.ended_of_team.entry(team).or_default().push(ran_ms);
        }
    }

    /// A pod starts.
    pub fn started(&mut self, job: usize, now_ms: u64) {
        if let Some((asked_ms, window)) = self.open.remove(&job) {
            self.answers.push((now_ms - asked_ms, window));
        }
    }

    /// A pod is deleted before it starts: what was said of it is neither right nor wrong.
    pub fn left(&mut self, job: usize) {
        self.open.remove(&job);
    }

    /// Asks about the pods that were just submitted and wait.
    pub fn ask(&mut self, engine: &Engine, now: Tick, now_ms: u64, jobs: &[Job], alive: impl Iterator<Item = usize>) {
        let fresh: Vec<usize> =
            std::mem::take(&mut self.fresh).into_iter().filter(|job| jobs[*job].place == Place::Waiting).collect();
        if fresh.is_empty() {
            return;
        }
        let alive: Vec<usize> = alive.collect();
        let mut running_for: HashMap<Kind, Vec<u64>> = HashMap::new();
        let mut running_of_team: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for job in alive.iter().map(|job| &jobs[*job]) {
            if let Place::Running { since_ms, .. } = job.place {
                running_for.entry((job.team, job.fact.spec.clone())).or_default().push(now_ms - since_ms);
                running_of_team.entry(job.team).or_default().push(now_ms - since_ms);
            }
        }
        let none = Vec::new();
        let mut histories: HashMap<Kind, Option<Arc<History>>> = HashMap::new();
        let mut of_teams: BTreeMap<usize, Option<Arc<History>>> = BTreeMap::new();
        let (mut running, mut pending) = (Vec::new(), BTreeMap::new());
        for job in alive.iter().map(|job| &jobs[*job]) {
            let kind = (job.team, job.fact.spec.clone());
            let of_team = of_teams.entry(job.team).or_insert_with(|| {
                let ended = self.ended_of_team.get(&job.team).unwrap_or(&none);
                History::of(ended, running_of_team.get(&job.team).unwrap_or(&none)).map(Arc::new)
            });
            let history = histories.entry(kind).or_insert_with_key(|kind| {
                let ended = self.ended.get(kind).unwrap_or(&none);
                let own = History::of(ended, running_for.get(kind).unwrap_or(&none)).map(Arc::new);
                own.or_else(|| of_team.clone())
            });
            let Some(history) = history.clone() else { continue };
            let life = Life::Like { history, at_most: None };
            match job.place {
                Place::Running { since_ms, .. } => {
                    running.push(Running { pod: job.fact.key(), ran_ms: now_ms - since_ms, life });
                }
                Place::Waiting => {
                    pending.insert(job.fact.key(), life);
                }
                Place::Over => {}
            }
        }
        let forecast = Forecast { engine, now, running, pending };
        for job in fresh {
            self.open.insert(job, (now_ms, forecast.start_of(&jobs[job].fact.key())));
        }
    }

    /// How often the answers held; `None` where nothing was asked.
    pub fn coverage(&self) -> Option<Coverage> {
        if self.every == 0 {
            return None;
        }
        let said: Vec<(u64, Window)> = self.answers.iter().filter_map(|(came, said)| Some((*came, (*said)?))).collect();
        let early = said.iter().filter(|(came, window)| *came < window.earliest_ms).count();
        let late = said.iter().filter(|(came, window)| *came > window.latest_ms).count();
        let mut widths: Vec<u64> = said.iter().map(|(_, window)| window.latest_ms - window.earliest_ms).collect();
        widths.sort_unstable();
        let inside = said.len() - early - late;
        Some(Coverage {
            asked: self.answers.len(),
            unknown: self.answers.len() - said.len(),
            inside,
            early,
            late,
            coverage: inside as f64 / said.len().max(1) as f64,
            width_p50_seconds: widths.get(widths.len() / 2).map_or(0.0, |ms| *ms as f64 / 1000.0),
        })
    }
}
