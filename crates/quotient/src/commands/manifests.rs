//! Manifests that are named on the command line: files, folders, standard input.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use quotient_api::read::Kept;
use quotient_api::{Configuration, Ignored, Problem, Read, read};
use quotient_sim::Input;

use crate::exit::Exit;
use crate::live::{self, Which};
use crate::partial::Partial;
use crate::printer::Printer;
use crate::snapshot;

/// What stands for standard input.
pub const STDIN: &str = "-";

/// Reads the configuration that is named, if one is. What it says without effect is told in notes.
pub fn configuration(printer: &mut Printer, config: Option<&Path>) -> Result<Configuration, Exit> {
    let configuration =
        config.map(Configuration::read_path).transpose().map_err(|problems| printer.refuse(&problems))?;
    let configuration = configuration.unwrap_or_default();
    for idle in &configuration.idle {
        printer.note(format_args!("note: {idle}"));
    }
    Ok(configuration)
}

/// Says so where standard input is named twice: what is read once is gone.
pub fn standard_input_once<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<(), Problem> {
    match paths.into_iter().filter(|path| path.as_os_str() == STDIN).count() {
        0 | 1 => Ok(()),
        _ => Err(Problem::new("`-` is named twice: standard input can be read only once")),
    }
}

/// Says what was left out because it has no bearing on scheduling: a line for each kind.
pub fn note_ignored(printer: &mut Printer, inputs: &[Input]) {
    let all = Ignored::sum(inputs.iter().flat_map(|input| input.read.ignored.iter().cloned()));
    for ignored in all {
        printer.note(format_args!("note: {ignored}"));
    }
}

/// Documents that are two joined: what is lost with them is no one object, so that no answer would be true.
pub fn refuse_joined(printer: &mut Printer, inputs: &[Input]) -> Result<(), Exit> {
    let joined: Vec<&Problem> = inputs.iter().flat_map(|input| &input.read.joined).collect();
    if joined.is_empty() { Ok(()) } else { Err(printer.refuse(&joined)) }
}

/// Reads everything that is to be applied, and is content with nothing less than an object.
pub fn objects(printer: &mut Printer, paths: &[PathBuf], kept: Kept) -> Result<Vec<Input>, Exit> {
    let inputs = read_all(paths, kept).map_err(|problems| printer.refuse(&problems))?;
    refuse_joined(printer, &inputs)?;
    note_ignored(printer, &inputs);
    if inputs.iter().any(|input| !input.read.documents.is_empty()) {
        return Ok(inputs);
    }
    let mut problems: Vec<Problem> = inputs.into_iter().flat_map(|input| input.read.problems).collect();
    if problems.is_empty() {
        problems.push(no_object());
    }
    Err(printer.refuse(&problems))
}

/// Reads a change that is to be tried out. Half of a change proves nothing: all of it must be readable.
pub fn change(printer: &mut Printer, paths: &[PathBuf]) -> Result<Vec<Input>, Exit> {
    let inputs = objects(printer, paths, Kept::Comparable)?;
    let problems: Vec<&Problem> = inputs.iter().flat_map(|input| &input.read.problems).collect();
    if problems.is_empty() { Ok(inputs) } else { Err(printer.refuse(&problems)) }
}

/// The files are there, and nothing is in them.
pub fn no_object() -> Problem {
    Problem::new("the files hold no object: expected Kubernetes manifests")
}

/// Reads everything that is to be applied, one input for each file. A file that cannot be opened is a mistake of
/// whoever typed its name.
pub fn inputs(paths: &[PathBuf]) -> Result<Vec<Input>, Vec<Problem>> {
    read_all(paths, Kept::Comparable)
}

fn read_all(paths: &[PathBuf], kept: Kept) -> Result<Vec<Input>, Vec<Problem>> {
    standard_input_once(paths).map_err(|problem| vec![problem])?;
    let mut inputs = Vec::new();
    let mut problems = Vec::new();
    for path in paths {
        match read_inputs(path, kept) {
            Ok(read) => inputs.extend(read),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(inputs) } else { Err(problems) }
}

fn read_inputs(path: &Path, kept: Kept) -> Result<Vec<Input>, Problem> {
    if path == Path::new(STDIN) {
        let mut bytes = Vec::new();
        let unreadable = |error| Problem::new(format!("cannot be read: {error}")).in_file("standard input");
        std::io::stdin().read_to_end(&mut bytes).map_err(unreadable)?;
        return Ok(vec![Input { file: STDIN.to_owned(), read: read_bytes("standard input", bytes, None, kept)? }]);
    }
    read::files_of(path)?
        .iter()
        .map(|file| {
            let name = file.display().to_string();
            let unreadable = |error| Problem::new(format!("cannot be read: {error}")).in_file(name.as_str());
            let bytes = std::fs::read(file).map_err(unreadable)?;
            Ok(Input { read: read_bytes(&name, bytes, Some(file), kept)?, file: name })
        })
        .collect()
}

/// The objects of a file: a snapshot, or text.
fn read_bytes(name: &str, bytes: Vec<u8>, file: Option<&Path>, kept: Kept) -> Result<Read, Problem> {
    if snapshot::is_snapshot(&bytes) {
        let snapshot = snapshot::unpack(&bytes).map_err(|error| snapshot::problem(name, &error))?;
        let unseen = snapshot::unseen(&snapshot);
        let mut read = snapshot::read_objects(name, snapshot);
        let problem = |line: String| Problem::new(format!("not seen: {line}")).in_file(name);
        read.problems.extend(unseen.into_iter().map(problem));
        return Ok(read);
    }
    let text = String::from_utf8(bytes)
        .map_err(|error| Problem::new(format!("is not UTF-8 text: {}", error.utf8_error())).in_file(name))?;
    read::read_owned(name, text, file, kept)
}

/// The objects of the live cluster, as if they were read from a file. What may not be seen is told in notes, and comes
/// along where it hides what is decided.
pub fn live(printer: &mut Printer, which: &Which) -> anyhow::Result<(Input, Option<Partial>)> {
    printer.progress("reading the cluster");
    let seen = live::read_with_makers(which)?;
    for unseen in seen.unseen.lines() {
        printer.note(format_args!("note: not seen: {unseen}"));
    }
    let (file, unseen) = (seen.server.clone(), seen.unseen.clone());
    let mut input = Input { read: snapshot::read_objects(&file, snapshot::of(seen, false)), file };
    let partial = Partial::of(&unseen, &mut input);
    Ok((input, partial))
}
