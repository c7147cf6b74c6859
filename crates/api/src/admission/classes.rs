//! Classes that pods refer to: priorities and runtimes.

use serde_json::Value;

use super::pod_priority::BUILT_IN;
use super::{Context, Operation, pod_resources};
use crate::cursor::Cursor;

/// The highest priority that is not the system's.
const PRIORITY_MAX: i64 = 1_000_000_000;

/// Checks a PriorityClass.
pub(super) fn check_priority(root: &Cursor<'_, '_>, context: &Context<'_>) {
    let value = root.field("value");
    let built_in = BUILT_IN.iter().find(|(name, _)| *name == &*context.key.name);
    if !value.exists() {
        root.note_missing("value", "a class needs a priority");
    }
    if let Some(priority) = value.int::<i64>() {
        match built_in {
            Some((_, expected)) if *expected != priority => value.note(format!("must be {expected} in this class")),
            Some(_) => {}
            None if priority > PRIORITY_MAX => {
                value.note(format!("must not be more than {PRIORITY_MAX}: what is above is the system's"));
            }
            None if priority < i32::MIN.into() => value.note("is out of range"),
            None => {}
        }
    }
    if built_in.is_none() && context.key.name.starts_with("system-") {
        root.field("metadata").field("name").note("must not start with system-: these names are the system's");
    }
    let policy = root.field("preemptionPolicy");
    if policy.non_empty_str().is_some_and(|text| !matches!(text, "Never" | "PreemptLowerPriority")) {
        policy.note("expected PreemptLowerPriority or Never");
    }
    check_default(&root.field("globalDefault"), context);
    if let (Operation::Update, Some(old)) = (context.operation, context.old)
        && old.get("value") != value.value()
    {
        value.note("may not change after creation");
    }
}

fn check_default(at: &Cursor<'_, '_>, context: &Context<'_>) {
    if at.bool() != Some(true) {
        return;
    }
    let name = |class: &Value| class.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_string();
    let classes = context.view.list("scheduling.k8s.io", "PriorityClass", None);
    let is_other =
        |class: &&Value| class.get("globalDefault") == Some(&Value::Bool(true)) && name(class) != *context.key.name;
    if let Some(other) = classes.into_iter().find(is_other) {
        at.note(format!("PriorityClass {:?} is the default already", name(other)));
    }
}

/// Checks a RuntimeClass.
pub(super) fn check_runtime(root: &Cursor<'_, '_>, _: &Context<'_>) {
    if root.field("handler").non_empty_str().is_none() {
        root.note_missing("handler", "a class needs one");
    }
    let overhead = root.field("overhead");
    for (_, value) in overhead.field("podFixed").entries() {
        pod_resources::amount(&value);
    }
}
