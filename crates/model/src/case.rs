//! Random small clusters: up to five nodes and a dozen pods, and what happens to them.

use quotient_sim::random::Random;
use serde_json::{Map, Value, json};

use crate::world::GPU;

/// Which quotas a case has.
pub const POLICIES: &[&str] = &[
    "none",
    "elastic",
    "fair",
    "tree",
    "queue",
    "hierarchy",
    "cards",
    "elastic+queue",
    "fair+queue",
    "tree+queue",
    "elastic+fair",
];

const NAMESPACES: &[&str] = &["ns-a", "ns-b", "ns-c"];
const QUEUES: &[&str] = &["q-a", "q-b", "q-c"];
const CARDS: &[&str] = &["A100", "V100"];
const PODS_MAX: usize = 12;

/// A case: the policy's name and the scenario.
pub struct Case {
    pub policy: &'static str,
    pub scenario: Value,
}

struct Maker {
    random: Random,
    policy: &'static str,
    resources: Vec<&'static str>,
    /// How many namespaces and queues there are.
    tenants: usize,
    nodes: usize,
    pods: usize,
    made: Vec<String>,
    owners: bool,
    budgets: bool,
}

/// The case of a seed.
pub fn case(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let policy = *random.of(POLICIES);
    let resources = match random.within(0, 9) {
        _ if policy == "cards" => vec!["cpu", GPU],
        0..=4 => vec!["cpu"],
        5..=7 => vec!["cpu", "memory"],
        _ => vec!["cpu", GPU],
    };
    let tenants = random.within(2, 3) as usize;
    let nodes = if random.chance(15) { random.within(3, 5) } else { random.within(1, 2) } as usize;
    let (owners, budgets) = (random.chance(25), random.chance(25));
    let mut maker = Maker { random, policy, resources, tenants, nodes, pods: 0, made: Vec::new(), owners, budgets };
    let mut steps = vec![maker.first_step()];
    for _ in 0..maker.random.within(1, 4) {
        let step = maker.step();
        steps.push(step);
    }
    let name = format!("{policy}-{seed}").replace('+', "-");
    let scenario = json!({
        "apiVersion": "quotient.dev/v1alpha1", "kind": "Scenario", "metadata": {"name": name},
        "spec": {"source": "random clusters", "steps": steps},
    });
    Case { policy, scenario }
}

impl Maker {
    fn has(&self, part: &str) -> bool {
        self.policy.split('+').any(|other| other == part)
    }

    fn queues(&self) -> bool {
        self.has("queue") || self.has("hierarchy") || self.has("cards")
    }

    fn amount(&mut self, resource: &str, low: u64, high: u64) -> Value {
        let number = self.random.within(low, high);
        match resource {
            "memory" => json!(format!("{number}Gi")),
            _ => json!(number.to_string()),
        }
    }

    fn amounts(&mut self, low: u64, high: u64) -> Value {
        let mut map = Map::new();
        for resource in self.resources.clone() {
            map.insert(resource.to_string(), self.amount(resource, low, high));
        }
        Value::Object(map)
    }

