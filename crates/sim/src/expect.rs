//! What a scenario expects of a step, and whether it came so.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use quotient_api::ObjectKey;
use quotient_engine::Code;
use quotient_engine::quantity::Quantity;
use serde::Serialize;
use serde_json::Value;

use crate::cluster::{Happened, is_bound, is_pending};
use crate::field;
use crate::report::{NodeState, Quantities, QuotaReport};
use crate::scenario::{Target, pod_ref};
use crate::server::is_leaving;
use crate::shape::{Fields, Problems, as_count};
use crate::subject::Observed;

/// Any node, any reason.
const ANY: &str = "*";

/// What is expected after a step. What is left out is not looked at.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Expect {
    /// Pods and the nodes they are on.
    pub bound: Vec<(ObjectKey, String)>,
    /// Pods that wait, and the codes of their reasons.
    pub pending: Vec<(ObjectKey, String)>,
    /// Exactly these were evicted in this step.
    pub evicted: Option<Vec<ObjectKey>>,
    /// Pods on nodes now, by namespace.
    pub bound_count: Vec<(String, usize)>,
    /// Pods that wait now, by namespace.
    pub pending_count: Vec<(String, usize)>,
    /// Pods evicted in this step, by namespace.
    pub evicted_count: Vec<(String, usize)>,
    /// At least these were rejected in this step; an empty list means none.
    pub rejected: Option<Vec<RejectedExpect>>,
    pub quotas: Vec<(Target, Vec<AmountsExpect>)>,
    pub nodes: Vec<(String, Vec<AmountsExpect>)>,
    /// Parts of objects as they are stored; `null` for an object that must not exist.
    pub objects: Vec<(Target, Value)>,
    pub events: Vec<(Target, String)>,
}

/// An object that is to be rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedExpect {
    pub object: Target,
    /// Part of the message, whatever its case.
    pub message: Option<String>,
}

/// Amounts of one field of a quota or node.
#[derive(Debug, Clone, PartialEq)]
pub struct AmountsExpect {
    pub field: &'static str,
    /// Resources with the amount as it is written and as it is meant.
    pub amounts: Vec<(String, String, Quantity)>,
}

/// An expectation that was not met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// Which expectation: `bound a/p-0`.
    pub expectation: String,
    pub expected: String,
    pub found: String,
    /// Why the pod waits, in the engine's words, where the expectation is about a pod that does.
    pub reason: Option<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, found {}", self.expectation, self.expected, self.found)?;
        match &self.reason {
            Some(reason) => write!(f, " ({reason})"),
            None => Ok(()),
        }
    }
}

impl Expect {
    pub(crate) fn read(value: &Value, path: &str, problems: &mut Problems) -> Expect {
        let mut fields = Fields::of(value, path, problems);
        let bound = fields.entries("bound");
        let pending = fields.entries("pending");
        let evicted = fields.given_items("evicted");
        let bound_count = fields.entries("boundCount");
        let pending_count = fields.entries("pendingCount");
        let evicted_count = fields.entries("evictedCount");
        let rejected = fields.given_items("rejected");
        let quotas = fields.entries("quotas");
        let nodes = fields.entries("nodes");
        let objects = fields.entries("objects");
        let events = fields.items("events");
        fields.finish();
        Expect {
            bound: pods_with_text(bound, "a node's name, or \"*\" for any", problems),
            pending: pods_with_code(pending, problems),
            evicted: evicted.map(|items| {
                items.into_iter().filter_map(|(path, value)| pod_ref(&path, value.as_str(), problems)).collect()
            }),
            bound_count: counts(bound_count, problems),
            pending_count: counts(pending_count, problems),
            evicted_count: counts(evicted_count, problems),
            rejected: rejected.map(|items| {
                items.into_iter().filter_map(|(path, value)| rejected_expect(value, &path, problems)).collect()
            }),
            quotas: quotas
                .into_iter()
                .filter_map(|(path, name, value)| {
                    let target = Target::read(&path, &Value::from(name), problems)?;
                    Some((target, amounts(value, &path, &QuotaReport::AMOUNTS, problems)))
                })
                .collect(),
            nodes: nodes
                .into_iter()
                .map(|(path, name, value)| (name.to_string(), amounts(value, &path, &NodeState::AMOUNTS, problems)))
                .collect(),
            objects: objects
                .into_iter()
                .filter_map(|(path, name, value)| {
                    Some((Target::read(&path, &Value::from(name), problems)?, value.clone()))
                })
                .collect(),
            events: events.into_iter().filter_map(|(path, value)| event_expect(value, &path, problems)).collect(),
        }
    }

