//! A live cluster at rest, read with the caller's rights or from a snapshot, stays as it is when it is simulated.

mod daemon;

use std::process::Output;

use quotient_testenv::{ControlPlane, NodeShape, Options};
use serde_json::{Value, json};

use daemon::{Daemon, eventually, items, quotient};

fn output(arguments: &[&str]) -> Output {
    quotient(arguments).output().expect("the program runs")
}

fn answer(arguments: &[&str]) -> Value {
    let output = output(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {said}"))
}

/// Every controller that makes pods, one of which asks for more than there is; quotas; and kinds of others.
fn workloads() -> Vec<Value> {
    let spec = |cpu: &str| {
        json!({"schedulerName": "quotient", "terminationGracePeriodSeconds": 0, "containers": [
            {"name": "c", "image": "i", "env": [{"name": "TOKEN", "value": "hunter2"}],
             "resources": {"requests": {"cpu": cpu}}}]})
    };
    let owned = |kind: &str, name: &str, mut more: Value| {
        more["selector"] = json!({"matchLabels": {"app": name}});
        more["template"] = json!({"metadata": {"labels": {"app": name}}, "spec": spec("1")});
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "team"}, "spec": more})
    };
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "team"},
        "spec": {"parallelism": 2, "completions": 2, "template": {"spec": spec("1")}}});
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    let mut waiting = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large", "namespace": "team"}});
    waiting["spec"] = spec("1000");
    vec![
        json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": "quota", "namespace": "team"}, "spec": {"min": {"cpu": "20"}, "max": {"cpu": "20"}}}),
        json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "defaults", "namespace": "team"},
            "spec": {"limits": [{"type": "Container", "defaultRequest": {"memory": "64Mi"}}]}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other", "namespace": "team"}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r", "namespace": "team"}}),
        owned("Deployment", "web", json!({"replicas": 2})),
        owned("StatefulSet", "db", json!({"replicas": 2, "serviceName": "db"})),
        owned("DaemonSet", "agent", json!({})),
        job,
        waiting,
    ]
}

#[test]
fn a_cluster_at_rest_stays_as_it_is() {
    let plane = ControlPlane::start(Options::default()).expect("the control plane starts");
    plane.install(&quotient_api::crd::definitions()).expect("the kinds are installed");
    let allocatable = json!({"cpu": "16", "memory": "64Gi", "pods": "110"});
    plane.make_nodes("n", 2, &NodeShape { allocatable, labels: json!({}) }).expect("the nodes are made");
    plane
        .apply(&[json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})])
        .expect("the namespace is made");
    eventually(&plane, "the namespace is ready", || {
        plane.kubectl(&["get", "serviceaccount", "default", "-n", "team"]).ok()
    });
    let _daemon = Daemon::start(&plane.kubeconfig(), &plane.folder().join("quotient.log"), &[]);
    plane.apply(&workloads()).expect("the work is there");
    let placed = || -> Vec<String> {
        let mut pods = items(&plane, "pods");
        pods.retain(|pod| pod["metadata"]["namespace"] == "team");
        let text = |pod: &Value, pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_owned();
        let mut shown: Vec<String> =
            pods.iter().map(|pod| format!("{} {}", text(pod, "/metadata/name"), text(pod, "/spec/nodeName"))).collect();
        shown.sort();
        shown
    };
    let stand = eventually(&plane, "all pods but one are placed", || {
        let pods = placed();
        let pending = pods.iter().filter(|pod| pod.ends_with(" -")).count();
        (pods.len() == 9 && pending == 1).then_some(pods)
    });

    let kubeconfig = plane.kubeconfig().display().to_string();
    let file = plane.folder().join("cluster.snapshot").display().to_string();
    let done = output(&["snapshot", &file, "--kubeconfig", &kubeconfig]);
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    let of_live = answer(&["simulate", "--from-cluster", "--kubeconfig", &kubeconfig, "-o", "json"]);
    let of_file = answer(&["simulate", "--from", &file, "-o", "json"]);
    for report in [&of_live, &of_file] {
        let step = &report["steps"][0];
        assert_eq!((&step["bound"], &step["evicted"]), (&json!([]), &json!([])), "{step:#}");
        assert_eq!((&step["rejected"], &step["problems"]), (&json!([]), &json!([])), "{step:#}");
        let mut pods: Vec<String> = report["pods"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|pod| pod["namespace"] == "team")
            .map(|pod| format!("{} {}", pod["name"].as_str().unwrap_or(""), pod["node"].as_str().unwrap_or("-")))
            .collect();
        pods.sort();
        assert_eq!(pods, stand);
    }
    let text = |report: &Value| json!([report["pods"], report["quotas"], report["nodes"]]).to_string();
    assert_eq!(text(&of_live), text(&of_file), "a snapshot says what the live cluster says");

    let explained = answer(&["explain", "team/large", "--kubeconfig", &kubeconfig, "-o", "json"]);
    let condition = items(&plane, "pods")
        .into_iter()
        .find(|pod| pod["metadata"]["name"] == "large")
        .and_then(|pod| pod["status"]["conditions"][0]["message"].as_str().map(str::to_owned));
    assert_eq!(explained["reason"]["message"].as_str().map(str::to_owned), condition, "live and offline agree");
    for command in ["tree", "top"] {
        answer(&[command, "--kubeconfig", &kubeconfig, "-o", "json"]);
    }

    let nobody = plane.kubeconfig_of("nobody", &[]).expect("a user can be made").display().to_string();
    let blind = output(&["tree", "--kubeconfig", &nobody]);
    let said = String::from_utf8_lossy(&blind.stderr).into_owned();
    assert!(said.contains("note: not seen: pods: ") && said.contains("note: not seen: nodes: "), "{said}");
}
