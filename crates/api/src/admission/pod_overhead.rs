//! What the runtime of a pod takes, and where it runs: the pod's RuntimeClass.

use std::collections::BTreeMap;

use quotient_engine::quantity::Quantity;
use serde_json::Value;

use super::{Context, Rejection, is_given, object_in};
use crate::field::{of, of_mut};
use crate::kinds;
use crate::object::ObjectKey;

/// Writes the overhead, the node selector and the tolerations of the pod's RuntimeClass into the pod.
pub(super) fn set_overhead(object: &mut Value, context: &Context<'_>) -> Result<(), Rejection> {
    let Some(spec) = of_mut(object, "spec").filter(|spec| spec.is_object()) else { return Ok(()) };
    let name = of(spec, "runtimeClassName").and_then(Value::as_str).unwrap_or_default().to_string();
    if name.is_empty() {
        return Ok(());
    }
    let class = kinds::find("node.k8s.io", "RuntimeClass")
        .and_then(|kind| context.view.get(&ObjectKey::new(kind, None, &name)));
    let Some(class) = class else {
        // The pod was let in once, by a cluster that has the class.
        if is_given(spec, "overhead") || is_given(spec, "nodeName") {
            context.warn(format!("RuntimeClass {name:?} does not exist: the pod's own overhead counts"));
            return Ok(());
        }
        return Err(Rejection::new(format!("spec.runtimeClassName: {name:?}: no RuntimeClass of that name exists")));
    };
    let overhead = class.pointer("/overhead/podFixed").cloned().unwrap_or(Value::Null);
    let given = spec.get("overhead").cloned().unwrap_or(Value::Null);
    if given.is_null() {
        if !overhead.is_null() {
            spec["overhead"] = overhead;
        }
    } else if quantities(&given) != quantities(&overhead) {
        return Err(Rejection::new(format!(
            "spec.overhead: {given}: must be {overhead}, as RuntimeClass {name:?} says, or be left out"
        )));
    }
    for (key, value) in class.pointer("/scheduling/nodeSelector").and_then(Value::as_object).into_iter().flatten() {
        let Some(selector) = object_in(spec, "nodeSelector") else { break };
        match selector.get(key) {
            Some(other) if other != value => {
                let message = format!("spec.nodeSelector.{key}: {other}: RuntimeClass {name:?} says {value}");
                return Err(Rejection::new(message));
            }
            _ => selector.insert(key.clone(), value.clone()),
        };
    }
    if let Some(tolerations) = class.pointer("/scheduling/tolerations").and_then(Value::as_array) {
        super::pod::append_tolerations(spec, tolerations);
    }
    Ok(())
}

/// Quantities by name, compared by value; what cannot be read is kept as text.
fn quantities(value: &Value) -> BTreeMap<String, Result<Quantity, String>> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    let quantity = |value: &Value| text(value).parse::<Quantity>().map_err(|_| text(value));
    value.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), quantity(value))).collect()
}
