//! What must change nothing: the same again, other names, all amounts three times as large, an unrelated quota,
//! everything applied again, a restart at any step. `METAMORPHIC_CASES=10000 METAMORPHIC_SEED=1` runs so many.

use quotient_model::case::case;
use quotient_model::explore::changes_nothing;
use quotient_model::yaml::to_yaml;

const CASES: u64 = 150;

#[test]
fn what_means_the_same_comes_to_the_same() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let (cases, seed) = (number("METAMORPHIC_CASES").unwrap_or(CASES), number("METAMORPHIC_SEED").unwrap_or(70_001));
    let (mut compared, mut evictions, mut differing) = (0, 0, Vec::new());
    for seed in seed..seed + cases {
        let case = case(seed);
        match changes_nothing(&case.scenario) {
            Some(Ok(run)) => {
                compared += 1;
                evictions += run.steps.iter().map(|step| step.evicted.len()).sum::<usize>();
            }
            Some(Err(difference)) => {
                differing.push(to_yaml(&case.scenario, &[format!("seed {seed}: {}", difference.why)]));
            }
            None => {}
        }
    }
    println!("{compared} of {cases} cases, {evictions} evictions, {} differ", differing.len());
    assert!(differing.is_empty(), "{} cases:\n{}", differing.len(), differing.join("\n"));
    assert!(compared > cases / 2 && evictions as u64 > cases / 10, "{compared} cases with {evictions} evictions");
}
