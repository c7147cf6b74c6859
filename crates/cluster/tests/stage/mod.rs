//! A real API server that the tests of this folder share, one after another, and a scheduler that runs on it.

use std::fs::{self, File};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use quotient_api::Configuration;
use quotient_cluster::system::SYSTEMS;
use quotient_cluster::{LeaseSettings, LiveSettings, Metrics, connect};
use quotient_host::SharedObjects;
use quotient_testenv::{ControlPlane, Options};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// How long something may take to come about. It takes a second or two; the rest is for machines that do much else.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the schedulers log, and how much of it is shown when a test fails.
const LOG: &str = "quotient.log";
const LOG_LINES: usize = 60;

/// A control plane for one test at a time.
pub struct Stage {
    plane: MutexGuard<'static, ControlPlane>,
}

/// Waits until no other test uses the control plane, which is empty then.
pub fn stage() -> Stage {
    static PLANE: OnceLock<Mutex<ControlPlane>> = OnceLock::new();
    let plane = PLANE.get_or_init(|| {
        let plane = ControlPlane::start(Options::default()).expect("the control plane starts");
        let log = File::create(plane.folder().join(LOG)).expect("a log can be written");
        tracing_subscriber::fmt().with_ansi(false).with_writer(Mutex::new(log)).init();
        Mutex::new(plane)
    });
    Stage { plane: plane.lock().unwrap_or_else(PoisonError::into_inner) }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The next test finds nothing of this one. What fails here fails there.
        let finalizers = r#"{"metadata":{"finalizers":null}}"#;
        for pod in self.items("pods", None) {
            if !pod["metadata"]["finalizers"].is_null() {
                let (namespace, name) = (text(&pod, "/metadata/namespace"), text(&pod, "/metadata/name"));
                let _ = self.plane.kubectl(&["patch", "pod", &name, "-n", &namespace, "-p", finalizers]);
            }
        }
        let force = ["--all", "-A", "--force", "--grace-period=0", "--wait=false"];
        let _ = self.plane.kubectl(&[&["delete", "deployments,jobs"], &force[..2]].concat());
        let _ = self.plane.kubectl(&[&["delete", "pods"], &force[..]].concat());
        let _ = self.plane.kubectl(&["delete", "nodes,crds,pv", "--all"]);
        let _ = self.plane.kubectl(&["delete", "leases", "-n", "default", "--all"]);
        let namespaces = self.items("namespaces", None);
        let names = namespaces.iter().map(|namespace| text(namespace, "/metadata/name"));
        for name in names.filter(|name| name != "default" && !name.starts_with("kube-")) {
            let _ = self.plane.kubectl(&["delete", "namespace", &name, "--wait=false"]);
        }
    }
}

impl Stage {
    /// The way to the API server for one who may do everything.
    #[allow(dead_code)] // Not every test program asks for it.
    pub fn kubeconfig(&self) -> std::path::PathBuf {
        self.plane.kubeconfig()
    }

