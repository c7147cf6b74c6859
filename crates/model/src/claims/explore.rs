//! Many random clusters with claims, and what they showed.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use quotient_sim::cluster::Outcome;
use quotient_sim::scenario::{Step, parse};
use quotient_sim::{Cluster, Scenario, Setup, Stuck};
use serde_json::{Value, json};

use crate::claims::case::{Case, case};
use crate::claims::judge::{Judge, reported};
use crate::difference::{Difference, Kind};
use crate::world::text;

/// What many cases showed.
#[derive(Debug, Default)]
pub struct Tally {
    pub cases: usize,
    pub by_policy: BTreeMap<&'static str, usize>,
    pub by_kind: BTreeMap<&'static str, usize>,
    pub by_form: BTreeMap<&'static str, usize>,
    pub evictions: usize,
    pub differences: BTreeMap<(Kind, String), usize>,
}

/// What came of a run.
#[derive(Debug, Default)]
struct Run {
    differences: Vec<Difference>,
    evictions: usize,
    /// What was bound and evicted, by step.
    steps: Vec<(Vec<String>, Vec<String>)>,
}

fn fault(kind: Kind, about: &str, why: String) -> Difference {
    Difference { kind, about: about.to_string(), why }
}

fn policy_of(scenario: &Value) -> &str {
    text(scenario, "/metadata/name").split('-').nth(1).unwrap_or_default()
}

fn run(scenario: &Value) -> Option<Run> {
    let scenarios = parse("case", &scenario.to_string(), Path::new("")).ok()?;
    let [scenario_read] = &scenarios[..] else { return None };
    let returns = scenario.to_string().contains("ReplicaSet");
    let ran = catch_unwind(AssertUnwindSafe(|| drive(scenario_read, policy_of(scenario), returns)));
    let panicked = || vec![fault(Kind::Fault, "panic", "the program panics".to_string())];
    Some(ran.unwrap_or_else(|_| Run { differences: panicked(), ..Run::default() }))
}

fn drive(scenario: &Scenario, policy: &str, returns: bool) -> Run {
    let setup = Setup { configuration: scenario.configuration.clone(), scheduler_names: None };
    let (mut cluster, mut run) = (Cluster::new(setup), Run::default());
    let stuck = |stuck: Stuck| match stuck {
        Stuck::Unsettled { .. } => fault(Kind::Loop, "unsettled", stuck.to_string()),
        Stuck::Invariant(_) => fault(Kind::Fault, "invariant", stuck.to_string()),
    };
    for step in &scenario.steps {
        if let Err(why) = take_step(&mut cluster, step, &mut run) {
            run.differences.push(stuck(why));
            return run;
        }
        run.differences.extend(judged(&cluster, policy));
        if !run.differences.is_empty() {
            return run;
        }
    }
    // An hour in which all comes to rest. Then a new scheduler, and an hour: what comes back by itself may go once
    // more, and then no more.
    let rests: &[(bool, bool)] =
        if returns { &[(false, false), (true, false), (false, true)] } else { &[(false, false), (true, true)] };
    for (restarts, is_judged) in rests {
        if *restarts {
            cluster.restart();
        }
        if let Err(why) =
            cluster.settle().and_then(|()| cluster.wait(Duration::from_secs(3600))).and_then(|()| cluster.settle())
        {
            run.differences.push(stuck(why));
            return run;
        }
        let happened = cluster.take_happened();
        let (bound, evicted) = (happened.bound.len(), happened.evicted.len());
        if (bound, evicted) != (0, 0) && *is_judged {
            let kind = if returns { Kind::Loop } else { Kind::Metamorphic };
            let why = format!("a new scheduler binds {bound} and evicts {evicted}");
            run.differences.push(fault(kind, &format!("{policy}: a fresh engine"), why));
        }
    }
    run.differences.extend(judged(&cluster, policy));
    run
}

