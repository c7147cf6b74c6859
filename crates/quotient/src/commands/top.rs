//! `quotient top`: nodes and quotas, the fullest first.

use anyhow::Result;
use quotient_api::Problem;
use quotient_api::near_names::near_names;

use crate::arguments::{OutputArguments, TopArguments};
use crate::exit::Exit;
use crate::fullness::{self, Fullness};
use crate::watching;

/// Shows how full everything is.
pub fn run(arguments: TopArguments) -> Result<Exit> {
    let TopArguments { watch, by, state, output: OutputArguments { output } } = arguments;
    let mut printer = watching::printer(output, watch);
    watching::show(&mut printer, state, watch, &mut |printer, state| {
        if let Some(by) = &by {
            let resources = Fullness::resources(state);
            if !resources.contains(by) {
                let near = near_names(by, resources.iter().map(String::as_str));
                let known = if near.is_empty() { resources.join(", ") } else { near.join(" or ") };
                let problem = Problem::new(format!("nothing has or limits a resource {by:?}: expected {known}"));
                return Ok(printer.refuse(&[problem.at_field("--by")]));
            }
        }
        let fullness = Fullness::of(state, by.as_deref());
        if printer.is_for_people() {
            fullness::tell(printer, &fullness)?;
        } else {
            printer.document(&fullness)?;
        }
        Ok(Exit::Fine)
    })
}