    fn first_step(&mut self) -> Value {
        let nodes: Vec<Value> = (0..self.nodes).map(|index| self.node(index)).collect();
        let mut apply = self.quotas();
        if self.budgets {
            let namespace = *self.random.of(NAMESPACES);
            apply.push(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"namespace": namespace, "name": "budget"},
                "spec": {"minAvailable": self.random.within(1, 2), "selector": {"matchLabels": {"x": "b"}}}}));
        }
        let mut step = Map::new();
        step.insert("name".to_string(), json!("1"));
        if self.random.chance(35) {
            step.insert("evictionTakes".to_string(), json!("30s"));
        }
        step.insert("nodes".to_string(), json!(nodes));
        let placed = self.random.chance(30);
        let mut pods = Vec::new();
        for _ in 0..self.random.within(2, 6) {
            self.add(&mut apply, &mut pods, placed);
        }
        step.insert("apply".to_string(), json!(apply));
        step.insert("pods".to_string(), json!(pods));
        Value::Object(step)
    }

    fn step(&mut self) -> Value {
        let mut step = Map::new();
        step.insert("name".to_string(), json!(format!("pods {}", self.pods)));
        let mut apply = Vec::new();
        let mut pods = Vec::new();
        match self.random.within(0, 99) {
            0..=9 if !self.made.is_empty() => {
                let pod = self.random.of(&self.made.clone()).clone();
                step.insert("finish".to_string(), json!([pod]));
            }
            10..=19 => {
                let wait = *self.random.of(&["10s", "40s", "3m"]);
                step.insert("wait".to_string(), json!(wait));
            }
            20..=25 => apply.extend(self.quotas().into_iter().take(1)),
            _ => {
                for _ in 0..self.random.within(1, 2) {
                    self.add(&mut apply, &mut pods, false);
                }
            }
        }
        if self.random.chance(10) {
            step.insert("restart".to_string(), json!(true));
        }
        if !apply.is_empty() {
            step.insert("apply".to_string(), json!(apply));
        }
        if !pods.is_empty() {
            step.insert("pods".to_string(), json!(pods));
        }
        Value::Object(step)
    }

    fn node(&mut self, index: usize) -> Value {
        let mut allocatable = Map::new();
        allocatable.insert("cpu".to_string(), self.amount("cpu", 2, 8));
        let memory = if self.resources.contains(&"memory") { self.amount("memory", 2, 8) } else { json!("64Gi") };
        allocatable.insert("memory".to_string(), memory);
        if self.resources.contains(&GPU) {
            allocatable.insert(GPU.to_string(), self.amount(GPU, 1, 4));
        }
        allocatable.insert("pods".to_string(), json!("110"));
        let mut labels = Map::new();
        labels.insert("zone".to_string(), json!(format!("z{}", index % 2)));
        if self.has("cards") {
            labels.insert("nvidia.com/gpu.product".to_string(), json!(self.random.of(CARDS)));
        }
        json!({"name": format!("node-{index}"), "allocatable": allocatable, "labels": labels})
    }

    fn quotas(&mut self) -> Vec<Value> {
        let mut quotas = Vec::new();
        for (part, api) in [("elastic", "scheduling.x-k8s.io/v1alpha1"), ("fair", "nos.nebuly.com/v1alpha1")] {
            if !self.has(part) {
                continue;
            }
            for namespace in NAMESPACES.iter().take(self.tenants) {
                quotas.push(self.elastic_quota(api, namespace));
            }
        }
        if self.has("tree") {
            quotas.extend(self.tree());
        }
        if self.queues() {
            quotas.extend(self.all_queues());
        }
        quotas
    }

    fn elastic_quota(&mut self, api: &str, namespace: &str) -> Value {
        let resource = self.resources[0];
        let min =
            if self.random.chance(85) { self.amounts(0, 4) } else { json!({resource: self.amount(resource, 0, 4)}) };
        let mut spec = json!({"min": min});
        if self.random.chance(30) {
            spec["max"] = self.amounts(4, 6);
        }
        let metadata = json!({"namespace": namespace, "name": "eq"});
        json!({"apiVersion": api, "kind": "ElasticQuota", "metadata": metadata, "spec": spec})
    }

    fn tree(&mut self) -> Vec<Value> {
        let deep = self.random.chance(35);
        let mut quotas = Vec::new();
        let prefix = "quota.scheduling.koordinator.sh";
        if deep {
            let (min, max) = (self.amounts(4, 6), self.amounts(6, 9));
            quotas.push(json!({"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
                "metadata": {"namespace": "ns-t", "name": "dept", "labels": {(format!("{prefix}/is-parent")): "true"}},
                "spec": {"min": min, "max": max}}));
        }
        for (index, namespace) in NAMESPACES.iter().take(self.tenants).enumerate() {
            let mut labels = Map::new();
            if deep && index < 2 {
                labels.insert(format!("{prefix}/parent"), json!("dept"));
            }
            if self.random.chance(12) {
                labels.insert(format!("{prefix}/allow-lent-resource"), json!("false"));
            }
            let (min, max) = (self.amounts(0, if deep { 2 } else { 4 }), self.amounts(4, 8));
            quotas.push(json!({"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
                "metadata": {"namespace": namespace, "name": namespace, "labels": labels},
                "spec": {"min": min, "max": max}}));
        }
        quotas
    }

    fn all_queues(&mut self) -> Vec<Value> {
        let deep = self.has("hierarchy");
        let mut queues = Vec::new();
        if deep {
            let mut spec = json!({"deserved": self.amounts(3, 6)});
            if self.random.chance(40) {
                spec["guarantee"] = json!({"resource": self.amounts(2, 3)});
            }
            if self.random.chance(30) {
                spec["capability"] = self.amounts(6, 8);
            }
            queues.push(
                json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q-top"},
                "spec": spec}),
            );
        }
        for (index, name) in QUEUES.iter().take(self.tenants).enumerate() {
            let mut spec = Map::new();
            if deep && index < 2 {
                spec.insert("parent".to_string(), json!("q-top"));
            }
            let high = if deep { 1 } else { 3 };
            if self.random.chance(10) {
                let guarantee = self.amounts(0, if deep { 1 } else { 2 });
                spec.insert("guarantee".to_string(), json!({"resource": guarantee}));
            } else if self.random.chance(80) {
                let mut deserved = self.amounts(u64::from(deep), high);
                if self.has("cards") && self.random.chance(50) {
                    for card in CARDS {
                        deserved[*card] = self.amount(GPU, 0, 2);
                    }
                }
                spec.insert("deserved".to_string(), deserved);
                if self.random.chance(25) {
                    let guarantee = self.amounts(0, 1);
                    spec.insert("guarantee".to_string(), json!({"resource": guarantee}));
                }
            }
            let is_plain = spec.len() <= usize::from(deep) && self.random.chance(40);
            if !is_plain && spec.len() <= usize::from(deep) || self.random.chance(if is_plain { 0 } else { 25 }) {
                spec.insert("capability".to_string(), self.amounts(3, 7));
            }
            if self.random.chance(6) {
                spec.insert("reclaimable".to_string(), json!(false));
            }
            let mut metadata = json!({"name": name});
            if self.has("cards") && self.random.chance(60) {
                let quota =
                    format!("{{\"A100\": {}, \"V100\": {}}}", self.random.within(0, 3), self.random.within(0, 3));
                metadata["annotations"] = json!({"volcano.sh/card.quota": quota});
            }
            let api = "scheduling.volcano.sh/v1beta1";
            queues.push(json!({"apiVersion": api, "kind": "Queue", "metadata": metadata, "spec": spec}));
        }
        queues
    }

    /// One more pod, gang or ReplicaSet.
    fn add(&mut self, apply: &mut Vec<Value>, pods: &mut Vec<Value>, placed: bool) {
        if self.pods >= PODS_MAX {
            return;
        }
        let outside = self.random.chance(8);
        let namespace =
            if outside { "ns-f" } else { NAMESPACES[self.random.within(0, self.tenants as u64 - 1) as usize] };
        let name = format!("p{}", self.pods);
        let mut annotations = Map::new();
        let queue = *self.random.of(&QUEUES[..self.tenants]);
        let queued = self.queues() && !outside && self.random.chance(92);
        let mut requests = Map::new();
        for (place, resource) in self.resources.clone().into_iter().enumerate() {
            if place == 0 || self.random.chance(60) {
                requests.insert(resource.to_string(), self.amount(resource, 1, 3));
            }
        }
        if self.has("cards") && requests.contains_key(GPU) && self.random.chance(60) {
            let cards = *self.random.of(&["A100", "V100", "A100|V100", "V100|A100"]);
            annotations.insert("volcano.sh/card.name".to_string(), json!(cards));
        }
        if self.queues() && self.random.chance(6) {
            annotations.insert("volcano.sh/preemptable".to_string(), json!("false"));
        }
        let priority = *self.random.of(&[0, 0, 0, 5, 10]);
        let mut spec = Map::new();
        if self.random.chance(12) {
            spec.insert("nodeSelector".to_string(), json!({"zone": *self.random.of(&["z0", "z1"])}));
        }
        if self.random.chance(3) {
            spec.insert("preemptionPolicy".to_string(), json!("Never"));
        }
        let mut labels = if self.budgets && self.random.chance(40) { json!({"x": "b"}) } else { json!({}) };
        if self.has("tree") && self.random.chance(6) {
            labels["quota.scheduling.koordinator.sh/preemptible"] = json!("false");
        }
        if self.random.chance(18) && self.pods + 2 <= PODS_MAX && !placed {
            let members = self.random.within(2, 3);
            let minimum = self.random.within(2, members);
            let mut group = json!({"minMember": minimum});
            if queued {
                group["queue"] = json!(queue);
            }
            apply.push(json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
                "metadata": {"namespace": namespace, "name": name}, "spec": group}));
            annotations.insert("scheduling.k8s.io/group-name".to_string(), json!(name));
            self.pods += members as usize;
            pods.push(pod(namespace, &name, Some(members), requests, priority, labels, annotations, spec));
            return;
        }
        if queued {
            annotations.insert("scheduling.volcano.sh/queue-name".to_string(), json!(queue));
        }
        if self.owners && !placed && self.random.chance(60) {
            let replicas = self.random.within(1, 2);
            self.pods += replicas as usize;
            apply.push(replica_set(namespace, &name, replicas, &requests, priority, &labels, &annotations, spec));
            return;
        }
        self.pods += 1;
        self.made.push(format!("{namespace}/{name}"));
        let mut pod = pod(namespace, &name, None, requests, priority, labels, annotations, spec);
        if placed {
            pod["node"] = json!(format!("node-{}", self.random.within(0, self.nodes as u64 - 1)));
        }
        pods.push(pod);
    }
}

