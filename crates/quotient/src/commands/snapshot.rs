//! `quotient snapshot`: the state of a live cluster in one file.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use crate::arguments::{Format, SnapshotArguments};
use crate::exit::Exit;
use crate::live;
use crate::printer::Printer;
use crate::snapshot;

/// Reads the cluster and writes the file.
pub fn run(arguments: SnapshotArguments) -> Result<Exit> {
    let SnapshotArguments { file, anonymize, cluster, namespace } = arguments;
    let mut printer = Printer::new(Format::Table);
    printer.progress("reading the cluster");
    let seen = live::read(&cluster.which(namespace))?;
    for unseen in seen.unseen.lines() {
        printer.note(format_args!("note: not seen: {unseen}"));
    }
    let objects = seen.objects.len();
    let packed = snapshot::pack(&snapshot::of(seen, anonymize));
    if file == Path::new("-") {
        std::io::stdout().write_all(&packed).context("the snapshot cannot be written")?;
    } else {
        std::fs::write(&file, &packed).with_context(|| format!("{} cannot be written", file.display()))?;
        printer.note(format_args!("{}: {objects} objects, {} bytes", file.display(), packed.len()));
    }
    Ok(Exit::Fine)
}
