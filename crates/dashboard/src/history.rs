//! What was used, over the last hours, in bounded memory: one frame for each interval, the oldest dropped first.
//!
//! A frame holds exact integrals (cards times milliseconds) by team and card, so that hours over any span of frames are
//! exact, and the levels at its end. Amounts are kept by team so that a viewer's totals can leave others out.

use std::collections::{BTreeMap, VecDeque};

use crate::shared::Name;
use serde::Serialize;

use crate::journal::Eviction;
use crate::view::{Phase, View, is_gpu};
use crate::viewer::Viewer;

/// Frames that are kept: four hours at 20 seconds each.
pub const FRAMES_MAX: usize = 720;

/// Quotas that a frame remembers: those that use most. With three resources each, 720 frames hold some 60 MB at most.
const QUOTAS_MAX: usize = 200;

/// A team and a card.
type TeamCard = (Name, Name);

/// How a quota stood, of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaPoint {
    pub object: Name,
    pub resource: Name,
    pub used: i64,
    pub entitled: i64,
    pub guaranteed: i64,
    pub borrowed: i64,
}

/// An interval.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frame {
    pub from_ms: i64,
    pub to_ms: i64,
    gpu_ms: BTreeMap<TeamCard, i128>,
    used: BTreeMap<TeamCard, i64>,
    capacity: BTreeMap<Name, i64>,
    waiting: BTreeMap<(Name, &'static str), u32>,
    evicted: BTreeMap<Name, u32>,
    quotas: Vec<QuotaPoint>,
}

/// A frame as a viewer sees it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FrameAnswer {
    pub from_ms: i64,
    pub to_ms: i64,
    pub teams: BTreeMap<Name, i64>,
    pub cards: BTreeMap<Name, (i64, Option<i64>)>,
    pub waiting: BTreeMap<&'static str, u32>,
    pub evicted: u32,
    pub quotas: Vec<QuotaPoint>,
}

/// Cards in use and more over time, for plots: one value a frame in each list.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct SeriesAnswer {
    pub frame_ms: i64,
    pub at_ms: Vec<i64>,
    pub teams: BTreeMap<Name, Vec<f64>>,
    pub cards: BTreeMap<Name, Vec<f64>>,
    pub waiting: Vec<u32>,
    pub evicted: Vec<u32>,
}

/// One row of the table of hours.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HoursRow {
    pub team: Name,
    pub card: Name,
    pub gpu_hours: f64,
}

/// The last frames.
#[derive(Debug, Clone)]
pub struct History {
    frame_ms: i64,
    frames: VecDeque<Frame>,
    /// The one that is being filled.
    open: Option<Frame>,
}

impl History {
    /// A history with frames of this length.
    pub fn new(frame_ms: i64) -> Self {
        History { frame_ms: frame_ms.max(1), frames: VecDeque::new(), open: None }
    }

    /// Takes a view: what was the case before holds until its moment.
    pub fn observe(&mut self, view: &View, evictions: &[Eviction]) {
        let mut frame =
            self.open.take().unwrap_or_else(|| Frame { from_ms: view.at_ms, to_ms: view.at_ms, ..Frame::default() });
        while frame.to_ms < view.at_ms {
            let end = (frame.from_ms.div_euclid(self.frame_ms) + 1) * self.frame_ms;
            let until = end.min(view.at_ms);
            let passed = i128::from(until - frame.to_ms);
            for (key, level) in &frame.used {
                *frame.gpu_ms.entry(key.clone()).or_default() += i128::from(*level) * passed;
            }
            frame.to_ms = until;
            if until == end {
                let next = Frame {
                    from_ms: end,
                    to_ms: end,
                    gpu_ms: BTreeMap::new(),
                    evicted: BTreeMap::new(),
                    ..frame.clone()
                };
                if self.frames.len() == FRAMES_MAX {
                    self.frames.pop_front();
                }
                self.frames.push_back(std::mem::replace(&mut frame, next));
            }
        }
        for eviction in evictions {
            *frame.evicted.entry(eviction.namespace.clone()).or_default() += 1;
        }
        (frame.used, frame.waiting) = levels(view);
        frame.capacity = capacity(view);
        frame.quotas = quota_points(view);
        self.open = Some(frame);
    }

