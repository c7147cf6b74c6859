//! Random histories with elastic quotas that come, change, move and go: what a quota uses is always what a recount of
//! the objects gives, its status and the labels of its pods say the same, and nothing is bound past a ceiling.

use crate::dice;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quotient_api::{ObjectKey, kinds, time};
use quotient_engine::quantity::Quantity;
use quotient_sim::cluster::{Happened, Outcome};
use quotient_sim::{Cluster, Setup};
use serde_json::{Value, json};

use dice::Dice;

const GROUPS: [&str; 3] = ["scheduling.x-k8s.io", "nos.nebuly.com", "n8s.nebuly.ai"];
const NAMESPACES: u64 = 4;

impl Dice {
    fn namespace(&mut self) -> String {
        format!("ns-{}", self.roll(NAMESPACES))
    }
}

fn node(dice: &mut Dice) -> Value {
    let allocatable =
        json!({"cpu": "16", "nvidia.com/gpu": 2 + dice.roll(3), "nvidia.com/gpu-10gb": dice.roll(4), "pods": "8"});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n-{}", dice.roll(4))},
        "status": {"allocatable": allocatable}})
}

fn pod(dice: &mut Dice) -> Value {
    let mut limits = json!({"cpu": format!("{}m", 500 * (1 + dice.roll(4)))});
    match dice.roll(4) {
        0 => limits["nvidia.com/gpu-10gb"] = json!(1),
        1 => {}
        _ => limits["nvidia.com/gpu"] = json!(1 + dice.roll(3)),
    }
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("p-{}", dice.roll(10)), "namespace": dice.namespace()},
        "spec": {"priority": dice.roll(3), "containers": [{"name": "c", "image": "i", "resources": {"limits": limits}}]}})
}

fn quota(dice: &mut Dice) -> Value {
    let group = GROUPS[dice.roll(3) as usize];
    let memory = if group == "n8s.nebuly.ai" { "n8s.nebuly.ai/gpu-memory" } else { "nos.nebuly.com/gpu-memory" };
    let mut min = json!({});
    let mut max = json!({});
    for resource in ["nvidia.com/gpu", "cpu", memory] {
        let least = if resource == memory { dice.roll(6) * 16 } else { dice.roll(5) };
        if dice.roll(3) > 0 {
            min[resource] = json!(least);
        }
        if dice.roll(3) == 0 {
            max[resource] = json!(least + dice.roll(4) * if resource == memory { 16 } else { 1 });
        }
    }
    let spec = json!({"min": min, "max": max});
    if group == GROUPS[0] || dice.roll(2) == 0 {
        return json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "ElasticQuota",
            "metadata": {"name": format!("q-{}", dice.roll(2)), "namespace": dice.namespace()}, "spec": spec});
    }
    let mut composite = json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "CompositeElasticQuota",
        "metadata": {"name": format!("c-{}", dice.roll(2)), "namespace": "default"}, "spec": spec});
    let namespaces: BTreeSet<String> = (0..1 + dice.roll(3)).map(|_| dice.namespace()).collect();
    composite["spec"]["namespaces"] = json!(namespaces);
    composite
}

fn quotas_of(cluster: &Cluster) -> Vec<(ObjectKey, Value)> {
    let is_quota = |key: &ObjectKey| GROUPS.contains(&key.group);
    let all = cluster.store().iter().filter(|(key, _)| is_quota(key));
    all.map(|(key, object)| (key.clone(), object.as_ref().clone())).collect()
}

/// One thing that happens.
fn step(cluster: &mut Cluster, dice: &mut Dice) {
    match dice.roll(16) {
        0 => cluster.set_eviction_takes(Duration::from_secs(dice.roll(3) * 20)),
        1 => cluster.restart(),
        2 => cluster.wait(Duration::from_secs(dice.roll(60))).expect("it settles"),
        3 => {
            let kind = kinds::find("", "Node").expect("known");
            // A node that is not there is nothing to delete.
            let _ = cluster.delete(&ObjectKey::new(kind, None, &format!("n-{}", dice.roll(4))));
        }
        4 => {
            let quotas = quotas_of(cluster);
            if let Some((key, _)) = quotas.get(dice.roll(4) as usize) {
                cluster.delete(key).expect("it exists");
            }
        }
        5 => {
            let pods: Vec<ObjectKey> = cluster.store().pods().map(|(key, _)| key.clone()).collect();
            if let Some(pod) = pods.get(dice.roll(12) as usize) {
                cluster
                    .end(pod, if dice.roll(2) == 0 { Outcome::Succeeded } else { Outcome::Failed })
                    .expect("it exists");
            }
        }
        // What is refused is part of the history.
        6..=8 => drop(cluster.apply(quota(dice))),
        9 => drop(cluster.apply(node(dice))),
        _ => drop(cluster.apply(pod(dice))),
    }
    // The scheduler may go down right then, and hear of it only when it starts anew.
    if dice.roll(10) == 0 {
        cluster.restart();
    }
    cluster.settle().expect("it settles");
}

