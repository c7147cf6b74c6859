//! ResourceQuotas of a namespace: objects beyond them are refused when they are made.
//!
//! An API server asks them once, for objects that are new; what exists elsewhere counts, and is not asked again.

use std::collections::{BTreeMap, BTreeSet};

use quotient_engine::quantity::canonical;
use serde_json::Value;

use super::limit_range::quantity;
use super::{Context, Operation, Rejection, exists_elsewhere};
use crate::cursor::{Cursor, Notes};
use crate::pod::usage;

/// Resources that every container of a pod must name where a quota limits them.
const MUST_BE_NAMED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Refuses a new object that a quota of its namespace has no room for.
pub(super) fn check(object: &Value, context: &Context<'_>) -> Result<(), Rejection> {
    let Some(namespace) = context.key.namespace.as_deref() else { return Ok(()) };
    if context.operation != Operation::Create || exists_elsewhere(object) || context.key.kind == "ResourceQuota" {
        return Ok(());
    }
    for quota in context.view.list("", "ResourceQuota", Some(namespace)) {
        let name = quota.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let Some(hard) = quota.pointer("/spec/hard").and_then(Value::as_object) else { continue };
        let is_pod = (context.key.group, context.key.kind) == ("", "Pod");
        if is_pod && !is_in_scope(quota, object) || !is_pod && has_scopes(quota) {
            continue;
        }
        let asked = usage_of(context.key.group, context.key.kind, object);
        let governed: BTreeSet<&str> =
            hard.keys().map(String::as_str).filter(|name| asked.contains_key(*name)).collect();
        if is_pod {
            must_name(name, hard.keys().map(String::as_str), object)?;
        }
        if governed.is_empty() {
            continue;
        }
        let used = used(quota, namespace, &governed, context);
        let over: Vec<&str> = governed
            .into_iter()
            .filter(|resource| {
                let limit = hard.get(*resource).and_then(quantity).map(|limit| limit.sum(usage::unit(resource)));
                let total = used.get(*resource).copied().unwrap_or(0) + asked[*resource];
                asked[*resource] > 0 && limit.is_some_and(|limit| total > limit)
            })
            .collect();
        if !over.is_empty() {
            let show = |amounts: &dyn Fn(&str) -> String| {
                over.iter().map(|resource| format!("{resource}={}", amounts(resource))).collect::<Vec<_>>().join(",")
            };
            let amount = |amounts: &BTreeMap<String, i128>, resource: &str| {
                canonical(usage::unit(resource), amounts.get(resource).copied().unwrap_or(0))
            };
            return Err(Rejection::new(format!(
                "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
                show(&|resource| amount(&asked, resource)),
                show(&|resource| amount(&used, resource)),
                show(&|resource| hard[resource].as_str().map_or_else(|| hard[resource].to_string(), str::to_owned)),
            )));
        }
    }
    Ok(())
}

/// What of a quota's resources its namespace holds already.
fn used(quota: &Value, namespace: &str, governed: &BTreeSet<&str>, context: &Context<'_>) -> BTreeMap<String, i128> {
    let (group, kind) = (context.key.group, context.key.kind);
    let is_pod = (group, kind) == ("", "Pod");
    let mut used: BTreeMap<String, i128> = BTreeMap::new();
    for object in context.view.list(group, kind, Some(namespace)) {
        let is_over = matches!(object.pointer("/status/phase").and_then(Value::as_str), Some("Succeeded" | "Failed"));
        if is_pod && (is_over || !is_in_scope(quota, object)) {
            continue;
        }
        for (resource, amount) in usage_of(group, kind, object) {
            if governed.contains(resource.as_str()) {
                *used.entry(resource).or_default() += amount;
            }
        }
    }
    used
}

/// What an object counts, under all names that a quota may call it.
fn usage_of(group: &str, kind: &str, object: &Value) -> BTreeMap<String, i128> {
    let mut usage = BTreeMap::new();
    if let Some(known) = crate::kinds::find(group, kind) {
        let dot = if group.is_empty() { "" } else { "." };
        usage.insert(format!("count/{}{dot}{group}", known.plural), 1);
        if group.is_empty() {
            usage.insert(known.plural.to_owned(), 1);
        }
    }
    let notes = Notes::default();
    let root = Cursor::root(object, &notes);
    match (group, kind) {
        ("", "Pod") => {
            let sums = usage::of(&root.field("spec"));
            for (resource, amount) in sums.requests {
                usage.insert(format!("requests.{resource}"), amount);
                if !resource.contains('/') {
                    usage.insert(resource, amount);
                }
            }
            usage.extend(sums.limits.into_iter().map(|(resource, amount)| (format!("limits.{resource}"), amount)));
        }
        ("", "PersistentVolumeClaim") => {
            let spec = root.field("spec");
            let storage = spec.field("resources").field("requests").field("storage").amount("storage").unwrap_or(0);
            usage.insert("requests.storage".to_owned(), storage.into());
            if let Some(class) = spec.field("storageClassName").non_empty_str() {
                usage.insert(format!("{class}.storageclass.storage.k8s.io/requests.storage"), storage.into());
                usage.insert(format!("{class}.storageclass.storage.k8s.io/persistentvolumeclaims"), 1);
            }
        }
        _ => {}
    }
    usage
}

