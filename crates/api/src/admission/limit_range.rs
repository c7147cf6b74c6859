//! LimitRanges: what containers of a namespace ask for when they do not say, and the least and most they may.
//!
//! An API server looks at them when a pod is made, and never again: a pod that exists elsewhere is taken as it is.

use std::collections::BTreeMap;

use quotient_engine::quantity::{Quantity, canonical};
use serde_json::{Map, Value};

use super::{Context, Operation, Rejection, exists_elsewhere, object_in};
use crate::cursor::{Cursor, Notes};
use crate::pod::usage;

/// The amounts that a limit range names for one type.
#[derive(Debug, Default)]
struct Item<'v> {
    name: &'v str,
    kind: &'v str,
    default: BTreeMap<&'v str, &'v Value>,
    default_request: BTreeMap<&'v str, &'v Value>,
    min: BTreeMap<&'v str, &'v Value>,
    max: BTreeMap<&'v str, &'v Value>,
    ratio: BTreeMap<&'v str, &'v Value>,
}

fn amounts<'v>(item: &'v Value, field: &str) -> BTreeMap<&'v str, &'v Value> {
    let map = item.get(field).and_then(Value::as_object);
    map.into_iter().flatten().map(|(resource, amount)| (resource.as_str(), amount)).collect()
}

/// The limits of a pod's namespace, with what an API server fills in: a max is a default limit, a default limit is a
/// default request, a min is a default request.
fn items<'v>(context: &Context<'v>) -> Vec<Item<'v>> {
    let Some(namespace) = context.key.namespace.as_deref() else { return Vec::new() };
    let mut items = Vec::new();
    for range in context.view.list("", "LimitRange", Some(namespace)) {
        let name = range.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        for item in range.pointer("/spec/limits").and_then(Value::as_array).into_iter().flatten() {
            let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
            let (min, max) = (amounts(item, "min"), amounts(item, "max"));
            let mut default = amounts(item, "default");
            let mut default_request = amounts(item, "defaultRequest");
            if kind == "Container" {
                max.iter().for_each(|(resource, amount)| {
                    default.entry(resource).or_insert(amount);
                });
                default.iter().chain(&min).for_each(|(resource, amount)| {
                    default_request.entry(resource).or_insert(amount);
                });
            }
            items.push(Item {
                name,
                kind,
                default,
                default_request,
                min,
                max,
                ratio: amounts(item, "maxLimitRequestRatio"),
            });
        }
    }
    items
}

/// Writes the defaults of the namespace into containers that leave them out.
pub(super) fn set_defaults(object: &mut Value, context: &Context<'_>) -> Result<(), Rejection> {
    if exists_elsewhere(object) {
        return Ok(());
    }
    let items = items(context);
    let Some(spec) = object.get_mut("spec").filter(|_| !items.is_empty()) else { return Ok(()) };
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            for item in items.iter().filter(|item| item.kind == "Container") {
                let Some(resources) = object_in(container, "resources") else { continue };
                fill(resources, "limits", &item.default);
                fill(resources, "requests", &item.default_request);
            }
        }
    }
    Ok(())
}

fn fill(resources: &mut Map<String, Value>, part: &str, defaults: &BTreeMap<&str, &Value>) {
    if defaults.is_empty() {
        return;
    }
    let part = resources.entry(part).or_insert_with(|| Value::Object(Map::new()));
    let Some(part) = part.as_object_mut() else { return };
    for (resource, amount) in defaults {
        part.entry(*resource).or_insert_with(|| (*amount).clone());
    }
}

