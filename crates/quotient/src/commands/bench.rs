//! `quotient bench`: the engine's figures, printed with their settings and beside their goals.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use crate::arguments::{BenchArguments, Format, OutputArguments};
use crate::bench::case::{self, Case, Figures, Why};
use crate::bench::goal::{Goal, goals, mebibytes, microseconds, ratio_hundredths, times};
use crate::bench::growth::{self, Curve};
use crate::bench::workload::{NODE_GPUS, System};
use crate::exit::Exit;
use crate::printer::{Printer, Tone};
use crate::table::{Align, Table};
use quotient_replay::tell::grouped;

/// The numbers of nodes at which growth is measured.
const NODES: [u32; 4] = [500, 1000, 5000, 15_000];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    version: &'static str,
    settings: Settings,
    cases: Vec<Row>,
    growth: Vec<Growth>,
    goals: Vec<Goal>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Settings {
    build: &'static str,
    cores: usize,
    threads_used: u32,
    rounds: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    #[serde(flatten)]
    figures: Figures,
    decisions_per_second: u64,
    pods_per_second: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Growth {
    from_nodes: u32,
    to_nodes: u32,
    /// How much dearer one decision is, in hundredths.
    ratio_hundredths: u64,
}

/// Runs every case, each in a process of its own, and prints what came of it.
pub fn run(arguments: BenchArguments) -> Result<Exit> {
    let BenchArguments { nodes, pods, shapes, rounds, quick, check, growth, case, output } = arguments;
    let OutputArguments { output } = output;
    let mut printer = Printer::new(output);
    if let Some(text) = case {
        let case: Case = serde_json::from_str(&text).context("--case is not a case")?;
        println!("{}", serde_json::to_string(&case::measure(case)?)?);
        return Ok(Exit::Fine);
    }
    if cfg!(debug_assertions) {
        printer.note("note: this is a debug build; build with --release for figures that mean something");
    }
    let rounds = if quick { 1 } else { rounds };
    if let Some(file) = growth {
        return draw_growth(&mut printer, &file, rounds, quick);
    }
    let cases = cases(&nodes, pods, shapes, quick);
    let mut all = Vec::new();
    for (i, case) in cases.iter().enumerate() {
        printer.progress(format_args!(
            "{} of {}: {}, {} nodes, {} pods",
            i + 1,
            cases.len(),
            case.title(),
            grouped(case.nodes().into()),
            grouped(case.pods().into())
        ));
        match median(case, rounds) {
            Ok(figures) => all.push(figures),
            Err(error) => return Ok(printer.bug(&format_args!("{error:#}"))),
        }
    }
    let answer = answer(all, rounds);
    if printer.is_for_people() {
        print(&mut printer, &answer)?;
    } else {
        printer.document(&answer)?;
    }
    printer.finish()?;
    let missed = answer.goals.iter().any(|goal| !goal.met);
    Ok(if check && missed { Exit::No } else { Exit::Fine })
}

/// Measures how the cost of a decision grows, and draws it.
fn draw_growth(printer: &mut Printer, file: &Path, rounds: u32, quick: bool) -> Result<Exit> {
    let mut curves = Vec::new();
    for family in growth::families(quick) {
        let mut figures = Vec::new();
        for (size, case) in &family.cases {
            printer.progress(format_args!("over {}: {}", family.title, grouped((*size).into())));
            figures.push(median(case, rounds)?);
        }
        let curve = Curve::new(&family, &figures);
        let steps = curve.points.iter().map(|(size, ns)| format!("{}: {}", grouped((*size).into()), microseconds(*ns)));
        let steps: Vec<String> = steps.collect();
        let slope = curve.slope_hundredths() as f64 / 100.0;
        printer.line(format_args!("over {}: size^{slope:.2} ({})", curve.title, steps.join(", ")))?;
        curves.push(curve);
    }
    std::fs::write(file, growth::svg(&curves)).with_context(|| format!("{}: cannot be written", file.display()))?;
    printer.finish()?;
    Ok(Exit::Fine)
}

/// What to run: everything, or placement at the sizes that were asked for.
fn cases(nodes: &[u32], pods: Option<u32>, shapes: Option<u32>, quick: bool) -> Vec<Case> {
    let scale = |n: u32| if quick { n / 10 } else { n };
    let pods_placed = pods.unwrap_or(scale(20_000));
    let placement_only = !nodes.is_empty() || pods.is_some() || shapes.is_some();
    let shapes = shapes.unwrap_or(8);
    let sizes = if nodes.is_empty() { NODES.map(scale).to_vec() } else { nodes.to_vec() };
    let mut cases: Vec<Case> =
        sizes.iter().map(|nodes| Case::Plain { nodes: *nodes, pods: pods_placed, shapes }).collect();
    if placement_only {
        cases.extend(sizes.iter().map(|nodes| Case::Different { nodes: *nodes, pods: pods_placed }));
        return cases;
    }
    cases.extend(Why::ALL.map(|why| Case::Verdict { nodes: scale(5000), pods: scale(500), why }));
    cases.extend([
        Case::Plain { nodes: scale(5000), pods: pods_placed, shapes: scale(1000) },
        Case::Plain { nodes: scale(5000), pods: pods_placed, shapes: scale(5000) },
        Case::Different { nodes: scale(1000), pods: scale(10_000) },
        Case::Different { nodes: scale(5000), pods: scale(10_000) },
        Case::Different { nodes: scale(15_000), pods: scale(10_000) },
        Case::Preemption { nodes: scale(5000), pods: scale(1000) },
    ]);
    for system in [System::Pooled, System::Fair] {
        cases.extend([10, 1000].map(|quotas| Case::Quotas {
            nodes: scale(5000),
            running: scale(50_000),
            pods: pods_placed,
            quotas: if quotas > 10 { scale(quotas) } else { quotas },
            system,
        }));
        for gpus in [1, NODE_GPUS / 2] {
            let quotas = scale(1000);
            cases.push(Case::Reclaim { nodes: scale(5000), pods: scale(500), quotas, gpus, system });
        }
        cases.push(Case::ReclaimAll { nodes: scale(500), pods: scale(4000), system });
    }
    cases.extend([10, 1000].map(|quotas| Case::Quotas {
        nodes: scale(5000),
        running: scale(50_000),
        pods: pods_placed,
        quotas: if quotas > 10 { scale(quotas) } else { quotas },
        system: System::Queue,
    }));
    cases.extend([
        Case::Tree { nodes: scale(1000), pods: scale(1000), quotas: scale(10_000), levels: 5 },
        Case::Tree { nodes: scale(1000), pods: scale(1000), quotas: scale(2000), levels: 1 },
        Case::Gang { nodes: scale(5000), pods: 10 * scale(512), size: scale(512) },
        Case::GangVerdict { nodes: scale(5000), pods: 50 * scale(80), size: scale(80) },
    ]);
    cases.push(Case::Memory { nodes: scale(15_000), pods: scale(200_000), shapes: scale(1000) });
    cases
}

/// The round whose time in `decide` is the middle one.
fn median(case: &Case, rounds: u32) -> Result<Figures> {
    // Memory does not vary between rounds, and the case is the longest to set up.
    let rounds = if matches!(case, Case::Memory { .. }) { 1 } else { rounds };
    let mut runs = (0..rounds).map(|_| in_own_process(case)).collect::<Result<Vec<_>>>()?;
    runs.sort_by_key(|figures| figures.decide_ns);
    let middle = runs.len() / 2;
    ensure!(!runs.is_empty(), "--rounds is at least 1");
    Ok(runs.swap_remove(middle))
}

fn in_own_process(case: &Case) -> Result<Figures> {
    let program = std::env::current_exe().context("cannot find the program to run again")?;
    let output = Command::new(program)
        .args(["bench", "--case", &serde_json::to_string(case)?])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run a case in a process of its own")?;
    if !output.status.success() {
        bail!("the case \"{}\" ended with {}", case.title(), output.status);
    }
    serde_json::from_slice(&output.stdout).context("cannot read a case's figures")
}

fn answer(all: Vec<Figures>, rounds: u32) -> Answer {
    let shapes_of = |figures: &Figures| match figures.case {
        Case::Plain { shapes, .. } => Some(shapes),
        _ => None,
    };
    let first = all.first().and_then(shapes_of);
    let plain: Vec<&Figures> = all.iter().filter(|f| first.is_some() && shapes_of(f) == first).collect();
    let growth = plain
        .windows(2)
        .map(|pair| (pair[0], pair[1]))
        .chain(plain.first().copied().zip(plain.last().copied()).filter(|_| plain.len() > 2))
        .filter(|(small, large)| small.case.nodes() < large.case.nodes())
        .map(|(small, large)| Growth {
            from_nodes: small.case.nodes(),
            to_nodes: large.case.nodes(),
            ratio_hundredths: ratio_hundredths(small, large),
        })
        .collect();
    Answer {
        version: env!("CARGO_PKG_VERSION"),
        settings: Settings {
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            threads_used: 1,
            rounds,
        },
        growth,
        goals: goals(&all),
        cases: all
            .into_iter()
            .map(|figures| Row {
                decisions_per_second: figures.decisions_per_second(),
                pods_per_second: figures.pods_per_second(),
                figures,
            })
            .collect(),
    }
}

fn print(printer: &mut Printer, answer: &Answer) -> Result<()> {
    let Answer { version, settings: Settings { build, cores, threads_used, rounds }, cases, growth, goals } = answer;
    printer.line(format_args!(
        "quotient {version}, {build} build; {threads_used} thread of {cores} cores; median of {rounds}; pods arrive in batches of 1,000"
    ))?;
    printer.line("")?;
    printer.table("", &case_table(cases, printer.format() == Format::Wide))?;
    if cases.iter().any(|row| row.figures.median_ns.is_some()) {
        printer.line("")?;
        printer.table("", &latency_table(cases))?;
    }
    if !growth.is_empty() {
        printer.line("")?;
        for Growth { from_nodes, to_nodes, ratio_hundredths } in growth {
            printer.line(format_args!(
                "growth: {} -> {} nodes makes a plain decision cost {}",
                grouped((*from_nodes).into()),
                grouped((*to_nodes).into()),
                times(*ratio_hundredths)
            ))?;
        }
    }
    if !goals.is_empty() {
        printer.line("")?;
        let mut table = Table::new([
            ("GOAL", Align::Left),
            ("WANTED", Align::Right),
            ("MEASURED", Align::Right),
            ("", Align::Whole),
        ]);
        for Goal { goal, wanted, measured, met } in goals {
            let verdict = if *met { printer.paint(Tone::Good, "ok") } else { printer.paint(Tone::Bad, "missed") };
            table.row(vec![(*goal).into(), wanted.clone(), measured.clone(), verdict]);
        }
        printer.table("", &table)?;
    }
    Ok(())
}

/// How long one pod takes from being seen to being answered, where pods come one at a time.
fn latency_table(cases: &[Row]) -> Table {
    let mut table = Table::new([
        ("ONE POD AT A TIME", Align::Left),
        ("NODES", Align::Right),
        ("MEDIAN", Align::Right),
        ("LONGEST", Align::Right),
    ]);
    for Row { figures, .. } in cases {
        if let (Some(median), Some(longest)) = (figures.median_ns, figures.longest_ns) {
            let nodes = grouped(figures.case.nodes().into());
            table.row(vec![figures.case.title(), nodes, microseconds(median), microseconds(longest)]);
        }
    }
    table
}

fn case_table(cases: &[Row], wide: bool) -> Table {
    let mut columns = vec![
        ("CASE", Align::Left),
        ("NODES", Align::Right),
        ("PODS", Align::Right),
        ("SHAPES", Align::Right),
        ("QUOTAS", Align::Right),
        ("DECIDED", Align::Right),
        ("EVICTED", Align::Right),
        ("DECISIONS/S", Align::Right),
        ("EACH", Align::Right),
        ("PODS/S SEEN TO RUNNING", Align::Right),
        ("PEAK MEMORY", Align::Right),
    ];
    if wide {
        columns.extend([("MEMORY", Align::Right), ("IN DECIDE", Align::Right), ("IN OBSERVE", Align::Right)]);
    }
    let mut table = Table::new(columns);
    for Row { figures, decisions_per_second, pods_per_second } in cases {
        let shapes = match figures.case {
            Case::Plain { shapes, .. } | Case::Memory { shapes, .. } => shapes,
            Case::Quotas { .. } => 8,
            Case::Reclaim { .. } | Case::ReclaimAll { .. } => 1,
            Case::Gang { .. } | Case::GangVerdict { .. } => 1,
            Case::Tree { pods, .. } => pods,
            Case::Different { pods, .. } | Case::Verdict { pods, .. } | Case::Preemption { pods, .. } => pods,
        };
        let memory = |bytes: Option<u64>| bytes.map_or("unknown".into(), mebibytes);
        let mut cells = vec![
            figures.case.title(),
            grouped(figures.case.nodes().into()),
            grouped(figures.case.pods().into()),
            grouped(shapes.into()),
            grouped(figures.case.quotas().into()),
            grouped(figures.decided.into()),
            grouped(figures.evicted.into()),
            grouped(*decisions_per_second),
            microseconds(figures.ns_per_decision()),
            grouped(*pods_per_second),
            memory(figures.memory.peak_bytes),
        ];
        if wide {
            cells.extend([
                memory(figures.memory.current_bytes),
                microseconds(figures.decide_ns),
                microseconds(figures.observe_ns),
            ]);
        }
        table.row(cells);
    }
    table
}
