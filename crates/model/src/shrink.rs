//! A case made smaller for as long as it still differs in the same way.

use serde_json::Value;

use crate::check::Difference;
use crate::world::text;

/// Where amounts are.
const AMOUNTS: &[&str] = &["/min", "/max", "/deserved", "/capability", "/resource"];

/// How many smaller cases are tried at most.
const TRIES_MAX: usize = 600;

/// The smallest case that can be reached by leaving things out.
pub fn shrink(case: &Value, like: &Difference, differs: &dyn Fn(&Value) -> Option<Difference>) -> (Value, Difference) {
    let (mut smallest, mut difference) = (case.clone(), like.clone());
    let mut tries = 0;
    'again: loop {
        for candidate in smaller(&smallest) {
            tries += 1;
            if tries > TRIES_MAX {
                return (smallest, difference);
            }
            if let Some(found) = differs(&candidate) {
                (smallest, difference) = (candidate, found);
                continue 'again;
            }
        }
        return (smallest, difference);
    }
}

/// Cases with one thing less.
fn smaller(case: &Value) -> Vec<Value> {
    let mut paths: Vec<String> = Vec::new();
    let steps = case["spec"]["steps"].as_array().map_or(0, Vec::len);
    for step in (0..steps).rev() {
        if steps > 1 {
            paths.push(format!("/spec/steps/{step}"));
        }
        let parts = case["spec"]["steps"][step].as_object();
        for (key, value) in parts.into_iter().flatten() {
            let path = format!("/spec/steps/{step}/{key}");
            match (key.as_str(), value) {
                ("name", _) => {}
                ("nodes" | "apply" | "pods" | "finish" | "delete", Value::Array(list)) => {
                    paths.extend((0..list.len()).rev().map(|item| format!("{path}/{item}")));
                    for (item, object) in list.iter().enumerate() {
                        details(&format!("{path}/{item}"), object, &mut paths);
                    }
                }
                _ => paths.push(path),
            }
        }
    }
    // Whole steps first, then whole objects, then what is in them.
    paths.sort_by_key(|path| path.matches('/').count());
    let without = paths.iter().filter_map(|path| {
        let mut smaller = case.clone();
        remove(&mut smaller, path).then_some(smaller)
    });
    without.chain(merged(case)).collect()
}

/// Parts of an object that it may do without.
fn details(path: &str, object: &Value, paths: &mut Vec<String>) {
    // What makes pods, and what selects them, is left out whole or not at all.
    if matches!(text(object, "/kind"), "ReplicaSet" | "PodGroup" | "PodDisruptionBudget") {
        return;
    }
    let optional = |key: &str| !matches!(key, "apiVersion" | "kind" | "metadata" | "name" | "namespace" | "count");
    for (key, value) in object.as_object().into_iter().flatten() {
        let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
        if optional(key) && !matches!(key.as_str(), "requests" | "allocatable" | "spec" | "annotations" | "labels") {
            paths.push(path.clone());
        }
        if value.is_object() {
            details(&path, value, paths);
        }
    }
}

fn remove(case: &mut Value, path: &str) -> bool {
    let Some((parent, last)) = path.rsplit_once('/') else { return false };
    match case.pointer_mut(parent) {
        Some(Value::Array(list)) => match last.parse::<usize>() {
            Ok(index) if index < list.len() => {
                list.remove(index);
                true
            }
            _ => false,
        },
        // Amounts that name nothing mean something else than no amounts.
        Some(Value::Object(map)) if map.len() == 1 && AMOUNTS.iter().any(|name| parent.ends_with(name)) => false,
        Some(Value::Object(map)) => map.shift_remove(&last.replace("~1", "/").replace("~0", "~")).is_some(),
        _ => false,
    }
}

/// Cases in which a step is one with the step before it.
fn merged(case: &Value) -> Vec<Value> {
    let steps = case["spec"]["steps"].as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for second in 1..steps.len() {
        let mut joined = steps[second - 1].clone();
        let plain = |step: &Value| step["wait"].is_null() && step["restart"].is_null() && step["finish"].is_null();
        if !plain(&steps[second - 1]) || !plain(&steps[second]) {
            continue;
        }
        for key in ["nodes", "apply", "pods"] {
            let more = steps[second][key].as_array().cloned().unwrap_or_default();
            if more.is_empty() {
                continue;
            }
            match joined[key].as_array_mut() {
                Some(list) => list.extend(more),
                None => joined[key] = Value::Array(more),
            }
        }
        let mut smaller = case.clone();
        if let Some(list) = smaller["spec"]["steps"].as_array_mut() {
            list[second - 1] = joined;
            list.remove(second);
        }
        found.push(smaller);
    }
    found
}
