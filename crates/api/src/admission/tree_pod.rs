//! Pods in quota trees: they stay on the nodes of their tree, and are in no quota that has others below it.

use serde_json::{Map, Value};

use super::{Context, Operation, Rejection, exists_elsewhere};
use crate::cursor::Cursor;
use crate::field::of_mut;
use crate::pod::ties::{self, BOUND_AS};
use crate::tree::membership::{Found, by_name, own_of, quota_of};
use crate::tree::{BUILT_IN, ROOT, is_parent, keys, label, node_affinity};

/// Holds a new pod to the nodes of its tree.
pub(super) fn keep_on_tree(object: &mut Value, context: &Context<'_>) -> Result<(), Rejection> {
    let conditions = node_affinity::conditions_for(object, context.view);
    if let Some(spec) = of_mut(object, "spec").filter(|spec| spec.is_object()) {
        node_affinity::require(spec, &conditions);
    }
    Ok(())
}

/// A manifest that is applied again leaves out what was added to the pod's affinity; that is kept and is no change.
pub(super) fn keep_affinity(object: &mut Value, context: &Context<'_>) -> Result<(), Rejection> {
    let Some(before) = context.old.and_then(|old| old.pointer("/spec/affinity")) else { return Ok(()) };
    let conditions = node_affinity::conditions_for(object, context.view);
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object() && !conditions.is_empty()) else {
        return Ok(());
    };
    let mut completed = spec.clone();
    node_affinity::require(&mut completed, &conditions);
    if completed.get("affinity") == Some(before) {
        *spec = completed;
    }
    Ok(())
}

/// What a pod was bound as is for its Binding to say: a pod that is made says nothing of it.
pub(super) fn drop_record(object: &mut Value, context: &Context<'_>) -> Result<(), Rejection> {
    let was_bound_elsewhere = ties::is_bound(object) && exists_elsewhere(object);
    if !was_bound_elsewhere && ties::take_record_off(object) {
        context.warn(format!("metadata.annotations: {BOUND_AS} is for the scheduler to write, and is left out"));
    }
    Ok(())
}

/// A manifest that is applied again leaves out the record of what the pod was bound as; that is kept.
pub(super) fn keep_record(object: &mut Value, context: &Context<'_>) -> Result<(), Rejection> {
    if context.old.is_some_and(|old| !ties::is_bound(old)) {
        return drop_record(object, context);
    }
    let record = context.old.and_then(|old| old.get("metadata")?.get("annotations")?.get(BOUND_AS));
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return Ok(()) };
    if let Some(record) = record {
        let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.entry(BOUND_AS).or_insert_with(|| record.clone());
        }
    }
    Ok(())
}

/// A pod is in a quota that has none below it. A quota that its label names and that does not exist lets it wait.
pub(super) fn check(root: &Cursor<'_, '_>, context: &Context<'_>) {
    let Some(pod) = root.value() else { return };
    let named = label(pod, keys::QUOTA_NAME);
    if let Some((part, key)) = context.old.and_then(|old| ties::first_changed(old, pod))
        && [keys::QUOTA_NAME, BOUND_AS].contains(&key)
    {
        let (metadata, message) = (root.field("metadata"), "a running pod keeps its quota: expected a new pod instead");
        let part = metadata.field(part);
        return if part.field(key).exists() { part.field(key).note(message) } else { part.note_missing(key, message) };
    }
    let is_moved = context.old.is_some_and(|old| label(old, keys::QUOTA_NAME) != named);
    if context.operation != Operation::Create && !is_moved {
        return;
    }
    let metadata = root.field("metadata");
    match quota_of(pod, context.view) {
        Found::ByLabel(name) => {
            let quota = by_name(context.view, name);
            if quota.is_some_and(is_parent) || name == ROOT {
                let labels = metadata.field("labels");
                labels.field(keys::QUOTA_NAME).note(format!("{name} has quotas below it: expected one that has none"));
            } else if quota.is_none() && !BUILT_IN.contains(&name) {
                context.warn(format!("metadata.labels: quota {name:?} does not exist: the pod waits for it"));
            }
        }
        Found::Default if own_of(pod, context.view).is_some() => {
            let message = format!(
                "the quota of this namespace has quotas below it: expected the label {} with one that has none",
                keys::QUOTA_NAME
            );
            metadata.field("namespace").note(message);
        }
        Found::ByNamespace(_) | Found::ByList(_) | Found::Default => {}
    }
}
