//! Asking for less or for something else, more priority, and pods that would have to end.

use std::collections::BTreeSet;

use quotient_api::{ObjectKey, volcano};
use quotient_engine::fact::Name;
use quotient_engine::quantity::{Quantity, canonical};
use quotient_engine::{Code, Filter, Numbers};
use serde_json::{Value, json};

use super::Remedy;
use super::trial::{Edit, Trial};
use crate::standing::amount_of;

/// The most nodes whose pods are looked through for those that would have to end.
const NODES_MAX: usize = 16;

/// The most pods that would have to end for a gang.
const ENDS_MAX: usize = 32;

/// The most sets of pods that are tried to end.
const SETS_MAX: usize = 3;

/// The scheduling gates are removed.
pub(super) fn without_gates(trial: &Trial<'_>) -> Option<Remedy> {
    let gates =
        trial.pod.pointer("/spec/schedulingGates").and_then(Value::as_array).filter(|gates| !gates.is_empty())?;
    let names: Vec<&str> = gates.iter().filter_map(|gate| gate.get("name").and_then(Value::as_str)).collect();
    let edits = trial.changed(|pod| {
        if let Some(spec) = pod["spec"].as_object_mut() {
            spec.shift_remove("schedulingGates");
        }
    });
    let evicts = trial.runs(&edits)?;
    let names = names.join(", ");
    let changes = trial.changes("spec.schedulingGates", Some(&names), None);
    let message = trial.of_all(format!("remove the scheduling gates {names}"));
    Some(Remedy { kind: "gates", message, changes, evicts, ends: Vec::new() })
}

/// Another kind of card that the cluster has.
pub(super) fn another_card(trial: &Trial<'_>) -> Vec<Remedy> {
    let annotation = trial.pod.pointer("/metadata/annotations").and_then(|all| all.get(volcano::CARD_NAME));
    let Some(wanted) = annotation.and_then(Value::as_str) else { return Vec::new() };
    let accepted: Vec<&str> = wanted.split('|').collect();
    let cards: BTreeSet<String> = trial.state.nodes().iter().flat_map(|node| node.cards.keys().cloned()).collect();
    let others = cards.into_iter().filter(|card| !accepted.contains(&card.as_str()));
    let tried = others.filter_map(|card| {
        let wider = format!("{wanted}|{card}");
        let edits = trial.changed(|pod| pod["metadata"]["annotations"][volcano::CARD_NAME] = json!(wider));
        let evicts = trial.runs(&edits)?;
        let field = format!("metadata.annotations[{:?}]", volcano::CARD_NAME);
        let changes = trial.changes(&field, Some(wanted), Some(&wider));
        let message = trial.of_all(format!("accept the card {card} too"));
        Some(Remedy { kind: "card", message, changes, evicts, ends: Vec::new() })
    });
    tried.collect()
}

/// The resource that alone is missing, and how much of it: at the quota that refuses, or on the node that lacks least.
fn missing(trial: &Trial<'_>) -> Option<Numbers> {
    if trial.reason.quota.is_some() {
        return trial.reason.numbers.clone();
    }
    let alone = trial.verdicts.iter().filter(|verdict| verdict.closed_by == Some(Filter::NodeResourcesFit));
    let alone = alone.filter_map(|verdict| match &verdict.short[..] {
        [numbers] => Some(numbers),
        _ => None,
    });
    alone.min_by_key(|numbers| (numbers.short_by(), numbers.resource.clone())).cloned()
}