fn amount(resource: &str, value: &Value) -> i128 {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
    text.parse::<Quantity>().expect("a quantity").amount(resource).expect("it fits").into()
}

/// What a pod holds by its object alone, GPU memory included.
fn charge(pod: &Value) -> BTreeMap<String, i128> {
    let limits = pod["spec"]["containers"][0]["resources"]["limits"].as_object().expect("limits");
    let mut charge: BTreeMap<String, i128> =
        limits.iter().map(|(resource, value)| (resource.clone(), amount(resource, value))).collect();
    let of = |resource: &str| charge.get(resource).copied().unwrap_or(0);
    let memory = of("nvidia.com/gpu") * 16 + of("nvidia.com/gpu-10gb") * 10;
    charge.insert("nos.nebuly.com/gpu-memory".into(), memory);
    charge.insert("n8s.nebuly.ai/gpu-memory".into(), memory);
    charge
}

/// The pods on nodes, oldest first.
fn placed(cluster: &Cluster) -> Vec<&Value> {
    let is_over = |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let mut pods: Vec<&Value> = cluster.store().pods().map(|(_, pod)| pod.as_ref()).collect();
    pods.retain(|pod| pod["spec"]["nodeName"].is_string() && !is_over(pod));
    pods.sort_by_key(|pod| {
        time::parse_timestamp(pod["metadata"]["creationTimestamp"].as_str().expect("a text")).expect("a time")
    });
    pods
}

fn governs(key: &ObjectKey, quota: &Value, namespace: &str) -> bool {
    match key.kind {
        "CompositeElasticQuota" => {
            quota["spec"]["namespaces"].as_array().expect("a list").iter().any(|n| n == namespace)
        }
        _ => key.namespace.as_deref() == Some(namespace),
    }
}

/// The pods on nodes that a quota governs, oldest first.
fn pods_of<'a>(pods: &[&'a Value], key: &ObjectKey, quota: &Value) -> Vec<&'a Value> {
    let is_own = |pod: &&&Value| governs(key, quota, text(pod, "namespace"));
    pods.iter().filter(is_own).copied().collect()
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().expect("a text")
}

fn sum(pods: &[&Value]) -> BTreeMap<String, i128> {
    let mut used = BTreeMap::new();
    for (resource, held) in pods.iter().flat_map(|pod| charge(pod)) {
        *used.entry(resource).or_default() += held;
    }
    used
}

fn limits(quota: &Value, part: &str) -> BTreeMap<String, i128> {
    let named = quota["spec"][part].as_object().expect("a map");
    named.iter().map(|(resource, value)| (resource.clone(), amount(resource, value))).collect()
}

/// What the quotas of a group guarantee in all, by resource that one of them names.
fn guaranteed(quotas: &[(ObjectKey, Value)], group: &str) -> BTreeMap<String, i128> {
    let mut all = BTreeMap::new();
    for (_, quota) in quotas.iter().filter(|(key, _)| key.group == group) {
        for (resource, min) in limits(quota, "min") {
            *all.entry(resource).or_default() += min;
        }
    }
    all
}

