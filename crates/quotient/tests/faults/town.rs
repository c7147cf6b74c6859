//! Three teams that want more than there is, and what must be so of them whatever happened.

use std::collections::BTreeMap;
use std::path::PathBuf;

use quotient_testenv::{ControlPlane, NodeShape, Options};
use serde_json::{Value, json};

use crate::daemon::{eventually, items};

pub const NODES: usize = 3;
pub const GPUS_PER_NODE: usize = 4;
pub const TEAMS: usize = 3;
/// What each team is owed, and the most it may hold.
pub const MIN: usize = 4;
pub const MAX: usize = 8;

const GPU: &str = "nvidia.com/gpu";
const QUOTAS: &str = "elasticquotas.nos.nebuly.com";

pub fn team(index: usize) -> String {
    format!("team-{index}")
}

pub fn node(index: usize) -> String {
    format!("n-{index}")
}

/// A control plane with nodes, teams and their quotas.
pub struct Town {
    pub plane: ControlPlane,
}

impl Town {
    pub fn new() -> Self {
        let plane =
            ControlPlane::start(Options { audit: true, ..Options::default() }).expect("the control plane starts");
        plane.install(&quotient_api::crd::definitions()).expect("the kinds are installed");
        let town = Town { plane };
        town.make_nodes(&(0..NODES).map(node).collect::<Vec<_>>());
        for index in 0..TEAMS {
            let name = team(index);
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            town.plane.apply(&[namespace]).expect("the namespace is made");
            town.set_quota(index, MIN, MAX);
            eventually(&town.plane, "the namespace is ready", || {
                town.plane.kubectl(&["get", "serviceaccount", "default", "-n", &name]).ok()
            });
        }
        town
    }

    pub fn log(&self) -> PathBuf {
        self.plane.folder().join("quotient.log")
    }

    /// Makes nodes, or those that went once more.
    pub fn make_nodes(&self, names: &[String]) {
        for name in names {
            eventually(&self.plane, "the node is not there", || self.plane.kubectl(&["get", "node", name]).err());
        }
        let gpus = GPUS_PER_NODE.to_string();
        let allocatable = json!({"cpu": "64", "memory": "256Gi", GPU: gpus, "pods": "110"});
        let shape = NodeShape { allocatable, labels: json!({}) };
        self.plane.make_named_nodes(names, &shape).expect("the nodes are made");
    }

    pub fn set_quota(&self, index: usize, min: usize, max: usize) {
        let quota = json!({
            "apiVersion": "nos.nebuly.com/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": "quota", "namespace": team(index)},
            "spec": {"min": {GPU: min}, "max": {GPU: max}},
        });
        self.plane.apply(&[quota]).expect("the quota is written");
    }

    /// How many pods a team wants, of a GPU each.
    pub fn want(&self, index: usize, replicas: usize) {
        let requests = json!({GPU: "1"});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "train", "namespace": team(index)},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "train"}},
                "template": {"metadata": {"labels": {"app": "train"}}, "spec": {
                    "schedulerName": "quotient", "terminationGracePeriodSeconds": 0, "containers": [
                        {"name": "c", "image": "i", "resources": {"requests": requests, "limits": requests}}]}}},
        });
        self.plane.apply(&[deployment]).expect("the work is there");
    }

    /// The pods that are there and not on their way out.
    pub fn pods(&self) -> Vec<Value> {
        let mut pods = items(&self.plane, "pods");
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods
    }

    /// No team holds more than it may, and no node more than it has, at any moment.
    pub fn check_ceilings(&self) {
        let mut held: BTreeMap<String, usize> = BTreeMap::new();
        for pod in items(&self.plane, "pods") {
            let over = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
            let (Some(node), false) = (pod["spec"]["nodeName"].as_str(), over) else { continue };
            let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default().to_string();
            *held.entry(namespace).or_default() += 1;
            *held.entry(node.to_string()).or_default() += 1;
        }
        for (who, held) in held {
            let most = if who.starts_with("team") { MAX } else { GPUS_PER_NODE };
            assert!(held <= most, "{who} holds {held} of {most}");
        }
    }

    /// In the end every team runs so much, all that it wants is there, and every quota says what a recount says.
    pub fn check(&self, runs: [usize; TEAMS]) {
        let is_running = |pod: &&Value| pod["status"]["phase"] == "Running";
        eventually(&self.plane, &format!("the teams run {runs:?}"), || {
            let pods = self.pods();
            let of = |index: usize| pods.iter().filter(move |pod| pod["metadata"]["namespace"] == team(index).as_str());
            let is_so = |index: usize| {
                of(index).filter(is_running).count() == runs[index]
                    && of(index).count() == MAX
                    && of(index).filter(|pod| !pod["spec"]["nodeName"].is_null()).count() == runs[index]
            };
            (0..TEAMS).all(is_so).then_some(())
        });
        self.check_ceilings();
        eventually(&self.plane, "the quotas say so", || {
            let quotas = items(&self.plane, QUOTAS);
            let used = |index: usize| {
                let quota = quotas.iter().find(|quota| quota["metadata"]["namespace"] == team(index).as_str())?;
                quota["status"]["used"][GPU].as_str()?.parse::<usize>().ok()
            };
            (0..TEAMS).all(|index| used(index) == Some(runs[index])).then_some(())
        });
        let bound_twice: Vec<String> =
            bindings(&self.plane).into_iter().filter(|(_, times)| *times > 1).map(|(pod, _)| pod).collect();
        assert_eq!(bound_twice, [] as [String; 0]);
    }
}

/// How often the API server accepted a binding of each pod, by its own log.
pub fn bindings(plane: &ControlPlane) -> BTreeMap<String, usize> {
    let log = std::fs::read_to_string(plane.audit_log()).expect("every request is logged");
    let mut bindings = BTreeMap::new();
    for line in log.lines() {
        let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
        let about = &entry["objectRef"];
        let is_accepted = entry["stage"] == "ResponseComplete" && entry["responseStatus"]["code"] == 201;
        if about["resource"] == "pods" && about["subresource"] == "binding" && is_accepted {
            *bindings.entry(format!("{}/{}", about["namespace"], about["name"])).or_default() += 1;
        }
    }
    bindings
}
