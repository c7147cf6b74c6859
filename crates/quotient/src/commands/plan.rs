//! `quotient plan`: what a change of quotas would do.

use anyhow::Result;

use crate::arguments::{OutputArguments, PlanArguments};
use crate::commands::manifests;
use crate::exit::Exit;
use crate::object_diff::diff;
use crate::plan::{self, Plan};
use crate::printer::Printer;
use crate::state::State;

/// Applies the change to a copy of the cluster and compares. Time passes in both.
pub fn run(arguments: PlanArguments) -> Result<Exit> {
    let PlanArguments { change, on, cluster, wait, allow_evictions, setup, output: OutputArguments { output } } =
        arguments;
    let mut printer = Printer::new(output);
    if let Err(problem) = manifests::standard_input_once(change.iter().chain(&on)) {
        return Ok(printer.refuse(&[problem]));
    }
    let state = match State::open_files(&mut printer, &on, cluster.which(None), setup) {
        Ok(state) => state,
        Err(exit) => return Ok(exit),
    };
    let change = match manifests::change(&mut printer, &change) {
        Ok(change) => change,
        Err(exit) => return Ok(exit),
    };
    let documents = change.iter().flat_map(|input| &input.read.documents);
    let diff = documents.filter_map(|document| diff(&document.key, state.object(&document.key), &document.value));
    let diff: Vec<_> = diff.collect();
    let compared = state.with(Vec::new(), wait).and_then(|unchanged| Ok((unchanged, state.with(change, wait)?)));
    let ((before, anyway), (after, happened)) = match compared {
        Ok(compared) => compared,
        Err(stuck) => return Ok(printer.bug(&stuck)),
    };
    let mut plan = Plan::of((&before, anyway), (&after, happened));
    plan.diff = diff;
    if printer.is_for_people() {
        plan::tell(&mut printer, &plan)?;
    } else {
        printer.document(&plan)?;
    }
    printer.finish()?;
    let too_many = allow_evictions.is_some_and(|most| plan.verdict.evictions > most);
    if let Some(most) = allow_evictions.filter(|_| too_many) {
        printer.note(format_args!("{} pods would be evicted, {most} are allowed", plan.verdict.evictions));
    }
    Ok(if plan.rejected.is_empty() && !too_many { Exit::Fine } else { Exit::No })
}