/// The largest request that would do, where one container asks for what is missing.
pub(super) fn smaller_request(trial: &Trial<'_>) -> Option<Remedy> {
    let numbers = missing(trial)?;
    let (resource, free) = (&*numbers.resource, numbers.requested - numbers.short_by());
    if free <= 0 {
        return None;
    }
    let containers = trial.pod.pointer("/spec/containers").and_then(Value::as_array)?;
    let asks = |container: &Value| {
        let value = container.get("resources")?.get("requests")?.get(resource)?;
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.parse::<Quantity>().ok().map(|quantity| quantity.sum(resource))
    };
    let of: Vec<(usize, i128)> =
        containers.iter().enumerate().filter_map(|(at, container)| Some((at, asks(container)?))).collect();
    let [(at, asked)] = of[..] else { return None };
    let less = asked - numbers.short_by();
    if less <= 0 {
        return None;
    }
    let with = |amount: i128| {
        trial.changed(|pod| {
            let (resources, amount) = (&mut pod["spec"]["containers"][at]["resources"], canonical(resource, amount));
            resources["requests"][resource] = json!(amount);
            if resource.contains('/') || resource.starts_with("hugepages-") {
                resources["limits"][resource] = json!(amount);
            }
        })
    };
    // What is free now is enough. A pod that is entitled to evict may get more than that: then it is found by halves.
    let (mut most, mut evicts, mut too_much) = (less, trial.runs(&with(less))?, less + 1);
    if too_much < asked
        && let Some(more) = trial.runs(&with(too_much))
    {
        (most, evicts, too_much) = (too_much, more, asked);
        while too_much - most > 1 {
            let middle = most + (too_much - most) / 2;
            match trial.runs(&with(middle)) {
                Some(more) => (most, evicts) = (middle, more),
                None => too_much = middle,
            }
        }
    }
    let to = canonical(resource, most);
    let field = format!("spec.containers[{at}].resources.requests[{resource:?}]");
    let from = canonical(resource, asked);
    let message = trial.of_all(format!("request {to} {resource} instead of {from}"));
    let changes = trial.changes(&field, Some(&from), Some(&to));
    Some(Remedy { kind: "smaller-request", message, changes, evicts, ends: Vec::new() })
}

/// A set of pods that would have to end, none of which could stay.
pub(super) fn pods_that_end(trial: &Trial<'_>) -> Option<Remedy> {
    let mut sets = candidate_sets(trial);
    sets.sort_by_key(Vec::len);
    // Where the smallest do not help, it is mostly because pods that are ahead of it in the queue take what they free.
    let found = sets.into_iter().take(SETS_MAX).find(|set| ends_help(trial, set));
    let mut ends = found.or_else(|| enough_for_gang(trial))?;
    // What is not needed of a set is left out of it. Who could not be left out may be when another is: pods that would
    // start instead are then pending, too.
    let (mut at, mut tried) = (0, 0);
    while tried < ends.len() && ends.len() > 1 {
        let mut fewer = ends.clone();
        fewer.remove(at % ends.len());
        if ends_help(trial, &fewer) {
            (ends, tried) = (fewer, 0);
        } else {
            (at, tried) = (at + 1, tried + 1);
        }
    }
    let evicts = trial.runs(&edits(&ends))?;
    let names: Vec<String> =
        ends.iter().map(|key| format!("{}/{}", key.namespace.as_deref().unwrap_or_default(), key.name)).collect();
    let verb = if names.len() == 1 { "ends" } else { "end" };
    let message = format!("wait until {} {verb}", names.join(" and "));
    Some(Remedy { kind: "pods-end", message, changes: Vec::new(), evicts, ends: names })
}

fn edits(ends: &[ObjectKey]) -> Vec<Edit> {
    ends.iter().cloned().map(Edit::End).collect()
}

fn ends_help(trial: &Trial<'_>, ends: &[ObjectKey]) -> bool {
    !ends.is_empty() && trial.runs(&edits(ends)).is_some()
}

/// Pods whose end would do for a whole gang, those that hold most of what is missing first: twice as many each time.
fn enough_for_gang(trial: &Trial<'_>) -> Option<Vec<ObjectKey>> {
    if !trial.is_of_gang() {
        return None;
    }
    let (pods, resources) = match (&trial.reason.quota, &trial.reason.numbers) {
        (Some(quota), Some(numbers)) => (trial.state.pods_under(&quota.to_string()), vec![numbers.resource.clone()]),
        _ => {
            let short = || trial.verdicts.iter().filter(|verdict| !verdict.short.is_empty()).take(NODES_MAX);
            let on = |node: &str| trial.state.pods_on(node).into_iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
            let missing = short().flat_map(|verdict| &verdict.short).map(|numbers| numbers.resource.clone());
            let missing: BTreeSet<_> = missing.collect();
            (short().flat_map(|verdict| on(&verdict.node)).collect(), missing.into_iter().collect())
        }
    };
    let ranked = holders(trial, &pods, &resources);
    let ranked: Vec<ObjectKey> = ranked.into_iter().take(ENDS_MAX).map(|(_, key)| key.clone()).collect();
    let sizes = std::iter::successors(Some(1), |size| (*size < ranked.len()).then_some(size * 2));
    let sets = sizes.map(|size| ranked[..size.min(ranked.len())].to_vec());
    sets.into_iter().find(|set| ends_help(trial, set))
}

