//! `quotient simulate`: files into a virtual cluster, a report out.

use anyhow::Result;
use quotient_api::{Configuration, Problem};
use quotient_sim::{Setup, simulate};

use crate::arguments::{OutputArguments, SimulateArguments};
use crate::commands::manifests::inputs;
use crate::exit::Exit;
use crate::printer::Printer;
use crate::story;

/// Applies the files and reports. Problems are part of the report, unless there is nothing else to report.
pub fn run(arguments: SimulateArguments) -> Result<Exit> {
    let SimulateArguments { files, config, scheduler_name, output: OutputArguments { output } } = arguments;
    let mut printer = Printer::new(output);
    let configuration = match config.as_deref().map(Configuration::read_path).transpose() {
        Ok(configuration) => configuration.unwrap_or_default(),
        Err(problems) => return Ok(printer.refuse(&problems)),
    };
    for idle in &configuration.idle {
        printer.note(format_args!("note: {idle}"));
    }
    let inputs = match inputs(&files) {
        Ok(inputs) => inputs,
        Err(problems) => return Ok(printer.refuse(&problems)),
    };
    if inputs.iter().all(|input| input.read.documents.is_empty()) {
        let mut problems: Vec<Problem> = inputs.into_iter().flat_map(|input| input.read.problems).collect();
        if problems.is_empty() {
            problems.push(Problem::new("the files hold no object: expected Kubernetes manifests"));
        }
        return Ok(printer.refuse(&problems));
    }
    let setup = Setup { configuration, scheduler_names: scheduler_name.map(|name| vec![name]) };
    let outcome = simulate(setup, inputs, &mut |progress| {
        printer.progress(format_args!("{} of {}: {}", progress.done, progress.total, progress.step));
    });
    let report = match outcome {
        Ok(report) => report,
        Err(stuck) => return Ok(printer.bug(&stuck)),
    };
    if printer.is_for_people() {
        story::tell(&mut printer, &report)?;
    } else {
        printer.document(&report)?;
        let left_out: usize = report.steps.iter().map(|step| step.problems.len() + step.rejected.len()).sum();
        if left_out > 0 {
            printer.note(format_args!("note: the report has {left_out} under \"problems\" and \"rejected\""));
        }
    }
    printer.finish()?;
    Ok(Exit::Fine)
}
