//! Kubernetes' own groups of pods, and the workloads that they are made from: what an API server fills in and checks.

use serde_json::{Value, json};

use super::{Context, Operation, Rejection, is_given, object_in, pod_priority};
use crate::cursor::Cursor;
use crate::pod_group::FINALIZER;

const TEMPLATES_MAX: usize = 8;

/// Fills in what a group leaves out: its priority from its class, how it is disrupted, and what keeps it for its pods.
pub(super) fn fill_in(object: &mut Value, context: &Context<'_>) -> Result<(), Rejection> {
    let old = context.old.and_then(|old| old.get("spec"));
    if let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) {
        for field in ["priority", "priorityClassName", "disruptionMode"] {
            if let Some(old) = old.filter(|old| !is_given(spec, field) && is_given(old, field)) {
                spec[field] = old[field].clone();
            }
        }
        if !is_given(spec, "disruptionMode") {
            spec["disruptionMode"] = json!({"single": {}});
        }
        pod_priority::set_group_priority(spec, context)?;
    }
    let Some(metadata) = object_in(object, "metadata") else { return Ok(()) };
    let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(finalizers) = finalizers.as_array_mut()
        && context.operation == Operation::Create
        && !finalizers.iter().any(|finalizer| finalizer == FINALIZER)
    {
        finalizers.push(json!(FINALIZER));
    }
    Ok(())
}

/// Checks a PodGroup.
pub(super) fn check(root: &Cursor<'_, '_>, context: &Context<'_>) {
    let spec = root.field("spec");
    check_template(&spec);
    let Some(old) = context.old.and_then(|old| old.get("spec")).filter(|_| context.operation == Operation::Update)
    else {
        return;
    };
    // How many must run may change, and nothing else.
    let without_count = |spec: &Value| {
        let mut spec = spec.clone();
        if let Some(gang) = spec.pointer_mut("/schedulingPolicy/gang").and_then(Value::as_object_mut) {
            gang.shift_remove("minCount");
        }
        spec
    };
    if spec.value().is_some_and(|new| without_count(new) != without_count(old)) {
        spec.note("may not change after creation, but for schedulingPolicy.gang.minCount");
    }
}

/// Checks a Workload.
pub(super) fn check_workload(root: &Cursor<'_, '_>, _: &Context<'_>) {
    let spec = root.field("spec");
    let templates = spec.field("podGroupTemplates");
    let count = templates.items().count();
    if count == 0 || count > TEMPLATES_MAX {
        templates.note(format!("expected 1 to {TEMPLATES_MAX} templates of groups"));
    }
    templates.items().for_each(|template| check_template(&template));
}

/// Checks what a group and a template of groups have in common.
fn check_template(spec: &Cursor<'_, '_>) {
    one_of(&spec.field("schedulingPolicy"), &["basic", "gang"]);
    let policy = spec.field("schedulingPolicy");
    let gang = policy.field("gang");
    if gang.exists() {
        let count = gang.field("minCount");
        if count.int::<u32>().is_none_or(|count| count == 0) {
            count.note("expected how many pods must start together, at least 1");
        }
    }
    let mode = spec.field("disruptionMode");
    if mode.exists() {
        one_of(&mode, &["single", "all"]);
    }
}

/// Notes a choice of which not exactly one is made.
fn one_of(at: &Cursor<'_, '_>, names: &[&str]) {
    if names.iter().filter(|name| at.field(name).exists()).count() != 1 {
        at.note(format!("expected exactly one of {}", names.join(" and ")));
    }
}
