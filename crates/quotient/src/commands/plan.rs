//! `quotient plan`: what a change of quotas would do.

use std::time::Instant;

use anyhow::Result;

use crate::arguments::{OutputArguments, PlanArguments};
use crate::commands::manifests;
use crate::exit::Exit;
use crate::plan::{self, Plan};
use crate::printer::Printer;
use crate::state::State;

/// Applies the change to a copy of the cluster and compares. Time passes in both.
pub fn run(arguments: PlanArguments) -> Result<Exit> {
    let PlanArguments { change, on, cluster, wait, allow_evictions, setup, output: OutputArguments { output } } =
        arguments;
    let mut printer = Printer::paged(output);
    if let Err(problem) = manifests::standard_input_once(change.iter().chain(&on)) {
        return Ok(printer.refuse(&[problem]));
    }
    let state = match State::open_whole(&mut printer, &on, cluster.which(None), setup) {
        Ok(state) => state,
        Err(exit) => return Ok(exit),
    };
    let change = match manifests::change(&mut printer, &change) {
        Ok(change) => change,
        Err(exit) => return Ok(exit),
    };
    let begun = Instant::now();
    let plan = match Plan::make(&state, change, wait) {
        Ok(plan) => plan,
        Err(stuck) => return Ok(printer.bug(&stuck)),
    };
    if printer.is_for_people() {
        plan::tell(&mut printer, &plan)?;
    } else {
        printer.document(&plan)?;
    }
    printer.finish()?;
    printer.detail(format_args!("answered in {} ms", begun.elapsed().as_millis()));
    // The process ends: to give the memory of a large cluster back piece by piece takes longer than the answer.
    std::mem::forget(state);
    let too_many = allow_evictions.is_some_and(|most| plan.verdict.evictions > most);
    if let Some(most) = allow_evictions.filter(|_| too_many) {
        printer.note(format_args!("{} pods would be evicted, {most} are allowed", plan.verdict.evictions));
    }
    Ok(if plan.rejected.is_empty() && !too_many { Exit::Fine } else { Exit::No })
}
