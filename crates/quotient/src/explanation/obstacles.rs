//! What exactly closes nodes to a pod: the taint, the selector, the claim, the label; and the nodes that each closes.
//!
//! The engine says which filter closes a node. Here the two objects are looked at once more, to name what in them the
//! filter found. Nothing here decides anything.

mod selectors;
mod volumes;

use std::collections::BTreeMap;

use quotient_api::{ObjectKey, volcano};
use quotient_engine::{Filter, NodeVerdict};
use serde::Serialize;
use serde_json::Value;

use crate::state::State;
use selectors::{label, labels_match, text};

/// Something that closes nodes to a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Obstacle {
    pub filter: &'static str,
    /// What it is, such as `taint gpu=spot:NoSchedule`.
    pub what: String,
    /// The nodes that it closes, the nearest first.
    pub nodes: Vec<String>,
}

/// What closes nodes to a pod, in the order of the filters; of each filter's the one that closes most first.
pub fn obstacles(state: &State, pod: &Value, verdicts: &[NodeVerdict]) -> Vec<Obstacle> {
    let mut found: BTreeMap<(Filter, String), Vec<String>> = BTreeMap::new();
    for verdict in verdicts {
        let Some(filter) = verdict.closed_by else { continue };
        let node = state.object(&ObjectKey::node(&verdict.node));
        let what = describe(state, pod, node.unwrap_or(&Value::Null), filter, verdict);
        found.entry((filter, what)).or_default().push(verdict.node.to_string());
    }
    let mut obstacles: Vec<(Filter, Obstacle)> = found
        .into_iter()
        .map(|((filter, what), nodes)| (filter, Obstacle { filter: filter.name(), what, nodes }))
        .collect();
    obstacles
        .sort_by_key(|(filter, obstacle)| (*filter, std::cmp::Reverse(obstacle.nodes.len()), obstacle.what.clone()));
    obstacles.into_iter().map(|(_, obstacle)| obstacle).collect()
}

fn describe(state: &State, pod: &Value, node: &Value, filter: Filter, verdict: &NodeVerdict) -> String {
    let found = match filter {
        Filter::NodeUnschedulable => Some("cordoned".to_owned()),
        Filter::TaintToleration => taints(pod, node),
        Filter::NodeAffinity => selectors::node_affinity(pod, node),
        Filter::Cards => cards(state, pod, text(node, "/metadata/name")),
        Filter::NodePorts => ports(state, pod, text(node, "/metadata/name")),
        Filter::NodeResourcesFit => short(verdict.short.iter().map(|numbers| &*numbers.resource)),
        Filter::NodeCap => {
            let capped = short(verdict.cap.iter().map(|numbers| &*numbers.resource));
            capped.map(|what| format!("cap on pods without GPUs: {what}"))
        }
        Filter::VolumeRestrictions | Filter::NodeVolumeLimits | Filter::VolumeBinding | Filter::VolumeZone => {
            volumes::obstacle(state, pod, node, filter)
        }
        Filter::PodTopologySpread => spread(pod, node),
        Filter::InterPodAffinity => pod_affinity(state, pod, node),
        #[allow(unreachable_patterns, reason = "filters that are added are described by their own sentence")]
        _ => None,
    };
    found.unwrap_or_else(|| filter.sentence().to_owned())
}

/// `insufficient cpu, memory`.
fn short<'a>(resources: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = resources.collect();
    (!names.is_empty()).then(|| format!("insufficient {}", names.join(", ")))
}

/// The taints of a node that a pod does not tolerate: `key=value:Effect`.
pub fn untolerated<'a>(pod: &Value, node: &'a Value) -> Vec<&'a Value> {
    let list = |object: &'a Value, pointer: &str| object.pointer(pointer).and_then(Value::as_array);
    let tolerations = pod.pointer("/spec/tolerations").and_then(Value::as_array);
    let bars = |taint: &&Value| {
        let of = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let tolerates = |toleration: &Value| {
            let (key, effect) = (of(toleration, "key"), of(toleration, "effect"));
            let exists = of(toleration, "operator") == "Exists";
            (effect.is_empty() || effect == of(taint, "effect"))
                && (key == of(taint, "key") || key.is_empty() && exists)
                && (exists || of(toleration, "value") == of(taint, "value"))
        };
        let closes = matches!(of(taint, "effect").as_str(), "NoSchedule" | "NoExecute");
        closes && !tolerations.into_iter().flatten().any(tolerates)
    };
    list(node, "/spec/taints").into_iter().flatten().filter(bars).collect()
}

/// A taint as kubectl writes it.
pub fn taint_text(taint: &Value) -> String {
    let of = |name: &str| taint.get(name).and_then(Value::as_str).unwrap_or_default();
    let value = if of("value").is_empty() { String::new() } else { format!("={}", of("value")) };
    format!("{}{value}:{}", of("key"), of("effect"))
}

fn taints(pod: &Value, node: &Value) -> Option<String> {
    let taints: Vec<String> = untolerated(pod, node).into_iter().map(taint_text).collect();
    (!taints.is_empty()).then(|| format!("taint {}", taints.join(" and ")))
}

