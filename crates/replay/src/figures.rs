//! The figures of a replay: what came of a trace under one configuration.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::books::Books;
use crate::forecasts::Coverage;
use crate::measure::{LevelId, Waits};
use crate::trace::Trace;
use crate::world::Counts;

const MS_PER_HOUR: f64 = 3_600_000.0;

/// Field names are a contract with whoever reads the JSON. Hours are of one card in use.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    pub trace: String,
    pub configuration: String,
    pub notes: Vec<String>,
    /// From the first moment of the trace to the end of the last pod.
    pub span_seconds: f64,
    pub pods: Pods,
    pub waits: Waits,
    pub teams: Vec<Team>,
    pub cards: Vec<Card>,
    /// Mean part of all cards that is in use, from 0 to 1.
    pub gpu_use: f64,
    /// Mean part of the free cards that the most frequent requests cannot use, from 0 to 1.
    pub fragmentation: f64,
    /// Jain's index of what quotas use of what they are entitled to and want; without two quotas there is none.
    pub fairness: Option<Fairness>,
    pub evictions: u64,
    pub evictions_by_rule: BTreeMap<String, u64>,
    pub gpu_hours: f64,
    pub gpu_hours_lost: f64,
    /// How often forecasts of starts held, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forecasts: Option<Coverage>,
    pub series: Series,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pods {
    pub submitted: u64,
    pub rejected: u64,
    pub started: u64,
    pub finished: u64,
    pub never_started: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Team {
    pub name: String,
    pub pods: u64,
    pub waits: Waits,
    pub gpu_hours: f64,
    pub evicted: u64,
    pub gpu_hours_lost: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Card {
    pub name: String,
    /// The most that there were.
    pub count: i64,
    pub gpu_hours: f64,
    /// Mean part in use, from 0 to 1.
    #[serde(rename = "use")]
    pub used: f64,
    pub used_max: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fairness {
    pub mean: f64,
    pub lowest: f64,
}

/// Means over time, one value for each interval of `width_seconds`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Series {
    pub width_seconds: f64,
    pub waiting: Vec<f64>,
    pub cards: Vec<(String, Vec<f64>)>,
    pub teams: Vec<(String, Vec<f64>)>,
    pub fragmentation: Vec<f64>,
    /// Empty where there is no fairness to speak of.
    pub fairness: Vec<Option<f64>>,
}

pub(crate) fn of(trace: &Trace, label: &str, end_ms: u64, books: &Books, counts: &Counts) -> Figures {
    let levels = &books.levels;
    let hours = |id: LevelId| levels.total(id) as f64 / MS_PER_HOUR;
    let part = |of: LevelId, all: LevelId| match levels.total(all) {
        0 => 0.0,
        all => levels.total(of) as f64 / all as f64,
    };
    let mut teams: Vec<Team> = books
        .teams
        .iter()
        .map(|team| Team {
            name: team.name.to_string(),
            pods: team.pods,
            waits: Waits::of(team.waits_ms.clone()),
            gpu_hours: hours(team.used),
            evicted: team.evicted,
            gpu_hours_lost: team.lost_gpu_ms as f64 / MS_PER_HOUR,
        })
        .collect();
    teams.sort_by(|a, b| a.name.cmp(&b.name));
    let mut cards: Vec<Card> = books
        .cards
        .iter()
        .map(|card| Card {
            name: card.name.to_string(),
            count: levels.highest(card.capacity),
            gpu_hours: hours(card.used),
            used: part(card.used, card.capacity),
            used_max: levels.highest(card.used),
        })
        .collect();
    cards.sort_by(|a, b| a.name.cmp(&b.name));
    let all_waits = books.teams.iter().flat_map(|team| team.waits_ms.iter().copied()).collect();
    let capacity: i128 = books.cards.iter().map(|card| levels.total(card.capacity)).sum();
    let used: i128 = books.cards.iter().map(|card| levels.total(card.used)).sum();
    let known = levels.total(books.fairness_known);
    let fairness = (known > 0).then(|| Fairness {
        mean: levels.total(books.fairness) as f64 / known as f64 / 1e6,
        lowest: books.fairness_lowest.unwrap_or(0) as f64 / 1e6,
    });
    let mut notes = trace.notes.clone();
    if let Some(message) = &counts.first_rejection {
        notes.push(format!("{} objects were rejected; the first: {message}", counts.rejected));
    }
    Figures {
        trace: trace.name.clone(),
        configuration: label.to_string(),
        notes,
        span_seconds: end_ms as f64 / 1000.0,
        pods: Pods {
            submitted: counts.submitted,
            rejected: counts.rejected,
            started: books.teams.iter().map(|team| team.waits_ms.len() as u64).sum::<u64>() - counts.never_started,
            finished: counts.finished,
            never_started: counts.never_started,
        },
        waits: Waits::of(all_waits),
        teams,
        cards,
        gpu_use: if capacity == 0 { 0.0 } else { used as f64 / capacity as f64 },
        fragmentation: levels.total(books.fragmentation) as f64 / 1e6 / end_ms.max(1) as f64,
        fairness,
        evictions: counts.evicted_by_rule.values().sum(),
        evictions_by_rule: counts.evicted_by_rule.iter().map(|(rule, count)| ((*rule).to_string(), *count)).collect(),
        gpu_hours: used as f64 / MS_PER_HOUR,
        gpu_hours_lost: books.teams.iter().map(|team| team.lost_gpu_ms).sum::<u128>() as f64 / MS_PER_HOUR,
        forecasts: None,
        series: series(books),
    }
}

fn series(books: &Books) -> Series {
    let levels = &books.levels;
    let millionths = |id: LevelId| levels.means(id).into_iter().map(|mean| mean / 1e6).collect::<Vec<_>>();
    let mut cards: Vec<_> = books.cards.iter().map(|card| (card.name.to_string(), levels.means(card.used))).collect();
    cards.sort_by(|a, b| a.0.cmp(&b.0));
    let mut teams: Vec<_> = books.teams.iter().map(|team| (team.name.to_string(), levels.means(team.used))).collect();
    teams.sort_by(|a, b| a.0.cmp(&b.0));
    let fairness = levels.means(books.fairness).into_iter().zip(levels.means(books.fairness_known));
    Series {
        width_seconds: levels.width_ms() as f64 / 1000.0,
        waiting: levels.means(books.waiting),
        cards,
        teams,
        fragmentation: millionths(books.fragmentation),
        fairness: fairness.map(|(sum, known)| (known > 0.0).then(|| sum / known / 1e6)).collect(),
    }
}
