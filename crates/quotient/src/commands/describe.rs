//! What the program says about itself: its version, completions for shells, manual pages.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap_complete::Shell;
use quotient_cluster::metrics::{COMMIT, VERSION};
use serde_json::json;

use crate::arguments::{OutputArguments, command_line};
use crate::exit::Exit;
use crate::printer::Printer;

/// Prints the version, and the commit that it was built from.
pub fn version(arguments: OutputArguments) -> Result<Exit> {
    let mut printer = Printer::new(arguments.output);
    if printer.is_for_people() {
        printer.line(format_args!("quotient {VERSION}, commit {COMMIT}"))?;
    } else {
        printer.document(&json!({"version": VERSION, "commit": COMMIT}))?;
    }
    printer.finish()?;
    Ok(Exit::Fine)
}

/// Prints a completion script.
pub fn completion(shell: Shell) -> Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command_line("quotient"), "quotient", &mut text);
    let mut printer = Printer::new(crate::arguments::Format::Table);
    printer.line(String::from_utf8_lossy(&text).trim_end())?;
    printer.finish()?;
    Ok(Exit::Fine)
}

/// Writes a manual page for the program and one for each command.
pub fn manual(folder: &Path) -> Result<Exit> {
    fs::create_dir_all(folder).with_context(|| format!("{}: a folder cannot be made", folder.display()))?;
    clap_mangen::generate_to(command_line("quotient"), folder)
        .with_context(|| format!("{}: manual pages cannot be written", folder.display()))?;
    Ok(Exit::Fine)
}
