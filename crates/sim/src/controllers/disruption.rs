//! The status of PodDisruptionBudgets: how many pods may go now.

use std::collections::BTreeMap;

use quotient_api::{ObjectKey, Translator, TranslatorSettings};
use quotient_engine::fact::{Labels, Name, Selector};
use quotient_engine::{Fact, selects};
use serde_json::{Value, json};

use super::{Controllers, Rounding, int_or_percent, observed, write_status};
use crate::field;
use crate::server::{Server, is_leaving, is_ready};
use crate::store::Store;

pub(super) fn reconcile(controllers: &mut Controllers, server: &mut Server, key: &ObjectKey, budget: &Value) {
    let selector = selector_of(controllers.facts(budget));
    let pods: Vec<&Value> = match &selector {
        None => Vec::new(),
        Some(selector) => server
            .store()
            .of_kind("", "Pod", key.namespace.as_deref())
            .map(|(_, pod)| pod.as_ref())
            .filter(|pod| selects(selector, &labels(pod)))
            .collect(),
    };
    let healthy = count(pods.iter().filter(|pod| is_ready(pod) && !is_leaving(pod)).count());
    let Needs { expected, desired } = needs(server, budget, &pods);
    let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    let status = [
        ("expectedPods", json!(expected)),
        ("currentHealthy", json!(healthy)),
        ("desiredHealthy", json!(desired)),
        ("disruptionsAllowed", json!(allowed)),
        observed(budget),
    ];
    write_status(server, key, &status);
}

fn selector_of(facts: Vec<Fact>) -> Option<Selector> {
    facts.into_iter().find_map(|fact| if let Fact::Budget(budget) = fact { budget.selector } else { None })
}

/// The budgets that a pod is under.
pub fn budgets_of(store: &Store, pod: &ObjectKey, object: &Value) -> Vec<ObjectKey> {
    let labels = labels(object);
    let mut translator = Translator::new(TranslatorSettings::default());
    let budgets = store.of_kind("policy", "PodDisruptionBudget", pod.namespace.as_deref());
    budgets
        .filter(|(_, budget)| selector_of(translator.upsert(budget).facts).is_some_and(|s| selects(&s, &labels)))
        .map(|(key, _)| key.clone())
        .collect()
}

/// How many pods there should be, and how many of them healthy.
struct Needs {
    expected: i64,
    desired: i64,
}

/// `maxUnavailable` and percentages are of what the pods' controllers want; a plain `minAvailable` is of
/// the pods that are there. Percentages round up, whichever way they are meant.
fn needs(server: &Server, budget: &Value, pods: &[&Value]) -> Needs {
    let given = |name: &str| budget["spec"].get(name).filter(|value| !value.is_null());
    if let Some(limit) = given("maxUnavailable") {
        let expected = scale(server, pods);
        let unavailable = int_or_percent(limit, expected, Rounding::Up).unwrap_or(0);
        return Needs { expected, desired: (expected - unavailable).max(0) };
    }
    match given("minAvailable") {
        Some(Value::Number(number)) => Needs { expected: count(pods.len()), desired: number.as_i64().unwrap_or(0) },
        Some(limit) => {
            let expected = scale(server, pods);
            Needs { expected, desired: int_or_percent(limit, expected, Rounding::Up).unwrap_or(expected) }
        }
        None => Needs { expected: count(pods.len()), desired: 1 },
    }
}

/// How many pods the controllers of these pods want in all. Pods of nobody do not count.
fn scale(server: &Server, pods: &[&Value]) -> i64 {
    let mut wanted: BTreeMap<ObjectKey, i64> = BTreeMap::new();
    for pod in pods {
        let Some(mut owner) = field::controller(pod) else { continue };
        let Some(mut object) = server.store().get(&owner) else { continue };
        // A ReplicaSet of a Deployment speaks for the Deployment: while it rolls there are two of them.
        if let Some(upper) = field::controller(object)
            && let Some(upper_object) = server.store().get(&upper)
        {
            (owner, object) = (upper, upper_object);
        }
        if matches!(owner.kind, "Deployment" | "ReplicaSet" | "StatefulSet" | "ReplicationController") {
            wanted.insert(owner, field::integer(object, "/spec/replicas").unwrap_or(1));
        }
    }
    wanted.values().sum()
}

fn labels(pod: &Value) -> Labels {
    let labels = pod["metadata"]["labels"].as_object();
    let pair = |(key, value): (&String, &Value)| Some((Name::from(key.as_str()), Name::from(value.as_str()?)));
    labels.into_iter().flatten().filter_map(pair).collect()
}

fn count(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}
