//! A live cluster at rest, read with the caller's rights or from a snapshot, stays as it is when it is simulated.

use crate::daemon;
use crate::schema;

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

fn spec(cpu: &str) -> Value {
    json!({"schedulerName": "quotient", "terminationGracePeriodSeconds": 0, "containers": [
        {"name": "c", "image": "i", "env": [{"name": "TOKEN", "value": "hunter2"}],
         "resources": {"requests": {"cpu": cpu}}}]})
}

/// Every controller that makes pods, quotas, and kinds of others.
fn workloads() -> Vec<Value> {
    let owned = |kind: &str, name: &str, mut more: Value| {
        more["selector"] = json!({"matchLabels": {"app": name}});
        more["template"] = json!({"metadata": {"labels": {"app": name}}, "spec": spec("1")});
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "team"}, "spec": more})
    };
    let mut once = spec("1");
    once["restartPolicy"] = json!("Never");
    let mut controlled = owned("ReplicationController", "old", json!({"replicas": 1}));
    controlled["apiVersion"] = json!("v1");
    controlled["spec"]["selector"] = json!({"app": "old"});
    vec![
        json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": "quota", "namespace": "team"}, "spec": {"min": {"cpu": "20"}, "max": {"cpu": "20"}}}),
        json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "defaults", "namespace": "team"},
            "spec": {"limits": [{"type": "Container", "defaultRequest": {"memory": "64Mi"}}]}}),
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all", "namespace": "team"},
            "spec": {"hard": {"pods": "40"}}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other", "namespace": "team"}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r", "namespace": "team"}}),
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}}}]}}),
        owned("Deployment", "web", json!({"replicas": 2})),
        owned("ReplicaSet", "bare", json!({"replicas": 1})),
        controlled,
        owned("StatefulSet", "db", json!({"replicas": 2, "serviceName": "db"})),
        owned("DaemonSet", "agent", json!({})),
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "team"},
            "spec": {"parallelism": 2, "completions": 2, "template": {"spec": once.clone()}}}),
        json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "gang", "namespace": "team"},
            "spec": {"minAvailable": 2, "schedulerName": "quotient",
                "tasks": [{"name": "w", "replicas": 2, "template": {"spec": once}}]}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone", "namespace": "team"}, "spec": spec("1")}),
    ]
}

/// The pods that [`workloads`] makes: two each of five owners (the DaemonSet has two nodes), and three alone.
const PODS: usize = 13;

/// A control plane with two nodes, and a scheduler.
fn begin() -> (ControlPlane, Daemon) {
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
    let daemon = Daemon::start(&plane.kubeconfig(), &plane.folder().join("quotient.log"), &[]);
    (plane, daemon)
}

/// The pods of the team with their nodes.
fn placed(plane: &ControlPlane) -> Vec<String> {
    let text = |pod: &Value, pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or("-").to_owned();
    let pods = items(plane, "pods");
    let pods = pods.iter().filter(|pod| pod["metadata"]["namespace"] == "team");
    let mut shown: Vec<String> =
        pods.map(|pod| format!("{} {}", text(pod, "/metadata/name"), text(pod, "/spec/nodeName"))).collect();
    shown.sort();
    shown
}

#[test]
fn a_cluster_at_rest_stays_as_it_is() {
    let (plane, _daemon) = begin();
    plane.apply(&workloads()).expect("the work is there");
    eventually(&plane, "all pods are placed", || {
        let pods = placed(&plane);
        (pods.len() == PODS && pods.iter().all(|pod| !pod.ends_with(" -"))).then_some(())
    });
    // The numbers of a condition are those of the moment at which the pod was last tried, and nobody tries it again
    // while nothing changes in its favour: it comes when all others have their nodes.
    let large = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large", "namespace": "team"},
        "spec": spec("1000")});
    plane.apply(&[large]).expect("the pod is made");
    let condition = eventually(&plane, "the large pod says why it is pending", || {
        let pods = items(&plane, "pods");
        let large = pods.iter().find(|pod| pod["metadata"]["name"] == "large")?;
        Some(large.pointer("/status/conditions/0/message")?.as_str()?.to_owned())
    });
    let used = eventually(&plane, "the quota says what is used", || {
        let quota = items(&plane, "elasticquotas.scheduling.x-k8s.io").into_iter().next()?;
        let used = quota["status"]["used"]["cpu"].clone();
        (used.as_str()?.parse() == Ok(PODS)).then_some(used)
    });
    let stand = placed(&plane);

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
        let pods = report["pods"].as_array().expect("a list").iter().filter(|pod| pod["namespace"] == "team");
        let mut pods: Vec<String> = pods
            .map(|pod| format!("{} {}", pod["name"].as_str().unwrap_or(""), pod["node"].as_str().unwrap_or("-")))
            .collect();
        pods.sort();
        assert_eq!(pods, stand);
        let quotas = report["quotas"].as_array().expect("a list");
        let quota = quotas.iter().find(|quota| quota["object"] == "ElasticQuota/team/quota").expect("it is there");
        assert_eq!(quota["used"]["cpu"], used, "{quota:#}");
    }

    for command in [&["tree"][..], &["top"], &["explain", "team/large"], &["explain", "job/team/train"]] {
        let live = answer(&[command, &["--kubeconfig", &kubeconfig, "-o", "json"]].concat());
        let offline = answer(&[command, &["--from", &file, "-o", "json"]].concat());
        assert_eq!(live, offline, "{command:?}: a snapshot says what the live cluster says");
    }
    let explained = answer(&["explain", "team/large", "--from", &file, "-o", "json"]);
    assert_eq!(explained["reason"]["message"], condition, "live and offline agree");

    let typed = output(&["complete", "--", "explain", "--kubeconfig", &kubeconfig, "team/la"]);
    assert_eq!(String::from_utf8_lossy(&typed.stdout), "team/large\n:4\n", "names of live pods are completed");

    let checked = output(&["check", "--kubeconfig", &kubeconfig, "-o", "json"]);
    let found = serde_json::from_slice(&checked.stdout).expect("check answers in JSON, whatever it found");
    schema::check("command check", &found, "check");

    evictions_are_told(&plane, &kubeconfig, &file);

    a_part_of_the_cluster_is_not_guessed_from(&plane, &condition);
}

