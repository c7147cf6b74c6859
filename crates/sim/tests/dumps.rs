//! What `kubectl get -o yaml` writes down of a running cluster: it is taken as it is, and a cluster at rest stays so.

use quotient_sim::report::PodPhase;
use quotient_sim::{Input, Report, Setup, Simulation, simulate};
use serde_json::{Value, json};

fn input(file: &str, objects: &[Value]) -> Input {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    Input { file: file.to_string(), read: quotient_api::read(file, &list.to_string()) }
}

fn run(files: &[&[Value]]) -> Report {
    let inputs = files.iter().enumerate().map(|(i, objects)| input(&format!("{i}.json"), objects)).collect();
    simulate(Setup::default(), inputs, &mut |_| {}).expect("the cluster settles")
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": format!("node-{name}")},
        "status": {"allocatable": {"cpu": "100", "memory": "100Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn spec(cpu: &str) -> Value {
    json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]})
}

/// A running pod as an API server gives it, with the labels that the real controllers set.
fn pod(name: &str, node: &str, owner: (&str, &str, &str), labels: Value) -> Value {
    let (api_version, kind, owner) = owner;
    let mut spec = spec("1");
    spec["nodeName"] = json!(node);
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "a", "uid": format!("uid-{name}"),
            "creationTimestamp": "2026-10-01T00:00:00Z", "labels": labels,
            "ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": owner, "controller": true,
                "uid": format!("uid-{owner}")}]},
        "spec": spec,
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn workload(kind: &str, name: &str, replicas: u32) -> Value {
    let mut object = json!({"apiVersion": "apps/v1", "kind": kind,
        "metadata": {"name": name, "namespace": "a", "uid": format!("uid-{name}"),
            "creationTimestamp": "2026-09-01T00:00:00Z"},
        "spec": {"selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec("1")}}});
    if kind != "DaemonSet" {
        object["spec"]["replicas"] = json!(replicas);
    }
    object
}

/// Pods that run, as `namespace/name node`.
fn running(report: &Report) -> Vec<String> {
    let running = report.pods.iter().filter(|pod| pod.phase == PodPhase::Running);
    running.map(|pod| format!("{} {}", pod.name, pod.node.as_deref().unwrap_or_default())).collect()
}

/// Nothing is bound, evicted, refused or reported.
#[track_caller]
fn assert_at_rest(report: &Report) {
    for step in &report.steps {
        assert_eq!((step.bound.len(), step.evicted.len()), (0, 0), "{step:#?}");
        assert!(step.rejected.is_empty() && step.problems.is_empty(), "{step:#?}");
    }
}

#[test]
fn child_queues_may_stand_before_their_parents() {
    let queue = |name: &str, parent: Option<&str>| {
        let mut queue = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
            "metadata": {"name": name}, "spec": {"capability": {"cpu": "10"}}});
        if let Some(parent) = parent {
            queue["spec"]["parent"] = json!(parent);
        }
        queue
    };
    let quota = |name: &str, parent: Option<&str>| {
        let mut labels = json!({"quota.scheduling.koordinator.sh/is-parent": parent.is_none().to_string()});
        if let Some(parent) = parent {
            labels["quota.scheduling.koordinator.sh/parent"] = json!(parent);
        }
        json!({"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": name, "namespace": "kube-system", "labels": labels},
            "spec": {"min": {"cpu": "1"}, "max": {"cpu": "10"}}})
    };
    let report = run(&[&[
        node("n"),
        queue("r-vision", Some("research")),
        queue("research", None),
        quota("a-child", Some("parent")),
        quota("parent", None),
    ]]);
    assert_at_rest(&report);
    for object in ["Queue/r-vision", "Queue/research", "ElasticQuota/kube-system/a-child"] {
        assert!(report.quotas.iter().any(|quota| quota.object == object), "{object} in {:#?}", report.quotas);
    }
}

#[test]
fn pods_of_stateful_and_daemon_sets_stay_where_they_are() {
    let stateful = ("apps/v1", "StatefulSet", "db");
    let daemon = ("apps/v1", "DaemonSet", "agent");
    let objects = [
        node("n-0"),
        node("n-1"),
        workload("StatefulSet", "db", 2),
        pod("db-0", "n-1", stateful, json!({"app": "db", "controller-revision-hash": "db-6d5f8c7b9"})),
        pod("db-1", "n-1", stateful, json!({"app": "db", "controller-revision-hash": "db-6d5f8c7b9"})),
        workload("DaemonSet", "agent", 0),
        pod("agent-x7kq2", "n-0", daemon, json!({"app": "agent", "controller-revision-hash": "5c9d7"})),
        pod("agent-p8c4d", "n-1", daemon, json!({"app": "agent", "controller-revision-hash": "5c9d7"})),
    ];
    let report = run(&[&objects]);
    assert_at_rest(&report);
    assert_eq!(running(&report), ["agent-p8c4d n-1", "agent-x7kq2 n-0", "db-0 n-1", "db-1 n-1"]);

    // In two files, pods last: what was made meanwhile makes place.
    let (pods, others): (Vec<Value>, Vec<Value>) = objects.iter().cloned().partition(|o| o["kind"] == "Pod");
    let report = run(&[&others, &pods]);
    assert_eq!(running(&report), ["agent-p8c4d n-1", "agent-x7kq2 n-0", "db-0 n-1", "db-1 n-1"]);
}

