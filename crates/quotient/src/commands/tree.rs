//! `quotient tree`: quotas as trees, and the caps of nodes.

use anyhow::Result;

use crate::arguments::{OutputArguments, TreeArguments};
use crate::exit::Exit;
use crate::printer::Printer;
use crate::quota_tree::{self, Forest};
use crate::state::State;

/// Shows how the quotas stand.
pub fn run(arguments: TreeArguments) -> Result<Exit> {
    let TreeArguments { state, output: OutputArguments { output } } = arguments;
    let mut printer = Printer::new(output);
    let forest = match State::open(&mut printer, state) {
        Ok(state) => Forest::of(&state),
        Err(exit) => return Ok(exit),
    };
    if printer.is_for_people() {
        quota_tree::tell(&mut printer, &forest)?;
    } else {
        printer.document(&forest)?;
    }
    printer.finish()?;
    Ok(Exit::Fine)
}