/// What a user is told who sees one namespace, and one who sees nothing.
fn a_part_of_the_cluster_is_not_guessed_from(plane: &ControlPlane, condition: &str) {
    let rbac = "rbac.authorization.k8s.io";
    let view = quotient_api::crd::definitions().into_iter().map(|definition| {
        let spec = &definition["spec"];
        json!({"apiGroups": [spec["group"]], "resources": [spec["names"]["plural"]], "verbs": ["get", "list", "watch"]})
    });
    let rights = [
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "rules": view.collect::<Vec<_>>(),
            "metadata": {"name": "quotient-view", "labels": {format!("{rbac}/aggregate-to-view"): "true"}}}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": {"name": "v", "namespace": "team"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "view"},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": "viewer"}]}),
    ];
    plane.apply(&rights).expect("rights are given");
    let kubeconfig = |user: &str| plane.kubeconfig_of(user, &[]).expect("a user can be made").display().to_string();
    let (viewer, nobody) = (kubeconfig("viewer"), kubeconfig("nobody"));
    let explained = eventually(plane, "the rights count", || {
        let output = output(&["explain", "team/large", "--kubeconfig", &viewer, "-o", "json"]);
        serde_json::from_slice::<Value>(&output.stdout).ok()
    });
    schema::check("command explain", &explained, "a part of the cluster");
    assert_eq!((&explained["phase"], &explained["reason"]), (&json!("Pending"), &Value::Null), "{explained:#}");
    assert_eq!((&explained["remedies"], &explained["quotas"]), (&json!([]), &json!([])), "{explained:#}");
    assert_eq!(explained["said"]["message"], condition, "{explained:#}");
    assert_eq!(explained["requests"]["cpu"], "1k", "{explained:#}");

    let seen = output(&["explain", "team/large", "--kubeconfig", &viewer]);
    let (out, notes) = (String::from_utf8_lossy(&seen.stdout), String::from_utf8_lossy(&seen.stderr));
    assert!(out.contains("team/large is pending, says the scheduler") && out.contains(condition), "{out}");
    assert!(notes.lines().count() == 2 && notes.contains("note: not seen: nodes, "), "{notes}");
    assert!(notes.contains("of other namespaces than team (you may not list them)"), "{notes}");
    let own = output(&["explain", "job/team/train", "--kubeconfig", &viewer]);
    assert!(String::from_utf8_lossy(&own.stdout).starts_with("Job/team/train: "), "{own:?}");

    let change = plane.folder().join("nothing.yaml").display().to_string();
    std::fs::write(&change, "{apiVersion: v1, kind: Namespace, metadata: {name: new}}").expect("it can be written");
    let guesses: [&[&str]; 5] = [
        &["tree"],
        &["top"],
        &["plan", "-f", &change],
        &["explain", "--try", &change],
        &["simulate", "--from-cluster"],
    ];
    for command in guesses {
        let refused = output(&[command, &["--kubeconfig", &viewer]].concat());
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{command:?}: {said}");
        assert!(said.contains("error: not answered, since it would be a guess: not seen: "), "{said}");
        assert!(refused.stdout.is_empty(), "{command:?}");
    }
    let blind = output(&["explain", "team/large", "--kubeconfig", &nobody]);
    let said = String::from_utf8_lossy(&blind.stderr).into_owned();
    assert!(said.ends_with("error: no pod \"team/large\": no pod is seen\n"), "{said}");
    assert!(said.starts_with("note: not seen: pods, nodes") && said.lines().count() == 2, "{said}");
}

/// A pod that evicts another under its own quota: the event of the victim says so, live and in a snapshot.
fn evictions_are_told(plane: &ControlPlane, kubeconfig: &str, file: &str) {
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "urgent"}, "value": 1000});
    plane.apply(&[class]).expect("the class is made");
    let mut urgent = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "urgent", "namespace": "team"},
        "spec": spec("8")});
    urgent["spec"]["priorityClassName"] = json!("urgent");
    plane.apply(&[urgent]).expect("the pod is made");
    let victim = eventually(plane, "a pod was evicted", || {
        let events = items(plane, "events");
        let event = events.iter().find(|event| event["reason"] == "Preempted")?;
        Some(event["involvedObject"]["name"].as_str()?.to_owned())
    });
    let done = output(&["snapshot", file, "--kubeconfig", kubeconfig]);
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    for from in [["--kubeconfig", kubeconfig], ["--from", file]] {
        let pod = format!("team/{victim}");
        let told = answer(&[&["explain", "eviction", &pod], &from[..], &["-o", "json"]].concat());
        let told = &told["evictions"][0];
        assert_eq!((&told["for"], &told["rule"]), (&json!("team/urgent"), &json!("quota.preempt")), "{told:#}");
        assert!(told["time"].is_string() && told["message"].as_str().is_some_and(|why| !why.is_empty()), "{told:#}");
    }
}