    /// Compares with what happened and how the cluster stands. Nothing is returned where all is as expected.
    pub fn check(&self, cluster: &impl Observed, happened: &Happened) -> Vec<Failure> {
        let mut failures = Vec::new();
        failures.extend(self.bound.iter().filter_map(|(pod, node)| check_bound(cluster, pod, node)));
        failures.extend(self.pending.iter().filter_map(|(pod, code)| check_pending(cluster, pod, code)));
        failures.extend(self.evicted.iter().filter_map(|pods| check_evicted(happened, pods)));
        failures.extend(check_counts("boundCount", &self.bound_count, &count_pods(cluster, is_bound)));
        failures.extend(check_counts("pendingCount", &self.pending_count, &count_pods(cluster, is_pending)));
        failures.extend(check_counts("evictedCount", &self.evicted_count, &count_evicted(happened)));
        failures.extend(self.rejected.iter().flat_map(|rejected| check_rejected(happened, rejected)));
        failures.extend(self.check_quotas(cluster));
        failures.extend(self.check_nodes(cluster));
        failures.extend(self.objects.iter().filter_map(|(target, part)| check_object(cluster, target, part)));
        failures.extend(self.events.iter().filter_map(|(target, reason)| check_event(cluster, target, reason)));
        failures
    }

    fn check_quotas(&self, cluster: &impl Observed) -> Vec<Failure> {
        if self.quotas.is_empty() {
            return Vec::new();
        }
        let known = cluster.quota_reports();
        let check = |(target, expected): &(Target, Vec<AmountsExpect>)| {
            let what = format!("quotas {}", target.text);
            let found: Vec<&QuotaReport> =
                known.iter().filter(|(key, _)| target.keys.contains(key)).map(|(_, quota)| quota).collect();
            match found[..] {
                [quota] => check_amounts(&what, expected, |field| quota.amounts(field)),
                [] => vec![failure(what, "a quota that is known", "no quota of that name".to_string())],
                _ => {
                    vec![failure(what, "one quota", "several: write the group, as in Kind.group/namespace/name".into())]
                }
            }
        };
        self.quotas.iter().flat_map(check).collect()
    }

    fn check_nodes(&self, cluster: &impl Observed) -> Vec<Failure> {
        if self.nodes.is_empty() {
            return Vec::new();
        }
        let known: BTreeMap<String, NodeState> =
            cluster.node_states().into_iter().map(|node| (node.name.clone(), node)).collect();
        let check = |(name, expected): &(String, Vec<AmountsExpect>)| {
            let what = format!("nodes {name}");
            match known.get(name) {
                Some(node) => check_amounts(&what, expected, |field| node.amounts(field)),
                None => vec![failure(what, "a node", "no node of that name".to_string())],
            }
        };
        self.nodes.iter().flat_map(check).collect()
    }
}

fn failure(expectation: impl Into<String>, expected: impl Into<String>, found: String) -> Failure {
    Failure { expectation: expectation.into(), expected: expected.into(), found, reason: None }
}

fn pods_with_text(
    entries: Vec<(String, &str, &Value)>,
    expected: &str,
    problems: &mut Problems,
) -> Vec<(ObjectKey, String)> {
    let mut pods = Vec::new();
    for (path, name, value) in entries {
        let pod = pod_ref(&path, Some(name), problems);
        match (pod, value.as_str()) {
            (Some(pod), Some(text)) => pods.push((pod, text.to_string())),
            (_, None) => problems.add(&path, Some(value), format!("expected {expected}")),
            (None, _) => {}
        }
    }
    pods
}

/// Pods with a code each. One that is mistyped would never be met, and is refused.
fn pods_with_code(entries: Vec<(String, &str, &Value)>, problems: &mut Problems) -> Vec<(ObjectKey, String)> {
    let is_code = |text: &str| text == ANY || Code::ALL.iter().any(|code| code.name() == text);
    let (known, unknown): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|(_, _, value)| value.as_str().is_none_or(is_code));
    for (path, _, value) in unknown {
        let codes = Code::ALL.map(Code::name).join(", ");
        problems.add(&path, Some(value), format!("is no reason's code: expected \"*\" for any, or one of {codes}"));
    }
    pods_with_text(known, "a reason's code, or \"*\" for any", problems)
}

fn counts(entries: Vec<(String, &str, &Value)>, problems: &mut Problems) -> Vec<(String, usize)> {
    let mut counts = Vec::new();
    for (path, namespace, value) in entries {
        match as_count(value) {
            Some(count) => counts.push((namespace.to_string(), count)),
            None => problems.add(&path, Some(value), "expected a number of pods"),
        }
    }
    counts
}

fn rejected_expect(value: &Value, path: &str, problems: &mut Problems) -> Option<RejectedExpect> {
    let mut fields = Fields::of(value, path, problems);
    let object = fields.needed_text("object");
    let object_path = fields.path_of("object");
    let message = fields.text("message").map(str::to_string);
    fields.finish();
    let object = Target::read(&object_path, &Value::from(object?), problems)?;
    Some(RejectedExpect { object, message })
}

