//! `quotient test`: scenarios, and whether they came out as expected.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use quotient_api::Problem;
use quotient_sim::expect::Failure;
use quotient_sim::{Progress, Scenario, ScenarioResult, StepResult, junit, run as run_scenario, scenario};
use serde::Serialize;

use crate::arguments::{Format, OutputArguments, TestArguments};
use crate::commands::manifests;
use crate::exit::Exit;
use crate::printer::{Printer, Tone};
use crate::rehearsal::{Exceptions, Patience, Theatre};

/// The answer for programs.
#[derive(Serialize)]
struct Answer<'a> {
    passed: usize,
    failed: usize,
    #[serde(skip_serializing_if = "is_zero")]
    excepted: usize,
    scenarios: Vec<Outcome<'a>>,
}

#[derive(Serialize)]
struct Outcome<'a> {
    passed: bool,
    #[serde(flatten)]
    result: &'a ScenarioResult,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Reads every scenario first, and runs them only if all can be read: half a test suite proves nothing.
pub fn run(arguments: TestArguments) -> Result<Exit> {
    let TestArguments { files, junit: junit_file, kubeconfig, except, output: OutputArguments { output } } = arguments;
    let mut printer = Printer::new(output);
    if let Err(problem) = manifests::standard_input_once(&files) {
        return Ok(printer.refuse(&[problem]));
    }
    let scenarios = match load(&files) {
        Ok(scenarios) => scenarios,
        Err(problems) => return Ok(printer.refuse(&problems)),
    };
    let exceptions = match except.as_deref().map(Exceptions::read).transpose() {
        Ok(exceptions) => exceptions.unwrap_or_default(),
        Err(problems) => return Ok(printer.refuse(&problems)),
    };
    let theatre = kubeconfig.as_deref().map(Theatre::open).transpose()?;
    let mut results = Vec::with_capacity(scenarios.len());
    for (i, scenario) in scenarios.iter().enumerate() {
        let place = format!("{} of {}: {}", i + 1, scenarios.len(), scenario.name);
        printer.progress(&place);
        let mut progress = |step: Progress<'_>| {
            printer.progress(format_args!("{place}, step {} of {}", step.done, step.total));
        };
        let exception = exceptions.reason(&scenario.name);
        let mut result = match &theatre {
            None => run_scenario(scenario, &mut progress),
            Some(theatre) => theatre.run(scenario, Patience::Usual, &mut progress),
        };
        // Whether Kubernetes' controllers have done all they will is told from the time in which nothing changed. What
        // fails where they had enough of it, fails.
        if let Some(theatre) = theatre.as_ref().filter(|_| exception.is_none() && !result.passed()) {
            let first = result;
            result = theatre.run(scenario, Patience::Long, &mut progress);
            say_again(&mut printer, &first, &mut result)?;
        }
        let result = match exception {
            Some(reason) => result.excepted(reason),
            None => result,
        };
        if printer.is_for_people() {
            print(&mut printer, &result)?;
        }
        results.push(result);
    }
    let is_live = theatre.is_some();
    if let Some(theatre) = theatre {
        theatre.close()?;
    }
    if let Some(file) = junit_file {
        fs::write(&file, junit(&results)).with_context(|| format!("{} cannot be written", file.display()))?;
    }
    let count = |of: fn(&ScenarioResult) -> bool| results.iter().filter(|result| of(result)).count();
    let (passed, failed) = (count(ScenarioResult::passed), count(ScenarioResult::failed));
    let excepted = results.len() - passed - failed;
    if printer.is_for_people() {
        summary(&mut printer, passed, failed, excepted)?;
    } else {
        let scenarios = results.iter().map(|result| Outcome { passed: result.passed(), result }).collect();
        printer.document(&Answer { passed, failed, excepted, scenarios })?;
    }
    printer.finish()?;
    // A virtual cluster that cannot go on is a fault of ours; a real one may have others.
    if let Some(error) = results.iter().find_map(|result| result.error.as_ref()).filter(|_| !is_live) {
        return Ok(printer.bug(error));
    }
    Ok(if failed == 0 { Exit::Fine } else { Exit::No })
}

/// All scenarios of the files and folders, in order of names within a folder.
fn load(paths: &[PathBuf]) -> Result<Vec<Scenario>, Vec<Problem>> {
    let mut scenarios = Vec::new();
    let mut problems = Vec::new();
    for path in paths {
        let mut files = Vec::new();
        if let Err(problem) = find(path, &mut files) {
            problems.push(problem);
        }
        for file in files {
            match read(&file) {
                Ok(loaded) => scenarios.extend(loaded),
                Err(found) => problems.extend(found),
            }
        }
    }
    for Scenario { name, file, .. } in scenarios.iter().filter(|scenario| scenario.steps.is_empty()) {
        let problem = Problem::new("missing: a scenario needs a step, or it proves nothing").at_field("spec.steps");
        problems.push(problem.in_file(file).of_object(format_args!("Scenario/{name}")));
    }
    if problems.is_empty() { Ok(scenarios) } else { Err(problems) }
}

