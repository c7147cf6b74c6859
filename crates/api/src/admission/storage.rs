//! Claims, volumes and storage classes.

use serde_json::Value;

use super::{Context, Operation, Rejection, is_given, pod_resources};
use crate::cursor::Cursor;
use crate::intern::Interner;
use crate::selector::label_selector;
use crate::volume::CLASS_ANNOTATION;

/// The annotations that make a class the default.
const DEFAULT_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// A claim that names no class is of the default one: of several, the newest, then the first by name.
/// An empty name means no class, and is left alone.
pub(super) fn set_default_class(object: &mut Value, context: &Context<'_>) -> Result<(), Rejection> {
    let annotated = object.pointer("/metadata/annotations").is_some_and(|a| is_given(a, CLASS_ANNOTATION));
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return Ok(()) };
    if annotated || is_given(spec, "storageClassName") {
        return Ok(());
    }
    let classes = context.view.list("storage.k8s.io", "StorageClass", None);
    let is_default = |class: &&Value| {
        let annotations = class.pointer("/metadata/annotations");
        DEFAULT_ANNOTATIONS
            .iter()
            .any(|name| annotations.and_then(|a| a.get(name)).and_then(Value::as_str) == Some("true"))
    };
    let text =
        |class: &Value, pointer: &str| class.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_string();
    let by_age_and_name = |a: &&Value, b: &&Value| {
        let age = text(b, "/metadata/creationTimestamp").cmp(&text(a, "/metadata/creationTimestamp"));
        age.then_with(|| text(a, "/metadata/name").cmp(&text(b, "/metadata/name")))
    };
    if let Some(class) = classes.into_iter().filter(is_default).min_by(by_age_and_name) {
        spec["storageClassName"] = Value::from(text(class, "/metadata/name"));
    }
    Ok(())
}

/// Takes over the class and the volume that the cluster has chosen for a claim.
pub(super) fn keep_what_was_set(object: &mut Value, context: &Context<'_>) -> Result<(), Rejection> {
    let Some(old) = context.old.and_then(|old| old.get("spec")) else { return Ok(()) };
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return Ok(()) };
    for field in ["storageClassName", "volumeName"] {
        if !is_given(spec, field) && is_given(old, field) {
            spec[field] = old[field].clone();
        }
    }
    Ok(())
}

/// Checks a PersistentVolumeClaim.
pub(super) fn check_claim(root: &Cursor<'_, '_>, context: &Context<'_>) {
    let spec = root.field("spec");
    check_access_modes(&spec);
    let (resources, selector) = (spec.field("resources"), spec.field("selector"));
    let requests = resources.field("requests");
    let storage = requests.field("storage");
    match pod_resources::amount(&storage) {
        Some(amount) if amount.is_zero() => storage.note("must be more than 0"),
        None if !storage.exists() => requests.note_missing("storage", "a claim says how much it needs"),
        _ => {}
    }
    label_selector(&selector, &mut Interner::default());
    let class = spec.field("storageClassName");
    let old_class = context.old.and_then(|old| old.pointer("/spec/storageClassName"));
    if context.operation == Operation::Update && old_class.is_some_and(|old| class.value() != Some(old)) {
        class.note("may not change after creation");
    }
}

/// Checks a PersistentVolume.
pub(super) fn check_volume(root: &Cursor<'_, '_>, _: &Context<'_>) {
    let spec = root.field("spec");
    check_access_modes(&spec);
    let capacity = spec.field("capacity");
    let storage = capacity.field("storage");
    if pod_resources::amount(&storage).is_none() && !storage.exists() {
        capacity.note_missing("storage", "a volume says how large it is");
    }
    let affinity = spec.field("nodeAffinity");
    let required = affinity.field("required");
    crate::selector::node_terms(&required.field("nodeSelectorTerms"), &mut Interner::default());
}

fn check_access_modes(spec: &Cursor<'_, '_>) {
    const MODES: [&str; 4] = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
    let modes = spec.field("accessModes");
    if modes.items().next().is_none() {
        spec.note_missing("accessModes", "at least one is needed");
    }
    for mode in modes.items() {
        if mode.str().is_some_and(|text| !MODES.contains(&text)) {
            mode.note(format!("expected one of {}", MODES.join(", ")));
        }
    }
}

/// Checks a StorageClass.
pub(super) fn check_class(root: &Cursor<'_, '_>, context: &Context<'_>) {
    if root.field("provisioner").non_empty_str().is_none() {
        root.note_missing(
            "provisioner",
            "a class needs one (kubernetes.io/no-provisioner, if volumes are made by hand)",
        );
    }
    crate::volume::storage_class(root, &context.key.name, &mut Interner::default());
}
