//! Quotas that are let in and still do not do what they say: promises that the nodes cannot keep.

use std::collections::{BTreeMap, BTreeSet};

use quotient_engine::quantity::canonical;
use serde_json::Value;

use super::capacity::{Held, Sums, is_of_devices};
use super::is_elastic;
use crate::object::{ObjectKey, key_of};
use crate::problem::Problem;

/// What is wrong with these quotas on these nodes, quota by quota in the order given. Of a pool that promises too
/// much, the quota with which it begins to is named. Where there are no nodes there is nothing to compare with.
pub fn traps(quotas: &[&Value], nodes: &[&Value], classes: &[&Value], whole_gpu_gb: u32) -> Vec<(ObjectKey, Problem)> {
    if nodes.is_empty() {
        return Vec::new();
    }
    let held = Held::by(nodes, whole_gpu_gb);
    let quotas: Vec<(ObjectKey, Sums)> = quotas
        .iter()
        .filter_map(|quota| Some((key_of(quota).ok()?, Sums::of(quota.pointer("/spec/min")))))
        .filter(|(key, _)| is_elastic(key))
        .collect();
    let is_unreachable = |resource: &str, min: i128| min > held.amount(resource);
    let told_alone: BTreeSet<(&str, &str)> = quotas
        .iter()
        .flat_map(|(key, min)| min.iter().map(|(resource, amount)| (key.group, resource, amount)))
        .filter(|(_, resource, amount)| is_unreachable(resource, *amount))
        .map(|(group, resource, _)| (group, resource))
        .collect();
    let mut sums: BTreeMap<(&str, &str), i128> = BTreeMap::new();
    let mut found = Vec::new();
    for (key, min) in &quotas {
        for (resource, amount) in min.iter().filter(|(resource, _)| !is_of_devices(resource, classes)) {
            let held = held.amount(resource);
            let sum = sums.entry((key.group, resource)).or_default();
            let before = *sum;
            *sum += amount;
            let message = if is_unreachable(resource, amount) {
                unreachable(resource, held)
            } else if before <= held && *sum > held && !told_alone.contains(&(key.group, resource)) {
                beyond_nodes(key.group, resource, total(&quotas, key.group, resource), held)
            } else {
                continue;
            };
            let field = if resource.contains(['.', '/']) {
                format!("spec.min[{resource:?}]")
            } else {
                format!("spec.min.{resource}")
            };
            let value = Value::from(canonical(resource, amount));
            found.push((key.clone(), Problem::new(message).of_object(key).at_field(field).with_value(&value)));
        }
    }
    found
}

fn total(quotas: &[(ObjectKey, Sums)], group: &str, resource: &str) -> i128 {
    quotas.iter().filter(|(key, _)| key.group == group).map(|(_, min)| min.get(resource)).sum()
}

fn unreachable(resource: &str, held: i128) -> String {
    match held {
        0 => format!("no node has {resource}: this min can never be had"),
        held => format!(
            "all nodes together hold {}: this min can never be had, expected at most as much",
            canonical(resource, held)
        ),
    }
}

/// That the mins of a pool are more than the nodes hold.
pub(crate) fn beyond_nodes(group: &str, resource: &str, sum: i128, held: i128) -> String {
    format!(
        "the mins of all quotas of {group} sum up to {} of {resource}, and the nodes hold {}: not all of them can be had at once",
        canonical(resource, sum),
        canonical(resource, held),
    )
}