/// Sets of pods that hold together what is missing: under the quota that refuses, or on a node.
fn candidate_sets(trial: &Trial<'_>) -> Vec<Vec<ObjectKey>> {
    let reason = &trial.reason;
    if let (Some(quota), Some(numbers)) = (&reason.quota, &reason.numbers) {
        let pods = trial.state.pods_under(&quota.to_string());
        return covering(trial, &pods, std::slice::from_ref(numbers)).into_iter().collect();
    }
    let short = trial.verdicts.iter().filter(|verdict| verdict.closed_by == Some(Filter::NodeResourcesFit));
    let short = short.filter(|verdict| verdict.short.iter().all(|numbers| numbers.requested <= numbers.limit));
    short
        .take(NODES_MAX)
        .filter_map(|verdict| {
            let pods = trial.state.pods_on(&verdict.node).into_iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
            covering(trial, &pods, &verdict.short)
        })
        .collect()
}

/// The fewest of some pods that hold what is missing: those that hold most of it first.
fn covering(trial: &Trial<'_>, pods: &[ObjectKey], missing: &[Numbers]) -> Option<Vec<ObjectKey>> {
    let resources: Vec<Name> = missing.iter().map(|numbers| numbers.resource.clone()).collect();
    let ranked = holders(trial, pods, &resources);
    let mut left: Vec<i128> = missing.iter().map(Numbers::short_by).collect();
    let mut chosen = Vec::new();
    for (holds, key) in ranked {
        if left.iter().all(|left| *left <= 0) {
            break;
        }
        left.iter_mut().zip(holds).for_each(|(left, held)| *left -= held);
        chosen.push(key.clone());
    }
    left.iter().all(|left| *left <= 0).then_some(chosen)
}

/// Those of some pods that hold any of these resources, and how much; who holds most comes first.
fn holders<'k>(trial: &Trial<'_>, pods: &'k [ObjectKey], resources: &[Name]) -> Vec<(Vec<i128>, &'k ObjectKey)> {
    let holds = |key: &ObjectKey| {
        let requests = trial.state.requests(key.namespace.as_deref().unwrap_or_default(), &key.name);
        resources.iter().map(|resource| amount_of(&requests, resource)).collect::<Vec<i128>>()
    };
    let mut ranked: Vec<(Vec<i128>, &ObjectKey)> = pods.iter().map(|key| (holds(key), key)).collect();
    ranked.retain(|(holds, _)| holds.iter().any(|amount| *amount > 0));
    ranked.sort_by(|(a, x), (b, y)| b.cmp(a).then_with(|| x.cmp(y)));
    ranked
}

/// The lowest priority with which the pod would evict others, and whom.
pub(super) fn higher_priority(trial: &Trial<'_>) -> Option<Remedy> {
    let own = trial.pod.pointer("/spec/priority").and_then(Value::as_i64).unwrap_or(0);
    let never = trial.pod.pointer("/spec/preemptionPolicy").is_some_and(|policy| policy == "Never");
    if never || trial.reason.code == Code::SchedulingGated {
        return None;
    }
    const USER_PRIORITY_MAX: i64 = 1_000_000_000;
    let priorities = trial.state.cluster().engine().running_priorities().into_iter().map(i64::from);
    let above = priorities.filter(|priority| *priority >= own).map(|priority| priority + 1);
    let candidates: Vec<i64> = above.filter(|priority| *priority <= USER_PRIORITY_MAX).collect();
    let with = |priority: i64| {
        trial.changed(|pod| {
            pod["spec"]["priority"] = json!(priority);
            if let Some(spec) = pod["spec"].as_object_mut() {
                spec.shift_remove("priorityClassName");
            }
        })
    };
    // More priority never takes a right away, so that the lowest that does can be found by halves.
    let (mut low, mut high) = (0, candidates.len());
    let mut found = None;
    while low < high {
        let middle = low + (high - low) / 2;
        match trial.runs(&with(candidates[middle])) {
            Some(evicts) => {
                found = Some((candidates[middle], evicts));
                high = middle;
            }
            None => low = middle + 1,
        }
    }
    let (priority, evicts) = found?;
    let victims = if evicts.is_empty() { String::new() } else { format!(", which evicts {}", some(&evicts)) };
    let changes = trial.changes("spec.priority", Some(&own.to_string()), Some(&priority.to_string()));
    let message = format!("{}{victims}", trial.of_all(format!("raise its priority from {own} to {priority}")));
    Some(Remedy { kind: "priority", message, changes, evicts, ends: Vec::new() })
}

fn some(names: &[String]) -> String {
    const NAMES_MAX: usize = 5;
    let shown = names[..names.len().min(NAMES_MAX)].join(", ");
    if names.len() > NAMES_MAX { format!("{shown} and {} more", names.len() - NAMES_MAX) } else { shown }
}
