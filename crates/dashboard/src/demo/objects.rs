//! The nodes, quotas and pods of the demo, in proportion to the number of nodes.

use quotient_api::Configuration;
use serde_json::{Value, json};

pub const H100: &str = "NVIDIA-H100-80GB";
pub const A100: &str = "NVIDIA-A100-80GB";

/// The fewest and most nodes that the story works with.
pub const NODES_MIN: u32 = 60;
pub const NODES_MAX: u32 = 5000;

/// How many nodes each pool has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub a100: i64,
    pub h100: i64,
    pub mig: i64,
    pub mps: i64,
    pub cpu: i64,
}

impl Layout {
    /// So many nodes: a third has A100, a sixth H100, a sixth is cut into MIG devices or shared by MPS, the rest has
    /// none.
    pub fn of(nodes: u32) -> Self {
        let nodes = i64::from(nodes.clamp(NODES_MIN, NODES_MAX));
        // The story divides these two by two and by four.
        let a100 = (nodes / 3) / 4 * 4;
        let h100 = (nodes / 6).max(4) / 4 * 4;
        let (mig, mps) = ((nodes / 10).max(1), (nodes / 15).max(1));
        Layout { a100, h100, mig, mps, cpu: nodes - a100 - h100 - mig - mps }
    }

    /// GPUs that vision and research are guaranteed each. Two nodes of the pool stay beyond any guarantee.
    pub fn guarantee(self) -> i64 {
        4 * (self.a100 - 2)
    }

    /// Eight-GPU pods of vision and research at the beginning.
    pub fn vision_pods(self) -> i64 {
        self.a100 / 4
    }

    pub fn research_pods(self) -> i64 {
        self.guarantee() / 8
    }

    /// Four-GPU pods with which research fills what vision leaves.
    pub fn borrowers(self) -> i64 {
        (2 * self.guarantee() - 8 * self.vision_pods() - 8 * self.research_pods()) / 4
    }

    /// H100 that speech and llm hold at the beginning, by nodes, and the size of the gang.
    pub fn speech_nodes(self) -> i64 {
        self.h100 * 6 / 10
    }

    pub fn llm_nodes(self) -> i64 {
        self.h100 / 10
    }

    pub fn gang(self) -> i64 {
        self.h100 - self.speech_nodes() - self.llm_nodes() + self.released()
    }

    /// Nodes that speech gives up, so that the gang can start.
    pub fn released(self) -> i64 {
        (self.h100 / 10).max(1)
    }

    /// H100 that the queue of llm may hold.
    pub fn llm_cards(self) -> i64 {
        8 * (self.llm_nodes() + self.gang())
    }
}

/// How the demo's scheduler is set up: pods without GPUs may hold 16 cores of a GPU node.
pub fn configuration() -> Configuration {
    Configuration::from_value(&configuration_body()).unwrap_or_default()
}

/// The same, as a recording holds it.
pub fn configuration_body() -> Value {
    json!({"crossQuota": {
        "gpu-resource-names": "nvidia.com/gpu,nvidia.com/mig-.*", "quota-resources": "cpu", "quota.cpu": "16",
    }, "tree": {"revokeAfter": "2m"}})
}

/// All nodes.
pub fn nodes(layout: Layout) -> Vec<Value> {
    let Layout { a100, h100, mig, mps, cpu } = layout;
    let mut nodes = Vec::new();
    let gpu = |product: &str, memory: &str| json!({"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": memory});
    for i in 0..a100 {
        nodes.push(node("a100", i, gpu(A100, "81920"), json!({"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8"})));
    }
    for i in 0..h100 {
        nodes.push(node("h100", i, gpu(H100, "81920"), json!({"cpu": "128", "memory": "2Ti", "nvidia.com/gpu": "8"})));
    }
    for i in 0..mig {
        let holds = json!({"cpu": "64", "memory": "512Gi", "nvidia.com/mig-1g.10gb": "14"});
        nodes.push(node("mig", i, gpu(A100, "81920"), holds));
    }
    for i in 0..mps {
        let mut labels = gpu("NVIDIA-A10", "24576");
        labels["nvidia.com/gpu.replicas"] = json!("8");
        let holds = json!({"cpu": "64", "memory": "512Gi", "nvidia.com/gpu.shared": "32"});
        nodes.push(node("mps", i, labels, holds));
    }
    for i in 0..cpu {
        nodes.push(node("cpu", i, json!({}), json!({"cpu": "64", "memory": "256Gi"})));
    }
    nodes
}

