//! What the figures should be, and whether they are.

use std::fmt::Write;

use serde_json::Value;

use crate::page::number;

/// A figure beside what is wanted of it.
struct Goal {
    what: String,
    wanted: String,
    measured: String,
    is_met: bool,
}

/// A figure of a case; `None` where the case did not run, or failed.
fn figure(cases: &Value, case: &str, field: &str) -> Option<f64> {
    cases[case][field].as_f64()
}

const LIMIT_1000: &str = "limit, 1,000 nodes, an Event each";
const FILL_1000: &str = "fill, 1,000 nodes, 20 elastic quotas";
const LIMIT_5000: &str = "limit, 5,000 nodes, an Event each";
const RUSH_LIMIT: &str = "rush, limit, a bind and an Event each";
const FILL_5000: &str = "fill, 5,000 nodes, 50 elastic quotas";

/// A rate beside another case's, of pods until all is written: what, the case, the other, and how many hundredths of
/// the other it should be. Where
/// the API server alone does not reach that, its rate is shown too.
const RATES: &[(&str, &str, &str, u32)] = &[
    ("1,000 nodes, 20 quotas: rate over the limit with an Event each", FILL_1000, LIMIT_1000, 92),
    ("1,000 nodes, 20 quotas: rate over kube-scheduler's", FILL_1000, "fill, 1,000 nodes, kube-scheduler", 330),
    ("1,000 quotas: rate over that with 20", "fill, 1,000 nodes, 1,000 elastic quotas", FILL_1000, 91),
    ("20 queues with PodGroups: rate over that with elastic quotas", "fill, 1,000 nodes, 20 queues", FILL_1000, 91),
    ("20 tree quotas: rate over that with elastic quotas", "fill, 1,000 nodes, 20 tree quotas", FILL_1000, 91),
    ("5,000 nodes, 50 quotas: rate over the limit with an Event each", FILL_5000, LIMIT_5000, 85),
    ("rush of 32 writers: rate over their own with a bind and an Event each", "rush, Quotient", RUSH_LIMIT, 95),
];

/// What a figure may be at most: what, the case, the field, the most, its unit.
const MOSTS: &[(&str, &str, &str, f64, &str)] = &[
    ("1,000 nodes, 20 quotas: CPU for 1,000 pods", FILL_1000, "cpu_s_per_1000", 0.15, "s"),
    ("1,000 nodes, 20 quotas: peak memory", FILL_1000, "peak_mib", 50.0, "MiB"),
    ("5,000 nodes, 50 quotas: CPU for 1,000 pods", FILL_5000, "cpu_s_per_1000", 0.35, "s"),
    ("5,000 nodes, 50 quotas: peak memory", FILL_5000, "peak_mib", 120.0, "MiB"),
    ("rush of 32 writers: creation to bind, 99 %", "rush, Quotient", "p99_ms", 250.0, "ms"),
    ("400 pods reclaim from 400: until all are bound", "reclaim, Quotient", "seconds", 2.0, "s"),
    ("400 pods reclaim from 400: victims", "reclaim, Quotient", "victims", 400.0, "pods"),
    ("5,000 nodes and 500 pending shapes, idle", "idle, Quotient", "core_percent", 2.0, "% of a core"),
    ("start with 50,000 pods: first bind over a listing", "start-up, 50,000 pods, Quotient", "ratio", 1.5, "times"),
    ("15,000 nodes and 150,000 pods: peak memory", "start-up, 150,000 pods, Quotient", "peak_mib", 700.0, "MiB"),
    ("simulate openb", "simulate, openb, YAML", "seconds", 1.0, "s"),
    ("simulate openb: peak memory", "simulate, openb, YAML", "peak_mib", 150.0, "MiB"),
    ("simulate 100 MB of pods", "simulate, 100 MB of pods, JSON", "seconds", 5.0, "s"),
    ("simulate 100 MB of pods: peak memory", "simulate, 100 MB of pods, JSON", "peak_mib", 600.0, "MiB"),
    ("simulate a Deployment of 8,000", "simulate, 8,000 replicas, YAML", "seconds", 0.5, "s"),
];

fn goals(cases: &Value) -> Vec<Goal> {
    let rates = RATES.iter().filter_map(|(what, case, other, hundredths)| {
        let over = |case| Some(figure(cases, case, "written_per_s")? / figure(cases, other, "written_per_s")?);
        let (wanted, measured) = (f64::from(*hundredths) / 100.0, over(case)?);
        let (what, is_met) = ((*what).to_string(), measured >= wanted);
        let limit = match *case {
            case if case.starts_with("rush") => RUSH_LIMIT,
            case if case.contains("5,000 nodes") => LIMIT_5000,
            _ => LIMIT_1000,
        };
        let measured = match over(limit).filter(|limit| *limit < wanted) {
            Some(limit) => format!("{measured:.2} (the limit: {limit:.2})"),
            None => format!("{measured:.2}"),
        };
        Some(Goal { what, wanted: format!("≥ {wanted:.2}"), measured, is_met })
    });
    let mosts = MOSTS.iter().filter_map(|(what, case, field, most, unit)| {
        let measured = figure(cases, case, field)?;
        let with_unit = |value: f64| format!("{} {unit}", number(&value.into()));
        let (what, is_met) = ((*what).to_string(), measured <= *most);
        Some(Goal { what, wanted: format!("≤ {}", with_unit(*most)), measured: with_unit(measured), is_met })
    });
    rates.chain(mosts).collect()
}

/// The goals that the cases which ran bear on, as a table.
pub fn table(report: &Value) -> String {
    let goals = goals(&report["cases"]);
    // What was measured at a tenth of the size says nothing about goals.
    if goals.is_empty() || report["quick"] == true {
        return String::new();
    }
    let mut text = "## Goals\n\n| goal | wanted | measured | |\n|---|---|---|---|\n".to_string();
    for Goal { what, wanted, measured, is_met } in goals {
        let verdict = if is_met { "met" } else { "**missed**" };
        let _ = writeln!(text, "| {what} | {wanted} | {measured} | {verdict} |");
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn goals_compare_what_was_measured_and_leave_out_what_was_not() {
        let cases = json!({
            LIMIT_1000: {"written_per_s": 1000.0},
            FILL_1000: {"written_per_s": 890.0, "cpu_s_per_1000": 0.15, "peak_mib": 51.0},
            "fill, 1,000 nodes, kube-scheduler": {"written_per_s": 400.0},
            "reclaim, Quotient": {"failed": "no"},
        });
        let verdicts: Vec<(String, bool)> = goals(&cases).into_iter().map(|g| (g.measured, g.is_met)).collect();
        let over_kube = "2.23 (the limit: 2.50)";
        let expected = [("0.89", false), (over_kube, false), ("0.15 s", true), ("51.00 MiB", false)];
        assert_eq!(verdicts, expected.map(|(measured, is_met)| (measured.to_string(), is_met)));
    }
}
