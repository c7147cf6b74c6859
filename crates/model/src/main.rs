//! Compares the program with the model on random clusters: `quotient-model [CASES [SEED [FOLDER]]]`, or on scenarios:
//! `quotient-model FILE…`; `quotient-model claims …` does so on clusters with device claims, and `… returning …` on
//! those in which every pod comes back. Smallest cases of what differs are printed, and kept in FOLDER if one is given.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use quotient_model::check::{Difference, Kind};
use quotient_model::claims;
use quotient_model::drive::run_scenario;
use quotient_model::explore::{differs_like, explore, restarted};
use quotient_model::shrink::shrink;
use quotient_model::yaml::to_yaml;
use quotient_sim::Scenario;
use quotient_sim::scenario::load;

/// How many cases of one kind are made small.
const SHRUNK_MAX: usize = 2;

fn main() -> ExitCode {
    // A fault of the program is reported as a difference, with its case.
    std::panic::set_hook(Box::new(|_| {}));
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(returning) = match arguments.first().map(String::as_str) {
        Some("claims") => Some(false),
        Some("returning") => Some(true),
        _ => None,
    } {
        return claims(&arguments.split_off(1), returning);
    }
    if arguments.first().is_some_and(|first| first.parse::<u64>().is_err()) {
        return files(&arguments);
    }
    let number =
        |place: usize, default: u64| arguments.get(place).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (cases, seed) = (number(0, 2000), number(1, 1));
    let folder = arguments.get(2).map(PathBuf::from);
    let mut shrunk: BTreeMap<(Kind, String), usize> = BTreeMap::new();
    let tally = explore(seed..seed + cases, &mut |seed, scenario, difference| {
        let count = shrunk.entry((difference.kind, difference.about.clone())).or_default();
        *count += 1;
        if *count > SHRUNK_MAX {
            return;
        }
        let (smallest, difference) = shrink(scenario, difference, &|case| differs_like(case, difference));
        let Difference { kind, about, why } = &difference;
        let comments = [format!("seed {seed}, {kind:?} ({about}): {why}")];
        let yaml = to_yaml(&smallest, &comments);
        println!("{yaml}");
        if let Some(folder) = &folder {
            let about = about.replace([' ', '+'], "-");
            let file = folder.join(format!("{}-{about}-{seed}.yaml", format!("{kind:?}").to_lowercase()));
            if let Err(error) = std::fs::write(&file, yaml) {
                eprintln!("{} cannot be written: {error}", file.display());
            }
        }
    });
    println!("cases by policy: {:?}", tally.cases);
    println!("{} cases were not let in, {} evictions in the others", tally.rejected, tally.evictions);
    for ((kind, about), count) in &tally.differences {
        println!("{kind:?} ({about}): {count}");
    }
    if tally.differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Compares clusters with device claims.
fn claims(arguments: &[String], returning: bool) -> ExitCode {
    let number =
        |place: usize, default: u64| arguments.get(place).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (cases, seed) = (number(0, 2000), number(1, 1));
    let mut shrunk: BTreeMap<(Kind, String), usize> = BTreeMap::new();
    let tally = claims::explore::explore(seed..seed + cases, returning, &mut |seed, scenario, difference| {
        let count = shrunk.entry((difference.kind, difference.about.clone())).or_default();
        *count += 1;
        if *count <= SHRUNK_MAX {
            let (smallest, difference) =
                shrink(scenario, difference, &|case| claims::explore::differs_like(case, difference));
            let Difference { kind, about, why } = &difference;
            println!("{}", to_yaml(&smallest, &[format!("seed {seed}, {kind:?} ({about}): {why}")]));
        }
    });
    println!("{} cases, {} evictions", tally.cases, tally.evictions);
    println!("by policy: {:?}\nby kind of device: {:?}\nby form: {:?}", tally.by_policy, tally.by_kind, tally.by_form);
    for ((kind, about), count) in &tally.differences {
        println!("{kind:?} ({about}): {count}");
    }
    if tally.differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn files(files: &[String]) -> ExitCode {
    let mut differs = false;
    for file in files {
        let scenarios = match load(std::path::Path::new(file)) {
            Ok(scenarios) => scenarios,
            Err(problems) => {
                println!("{file}: {}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
                continue;
            }
        };
        for (index, scenario) in scenarios.iter().enumerate() {
            let place = format!("{file} #{}", index + 1);
            differs |= unexpected(&place, scenario);
            let run = run_scenario(scenario);
            let mut all = run.differences.clone();
            all.extend(restarted(scenario, &run));
            differs |= !all.is_empty();
            for Difference { kind, about, why } in all {
                println!("{place}: {kind:?} ({about}): {why}");
            }
        }
    }
    if differs { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Whether a scenario comes otherwise than it says; tells of it.
fn unexpected(place: &str, scenario: &Scenario) -> bool {
    let result = quotient_sim::run(scenario, &mut |_| {});
    for step in result.steps.iter().filter(|step| !step.passed()) {
        let failures: Vec<String> = step.failures.iter().map(|failure| failure.expectation.clone()).collect();
        println!("{place}: not as it says in step {:?}: {}", step.name, failures.join(", "));
    }
    if let Some(error) = &result.error {
        println!("{place}: {error}");
    }
    !result.passed()
}
