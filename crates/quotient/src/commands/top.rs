//! `quotient top`: nodes and quotas, the fullest first.

use anyhow::Result;
use quotient_api::Problem;
use quotient_api::near_names::near_names;

use crate::arguments::{OutputArguments, TopArguments};
use crate::exit::Exit;
use crate::fullness::{self, Fullness};
use crate::printer::Printer;
use crate::state::State;

/// Shows how full everything is.
pub fn run(arguments: TopArguments) -> Result<Exit> {
    let TopArguments { by, state, output: OutputArguments { output } } = arguments;
    let mut printer = Printer::new(output);
    let state = match State::open(&mut printer, state) {
        Ok(state) => state,
        Err(exit) => return Ok(exit),
    };
    if let Some(by) = &by {
        let resources = Fullness::resources(&state);
        if !resources.contains(by) {
            let near = near_names(by, resources.iter().map(String::as_str));
            let known = if near.is_empty() { resources.join(", ") } else { near.join(" or ") };
            let problem = Problem::new(format!("nothing has or limits a resource {by:?}: expected {known}"));
            return Ok(printer.refuse(&[problem.at_field("--by")]));
        }
    }
    let fullness = Fullness::of(&state, by.as_deref());
    if printer.is_for_people() {
        fullness::tell(&mut printer, &fullness)?;
    } else {
        printer.document(&fullness)?;
    }
    printer.finish()?;
    Ok(Exit::Fine)
}
