//! What is left to be said of a change when all of its documents are there, in whatever order they came.

use std::collections::BTreeSet;

use quotient_api::read::{Document, Read};
use quotient_sim::report::{ObjectProblem, RejectedObject, StepReport};
use quotient_sim::{Input, Simulation, Stuck};

/// The rejections and problems that are left when all documents are there. A document may need one that comes after it:
/// a guarantee is raised before another one is lowered, a child comes before its parent. Those that something is said
/// about are applied again, until no more of them are admitted.
pub fn in_the_end(
    simulation: &mut Simulation,
    documents: Vec<Document>,
    happened: &StepReport,
) -> Result<(Vec<RejectedObject>, Vec<ObjectProblem>), Stuck> {
    let StepReport { mut rejected, mut problems, .. } = happened.clone();
    if documents.len() < 2 {
        return Ok((rejected, problems));
    }
    loop {
        let named: BTreeSet<String> = rejected
            .iter()
            .map(|one| &one.object)
            .chain(problems.iter().filter_map(|one| one.object.as_ref()))
            .cloned()
            .collect();
        let again = documents.iter().filter(|one| !one.key.name.is_empty() && named.contains(&one.key.to_string()));
        let again: Vec<Document> = again.cloned().collect();
        if again.is_empty() {
            return Ok((rejected, problems));
        }
        let objects: BTreeSet<String> = again.iter().map(|one| one.key.to_string()).collect();
        let steps = simulation.steps().len();
        let read = Read { documents: again, ..Read::default() };
        simulation.apply(Input { file: String::new(), read })?;
        let now = joined(&simulation.steps()[steps..]);
        let were = rejected.len();
        rejected.retain(|one| !objects.contains(&one.object));
        rejected.extend(now.rejected);
        rejected.sort();
        problems.retain(|one| one.object.as_ref().is_none_or(|object| !objects.contains(object)));
        problems.extend(now.problems);
        problems.sort();
        problems.dedup();
        if rejected.len() >= were {
            return Ok((rejected, problems));
        }
    }
}

/// Joins several steps into one.
pub fn joined(steps: &[StepReport]) -> StepReport {
    let mut all = StepReport::default();
    for StepReport { file, bound, evicted, rejected, problems } in steps {
        // Time that passes has no name.
        let separator = if all.file.is_empty() || file.is_empty() { "" } else { ", " };
        all.file += &format!("{separator}{file}");
        all.bound.extend(bound.iter().cloned());
        all.evicted.extend(evicted.iter().cloned());
        all.rejected.extend(rejected.iter().cloned());
        all.problems.extend(problems.iter().cloned());
    }
    all.bound.sort();
    all.evicted.sort();
    all.rejected.sort();
    all.problems.sort();
    all
}