    /// Forgets everything after that moment.
    pub fn forget_after(&mut self, at_ms: i64) {
        self.frames.retain(|frame| frame.to_ms <= at_ms);
        self.open = self.frames.pop_back();
    }

    fn all(&self) -> impl Iterator<Item = &Frame> {
        self.frames.iter().chain(&self.open)
    }

    /// Levels over time, as the viewer may see them.
    pub fn series(&self, viewer: &Viewer) -> SeriesAnswer {
        let mut answer = SeriesAnswer { frame_ms: self.frame_ms, ..SeriesAnswer::default() };
        for (index, frame) in self.all().enumerate() {
            let length = (frame.to_ms - frame.from_ms) as f64;
            answer.at_ms.push(frame.from_ms);
            for ((team, card), level) in frame.used.iter().filter(|((team, _), _)| viewer.sees_namespace(team)) {
                // A frame that has just begun has no mean yet: what is in use stands for it.
                let held = frame.gpu_ms.get(&(team.clone(), card.clone())).copied().unwrap_or(0);
                let mean = if length > 0.0 { held as f64 / length } else { *level as f64 };
                add(&mut answer, index, team, card, mean);
            }
            let ended = frame.gpu_ms.iter().filter(|(key, _)| length > 0.0 && !frame.used.contains_key(*key));
            for ((team, card), held) in ended.filter(|((team, _), _)| viewer.sees_namespace(team)) {
                add(&mut answer, index, team, card, *held as f64 / length);
            }
            let waiting = frame.waiting.iter().filter(|((team, _), _)| viewer.sees_namespace(team));
            answer.waiting.push(waiting.map(|(_, count)| count).sum());
            let evicted = frame.evicted.iter().filter(|(team, _)| viewer.sees_namespace(team));
            answer.evicted.push(evicted.map(|(_, count)| count).sum());
        }
        let count = answer.at_ms.len();
        answer.teams.values_mut().chain(answer.cards.values_mut()).for_each(|list| list.resize(count, 0.0));
        answer
    }

    /// The frame at a moment, or the nearest one before it.
    pub fn at(&self, at_ms: i64, viewer: &Viewer) -> Option<FrameAnswer> {
        let frame = self.all().take_while(|frame| frame.from_ms <= at_ms).last().or_else(|| self.all().next())?;
        let mut teams: BTreeMap<Name, i64> = BTreeMap::new();
        let mut cards: BTreeMap<Name, (i64, Option<i64>)> = BTreeMap::new();
        if viewer.sees_nodes() {
            cards.extend(frame.capacity.iter().map(|(card, count)| (card.clone(), (0, Some(*count)))));
        }
        for ((team, card), used) in frame.used.iter().filter(|((team, _), _)| viewer.sees_namespace(team)) {
            *teams.entry(team.clone()).or_default() += used;
            cards.entry(card.clone()).or_default().0 += used;
        }
        let mut waiting: BTreeMap<&'static str, u32> = BTreeMap::new();
        for ((_, code), count) in frame.waiting.iter().filter(|((team, _), _)| viewer.sees_namespace(team)) {
            *waiting.entry(code).or_default() += count;
        }
        let evicted =
            frame.evicted.iter().filter(|(team, _)| viewer.sees_namespace(team)).map(|(_, count)| count).sum();
        let quotas = frame.quotas.iter().filter(|point| viewer.sees_quota(&point.object)).cloned().collect();
        Some(FrameAnswer { from_ms: frame.from_ms, to_ms: frame.to_ms, teams, cards, waiting, evicted, quotas })
    }