#[test]
fn a_new_template_still_replaces_pods_from_elsewhere() {
    let stateful = ("apps/v1", "StatefulSet", "db");
    let set = workload("StatefulSet", "db", 1);
    let mut changed = set.clone();
    changed["spec"]["template"]["spec"] = spec("2");
    let labels = json!({"app": "db", "controller-revision-hash": "db-6d5f8c7b9"});
    let report = run(&[&[node("n-0"), set, pod("db-0", "n-0", stateful, labels)], &[changed]]);
    assert_eq!(report.steps[1].bound.len(), 1, "{:#?}", report.steps[1]);
    assert_eq!(report.nodes[0].used["cpu"], "2");
}

#[test]
fn a_deployment_without_its_replica_sets_keeps_its_pods() {
    let set = ("apps/v1", "ReplicaSet", "web-5d8f9");
    let labels = json!({"app": "web", "pod-template-hash": "5d8f9"});
    let pods = [pod("web-5d8f9-a", "n-0", set, labels.clone()), pod("web-5d8f9-b", "n-0", set, labels)];
    let deployment = workload("Deployment", "web", 2);
    let report = run(&[&[node("n-0"), deployment.clone(), pods[0].clone(), pods[1].clone()]]);
    assert_at_rest(&report);
    assert_eq!(running(&report), ["web-5d8f9-a n-0", "web-5d8f9-b n-0"]);
    // Deployment first, its pods in another file.
    let report = run(&[&[node("n-0"), deployment], &pods]);
    assert_eq!(running(&report), ["web-5d8f9-a n-0", "web-5d8f9-b n-0"]);
}

#[test]
fn a_deployment_with_its_replica_sets_is_at_rest() {
    let set = ("apps/v1", "ReplicaSet", "web-5d8f9");
    let labels = json!({"app": "web", "pod-template-hash": "5d8f9"});
    let deployment = workload("Deployment", "web", 1);
    let mut replica_set = workload("ReplicaSet", "web-5d8f9", 1);
    replica_set["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": true, "uid": "uid-web"}]);
    replica_set["spec"]["selector"]["matchLabels"] = labels.clone();
    replica_set["spec"]["template"] = deployment["spec"]["template"].clone();
    replica_set["spec"]["template"]["metadata"]["labels"] = labels.clone();
    let report = run(&[&[pod("web-5d8f9-a", "n-0", set, labels), replica_set, deployment, node("n-0")]]);
    assert_at_rest(&report);
    assert_eq!(running(&report), ["web-5d8f9-a n-0"]);
}

fn job(completions: u32, status: Value) -> Value {
    let mut template = json!({"spec": spec("1")});
    template["spec"]["restartPolicy"] = json!("Never");
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "a", "uid": "uid-j"},
        "spec": {"parallelism": 2, "completions": completions, "template": template}, "status": status})
}

#[test]
fn what_a_job_has_counted_is_counted_though_its_pods_are_gone() {
    let cases = [
        (job(5, json!({"succeeded": 5})), 0),
        (job(5, json!({"succeeded": 4})), 1),
        (job(5, json!({"succeeded": 1})), 2),
        (job(5, json!({})), 2),
    ];
    for (job, pods) in cases {
        let report = run(&[&[node("n"), job.clone()]]);
        assert_eq!(report.pods.len(), pods, "{}", job["status"]);
    }
    let mut indexed = job(4, json!({"succeeded": 3, "completedIndexes": "0-1,3"}));
    indexed["spec"]["completionMode"] = json!("Indexed");
    let report = run(&[&[node("n"), indexed]]);
    assert_eq!(report.pods.len(), 1, "{:#?}", report.pods);
    assert!(report.pods[0].name.starts_with("j-2-"), "{}", report.pods[0].name);
}

