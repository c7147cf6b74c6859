//! Random histories with quota trees whose quotas, profiles and nodes come, change, move and go: what a quota uses is
//! always what a recount of the objects gives, what children may hold is within what their parent may, roots say what
//! their nodes hold, the figures on the objects are the engine's, and a scheduler that starts anew comes to the same.

use crate::dice;

use std::collections::BTreeMap;
use std::time::Duration;

use quotient_api::{ObjectKey, kinds};
use quotient_engine::quantity::Quantity;
use quotient_sim::cluster::Outcome;
use quotient_sim::report::QuotaReport;
use quotient_sim::{Cluster, Setup};
use serde_json::{Value, json};

use dice::Dice;

const LABELS: &str = "quota.scheduling.koordinator.sh";
const TEAMS: u64 = 4;

impl Dice {
    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.roll(choices.len() as u64) as usize]
    }
}

fn node(dice: &mut Dice) -> Value {
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": format!("n-{}", dice.roll(4)), "labels": {"pool": dice.of(&["a", "b", "c"])}},
        "spec": {"unschedulable": dice.roll(4) == 0},
        "status": {"allocatable": {"cpu": 2 + dice.roll(6), "memory": format!("{}Gi", 4 + dice.roll(8)), "pods": "20"}}})
}

fn profile(dice: &mut Dice) -> Value {
    let pool = dice.of(&["a", "b"]);
    json!({"apiVersion": "quota.koordinator.sh/v1alpha1", "kind": "ElasticQuotaProfile",
        "metadata": {"name": format!("pool-{pool}"), "namespace": "kube-system"},
        "spec": {"quotaName": dice.of(&["root-a", "root-b"]), "resourceRatio": dice.of(&["1", "0.75"]),
            "quotaLabels": {format!("{LABELS}/is-parent"): "true"},
            "nodeSelector": {"matchLabels": {"pool": pool}}}})
}

fn quota(dice: &mut Dice) -> Value {
    let is_parent = dice.roll(3) == 0;
    let name = if is_parent { format!("dept-{}", dice.roll(2)) } else { format!("team-{}", dice.roll(TEAMS)) };
    let parent = dice.of(&["koordinator-root-quota", "root-a", "root-b", "dept-0", "dept-1"]);
    let (cpu, memory) = (dice.roll(4), dice.roll(4));
    let lends = dice.roll(4) > 0;
    let mut annotations = json!({});
    if dice.roll(2) == 0 {
        let weight = format!(r#"{{"cpu":"{}","memory":"{}"}}"#, dice.roll(3), dice.roll(3));
        annotations[format!("{LABELS}/shared-weight")] = json!(weight);
    }
    json!({"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": if is_parent { "kube-system" } else { &name },
            "annotations": annotations,
            "labels": {format!("{LABELS}/parent"): parent, format!("{LABELS}/is-parent"): is_parent.to_string(),
                format!("{LABELS}/allow-lent-resource"): lends.to_string(),
                format!("{LABELS}/allow-force-update"): "true"}},
        "spec": {"min": {"cpu": cpu, "memory": format!("{memory}Gi")},
            "max": {"cpu": cpu + dice.roll(8), "memory": format!("{}Gi", memory + dice.roll(8))}}})
}

fn pod(dice: &mut Dice) -> Value {
    let mut labels = json!({});
    match dice.roll(8) {
        0 => labels[format!("{LABELS}/name")] = json!(format!("team-{}", dice.roll(TEAMS + 1))),
        1 => labels[format!("{LABELS}/preemptible")] = json!("false"),
        _ => {}
    }
    let requests = json!({"cpu": format!("{}m", 500 * (1 + dice.roll(4))), "memory": format!("{}Gi", dice.roll(3))});
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("p-{}", dice.roll(8)), "namespace": format!("team-{}", dice.roll(TEAMS + 1)),
            "labels": labels},
        "spec": {"priority": dice.roll(3), "containers": [
            {"name": "c", "image": "i", "resources": {"requests": requests}}]}})
}

