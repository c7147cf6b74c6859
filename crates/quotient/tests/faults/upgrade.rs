//! Rolling upgrades while pods come as fast as 500 a second: each leader is told to stop, sends what it decided, and
//! its successor goes on. No pod is lost, none is bound twice, no node holds more than it may.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use futures::StreamExt;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use quotient_testenv::{ControlPlane, NodeShape, Options};
use serde_json::{Value, json};

use crate::daemon::{Daemon, eventually, items};

const PODS: usize = 2_000;
const PODS_PER_SECOND: u64 = 500;
const NODES: usize = 20;
const PODS_PER_NODE: usize = 105;
const UPGRADES: usize = 4;

fn pod(index: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p-{index}"), "namespace": "load"},
        "spec": {"schedulerName": "quotient", "automountServiceAccountToken": false,
            // Nobody plays the nodes: they are not ready, and tainted.
            "tolerations": [{"operator": "Exists"}], "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m"}}}]}})
}

/// Makes all pods, no faster than the rate; gives how long it took.
fn make_pods(kubeconfig: &std::path::Path) -> Duration {
    let read = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    runtime.block_on(async move {
        let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
        let client = kube::Client::try_from(config.expect("a cluster")).expect("a client");
        let (version, kind, plural) = ("v1".to_string(), "Pod".to_string(), "pods".to_string());
        let resource = ApiResource { group: String::new(), api_version: version.clone(), version, kind, plural };
        let api: Api<DynamicObject> = Api::namespaced_with(client, "load", &resource);
        let begun = tokio::time::Instant::now();
        futures::stream::iter(0..PODS)
            .map(|index| {
                let api = &api;
                async move {
                    tokio::time::sleep_until(begun + Duration::from_micros(index as u64 * 1_000_000 / PODS_PER_SECOND))
                        .await;
                    let object: DynamicObject = serde_json::from_value(pod(index)).expect("it is an object");
                    api.create(&PostParams::default(), &object).await.expect("the pod is made");
                }
            })
            .buffer_unordered(64)
            .collect::<Vec<()>>()
            .await;
        begun.elapsed()
    })
}

#[test]
#[ignore = "takes a minute of all processors: `make storm`"]
fn upgrades_in_a_storm_of_pods() {
    let options = Options { audit: true, kwok: false, controller_manager: false, ..Options::default() };
    let plane = ControlPlane::start(options).expect("the control plane starts");
    plane.install(&quotient_api::crd::definitions()).expect("the kinds are installed");
    let allocatable = json!({"cpu": "64", "memory": "256Gi", "pods": PODS_PER_NODE.to_string()});
    plane.make_nodes("n", NODES, &NodeShape { allocatable, labels: json!({}) }).expect("the nodes are made");
    plane
        .apply(&[
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "load"}}),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "load"}}),
        ])
        .expect("the namespace is made");
    let start = || Daemon::start(&plane.kubeconfig(), &plane.folder().join("quotient.log"), &[]);
    let (mut leader, kubeconfig, begun) = (start(), plane.kubeconfig(), Instant::now());
    thread::sleep(Duration::from_secs(3));
    let made = thread::spawn(move || make_pods(&kubeconfig));
    for _ in 0..UPGRADES {
        let successor = start();
        thread::sleep(Duration::from_millis(1_200));
        std::mem::replace(&mut leader, successor).stop();
    }
    let took = made.join().expect("all pods are made");
    let bound = || items(&plane, "pods").iter().filter(|pod| !pod["spec"]["nodeName"].is_null()).count();
    eventually(&plane, "every pod is bound", || (bound() == PODS).then_some(()));
    let rate = PODS as f64 / took.as_secs_f64();
    println!("{PODS} pods at {rate:.0} a second, {UPGRADES} upgrades, all bound after {:?}", begun.elapsed());
    let mut held: BTreeMap<String, usize> = BTreeMap::new();
    for pod in items(&plane, "pods") {
        *held.entry(pod["spec"]["nodeName"].as_str().unwrap_or_default().to_string()).or_default() += 1;
    }
    assert!(held.values().all(|count| *count <= PODS_PER_NODE), "{held:?}");
    let bindings = crate::faults::town::bindings(&plane);
    assert_eq!(bindings.len(), PODS, "the API server's log has every bind");
    let twice: Vec<_> = bindings.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "bound twice: {twice:?}");
}
