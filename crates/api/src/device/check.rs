//! Defaults and checks of an API server for devices, classes and claims.

use std::collections::BTreeSet;

use serde_json::Value;

use super::claim::claim_spec;
use super::{cel, slice};
use crate::admission::{Context, Operation, Rejection};
use crate::cursor::Cursor;
use crate::intern::Interner;

/// The label of namespaces whose claims may look at devices in use.
const ADMIN_LABEL: &str = "resource.kubernetes.io/admin-access";

const REQUESTS_MAX: usize = 32;
const ALTERNATIVES_MAX: usize = 8;
const DEVICES_MAX: usize = 128;

/// Fills in mode and count of a claim's requests.
pub(crate) fn fill_in_claim(object: &mut Value, _: &Context<'_>) -> Result<(), Rejection> {
    fill_in(object.pointer_mut("/spec/devices/requests"));
    Ok(())
}

/// A claim has a status from the start.
pub(crate) fn add_status(object: &mut Value, _: &Context<'_>) -> Result<(), Rejection> {
    crate::admission::object_in(object, "status");
    Ok(())
}

/// Fills in mode and count of the requests of a template's claims.
pub(crate) fn fill_in_template(object: &mut Value, _: &Context<'_>) -> Result<(), Rejection> {
    fill_in(object.pointer_mut("/spec/spec/devices/requests"));
    Ok(())
}

fn fill_in(requests: Option<&mut Value>) {
    for request in requests.and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(request) = request.as_object_mut() else { continue };
        if let Some(exactly) = request.get_mut("exactly") {
            fill_in_one(exactly);
        }
        if let Some(list) = request.get_mut("firstAvailable").and_then(Value::as_array_mut) {
            list.iter_mut().for_each(fill_in_one);
        }
    }
}

fn fill_in_one(request: &mut Value) {
    let Some(request) = request.as_object_mut() else { return };
    let mode = request.entry("allocationMode").or_insert(Value::Null);
    if mode.is_null() || mode == "" {
        *mode = Value::from("ExactCount");
    }
    if *mode == "ExactCount" {
        let count = request.entry("count").or_insert(Value::Null);
        if count.is_null() || *count == 0 {
            *count = Value::from(1);
        }
    }
}

/// Checks a ResourceClaim.
pub(crate) fn check_claim(root: &Cursor<'_, '_>, context: &Context<'_>) {
    let spec = root.field("spec");
    let asks_for_admin = check_spec(&spec);
    let namespace = context.key.namespace.as_deref().unwrap_or_default();
    if asks_for_admin && context.operation == Operation::Create && !is_admin_namespace(namespace, context) {
        spec.note(format!("adminAccess takes the label {ADMIN_LABEL}: \"true\" on namespace {namespace}"));
    }
    let old = context.old.and_then(|old| old.get("spec"));
    if context.operation == Operation::Update && old.is_some_and(|old| Some(old) != spec.value()) {
        spec.note("may not change after creation");
    }
}

fn is_admin_namespace(namespace: &str, context: &Context<'_>) -> bool {
    let namespaces = context.view.list("", "Namespace", None);
    let named =
        namespaces.into_iter().find(|known| known.pointer("/metadata/name").is_some_and(|name| name == namespace));
    let labels = named.and_then(|known| known.pointer("/metadata/labels"));
    labels.and_then(|labels| labels.get(ADMIN_LABEL)).is_some_and(|value| value == "true")
}

/// Checks a ResourceClaimTemplate.
pub(crate) fn check_template(root: &Cursor<'_, '_>, context: &Context<'_>) {
    let spec = root.field("spec");
    check_spec(&spec.field("spec"));
    let old = context.old.and_then(|old| old.get("spec"));
    if context.operation == Operation::Update && old.is_some_and(|old| Some(old) != spec.value()) {
        spec.note("may not change after creation");
    }
}