fn take_step(cluster: &mut Cluster, step: &Step, run: &mut Run) -> Result<(), Stuck> {
    if let Some(takes) = step.eviction_takes {
        cluster.set_eviction_takes(takes);
    }
    for object in &step.apply {
        // What is rejected is among what happened.
        let _ = cluster.apply(object.clone());
    }
    for pod in &step.finish {
        // It may have been evicted before.
        let _ = cluster.end(pod, Outcome::Succeeded);
    }
    if step.restart {
        cluster.restart();
    }
    cluster.settle()?;
    if let Some(wait) = step.wait {
        cluster.wait(wait)?;
        cluster.settle()?;
    }
    let happened = cluster.take_happened();
    for rejected in &happened.rejected {
        run.differences.push(fault(Kind::Fault, "rejected", rejected.message.clone()));
    }
    run.evictions += happened.evicted.len();
    let sorted = |mut all: Vec<String>| {
        all.sort();
        all
    };
    let bound = happened.bound.iter().map(|pod| format!("{}/{}@{}", pod.namespace, pod.name, pod.node));
    let evicted = happened.evicted.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name));
    run.steps.push((sorted(bound.collect()), sorted(evicted.collect())));
    Ok(())
}

fn judged(cluster: &Cluster, policy: &str) -> Vec<Difference> {
    let objects = cluster.objects();
    let objects: Vec<&Value> = objects.iter().map(AsRef::as_ref).collect();
    let of = |quantities: Option<&_>| -> crate::amount::Amounts {
        let quantities: Option<&quotient_sim::report::Quantities> = quantities;
        reported(quantities.into_iter().flatten().map(|(name, text)| (name.clone(), text.clone())))
    };
    let quotas = cluster.keyed_quotas().into_iter();
    let quotas =
        quotas.map(|(key, quota)| (key.name.to_string(), (of(quota.amounts("used")), of(quota.amounts("runtime")))));
    Judge::new(policy, &objects, quotas.collect()).differences()
}

/// The same objects in another order, but for pods and what makes them.
fn reordered(scenario: &Value) -> Value {
    let mut other = scenario.clone();
    for step in other["spec"]["steps"].as_array_mut().into_iter().flatten() {
        let Some(apply) = step["apply"].as_array_mut() else { continue };
        let (makers, mut others): (Vec<Value>, Vec<Value>) =
            std::mem::take(apply).into_iter().partition(|object| text(object, "/kind") == "ReplicaSet");
        others.reverse();
        others.extend(makers);
        step["apply"] = json!(others);
    }
    other
}

/// All differences of a case.
pub fn differences(scenario: &Value) -> (usize, Vec<Difference>) {
    let Some(first) = run(scenario) else {
        return (0, vec![fault(Kind::Fault, "unreadable", "the case cannot be read".to_string())]);
    };
    let mut all = first.differences;
    if all.is_empty()
        && let Some(other) = run(&reordered(scenario))
        && other.steps != first.steps
    {
        let why = format!("objects in another order: {:?} became {:?}", first.steps, other.steps);
        all.push(fault(Kind::Metamorphic, &format!("{}: order", policy_of(scenario)), why));
    }
    (first.evictions, all)
}

/// Whether a case differs in the way of `like`.
pub fn differs_like(scenario: &Value, like: &Difference) -> Option<Difference> {
    differences(scenario).1.into_iter().find(|other| other.kind == like.kind && other.about == like.about)
}

/// Judges the cases of these seeds and tells of each difference. `returning`: controllers make every pod.
pub fn explore(
    seeds: impl Iterator<Item = u64>,
    returning: bool,
    found: &mut dyn FnMut(u64, &Value, &Difference),
) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        let Case { policy, kind, forms, scenario } = case(seed, returning);
        let (evictions, differences) = differences(&scenario);
        tally.cases += 1;
        tally.evictions += evictions;
        *tally.by_policy.entry(policy).or_default() += 1;
        *tally.by_kind.entry(kind).or_default() += 1;
        forms.into_iter().for_each(|form| *tally.by_form.entry(form).or_default() += 1);
        if let Some(difference) = differences.first() {
            *tally.differences.entry((difference.kind, difference.about.clone())).or_default() += 1;
            found(seed, &scenario, difference);
        }
    }
    tally
}