#[test]
fn a_running_pod_that_would_be_refused_today_is_counted() {
    let mut odd = pod("odd", "n-0", ("example.com/v1", "Thing", "t"), json!({}));
    odd["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "90"}, "limits": {"cpu": "10"}});
    let report = run(&[&[node("n-0"), odd.clone()]]);
    assert_eq!(running(&report), ["odd n-0"]);
    assert_eq!(report.nodes[0].used["cpu"], "90");
    assert!(report.steps[0].rejected.is_empty(), "{:#?}", report.steps[0]);
    assert!(report.steps[0].problems[0].message.contains("must not be more than the limit 10"), "{report:#?}");
    // A manifest that asks for the same is refused, as an API server refuses it.
    odd["metadata"].as_object_mut().expect("a map").remove("uid");
    assert_eq!(run(&[&[node("n-0"), odd]]).steps[0].rejected.len(), 1);
}

#[test]
fn pods_on_nodes_that_are_not_given_are_told_of() {
    let lost = pod("p", "n-7", ("example.com/v1", "Thing", "t"), json!({}));
    let simulation = Simulation::of(Setup::default(), vec![input("f", &[node("n-0"), lost])], &mut |_| {});
    let missing = simulation.expect("it settles").missing_nodes();
    assert_eq!(missing.into_iter().collect::<Vec<_>>(), [("n-7".to_owned(), 1)]);
}

#[test]
fn what_is_new_is_younger_than_what_was_written_down() {
    let old = pod("old", "n-0", ("example.com/v1", "Thing", "t"), json!({}));
    let new =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new", "namespace": "a"}, "spec": spec("1")});
    let inputs = vec![input("f", &[node("n-0"), old]), input("g", &[new])];
    let simulation = Simulation::of(Setup::default(), inputs, &mut |_| {}).expect("it settles");
    let created = |name: &str| {
        let key = quotient_api::ObjectKey::pod("a", name);
        simulation.cluster().store().get(&key).expect("it is there")["metadata"]["creationTimestamp"].clone()
    };
    let moment = |name: &str| quotient_api::time::parse_timestamp(created(name).as_str().expect("a text"));
    assert!(moment("new") > moment("old"), "{} {}", created("new"), created("old"));
}

#[test]
fn counts_beyond_reason_are_refused_with_a_line() {
    let mut deployment = workload("Deployment", "web", 1);
    deployment["spec"]["replicas"] = json!(1_000_000_000);
    let report = run(&[&[node("n"), deployment]]);
    let message = &report.steps[0].rejected[0].message;
    assert_eq!(message, "spec.replicas: 1000000000: at most 100000 pods of one object are simulated");
    let text = "apiVersion: quotient.dev/v1alpha1\nkind: Scenario\nmetadata: {name: s}\nspec:\n  steps:\n  - name: x\n    pods:\n    - {namespace: a, name: p, count: 99999999999}\n";
    let problems = quotient_sim::scenario::parse("s.yaml", text, std::path::Path::new(".")).expect_err("too many");
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["s.yaml:8: Scenario/s: step \"x\": pods[0].count: 99999999999: expected at most 100000"]);
}

#[test]
fn limit_ranges_and_resource_quotas_hold_for_new_pods() {
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "r", "namespace": "a"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "2"}, "default": {"cpu": "4"},
            "max": {"cpu": "50"}}]}});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "a"},
        "spec": {"hard": {"requests.cpu": "5", "pods": "10"}}});
    let new = |name: &str, resources: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "a"},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}})
    };
    // Pods come first in the file, as kubectl writes kinds it was asked for first.
    let objects = [
        new("defaulted", json!({})),
        new("large", json!({"requests": {"cpu": "60"}, "limits": {"cpu": "60"}})),
        new("second", json!({})),
        new("third", json!({})),
        range,
        quota,
        node("n"),
    ];
    let report = run(&[&objects]);
    assert_eq!(report.nodes[0].used["cpu"], "4", "two pods of the default request");
    let rejected: Vec<String> =
        report.steps[0].rejected.iter().map(|rejected| format!("{}: {}", rejected.object, rejected.message)).collect();
    assert_eq!(rejected.len(), 2, "{rejected:?}");
    assert!(rejected[0].starts_with("Pod/a/large: ") && rejected[0].contains("maximum cpu usage per Container is 50"));
    let expected =
        "Pod/a/third: exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=4, limited: requests.cpu=5";
    assert_eq!(rejected[1], expected);
}

#[test]
fn pods_that_exist_are_not_asked_by_limit_ranges_and_quotas_again() {
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "r", "namespace": "a"},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "500m"}, "default": {"cpu": "100m"}}]}});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "a"},
        "spec": {"hard": {"pods": "0"}}});
    let pod = pod("p", "n", ("example.com/v1", "Thing", "t"), json!({}));
    let report = run(&[&[range, quota, node("n"), pod]]);
    assert_at_rest(&report);
    assert_eq!(report.nodes[0].used["cpu"], "1");
}
