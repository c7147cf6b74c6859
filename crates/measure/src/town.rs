//! A fresh control plane with nodes, quotas and pods, for one measurement.

use anyhow::Result;
use http::Method;
use quotient_testenv::{ControlPlane, Options};
use serde_json::{Value, json};

use crate::api::{Api, JSON, MERGE};
use crate::contender::{Scheduler, cpu_seconds};

/// What quotas there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quotas {
    None,
    Elastic(usize),
    /// A queue and a PodGroup for each namespace.
    Queues(usize),
    /// The quotas of one tree, below one parent.
    Tree(usize),
}

impl Quotas {
    pub fn count(self) -> usize {
        match self {
            Quotas::None => 20,
            Quotas::Elastic(count) | Quotas::Queues(count) | Quotas::Tree(count) => count,
        }
    }
}

pub struct Town {
    pub plane: ControlPlane,
    pub api: Api,
}

pub const PODS: &str = "/api/v1/namespaces/{namespace}/pods";

impl Town {
    /// A control plane without kubelets and controllers: nothing but what is measured uses the machine.
    pub async fn start() -> Result<Self> {
        Town::start_as(false).await
    }

    /// The same with Kubernetes' controllers.
    pub async fn start_with_controllers() -> Result<Self> {
        Town::start_as(true).await
    }

    async fn start_as(controller_manager: bool) -> Result<Self> {
        let options = Options {
            controller_manager,
            kwok: false,
            // Nodes are ready as they are made; there is no controller that would say so later.
            api_server: vec!["--disable-admission-plugins=TaintNodesByCondition".to_string()],
            ..Options::default()
        };
        let plane = tokio::task::spawn_blocking(move || ControlPlane::start(options)).await??;
        plane.install(&quotient_api::crd::definitions())?;
        let api = Api::new(&plane.kubeconfig()).await?;
        Ok(Town { plane, api })
    }

    /// CPU that etcd and the API server have used so far.
    pub fn server_cpu_seconds(&self) -> f64 {
        self.plane.server_processes().into_iter().map(cpu_seconds).sum()
    }

    pub async fn make_nodes(&self, count: usize) -> Result<()> {
        let amounts = json!({"cpu": "32", "memory": "256Gi", "nvidia.com/gpu": "8", "pods": "110"});
        let node = |index: usize| {
            let name = node_name(index);
            json!({"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name,
                    "topology.kubernetes.io/zone": format!("zone-{}", index % 3)}},
                "status": {"allocatable": amounts, "capacity": amounts, "conditions": ready("2026-01-01T00:00:00Z")}})
        };
        self.api.create_all("/api/v1/nodes", (0..count).map(node)).await
    }

    /// Namespaces with their service account, and the quotas over them. Each quota has room for all that is asked.
    pub async fn make_quotas(&self, quotas: Quotas) -> Result<()> {
        let names: Vec<String> = (0..quotas.count()).map(namespace_name).collect();
        let namespace = |name: &String| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.api.create_all("/api/v1/namespaces", names.iter().map(namespace)).await?;
        let account = |name: &String| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}});
        let accounts = "/api/v1/namespaces/{namespace}/serviceaccounts";
        // Where controllers run, one of them may have been faster.
        self.api.create_missing(accounts, names.iter().map(account)).await?;
        // A pool of elastic quotas holds no more than its mins together: they hold the pods of every case.
        let (few, many) = (json!({"cpu": "1000", "memory": "2000Gi"}), json!({"cpu": "100000", "memory": "1000Ti"}));
        match quotas {
            Quotas::None => Ok(()),
            Quotas::Elastic(_) => self.make_elastic(names.iter().map(|name| (name.as_str(), &few, &many))).await,
            Quotas::Queues(_) => {
                let queue = |name: &String| {
                    json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name},
                        "spec": {"deserved": few, "capability": many}})
                };
                self.api.create_all("/apis/scheduling.volcano.sh/v1beta1/queues", names.iter().map(queue)).await?;
                let group = |name: &String| {
                    json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
                        "metadata": {"name": "all", "namespace": name}, "spec": {"queue": name, "minMember": 1}})
                };
                let groups = "/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups";
                self.api.create_all(groups, names.iter().map(group)).await
            }
            Quotas::Tree(_) => {
                let path = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{namespace}/elasticquotas";
                let parent = json!({"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
                    "metadata": {"name": "all", "namespace": names[0],
                        "labels": {"quota.scheduling.koordinator.sh/is-parent": "true"}},
                    "spec": {"min": many, "max": many}});
                self.api.create_all(path, [parent]).await?;
                let child = |name: &String| {
                    json!({"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
                        "metadata": {"name": name, "namespace": name,
                            "labels": {"quota.scheduling.koordinator.sh/parent": "all"}},
                        "spec": {"min": few, "max": many}})
                };
                self.api.create_all(path, names.iter().map(child)).await
            }
        }
    }

    /// Elastic quotas, one of a namespace each: its name, min and max.
    pub async fn make_elastic<'a>(&self, quotas: impl Iterator<Item = (&'a str, &'a Value, &'a Value)>) -> Result<()> {
        let quota = |(name, min, max): (&str, &Value, &Value)| {
            json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota",
                "metadata": {"name": "quota", "namespace": name}, "spec": {"min": min, "max": max}})
        };
        let path = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/elasticquotas";
        self.api.create_all(path, quotas.map(quota)).await
    }

    /// Pods, in turn over the namespaces.
    pub async fn make_pods(&self, count: usize, quotas: Quotas, scheduler: Scheduler) -> Result<()> {
        let pods = (0..count).map(|index| plain_pod(index, quotas, scheduler));
        self.api.create_all(PODS, pods).await
    }

    /// Writes the heartbeat of nodes, as kubelets do.
    pub async fn beat(&self, nodes: std::ops::Range<usize>, time: &str) -> Result<()> {
        let patch = json!({"status": {"conditions": ready(time)}});
        let ask = |index| (Method::PATCH, format!("/api/v1/nodes/{}/status", node_name(index)), MERGE, patch.clone());
        self.api.ask_all(nodes.map(ask)).await
    }

    pub fn delete_now(namespace: &str, name: &str) -> crate::api::Ask {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
        (Method::DELETE, format!("/api/v1/namespaces/{namespace}/pods/{name}"), JSON, options)
    }
}

fn ready(time: &str) -> Value {
    json!([{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": time,
        "lastTransitionTime": "2026-01-01T00:00:00Z"}])
}

pub fn node_name(index: usize) -> String {
    format!("node-{index}")
}

pub fn namespace_name(index: usize) -> String {
    format!("team-{index}")
}

/// A pod of one of a few shapes.
fn plain_pod(index: usize, quotas: Quotas, scheduler: Scheduler) -> Value {
    let requests = json!({"cpu": format!("{}m", 100 + 50 * (index % 8)), "memory": "256Mi"});
    let mut pod = pod(&namespace_name(index % quotas.count()), &format!("pod-{index}"), &requests, scheduler);
    if let Quotas::Queues(_) = quotas {
        pod["metadata"]["annotations"] = json!({"scheduling.k8s.io/group-name": "all"});
    }
    pod
}

pub fn pod(namespace: &str, name: &str, requests: &Value, scheduler: Scheduler) -> Value {
    let mut resources = json!({"requests": requests});
    if let Some(cards) = requests.get("nvidia.com/gpu") {
        resources["limits"] = json!({"nvidia.com/gpu": cards});
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name},
        "spec": {"schedulerName": scheduler.pod_name(), "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "none", "resources": resources}]}})
}
