//! Elastic quotas: amounts that make sense, and one quota for a namespace.
//!
//! What an update leaves as it was is not held against it, so that a quota that got in by another way can be mended.

use std::collections::{BTreeMap, BTreeSet};

use quotient_engine::quantity::Quantity;
use serde_json::Value;

use super::metadata::{is_label_key, is_subdomain};
use super::{Context, Operation, Rejection};
use crate::cursor::Cursor;
use crate::elastic::capacity::{Sums, is_of_devices};
use crate::elastic::consent::{self, ALLOWED_COMPOSITES, is_given};
use crate::elastic::takeover::namespaces;
use crate::elastic::traps::beyond_nodes;
use crate::elastic::{COMPOSITE, PLAIN};
use crate::object::key_of;

/// Checks an ElasticQuota.
pub(super) fn check_plain(root: &Cursor<'_, '_>, context: &Context<'_>) {
    check_amounts(root);
    if context.operation == Operation::Create {
        check_namespace_is_free(root, context);
    }
    warn_beyond_nodes(root, context);
}

/// Which namespaces agreed by the rights of a composite's maker is not for its manifest to say.
pub(super) fn keep_agreed(object: &mut Value, context: &Context<'_>) -> Result<(), Rejection> {
    if context.view.needs_consent() {
        consent::record(object, context.old, &[]);
    }
    Ok(())
}

/// Checks a CompositeElasticQuota.
pub(super) fn check_composite(root: &Cursor<'_, '_>, context: &Context<'_>) {
    check_amounts(root);
    check_namespaces(root, context);
    warn_beyond_nodes(root, context);
}

/// Resources have names, and their amounts can be counted and are not below 0.
pub(super) fn check_countable(amounts: [&Cursor<'_, '_>; 2]) {
    for (resource, value) in amounts.into_iter().flat_map(|at| at.entries()) {
        if !is_label_key(resource) {
            value.note(format!("{resource:?} is no name of a resource: expected name or domain/name"));
        }
        value.amount(resource);
    }
}

/// Amounts can be counted, are not below 0, and no max is below its min.
fn check_amounts(root: &Cursor<'_, '_>) {
    let spec = root.field("spec");
    let (min, max) = (spec.field("min"), spec.field("max"));
    check_countable([&min, &max]);
    for (resource, value) in max.entries() {
        let min_at = min.field(resource);
        let (Some(max), Some(min)) = (readable(&value), readable(&min_at)) else { continue };
        if max < min {
            value.note(format!("max must not be below min, which is {min}"));
        }
    }
}

/// The quantity at `at`; whether it is one was said already.
fn readable(at: &Cursor<'_, '_>) -> Option<Quantity> {
    match at.value()? {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

/// A namespace has one quota of a group, be it its own or one over several namespaces.
fn check_namespace_is_free(root: &Cursor<'_, '_>, context: &Context<'_>) {
    let namespace = context.key.namespace.as_deref().unwrap_or_default();
    let metadata = root.field("metadata");
    let at = metadata.field("namespace");
    let own = context.view.list(context.key.group, PLAIN, Some(namespace));
    let others = own.into_iter().filter_map(|quota| key_of(quota).ok()).filter(|key| key != context.key);
    let governs = |composite: &&Value| namespaces(composite).any(|listed| listed == namespace);
    let composites = context.view.list(context.key.group, COMPOSITE, None).into_iter().filter(governs);
    if let Some(other) = others.chain(composites.filter_map(|composite| key_of(composite).ok())).next() {
        at.note(format!("is governed by {other} already: expected one quota for a namespace"));
    }
}

/// The list names namespaces, each once, and none that another composite of the group has.
fn check_namespaces(root: &Cursor<'_, '_>, context: &Context<'_>) {
    let (composite, spec) = (root.value().unwrap_or(&Value::Null), root.field("spec"));
    let at = spec.field("namespaces");
    let before: BTreeSet<&str> = context.old.into_iter().flat_map(namespaces).collect();
    let mut taken: BTreeMap<&str, String> = BTreeMap::new();
    for composite in context.view.list(context.key.group, COMPOSITE, None) {
        let Ok(key) = key_of(composite) else { continue };
        if key != *context.key {
            taken.extend(namespaces(composite).map(|namespace| (namespace, key.to_string())));
        }
    }
    let mut seen = BTreeSet::new();
    let mut listed = 0;
    for item in at.items() {
        listed += 1;
        let Some(namespace) = item.str() else {
            if !item.exists() {
                item.note("expected the name of a namespace");
            }
            continue;
        };
        if !is_subdomain(namespace) {
            item.note("expected the name of a namespace");
        } else if !seen.insert(namespace) {
            item.note("is listed twice: expected each namespace once");
        } else if let Some(other) = taken.get(namespace).filter(|_| !before.contains(namespace)) {
            item.note(format!("is governed by {other} already: expected one quota for a namespace"));
        } else if !is_given(composite, context.key, namespace, context.view) {
            item.note(format!(
                "has not agreed: expected the annotation {ALLOWED_COMPOSITES} on the namespace, or a user who may create \
                 and delete its ElasticQuotas"
            ));
        }
    }
    if listed == 0 {
        spec.note_missing("namespaces", "expected at least one namespace");
    }
}

/// Says so where the mins of a pool are more than the nodes hold: then not every min can be had at once. As long as
/// there are no nodes there is nothing to say.
fn warn_beyond_nodes(root: &Cursor<'_, '_>, context: &Context<'_>) {
    let held = context.view.held();
    let Some(object) = root.value().filter(|_| !held.is_nothing()) else { return };
    let group = context.key.group;
    let mut sums = context.view.guaranteed(group);
    sums.add_min(object);
    // As it was until now, and what it takes the place of, do not count.
    context.view.get(context.key).into_iter().for_each(|quota| sums.take_min(quota));
    let replaced: BTreeSet<&str> = match context.key.kind {
        COMPOSITE => namespaces(object).collect(),
        _ => BTreeSet::new(),
    };
    for namespace in replaced {
        context.view.list(group, PLAIN, Some(namespace)).into_iter().for_each(|quota| sums.take_min(quota));
    }
    let classes = context.view.list("resource.k8s.io", "DeviceClass", None);
    for (resource, _) in Sums::of(object.pointer("/spec/min")).iter() {
        let (sum, held) = (sums.get(resource), held.amount(resource));
        if sum > held && !is_of_devices(resource, &classes) {
            context.warn(format!("spec.min: {}", beyond_nodes(group, resource, sum, held)));
        }
    }
}
