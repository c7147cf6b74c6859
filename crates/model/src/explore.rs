//! Many random cases, what they showed, and the smallest case of each kind of difference.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use quotient_sim::Scenario;
use quotient_sim::scenario::parse;
use serde_json::{Value, json};

use crate::case::case;
use crate::check::{Difference, Kind};
use crate::drive::{Run, StepLog, run, run_scenario};
use crate::world::text;

/// Kinds of which differences are known, each with what is wrong. It is to be emptied.
pub const KNOWN: &[(Kind, &str)] = &[
    (Kind::Order, "gangs have their turn after all pods"),
    (Kind::Dearer, "victims of a gang are chosen member by member; a capability alone protects"),
    (
        Kind::NoClaim,
        "a capability alone protects; ceilings are those before the victims go; nothing governed counts as within",
    ),
    (Kind::Right, "a gang is judged member by member; other quotas protect the first victim only"),
    (Kind::Room, "what leaves and what is claimed are added up; a pod beyond its ceiling holds a reservation"),
    (Kind::Reservation, "a reservation is not taken over; room on its way is claimed by a later pod"),
    (Kind::ForNothing, "claimants wait for each other's victims; a tree's total shrinks after the eviction"),
    (Kind::Loop, "rights bite each other's tail"),
    (Kind::Metamorphic, "a younger pod overtakes unless the scheduler restarts"),
];

/// What many cases showed.
#[derive(Debug, Default)]
pub struct Tally {
    pub cases: BTreeMap<&'static str, usize>,
    /// Cases with an object that was not let in; they are not compared.
    pub rejected: usize,
    pub evictions: usize,
    pub differences: BTreeMap<(Kind, String), usize>,
}

/// All differences of a case: what the model finds, and what changes with a restart or without reason.
pub fn differences(scenario: &Value) -> (Run, Vec<Difference>) {
    let first = run(scenario).unwrap_or_default();
    if !first.rejected.is_empty() {
        return (first, Vec::new());
    }
    let mut all = first.differences.clone();
    if all.is_empty() {
        all.extend(metamorphic(scenario, &first));
    }
    (first, all)
}

/// Waits that are longer in all than this start reservations, which a restart starts anew.
const WAIT_MAX: Duration = Duration::from_secs(290);

/// The same with a restart at every step, or without any where it has some: "restart changes nothing". Only where
/// nothing makes pods anew: what comes back by itself may go once more after a restart.
pub fn restarted(scenario: &Scenario, first: &Run) -> Option<Difference> {
    let makes = scenario
        .steps
        .iter()
        .flat_map(|step| &step.apply)
        .any(|object| matches!(text(object, "/kind"), "ReplicaSet" | "Deployment" | "StatefulSet" | "Job"));
    let waits: Duration = scenario.steps.iter().filter_map(|step| step.wait).sum();
    if makes || waits > WAIT_MAX {
        return None;
    }
    let mut other = scenario.clone();
    let none = !scenario.steps.iter().any(|step| step.restart);
    for step in other.steps.iter_mut().skip(1) {
        step.restart = none;
    }
    compared("restarts", first, &run_scenario(&other), &[])
}

/// Where two runs that must come to the same do not.
fn compared(what: &str, first: &Run, other: &Run, rename: &[(&str, &str)]) -> Option<Difference> {
    let back = |texts: &[String]| -> Vec<String> {
        let renamed = |text: &String| rename.iter().fold(text.clone(), |text, (new, old)| text.replace(new, old));
        let mut texts: Vec<String> = texts.iter().map(renamed).collect();
        texts.sort();
        texts
    };
    let log = |step: &StepLog, back: &dyn Fn(&[String]) -> Vec<String>| {
        (back(&step.bound), back(&step.evicted), back(&step.running))
    };
    let sorted = |texts: &[String]| {
        let mut texts = texts.to_vec();
        texts.sort();
        texts
    };
    let mut steps = first.steps.iter().zip(&other.steps);
    let differs = steps.position(|(a, b)| log(a, &sorted) != log(b, &back));
    let why = match differs {
        Some(step) => {
            format!("{what}: step {}: {:?} became {:?}", step + 1, first.steps[step], other.steps[step])
        }
        None if first.steps.len() != other.steps.len() => format!("{what}: one of the two does not come to an end"),
        None => return None,
    };
    Some(Difference { kind: Kind::Metamorphic, about: what.to_string(), why })
}