#[expect(clippy::too_many_arguments, reason = "the parts of a pod, each once")]
fn pod(
    namespace: &str,
    name: &str,
    count: Option<u64>,
    requests: Map<String, Value>,
    priority: i64,
    labels: Value,
    annotations: Map<String, Value>,
    spec: Map<String, Value>,
) -> Value {
    let mut pod = json!({"namespace": namespace, "name": name});
    if let Some(count) = count {
        pod["count"] = json!(count);
    }
    pod["requests"] = json!(requests);
    if priority != 0 {
        pod["priority"] = json!(priority);
    }
    if labels.as_object().is_some_and(|labels| !labels.is_empty()) {
        pod["labels"] = labels;
    }
    if !annotations.is_empty() {
        pod["annotations"] = json!(annotations);
    }
    if !spec.is_empty() {
        pod["spec"] = json!(spec);
    }
    pod
}

#[expect(clippy::too_many_arguments, reason = "the parts of a ReplicaSet, each once")]
fn replica_set(
    namespace: &str,
    name: &str,
    replicas: u64,
    requests: &Map<String, Value>,
    priority: i64,
    labels: &Value,
    annotations: &Map<String, Value>,
    mut spec: Map<String, Value>,
) -> Value {
    let mut labels = labels.clone();
    labels["app"] = json!(name);
    let mut resources = json!({"requests": requests});
    if let Some(count) = requests.get(GPU) {
        resources["limits"] = json!({GPU: count});
    }
    spec.insert("priority".to_string(), json!(priority));
    spec.insert("containers".to_string(), json!([{"name": "c", "image": "i", "resources": resources}]));
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"namespace": namespace, "name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}}})
}
