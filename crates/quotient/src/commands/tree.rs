//! `quotient tree`: quotas as trees, and the caps of nodes.

use anyhow::Result;

use crate::arguments::{OutputArguments, TreeArguments};
use crate::exit::Exit;
use crate::quota_tree::{self, Forest};
use crate::watching;

/// Shows how the quotas stand.
pub fn run(arguments: TreeArguments) -> Result<Exit> {
    let TreeArguments { watch, state, output: OutputArguments { output } } = arguments;
    let mut printer = watching::printer(output, watch);
    watching::show(&mut printer, state, watch, &mut |printer, state| {
        let forest = Forest::of(state);
        if printer.is_for_people() {
            quota_tree::tell(printer, &forest)?;
        } else {
            printer.document(&forest)?;
        }
        Ok(Exit::Fine)
    })
}
