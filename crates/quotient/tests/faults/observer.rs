//! Watches the API server from outside, and says what must never be so. It shares nothing with the program: every
//! change of a pod is seen in order, and sums are made anew from what was seen.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use kube::api::{ApiResource, DynamicObject, ListParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::Value;

use crate::faults::town::{GPUS_PER_NODE, MAX};

/// What was seen so far.
#[derive(Debug, Default)]
pub struct Seen {
    pods: BTreeMap<String, Pod>,
    /// Victims with their claimants, as `namespace/name`.
    evicted_for: BTreeMap<String, String>,
    /// Claimants that were bound or went after somebody was evicted for them.
    served: BTreeMap<String, bool>,
    pub binds: usize,
    pub faults: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Pod {
    name: String,
    namespace: String,
    node: Option<String>,
    is_over: bool,
}

pub struct Observer {
    seen: Arc<Mutex<Seen>>,
    _runtime: tokio::runtime::Runtime,
}

impl Observer {
    /// Watches from now on.
    pub fn start(kubeconfig: &Path) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let read = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
        runtime.spawn(watch(read, seen.clone()));
        Observer { seen, _runtime: runtime }
    }

    /// How many binds it saw, and how many evictions for a claimant.
    pub fn counts(&self) -> (usize, usize) {
        let seen = self.seen.lock().expect("nobody panicked");
        (seen.binds, seen.evicted_for.len())
    }

    /// What was wrong so far.
    pub fn faults(&self) -> Vec<String> {
        self.seen.lock().expect("nobody panicked").faults.clone()
    }

    /// Claimants for whom somebody was evicted and that were neither bound nor went.
    pub fn unserved(&self) -> Vec<String> {
        let seen = self.seen.lock().expect("nobody panicked");
        seen.served.iter().filter(|(_, is_served)| !**is_served).map(|(claimant, _)| claimant.clone()).collect()
    }
}

async fn watch(kubeconfig: Kubeconfig, seen: Arc<Mutex<Seen>>) {
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let client = Client::try_from(config.expect("a cluster")).expect("a client");
    let pods = ApiResource {
        group: String::new(),
        version: "v1".to_string(),
        api_version: "v1".to_string(),
        kind: "Pod".to_string(),
        plural: "pods".to_string(),
    };
    let api: Api<DynamicObject> = Api::all_with(client, &pods);
    let mut version = String::new();
    loop {
        if version.is_empty() {
            let Ok(list) = api.list(&ListParams::default()).await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            version = list.metadata.resource_version.clone().unwrap_or_default();
            let objects: Vec<Value> =
                list.items.iter().map(|pod| serde_json::to_value(pod).unwrap_or_default()).collect();
            seen.lock().expect("nobody panicked").see_all(&objects);
        }
        // A server that restarts ends the watch; it goes on where it was, so that nothing is missed.
        let events = match api.watch(&WatchParams::default(), &version).await {
            Ok(events) => events,
            Err(kube::Error::Api(status)) if status.code == 410 => {
                version.clear();
                continue;
            }
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let mut events = std::pin::pin!(events);
        while let Some(Ok(event)) = events.next().await {
            let (object, is_gone) = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                WatchEvent::Deleted(object) => (object, true),
                WatchEvent::Error(status) if status.code == 410 => {
                    version.clear();
                    break;
                }
                _ => break,
            };
            version = object.metadata.resource_version.clone().unwrap_or(version);
            let object = serde_json::to_value(&object).unwrap_or_default();
            seen.lock().expect("nobody panicked").see(&object, is_gone);
        }
    }
}

/// How soon a server that does not answer is asked again.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

impl Seen {
    /// Takes in all pods that there are, where the server has forgotten what happened meanwhile.
    fn see_all(&mut self, objects: &[Value]) {
        let listed: Vec<&str> = objects.iter().filter_map(|pod| pod["metadata"]["uid"].as_str()).collect();
        let gone: Vec<String> = self.pods.keys().filter(|uid| !listed.contains(&uid.as_str())).cloned().collect();
        for uid in gone {
            if let Some(pod) = self.pods.remove(&uid) {
                self.serve(&pod.name);
            }
        }
        objects.iter().for_each(|pod| self.see(pod, false));
    }

    fn see(&mut self, object: &Value, is_gone: bool) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_string();
        let (uid, name) =
            (text("/metadata/uid"), format!("{}/{}", text("/metadata/namespace"), text("/metadata/name")));
        if is_gone {
            self.pods.remove(&uid);
            self.serve(&name);
            return;
        }
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let victim = conditions.into_iter().flatten().find(|c| c["reason"] == "PreemptionByScheduler");
        if let Some(claimant) = victim.and_then(|c| c["message"].as_str()?.rsplit(' ').next())
            && self.evicted_for.insert(name.clone(), claimant.to_string()).is_none()
        {
            self.served.entry(claimant.to_string()).or_insert(false);
        }
        let node = Some(text("/spec/nodeName")).filter(|node| !node.is_empty());
        let is_over = matches!(text("/status/phase").as_str(), "Succeeded" | "Failed");
        let pod = Pod { name: name.clone(), namespace: text("/metadata/namespace"), node: node.clone(), is_over };
        let before = self.pods.insert(uid, pod).and_then(|pod| pod.node);
        if let (Some(before), Some(node)) = (&before, &node)
            && before != node
        {
            self.faults.push(format!("{name} was bound to {before}, and then to {node}"));
        }
        if before.is_none() && node.is_some() {
            self.binds += 1;
            self.serve(&name);
            self.check(&name);
        }
    }

    fn serve(&mut self, name: &str) {
        if let Some(is_served) = self.served.get_mut(name) {
            *is_served = true;
        }
    }

    /// No node and no team holds more than it may, after this pod was bound.
    fn check(&mut self, name: &str) {
        let mut held: BTreeMap<&str, usize> = BTreeMap::new();
        for pod in self.pods.values().filter(|pod| !pod.is_over) {
            if let Some(node) = &pod.node {
                *held.entry(node).or_default() += 1;
                *held.entry(&pod.namespace).or_default() += 1;
            }
        }
        for (who, held) in held {
            let most = if who.starts_with("team") { MAX } else { GPUS_PER_NODE };
            if held > most {
                self.faults.push(format!("{who} holds {held} of {most} after {name} was bound"));
            }
        }
    }
}
