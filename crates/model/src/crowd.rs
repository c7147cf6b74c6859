//! Random clusters of 50 nodes and 500 pods, listed in one order and in another: the same is decided. Creation times
//! have whole seconds, so that many pods are of one age, and ties go by name.

use quotient_sim::random::Random;
use quotient_sim::{Cluster, Setup};
use serde_json::{Map, Value, json};

use crate::drive::forgotten;
use crate::world::GPU;

const NODES: u64 = 50;
const PODS: u64 = 500;
const TENANTS: u64 = 6;
const GROUP: &str = "scheduling.k8s.io/group-name";
const QUEUE: &str = "scheduling.volcano.sh/queue-name";
const POLICIES: &[&str] = &["none", "elastic", "fair", "tree", "queue", "elastic+queue"];

/// What was decided, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settled {
    pub bound: Vec<String>,
    pub evicted: Vec<String>,
}

/// The objects of a cluster, in the steps in which they come.
#[derive(Debug, Clone)]
pub struct Crowd {
    pub policy: &'static str,
    steps: Vec<Vec<Value>>,
    evictions_take: bool,
}

struct Maker {
    random: Random,
    policy: &'static str,
    pods: u64,
}

impl Crowd {
    /// The cluster of a seed.
    pub fn of(seed: u64) -> Crowd {
        let mut random = Random::new(seed);
        let policy = *random.of(POLICIES);
        let mut maker = Maker { random, policy, pods: 0 };
        let mut first: Vec<Value> = (0..NODES).map(|index| maker.node(index)).collect();
        first.extend((0..TENANTS).flat_map(|tenant| maker.quotas(tenant)));
        while maker.pods < PODS * 4 / 5 {
            maker.add(&mut first, 0);
        }
        let mut second = Vec::new();
        while maker.pods < PODS {
            maker.add(&mut second, 1);
        }
        let evictions_take = maker.random.chance(50);
        Crowd { policy, steps: vec![first, second], evictions_take }
    }

    /// What comes of it with the objects of each step listed in an order of this seed; 0: as they were made.
    pub fn settle(&self, order: u64) -> Result<Settled, String> {
        let mut random = Random::new(order);
        let mut cluster = Cluster::new(Setup::default());
        if self.evictions_take {
            cluster.set_eviction_takes(std::time::Duration::from_secs(30));
        }
        let mut settled = Settled::default();
        for step in &self.steps {
            let mut objects: Vec<&Value> = step.iter().collect();
            if order > 0 {
                for at in (1..objects.len()).rev() {
                    objects.swap(at, random.within(0, at as u64) as usize);
                }
            }
            for object in objects {
                cluster.apply(object.clone()).map_err(|refusal| refusal.to_string())?;
            }
            cluster.wait(std::time::Duration::from_secs(60)).map_err(|stuck| stuck.to_string())?;
            let happened = cluster.take_happened();
            if let Some(difference) =
                forgotten(&cluster, !happened.evicted.is_empty()).map_err(|stuck| stuck.to_string())?
            {
                return Err(difference.why);
            }
            let bound = happened.bound.iter().map(|pod| format!("{}/{}@{}", pod.namespace, pod.name, pod.node));
            settled.bound.extend(bound);
            let evicted = happened.evicted.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name));
            settled.evicted.extend(evicted);
        }
        Ok(settled)
    }
}

impl Settled {
    /// The first few lines in which two differ.
    pub fn difference(&self, other: &Settled) -> Option<String> {
        let differing = |of: &[String], from: &[String]| -> Vec<String> {
            of.iter().filter(|line| !from.contains(line)).take(4).cloned().collect()
        };
        let lists = [("bound", &self.bound, &other.bound), ("evicted", &self.evicted, &other.evicted)];
        lists.into_iter().find(|(_, one, two)| one != two).map(|(what, one, two)| {
            format!("{what}: {} or {}", differing(one, two).join(" "), differing(two, one).join(" "))
        })
    }
}

impl Maker {
    fn has(&self, part: &str) -> bool {
        self.policy.split('+').any(|other| other == part)
    }

