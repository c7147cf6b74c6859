//! What the figures should be, and whether they are.

use serde::Serialize;

use super::case::{Case, Figures};
use super::workload::System;
use quotient_replay::tell::grouped;

/// A figure beside its goal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Goal {
    pub goal: &'static str,
    pub wanted: String,
    pub measured: String,
    pub met: bool,
}

/// What is wanted of a case's median time, in nanoseconds.
type MedianGoal = (&'static str, fn(&Case) -> bool, u64);

/// The goals that the figures bear on; those whose case did not run are left out.
pub fn goals(figures: &[Figures]) -> Vec<Goal> {
    let few = |f: &&Figures, wanted: u32| matches!(f.case, Case::Plain { nodes, shapes: ..=50, .. } if nodes == wanted);
    let plain = |wanted: u32| figures.iter().find(|f| few(f, wanted));
    let find = |test: fn(&Case) -> bool| figures.iter().find(|f| test(&f.case));
    let mut goals = Vec::new();
    if let Some(f) = plain(5000) {
        goals.push(rate("decisions/s at 5,000 nodes, pods of a few shapes", f, 50_000));
    }
    if let Some(f) = find(|case| matches!(case, Case::Plain { nodes: 5000, shapes: 5000, .. })) {
        goals.push(rate("decisions/s at 5,000 nodes, pods of 5,000 shapes", f, 40_000));
    }
    if let Some(f) = find(|case| matches!(case, Case::Different { nodes: 5000, .. })) {
        goals.push(rate("decisions/s at 5,000 nodes, all pods different", f, 10_000));
    }
    if let (Some(small), Some(large)) = (plain(1000), plain(15_000)) {
        let hundredths = ratio_hundredths(small, large);
        goals.push(Goal {
            goal: "cost of a decision at 15,000 nodes over 1,000 nodes",
            wanted: "<= 3.00x".into(),
            measured: times(hundredths),
            met: complete(small) && complete(large) && hundredths <= 300,
        });
    }
    if let Some(f) = find(|case| matches!(case, Case::Memory { nodes: 15_000, pods: 200_000, .. })) {
        let peak = f.memory.peak_bytes;
        goals.push(Goal {
            goal: "peak memory with 15,000 nodes and 200,000 pods",
            wanted: "< 1,024 MiB".into(),
            measured: peak.map_or("unknown".into(), mebibytes),
            met: complete(f) && peak.is_some_and(|bytes| bytes < 1 << 30),
        });
    }
    let verdicts: Vec<&Figures> =
        figures.iter().filter(|f| matches!(f.case, Case::Verdict { nodes: 5000, .. })).collect();
    if !verdicts.is_empty() {
        let slowest = verdicts.iter().filter_map(|f| f.median_ns).max();
        goals.push(Goal {
            goal: "time to say why a pod of a new shape cannot run at 5,000 nodes, slowest median",
            wanted: "< 1,000 us".into(),
            measured: slowest.map_or("unknown".into(), microseconds),
            met: verdicts.iter().all(|f| complete(f)) && slowest.is_some_and(|ns| ns < 1_000_000),
        });
    }
    for (system, goal) in [
        (System::Pooled, "cost of a decision with 1,000 quotas over 10, 50,000 pods running"),
        (System::Fair, "cost of a decision with 1,000 fair quotas over 10, 50,000 pods running"),
        (System::Queue, "cost of a decision with 1,000 queues over 10, 50,000 pods running"),
    ] {
        let with = |wanted: u32| {
            let is = |f: &&Figures| match f.case {
                Case::Quotas { running: 50_000, quotas, system: s, .. } => (quotas, s) == (wanted, system),
                _ => false,
            };
            figures.iter().find(is)
        };
        if let (Some(few), Some(many)) = (with(10), with(1000)) {
            let hundredths = ratio_hundredths(few, many);
            goals.push(Goal {
                goal,
                wanted: "<= 1.50x".into(),
                measured: times(hundredths),
                met: complete(few) && complete(many) && hundredths <= 150,
            });
        }
    }
    let reclaims: Vec<&Figures> =
        figures.iter().filter(|f| matches!(f.case, Case::Reclaim { nodes: 5000, .. })).collect();
    if !reclaims.is_empty() {
        let done = reclaims.iter().all(|f| complete(f));
        let median = reclaims.iter().filter_map(|f| f.median_ns).max();
        let longest = reclaims.iter().filter_map(|f| f.longest_ns).max();
        for (goal, slowest) in [
            ("time to reclaim for one pod at 5,000 nodes, slowest median", median),
            ("time to reclaim for one pod at 5,000 nodes, longest of all", longest),
        ] {
            goals.push(Goal {
                goal,
                wanted: "< 5,000 us".into(),
                measured: slowest.map_or("unknown".into(), microseconds),
                met: done && slowest.is_some_and(|ns| ns < 5_000_000),
            });
        }
    }
    let medians: [MedianGoal; 4] = [
        (
            "time for one pod under 10,000 quotas of a tree of five levels, median",
            |case| matches!(case, Case::Tree { quotas: 10_000, levels: 5, .. }),
            50_000,
        ),
        (
            "time for one pod under 2,000 quotas of one parent, median",
            |case| matches!(case, Case::Tree { quotas: 2000, levels: 1, .. }),
            2_000_000,
        ),
        (
            "time to place a gang of 512 pods on 5,000 nodes, median",
            |case| matches!(case, Case::Gang { nodes: 5000, size: 512, .. }),
            50_000_000,
        ),
        (
            "time to say why a gang of 80 GPUs cannot run at 5,000 nodes, median",
            |case| matches!(case, Case::GangVerdict { nodes: 5000, size: 80, .. }),
            5_000_000,
        ),
    ];
    for (goal, is_case, wanted) in medians {
        if let Some(f) = find(is_case) {
            goals.push(Goal {
                goal,
                wanted: format!("< {} us", grouped(wanted / 1000)),
                measured: f.median_ns.map_or("unknown".into(), microseconds),
                met: complete(f) && f.median_ns.is_some_and(|ns| ns < wanted),
            });
        }
    }
    let alls: Vec<&Figures> =
        figures.iter().filter(|f| matches!(f.case, Case::ReclaimAll { nodes: 500, pods: 4000, .. })).collect();
    if !alls.is_empty() {
        let done = alls.iter().all(|f| complete(f));
        let slowest = alls.iter().map(|f| f.decide_ns).max().unwrap_or(0);
        goals.push(Goal {
            goal: "4,000 pods reclaim from 4,000 on 500 nodes, time to decide altogether",
            wanted: "< 2,000 ms".into(),
            measured: format!("{} ms", grouped(slowest / 1_000_000)),
            met: done && slowest < 2_000_000_000,
        });
        let peak =
            alls.iter().map(|f| f.memory.peak_bytes).collect::<Option<Vec<_>>>().and_then(|p| p.into_iter().max());
        goals.push(Goal {
            goal: "4,000 pods reclaim from 4,000 on 500 nodes, peak memory",
            wanted: "< 300 MB".into(),
            measured: peak.map_or("unknown".into(), mebibytes),
            met: done && peak.is_some_and(|bytes| bytes < 300_000_000),
        });
    }
    goals
}

fn rate(goal: &'static str, figures: &Figures, wanted: u64) -> Goal {
    let measured = figures.decisions_per_second();
    Goal {
        goal,
        wanted: format!(">= {}", grouped(wanted)),
        measured: grouped(measured),
        met: complete(figures) && measured >= wanted,
    }
}

/// Whether every pod of the case was decided. Only then do its figures count: giving up is fast.
fn complete(figures: &Figures) -> bool {
    let expected = match figures.case {
        // Most pods of this case are there from the start.
        Case::Memory { pods, .. } => pods / 20,
        _ => figures.case.pods(),
    };
    figures.decided >= expected
}

/// How much dearer a decision is at the second size, in hundredths.
pub fn ratio_hundredths(small: &Figures, large: &Figures) -> u64 {
    (large.ns_per_decision() * 100).checked_div(small.ns_per_decision()).unwrap_or(0)
}

/// A ratio as it is shown: `2.15x`.
pub fn times(hundredths: u64) -> String {
    format!("{}.{:02}x", hundredths / 100, hundredths % 100)
}

/// Memory as it is shown.
pub fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", grouped(bytes.div_ceil(1 << 20)))
}

