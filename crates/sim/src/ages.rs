//! Where in a scenario age decides.
//!
//! In a virtual cluster every object is younger than those before it. On a real API server creation times are whole
//! seconds, so that a second has to pass between two objects of which one must be seen to be the younger. That is slow,
//! and seldom needed: a scenario is run in a virtual cluster with whole seconds, and a second passes only where what
//! is expected does not come without it.

use std::collections::BTreeSet;

use crate::cluster::{Cluster, Setup};
use crate::run::run_on;
use crate::scenario::Scenario;

/// The places of a scenario at which a second has to pass: before these objects of these steps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Partings(BTreeSet<(usize, usize)>);

impl Partings {
    /// Whether a second has to pass before this object of this step is applied.
    pub fn is_before(&self, step: usize, object: usize) -> bool {
        self.0.contains(&(step, object))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// No more than are needed. A scenario that does not come as expected with all of them gets all of them.
    pub fn of(scenario: &Scenario) -> Partings {
        if passes(scenario, &BTreeSet::new()) {
            return Partings::default();
        }
        let objects = |(step, of): (usize, &crate::scenario::Step)| (0..of.apply.len()).map(move |at| (step, at));
        let mut kept: BTreeSet<(usize, usize)> = scenario.steps.iter().enumerate().flat_map(objects).collect();
        if !passes(scenario, &kept) {
            return Partings(kept);
        }
        let everywhere: Vec<(usize, usize)> = kept.iter().copied().collect();
        leave_out(scenario, &everywhere, &mut kept);
        Partings(kept)
    }
}

/// Leaves out what is not needed of `places`: all at once where that does, otherwise of each half by itself.
fn leave_out(scenario: &Scenario, places: &[(usize, usize)], kept: &mut BTreeSet<(usize, usize)>) {
    let without: BTreeSet<(usize, usize)> = kept.iter().filter(|place| !places.contains(place)).copied().collect();
    if passes(scenario, &without) {
        *kept = without;
        return;
    }
    if places.len() > 1 {
        let (earlier, later) = places.split_at(places.len() / 2);
        leave_out(scenario, later, kept);
        leave_out(scenario, earlier, kept);
    }
}

fn passes(scenario: &Scenario, partings: &BTreeSet<(usize, usize)>) -> bool {
    let setup = Setup { configuration: scenario.configuration.clone(), scheduler_names: None };
    let mut cluster = Cluster::new(setup);
    cluster.create_in_whole_seconds();
    run_on(&mut cluster, scenario, &Partings(partings.clone()), &mut |_| {}).passed()
}