/// A variant of a case that must come to the same, and why.
struct Variant {
    what: &'static str,
    scenario: Value,
    /// Names as they are in the case, from names as they are in the variant.
    rename: &'static [(&'static str, &'static str)],
}

/// What must not change anything.
fn metamorphic(scenario: &Value, first: &Run) -> Option<Difference> {
    let read = parse("case", &scenario.to_string(), Path::new("")).ok()?;
    let restart = read.first().and_then(|scenario| restarted(scenario, first));
    restart.or_else(|| {
        variants(scenario)
            .into_iter()
            .find_map(|variant| compared(variant.what, first, &run(&variant.scenario).ok()?, variant.rename))
    })
}

fn variants(scenario: &Value) -> Vec<Variant> {
    let text = scenario.to_string();
    let mut variants = vec![Variant { what: "the same again", scenario: scenario.clone(), rename: &[] }];
    let made = text.contains("ReplicaSet");
    let renamed = text.replace("ns-", "team-").replace("node-", "worker-").replace("q-", "queue-");
    if !made
        && let Ok(scenario) =
            serde_json::from_str(&renamed.replace("queue-name", "q-name").replace("q-name", "queue-name"))
    {
        let rename = &[("team-", "ns-"), ("worker-", "node-"), ("queue-", "q-")];
        variants.push(Variant { what: "other names", scenario, rename });
    }
    if !text.contains("n8s.nebuly.ai") {
        let mut more = scenario.clone();
        let quota = json!({"apiVersion": "n8s.nebuly.ai/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"namespace": "elsewhere", "name": "eq"}, "spec": {"min": {"cpu": "1"}}});
        if let Some(apply) = more["spec"]["steps"][0]["apply"].as_array_mut() {
            apply.insert(0, quota);
        }
        variants.push(Variant { what: "an unrelated quota", scenario: more, rename: &[] });
    }
    let mut again = scenario.clone();
    let mut applied: Vec<Value> = Vec::new();
    for step in again["spec"]["steps"].as_array_mut().into_iter().flatten() {
        let own = step["apply"].as_array().cloned().unwrap_or_default();
        let kept: Vec<Value> =
            applied.iter().filter(|old| !own.iter().any(|new| same_object(old, new))).cloned().collect();
        applied = kept.iter().cloned().chain(own.iter().cloned()).collect();
        step["apply"] = Value::Array(kept.into_iter().chain(own).collect());
    }
    variants.push(Variant { what: "applied again", scenario: again, rename: &[] });
    variants
}

fn same_object(a: &Value, b: &Value) -> bool {
    let name = |object: &Value| {
        (
            object["apiVersion"].clone(),
            object["kind"].clone(),
            object["metadata"]["namespace"].clone(),
            object["metadata"]["name"].clone(),
        )
    };
    name(a) == name(b)
}

/// Compares the cases of these seeds and tells of each difference.
pub fn explore(seeds: impl Iterator<Item = u64>, found: &mut dyn FnMut(u64, &Value, &Difference)) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        let case = case(seed);
        let (run, differences) = differences(&case.scenario);
        if !run.rejected.is_empty() {
            tally.rejected += 1;
            continue;
        }
        *tally.cases.entry(case.policy).or_default() += 1;
        tally.evictions += run.steps.iter().map(|step| step.evicted.len()).sum::<usize>();
        let mut told: BTreeSet<(Kind, String)> = BTreeSet::new();
        for difference in differences {
            if !told.insert((difference.kind, difference.about.clone())) {
                continue;
            }
            *tally.differences.entry((difference.kind, difference.about.clone())).or_default() += 1;
            found(seed, &case.scenario, &difference);
        }
    }
    tally
}

/// Whether a case differs in the way of `like`, and the model knows all its pods.
pub fn differs_like(scenario: &Value, like: &Difference) -> Option<Difference> {
    let first = run(scenario).ok()?;
    if !first.rejected.is_empty() || first.unmodelled {
        return None;
    }
    let mut all = first.differences.clone();
    if like.kind == Kind::Metamorphic && all.is_empty() {
        all.extend(metamorphic(scenario, &first));
    }
    all.into_iter().find(|other| other.kind == like.kind && other.about == like.about)
}
