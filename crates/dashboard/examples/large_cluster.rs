//! Serves the dashboard of a simulated cluster of 5,000 nodes and 50,000 pods in which nothing changes, to measure the
//! pages and the server. Prints the address, then runs until it is killed. `make bench-web` uses it.

use std::sync::Arc;
use std::time::Instant;

use quotient_api::Configuration;
use quotient_dashboard::gate::{Later, OpenGate, Refusal, Source};
use quotient_dashboard::server::Server;
use quotient_dashboard::what_if::{Answer, view_of};
use quotient_dashboard::{Hub, Viewer};
use quotient_sim::{Cluster, Setup};
use serde_json::{Value, json};

const NODES: usize = 5_000;
const GPUS: usize = 8;
const TEAMS: usize = 20;
const PENDING: usize = 10_000;

/// Nothing can be asked beside the view.
struct Still;

impl Source for Still {
    fn about(&self) -> Value {
        json!({"mode": "live", "acts": false})
    }

    fn what_if<'a>(&'a self, _: String, _: Viewer) -> Later<'a, Result<Answer, Refusal>> {
        Box::pin(std::future::ready(Err(Refusal::Bad("nothing can be tried here".into()))))
    }

    fn apply<'a>(&'a self, _: String, _: Option<String>) -> Later<'a, Result<Vec<String>, Refusal>> {
        Box::pin(std::future::ready(Err(Refusal::Forbidden("read-only".into()))))
    }

    fn control(&self, _: &Value) -> Result<(), Refusal> {
        Err(Refusal::Forbidden("read-only".into()))
    }

    fn object<'a>(&'a self, _: String, _: Viewer) -> Later<'a, Result<String, Refusal>> {
        Box::pin(std::future::ready(Err(Refusal::Bad("there is no such object".into()))))
    }
}

fn team(number: usize) -> String {
    format!("team-{:02}", number % TEAMS)
}

fn objects() -> impl Iterator<Item = Value> {
    let quotas = (0..TEAMS).map(|number| {
        json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": "quota", "namespace": team(number)},
            "spec": {"min": {"nvidia.com/gpu": NODES * GPUS / TEAMS}, "max": {"nvidia.com/gpu": NODES * GPUS}}})
    });
    let nodes = (0..NODES).map(|number| {
        let labels = json!({"pool": format!("pool-{}", number / 1000), "nvidia.com/gpu.product": "NVIDIA-H100-80GB",
            "topology.kubernetes.io/rack": format!("rack-{:03}", number / 16)});
        let holds = json!({"cpu": "128", "memory": "2Ti", "nvidia.com/gpu": GPUS.to_string(), "pods": "110"});
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{number:04}"), "labels": labels},
            "status": {"allocatable": holds, "capacity": holds,
                "conditions": [{"type": "Ready", "status": "True"}]}})
    });
    let pods = (0..NODES * GPUS + PENDING).map(|number| {
        let gpu = json!({"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"});
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("pod-{number:05}"), "namespace": team(number)},
            "spec": {"containers": [{"name": "c", "image": "i",
                "resources": {"requests": gpu, "limits": {"nvidia.com/gpu": "1"}}}]}});
        if number < NODES * GPUS {
            pod["spec"]["nodeName"] = json!(format!("node-{:04}", number / GPUS));
        }
        pod
    });
    quotas.chain(nodes).chain(pods)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut cluster = Cluster::new(Setup { configuration: Configuration::default(), scheduler_names: None });
    let begun = Instant::now();
    for object in objects() {
        cluster.apply(object).map_err(|refusal| refusal.to_string())?;
    }
    cluster.settle().map_err(|stuck| stuck.to_string())?;
    eprintln!("the cluster has settled after {} ms", begun.elapsed().as_millis());
    let begun = Instant::now();
    let view = view_of(&cluster);
    eprintln!(
        "a view of {} nodes and {} pods takes {} ms",
        view.nodes.len(),
        view.pods.len(),
        begun.elapsed().as_millis()
    );
    let hub = Hub::new(20_000);
    hub.publish(view, &[]);
    let server = Server::new(hub, Arc::new(Still), Arc::new(OpenGate)).on_loopback_only();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        let (address, answer) = server.serve(([127, 0, 0, 1], 0).into()).await?;
        println!("http://{address}");
        answer.await;
        Ok(())
    })
}
