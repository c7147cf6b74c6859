//! How a quota of a tree stands, as it is written on its object: annotations where people of this API look for them,
//! and the same in the status.

use std::collections::BTreeMap;

use quotient_engine::fact::{Name, QuotaKey};
use quotient_engine::quantity::canonical;
use quotient_engine::{PolicyKind, QuotaReport};
use serde_json::{Map, Value};

use super::{annotation, keys};
use crate::conditions::{self, Condition};
use crate::gpu_memory::GPU_MEMORY;

/// What a quota holds for itself and for those below it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Held {
    /// What its pods hold; of a parent, what the quotas below it are guaranteed.
    allocated: BTreeMap<Name, i128>,
    /// The same, at least its min.
    guaranteed: BTreeMap<Name, i128>,
}

/// What each quota of a tree holds, by key.
pub fn held(reports: &[QuotaReport]) -> BTreeMap<&QuotaKey, Held> {
    let by_key: BTreeMap<&QuotaKey, &QuotaReport> =
        reports.iter().filter(|report| report.policy == PolicyKind::Tree).map(|report| (&report.key, report)).collect();
    let depth = |report: &QuotaReport| {
        let above = std::iter::successors(report.parent.as_ref(), |parent| by_key.get(parent)?.parent.as_ref());
        // No chain is longer than there are quotas.
        above.take(by_key.len()).count()
    };
    let mut from_below: Vec<(usize, &QuotaReport)> = by_key.values().map(|report| (depth(report), *report)).collect();
    from_below.sort_by(|(depth, _), (other, _)| other.cmp(depth));
    let mut held: BTreeMap<&QuotaKey, Held> = BTreeMap::new();
    let mut below: BTreeMap<&QuotaKey, BTreeMap<Name, i128>> = BTreeMap::new();
    for (_, report) in from_below {
        let allocated = below.remove(&report.key).unwrap_or_else(|| report.used.iter().cloned().collect());
        let mut guaranteed = allocated.clone();
        for (resource, min) in &report.min {
            let amount = guaranteed.entry(resource.clone()).or_default();
            *amount = (*amount).max(*min);
        }
        if let Some(parent) = &report.parent {
            let sums = below.entry(parent).or_default();
            for (resource, amount) in &guaranteed {
                *sums.entry(resource.clone()).or_default() += amount;
            }
        }
        held.insert(&report.key, Held { allocated, guaranteed });
    }
    held
}

/// Writes how a quota stands on its object. A quota that does not count, because another one has its name, has no
/// report.
pub fn write(object: &mut Value, report: Option<&QuotaReport>, held: Option<&Held>, now: &str) {
    let (no_report, nothing_held) = (QuotaReport::default(), Held::default());
    let counts = report.is_some();
    let (report, held) = (report.unwrap_or(&no_report), held.unwrap_or(&nothing_held));
    let named: Vec<Name> = report.max.iter().chain(&report.runtime).map(|(resource, _)| resource.clone()).collect();
    let amounts = |amounts: &mut dyn Iterator<Item = (&Name, i128)>| {
        let mut shown: BTreeMap<Name, i128> = named.iter().map(|resource| (resource.clone(), 0)).collect();
        for (resource, amount) in amounts {
            if let Some(shown) = shown.get_mut(resource) {
                *shown = amount;
            }
        }
        shown
    };
    let listed = |list: &[(Name, i128)]| amounts(&mut list.iter().map(|(resource, amount)| (resource, *amount)));
    let mapped = |map: &BTreeMap<Name, i128>| amounts(&mut map.iter().map(|(resource, amount)| (resource, *amount)));
    let (runtime, request) = (listed(&report.runtime), listed(&report.requested));
    if let Some(annotations) = object.get_mut("metadata").and_then(|m| crate::admission::object_in(m, "annotations")) {
        for (key, amounts) in [
            (keys::RUNTIME, &runtime),
            (keys::REQUEST, &request),
            (keys::CHILD_REQUEST, &listed(&report.child_requested)),
            (keys::NON_PREEMPTIBLE_USED, &listed(&report.non_preemptible_used)),
            (keys::NON_PREEMPTIBLE_REQUEST, &listed(&report.non_preemptible_requested)),
            (keys::ALLOCATED, &mapped(&held.allocated)),
            (keys::GUARANTEED, &mapped(&held.guaranteed)),
        ] {
            let text = annotation::written(amounts.iter().map(|(resource, amount)| (&**resource, *amount)));
            annotations.insert(key.to_string(), Value::from(text));
        }
    }
    // All that pods hold is shown, named or not, but no GPU memory that nobody asked for by its name.
    let mut used = listed(&report.used);
    let others = report.used.iter().filter(|(resource, _)| !GPU_MEMORY.contains(&&**resource));
    used.extend(others.cloned());
    if let Some(status) = crate::admission::object_in(object, "status") {
        for (name, amounts) in [
            ("used", used),
            ("runtime", runtime),
            ("request", request),
            ("borrowed", report.borrowed.iter().cloned().collect()),
            ("lent", report.lent.iter().cloned().collect()),
        ] {
            status.insert(name.to_string(), quantities(&amounts));
        }
    }
    conditions::set(object, &[counts_condition(counts), overused(report)], now);
}

