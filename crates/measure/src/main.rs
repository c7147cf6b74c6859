//! `make bench-cluster`: the table of performance, on fresh control planes, in one run.
//!
//! The API server alone gives the limit; kube-scheduler and Quotient run on the same machine in the same hour, with
//! client limits that do not bind. CPU and memory are those of the processes.

mod api;
mod arrival;
mod cases;
mod claims;
mod contender;
mod goals;
mod offline;
mod page;
mod quiet;
mod town;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use cases::Leaving;
use clap::Parser;
use contender::Scheduler::{self, Kube, Quotient};
use offline::{Format, Input};
use serde_json::{Map, Value, json};
use town::Quotas::{Elastic, None as NoQuotas, Queues, Tree};

/// Measure on real control planes: the API server alone, kube-scheduler, Quotient
#[derive(Debug, Parser)]
struct Arguments {
    /// The program to measure, a release build
    #[arg(long, value_name = "FILE")]
    quotient: PathBuf,
    /// Only cases whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// A tenth of the size: for trying the measurement, not for its figures
    #[arg(long)]
    quick: bool,
    /// Also 15,000 nodes with 150,000 pods, and ten minutes of churn
    #[arg(long)]
    large: bool,
    /// The CSV files of the openb trace; without them its case is left out
    #[arg(long, value_name = "FOLDER")]
    openb: Option<PathBuf>,
    /// Figures that --json wrote before: they are put together, and nothing is measured
    #[arg(long, value_name = "FILE")]
    from: Vec<PathBuf>,
    /// What else is to be known about the run, for the page
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Write the figures here as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the figures here as a page
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

/// What one case does.
enum Work {
    Limit { nodes: usize, pods: usize, events: bool },
    Fill { who: Scheduler, nodes: usize, pods: usize, quotas: town::Quotas },
    Stream { who: Scheduler, nodes: usize, rate: usize },
    RushLimit { nodes: usize, pods: usize, placed: bool },
    Rush { who: Scheduler, nodes: usize, pods: usize },
    Churn { who: Scheduler, nodes: usize, running: usize },
    ReclaimLimit { nodes: usize },
    Reclaim { who: Scheduler, nodes: usize, leaving: Leaving },
    Claims { who: Scheduler, nodes: usize, pods: usize },
    ReclaimDevices { nodes: usize },
    StartUp { who: Scheduler, nodes: usize, pods: usize },
    Idle { who: Scheduler, nodes: usize, shapes: usize },
    Simulate { input: Input, format: Format },
}

/// How often cases that are compared run.
const ROUNDS: usize = 3;

impl Work {
    /// Whether its rate is compared with that of another case.
    fn is_compared(&self) -> bool {
        matches!(self, Work::Limit { .. } | Work::Fill { .. })
    }
}

fn works(quick: bool, large: bool, openb: bool) -> Vec<(String, Work)> {
    let size = |full: usize| if quick { full / 10 } else { full };
    let (n1, p5, n5, p10) = (size(1000), size(5000), size(5000), size(10_000));
    let fill = |who, nodes, pods, quotas| Work::Fill { who, nodes, pods, quotas };
    let mut works = vec![
        ("limit, 1,000 nodes", Work::Limit { nodes: n1, pods: p5, events: false }),
        ("limit, 1,000 nodes, an Event each", Work::Limit { nodes: n1, pods: p5, events: true }),
        ("fill, 1,000 nodes, kube-scheduler", fill(Kube, n1, p5, NoQuotas)),
        ("fill, 1,000 nodes, 20 elastic quotas", fill(Quotient, n1, p5, Elastic(20))),
        ("fill, 1,000 nodes, 1,000 elastic quotas", fill(Quotient, n1, p5, Elastic(size(1000)))),
        ("fill, 1,000 nodes, 20 queues", fill(Quotient, n1, p5, Queues(20))),
        ("fill, 1,000 nodes, 20 tree quotas", fill(Quotient, n1, p5, Tree(20))),
        ("limit, 5,000 nodes", Work::Limit { nodes: n5, pods: p10, events: false }),
        ("limit, 5,000 nodes, an Event each", Work::Limit { nodes: n5, pods: p10, events: true }),
        ("fill, 5,000 nodes, kube-scheduler", fill(Kube, n5, p10, NoQuotas)),
        ("fill, 5,000 nodes, 50 elastic quotas", fill(Quotient, n5, p10, Elastic(50))),
        ("stream, 200 pods/s, kube-scheduler", Work::Stream { who: Kube, nodes: n1, rate: 200 }),
        ("stream, 200 pods/s, Quotient", Work::Stream { who: Quotient, nodes: n1, rate: 200 }),
        ("rush, limit, pods alone", Work::RushLimit { nodes: size(2000), pods: p10, placed: false }),
        ("rush, limit, a bind and an Event each", Work::RushLimit { nodes: size(2000), pods: p10, placed: true }),
        ("rush, kube-scheduler", Work::Rush { who: Kube, nodes: size(2000), pods: p10 }),
        ("rush, Quotient", Work::Rush { who: Quotient, nodes: size(2000), pods: p10 }),
        ("reclaim, limit", Work::ReclaimLimit { nodes: size(100) }),
        ("reclaim, kube-scheduler", Work::Reclaim { who: Kube, nodes: size(100), leaving: Leaving::AtOnce }),
        ("reclaim, Quotient", Work::Reclaim { who: Quotient, nodes: size(100), leaving: Leaving::AtOnce }),
        (
            "reclaim, slow victims, Quotient",
            Work::Reclaim { who: Quotient, nodes: size(100), leaving: Leaving::Slowly },
        ),
        (
            "reclaim, victims that take 30 s, Quotient",
            Work::Reclaim { who: Quotient, nodes: size(100), leaving: Leaving::Late },
        ),
        ("claims, 500 nodes, kube-scheduler", Work::Claims { who: Kube, nodes: size(500), pods: size(2000) }),
        ("claims, 500 nodes, Quotient", Work::Claims { who: Quotient, nodes: size(500), pods: size(2000) }),
        ("reclaim of devices, Quotient", Work::ReclaimDevices { nodes: size(100) }),
        ("start-up, 50,000 pods, kube-scheduler", Work::StartUp { who: Kube, nodes: n5, pods: size(50_000) }),
        ("start-up, 50,000 pods, Quotient", Work::StartUp { who: Quotient, nodes: n5, pods: size(50_000) }),
        ("idle, kube-scheduler", Work::Idle { who: Kube, nodes: n5, shapes: size(500) }),
        ("idle, Quotient", Work::Idle { who: Quotient, nodes: n5, shapes: size(500) }),
    ];
    if large {
        let work = Work::StartUp { who: Quotient, nodes: size(15_000), pods: size(150_000) };
        works.push(("start-up, 150,000 pods, Quotient", work));
        let work = Work::Churn { who: Quotient, nodes: n5, running: size(50_000) };
        works.push(("churn, 100 pods/s for 10 minutes, Quotient", work));
    }
    works.extend(offline_works(&size, openb));
    works.into_iter().map(|(name, work)| (name.to_string(), work)).collect()
}

/// What needs no cluster.
fn offline_works(size: &dyn Fn(usize) -> usize, openb: bool) -> Vec<(&'static str, Work)> {
    let pods = Input::RunningPods { bytes: size(100_000_000) };
    let deployment = Input::Deployment { replicas: size(8000) };
    let openb = openb.then_some([
        ("simulate, openb, YAML", Input::Openb, Format::Yaml),
        ("simulate, openb, JSON", Input::Openb, Format::Json),
    ]);
    let others = [
        ("simulate, 100 MB of pods, JSON", pods, Format::Json),
        ("simulate, 100 MB of pods, YAML", pods, Format::Yaml),
        ("simulate, 8,000 replicas, YAML", deployment, Format::Yaml),
    ];
    let all = openb.into_iter().flatten().chain(others);
    all.map(|(name, input, format)| (name, Work::Simulate { input, format })).collect()
}

async fn measure(work: &Work, arguments: &Arguments) -> Result<Value> {
    let quotient = &arguments.quotient;
    const STREAM_SECONDS: usize = 20;
    const IDLE_SECONDS: u64 = 30;
    const CHURN_RATE: usize = 100;
    match *work {
        Work::Limit { nodes, pods, events } => cases::limit(nodes, pods, events).await,
        Work::Fill { who, nodes, pods, quotas } => cases::fill(who, nodes, pods, quotas, quotient).await,
        Work::Stream { who, nodes, rate } => cases::stream(who, nodes, rate, STREAM_SECONDS, quotient).await,
        Work::RushLimit { nodes, pods, placed } => arrival::limit(nodes, pods, placed).await,
        Work::Rush { who, nodes, pods } => arrival::rush(who, nodes, pods, quotient).await,
        Work::Churn { who, nodes, running } => {
            let seconds = if arguments.quick { 60 } else { 600 };
            arrival::churn(who, nodes, running, CHURN_RATE, seconds, quotient).await
        }
        Work::ReclaimLimit { nodes } => cases::reclaim_limit(nodes).await,
        Work::Reclaim { who, nodes, leaving } => cases::reclaim(who, nodes, leaving, quotient).await,
        Work::Claims { who, nodes, pods } => claims::fill(who, nodes, pods, quotient).await,
        Work::ReclaimDevices { nodes } => claims::reclaim(nodes, quotient).await,
        Work::StartUp { who, nodes, pods } => cases::start_up(who, nodes, pods, quotient).await,
        Work::Idle { who, nodes, shapes } => cases::idle(who, nodes, shapes, IDLE_SECONDS, quotient).await,
        Work::Simulate { input, format } => offline::simulate(input, format, arguments.openb.as_deref(), quotient),
    }
}

/// Measures what was chosen.
async fn measured(arguments: &Arguments) -> Result<Map<String, Value>> {
    let works = works(arguments.quick, arguments.large, arguments.openb.is_some());
    let chosen: Vec<_> = works.iter().filter(|(name, _)| name.contains(&arguments.only)).collect();
    anyhow::ensure!(!chosen.is_empty(), "--only {}: expected a part of a case's name", arguments.only);
    // What is compared runs in turn, so that a machine that is slower for some minutes is so for all.
    let rounds: Vec<_> = (0..ROUNDS)
        .flat_map(|round| chosen.iter().filter(move |(_, work)| round == 0 || (work.is_compared() && !arguments.quick)))
        .collect();
    let mut runs = Map::new();
    for (at, (name, work)) in rounds.iter().enumerate() {
        let begun = Instant::now();
        eprintln!("{}/{} {name}", at + 1, rounds.len());
        // One case that fails does not take the others with it; the page shows that it failed.
        let figure = measure(work, arguments).await.unwrap_or_else(|error| {
            eprintln!("  failed: {error:#}");
            json!({"failed": format!("{error:#}")})
        });
        eprintln!("  {figure} ({:.0} s)", begun.elapsed().as_secs_f64());
        let runs = runs.entry(name.clone()).or_insert_with(|| json!([]));
        runs.as_array_mut().into_iter().for_each(|runs| runs.push(figure.clone()));
    }
    Ok(runs.into_iter().map(|(name, runs)| (name, median(runs.as_array().map_or(&[], Vec::as_slice)))).collect())
}

/// The run whose rate, with all written, is in the middle, with the rates of all. Where one failed, that is what is to
/// be known.
fn median(runs: &[Value]) -> Value {
    if let Some(failed) = runs.iter().find(|run| !run["failed"].is_null()) {
        return failed.clone();
    }
    let rate = |run: &Value| run["written_per_s"].as_f64().unwrap_or_default();
    let mut sorted: Vec<&Value> = runs.iter().collect();
    sorted.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    let mut middle = sorted.get(sorted.len() / 2).map_or(Value::Null, |run| Value::clone(run));
    if runs.len() > 1 {
        middle["rates"] = runs.iter().map(|run| run["written_per_s"].clone()).collect();
    }
    middle
}

/// The figures of files that `--json` wrote.
fn read_figures(files: &[PathBuf]) -> Result<Map<String, Value>> {
    let mut figures = Map::new();
    for file in files {
        let text = std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
        let report: Value = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        anyhow::ensure!(report["quick"] != true, "{}: expected figures without --quick", file.display());
        let cases = report["cases"].as_object().with_context(|| format!("{}: expected cases", file.display()))?;
        figures.extend(cases.clone());
    }
    Ok(figures)
}

async fn run(arguments: &Arguments) -> Result<()> {
    let figures = match &arguments.from[..] {
        [] => measured(arguments).await?,
        files => read_figures(files)?,
    };
    let report =
        json!({"machine": page::machine(), "quick": arguments.quick, "note": arguments.note, "cases": figures});
    let write = |file: &Option<PathBuf>, text: String| match file {
        Some(file) => std::fs::write(file, text).with_context(|| format!("{} cannot be written", file.display())),
        None => Ok(()),
    };
    write(&arguments.json, format!("{}\n", serde_json::to_string_pretty(&report)?))?;
    write(&arguments.page, page::page(&report))?;
    print!("{}{}", goals::table(&report), page::tables(&report));
    Ok(())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_runs_the_one_in_the_middle_counts() {
        let run = |rate: f64, memory: f64| json!({"written_per_s": rate, "peak_mib": memory});
        let runs = [run(9.0, 1.0), run(2.0, 2.0), run(5.0, 3.0)];
        assert_eq!(median(&runs), json!({"written_per_s": 5.0, "peak_mib": 3.0, "rates": [9.0, 2.0, 5.0]}));
        assert_eq!(median(&runs[..1]), runs[0]);
        let failed = json!({"failed": "no"});
        assert_eq!(median(&[runs[0].clone(), failed.clone(), runs[1].clone()]), failed);
    }
}
