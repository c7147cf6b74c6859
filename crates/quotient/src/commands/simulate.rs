//! `quotient simulate`: files into a virtual cluster, a report out.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use quotient_api::{Configuration, Problem, read};
use quotient_sim::{Input, Setup, simulate};

use crate::arguments::{OutputArguments, SimulateArguments};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::story;

/// What stands for standard input.
const STDIN: &str = "-";

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

/// Reads everything that is to be applied, one input for each file. A file that cannot be opened is a mistake of
/// whoever typed its name.
fn inputs(paths: &[PathBuf]) -> Result<Vec<Input>, Vec<Problem>> {
    let mut inputs = Vec::new();
    let mut problems = Vec::new();
    for path in paths {
        match read_inputs(path) {
            Ok(read) => inputs.extend(read),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(inputs) } else { Err(problems) }
}

fn read_inputs(path: &Path) -> Result<Vec<Input>, Problem> {
    if path == Path::new(STDIN) {
        let mut text = String::new();
        let unreadable = |error| Problem::new(format!("cannot be read: {error}")).in_file("standard input");
        std::io::stdin().read_to_string(&mut text).map_err(unreadable)?;
        return Ok(vec![Input { file: STDIN.to_owned(), read: read::read("standard input", &text) }]);
    }
    read::files_of(path)?
        .iter()
        .map(|file| {
            let name = file.display().to_string();
            let text = read::read_text(file)?;
            Ok(Input { read: read::read(&name, &text), file: name })
        })
        .collect()
}