/// Checks what a claim asks for. Returns whether it asks for admin access.
fn check_spec(spec: &Cursor<'_, '_>) -> bool {
    // Reading notes what cannot be read.
    let (read, _) = claim_spec(spec, &mut Interner::default());
    let devices = spec.field("devices");
    let requests = devices.field("requests");
    let mut names = BTreeSet::new();
    let mut admin = false;
    for (i, request) in requests.items().enumerate() {
        if i == REQUESTS_MAX {
            requests.note(format!("expected at most {REQUESTS_MAX} requests"));
        }
        let name = request.field("name");
        if name.str().is_some_and(|text| !names.insert(text.to_string())) {
            name.note("is there already");
        }
        let exactly = request.field("exactly");
        if exactly.exists() {
            check_request(&exactly);
            admin |= exactly.field("adminAccess").bool() == Some(true);
        }
        let list = request.field("firstAvailable");
        for (i, alternative) in list.items().enumerate() {
            if i == ALTERNATIVES_MAX {
                list.note(format!("expected at most {ALTERNATIVES_MAX} alternatives"));
            }
            let own = alternative.field("name");
            match (own.str(), name.str()) {
                (Some(own_text), Some(text)) if !names.insert(format!("{text}/{own_text}")) => {
                    own.note("is there already")
                }
                (None, _) => alternative.note_missing("name", "an alternative has one"),
                _ => {}
            }
            check_request(&alternative);
        }
    }
    for constraint in devices.field("constraints").items() {
        for request in constraint.field("requests").items() {
            if request.str().is_some_and(|name| !names.contains(name)) {
                request.note("no request of that name is in the claim");
            }
        }
        for field in ["matchAttribute", "distinctAttribute"] {
            let attribute = constraint.field(field);
            if attribute.str().is_some_and(|name| !name.contains('/')) {
                attribute.note("expected a name with its domain, such as example.com/name");
            }
        }
    }
    for config in devices.field("config").items() {
        for request in config.field("requests").items() {
            if request.str().is_some_and(|name| !names.contains(name)) {
                request.note("no request of that name is in the claim");
            }
        }
    }
    debug_assert!(read.requests.len() <= requests.items().count());
    admin
}

fn check_request(at: &Cursor<'_, '_>) {
    let count = at.field("count");
    match at.field("allocationMode").str() {
        Some("All") if count.int().unwrap_or(0) != 0 => count.note("must be left out where all devices are asked for"),
        Some("ExactCount") if count.int().is_some_and(|count: i64| count < 1) => count.note("must be more than 0"),
        _ => {}
    }
    check_selectors(&at.field("selectors"));
    for toleration in at.field("tolerations").items() {
        let (operator, key) = (toleration.field("operator"), toleration.field("key"));
        match operator.non_empty_str() {
            None | Some("Equal") if key.non_empty_str().is_none() => {
                key.note("is needed, unless the operator is Exists")
            }
            None | Some("Equal" | "Exists") => {}
            Some(_) => operator.note("expected Equal or Exists"),
        }
    }
    let capacity = at.field("capacity");
    for (_, amount) in capacity.field("requests").entries() {
        if amount.quantity().is_some_and(|quantity| quantity.is_negative()) {
            amount.note("must not be negative");
        }
    }
}

fn check_selectors(selectors: &Cursor<'_, '_>) {
    for selector in selectors.items() {
        let cel_at = selector.field("cel");
        let expression = cel_at.field("expression");
        if let Some(Err(message)) = expression.str().map(cel::compile) {
            expression.note(message);
        }
    }
}

/// Checks a DeviceClass.
pub(crate) fn check_class(root: &Cursor<'_, '_>, _: &Context<'_>) {
    let spec = root.field("spec");
    check_selectors(&spec.field("selectors"));
}

/// Checks a ResourceSlice.
pub(crate) fn check_slice(root: &Cursor<'_, '_>, _: &Context<'_>) {
    let spec = root.field("spec");
    let given = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"]
        .into_iter()
        .filter(|field| spec.field(field).value().is_some_and(|value| *value != false && *value != ""))
        .count();
    if given != 1 {
        spec.note("expected one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection");
    }
    let (devices, counters) = (spec.field("devices"), spec.field("sharedCounters"));
    if devices.items().next().is_some() && counters.items().next().is_some() {
        counters.note("must be left out where devices are given: counters have slices of their own");
    }
    if devices.items().count() > DEVICES_MAX {
        devices.note(format!("expected at most {DEVICES_MAX} devices"));
    }
    let mut names = BTreeSet::new();
    for device in devices.items() {
        let name = device.field("name");
        if name.str().is_some_and(|text| !names.insert(text)) {
            name.note("is there already");
        }
    }
    let pool = spec.field("pool");
    let count = pool.field("resourceSliceCount");
    if count.int().is_none_or(|count: i64| count < 1) {
        count.note("must be more than 0");
    }
    slice::slice(root, &mut Interner::default());
}