    /// Hours of cards by team and card between two moments, in whole frames.
    pub fn hours(&self, from_ms: i64, to_ms: i64, viewer: &Viewer) -> Vec<HoursRow> {
        let mut sums: BTreeMap<&TeamCard, i128> = BTreeMap::new();
        for frame in self.all().filter(|frame| frame.from_ms >= from_ms && frame.from_ms <= to_ms) {
            for (key, gpu_ms) in frame.gpu_ms.iter().filter(|((team, _), _)| viewer.sees_namespace(team)) {
                *sums.entry(key).or_default() += gpu_ms;
            }
        }
        let row = |((team, card), gpu_ms): (&TeamCard, i128)| HoursRow {
            team: team.clone(),
            card: card.clone(),
            gpu_hours: gpu_ms as f64 / 3_600_000.0,
        };
        sums.into_iter().map(row).collect()
    }

    /// One quota's levels over time: the moments, and one point each.
    pub fn quota(&self, object: &str, viewer: &Viewer) -> Vec<(i64, Vec<QuotaPoint>)> {
        if !viewer.sees_quota(object) {
            return Vec::new();
        }
        let points = |frame: &Frame| frame.quotas.iter().filter(|point| &*point.object == object).cloned().collect();
        self.all().map(|frame| (frame.to_ms, points(frame))).collect()
    }
}

/// The table of hours as CSV. A name that a spreadsheet would take for a formula is quoted with an apostrophe.
pub fn csv(rows: &[HoursRow]) -> String {
    let cell = |text: &str| {
        let text = if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text.to_string() };
        if text.contains([',', '"', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
    };
    let mut out = String::from("team,card,gpu_hours\n");
    for HoursRow { team, card, gpu_hours } in rows {
        out.push_str(&format!("{},{},{gpu_hours:.4}\n", cell(team), cell(card)));
    }
    out
}

/// Adds to a team's and a card's value of one frame.
fn add(answer: &mut SeriesAnswer, index: usize, team: &Name, card: &Name, mean: f64) {
    for (lists, name) in [(&mut answer.teams, team), (&mut answer.cards, card)] {
        let list = lists.entry(name.clone()).or_default();
        list.resize(index + 1, 0.0);
        list[index] += mean;
    }
}

type Levels = (BTreeMap<TeamCard, i64>, BTreeMap<(Name, &'static str), u32>);

fn levels(view: &View) -> Levels {
    let (mut used, mut waiting) = (BTreeMap::new(), BTreeMap::new());
    for pod in &view.pods {
        match pod.phase {
            Phase::Running | Phase::Terminating if pod.gpus > 0 && pod.started_ms.is_some() => {
                let card = Name::from(pod.card.as_deref().unwrap_or("unknown"));
                *used.entry((pod.namespace.clone(), card)).or_default() += pod.gpus;
            }
            Phase::Pending => {
                let code = pod.why.as_ref().map_or("New", |why| why.code);
                *waiting.entry((pod.namespace.clone(), code)).or_default() += 1;
            }
            _ => {}
        }
    }
    (used, waiting)
}

fn capacity(view: &View) -> BTreeMap<Name, i64> {
    let mut capacity = BTreeMap::new();
    for (card, count) in view.nodes.iter().flat_map(|node| &node.cards) {
        *capacity.entry(card.clone()).or_default() += count;
    }
    capacity
}

fn quota_points(view: &View) -> Vec<QuotaPoint> {
    let mut points: Vec<QuotaPoint> = Vec::new();
    for quota in &view.quotas {
        let worth = |resource: &str| is_gpu(resource) || resource == "cpu" || !resource.contains('/');
        for (resource, amounts) in quota.resources.iter().filter(|(resource, _)| worth(resource)) {
            points.push(QuotaPoint {
                object: quota.object.clone(),
                resource: resource.clone(),
                used: amounts.used,
                entitled: amounts.entitled,
                guaranteed: amounts.guaranteed.unwrap_or(0),
                borrowed: amounts.borrowed,
            });
        }
    }
    if view.quotas.len() > QUOTAS_MAX {
        points.sort_by(|a, b| b.used.cmp(&a.used).then(a.object.cmp(&b.object)));
        points.truncate(3 * QUOTAS_MAX);
    }
    points
}
