//! Nodes and pods to measure with: the same each time, made from an index by arithmetic alone.

use std::sync::Arc;

use quotient_engine::fact::{
    Amounts, CPU, Created, ElasticFact, GroupFact, Labels, Limits, MEMORY, Name, NodeFact, NodeTerm, Operator, PODS,
    Phase, PodFact, PodSpec, PodTerm, QueueFact, QuotaKey, Requirement, Selector, SpreadConstraint, TreeFact,
    WhenUnsatisfiable,
};
use serde::{Deserialize, Serialize};

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
const POOL: &str = "example.com/pool";
const GPU: &str = "nvidia.com/gpu";
const MEBIBYTE: i64 = 1 << 20;

/// Zones and pools are independent of each other: each pool has nodes in every zone.
const ZONES: u32 = 16;
const POOLS: u32 = 8;

/// Pods of one application, where applications are spread.
const APPLICATION_SIZE: u32 = 20;

/// What a node has, in millicores.
pub const NODE_CPU: i64 = 64_000;

/// What a node has, in bytes.
pub const NODE_MEMORY: i64 = 256 * 1024 * MEBIBYTE;

/// The GPUs of a node that has some.
pub const NODE_GPUS: u32 = 8;

/// Text that many objects share, made once, as the readers of manifests do.
pub struct Words {
    cpu: Name,
    memory: Name,
    pods: Name,
    gpu: Name,
    hostname: Name,
    zone: Name,
    pool: Name,
    app: Name,
    index: Name,
    namespace: Name,
    owner: Name,
    zones: Vec<Name>,
    pools: Vec<Name>,
    nodes: Vec<Name>,
}

impl Words {
    pub fn new(nodes: u32) -> Self {
        let numbered = |prefix: &str, count: u32| (0..count).map(|i| format!("{prefix}-{i:05}").into()).collect();
        Words {
            cpu: CPU.into(),
            memory: MEMORY.into(),
            pods: PODS.into(),
            gpu: GPU.into(),
            hostname: HOSTNAME.into(),
            zone: ZONE.into(),
            pool: POOL.into(),
            app: "app".into(),
            index: "example.com/index".into(),
            namespace: "bench".into(),
            owner: "ReplicaSet/bench".into(),
            zones: numbered("zone", ZONES),
            pools: numbered("pool", POOLS),
            nodes: numbered("node", nodes),
        }
    }

    /// The `i`-th node: 64 cores, 256Gi, and 8 GPUs on each fourth.
    pub fn node(&self, i: u32) -> NodeFact {
        let name = self.nodes[i as usize].clone();
        let gpus = if i % 4 == 3 { i64::from(NODE_GPUS) } else { 0 };
        NodeFact {
            labels: Labels::from_iter([
                (self.hostname.clone(), name.clone()),
                (self.zone.clone(), self.zones[(i % ZONES) as usize].clone()),
                (self.pool.clone(), self.pools[(i / ZONES % POOLS) as usize].clone()),
            ]),
            name,
            allocatable: Amounts::from_iter([
                (self.cpu.clone(), NODE_CPU),
                (self.memory.clone(), NODE_MEMORY),
                (self.pods.clone(), 110),
                (self.gpu.clone(), gpus),
            ]),
            ..NodeFact::default()
        }
    }

    /// The `i`-th node of a cluster in which all have GPUs.
    pub fn gpu_node(&self, i: u32) -> NodeFact {
        let mut node = self.node(i);
        let gpus = (self.gpu.clone(), i64::from(NODE_GPUS));
        node.allocatable = node.allocatable.iter().cloned().chain([gpus]).collect();
        node
    }

    /// The elastic quota of the `i`-th team, which has a namespace of its own.
    pub fn quota(&self, i: u32, system: System, min: Limits) -> ElasticFact {
        let namespace = team(i);
        ElasticFact {
            key: QuotaKey {
                kind: "ElasticQuota".into(),
                group: system.group().into(),
                namespace: namespace.clone(),
                name: "quota".into(),
            },
            namespaces: vec![namespace],
            min,
            max: Limits::default(),
            fair: system == System::Fair,
        }
    }

