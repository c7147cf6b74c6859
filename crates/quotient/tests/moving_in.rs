//! A cluster that kube-scheduler runs moves to Quotient: `migrate` reads it, and `run --shadow --compare` counts for
//! each bind of kube-scheduler what it would have done.

use crate::daemon;
use crate::schema;

use std::process::{Child, Command, Stdio};

use quotient_testenv::{ControlPlane, NodeShape, Options};
use serde_json::{Value, json};

use daemon::{Daemon, ask, eventually, items, quotient};

/// kube-scheduler as a process, killed with the value.
struct Incumbent(Child);

impl Incumbent {
    /// One that schedules pods with the name `batch`.
    fn start(plane: &ControlPlane) -> Self {
        let kubeconfig = plane.kubeconfig().display().to_string();
        let text = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
             leaderElection: {{leaderElect: false}}\nclientConnection: {{kubeconfig: {kubeconfig}}}\n\
             profiles:\n- schedulerName: batch\n"
        );
        let file = plane.folder().join("kube-scheduler.yaml");
        std::fs::write(&file, &text).expect("a file can be written");
        let log = std::fs::File::create(plane.folder().join("kube-scheduler.log")).expect("a log");
        let child = Command::new(plane.programs().join("kube-scheduler"))
            .args([format!("--config={}", file.display()), "--secure-port=0".to_string()])
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the same log"))
            .stderr(log)
            .spawn();
        Incumbent(child.expect("kube-scheduler runs"))
    }
}

impl Drop for Incumbent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The configuration of scheduler-plugins, as a cluster keeps it. kube-scheduler stands in for it: it knows no quotas.
const CONFIGURATION: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: batch
  plugins: {multiPoint: {enabled: [{name: CapacityScheduling}]}}
  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]
";

fn pod(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "team"},
        "spec": {"schedulerName": "batch", "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}})
}

/// A quota of two cores, which kube-scheduler ignores.
fn set_up(plane: &ControlPlane) {
    let definitions: Vec<Value> = quotient_api::crd::definitions()
        .into_iter()
        .filter(|definition| definition["metadata"]["name"] == "elasticquotas.scheduling.x-k8s.io")
        .collect();
    plane.install(&definitions).expect("the kind is served");
    plane.make_nodes("n", 2, &NodeShape::default()).expect("the nodes are made");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    let quota = json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": "team", "namespace": "team"}, "spec": {"min": {"cpu": "2"}, "max": {"cpu": "2"}}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "batch-scheduler", "namespace": "kube-system"},
        "data": {"config.yaml": CONFIGURATION}});
    let secret = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other", "namespace": "team"},
        "data": {"password": "hunter2"}});
    plane.apply(&[namespace, quota, map, secret]).expect("they apply");
}

fn is_bound(plane: &ControlPlane, name: &str) -> bool {
    let pods = items(plane, "pods");
    pods.iter().any(|pod| pod["metadata"]["name"] == name && pod["spec"]["nodeName"].is_string())
}

fn run_pods(plane: &ControlPlane, pods: &[(&str, &str)]) {
    let objects: Vec<Value> = pods.iter().map(|(name, cpu)| pod(name, cpu)).collect();
    plane.apply(&objects).expect("they apply");
    eventually(plane, "kube-scheduler binds them", || pods.iter().all(|(name, _)| is_bound(plane, name)).then_some(()));
}

fn migrate(plane: &ControlPlane) -> Value {
    let kubeconfig = plane.kubeconfig().display().to_string();
    let output = quotient(&["migrate", "--kubeconfig", &kubeconfig, "-o", "json"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("hunter2"), "other ConfigMaps are nobody's business");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[test]
fn a_cluster_of_kube_scheduler_moves_in() {
    let plane = ControlPlane::start(Options::default()).expect("the control plane starts");
    let _incumbent = Incumbent::start(&plane);
    set_up(&plane);
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    let (address, log) = (format!("127.0.0.1:{port}"), plane.folder().join("quotient.log"));
    let config = plane.folder().join("quotient.yaml");
    std::fs::write(
        &config,
        "apiVersion: quotient.dev/v1alpha1\nkind: QuotientConfiguration\nschedulerNames: [batch]\n",
    )
    .expect("a file can be written");
    let config = config.display().to_string();
    let flags =
        ["--shadow", "--compare", "--compare-every", "2s", "--metrics", &address, "--profiling", "--config", &config];
    let daemon = Daemon::start(&plane.kubeconfig(), &log, &flags);
    eventually(&plane, "it is ready", || ask(port, "/readyz").filter(|(status, _)| *status == 200));

    // Within the quota both bind; beyond it only kube-scheduler does.
    run_pods(&plane, &[("first", "1"), ("second", "1")]);
    run_pods(&plane, &[("beyond", "1")]);
    let report = eventually(&plane, "three binds are compared", || {
        let (status, body) = ask(port, "/comparison")?;
        assert_eq!(status, 200, "{body}");
        let report: Value = serde_json::from_str(&body).ok()?;
        (report["binds"]["theirs"].as_u64() >= Some(3)).then_some(report)
    });
    schema::check("answer /comparison", &report, "/comparison");
    let binds = &report["binds"];
    assert_eq!((&binds["theirs"], &binds["agreed"]), (&json!(3), &json!(2)), "{report:#}");
    assert_eq!(binds["heldByReason"], json!({"QuotaMaxExceeded": 1}), "{report:#}");
    let example = &binds["examples"]["held"][0];
    assert_eq!(example["pod"], "team/beyond", "{report:#}");
    assert!(example["ours"].as_str().is_some_and(|ours| ours.contains("QuotaMaxExceeded")), "{report:#}");
    let (_, metrics) = ask(port, "/metrics").expect("metrics are served");
    assert!(metrics.contains("quotient_comparisons_total{of=\"bind\",outcome=\"held\"} 1"), "{metrics}");

    let (status, profile) = ask(port, "/debug/profile?seconds=1").expect("an answer");
    let profile: Value = serde_json::from_str(&profile).unwrap_or_else(|error| panic!("{status} {error}"));
    assert!(profile["memory"]["VmRSS"].as_u64() > Some(0), "{profile}");
    assert_eq!(ask(port, "/debug/profile?seconds=99").map(|(status, _)| status), Some(400));

    eventually(&plane, "a summary is logged", || {
        let said = std::fs::read_to_string(&log).ok()?;
        said.lines().any(|line| line.contains("compared with the incumbent") && line.contains("held=1")).then_some(())
    });
    // It wrote nothing.
    let pods = items(&plane, "pods");
    let writers = pods.iter().filter_map(|pod| pod["metadata"]["managedFields"].as_array()).flatten();
    assert!(writers.filter_map(|entry| entry["manager"].as_str()).all(|manager| manager != "quotient"));
    daemon.stop();

    let answer = migrate(&plane);
    let incumbent = &answer["incumbents"][0];
    assert_eq!((&incumbent["system"], &incumbent["pods"]), (&json!("scheduler-plugins"), &json!(3)), "{answer:#}");
    assert_eq!(incumbent["schedulerNames"], json!(["batch"]), "{answer:#}");
    assert!(answer["differs"].to_string().contains("not MostAllocated"), "{answer:#}");
    assert_eq!((&answer["today"]["bound"], &answer["today"]["evicted"]), (&json!([]), &json!([])), "{answer:#}");
    let steps = answer["steps"].as_array().expect("a list");
    assert!(steps.iter().any(|step| step["commands"].to_string().contains("run --shadow --compare")), "{answer:#}");
}
