//! The same random clusters every time: nothing differs from the model.

use quotient_model::explore::{differs_like, explore};
use quotient_model::shrink::shrink;
use quotient_model::yaml::to_yaml;

const SEED: u64 = 1;
const CASES: u64 = 150;

#[test]
fn decisions_are_those_of_the_model() {
    let mut unknown = Vec::new();
    let tally = explore(SEED..SEED + CASES, &mut |seed, scenario, difference| {
        let (smallest, difference) = shrink(scenario, difference, &|case| differs_like(case, difference));
        unknown.push(to_yaml(&smallest, &[format!("seed {seed}, {:?}: {}", difference.kind, difference.why)]));
    });
    // The cases are worth something only if they are let in and pods go.
    let compared: usize = tally.cases.values().sum();
    assert!(compared > 100, "only {compared} of {CASES} cases were let in");
    assert!(tally.evictions > 50, "only {} evictions in {compared} cases", tally.evictions);
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}