/// Refuses a pod with a container that leaves out what a quota limits.
fn must_name<'a>(name: &str, hard: impl Iterator<Item = &'a str>, pod: &Value) -> Result<(), Rejection> {
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for limited in hard {
        let (part, resource) = match limited.split_once('.') {
            Some(("limits", resource)) => ("limits", resource),
            Some(("requests", resource)) => ("requests", resource),
            _ => ("requests", limited),
        };
        if !MUST_BE_NAMED.contains(&resource) {
            continue;
        }
        let of_pod = pod.pointer(&format!("/spec/resources/{part}/{resource}"));
        for list in ["initContainers", "containers"] {
            for container in pod.pointer(&format!("/spec/{list}")).and_then(Value::as_array).into_iter().flatten() {
                if container.pointer(&format!("/resources/{part}/{resource}")).or(of_pod).is_none() {
                    let container = container.get("name").and_then(Value::as_str).unwrap_or_default();
                    missing.entry(limited).or_default().push(container);
                }
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let shown = missing.iter().map(|(resource, containers)| format!("{resource} for: {}", containers.join(",")));
    Err(Rejection::new(format!("failed quota: {name}: must specify {}", shown.collect::<Vec<_>>().join("; "))))
}

fn has_scopes(quota: &Value) -> bool {
    let given = |pointer: &str| quota.pointer(pointer).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    given("/spec/scopes") || given("/spec/scopeSelector/matchExpressions")
}

/// Whether a quota with scopes counts this pod: all of them must hold.
fn is_in_scope(quota: &Value, pod: &Value) -> bool {
    let scopes = quota.pointer("/spec/scopes").and_then(Value::as_array).into_iter().flatten();
    let selected = quota.pointer("/spec/scopeSelector/matchExpressions").and_then(Value::as_array);
    scopes.filter_map(Value::as_str).all(|scope| matches_scope(scope, "Exists", &[], pod))
        && selected.into_iter().flatten().all(|term| {
            let text = |name: &str| term.get(name).and_then(Value::as_str).unwrap_or_default();
            let values = term.get("values").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            matches_scope(text("scopeName"), text("operator"), values, pod)
        })
}

fn matches_scope(scope: &str, operator: &str, values: &[Value], pod: &Value) -> bool {
    let spec = |name: &str| pod.pointer(&format!("/spec/{name}")).filter(|value| !value.is_null());
    let notes = Notes::default();
    let root = Cursor::root(pod, &notes);
    let is_best_effort = || {
        let sums = usage::of(&root.field("spec"));
        ["cpu", "memory"].iter().all(|resource| {
            sums.requests.get(*resource).is_none_or(|amount| *amount == 0) && !sums.limits.contains_key(*resource)
        })
    };
    match scope {
        "Terminating" => spec("activeDeadlineSeconds").is_some(),
        "NotTerminating" => spec("activeDeadlineSeconds").is_none(),
        "BestEffort" => is_best_effort(),
        "NotBestEffort" => !is_best_effort(),
        "PriorityClass" => {
            let class = spec("priorityClassName").and_then(Value::as_str).filter(|class| !class.is_empty());
            let is_listed = class.is_some_and(|class| values.iter().any(|value| value == class));
            match operator {
                "In" => is_listed,
                "NotIn" => !is_listed,
                "DoesNotExist" => class.is_none(),
                _ => class.is_some(),
            }
        }
        "CrossNamespacePodAffinity" => {
            let terms = ["podAffinity", "podAntiAffinity"].map(|kind| pod.pointer(&format!("/spec/affinity/{kind}")));
            terms.into_iter().flatten().any(|term| {
                let text = term.to_string();
                text.contains("\"namespaces\":[\"") || text.contains("\"namespaceSelector\":{")
            })
        }
        // A scope that is newer than this counts nothing, so that nothing is refused by mistake.
        _ => false,
    }
}

/// Checks a ResourceQuota itself.
pub(super) fn check_object(root: &Cursor<'_, '_>, _: &Context<'_>) {
    let spec = root.field("spec");
    spec.field("hard").entries().for_each(|(_, amount)| {
        super::pod_resources::amount(&amount);
    });
}