fn all(cluster: &Cluster, group: &'static str, kind: &'static str) -> Vec<(ObjectKey, Value)> {
    cluster.store().of_kind(group, kind, None).map(|(key, object)| (key.clone(), object.as_ref().clone())).collect()
}

fn quotas(cluster: &Cluster) -> Vec<(ObjectKey, Value)> {
    all(cluster, "scheduling.sigs.k8s.io", "ElasticQuota")
}

/// One thing that happens. What is refused is part of the history.
fn step(cluster: &mut Cluster, dice: &mut Dice) {
    let pick = |objects: Vec<(ObjectKey, Value)>, dice: &mut Dice| {
        let count = objects.len() as u64;
        (count > 0).then(|| objects[dice.roll(count) as usize].0.clone())
    };
    match dice.roll(20) {
        0 => cluster.restart(),
        1 => cluster.wait(Duration::from_secs(dice.roll(150))).expect("it settles"),
        2 => {
            let kind = kinds::find("", "Node").expect("known");
            let _ = cluster.delete(&ObjectKey::new(kind, None, &format!("n-{}", dice.roll(4))));
        }
        3 => drop(pick(quotas(cluster), dice).map(|key| cluster.delete(&key))),
        4 => {
            let profiles = all(cluster, "quota.koordinator.sh", "ElasticQuotaProfile");
            drop(pick(profiles, dice).map(|key| cluster.delete(&key)));
        }
        5 => {
            let outcome = if dice.roll(2) == 0 { Outcome::Succeeded } else { Outcome::Failed };
            drop(pick(all(cluster, "", "Pod"), dice).map(|key| cluster.end(&key, outcome)));
        }
        6 => drop(pick(all(cluster, "", "Pod"), dice).map(|key| cluster.delete(&key))),
        7 | 8 => drop(cluster.apply(profile(dice))),
        9..=12 => drop(cluster.apply(quota(dice))),
        13 | 14 => drop(cluster.apply(node(dice))),
        _ => drop(cluster.apply(pod(dice))),
    }
    cluster.settle().expect("it settles");
}

fn amount(resource: &str, text: &str) -> i128 {
    text.parse::<Quantity>().expect("a quantity").amount(resource).expect("it fits").into()
}

fn label<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["labels"][format!("{LABELS}/{name}")].as_str()
}

fn of(report: &QuotaReport, field: &str, resource: &str) -> i128 {
    let amounts = report.amounts(field).expect("an amount field");
    amounts.get(resource).map_or(0, |text| amount(resource, text))
}