    fn node(&mut self, index: u64) -> Value {
        let (cpu, gpus) = (self.random.within(4, 16), self.random.within(0, 4));
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{index}"), "uid": format!("n{index}"),
                "labels": {"zone": format!("z{}", index % 3)}},
            "status": {"allocatable": {"cpu": cpu.to_string(), "memory": "64Gi", GPU: gpus.to_string(), "pods": "110"}}})
    }

    fn amounts(&mut self, low: u64, high: u64) -> Value {
        json!({"cpu": self.random.within(low, high).to_string(), GPU: self.random.within(low / 4, high / 4).to_string()})
    }

    fn quotas(&mut self, tenant: u64) -> Vec<Value> {
        let (namespace, mut quotas) = (format!("ns-{tenant}"), Vec::new());
        for (part, api) in [("elastic", "scheduling.x-k8s.io/v1alpha1"), ("fair", "nos.nebuly.com/v1alpha1")] {
            if self.has(part) {
                let metadata = json!({"namespace": namespace, "name": "eq", "uid": format!("{part}-{tenant}")});
                let min = self.amounts(20, 90);
                quotas.push(
                    json!({"apiVersion": api, "kind": "ElasticQuota", "metadata": metadata, "spec": {"min": min}}),
                );
            }
        }
        if self.has("tree") {
            let metadata = json!({"namespace": namespace, "name": namespace, "uid": format!("tree-{tenant}")});
            let spec = json!({"min": self.amounts(10, 60), "max": self.amounts(80, 200)});
            let api = "scheduling.sigs.k8s.io/v1alpha1";
            quotas.push(json!({"apiVersion": api, "kind": "ElasticQuota", "metadata": metadata, "spec": spec}));
        }
        if self.has("queue") {
            let mut spec = Map::new();
            if self.random.chance(75) {
                spec.insert("deserved".to_string(), self.amounts(20, 90));
            }
            if self.random.chance(30) {
                spec.insert("guarantee".to_string(), json!({"resource": self.amounts(5, 19)}));
            }
            let metadata = json!({"name": format!("q-{tenant}"), "uid": format!("queue-{tenant}")});
            let api = "scheduling.volcano.sh/v1beta1";
            quotas.push(json!({"apiVersion": api, "kind": "Queue", "metadata": metadata, "spec": spec}));
        }
        quotas
    }

    /// One more pod or gang, in one of a few seconds of a minute.
    fn add(&mut self, objects: &mut Vec<Value>, minute: u64) {
        let tenant = self.random.within(0, TENANTS - 1);
        let (namespace, name) = (format!("ns-{tenant}"), format!("p{}", self.random.within(100_000, 999_999)));
        let stamp = format!("2026-01-01T00:{minute:02}:{:02}Z", self.random.within(0, 5));
        let mut requests = Map::new();
        requests.insert("cpu".to_string(), json!(self.random.within(1, 3).to_string()));
        if self.random.chance(30) {
            requests.insert(GPU.to_string(), json!(self.random.within(1, 2).to_string()));
        }
        let mut spec = json!({"priority": *self.random.of(&[0, 0, 0, 5, 10]),
            "containers": [{"name": "c", "image": "i", "resources": {"requests": requests, "limits": requests}}]});
        if self.random.chance(10) {
            spec["nodeSelector"] = json!({"zone": format!("z{}", self.random.within(0, 2))});
        }
        if self.random.chance(8) {
            spec["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"tenant": tenant.to_string()}}}]);
        }
        let mut annotations = Map::new();
        if self.has("queue") && self.random.chance(90) {
            annotations.insert(QUEUE.to_string(), json!(format!("q-{tenant}")));
        }
        let members = if self.random.chance(6) { self.random.within(2, 4) } else { 1 };
        if members > 1 {
            let mut group = json!({"minMember": members});
            if self.has("queue") {
                group["queue"] = json!(format!("q-{tenant}"));
            }
            annotations.insert(GROUP.to_string(), json!(name));
            objects.push(json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
                "metadata": {"namespace": namespace, "name": name, "uid": format!("g-{name}"), "creationTimestamp": stamp},
                "spec": group}));
        }
        for member in 0..members {
            let name = if members > 1 { format!("{name}-{member}") } else { name.clone() };
            let metadata = json!({"namespace": namespace, "name": name, "uid": format!("u-{namespace}-{name}"),
                "creationTimestamp": stamp, "labels": {"tenant": tenant.to_string()}, "annotations": annotations});
            objects.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}));
            self.pods += 1;
        }
    }
}