/// Nodes of a rack.
const RACK: i64 = 16;

fn node(pool: &str, index: i64, mut labels: Value, mut allocatable: Value) -> Value {
    let name = format!("{pool}-{index:03}");
    labels["kubernetes.io/hostname"] = json!(name);
    labels["pool"] = json!(pool);
    labels["topology.kubernetes.io/rack"] = json!(format!("{pool}-r{:02}", index / RACK));
    allocatable["pods"] = json!("110");
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// A team's elastic quota with this min of GPUs.
pub fn elastic_quota(team: &str, min: i64, max: i64) -> Value {
    json!({
        "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": team, "namespace": team},
        "spec": {"min": {"nvidia.com/gpu": min.to_string()}, "max": {"nvidia.com/gpu": max.to_string()}},
    })
}

/// All quotas: four systems.
pub fn quotas(layout: Layout) -> Vec<Value> {
    let guarantee = layout.guarantee();
    let queue = |name: &str, cards: Value, deserved: i64| {
        json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
            "metadata": {"name": name, "annotations": {"volcano.sh/card.quota": cards.to_string()}},
            "spec": {"deserved": {H100: deserved.to_string()}},
        })
    };
    let slices = |team: &str, gb: i64| {
        json!({
            "apiVersion": "nos.nebuly.com/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": team, "namespace": team}, "spec": {"min": {"nos.nebuly.com/gpu-memory": gb.to_string()}},
        })
    };
    let tree = |team: &str, min: i64, max: i64| {
        json!({
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": team, "namespace": team},
            "spec": {"min": {"cpu": min.to_string()}, "max": {"cpu": max.to_string()}},
        })
    };
    let (speech, llm) = (8 * layout.speech_nodes(), layout.llm_cards());
    let all_cpu = 64 * layout.cpu;
    vec![
        elastic_quota("vision", guarantee, 2 * guarantee),
        elastic_quota("research", guarantee, 2 * guarantee),
        queue("speech", json!({H100: speech + 16}), speech),
        queue("llm", json!({H100: llm, A100: 4}), llm),
        slices("notebooks-a", 70 * layout.mig),
        slices("notebooks-b", 70 * layout.mig),
        tree("etl", all_cpu * 6 / 10, all_cpu * 2),
        tree("reports", all_cpu * 4 / 10, all_cpu * 2),
    ]
}

/// A pod of a team, with GPUs of a pool.
#[derive(Debug, Clone)]
pub struct PodPlan<'a> {
    pub team: &'a str,
    pub name: String,
    pub requests: Value,
    pub pool: Option<&'a str>,
    pub queue: Option<&'a str>,
    pub card: Option<&'a str>,
    pub group: Option<&'a str>,
    pub priority: i64,
}

impl<'a> PodPlan<'a> {
    pub fn new(team: &'a str, name: impl Into<String>, requests: Value) -> Self {
        PodPlan { team, name: name.into(), requests, pool: None, queue: None, card: None, group: None, priority: 0 }
    }

    /// The object.
    pub fn object(&self) -> Value {
        let mut annotations = json!({});
        for (name, value) in [
            ("scheduling.volcano.sh/queue-name", self.queue),
            ("volcano.sh/card.name", self.card),
            ("scheduling.k8s.io/group-name", self.group),
        ] {
            if let Some(value) = value {
                annotations[name] = json!(value);
            }
        }
        let mut limits = json!({});
        for (name, amount) in self.requests.as_object().into_iter().flatten().filter(|(name, _)| name.contains('/')) {
            limits[name] = amount.clone();
        }
        let mut spec = json!({"containers": [
            {"name": "main", "image": "workload", "resources": {"requests": self.requests, "limits": limits}}]});
        if let Some(pool) = self.pool {
            spec["nodeSelector"] = json!({"pool": pool});
        }
        if self.priority != 0 {
            spec["priority"] = json!(self.priority);
        }
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": self.name, "namespace": self.team, "annotations": annotations}, "spec": spec,
        })
    }
}

/// `count` GPUs with cores beside them.
pub fn gpus(count: i64) -> Value {
    json!({"cpu": (count * 6).to_string(), "memory": format!("{}Gi", count * 32), "nvidia.com/gpu": count.to_string()})
}

/// A gang that starts with all of its pods or not at all.
pub fn pod_group(team: &str, name: &str, queue: Option<&str>, members: i64) -> Value {
    let mut spec = json!({"minMember": members});
    if let Some(queue) = queue {
        spec["queue"] = json!(queue);
    }
    json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": team}, "spec": spec,
    })
}