/// Checks what a new pod asks for.
pub(super) fn check(root: &Cursor<'_, '_>, context: &Context<'_>) {
    if context.operation != Operation::Create || root.value().is_some_and(exists_elsewhere) {
        return;
    }
    let items = items(context);
    if items.is_empty() {
        return;
    }
    let spec = root.field("spec");
    for list in ["initContainers", "containers"] {
        for container in spec.field(list).items() {
            let resources = container.field("resources");
            let given = |part: &str, resource: &str| resources.field(part).field(resource).quantity();
            for item in items.iter().filter(|item| item.kind == "Container") {
                item.check(&resources, |resource| (given("requests", resource), given("limits", resource)));
            }
        }
    }
    // What the pod comes to is noted at the pod, and where it cannot be read that was noted before.
    let notes = Notes::default();
    let unread = Cursor::root(root.value().unwrap_or(&Value::Null), &notes);
    let sums = usage::of(&unread.field("spec"));
    for item in items.iter().filter(|item| item.kind == "Pod") {
        let quantity = |amounts: &BTreeMap<String, i128>, resource: &str| {
            amounts.get(resource).and_then(|amount| canonical(resource, *amount).parse().ok())
        };
        item.check(&spec, |resource| (quantity(&sums.requests, resource), quantity(&sums.limits, resource)));
    }
}

impl Item<'_> {
    /// Notes what is below the min, above the max, or too far apart.
    fn check(&self, at: &Cursor<'_, '_>, of: impl Fn(&str) -> (Option<Quantity>, Option<Quantity>)) {
        let Item { name, kind, min, max, ratio, .. } = self;
        let what = |message: String| at.note(format!("{message} (LimitRange {name}, type {kind})"));
        for (resource, least) in min {
            let Some(least) = quantity(least) else { continue };
            match of(resource) {
                (None, _) => what(format!("minimum {resource} usage per {kind} is {least}: no request is specified")),
                (Some(request), _) if request < least => {
                    what(format!("minimum {resource} usage per {kind} is {least}, but request is {request}"));
                }
                (_, Some(limit)) if limit < least => {
                    what(format!("minimum {resource} usage per {kind} is {least}, but limit is {limit}"));
                }
                _ => {}
            }
        }
        for (resource, most) in max {
            let Some(most) = quantity(most) else { continue };
            match of(resource) {
                (_, None) => what(format!("maximum {resource} usage per {kind} is {most}: no limit is specified")),
                (_, Some(limit)) if limit > most => {
                    what(format!("maximum {resource} usage per {kind} is {most}, but limit is {limit}"));
                }
                (Some(request), _) if request > most => {
                    what(format!("maximum {resource} usage per {kind} is {most}, but request is {request}"));
                }
                _ => {}
            }
        }
        for (resource, most) in ratio {
            let (Some(most), (Some(request), Some(limit))) = (quantity(most), of(resource)) else { continue };
            // Thousandths on both sides, so that nothing is rounded: limit / request > ratio.
            let milli = |quantity: Quantity| quantity.sum("cpu");
            if milli(limit) * 1000 > milli(most) * milli(request) {
                what(format!("{resource} limit {limit} to request {request} is more than the ratio {most}"));
            }
        }
    }
}

/// The quantity that stands there, if it is one.
pub(super) fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

/// Checks a LimitRange itself.
pub(super) fn check_object(root: &Cursor<'_, '_>, _: &Context<'_>) {
    let spec = root.field("spec");
    let limits = spec.field("limits");
    for item in limits.items() {
        let kind = item.field("type");
        match kind.non_empty_str() {
            Some("Container" | "Pod" | "PersistentVolumeClaim") => {}
            Some(_) => kind.note("expected Container, Pod or PersistentVolumeClaim"),
            None => item.note_missing("type", "expected Container, Pod or PersistentVolumeClaim"),
        }
        for part in ["default", "defaultRequest", "min", "max", "maxLimitRequestRatio"] {
            item.field(part).entries().for_each(|(_, amount)| {
                super::pod_resources::amount(&amount);
            });
        }
        let (min, max) = (item.field("min"), item.field("max"));
        for (resource, least) in min.entries() {
            let (least_amount, most) = (least.quantity(), max.field(resource).quantity());
            if let (Some(least_amount), Some(most)) = (least_amount, most)
                && least_amount > most
            {
                least.note(format!("must not be more than the max {most}"));
            }
        }
    }
}
