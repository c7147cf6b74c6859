//! Many random cases, what they showed, and the smallest case of each kind of difference.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::case::case;
use crate::check::{Difference, Kind};
use crate::drive::{Run, StepLog, run};

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

/// A variant of a case that must come to the same, and why.
struct Variant {
    what: &'static str,
    scenario: Value,
    /// Names as they are in the case, from names as they are in the variant.
    rename: &'static [(&'static str, &'static str)],
}

/// What must not change anything.
fn metamorphic(scenario: &Value, first: &Run) -> Option<Difference> {
    variants(scenario).into_iter().find_map(|variant| {
        let other = run(&variant.scenario).ok()?;
        let back = |texts: &[String]| -> Vec<String> {
            let mut texts: Vec<String> = texts
                .iter()
                .map(|text| variant.rename.iter().fold(text.clone(), |text, (new, old)| text.replace(new, old)))
                .collect();
            texts.sort();
            texts
        };
        let same = |a: &StepLog, b: &StepLog| {
            [(&a.bound, &b.bound), (&a.evicted, &b.evicted), (&a.running, &b.running)].iter().all(|(a, b)| {
                let mut a = a.to_vec();
                a.sort();
                a == back(b)
            })
        };
        if other.steps.len() == first.steps.len() && first.steps.iter().zip(&other.steps).all(|(a, b)| same(a, b)) {
            return None;
        }
        let place = first.steps.iter().zip(&other.steps).position(|(a, b)| !same(a, b));
        let why = match place {
            Some(step) => {
                format!("{}: step {}: {:?} became {:?}", variant.what, step + 1, first.steps[step], other.steps[step])
            }
            None => format!("{}: it does not come to an end", variant.what),
        };
        Some(Difference { kind: Kind::Metamorphic, about: variant.what.to_string(), why })
    })
}

fn variants(scenario: &Value) -> Vec<Variant> {
    let text = scenario.to_string();
    let mut variants = vec![Variant { what: "the same again", scenario: scenario.clone(), rename: &[] }];
    // "At most one more round" after a restart: what comes back by itself may go once more. Waits of reserveAfter start anew.
    if !text.contains("ReplicaSet") && !text.contains("3m") {
        let mut restarted = scenario.clone();
        for step in restarted["spec"]["steps"].as_array_mut().into_iter().flatten().skip(1) {
            step["restart"] = json!(true);
        }
        variants.push(Variant { what: "restarts", scenario: restarted, rename: &[] });
    }
    let renamed = text.replace("ns-", "team-").replace("node-", "worker-").replace("q-", "queue-");
    if let Ok(scenario) = serde_json::from_str(&renamed.replace("queue-name", "q-name").replace("q-name", "queue-name"))
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
        for difference in differences {
            *tally.differences.entry((difference.kind, difference.about.clone())).or_default() += 1;
            found(seed, &case.scenario, &difference);
        }
    }
    tally
}

/// Whether a case differs in the way of `like`.
pub fn differs_like(scenario: &Value, like: &Difference) -> Option<Difference> {
    let (run, differences) = differences(scenario);
    if !run.rejected.is_empty() {
        return None;
    }
    differences.into_iter().find(|other| other.kind == like.kind && other.about == like.about)
}
