//! Evictions end although every pod comes back: random clusters in which controllers make each evicted pod anew.
//!
//! *The bound.* Pods of the same quotas, priority and requests are a class. As long as nothing changes from outside,
//! who takes from whom is a graph of classes without a cycle. Written in an order in which each class takes from later
//! ones only, the numbers of running pods grow lexicographically with every claim, so a step has fewer claims than the
//! product of n + 1 over all classes, with n pods in the class, and each claim evicts at most all pods
//! ([`StepCount::proven`]). That is far more than ever happens: room moves from class to class along the order, so each
//! pod is evicted about once for each class at most, and a step that passes pods × classes ([`StepCount::expected`]) is
//! held to be a loop.

use std::collections::BTreeMap;
use std::path::Path;

use quotient_sim::scenario::{Step, parse};
use quotient_sim::{Cluster, Scenario, Setup};
use serde_json::{Map, Value, json};

use crate::case::{Case, case};
use crate::world::{GPU, text};

const GROUP: &str = "scheduling.k8s.io/group-name";
const QUEUE: &str = "scheduling.volcano.sh/queue-name";

/// What came of a step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepCount {
    pub evictions: usize,
    pub pods: usize,
    /// How many pods each class has.
    pub classes: Vec<usize>,
}

impl StepCount {
    /// More evictions than the graph of classes allows.
    pub fn proven(&self) -> u128 {
        let claims = self.classes.iter().fold(1_u128, |all, class| all.saturating_mul(*class as u128 + 1));
        claims.saturating_mul(self.pods as u128)
    }

    /// More evictions than there ever are.
    pub fn expected(&self) -> u128 {
        self.pods as u128 * self.classes.len() as u128
    }

    pub fn is_too_many(&self) -> bool {
        self.evictions as u128 > self.proven().min(self.expected())
    }
}

/// The case of a seed with a controller for every pod: ReplicaSets, Jobs, and Volcano Jobs for gangs.
pub fn returning(seed: u64) -> Case {
    let Case { policy, mut scenario } = case(seed);
    let steps = scenario["spec"]["steps"].as_array_mut();
    for step in steps.into_iter().flatten().filter_map(Value::as_object_mut) {
        step.remove("finish");
        let pods = step.remove("pods").and_then(|pods| pods.as_array().cloned()).unwrap_or_default();
        let mut apply = step.remove("apply").and_then(|apply| apply.as_array().cloned()).unwrap_or_default();
        let (placed, pending): (Vec<Value>, Vec<Value>) = pods.into_iter().partition(|pod| pod.get("node").is_some());
        for (place, pod) in pending.iter().enumerate() {
            let owner = owner(pod, &mut apply, place);
            apply.push(owner);
        }
        step.insert("apply".to_string(), json!(apply));
        step.insert("pods".to_string(), json!(placed));
    }
    Case { policy, scenario }
}

/// The controller of a pod that is written in short.
fn owner(pod: &Value, apply: &mut Vec<Value>, place: usize) -> Value {
    let metadata = json!({"namespace": pod["namespace"], "name": pod["name"]});
    let count = pod.get("count").cloned().unwrap_or(json!(1));
    let mut annotations = pod["annotations"].as_object().cloned().unwrap_or_default();
    let mut labels = pod["labels"].as_object().cloned().unwrap_or_default();
    labels.insert("app".to_string(), pod["name"].clone());
    let mut resources = json!({"requests": pod["requests"]});
    if let Some(gpus) = pod["requests"].get(GPU) {
        resources["limits"] = json!({GPU: gpus});
    }
    let mut spec: Map<String, Value> = pod["spec"].as_object().cloned().unwrap_or_default();
    spec.insert("containers".to_string(), json!([{"name": "c", "image": "i", "resources": resources}]));
    spec.insert("priority".to_string(), pod.get("priority").cloned().unwrap_or(json!(0)));
    let group = annotations.remove(GROUP);
    let template =
        |spec: &Map<String, Value>| json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": spec});
    if group.is_some() {
        let is_group = |object: &Value| text(object, "/kind") == "PodGroup" && object["metadata"] == metadata;
        let at = apply.iter().position(is_group).expect("a gang has a group");
        let group = apply.remove(at);
        let mut job = json!({"minAvailable": group["spec"]["minMember"],
            "tasks": [{"name": "t", "replicas": count, "template": template(&spec)}]});
        if let Some(queue) = group["spec"].get("queue") {
            job["queue"] = queue.clone();
        }
        return json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": job});
    }
    if place.is_multiple_of(2) {
        let selector = json!({"matchLabels": {"app": pod["name"]}});
        return json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata,
            "spec": {"replicas": count, "selector": selector, "template": template(&spec)}});
    }
    spec.insert("restartPolicy".to_string(), json!("Never"));
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
        "spec": {"parallelism": count, "completions": 100, "template": template(&spec)}})
}