fn quantities(amounts: &BTreeMap<Name, i128>) -> Value {
    let quantity =
        |(resource, amount): (&Name, &i128)| (resource.to_string(), Value::from(canonical(resource, *amount)));
    Value::Object(amounts.iter().map(quantity).collect::<Map<String, Value>>())
}

fn counts_condition(counts: bool) -> Condition {
    let (reason, message) = match counts {
        true => ("Counts", "pods are held to this quota"),
        false => ("NameTaken", "a quota of the same name in another namespace counts, and this one does not"),
    };
    Condition { kind: "Counts", holds: counts, reason, message: message.to_string() }
}

/// Whether the quota holds more than it may. If that lasts it has to give back.
fn overused(report: &QuotaReport) -> Condition {
    let above = |(resource, runtime): &(Name, i128)| {
        let used = report.used.iter().find(|(used, _)| used == resource).map_or(0, |(_, used)| *used);
        let (used, runtime) = (used > *runtime).then(|| (canonical(resource, used), canonical(resource, *runtime)))?;
        Some(format!("{resource}: {used} used, runtime {runtime}"))
    };
    let above: Vec<String> = report.runtime.iter().filter_map(above).collect();
    let (holds, reason, message) = match above.is_empty() {
        true => (false, "WithinRuntime", "no more is used than the runtime".to_string()),
        false => (true, "UsedAboveRuntime", above.join("; ")),
    };
    Condition { kind: "Overused", holds, reason, message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn amounts(amounts: &[(&str, i128)]) -> Vec<(Name, i128)> {
        amounts.iter().map(|(name, amount)| ((*name).into(), *amount)).collect()
    }

    fn report(name: &str, parent: Option<&str>, min: i128, used: i128) -> QuotaReport {
        let key = |name: &str| QuotaKey { name: name.into(), ..QuotaKey::default() };
        QuotaReport {
            key: key(name),
            parent: parent.map(key),
            policy: PolicyKind::Tree,
            min: amounts(&[("cpu", min)]),
            max: amounts(&[("cpu", 100_000)]),
            used: amounts(&[("cpu", used)]),
            runtime: amounts(&[("cpu", 50_000)]),
            ..QuotaReport::default()
        }
    }

    #[test]
    fn what_is_guaranteed_adds_up() {
        let reports = [
            report("p", None, 10_000, 9_000),
            report("a", Some("p"), 4_000, 6_000),
            report("b", Some("p"), 5_000, 3_000),
        ];
        let held = held(&reports);
        let of = |name: &str| {
            let held = &held[&QuotaKey { name: name.into(), ..QuotaKey::default() }];
            (held.allocated["cpu"], held.guaranteed["cpu"])
        };
        assert_eq!((of("a"), of("b"), of("p")), ((6_000, 6_000), (3_000, 5_000), (11_000, 11_000)));
    }

    #[test]
    fn figures_are_written_once() {
        let mut object = json!({"metadata": {"name": "a"}, "spec": {}});
        let report = report("a", None, 10_000, 60_000);
        write(&mut object, Some(&report), None, "1");
        let annotations = object["metadata"]["annotations"].clone();
        assert_eq!(annotations[keys::RUNTIME], r#"{"cpu":"50"}"#);
        assert_eq!(annotations[keys::REQUEST], r#"{"cpu":"0"}"#);
        assert_eq!(object["status"]["used"], json!({"cpu": "60"}));
        let conditions = object["status"]["conditions"].clone();
        assert_eq!((&conditions[1]["type"], &conditions[1]["status"]), (&json!("Overused"), &json!("True")));
        assert_eq!(conditions[1]["message"], "cpu: 60 used, runtime 50");
        let before = object.clone();
        write(&mut object, Some(&report), None, "2");
        assert_eq!(object, before, "the same again is no change");
        write(&mut object, None, None, "3");
        assert_eq!(object["status"]["conditions"][0]["reason"], "NameTaken");
    }
}