fn event_expect(value: &Value, path: &str, problems: &mut Problems) -> Option<(Target, String)> {
    let mut fields = Fields::of(value, path, problems);
    let object = fields.needed_text("object");
    let object_path = fields.path_of("object");
    let reason = fields.needed_text("reason").map(str::to_string);
    fields.finish();
    Some((Target::read(&object_path, &Value::from(object?), problems)?, reason?))
}

fn amounts(value: &Value, path: &str, known: &'static [&'static str], problems: &mut Problems) -> Vec<AmountsExpect> {
    let mut fields = Fields::of(value, path, problems);
    let given: Vec<_> = known.iter().map(|field| (*field, fields.entries(field))).collect();
    fields.finish();
    let mut expected = Vec::new();
    for (field, entries) in given {
        let mut amounts = Vec::new();
        for (path, resource, value) in entries {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            match text.parse::<Quantity>() {
                Ok(quantity) => amounts.push((resource.to_string(), text, quantity)),
                Err(error) => problems.add(&path, Some(value), format!("expected a quantity: {error}")),
            }
        }
        if !amounts.is_empty() {
            expected.push(AmountsExpect { field, amounts });
        }
    }
    expected
}

/// How a pod stands, in words.
fn standing(cluster: &impl Observed, key: &ObjectKey) -> String {
    let Some(pod) = &cluster.object(key) else { return "no such pod".to_string() };
    let node = field::text(pod, "/spec/nodeName");
    match (field::text(pod, "/status/phase"), node) {
        (Some(phase @ ("Succeeded" | "Failed")), _) => format!("it has ended as {phase}"),
        (_, Some(node)) if is_leaving(pod) => format!("it is leaving {node}"),
        (_, Some(node)) => format!("it is on {node}"),
        (_, None) => match cluster.reason_of(key) {
            Some(reason) => format!("it waits with {}", reason.code.name()),
            None => "it waits without a reason".to_string(),
        },
    }
}

fn pod_failure(cluster: &impl Observed, what: &str, pod: &ObjectKey, expected: String) -> Failure {
    let expectation = format!("{what} {}/{}", pod.namespace.as_deref().unwrap_or_default(), pod.name);
    let reason = cluster.reason_of(pod).map(|reason| reason.message.clone());
    Failure { expectation, expected, found: standing(cluster, pod), reason }
}

fn check_bound(cluster: &impl Observed, key: &ObjectKey, node: &str) -> Option<Failure> {
    let pod = cluster.object(key).filter(|pod| is_bound(pod));
    let on = pod.as_ref().and_then(|pod| field::text(pod, "/spec/nodeName"));
    let is_met = on.is_some_and(|on| node == ANY || on == node);
    let expected = if node == ANY { "it on a node".to_string() } else { format!("it on {node}") };
    (!is_met).then(|| pod_failure(cluster, "bound", key, expected))
}

fn check_pending(cluster: &impl Observed, key: &ObjectKey, code: &str) -> Option<Failure> {
    let waits = cluster.object(key).is_some_and(|pod| is_pending(&pod));
    let is_met = waits && (code == ANY || cluster.reason_of(key).is_some_and(|reason| reason.code.name() == code));
    let expected = if code == ANY { "it to wait".to_string() } else { format!("it to wait with {code}") };
    (!is_met).then(|| pod_failure(cluster, "pending", key, expected))
}

fn check_evicted(happened: &Happened, pods: &[ObjectKey]) -> Option<Failure> {
    let name = |pod: &ObjectKey| format!("{}/{}", pod.namespace.as_deref().unwrap_or_default(), pod.name);
    let mut expected: Vec<String> = pods.iter().map(name).collect();
    expected.sort();
    let mut found: Vec<String> = happened.evicted.iter().map(|e| format!("{}/{}", e.namespace, e.name)).collect();
    found.sort();
    if expected == found {
        return None;
    }
    let messages: Vec<&str> = happened.evicted.iter().map(|evicted| evicted.message.as_str()).collect();
    let reason = (!messages.is_empty()).then(|| messages.join("; "));
    Some(Failure { expectation: "evicted".to_string(), expected: listed(&expected), found: listed(&found), reason })
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_string() } else { names.join(", ") }
}

fn count_pods(cluster: &impl Observed, counts: fn(&Value) -> bool) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for (key, _) in cluster.stored_pods().iter().filter(|(_, pod)| counts(pod)) {
        *found.entry(key.namespace.as_deref().unwrap_or_default().to_string()).or_default() += 1;
    }
    found
}

