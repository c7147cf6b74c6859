//! What must change nothing: the same again, other names, all amounts three times as large, an unrelated quota,
//! everything applied again, a restart at any step. `METAMORPHIC_CASES=10000 METAMORPHIC_SEED=1` runs so many. And at
//! 50 nodes and 500 pods: the same objects in another order. `ORDER_CASES=150 ORDER_SEED=1` runs so many, with
//! `--ignored`.

use quotient_model::case::case;
use quotient_model::crowd::Crowd;
use quotient_model::explore::changes_nothing;
use quotient_model::yaml::to_yaml;

const CASES: u64 = 150;
const CROWDS: u64 = 8;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

#[test]
fn what_means_the_same_comes_to_the_same() {
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

#[test]
#[ignore = "takes minutes: with --ignored"]
fn the_order_of_objects_decides_nothing_on_large_clusters() {
    let (cases, seed) = (number("ORDER_CASES").unwrap_or(CROWDS), number("ORDER_SEED").unwrap_or(1));
    let (mut evictions, mut differing) = (0, Vec::new());
    for seed in seed..seed + cases {
        let crowd = Crowd::of(seed);
        let first = crowd.settle(0).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        let other = crowd.settle(seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        evictions += first.evicted.len();
        let why = first.difference(&other);
        differing.extend(why.map(|why| format!("seed {seed} ({}): {why}", crowd.policy)));
    }
    println!("{cases} clusters, {evictions} evictions, {} differ", differing.len());
    assert!(differing.is_empty(), "{} of {cases}:\n{}", differing.len(), differing.join("\n"));
    assert!(evictions as u64 > cases, "{evictions} evictions in {cases} clusters");
}
