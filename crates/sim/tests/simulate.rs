//! `simulate`: the report is what its contract says, byte for byte the same for the same input.

use quotient_sim::{Input, Report, Setup, simulate};
use serde_json::{Value, json};

fn input(file: &str, text: &str) -> Input {
    Input { file: file.to_string(), read: quotient_api::read(file, text) }
}

fn run(files: &[(&str, &str)]) -> Report {
    let inputs = files.iter().map(|(file, text)| input(file, text)).collect();
    simulate(Setup::default(), inputs, &mut |_| {}).expect("the cluster settles")
}

fn as_json(report: &Report) -> Value {
    serde_json::to_value(report).expect("a report is JSON")
}

const CLUSTER: &str = "
apiVersion: v1
kind: Node
metadata: {name: n-0}
status: {allocatable: {cpu: '2', memory: 4Gi, pods: '10'}, conditions: [{type: Ready, status: 'True'}]}
---
apiVersion: v1
kind: Node
metadata: {name: n-9}
status: {allocatable: {cpu: two, memory: 4Gi, pods: '10'}, conditions: [{type: Ready, status: 'True'}]}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: low, namespace: a}
  spec: {priority: 0, containers: [{name: c, image: i, resources: {requests: {cpu: 1500m}}}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: running, namespace: a}
  spec: {nodeName: n-0, priority: 5000, containers: [{name: c, image: i, resources: {requests: {cpu: 500m, memory: 512Mi}}}]}
";

const CLAIM: &str = "
apiVersion: v1
kind: Pod
metadata: {name: high, namespace: b}
spec: {priority: 1000, containers: [{name: c, image: i, resources: {requests: {cpu: '1'}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: huge, namespace: b}
spec: {priority: 0, containers: [{name: c, image: i, resources: {requests: {cpu: '64'}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: refused, namespace: b}
spec: {priorityClassName: nothing, containers: [{name: c, image: i}]}
---
apiVersion: quotient.dev/v1alpha1
kind: Scenario
metadata: {name: s}
spec: {steps: []}
";

#[test]
fn the_report_has_the_shape_of_its_contract() {
    let report = as_json(&run(&[("1-cluster.yaml", CLUSTER), ("2-claim.yaml", CLAIM)]));

    let first = &report["steps"][0];
    assert_eq!(first["file"], "1-cluster.yaml");
    assert_eq!(first["bound"], json!([{"namespace": "a", "name": "low", "node": "n-0"}]));
    assert_eq!((&first["evicted"], &first["rejected"]), (&json!([]), &json!([])));
    assert_eq!(first["problems"][0]["object"], "Node/n-9");
    assert!(first["problems"][0]["message"].as_str().is_some_and(|m| m.contains("two")), "{first}");

    let second = &report["steps"][1];
    assert_eq!(second["bound"], json!([{"namespace": "b", "name": "high", "node": "n-0"}]));
    let evicted = &second["evicted"][0];
    assert_eq!(
        (&evicted["namespace"], &evicted["name"], &evicted["node"], &evicted["for"], &evicted["rule"]),
        (&json!("a"), &json!("low"), &json!("n-0"), &json!("b/high"), &json!("priority.preempt"))
    );
    assert!(evicted["message"].as_str().is_some_and(|message| !message.is_empty()));
    assert_eq!(second["evicted"].as_array().map(Vec::len), Some(1));
    assert_eq!(second["rejected"][0]["object"], "Pod/b/refused");
    assert_eq!(second["problems"][0]["object"], "Scenario/s");

    let pods = report["pods"].as_array().expect("a list");
    let standing: Vec<_> =
        pods.iter().map(|p| format!("{}/{} {} {}", p["namespace"], p["name"], p["phase"], p["node"])).collect();
    assert_eq!(
        standing,
        [
            r#""a"/"low" "Evicted" null"#,
            r#""a"/"running" "Running" "n-0""#,
            r#""b"/"high" "Running" "n-0""#,
            r#""b"/"huge" "Pending" null"#,
        ]
    );
    let keys = |value: &Value| -> Vec<String> { value.as_object().expect("a mapping").keys().cloned().collect() };
    assert_eq!(keys(&pods[0]), ["namespace", "name", "phase", "node", "capacity", "quotas", "reason"]);
    assert_eq!(
        (&pods[1]["reason"], &pods[1]["capacity"], &pods[1]["quotas"]),
        (&json!(null), &json!(null), &json!([]))
    );
    let reason = &pods[3]["reason"];
    assert_eq!(
        keys(reason),
        ["code", "message", "quota", "resource", "used", "requested", "limit", "shortBy", "remedies"]
    );
    assert_eq!(reason["code"], "NoFittingNode");

    assert_eq!(keys(&report), ["steps", "pods", "quotas", "nodes"]);
    let node = &report["nodes"][0];
    assert_eq!(keys(node), ["name", "allocatable", "used", "cards", "cap", "capUsed"]);
    assert_eq!(node["name"], "n-0");
    assert_eq!(node["allocatable"], json!({"cpu": "2", "memory": "4Gi", "pods": "10"}));
    assert_eq!(node["used"], json!({"cpu": "1500m", "memory": "512Mi", "pods": "2"}));
}

#[test]
fn a_bare_pod_that_is_applied_again_is_not_evicted_any_more() {
    let again = "
apiVersion: v1
kind: Pod
metadata: {name: low, namespace: a}
spec: {priority: 0, containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}
";
    let report = run(&[("1", CLUSTER), ("2", CLAIM), ("3", again)]);
    let low: Vec<_> = report.pods.iter().filter(|pod| pod.name == "low").collect();
    assert_eq!(low.len(), 1);
    assert_eq!(low[0].node.as_deref(), Some("n-0"));
}

#[test]
fn pods_of_other_schedulers_take_room_and_are_left_alone() {
    let pods = "
apiVersion: v1
kind: Pod
metadata: {name: ours, namespace: a}
spec: {schedulerName: quotient, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: theirs, namespace: a}
spec: {schedulerName: default-scheduler, containers: [{name: c, image: i}]}
";
    let node_of = |scheduler_names: Option<Vec<String>>| {
        let setup = Setup { scheduler_names, ..Setup::default() };
        let report = simulate(setup, vec![input("1", CLUSTER), input("2", pods)], &mut |_| {}).expect("it settles");
        let bound = |name: &str| report.pods.iter().any(|pod| pod.name == name && pod.node.is_some());
        (bound("ours"), bound("theirs"))
    };
    assert_eq!(node_of(None), (true, true));
    assert_eq!(node_of(Some(vec!["quotient".to_string()])), (true, false));
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let workload = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: a}
spec:
  replicas: 12
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web, resources: {requests: {cpu: 100m}}}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: work, namespace: a}
spec:
  parallelism: 3
  completions: 5
  template: {spec: {restartPolicy: Never, containers: [{name: work, image: work, resources: {requests: {cpu: 100m}}}]}}
";
    let bytes = || {
        let report = run(&[("1", CLUSTER), ("2", workload), ("3", CLAIM)]);
        serde_json::to_string_pretty(&report).expect("a report is JSON")
    };
    let first = bytes();
    assert!(first.contains("web-") && first.contains("work-"), "{first}");
    assert_eq!(first, bytes());
}

#[test]
fn progress_is_told_after_each_file() {
    let mut told = Vec::new();
    let inputs = vec![input("1", CLUSTER), input("2", CLAIM)];
    simulate(Setup::default(), inputs, &mut |p| told.push((p.step.to_string(), p.done, p.total))).expect("it settles");
    assert_eq!(told, [("1".to_string(), 1, 2), ("2".to_string(), 2, 2)]);
}

#[test]
fn age_counts_as_it_is_written_where_it_is() {
    let pods = "
apiVersion: v1
kind: Pod
metadata: {name: first, namespace: a, creationTimestamp: '2025-03-02T00:00:00Z'}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '2'}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: second, namespace: a, creationTimestamp: '2025-03-01T00:00:00Z'}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '2'}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: third, namespace: a, creationTimestamp: null}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '2'}}}]}
";
    let node = "