fn count_evicted(happened: &Happened) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for evicted in &happened.evicted {
        *found.entry(evicted.namespace.clone()).or_default() += 1;
    }
    found
}

fn check_counts(what: &str, expected: &[(String, usize)], found: &BTreeMap<String, usize>) -> Vec<Failure> {
    expected
        .iter()
        .filter_map(|(namespace, expected)| {
            let found = found.get(namespace).copied().unwrap_or(0);
            let differs = found != *expected;
            differs.then(|| failure(format!("{what} {namespace}"), expected.to_string(), found.to_string()))
        })
        .collect()
}

fn check_rejected(happened: &Happened, expected: &[RejectedExpect]) -> Vec<Failure> {
    let listed: Vec<String> = happened.rejected.iter().map(|r| format!("{}: {}", r.object, r.message)).collect();
    let listed = if listed.is_empty() { "none".to_string() } else { listed.join("; ") };
    if expected.is_empty() {
        let any = !happened.rejected.is_empty();
        return any.then(|| failure("rejected", "none", listed)).into_iter().collect();
    }
    expected
        .iter()
        .filter(|expected| {
            !happened.rejected.iter().any(|rejected| {
                let part = expected.message.as_deref().unwrap_or_default().to_lowercase();
                expected.object.keys.contains(&rejected.object) && rejected.message.to_lowercase().contains(&part)
            })
        })
        .map(|expected| {
            let wanted = match &expected.message {
                Some(message) => format!("a rejection with {message:?}"),
                None => "a rejection".to_string(),
            };
            failure(format!("rejected {}", expected.object.text), wanted, listed.clone())
        })
        .collect()
}

fn check_amounts<'a>(
    what: &str,
    expected: &[AmountsExpect],
    of: impl Fn(&str) -> Option<&'a Quantities>,
) -> Vec<Failure> {
    let mut failures = Vec::new();
    for AmountsExpect { field, amounts } in expected {
        for (resource, text, quantity) in amounts {
            let found = of(field).and_then(|amounts| amounts.get(resource)).map_or("0", String::as_str);
            if found.parse::<Quantity>().ok() != Some(*quantity) {
                failures.push(failure(format!("{what} {field} {resource}"), text.clone(), found.to_string()));
            }
        }
    }
    failures
}

/// The one object that is meant and exists.
fn the_object(cluster: &impl Observed, target: &Target) -> Result<Option<Arc<Value>>, String> {
    let existing: Vec<&ObjectKey> = target.keys.iter().filter(|key| cluster.object(key).is_some()).collect();
    match existing[..] {
        [] => Ok(None),
        [key] => Ok(cluster.object(key)),
        _ => Err(format!("{} objects: write one of {}", existing.len(), qualified(&existing))),
    }
}

fn qualified(keys: &[&ObjectKey]) -> String {
    keys.iter().map(|key| key.qualified()).collect::<Vec<_>>().join(", ")
}

fn check_object(cluster: &impl Observed, target: &Target, part: &Value) -> Option<Failure> {
    let what = format!("objects {}", target.text);
    let object = match the_object(cluster, target) {
        Ok(object) => object,
        Err(several) => return Some(failure(what, "one object", several)),
    };
    match (object, part) {
        (None, Value::Null) => None,
        (None, _) => Some(failure(what, "an object", "no such object".to_string())),
        (Some(_), Value::Null) => Some(failure(what, "no object", "an object".to_string())),
        (Some(object), part) => {
            let difference = difference(part, &object, "")?;
            let expectation = format!("{what} {}", difference.path);
            Some(failure(expectation, difference.expected.to_string(), difference.found))
        }
    }
}

/// Where an object is not as expected.
struct Difference<'a> {
    path: String,
    expected: &'a Value,
    found: String,
}

/// The first place at which `part` is not part of `whole`: mappings may have more keys, everything else is
/// equal. `null` stands for what is absent.
fn difference<'a>(part: &'a Value, whole: &Value, path: &str) -> Option<Difference<'a>> {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part.iter().find_map(|(key, part)| {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            match whole.get(key) {
                Some(whole) => difference(part, whole, &path),
                None if part.is_null() => None,
                None => Some(Difference { path, expected: part, found: "nothing".to_string() }),
            }
        }),
        (part, whole) if part == whole => None,
        (part, whole) => Some(Difference { path: path.to_string(), expected: part, found: whole.to_string() }),
    }
}

fn check_event(cluster: &impl Observed, target: &Target, reason: &str) -> Option<Failure> {
    let mut found: Vec<String> = Vec::new();
    for key in &target.keys {
        for (known, message) in cluster.events_about(key) {
            if known == reason {
                return None;
            }
            found.push(format!("{known} ({message})"));
        }
    }
    Some(failure(format!("events {}", target.text), reason, listed(&found)))
}