/// Recounts from the objects what quotas use. Says how many numbers were compared.
fn check_amounts(cluster: &Cluster, happened: &Happened, at: &str) -> usize {
    let quotas = quotas_of(cluster);
    let mut reports = BTreeMap::new();
    for report in cluster.quotas() {
        let keys = ObjectKey::parse(&report.object).expect("an object");
        let key = keys.into_iter().find(|key| cluster.store().contains(key) && GROUPS.contains(&key.group));
        reports.insert(key.expect("it exists").qualified(), report);
    }
    assert_eq!(reports.len(), quotas.len(), "{at}: every quota that was let in counts");
    let pods = placed(cluster);
    let came: Vec<&Value> = pods
        .iter()
        .filter(|pod| {
            happened.bound.iter().any(|b| b.namespace == text(pod, "namespace") && b.name == text(pod, "name"))
        })
        .copied()
        .collect();
    let mut compared = 0;
    for (key, quota) in &quotas {
        let name = key.qualified();
        let (used, new) = (sum(&pods_of(&pods, key, quota)), sum(&pods_of(&came, key, quota)));
        let of = |amounts: &BTreeMap<String, i128>, resource: &str| amounts.get(resource).copied().unwrap_or(0);
        let (min, max) = (limits(quota, "min"), limits(quota, "max"));
        for resource in min.keys().chain(max.keys()) {
            let recount = of(&used, resource);
            let reported = reports[&name].used.get(resource).map_or(0, |text| amount(resource, &json!(text)));
            let status = amount(resource, &quota["status"]["used"][resource]);
            assert_eq!((reported, status), (recount, recount), "{at}: {name} used {resource}");
            compared += 1;
        }
        for (resource, limit) in &max {
            let is_fine = of(&new, resource) == 0 || of(&used, resource) <= *limit;
            assert!(is_fine, "{at}: {name} was brought past its max of {resource}");
        }
        for (resource, limit) in guaranteed(&quotas, key.group) {
            let pool = quotas.iter().filter(|(other, _)| other.group == key.group);
            let held: i128 = pool.map(|(key, quota)| of(&sum(&pods_of(&pods, key, quota)), &resource)).sum();
            let is_fine = of(&new, &resource) == 0 || held <= limit;
            assert!(is_fine, "{at}: {name} brought its pool to {held} of {limit} {resource}");
        }
    }
    compared
}

/// Works out from the objects which pods are within their quotas. Says how many labels were compared.
fn check_labels(cluster: &Cluster, at: &str) -> usize {
    let quotas = quotas_of(cluster);
    let pods = placed(cluster);
    let mut expected: BTreeMap<(&str, &str, &str), &str> = BTreeMap::new();
    for (key, quota) in quotas.iter().filter(|(key, _)| key.group != GROUPS[0]) {
        let own = pods_of(&pods, key, quota);
        let min = limits(quota, "min");
        let governed = guaranteed(&quotas, key.group);
        let is_over = |used: &BTreeMap<String, i128>| {
            let of = |amounts: &BTreeMap<String, i128>, resource: &str| amounts.get(resource).copied().unwrap_or(0);
            governed.keys().any(|resource| of(used, resource) > of(&min, resource))
        };
        for (i, pod) in own.iter().enumerate() {
            let label = if is_over(&sum(&own[..=i])) { "over-quota" } else { "in-quota" };
            expected.insert((text(pod, "namespace"), text(pod, "name"), key.group), label);
        }
    }
    for pod in &pods {
        for group in GROUPS {
            let (namespace, name) = (text(pod, "namespace"), text(pod, "name"));
            let found = pod["metadata"]["labels"][format!("{group}/capacity")].as_str();
            let expected = expected.get(&(namespace, name, group)).copied();
            assert_eq!(found, expected, "{at}: the label of {namespace}/{name} in {group}");
        }
    }
    pods.len() * GROUPS.len()
}

/// Runs many histories and looks at the cluster after each step.
fn histories(mut look: impl FnMut(&Cluster, &Happened, &str)) {
    for seed in 1..=80u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut cluster = Cluster::new(Setup::default());
        for round in 0..60 {
            step(&mut cluster, &mut dice);
            let happened = cluster.take_happened();
            look(&cluster, &happened, &format!("seed {seed}, round {round}"));
        }
    }
}

#[test]
fn quotas_use_what_a_recount_gives() {
    let (mut compared, mut evictions) = (0, 0);
    histories(|cluster, happened, at| {
        evictions += happened.evicted.iter().filter(|evicted| evicted.rule.starts_with("elastic.")).count();
        compared += check_amounts(cluster, happened, at);
    });
    assert!(compared > 10_000, "only {compared} numbers were compared");
    assert!(evictions > 20, "only {evictions} were evicted for what quotas are owed");
}

#[test]
fn labels_are_what_a_recount_gives() {
    let mut compared = 0;
    histories(|cluster, _, at| compared += check_labels(cluster, at));
    assert!(compared > 10_000, "only {compared} labels were compared");
}
