//! Opening nodes: tolerations, selectors, cordons.

use quotient_api::ObjectKey;
use serde_json::{Value, json};

use super::trial::{Edit, Trial};
use super::{FieldChange, Remedy};
use crate::explanation::obstacles::{Obstacle, taint_text, untolerated};

/// The most nodes that are tried one after another.
const NODES_MAX: usize = 8;

fn nodes_closed_by<'a>(obstacles: &'a [Obstacle], filter: &'static str) -> impl Iterator<Item = &'a Obstacle> {
    obstacles.iter().filter(move |obstacle| obstacle.filter == filter)
}

/// The fewest taints of one kind of node that have to be tolerated.
pub(super) fn toleration(trial: &Trial<'_>, obstacles: &[Obstacle]) -> Vec<Remedy> {
    let mut found: Vec<Remedy> = Vec::new();
    for obstacle in nodes_closed_by(obstacles, "TaintToleration").take(NODES_MAX) {
        let Some(node) = obstacle.nodes.first().and_then(|node| trial.state.object(&ObjectKey::node(node))) else {
            continue;
        };
        let taints = untolerated(&trial.pod, node);
        let tolerations: Vec<Value> = taints
            .iter()
            .map(|taint| match taint.get("value").and_then(Value::as_str).filter(|value| !value.is_empty()) {
                Some(value) => {
                    json!({"key": taint["key"], "operator": "Equal", "value": value, "effect": taint["effect"]})
                }
                None => json!({"key": taint["key"], "operator": "Exists", "effect": taint["effect"]}),
            })
            .collect();
        let edits = trial.changed(|pod| {
            let mut all = pod.pointer("/spec/tolerations").and_then(Value::as_array).cloned().unwrap_or_default();
            all.extend(tolerations.clone());
            pod["spec"]["tolerations"] = Value::Array(all);
        });
        let Some(evicts) = trial.runs(&edits) else { continue };
        let shown = taints.iter().map(|taint| taint_text(taint)).collect::<Vec<_>>().join(" and ");
        let change = |toleration: &Value| trial.changes("spec.tolerations", None, Some(&toleration.to_string()));
        let changes = tolerations.iter().flat_map(change).collect();
        let message = trial.of_all(format!("tolerate the taint {shown}"));
        if found.iter().all(|known| known.message != message) {
            found.push(Remedy { kind: "toleration", message, changes, evicts, ends: Vec::new() });
        }
    }
    found
}

/// One entry of the node selector that has to be left out, or the required node affinity.
pub(super) fn selector(trial: &Trial<'_>) -> Vec<Remedy> {
    let mut found = Vec::new();
    let selector = trial.pod.pointer("/spec/nodeSelector").and_then(Value::as_object).cloned().unwrap_or_default();
    for (key, value) in &selector {
        let edits = trial.changed(|pod| {
            if let Some(selector) = pod["spec"]["nodeSelector"].as_object_mut() {
                selector.shift_remove(key);
            }
        });
        let Some(evicts) = trial.runs(&edits) else { continue };
        let value = value.as_str().unwrap_or_default();
        let message = trial.of_all(format!("leave out the node selector {key}={value}"));
        let changes = trial.changes(&format!("spec.nodeSelector[{key:?}]"), Some(value), None);
        found.push(Remedy { kind: "node-selector", message, changes, evicts, ends: Vec::new() });
    }
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    if trial.pod.pointer(&format!("/spec/affinity/nodeAffinity/{REQUIRED}")).is_some() {
        let edits = trial.changed(|pod| {
            if let Some(affinity) = pod["spec"]["affinity"]["nodeAffinity"].as_object_mut() {
                affinity.shift_remove(REQUIRED);
            }
        });
        if let Some(evicts) = trial.runs(&edits) {
            let changes = trial.changes(&format!("spec.affinity.nodeAffinity.{REQUIRED}"), None, None);
            let message = trial.of_all("leave out the required node affinity".to_owned());
            found.push(Remedy { kind: "node-affinity", message, changes, evicts, ends: Vec::new() });
        }
    }
    found
}

/// A node that has to be uncordoned.
pub(super) fn uncordon(trial: &Trial<'_>, obstacles: &[Obstacle]) -> Option<Remedy> {
    let nodes = nodes_closed_by(obstacles, "NodeUnschedulable").flat_map(|obstacle| &obstacle.nodes).take(NODES_MAX);
    nodes.into_iter().find_map(|name| {
        let mut node = trial.state.object(&ObjectKey::node(name))?.clone();
        node["spec"].as_object_mut()?.shift_remove("unschedulable");
        if let Some(taints) = node["spec"].get_mut("taints").and_then(Value::as_array_mut) {
            taints.retain(|taint| taint["key"] != "node.kubernetes.io/unschedulable");
        }
        let evicts = trial.runs(&[Edit::Put(node)])?;
        let change = FieldChange {
            object: ObjectKey::node(name).to_string(),
            field: "spec.unschedulable".to_owned(),
            from: Some("true".to_owned()),
            to: None,
        };
        Some(Remedy {
            kind: "uncordon",
            message: format!("uncordon node {name}"),
            changes: vec![change],
            evicts,
            ends: Vec::new(),
        })
    })
}