apiVersion: v1
kind: Node
metadata: {name: n}
status: {allocatable: {cpu: '2', memory: 4Gi, pods: '10'}}
";
    let report = run(&[("1", pods), ("2", node)]);
    let bound: Vec<_> = report.steps[1].bound.iter().map(|bound| bound.name.as_str()).collect();
    assert_eq!(bound, ["second"]);
}

const QUOTAS: &str = "
apiVersion: v1
kind: Node
metadata: {name: n-0}
status: {allocatable: {cpu: '4', nvidia.com/gpu: '4', pods: '10'}}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: q, namespace: a}
spec: {min: {nvidia.com/gpu: 1}, max: {nvidia.com/gpu: 4}}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: q, namespace: b}
spec: {min: {nvidia.com/gpu: 3}}
---
apiVersion: v1
kind: Pod
metadata: {name: borrows, namespace: a}
spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 3}}}]}
";

/// Of the same name as one of the others, in another pool.
const FAIR: &str = "
apiVersion: nos.nebuly.com/v1alpha1
kind: ElasticQuota
metadata: {name: q, namespace: a}
spec: {min: {nos.nebuly.com/gpu-memory: 64}}
";

const CLAIMS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: claims, namespace: b}
spec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 2}}}]}
";

#[test]
fn quotas_are_reported_by_names_that_tell_them_apart() {
    let report = as_json(&run(&[("quotas.yaml", QUOTAS), ("fair.yaml", FAIR)]));
    let pod = &report["pods"][0];
    assert_eq!(pod["quotas"], json!(["ElasticQuota.nos.nebuly.com/a/q", "ElasticQuota.scheduling.x-k8s.io/a/q"]));
    assert_eq!(pod["capacity"], "in-quota");
    let quotas = report["quotas"].as_array().expect("a list");
    let names: Vec<&str> = quotas.iter().filter_map(|quota| quota["object"].as_str()).collect();
    let expected = ["ElasticQuota.nos.nebuly.com/a/q", "ElasticQuota.scheduling.x-k8s.io/a/q", "ElasticQuota/b/q"];
    assert_eq!(names, expected);
    let expected = json!({
        "object": "ElasticQuota.scheduling.x-k8s.io/a/q", "policy": "elastic", "parent": null, "tree": null,
        "min": {"nvidia.com/gpu": "1"}, "max": {"nvidia.com/gpu": "4"}, "used": {"nvidia.com/gpu": "3"},
        "entitlement": {"nvidia.com/gpu": "1"}, "runtime": {}, "borrowed": {"nvidia.com/gpu": "2"}, "lent": {},
    });
    assert_eq!(quotas[1], expected);
    assert_eq!(quotas[0]["used"], json!({"nos.nebuly.com/gpu-memory": "48", "nvidia.com/gpu": "3"}));
    assert_eq!(quotas[2]["lent"], json!({"nvidia.com/gpu": "2"}));
}