    /// The queue of the `i`-th team, which deserves this much.
    pub fn queue(&self, i: u32, deserved: Limits) -> QueueFact {
        let (kind, group) = ("Queue".into(), System::Queue.group().into());
        QueueFact {
            key: QuotaKey { kind, group, namespace: Name::default(), name: team(i) },
            deserved: Some(deserved),
            reclaimable: true,
            ..QueueFact::default()
        }
    }

    /// A quota of a tree below another. All request more than they are entitled to.
    pub fn tree_quota(&self, name: Name, parent: Option<Name>, is_parent: bool, min: i64) -> TreeFact {
        let amount = |amount: i64| Limits::from_iter([(self.cpu.clone(), amount)]);
        let (kind, group) = ("ElasticQuota".into(), "scheduling.sigs.k8s.io".into());
        TreeFact {
            key: QuotaKey { kind, group, namespace: name.clone(), name },
            parent,
            is_parent,
            lends: true,
            min: amount(min),
            max: amount(1_000_000_000),
            ..TreeFact::default()
        }
    }

    /// The `i`-th gang.
    pub fn gang(&self, i: u32, min_member: u32) -> GroupFact {
        let (namespace, name) = (self.namespace.clone(), gang(i));
        GroupFact { namespace, name, min_member, admitted: true, ..GroupFact::default() }
    }

    /// A min of cpu and memory: this part of so many nodes.
    pub fn min_of_nodes(&self, nodes: u32, parts: u32) -> Limits {
        let part = |each: i64| each * i64::from(nodes) / i64::from(parts);
        Limits::from_iter([(self.cpu.clone(), part(NODE_CPU)), (self.memory.clone(), part(NODE_MEMORY))])
    }

    /// A min of GPUs.
    pub fn min_of_gpus(&self, gpus: u32) -> Limits {
        Limits::from_iter([(self.gpu.clone(), i64::from(gpus))])
    }

    /// A pod that asks for GPUs, and for a core and some memory with each.
    pub fn training(&self, i: u32, gpus: u32) -> PodFact {
        let each = i64::from(gpus);
        let asks = self.asks(1000 * each, 1024 * MEBIBYTE * each);
        let requests = asks.requests.iter().cloned().chain([(self.gpu.clone(), each)]).collect();
        PodFact { spec: Arc::new(PodSpec { requests, ..asks }), ..self.pod(i, i / APPLICATION_SIZE) }
    }

    /// A pod that only asks for cpu and memory. Pods of one `shape` ask for the same.
    pub fn plain(&self, i: u32, shape: u32) -> PodFact {
        let cpu = 100 + 50 * i64::from(shape % 17);
        let memory = 128 * MEBIBYTE + 32 * MEBIBYTE * i64::from(shape % 13) + 4096 * i64::from(shape);
        PodFact { spec: Arc::new(self.asks(cpu, memory)), ..self.pod(i, i / APPLICATION_SIZE) }
    }

    /// A pod like no other: its own request, a required pool (one of two), even spread of its application over zones,
    /// and no other pod of the application on the same node.
    pub fn different(&self, i: u32) -> PodFact {
        let application = i / APPLICATION_SIZE;
        let mut spec = self.asks(100 + i64::from(i % 401), 128 * MEBIBYTE + 4096 * i64::from(i));
        let pool = |n: u32| self.pools[(n % POOLS) as usize].clone();
        spec.required_nodes = Some(vec![NodeTerm {
            labels: vec![requirement(&self.pool, vec![pool(application), pool(application + 1 + i % 3)])],
            fields: Vec::new(),
        }]);
        let selector = Selector { requirements: vec![requirement(&self.app, vec![application_name(application)])] };
        spec.spread = vec![SpreadConstraint {
            topology_key: self.zone.clone(),
            max_skew: 1,
            when: WhenUnsatisfiable::DoNotSchedule,
            selector: Some(selector.clone()),
            min_domains: None,
            honor_affinity: true,
            honor_taints: false,
        }];
        spec.anti_affinity = vec![PodTerm {
            topology_key: self.hostname.clone(),
            selector: Some(selector),
            namespaces: vec![self.namespace.clone()],
            namespace_selector: None,
        }];
        PodFact { spec: Arc::new(spec), ..self.pod(i, application) }
    }