fn cards(state: &State, pod: &Value, node: Option<&str>) -> Option<String> {
    let wanted =
        pod.pointer("/metadata/annotations").and_then(|all| all.get(volcano::CARD_NAME)).and_then(Value::as_str);
    let wanted = wanted.map(|cards| cards.split('|').collect::<Vec<_>>().join(" or "))?;
    let has: Vec<&str> = state.node(node?)?.cards.keys().map(String::as_str).collect();
    let has = if has.is_empty() { "no card".to_owned() } else { has.join(", ") };
    Some(format!("card {wanted} requested, the node has {has}"))
}

/// The host ports of a pod, as `port/protocol`.
fn host_ports(pod: &Value) -> Vec<String> {
    let containers = ["containers", "initContainers"].into_iter();
    let containers = containers.filter_map(|list| pod.pointer(&format!("/spec/{list}")).and_then(Value::as_array));
    let ports = containers.flatten().filter_map(|container| container.get("ports").and_then(Value::as_array)).flatten();
    let host_network = pod.pointer("/spec/hostNetwork") == Some(&Value::Bool(true));
    ports
        .filter_map(|port| {
            let number = port.get("hostPort").and_then(Value::as_u64).filter(|port| *port > 0);
            let number =
                number.or_else(|| port.get("containerPort").and_then(Value::as_u64).filter(|_| host_network))?;
            Some(format!("{number}/{}", port.get("protocol").and_then(Value::as_str).unwrap_or("TCP")))
        })
        .collect()
}

fn ports(state: &State, pod: &Value, node: Option<&str>) -> Option<String> {
    let wanted = host_ports(pod);
    let taken = state.pods_on(node?).into_iter().find_map(|(key, other)| {
        let port = host_ports(other).into_iter().find(|port| wanted.contains(port))?;
        Some(format!("host port {port} is used by {}/{}", key.namespace.as_deref().unwrap_or_default(), key.name))
    });
    taken.or_else(|| wanted.first().map(|port| format!("host port {port} is used")))
}

fn spread(pod: &Value, node: &Value) -> Option<String> {
    let constraints = pod.pointer("/spec/topologySpreadConstraints").and_then(Value::as_array)?;
    let hard = constraints.iter().filter(|one| one.get("whenUnsatisfiable").is_none_or(|what| what == "DoNotSchedule"));
    let keys: Vec<(&str, i64)> = hard
        .filter_map(|one| Some((text(one, "/topologyKey")?, one.get("maxSkew").and_then(Value::as_i64).unwrap_or(1))))
        .collect();
    if let Some((key, _)) = keys.iter().find(|(key, _)| label(node, key).is_none()) {
        return Some(format!("topology label {key} is missing"));
    }
    let shown: Vec<String> = keys.iter().map(|(key, skew)| format!("{key} (maxSkew {skew})")).collect();
    (!shown.is_empty()).then(|| format!("topology spread over {}", shown.join(" and ")))
}

fn pod_affinity(state: &State, pod: &Value, node: &Value) -> Option<String> {
    let terms = |of: &'static str| {
        let pointer = format!("/spec/affinity/{of}/requiredDuringSchedulingIgnoredDuringExecution");
        pod.pointer(&pointer).and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let namespace = text(pod, "/metadata/namespace").unwrap_or("default");
    // The pods of the node's domain that a term selects.
    let selected = |term: &Value| {
        let key = text(term, "/topologyKey").unwrap_or_default();
        let domain = label(node, key);
        let namespaces = term.get("namespaces").and_then(Value::as_array);
        let is_meant = |other: &str| match namespaces {
            Some(list) if !list.is_empty() => list.iter().any(|name| name == other),
            _ => term.get("namespaceSelector").is_some() || other == namespace,
        };
        let found = state.running_pods().find(|(key_of, other)| {
            let on = text(other, "/spec/nodeName").and_then(|name| state.object(&ObjectKey::node(name)));
            let same_domain = domain.is_some() && on.and_then(|on| label(on, key)) == domain;
            same_domain
                && is_meant(key_of.namespace.as_deref().unwrap_or_default())
                && term.get("labelSelector").is_some_and(|selector| labels_match(selector, other))
        });
        (key.to_owned(), found.map(|(key, _)| format!("{}/{}", key.namespace.as_deref().unwrap_or_default(), key.name)))
    };
    for term in terms("podAntiAffinity") {
        if let (key, Some(found)) = selected(&term) {
            return Some(format!("pod anti-affinity by {key}: {found} is there"));
        }
    }
    for term in terms("podAffinity") {
        let (key, found) = selected(&term);
        if label(node, &key).is_none() {
            return Some(format!("pod affinity by {key}: the node has no such label"));
        }
        if found.is_none() {
            let selector = term.get("labelSelector").map_or(String::new(), selectors::show);
            return Some(format!("pod affinity by {key}: no pod with {selector} is there"));
        }
    }
    Some("anti-affinity of a pod that runs there".to_owned())
}
