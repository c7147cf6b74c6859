//! What may change about a pod that exists.
//!
//! A pod's spec is fixed but for a few fields: images, additional tolerations, gates that are removed,
//! and, while gates are set, a stricter choice of nodes. A manifest that is applied again leaves out what
//! the cluster has filled in since; that is kept and is no change.

use serde_json::{Map, Value};

use super::{Context, Operation, Rejection, is_given, pod_resources};
use crate::cursor::Cursor;

/// Fields that the cluster fills in, in the order in which they are looked at.
const FILLED_IN: [&str; 8] = [
    "nodeName",
    "priority",
    "priorityClassName",
    "preemptionPolicy",
    "overhead",
    "schedulerName",
    "serviceAccountName",
    "serviceAccount",
];

/// Takes over from the stored pod what the manifest leaves out and the cluster filled in.
pub(super) fn keep_what_was_set(object: &mut Value, context: &Context<'_>) -> Result<(), Rejection> {
    let Some(old) = context.old.and_then(|old| old.get("spec")) else { return Ok(()) };
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return Ok(()) };
    for field in FILLED_IN {
        if !is_given(spec, field) && is_given(old, field) {
            spec[field] = old[field].clone();
        }
    }
    if let Some(old) = old.get("tolerations").and_then(Value::as_array) {
        super::pod::append_tolerations(spec, old);
    }
    // What the RuntimeClass has put into the selector stays, unless the manifest says otherwise.
    if is_given(spec, "runtimeClassName") && !is_given(spec, "nodeSelector") && is_given(old, "nodeSelector") {
        spec["nodeSelector"] = old["nodeSelector"].clone();
    }
    if !pod_resources::has_pod_level(spec) && pod_resources::has_pod_level(old) {
        spec["resources"] = old["resources"].clone();
    }
    Ok(())
}

/// Notes every field that may not change and does.
pub(super) fn check(root: &Cursor<'_, '_>, context: &Context<'_>) {
    if context.operation != Operation::Update {
        return;
    }
    let (Some(old), spec) = (context.old.and_then(|old| old.get("spec")), root.field("spec")) else { return };
    let Some(new) = spec.value().and_then(Value::as_object) else { return };
    let empty = Map::new();
    let old = old.as_object().unwrap_or(&empty);

    let gated = old.get("schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty());
    let names: std::collections::BTreeSet<&str> = old.keys().chain(new.keys()).map(String::as_str).collect();
    for name in names {
        let (before, after) = (given(old, name), given(new, name));
        let at = spec.field(name);
        match name {
            "schedulingGates" => check_gates(&at, before),
            // Additional ones are fine, and none can be lost: those that were there are kept.
            "tolerations" | "activeDeadlineSeconds" | "terminationGracePeriodSeconds" => {}
            "containers" | "initContainers" => check_containers(&at, before),
            "nodeSelector" if gated => {
                let kept = |(key, value): (&String, &Value)| after.is_some_and(|after| after.get(key) == Some(value));
                if !before.and_then(Value::as_object).into_iter().flatten().all(kept) {
                    at.note("may only be added to after creation");
                }
            }
            "affinity" if gated => {}
            _ if before == after => {}
            _ if at.exists() => at.note("may not change after creation"),
            _ => spec.note_missing(name, "it may not be taken out after creation"),
        }
    }
}

/// A field that is there and neither `null` nor empty: the three are one to Kubernetes.
fn given<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    map.get(name).filter(|value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    })
}

fn check_gates(gates: &Cursor<'_, '_>, before: Option<&Value>) {
    let before: Vec<&Value> =
        before.and_then(Value::as_array).into_iter().flatten().filter_map(|gate| gate.get("name")).collect();
    for gate in gates.items() {
        let name = gate.field("name");
        if name.value().is_some_and(|name| !before.contains(&name)) {
            name.note("gates may only be removed after creation");
        }
    }
}

fn check_containers(containers: &Cursor<'_, '_>, before: Option<&Value>) {
    let before = before.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if containers.items().count() != before.len() {
        return containers.note("containers may not be added or removed after creation");
    }
    for (container, before) in containers.items().zip(before) {
        let resources = container.field("resources");
        let old = before.get("resources").filter(|resources| !resources.is_null());
        if resources.value() != old && !same_resources(resources.value(), old) {
            resources.note("may not change after creation");
        }
        let name = container.field("name");
        if name.value() != before.get("name") {
            name.note("may not change after creation");
        }
    }
}

/// Whether requests and limits are the same amounts, however they are written.
fn same_resources(a: Option<&Value>, b: Option<&Value>) -> bool {
    let part = |resources: Option<&Value>, name: &str| {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
        let amounts = resources.and_then(|r| r.get(name)).and_then(Value::as_object).into_iter().flatten();
        let read = |value: &Value| text(value).parse::<quotient_engine::quantity::Quantity>().map_err(|_| text(value));
        amounts.map(|(name, value)| (name.clone(), read(value))).collect::<std::collections::BTreeMap<_, _>>()
    };
    ["requests", "limits"].iter().all(|name| part(a, name) == part(b, name))
}