/// Compares everything with a recount. Says how many numbers were compared.
fn check(cluster: &Cluster, at: &str) -> usize {
    let objects = quotas(cluster);
    let reports: BTreeMap<String, QuotaReport> =
        cluster.quotas().into_iter().map(|report| (report.object.clone(), report)).collect();
    assert_eq!(reports.len(), objects.len(), "{at}: every quota that was let in counts");
    let by_name: BTreeMap<&str, (&ObjectKey, &Value)> =
        objects.iter().map(|(key, quota)| (&*key.name, (key, quota))).collect();
    assert_eq!(by_name.len(), objects.len(), "{at}: names are unique");
    let parent = |name: &str| by_name.get(name).and_then(|(_, quota)| label(quota, "parent"));
    let mut used: BTreeMap<(&str, &str), i128> = BTreeMap::new();
    let mut compared = 0;
    let pods = all(cluster, "", "Pod");
    for (key, pod) in &pods {
        let phase = pod["status"]["phase"].as_str();
        if !pod["spec"]["nodeName"].is_string() || matches!(phase, Some("Succeeded" | "Failed")) {
            continue;
        }
        let namespace = key.namespace.as_deref().expect("pods have one");
        let quota = label(pod, "name").unwrap_or(namespace);
        for resource in ["cpu", "memory"] {
            let held = pod["spec"]["containers"][0]["resources"]["requests"][resource].as_str().expect("a text");
            let above = std::iter::successors(by_name.contains_key(quota).then_some(quota), |name| parent(name));
            for name in above.filter(|name| by_name.contains_key(name)) {
                *used.entry((name, resource)).or_default() += amount(resource, held);
            }
        }
    }
    for (key, quota) in &objects {
        let report = &reports[&key.to_string()];
        for resource in ["cpu", "memory"] {
            let expected = used.get(&(&*key.name, resource)).copied().unwrap_or(0);
            assert_eq!(of(report, "used", resource), expected, "{at}: {key} {resource} used");
            let runtime = of(report, "runtime", resource);
            assert!(runtime <= of(report, "max", resource), "{at}: {key} {resource} runtime beyond max");
            let children = by_name.values().filter(|(_, child)| label(child, "parent") == Some(&*key.name));
            let below: i128 = children.map(|(child, _)| of(&reports[&child.to_string()], "runtime", resource)).sum();
            assert!(below <= runtime, "{at}: {key} {resource}: {below} below it, and its runtime is {runtime}");
            let written = quota["status"]["runtime"][resource].as_str().map(|text| amount(resource, text));
            assert_eq!(written, Some(runtime), "{at}: {key} {resource} status.runtime");
            compared += 4;
        }
    }
    compared + check_roots(cluster, &by_name, at)
}

/// The root of each profile has what its nodes hold, unless two profiles ask for the same root.
fn check_roots(cluster: &Cluster, by_name: &BTreeMap<&str, (&ObjectKey, &Value)>, at: &str) -> usize {
    let mut compared = 0;
    let profiles = all(cluster, "quota.koordinator.sh", "ElasticQuotaProfile");
    let is_alone = |profile: &Value| {
        let same = |other: &&(ObjectKey, Value)| other.1["spec"]["quotaName"] == profile["spec"]["quotaName"];
        profiles.iter().filter(same).count() == 1
    };
    for (key, profile) in profiles.iter().filter(|(_, profile)| is_alone(profile)) {
        let root = by_name.get(profile["spec"]["quotaName"].as_str().expect("a text"));
        let Some((_, root)) = root.filter(|(_, root)| label(root, "profile") == Some(&key.name)) else { continue };
        let pool = &profile["spec"]["nodeSelector"]["matchLabels"]["pool"];
        let nodes = all(cluster, "", "Node");
        let nodes = nodes.iter().filter(|(_, node)| node["metadata"]["labels"]["pool"] == *pool);
        let cpu: u64 = nodes.map(|(_, node)| node["status"]["allocatable"]["cpu"].as_u64().expect("a number")).sum();
        let thousandths = if profile["spec"]["resourceRatio"] == "1" { cpu * 1000 } else { cpu * 750 };
        let min = root["spec"]["min"]["cpu"].as_str().expect("a text");
        assert_eq!(amount("cpu", min), i128::from(thousandths), "{at}: {key}");
        compared += 1;
    }
    compared
}

#[test]
fn random_histories_of_quota_trees() {
    let mut compared = 0;
    for seed in 1..=30u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut cluster = Cluster::new(Setup::default());
        for number in 0..70 {
            step(&mut cluster, &mut dice);
            compared += check(&cluster, &format!("seed {seed}, step {number}"));
        }
        let runtimes = |cluster: &Cluster| -> Vec<_> {
            cluster.quotas().into_iter().map(|report| (report.object, report.used, report.runtime)).collect()
        };
        let before = runtimes(&cluster);
        cluster.restart();
        cluster.settle().expect("it settles");
        assert_eq!(runtimes(&cluster), before, "seed {seed}: a scheduler that starts anew comes to the same");
    }
    assert!(compared > 10_000, "only {compared} numbers were compared");
}
