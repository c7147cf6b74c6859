//! `quotient replay`: a workload trace in virtual time, and its figures.

use std::path::{Path, PathBuf};

use anyhow::Result;
use quotient_api::read::read_text;
use quotient_api::{Configuration, Problem};
use quotient_replay::tell::{Sheet, grouped, sheets};
use quotient_replay::{Figures, Stuck, Trace, lines, openb, page};
use quotient_sim::Setup;
use serde_json::Value;

use crate::arguments::{OutputArguments, ReplayArguments, SetupArguments};
use crate::commands::manifests;
use crate::exit::Exit;
use crate::printer::{Printer, Tone};
use crate::report_page;
use crate::table::{Align, Table};

/// The node list that stands beside a pod list.
const NODE_LIST: &str = "openb_node_list_all_node.csv";

/// Replays the trace once, or twice to compare.
pub fn run(arguments: ReplayArguments) -> Result<Exit> {
    let ReplayArguments { trace, nodes, files, against, faster, forecasts, report, setup, output } = arguments;
    let OutputArguments { output } = output;
    let mut printer = Printer::new(output);
    let (trace, setup) = match inputs(&mut printer, &trace, nodes.as_deref(), faster, setup) {
        Ok(inputs) => inputs,
        Err(exit) => return Ok(exit),
    };
    let mut sets = vec![files];
    if !against.is_empty() {
        sets.push(against);
    }
    let mut all = Vec::new();
    for files in sets {
        match replay(&mut printer, &trace, &setup, &files, forecasts) {
            Ok(figures) => all.push(figures),
            Err(exit) => return Ok(exit),
        }
    }
    if let Some(path) = report {
        report_page::write(&path, &page::replay_page(&all))?;
    }
    if printer.is_for_people() {
        tell(&mut printer, &all)?;
    } else {
        printer.document(&all)?;
    }
    printer.finish()?;
    Ok(Exit::Fine)
}

fn inputs(
    printer: &mut Printer,
    path: &Path,
    nodes: Option<&Path>,
    faster: u32,
    setup: SetupArguments,
) -> Result<(Trace, Setup), Exit> {
    let SetupArguments { from, config, scheduler_name } = setup;
    if from.is_some() {
        return Err(printer.refuse(&[Problem::new("--from: a replay starts with the nodes of its trace")]));
    }
    let given = manifests::configuration(printer, config.as_deref())?;
    let text = read_text(path).map_err(|problem| printer.refuse(&[problem]))?;
    let name = path.display().to_string();
    let read = if openb::is_pod_list(&text) {
        let beside = path.with_file_name(NODE_LIST);
        let nodes = nodes.unwrap_or(&beside);
        let node_list = read_text(nodes).map_err(|problem| printer.refuse(&[problem]))?;
        openb::read((&nodes.display().to_string(), &node_list), (&name, &text))
    } else {
        lines::read(&name, &text)
    };
    let mut trace = read.map_err(|error| printer.refuse(&[error]))?;
    trace.faster(faster);
    // What is given counts before what the trace was recorded under.
    let configuration = match &trace.configuration {
        Some(recorded) if config.is_none() => {
            Configuration::from_value(recorded).map_err(|problems| printer.refuse(&problems))?
        }
        _ => given,
    };
    Ok((trace, Setup { configuration, scheduler_names: scheduler_name.map(|name| vec![name]) }))
}

fn replay(
    printer: &mut Printer,
    trace: &Trace,
    setup: &Setup,
    files: &[PathBuf],
    forecasts: usize,
) -> Result<Figures, Exit> {
    let label = match files {
        [] if trace.objects.iter().any(is_quota) => "quotas of the trace".to_owned(),
        [] => "no quotas".to_owned(),
        files => files.iter().map(|file| name_of(file)).collect::<Vec<_>>().join(" "),
    };
    let objects: Vec<Value> = match files {
        [] => Vec::new(),
        files => {
            let read = manifests::change(printer, files)?;
            read.into_iter().flat_map(|input| input.read.documents).map(|document| document.value).collect()
        }
    };
    let figures = quotient_replay::replay_asking(trace, setup, &objects, &label, forecasts, &mut |progress| {
        let done = progress.submitted * 100 / progress.events.max(1);
        let bar = crate::table::bar(progress.submitted as u128, progress.events as u128, 24);
        let days = progress.now_ms / 86_400_000;
        printer.progress(format_args!("{label} [{bar}] {done} %, day {days} of the trace"));
    });
    figures.map_err(|stuck| match stuck {
        Stuck::Refused(_) => printer.refuse(&[stuck]),
        Stuck::Bug(_) => printer.bug(&stuck),
    })
}

/// A file's name as a heading has it: without folders and ending.
fn name_of(file: &Path) -> String {
    file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}

fn is_quota(object: &Value) -> bool {
    ["ElasticQuota", "CompositeElasticQuota", "Queue"].iter().any(|kind| object["kind"] == *kind)
}

fn tell(printer: &mut Printer, all: &[Figures]) -> Result<()> {
    let Some(first) = all.first() else { return Ok(()) };
    let days = quotient_replay::tell::duration((first.span_seconds * 1000.0) as u64);
    printer.line(format_args!("{}: {} pods over {days}", first.trace, grouped(first.pods.submitted)))?;
    for note in &first.notes {
        printer.note(format_args!("note: {note}"));
    }
    for Sheet { title, columns, left, rows } in sheets(all) {
        if rows.is_empty() {
            continue;
        }
        let align = |i: usize| if i < left { Align::Left } else { Align::Right };
        let mut table = Table::new(columns.into_iter().enumerate().map(|(i, title)| (title, align(i))));
        rows.into_iter().for_each(|row| table.row(row));
        printer.line("")?;
        printer.line(printer.paint(Tone::Strong, title))?;
        printer.table("  ", &table)?;
    }
    Ok(())
}
