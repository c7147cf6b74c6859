//! Objects that make pods: their templates, counts and selectors.

use super::{Context, pod};
use crate::cursor::Cursor;
use crate::intern::Interner;
use crate::selector::{label_selector, labels, selects};

/// Checks counts and the template of a pod.
pub(super) fn check(root: &Cursor<'_, '_>, context: &Context<'_>) {
    let spec = root.field("spec");
    for count in ["replicas", "parallelism", "completions", "backoffLimit"] {
        let at = spec.field(count);
        if at.int::<i64>().is_some_and(|count| count < 0) {
            at.note("must not be negative");
        }
    }
    let template = spec.field("template");
    match template.exists() {
        true => {
            super::metadata::check_labels(&template.field("metadata").field("labels"));
            pod::check_spec(&template, "spec", context);
        }
        false => spec.note_missing("template", "pods are made from it"),
    }
}

/// Checks that the selector is there and selects the pods that are made.
pub(super) fn check_selector(root: &Cursor<'_, '_>, _: &Context<'_>) {
    let mut interner = Interner::default();
    let spec = root.field("spec");
    let (at, template) = (spec.field("selector"), spec.field("template"));
    if !at.exists() {
        return spec.note_missing("selector", "it says which pods belong to the object");
    }
    let metadata = template.field("metadata");
    let template_labels = labels(&metadata.field("labels"), &mut interner);
    if label_selector(&at, &mut interner).is_some_and(|selector| !selects(&selector, &template_labels)) {
        at.note("does not select the template's labels");
    }
}

/// Checks that the pods of a Job can end.
pub(super) fn check_job(root: &Cursor<'_, '_>, _: &Context<'_>) {
    let spec = root.field("spec");
    let template = spec.field("template");
    let pod = template.field("spec");
    let policy = pod.field("restartPolicy");
    match policy.non_empty_str() {
        Some("OnFailure" | "Never") => {}
        Some(_) => policy.note("expected OnFailure or Never in a Job"),
        None if pod.exists() => pod.note_missing("restartPolicy", "expected OnFailure or Never in a Job"),
        None => {}
    }
}