    /// A pod that asks for this much cpu, and nothing else.
    pub fn asking(&self, i: u32, cpu: i64) -> PodFact {
        PodFact { spec: Arc::new(self.asks(cpu, 128 * MEBIBYTE + i64::from(i))), ..self.pod(i, i) }
    }

    /// A pod for a pool that no node is in.
    pub fn homeless(&self, i: u32) -> PodFact {
        let mut spec = self.asks(100, 128 * MEBIBYTE + i64::from(i));
        spec.node_selector = Labels::from_iter([(self.pool.clone(), "nowhere".into())]);
        PodFact { spec: Arc::new(spec), ..self.pod(i, i) }
    }

    /// The pod, running on the node.
    pub fn running(&self, mut pod: PodFact, node: u32) -> PodFact {
        pod.phase = Phase::Running;
        pod.node = Some(self.nodes[node as usize].clone());
        pod
    }

    fn pod(&self, i: u32, application: u32) -> PodFact {
        let name: Name = format!("pod-{i:07}").into();
        PodFact {
            namespace: self.namespace.clone(),
            uid: format!("00000000-0000-4000-8000-{i:012}").into(),
            created: Created(1_700_000_000_000_000 + i64::from(i)),
            labels: Labels::from_iter([
                (self.app.clone(), application_name(application)),
                (self.index.clone(), name.clone()),
            ]),
            name,
            phase: Phase::Pending,
            ours: true,
            owner: Some(self.owner.clone()),
            ..PodFact::default()
        }
    }

    fn asks(&self, cpu: i64, memory: i64) -> PodSpec {
        PodSpec {
            requests: Amounts::from_iter([(self.cpu.clone(), cpu), (self.memory.clone(), memory)]),
            assumed: (cpu, memory),
            ..PodSpec::default()
        }
    }
}

/// Which kind of elastic quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum System {
    /// What is unused goes to whoever asks first.
    Pooled,
    /// What is unused is shared in proportion to min, and pods are marked as within their quota or over it.
    Fair,
    /// Queues that deserve as much.
    Queue,
}

impl System {
    fn group(self) -> &'static str {
        match self {
            System::Pooled => "scheduling.x-k8s.io",
            System::Fair => "nos.nebuly.com",
            System::Queue => "scheduling.volcano.sh",
        }
    }
}

/// The name of the `i`-th gang.
pub fn gang(i: u32) -> Name {
    format!("gang-{i:05}").into()
}

/// The namespace of the `i`-th team.
pub fn team(i: u32) -> Name {
    format!("team-{i:05}").into()
}

fn application_name(application: u32) -> Name {
    format!("app-{application:06}").into()
}

fn requirement(key: &Name, values: Vec<Name>) -> Requirement {
    Requirement { key: key.clone(), operator: Operator::In, values }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_workload_is_the_same_each_time() {
        let (one, other) = (Words::new(10), Words::new(10));
        assert_eq!(one.node(7), other.node(7));
        assert_eq!(one.plain(3, 1), other.plain(3, 1));
        assert_eq!(one.different(3), other.different(3));
        assert_eq!(one.training(3, 8), other.training(3, 8));
    }

    #[test]
    fn every_gpu_node_has_gpus_once() {
        let words = Words::new(4);
        for i in 0..4 {
            let node = words.gpu_node(i);
            let gpus: Vec<i64> = node.allocatable.iter().filter(|(name, _)| &**name == GPU).map(|(_, n)| *n).collect();
            assert_eq!(gpus, [i64::from(NODE_GPUS)]);
        }
    }

    #[test]
    fn shapes_are_as_many_as_they_say() {
        let words = Words::new(1);
        let count = |pods: &dyn Fn(u32) -> PodFact| {
            (0..500).map(|i| format!("{:?}", pods(i).spec)).collect::<BTreeSet<_>>().len()
        };
        assert_eq!(count(&|i| words.plain(i, i % 8)), 8);
        assert_eq!(count(&|i| words.plain(i, i)), 500);
        assert_eq!(count(&|i| words.different(i)), 500);
    }
}
