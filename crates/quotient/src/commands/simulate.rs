//! `quotient simulate`: files into a virtual cluster, a report out.

use anyhow::Result;

use crate::arguments::{OutputArguments, SimulateArguments};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::report_page;
use crate::state::{Opened, State, Then};
use crate::story;

/// Applies the files and reports. Problems are part of the report, unless there is nothing else to report.
pub fn run(arguments: SimulateArguments) -> Result<Exit> {
    let SimulateArguments { files, report: page, from_cluster, cluster, setup, output } = arguments;
    let OutputArguments { output } = output;
    let mut printer = Printer::paged(output);
    let cluster = from_cluster.then(|| cluster.which(None));
    let report = match State::simulate(&mut printer, &files, cluster, setup, Then::Report) {
        Ok(Opened { partial: Some(partial), .. }) => return Ok(printer.refuse(&[partial.refusal()])),
        Ok(Opened { simulation, .. }) => {
            let (report, cluster) = simulation.into_report_and_cluster();
            // The process ends soon, and its memory with it.
            std::mem::forget(cluster);
            report
        }
        Err(exit) => return Ok(exit),
    };
    if let Some(path) = page {
        report_page::write(&path, &report_page::simulation(&report))?;
    }
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