/// Runs a case and counts; the error says where it does not come to an end, or `None` that it was not admitted.
pub fn settle(scenario: &Value) -> Result<Vec<StepCount>, Option<String>> {
    let scenarios = parse("case", &scenario.to_string(), Path::new("")).map_err(|_| None)?;
    let [Scenario { steps, configuration, .. }] = &scenarios[..] else { return Err(None) };
    let setup = Setup { configuration: configuration.clone(), scheduler_names: None };
    let mut cluster = Cluster::new(setup);
    let mut counts = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        // Bare pods that are evicted are gone when the step ends, and pods of controllers are made in its course: of
        // each class there are as many as at the beginning or at the end, whichever is more.
        let mut classes = count_classes(cluster.objects().iter().map(|object| &**object).chain(&step.apply));
        let settled = take(&mut cluster, step);
        let happened = cluster.take_happened();
        if !happened.rejected.is_empty() {
            return Err(None);
        }
        settled.map_err(|stuck| Some(format!("step {}: {stuck}", index + 1)))?;
        for (class, count) in count_classes(cluster.objects().iter().map(|object| &**object)) {
            let most = classes.entry(class).or_default();
            *most = count.max(*most);
        }
        let (pods, classes) = (classes.values().sum(), classes.into_values().collect());
        let count = StepCount { evictions: happened.evicted.len(), pods, classes };
        if count.is_too_many() {
            return Err(Some(format!("step {}: {count:?}", index + 1)));
        }
        counts.push(count);
    }
    Ok(counts)
}

/// How many pods of each class there are among objects.
fn count_classes<'a>(objects: impl Iterator<Item = &'a Value>) -> BTreeMap<String, usize> {
    let mut classes: BTreeMap<String, usize> = BTreeMap::new();
    for pod in objects.filter(|object| text(object, "/kind") == "Pod") {
        *classes.entry(class(pod)).or_default() += 1;
    }
    classes
}

/// What makes pods alike in who may evict whom.
fn class(pod: &Value) -> String {
    let (namespace, group) = (text(pod, "/metadata/namespace"), &pod["metadata"]["annotations"][GROUP]);
    let (queue, containers) = (&pod["metadata"]["annotations"][QUEUE], &pod["spec"]["containers"]);
    format!("{namespace} {group} {queue} {} {}", pod["spec"]["priority"], containers[0]["resources"]["requests"])
}

fn take(cluster: &mut Cluster, step: &Step) -> Result<(), quotient_sim::Stuck> {
    if let Some(takes) = step.eviction_takes {
        cluster.set_eviction_takes(takes);
    }
    for object in &step.apply {
        // What is rejected is among what happened.
        let _ = cluster.apply(object.clone());
    }
    if step.restart {
        cluster.restart();
    }
    match step.wait {
        Some(duration) => cluster.wait(duration),
        None => cluster.settle(),
    }
}

/// What many cases came to, by policy.
#[derive(Debug, Clone, Default)]
pub struct Settled {
    pub cases: usize,
    pub evictions: usize,
    /// The most in one step, and the pods and classes there.
    pub most: (usize, usize, usize),
}

/// Runs the cases of these seeds; tells of each that does not end within its bound.
pub fn settle_all(
    seeds: impl Iterator<Item = u64>,
    found: &mut dyn FnMut(u64, &Value, &str),
) -> BTreeMap<&'static str, Settled> {
    let mut all: BTreeMap<&'static str, Settled> = BTreeMap::new();
    for seed in seeds {
        let Case { policy, scenario } = returning(seed);
        // A fault of the program is told with its case.
        let settled = std::panic::catch_unwind(|| settle(&scenario));
        match settled.unwrap_or_else(|_| Err(Some("the program panics".to_string()))) {
            Ok(steps) => {
                let of_policy = all.entry(policy).or_default();
                of_policy.cases += 1;
                for StepCount { evictions, pods, classes } in steps {
                    of_policy.evictions += evictions;
                    of_policy.most = of_policy.most.max((evictions, pods, classes.len()));
                }
            }
            Err(Some(why)) => found(seed, &scenario, &why),
            Err(None) => {}
        }
    }
    all
}
