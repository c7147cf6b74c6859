//! Evictions end: clusters in which every evicted pod comes back settle within a stated number of evictions.
//! `TERMINATION_CASES=100000 TERMINATION_SEED=1` runs so many, and prints the numbers by policy.

use quotient_model::case::POLICIES;
use quotient_model::returning::{StepCount, settle_all};
use quotient_model::yaml::to_yaml;

const CASES: u64 = 400;

#[test]
fn clusters_settle_although_every_pod_comes_back() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let (cases, seed) = (number("TERMINATION_CASES").unwrap_or(CASES), number("TERMINATION_SEED").unwrap_or(1));
    let mut unsettled = Vec::new();
    let all = settle_all(seed..seed + cases, &mut |seed, scenario, why| {
        unsettled.push(to_yaml(scenario, &[format!("seed {seed}: {why}")]));
    });
    for (policy, settled) in &all {
        let (most, pods, classes) = settled.most;
        println!(
            "{policy}: {} cases, {} evictions; at most {most} in a step, of {pods} pods of {classes} classes",
            settled.cases, settled.evictions
        );
    }
    assert!(unsettled.is_empty(), "{} cases:\n{}", unsettled.len(), unsettled.join("\n"));
    // Cases are worth something only if they are admitted and pods are evicted in them.
    assert_eq!(all.len(), POLICIES.len());
    let evictions: usize = all.values().map(|settled| settled.evictions).sum();
    assert!(evictions as u64 > cases / 4, "only {evictions} evictions in {cases} cases");
}

#[test]
fn a_loop_is_noticed() {
    let step = |evictions| StepCount { evictions, pods: 3, classes: vec![1, 2] };
    assert!(!step(6).is_too_many() && step(7).is_too_many());
}
