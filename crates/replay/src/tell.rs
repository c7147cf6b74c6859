//! Figures as tables: what the terminal prints and the page shows.

use crate::figures::Figures;
use crate::measure::Waits;

/// A table with a title. Columns after the first `left` are numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sheet {
    pub title: &'static str,
    pub columns: Vec<String>,
    /// How many columns hold names.
    pub left: usize,
    pub rows: Vec<Vec<String>>,
}

/// All tables for one configuration, or for two side by side.
pub fn sheets(all: &[Figures]) -> Vec<Sheet> {
    vec![summary(all), by_team(all), by_card(all), by_rule(all), by_forecast(all)]
}

fn summary(all: &[Figures]) -> Sheet {
    type Show = fn(&Figures) -> String;
    let rows: [(&str, Show); 15] = [
        ("Pods submitted", |f| grouped(f.pods.submitted)),
        ("Pods rejected", |f| grouped(f.pods.rejected)),
        ("Pods started", |f| grouped(f.pods.started)),
        ("Pods never started", |f| grouped(f.pods.never_started)),
        ("Wait, median", |f| duration(f.waits.p50_ms)),
        ("Wait, p90", |f| duration(f.waits.p90_ms)),
        ("Wait, p99", |f| duration(f.waits.p99_ms)),
        ("Wait, longest", |f| duration(f.waits.max_ms)),
        ("GPU use, mean", |f| percent(f.gpu_use)),
        ("GPU-hours used", |f| hours(f.gpu_hours)),
        ("Fragmentation of free GPUs, mean", |f| percent(f.fragmentation)),
        ("Fairness (Jain), mean", |f| f.fairness.map_or("-".into(), |fairness| format!("{:.3}", fairness.mean))),
        ("Fairness (Jain), lowest", |f| f.fairness.map_or("-".into(), |fairness| format!("{:.3}", fairness.lowest))),
        ("Evictions", |f| grouped(f.evictions)),
        ("GPU-hours lost to eviction", |f| hours(f.gpu_hours_lost)),
    ];
    let mut columns = vec!["MEASURE".to_string()];
    columns.extend(all.iter().map(|figures| figures.configuration.clone()));
    let row = |(name, show): &(&str, Show)| {
        let mut row = vec![(*name).to_string()];
        row.extend(all.iter().map(show));
        row
    };
    Sheet { title: "Summary", columns, left: 1, rows: rows.iter().map(row).collect() }
}

/// Rows of a thing that every configuration has; the configuration is named where there are two.
fn side_by_side(
    all: &[Figures],
    title: &'static str,
    names: &[&str],
    cells: impl Fn(&Figures) -> Vec<(String, Vec<String>)>,
) -> Sheet {
    let two = all.len() > 1;
    let mut columns: Vec<String> = vec![names[0].to_string()];
    columns.extend(two.then(|| "CONFIGURATION".to_string()));
    columns.extend(names[1..].iter().map(|name| (*name).to_string()));
    let mut rows: Vec<(String, usize, Vec<String>)> = Vec::new();
    for (index, figures) in all.iter().enumerate() {
        for (name, cells) in cells(figures) {
            let mut row = vec![name.clone()];
            row.extend(two.then(|| figures.configuration.clone()));
            row.extend(cells);
            rows.push((name, index, row));
        }
    }
    rows.sort();
    Sheet { title, columns, left: if two { 2 } else { 1 }, rows: rows.into_iter().map(|(_, _, row)| row).collect() }
}

fn by_team(all: &[Figures]) -> Sheet {
    let names = ["TEAM", "PODS", "WAIT P50", "P90", "P99", "LONGEST", "GPU-HOURS", "EVICTED", "GPU-HOURS LOST"];
    side_by_side(all, "Teams", &names, |figures| {
        let cells = figures.teams.iter().map(|team| {
            let Waits { p50_ms, p90_ms, p99_ms, max_ms } = team.waits;
            let mut cells = vec![grouped(team.pods)];
            cells.extend([p50_ms, p90_ms, p99_ms, max_ms].map(duration));
            cells.extend([hours(team.gpu_hours), grouped(team.evicted), hours(team.gpu_hours_lost)]);
            (team.name.clone(), cells)
        });
        cells.collect()
    })
}

fn by_card(all: &[Figures]) -> Sheet {
    side_by_side(all, "Cards", &["CARD", "COUNT", "USE, MEAN", "MOST IN USE", "GPU-HOURS"], |figures| {
        let cells = figures.cards.iter().map(|card| {
            let cells = vec![
                grouped(card.count.unsigned_abs()),
                percent(card.used),
                grouped(card.used_max.unsigned_abs()),
                hours(card.gpu_hours),
            ];
            (card.name.clone(), cells)
        });
        cells.collect()
    })
}

fn by_rule(all: &[Figures]) -> Sheet {
    side_by_side(all, "Evictions by rule", &["RULE", "EVICTIONS"], |figures| {
        figures.evictions_by_rule.iter().map(|(rule, count)| (rule.clone(), vec![grouped(*count)])).collect()
    })
}

/// How often forecasts of starts held; empty where none were asked for.
fn by_forecast(all: &[Figures]) -> Sheet {
    let names = ["INTERVAL", "ASKED", "UNKNOWN", "INSIDE", "EARLY", "LATE", "COVERAGE", "WIDTH P50"];
    side_by_side(all, "Forecasts of starts", &names, |figures| {
        let cells = figures.forecasts.map(|coverage| {
            let counts = [coverage.asked, coverage.unknown, coverage.inside, coverage.early, coverage.late];
            let mut cells: Vec<String> = counts.iter().map(|count| grouped(*count as u64)).collect();
            cells.push(percent(coverage.coverage));
            cells.push(duration((coverage.width_p50_seconds * 1000.0) as u64));
            ("start".to_string(), cells)
        });
        cells.into_iter().collect()
    })
}

/// `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A duration in its two largest units: `3d 4h`, `12m 5s`, `850ms`.
pub fn duration(ms: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let Some(at) = UNITS.iter().position(|(size, _)| ms >= *size) else {
        return if ms == 0 { "0s".into() } else { format!("{ms}ms") };
    };
    let (size, unit) = UNITS[at];
    match UNITS.get(at + 1).map(|(next, name)| (ms % size / next, name)) {
        Some((rest, name)) if rest > 0 => format!("{}{unit} {rest}{name}", ms / size),
        _ => format!("{}{unit}", ms / size),
    }
}

/// `12.3 %`; what is more than nothing is not shown as nothing.
pub fn percent(part: f64) -> String {
    if part > 0.0 && part < 0.0005 { "<0.1 %".into() } else { format!("{:.1} %", part * 100.0) }
}

fn hours(hours: f64) -> String {
    if hours >= 100.0 { grouped(hours.round() as u64) } else { format!("{hours:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        for (number, shown) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), shown);
        }
    }

    #[test]
    fn durations_have_their_two_largest_units() {
        for (ms, shown) in
            [(0, "0s"), (850, "850ms"), (1000, "1s"), (725_000, "12m 5s"), (3_600_000, "1h"), (273_600_000, "3d 4h")]
        {
            assert_eq!(duration(ms), shown);
        }
    }
}