    pub fn plane(&mut self) -> &mut ControlPlane {
        &mut self.plane
    }

    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.plane.kubectl(arguments).expect("kubectl does it")
    }

    pub fn apply(&self, objects: &[Value]) {
        self.plane.apply(objects).expect("the objects are applied");
    }

    /// Makes a namespace that pods can be made in.
    pub fn namespace(&self, name: &str) {
        // One of that name of an earlier test may still be on its way out.
        let phase = ["get", "namespace", name, "-o", "jsonpath={.status.phase}", "--ignore-not-found"];
        self.eventually("no namespace of that name is leaving", || {
            self.plane.kubectl(&phase).ok().filter(|phase| phase != "Terminating")
        });
        self.apply(&[json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})]);
        let account = ["get", "serviceaccount", "default", "-n", name];
        self.eventually("the namespace has a service account", || self.plane.kubectl(&account).ok());
    }

    /// Makes a node that kwok plays.
    pub fn node(&self, name: &str, allocatable: Value) {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": allocatable, "capacity": allocatable},
        });
        let create = || self.plane.kubectl_with(&["create", "-f", "-"], &node.to_string());
        create().expect("the node is made");
        self.kubectl(&["wait", "--for=condition=Ready", "--timeout=120s", &format!("node/{name}")]);
    }

    pub fn items(&self, kind: &str, namespace: Option<&str>) -> Vec<Value> {
        let place = namespace.map_or(vec!["-A"], |namespace| vec!["-n", namespace]);
        let answer = self.plane.kubectl(&[&["get", kind, "-o", "json"], &place[..]].concat()).unwrap_or_default();
        let list: Value = serde_json::from_str(&answer).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    pub fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let answer = self.plane.kubectl(&["get", kind, name, "-n", namespace, "-o", "json"]).ok()?;
        serde_json::from_str(&answer).ok()
    }

    /// The names of the pods of a namespace that run and do not leave, in order, with their nodes.
    pub fn running(&self, namespace: &str) -> Vec<(String, String)> {
        let pods = self.items("pods", Some(namespace));
        let runs = |pod: &&Value| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null();
        pods.iter().filter(runs).map(|pod| (text(pod, "/metadata/name"), text(pod, "/spec/nodeName"))).collect()
    }

    /// What a pod's condition says about why it waits.
    pub fn waits_for(&self, namespace: &str, pod: &str) -> Option<String> {
        let pod = self.get("pod", namespace, pod)?;
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let scheduled = conditions.iter().find(|condition| condition["type"] == "PodScheduled")?;
        (scheduled["status"] == "False").then(|| text(scheduled, "/message"))
    }

    /// Waits until it comes about.
    pub fn eventually<T>(&self, what: &str, mut came: impl FnMut() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(value) = came() {
                return value;
            }
            if begun.elapsed() > PATIENCE {
                let pods = self.plane.kubectl(&["get", "pods", "-A", "-o", "wide"]).unwrap_or_default();
                let log = fs::read_to_string(self.plane.folder().join(LOG)).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let end = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
                panic!("after {} s still not so: {what}\n{pods}\n{end}", PATIENCE.as_secs());
            }
            thread::sleep(Duration::from_millis(200));
        }
    }

    /// Starts a scheduler.
    pub fn start(&self, configuration: Configuration) -> Live {
        self.start_with(configuration, Metrics::default())
    }

    /// The same, counting here.
    pub fn start_with(&self, configuration: Configuration, metrics: Metrics) -> Live {
        let kubeconfig = self.plane.kubeconfig();
        let (stop, stopped) = oneshot::channel::<Ending>();
        let counted = metrics.clone();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async move {
                let clients = connect(Some(&kubeconfig)).await.expect("the API server answers");
                let lease = LeaseSettings {
                    namespace: "default".to_string(),
                    name: "quotient".to_string(),
                    identity: format!("{:?}", thread::current().id()),
                    duration: Duration::from_secs(3),
                };
                let settings = LiveSettings {
                    configuration,
                    lease: Some(lease),
                    shadow: false,
                    scheduler: true,
                    controllers: true,
                    systems: SYSTEMS.to_vec(),
                    objects: SharedObjects::default(),
                };
                let (leave, left) = oneshot::channel();
                let run = quotient_cluster::run(clients, settings, counted, async move {
                    let _ = left.await;
                });
                tokio::pin!(run);
                tokio::select! {
                    () = &mut run => {}
                    ending = stopped => {
                        if ending.is_ok_and(|ending| ending == Ending::Gentle) {
                            let _ = leave.send(());
                            run.await;
                        }
                    }
                }
            });
            // Whatever is under way is cut off here.
            runtime.shutdown_background();
        });
        Live { metrics, stop: Some(stop), thread: Some(thread) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Gentle,
    Crash,
}

/// A running scheduler; it stops with the value.
pub struct Live {
    pub metrics: Metrics,
    stop: Option<oneshot::Sender<Ending>>,
    thread: Option<JoinHandle<()>>,
}

impl Live {
    /// Ends it in the middle of what it does, with the lease in its hand.
    pub fn crash(mut self) {
        self.end(Ending::Crash);
    }

    fn end(&mut self, ending: Ending) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(ending);
        }
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !thread::panicking() {
                ended.expect("the scheduler did not panic");
            }
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.end(Ending::Gentle);
    }
}

pub fn text(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_string()
}

/// A pod of ours with these requests, which are its limits too.
pub fn pod(namespace: &str, name: &str, requests: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulerName": "quotient", "terminationGracePeriodSeconds": 0, "containers": [
            {"name": "c", "image": "i", "resources": {"requests": requests, "limits": requests}}]},
    })
}
