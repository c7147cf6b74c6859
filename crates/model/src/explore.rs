//! Many random cases, what they showed, and the smallest case of each kind of difference.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use quotient_sim::Scenario;
use quotient_sim::scenario::parse;
use serde_json::{Value, json};

use crate::case::case;
use crate::check::{Difference, Kind};
use crate::drive::{Run, StepLog, WAIT_MAX, run, run_unwatched};
use crate::world::text;

const CARD_QUOTA: &str = "volcano.sh/card.quota";

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
    let all = compared("restarts", first, &run_unwatched(&other), &[]);
    all.or_else(|| {
        (1..scenario.steps.len()).find_map(|point| {
            let mut other = scenario.clone();
            other.steps[point].restart ^= true;
            compared("a restart", first, &run_unwatched(&other), &[])
        })
    })
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

fn read(scenario: &Value) -> Option<Scenario> {
    parse("case", &scenario.to_string(), Path::new("")).ok()?.into_iter().next()
}

/// What must not change anything.
fn metamorphic(scenario: &Value, first: &Run) -> Option<Difference> {
    let restart = restarted(&read(scenario)?, first);
    let varied = restart.or_else(|| {
        variants(scenario).into_iter().find_map(|variant| {
            compared(variant.what, first, &run_unwatched(&read(&variant.scenario)?), variant.rename)
        })
    });
    varied.or_else(|| scaled(scenario, first))
}

/// The metamorphic properties alone; `None` for a case that is not admitted.
pub fn changes_nothing(scenario: &Value) -> Option<Result<Run, Difference>> {
    let first = run_unwatched(&read(scenario)?);
    if !first.rejected.is_empty() {
        return None;
    }
    let fault = first.differences.first().cloned();
    Some(fault.or_else(|| metamorphic(scenario, &first)).map_or(Ok(first), Err))
}

/// How many times as large amounts are where a tree is to deal out whole parts of them, by resource: a product of small
/// primes, so that what small numbers divide comes out even, and as large as an amount of 64 bits has room for.
fn fine(resource: &str) -> u64 {
    match resource {
        // Gibibytes have all the factors of two already.
        "memory" => 27 * 25 * 49 * 11 * 13 * 17,
        _ => 16 * 27 * 5 * 49 * 11 * 13 * 17 * 19 * 23,
    }
}

/// All amounts three times as large. A tree deals out whole units, of which there are more then, so that a pod that
/// is as large as a third of something fits or does not, and comes first or does not, by one unit: that is another
/// cluster. So a cluster with a tree is made so large first that nothing is left over where it deals out. And where a
/// pod requests no memory a node's score counts 200 MB for it, which do not grow: memory is left alone where nobody
/// requests it, and must not be mixed.
fn scaled(scenario: &Value, first: &Run) -> Option<Difference> {
    let text = scenario.to_string();
    let pods = text.matches("\"requests\":").count();
    let with_memory = text
        .split("\"requests\":")
        .skip(1)
        .filter(|rest| rest.split('}').next().is_some_and(|requests| requests.contains("\"memory\"")));
    let with_memory = with_memory.count();
    if with_memory > 0 && with_memory < pods {
        return None;
    }
    let is_fixed = |resource: &str| resource == "pods" || with_memory == 0 && resource == "memory";
    let grow = |scenario: &mut Value, factor: &dyn Fn(&str) -> u64| {
        scale(scenario, false, &|resource| if is_fixed(resource) { 1 } else { factor(resource) });
    };
    let mut scenario = scenario.clone();
    let is_dealt_out = text.contains("scheduling.sigs.k8s.io");
    if is_dealt_out {
        grow(&mut scenario, &fine);
    }
    let large = is_dealt_out.then(|| Some(run_unwatched(&read(&scenario)?))).flatten();
    grow(&mut scenario, &|_| 3);
    compared("three times as much", large.as_ref().unwrap_or(first), &run_unwatched(&read(&scenario)?), &[])
}

/// Scales what is in whatever holds amounts.
fn scale(value: &mut Value, are_amounts: bool, factor: &dyn Fn(&str) -> u64) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| scale(item, false, factor)),
        Value::Object(map) => {
            for (name, value) in map {
                let holds = ["requests", "limits", "allocatable", "min", "max", "deserved", "capability", "resource"];
                if are_amounts {
                    *value = times(value, factor(name));
                } else if name == CARD_QUOTA
                    && let Some(Ok(mut cards)) = value.as_str().map(serde_json::from_str::<Value>)
                {
                    scale(&mut cards, true, factor);
                    *value = json!(cards.to_string());
                } else {
                    scale(value, holds.contains(&name.as_str()), factor);
                }
            }
        }
        _ => {}
    }
}

/// A quantity with a whole number, so many times as large.
fn times(quantity: &Value, factor: u64) -> Value {
    if let Some(number) = quantity.as_u64() {
        return json!(number * factor);
    }
    let text = quantity.as_str().unwrap_or_default();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().unwrap_or_default();
    json!(format!("{}{}", number * factor, &text[digits..]))
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
