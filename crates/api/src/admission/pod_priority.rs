//! How important a pod is: its class, its priority, and whether it may evict others.

use serde_json::Value;

use super::{Context, Rejection, is_given};
use crate::field::{of, of_mut};
use crate::kinds;
use crate::object::ObjectKey;

/// The classes that every cluster has.
pub(crate) const BUILT_IN: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

const PREEMPTS: &str = "PreemptLowerPriority";

/// What a class means for a pod.
struct Class {
    name: String,
    priority: i64,
    preemption_policy: String,
}

impl Class {
    /// What holds where no class is named and none is the default.
    fn none() -> Class {
        Class { name: String::new(), priority: 0, preemption_policy: PREEMPTS.to_string() }
    }

    fn of(value: &Value) -> Option<Class> {
        Some(Class {
            name: value.pointer("/metadata/name")?.as_str()?.to_string(),
            priority: value.get("value").and_then(Value::as_i64).unwrap_or(0),
            preemption_policy: value.get("preemptionPolicy").and_then(Value::as_str).unwrap_or(PREEMPTS).to_string(),
        })
    }
}

/// Writes priority and preemption policy into a pod, from the class it names or from the default one.
/// A pod that names no class may state its priority itself, as scenarios do. One that names a class
/// must not state anything else than the class says.
pub(super) fn set_priority(object: &mut Value, context: &Context<'_>) -> Result<(), Rejection> {
    let Some(spec) = of_mut(object, "spec").filter(|spec| spec.is_object()) else { return Ok(()) };
    let named = of(spec, "priorityClassName").and_then(Value::as_str).filter(|name| !name.is_empty());
    let class = match named {
        Some(name) => match find(name, context) {
            Some(class) => class,
            // The pod was let in once, by a cluster that has the class.
            None if is_given(spec, "priority") => {
                context.warn(format!("PriorityClass {name:?} does not exist: the pod's own priority counts"));
                return Ok(());
            }
            None => {
                return Err(Rejection::new(format!(
                    "spec.priorityClassName: {name:?}: no PriorityClass of that name exists"
                )));
            }
        },
        None if is_given(spec, "priority") => return Ok(()),
        None => global_default(context).unwrap_or_else(Class::none),
    };
    agree(spec, "priority", Value::from(class.priority), &class)?;
    if !class.name.is_empty() {
        agree(spec, "preemptionPolicy", Value::from(class.preemption_policy.as_str()), &class)?;
        spec["priorityClassName"] = Value::from(class.name);
    }
    Ok(())
}

/// Writes the priority of a group of pods, which has no preemption policy, by the same rules; one that names no class
/// may not state another than pods without one have.
pub(super) fn set_group_priority(spec: &mut Value, context: &Context<'_>) -> Result<(), Rejection> {
    let named = spec.get("priorityClassName").and_then(Value::as_str).filter(|name| !name.is_empty());
    let class = match named {
        Some(name) => find(name, context).ok_or_else(|| {
            Rejection::new(format!("spec.priorityClassName: {name:?}: no PriorityClass of that name exists"))
        })?,
        None => global_default(context).unwrap_or_else(Class::none),
    };
    agree(spec, "priority", Value::from(class.priority), &class)?;
    if !class.name.is_empty() {
        spec["priorityClassName"] = Value::from(class.name);
    }
    Ok(())
}

/// Writes a field that the class decides, unless the pod says something else.
fn agree(spec: &mut Value, field: &str, value: Value, class: &Class) -> Result<(), Rejection> {
    match of(spec, field).filter(|given| !given.is_null()) {
        Some(given) if *given != value => Err(Rejection::new(format!(
            "spec.{field}: {given}: must be {value}, as PriorityClass {:?} says, or be left out",
            class.name
        ))),
        _ => {
            spec[field] = value;
            Ok(())
        }
    }
}

/// Whether there is a class of that name.
pub(super) fn is_class(name: &str, context: &Context<'_>) -> bool {
    find(name, context).is_some()
}

fn find(name: &str, context: &Context<'_>) -> Option<Class> {
    let kind = kinds::find("scheduling.k8s.io", "PriorityClass")?;
    let stored = context.view.get(&ObjectKey::new(kind, None, name)).and_then(Class::of);
    stored.or_else(|| {
        let (name, priority) = *BUILT_IN.iter().find(|(built_in, _)| *built_in == name)?;
        Some(Class { name: name.to_string(), priority, preemption_policy: PREEMPTS.to_string() })
    })
}

/// The class of pods that name none: of several, the one with the lowest value, as Kubernetes has it.
fn global_default(context: &Context<'_>) -> Option<Class> {
    let classes = context.view.list("scheduling.k8s.io", "PriorityClass", None);
    let defaults = classes.into_iter().filter(|class| class.get("globalDefault") == Some(&Value::Bool(true)));
    defaults.filter_map(Class::of).min_by(|a, b| (a.priority, &a.name).cmp(&(b.priority, &b.name)))
}
