//! Pods: what an API server adds to them, and what it refuses.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::{Context, Operation, Rejection, pod_resources};
use crate::cursor::Cursor;
use crate::field::{of, of_mut};
use crate::pod_group;
use crate::volcano::{GROUP_NAMES, annotation};

/// What pods put up with unless they say otherwise: a node that is not heard of, for five minutes.
static USUAL_TOLERATIONS: LazyLock<[(&str, Value); 2]> = LazyLock::new(|| {
    ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
        .map(|key| (key, json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})))
});

/// Adds the usual tolerations.
pub(super) fn add_tolerations(object: &mut Value, _: &Context<'_>) -> Result<(), Rejection> {
    let Some(spec) = of_mut(object, "spec").filter(|spec| spec.is_object()) else { return Ok(()) };
    for (key, toleration) in USUAL_TOLERATIONS.iter() {
        let tolerates = |toleration: &Value| {
            let text = |name: &str| of(toleration, name).and_then(Value::as_str).unwrap_or_default();
            let named = text("key");
            (named == *key || named.is_empty() && text("operator") == "Exists")
                && matches!(text("effect"), "" | "NoExecute")
        };
        let tolerations = of(spec, "tolerations").and_then(Value::as_array);
        if tolerations.is_none_or(|list| !list.iter().any(tolerates)) {
            append_tolerations(spec, std::slice::from_ref(toleration));
        }
    }
    Ok(())
}

/// Adds tolerations that the pod does not have.
pub(super) fn append_tolerations(spec: &mut Value, more: &[Value]) {
    if of(spec, "tolerations").is_none_or(Value::is_null) {
        spec["tolerations"] = Value::Array(Vec::with_capacity(more.len()));
    }
    // Something else than a list is for the checks to find.
    let Some(list) = of_mut(spec, "tolerations").and_then(Value::as_array_mut) else { return };
    for toleration in more {
        if !list.contains(toleration) {
            list.reserve_exact(1);
            list.push(without_room(toleration));
        }
    }
}

/// A copy without room to spare: every pod has one.
fn without_room(toleration: &Value) -> Value {
    match toleration {
        Value::Object(fields) => {
            let mut copy = Map::with_capacity(fields.len());
            copy.clone_from(fields);
            Value::Object(copy)
        }
        other => other.clone(),
    }
}

/// Checks a pod.
pub(super) fn check(root: &Cursor<'_, '_>, context: &Context<'_>) {
    check_spec(root, "spec", context);
    let spec = root.field("spec");
    let gates = spec.field("schedulingGates");
    let node = spec.field("nodeName");
    if context.operation == Operation::Create && gates.items().next().is_some() && node.non_empty_str().is_some() {
        node.note("must be left out while scheduling gates are set");
    }
    let pod = root.value().filter(|_| context.operation == Operation::Create);
    if let Some(pod) = pod.filter(|pod| pod_group::name_of(pod).is_some())
        && let Some(name) = GROUP_NAMES.iter().find(|name| annotation(pod, name).is_some())
    {
        context.warn(format!("spec.schedulingGroup names the pod's group: its annotation {name} has no effect"));
    }
}

/// Checks what a pod or the template of one has under `name`.
pub(super) fn check_spec(parent: &Cursor<'_, '_>, name: &str, context: &Context<'_>) {
    let spec = parent.field(name);
    if !spec.exists() {
        return parent.note_missing(name, "a pod needs it");
    }
    let known = context.view.checked_specs().zip(spec.value());
    let mark = match known.map(|(known, spec)| known.specs().find(spec, None)) {
        Some(Ok(())) => {
            // It may be another one than that of the spec which was checked.
            spec.field("nodeName").str();
            return;
        }
        Some(Err(mark)) => mark,
        None => None,
    };
    check_containers(&spec, context);
    pod_resources::check(&spec, context);
    check_gates(&spec);
    check_spread(&spec);
    check_choices(&spec);
    // Reading it as the scheduler will notes every term, toleration and port that cannot be read.
    crate::pod::read_placement(&spec);
    let is_faultless = !spec.has_notes() && !context.has_warnings();
    if let (Some((known, value)), Some(mark)) = (known, mark.filter(|_| is_faultless)) {
        known.specs().keep(mark, value, &());
    }
}

fn check_containers(spec: &Cursor<'_, '_>, context: &Context<'_>) {
    let containers = spec.field("containers");
    if containers.items().next().is_none() {
        spec.note_missing("containers", "a pod needs at least one");
    }
    let mut names = BTreeSet::new();
    for list in ["initContainers", "containers"] {
        for container in spec.field(list).items() {
            let name = container.field("name");
            match name.non_empty_str() {
                Some(text) if !names.insert(text) => name.note("is the name of two containers"),
                Some(_) => {}
                None => context.warn("a container has no name: an API server wants one".to_string()),
            }
            if container.field("image").non_empty_str().is_none() {
                context.warn("a container has no image: an API server wants one".to_string());
            }
        }
    }
    for container in spec.field("initContainers").items() {
        let policy = container.field("restartPolicy");
        if policy.non_empty_str().is_some_and(|policy| policy != "Always") {
            policy.note("expected Always (a sidecar), or nothing");
        }
    }
}

fn check_gates(spec: &Cursor<'_, '_>) {
    let mut names = BTreeSet::new();
    for gate in spec.field("schedulingGates").items() {
        let name = gate.field("name");
        match name.non_empty_str() {
            Some(text) if names.insert(text) => {}
            Some(_) => name.note("is given twice"),
            None => gate.note_missing("name", "a gate needs one"),
        }
    }
}

fn check_spread(spec: &Cursor<'_, '_>) {
    let mut seen = BTreeSet::new();
    for constraint in spec.field("topologySpreadConstraints").items() {
        let (key, when) = (constraint.field("topologyKey"), constraint.field("whenUnsatisfiable"));
        if let (Some(key_text), Some(when_text)) = (key.str(), when.str())
            && !seen.insert((key_text, when_text))
        {
            key.note(format!("has two constraints with {when_text}"));
        }
        let min_domains = constraint.field("minDomains");
        if min_domains.exists() && when.str() == Some("ScheduleAnyway") {
            min_domains.note("must be left out with ScheduleAnyway");
        }
        let (match_keys, selector) = (constraint.field("matchLabelKeys"), constraint.field("labelSelector"));
        if match_keys.items().next().is_some() && !selector.exists() {
            match_keys.note("must be left out where there is no labelSelector");
        }
    }
}

fn check_choices(spec: &Cursor<'_, '_>) {
    let choices: [(&str, &[&str]); 2] = [
        ("restartPolicy", &["Always", "OnFailure", "Never"]),
        ("preemptionPolicy", &["PreemptLowerPriority", "Never"]),
    ];
    for (name, known) in choices {
        let at = spec.field(name);
        if at.non_empty_str().is_some_and(|text| !known.contains(&text)) {
            at.note(format!("expected {}", known.join(" or ")));
        }
    }
    spec.field("priority").int::<i32>();
    for name in ["schedulerName", "nodeName", "priorityClassName"] {
        spec.field(name).str();
    }
}