/// A short time as it is shown, to the tenth of a microsecond.
pub fn microseconds(ns: u64) -> String {
    format!("{}.{} us", grouped(ns / 1000), ns % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::memory::Memory;

    fn figures(case: Case, decided: u32, decide_ns: u64) -> Figures {
        Figures {
            case,
            decided,
            evicted: 0,
            decide_ns,
            observe_ns: 0,
            median_ns: None,
            longest_ns: None,
            memory: Memory::default(),
        }
    }

    #[test]
    fn a_goal_is_met_only_by_figures_that_are_good_enough_and_complete() {
        let case = Case::Plain { nodes: 5000, pods: 1000, shapes: 8 };
        for (decided, decide_ns, met) in [(1000, 20_000_000, true), (1000, 21_000_000, false), (999, 1_000_000, false)]
        {
            let goals = goals(&[figures(case.clone(), decided, decide_ns)]);
            assert_eq!(goals.len(), 1);
            assert_eq!(goals[0].met, met, "{decided} in {decide_ns} ns");
        }
    }

    #[test]
    fn growth_compares_two_sizes() {
        let at = |nodes, ns| figures(Case::Plain { nodes, pods: 10, shapes: 1 }, 10, ns);
        assert!(goals(&[at(1000, 1000)]).is_empty());
        assert!(goals(&[at(1000, 1000), at(15_000, 3000)])[0].met);
        assert!(!goals(&[at(1000, 1000), at(15_000, 3100)])[0].met);
    }

    #[test]
    fn memory_that_is_unknown_meets_no_goal() {
        let rest = figures(Case::Memory { nodes: 15_000, pods: 200_000, shapes: 1 }, 10_000, 1);
        assert!(!goals(&[rest])[0].met);
    }

    #[test]
    fn figures_are_shown_with_their_units() {
        assert_eq!(times(215), "2.15x");
        assert_eq!(microseconds(1_234_567), "1,234.5 us");
        assert_eq!(mebibytes((1 << 20) + 1), "2 MiB");
    }
}
