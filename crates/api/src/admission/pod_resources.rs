//! What pods ask for: limits that stand for requests, and amounts that make sense.

use quotient_engine::quantity::Quantity;
use serde_json::Value;

use super::metadata::is_label_key;
use super::{Context, Rejection, is_given, object_in};
use crate::cursor::Cursor;
use crate::field::{get, of, of_mut};

/// Writes a container's limit as its request where it has none, for every container.
pub(super) fn set_requests(object: &mut Value, _: &Context<'_>) -> Result<(), Rejection> {
    let Some(spec) = of_mut(object, "spec") else { return Ok(()) };
    for list in ["initContainers", "containers"] {
        let containers = of_mut(spec, list).and_then(Value::as_array_mut);
        containers.into_iter().flatten().for_each(set_requests_of_container);
    }
    Ok(())
}

fn set_requests_of_container(container: &mut Value) {
    let Some(resources) = of_mut(container, "resources") else { return };
    let Some(limits) = of(resources, "limits").and_then(Value::as_object) else { return };
    let requests = of(resources, "requests").and_then(Value::as_object);
    if requests.is_some_and(|requests| limits.keys().all(|resource| get(requests, resource).is_some())) {
        return;
    }
    let limits = limits.clone();
    let Some(requests) = object_in(resources, "requests") else { return };
    for (resource, limit) in limits {
        requests.entry(resource).or_insert(limit);
    }
}

/// Checks the resources of every container, of the pod as a whole, and the overhead.
pub(super) fn check(spec: &Cursor<'_, '_>, context: &Context<'_>) {
    for list in ["initContainers", "containers"] {
        for container in spec.field(list).items() {
            check_resources(&container.field("resources"), context, is_container_resource);
        }
    }
    check_resources(&spec.field("resources"), context, is_pod_resource);
    for (_, value) in spec.field("overhead").entries() {
        amount(&value);
    }
}

fn check_resources(resources: &Cursor<'_, '_>, context: &Context<'_>, is_known: fn(&str) -> bool) {
    let (requests, limits) = (resources.field("requests"), resources.field("limits"));
    for (resource, value) in limits.entries() {
        check_amount(resource, &value, is_known);
    }
    for (resource, value) in requests.entries() {
        let Some(request) = check_amount(resource, &value, is_known) else { continue };
        let limit_at = limits.field(resource);
        let Some(limit) = limit_at.value().and(limit_at.quantity()) else {
            if !limit_at.exists() && !is_overcommittable(resource) {
                context.warn(format!("{resource} is asked for without a limit: an API server wants both, and equal"));
            }
            continue;
        };
        if !is_overcommittable(resource) && request != limit {
            value.note(format!("must be equal to the limit {limit}: {resource} cannot be overcommitted"));
        } else if request > limit {
            value.note(format!("must not be more than the limit {limit}"));
        }
    }
}

fn check_amount(resource: &str, value: &Cursor<'_, '_>, is_known: fn(&str) -> bool) -> Option<Quantity> {
    if !is_known(resource) {
        value.note(format!(
            "{resource:?} is no resource that can be asked for here: expected cpu, memory, ephemeral-storage, hugepages-<size> or domain/name"
        ));
    }
    let quantity = amount(value)?;
    if resource.contains('/') && quantity.value().is_ok_and(|units| !quantity.is_amount(resource, units.into())) {
        value.note("must be a whole number");
    }
    Some(quantity)
}

/// The quantity at `at`, which must not be negative.
pub(super) fn amount(at: &Cursor<'_, '_>) -> Option<Quantity> {
    let quantity = at.quantity()?;
    if quantity.is_negative() {
        at.note("must not be negative");
    }
    Some(quantity)
}

/// Whether a node may promise more of a resource than it has.
fn is_overcommittable(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory" | "ephemeral-storage")
}

fn is_container_resource(resource: &str) -> bool {
    is_overcommittable(resource)
        || resource.starts_with("hugepages-")
        || (resource.contains('/') && is_label_key(resource) && !resource.starts_with("requests."))
}

fn is_pod_resource(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

/// Whether a pod has anything in `spec.resources`.
pub(super) fn has_pod_level(spec: &Value) -> bool {
    is_given(spec, "resources")
}