#[test]
fn an_eviction_says_by_which_rule_and_for_whom() {
    let report = as_json(&run(&[("quotas.yaml", QUOTAS), ("claims.yaml", CLAIMS)]));
    let evicted = &report["steps"][1]["evicted"][0];
    assert_eq!(
        (&evicted["name"], &evicted["for"], &evicted["rule"]),
        (&json!("borrows"), &json!("b/claims"), &json!("elastic.reclaim"))
    );
    let setup = Setup::default();
    let mut cluster = quotient_sim::Cluster::new(setup);
    for text in [QUOTAS, CLAIMS] {
        for document in quotient_api::read("f", text).documents {
            cluster.apply(document.value).expect("it is let in");
        }
        cluster.settle().expect("it settles");
    }
    let victim = quotient_api::ObjectKey::pod("a", "borrows");
    let (reason, message) = cluster.events(&victim).find(|(reason, _)| *reason == "Preempted").expect("an event");
    let said = "Preempted by a pod of another namespace (elastic.reclaim): evicted to make room on";
    assert!(message.starts_with(said) && !message.contains("b/claims"), "{reason}: {message}");
}

#[test]
fn an_eviction_says_the_entitlement_before_and_after() {
    // What the pool leaves unused is shared by min, 1 to 3: three of the four before, two after.
    let fair = QUOTAS.replace("scheduling.x-k8s.io", "nos.nebuly.com");
    let report = as_json(&run(&[("quotas.yaml", &fair), ("claims.yaml", CLAIMS)]));
    let message = report["steps"][1]["evicted"][0]["message"].as_str().expect("a sentence");
    let claimant = "(ElasticQuota/b/q: nvidia.com/gpu from 0 to 2, entitled to 5 and then to 4)";
    let victim = "(ElasticQuota/a/q: nvidia.com/gpu from 3 to 0, entitled to 1)";
    assert!(message.contains(claimant) && message.contains(victim), "{message}");
    let entitled = |at: usize| report["quotas"][at]["entitlement"]["nvidia.com/gpu"].as_str();
    assert_eq!((entitled(0), entitled(1)), (Some("1"), Some("4")), "what was foretold came to be");
}

#[test]
fn a_status_is_written_when_it_changes_and_only_then() {
    let mut cluster = quotient_sim::Cluster::new(Setup::default());
    for document in quotient_api::read("f", QUOTAS).documents {
        cluster.apply(document.value).expect("it is let in");
    }
    cluster.settle().expect("it settles");
    let keys = quotient_api::ObjectKey::parse("ElasticQuota.scheduling.x-k8s.io/a/q").expect("a key");
    let written = cluster.store().get(&keys[0]).expect("it is there").clone();
    assert_eq!(written["status"], json!({"used": {"nvidia.com/gpu": "3"}, "borrowed": {"nvidia.com/gpu": "2"}}));
    cluster.restart();
    cluster.settle().expect("it settles");
    assert_eq!(*cluster.store().get(&keys[0]).expect("it is there"), written, "not even its version changed");
}