/// The scenarios of a file, or of standard input, where files are relative to the current folder.
fn read(file: &Path) -> Result<Vec<Scenario>, Vec<Problem>> {
    if file != Path::new(manifests::STDIN) {
        return scenario::load(file);
    }
    let text = std::io::read_to_string(std::io::stdin())
        .map_err(|error| vec![Problem::new(format!("cannot be read: {error}")).in_file("standard input")])?;
    scenario::parse("standard input", &text, Path::new(""))
}

/// The file, or every YAML file in the folder and in folders below it that holds scenarios. A scenario may stand beside
/// files that it applies, so that in a folder only files that name the kind are taken.
fn find(path: &Path, into: &mut Vec<PathBuf>) -> Result<(), Problem> {
    let before = into.len();
    if !path.is_dir() {
        into.push(path.to_path_buf());
        return Ok(());
    }
    walk(path, into)?;
    if into.len() == before {
        return Err(Problem::new("holds no scenario").in_file(path.display().to_string()));
    }
    Ok(())
}

fn walk(folder: &Path, into: &mut Vec<PathBuf>) -> Result<(), Problem> {
    let unreadable = |path: &Path, error: std::io::Error| {
        Problem::new(format!("cannot be read: {error}")).in_file(path.display().to_string())
    };
    let mut entries = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>())
        .map_err(|error| unreadable(folder, error))?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            walk(&path, into)?;
        } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json") {
            let bytes = fs::read(&path).map_err(|error| unreadable(&path, error))?;
            let text = String::from_utf8_lossy(&bytes);
            if text.contains("quotient.dev/") || text.contains("kind: Scenario") {
                into.push(path);
            }
        }
    }
    Ok(())
}

/// Says that a scenario was run a second time, and what was wrong the first time.
fn say_again(printer: &mut Printer, first: &ScenarioResult, second: &mut ScenarioResult) -> Result<()> {
    const WHY: &str = "failed at first, and is run again with more time for Kubernetes' controllers";
    if printer.is_for_people() {
        let verdict = printer.paint(Tone::Weak, "again ");
        printer.line(format_args!("{verdict}  {}: {WHY}", first.name))?;
        return print_failures(printer, first);
    }
    if let Some(step) = second.steps.first_mut() {
        step.notes.push(WHY.to_string());
    }
    Ok(())
}

fn print(printer: &mut Printer, result: &ScenarioResult) -> Result<()> {
    let ScenarioResult { name, file, exception, .. } = result;
    if let Some(reason) = exception {
        let verdict = printer.paint(Tone::Weak, "except");
        return printer.line(format_args!("{verdict}  {name}: {reason}"));
    }
    let verdict =
        if result.passed() { printer.paint(Tone::Good, "ok    ") } else { printer.paint(Tone::Bad, "FAILED") };
    let place = if result.passed() && printer.format() != Format::Wide { String::new() } else { format!("  ({file})") };
    printer.line(format_args!("{verdict}  {name}{place}"))?;
    print_failures(printer, result)
}

fn print_failures(printer: &mut Printer, result: &ScenarioResult) -> Result<()> {
    for (i, step) in result.steps.iter().enumerate().filter(|(_, step)| !step.passed()) {
        print_step(printer, i + 1, step)?;
    }
    if let Some(error) = &result.error {
        printer.line(format_args!("  {error}"))?;
    }
    Ok(())
}

fn print_step(printer: &mut Printer, number: usize, step: &StepResult) -> Result<()> {
    let StepResult { name, failures, notes } = step;
    printer.line(format_args!("  step {number}, {name}"))?;
    for Failure { expectation, expected, found, reason } in failures {
        printer.line(format_args!("    {expectation}"))?;
        printer.line(format_args!("      expected  {expected}"))?;
        printer.line(format_args!("      found     {found}"))?;
        if let Some(reason) = reason {
            printer.line(format_args!("      reason    {reason}"))?;
        }
    }
    for note in notes {
        printer.line(format_args!("    note: {note}"))?;
    }
    Ok(())
}

/// One line that can be looked for: how many there were, and how many came out as expected.
fn summary(printer: &mut Printer, passed: usize, failed: usize, excepted: usize) -> Result<()> {
    let count = passed + failed + excepted;
    let noun = if count == 1 { "scenario" } else { "scenarios" };
    let mut line = format!("{count} {noun}: {passed} passed");
    for (count, what) in [(failed, "failed"), (excepted, "excepted")] {
        if count > 0 {
            line.push_str(&format!(", {count} {what}"));
        }
    }
    printer.line(printer.paint(if failed == 0 { Tone::Good } else { Tone::Bad }, &line))
}
