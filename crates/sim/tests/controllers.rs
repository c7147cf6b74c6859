//! What controllers do where names are not known beforehand, and what hangs together.

use std::time::Duration;

use quotient_api::{ObjectKey, kinds};
use quotient_sim::cluster::Outcome;
use quotient_sim::{Cluster, Setup};
use serde_json::{Value, json};

fn cluster(objects: &[Value]) -> Cluster {
    let mut cluster = Cluster::new(Setup::default());
    apply(&mut cluster, objects);
    cluster
}

fn apply(cluster: &mut Cluster, objects: &[Value]) {
    for object in objects {
        cluster.apply(object.clone()).unwrap_or_else(|refusal| panic!("{refusal}"));
    }
    cluster.settle().expect("it settles");
}

fn node(name: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"}},
    })
}

fn template(image: &str) -> Value {
    let containers = json!([{"name": "c", "image": image, "resources": {"requests": {"cpu": "1"}}}]);
    json!({"metadata": {"labels": {"app": "x"}}, "spec": {"restartPolicy": "Never", "containers": containers}})
}

fn job(spec: Value) -> Value {
    let mut job =
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "work", "namespace": "a"}, "spec": spec});
    job["spec"]["template"] = template("work");
    job
}

fn key(group: &str, kind: &str, name: &str) -> ObjectKey {
    ObjectKey::new(kinds::find(group, kind).expect("a known kind"), Some("a"), name)
}

fn get<'a>(cluster: &'a Cluster, group: &str, kind: &str, name: &str) -> &'a Value {
    cluster.store().get(&key(group, kind, name)).unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// The pods in a phase, by name.
fn pods(cluster: &Cluster, phase: &str) -> Vec<ObjectKey> {
    let in_phase = cluster.store().pods().filter(|(_, pod)| pod["status"]["phase"] == phase);
    in_phase.map(|(key, _)| key.clone()).collect()
}

fn end_one(cluster: &mut Cluster, outcome: Outcome) {
    let pod = pods(cluster, "Running").first().cloned().expect("a pod runs");
    cluster.end(&pod, outcome).expect("it exists");
    cluster.settle().expect("it settles");
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == kind && c["status"] == "True")
}

#[test]
fn a_job_runs_until_enough_pods_have_succeeded() {
    let mut cluster = cluster(&[node("n", "8"), job(json!({"parallelism": 2, "completions": 3}))]);
    assert_eq!(pods(&cluster, "Running").len(), 2);
    end_one(&mut cluster, Outcome::Succeeded);
    assert_eq!(pods(&cluster, "Running").len(), 2, "one of three is done, two are left");
    end_one(&mut cluster, Outcome::Succeeded);
    assert_eq!(pods(&cluster, "Running").len(), 1);
    end_one(&mut cluster, Outcome::Failed);
    assert_eq!(pods(&cluster, "Running").len(), 1, "a pod that fails is made anew");
    end_one(&mut cluster, Outcome::Succeeded);
    assert_eq!(pods(&cluster, "Running").len(), 0);
    let job = get(&cluster, "batch", "Job", "work");
    assert!(condition(job, "Complete").is_some(), "{job}");
    assert_eq!((&job["status"]["succeeded"], &job["status"]["failed"]), (&json!(3), &json!(1)));
}

#[test]
fn a_job_gives_up_after_its_backoff_limit() {
    let mut cluster = cluster(&[node("n", "8"), job(json!({"parallelism": 2, "completions": 2, "backoffLimit": 1}))]);
    end_one(&mut cluster, Outcome::Failed);
    assert_eq!(pods(&cluster, "Running").len(), 2);
    end_one(&mut cluster, Outcome::Failed);
    assert_eq!(pods(&cluster, "Running").len(), 0, "the others are stopped");
    let job = get(&cluster, "batch", "Job", "work");
    assert_eq!(condition(job, "Failed").map(|c| &c["reason"]), Some(&json!("BackoffLimitExceeded")));
}

#[test]
fn an_indexed_job_makes_each_index_once() {
    let spec = json!({"parallelism": 2, "completions": 2, "completionMode": "Indexed"});
    let mut cluster = cluster(&[node("n", "8"), job(spec)]);
    let index = "batch.kubernetes.io/job-completion-index";
    let indexes = |cluster: &Cluster| {
        let running = cluster.store().pods().filter(|(_, pod)| pod["status"]["phase"] == "Running");
        let mut indexes: Vec<_> = running.map(|(_, pod)| pod["metadata"]["annotations"][index].to_string()).collect();
        indexes.sort();
        indexes
    };
    assert_eq!(indexes(&cluster), ["\"0\"", "\"1\""]);
    let first = pods(&cluster, "Running")[0].clone();
    cluster.delete(&first).expect("it exists");
    cluster.settle().expect("it settles");
    assert_eq!(indexes(&cluster), ["\"0\"", "\"1\""], "a pod that is gone is made anew with its index");
}

#[test]
fn a_work_queue_job_is_done_when_one_succeeds_and_none_runs() {
    let mut cluster = cluster(&[node("n", "8"), job(json!({"parallelism": 2}))]);
    end_one(&mut cluster, Outcome::Succeeded);
    assert_eq!(pods(&cluster, "Running").len(), 1, "the other goes on, and none is added");
    end_one(&mut cluster, Outcome::Succeeded);
    assert!(condition(get(&cluster, "batch", "Job", "work"), "Complete").is_some());
}

#[test]
fn replicas_that_end_are_made_anew_and_dear_ones_stay() {
    let set = |replicas: i64| {
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "a"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "x"}}, "template": template("web")},
        })
    };
    let mut cluster = cluster(&[node("n", "8"), set(3)]);
    end_one(&mut cluster, Outcome::Failed);
    let running = pods(&cluster, "Running");
    assert_eq!(running.len(), 3);
    let dear = running[2].clone();
    let mut pod = (**cluster.store().get(&dear).expect("it runs")).clone();
    pod["metadata"]["annotations"] = json!({"controller.kubernetes.io/pod-deletion-cost": "100"});
    apply(&mut cluster, &[pod, set(1)]);
    assert_eq!(pods(&cluster, "Running"), [dear]);
}

#[test]
fn what_hangs_on_an_object_goes_with_it() {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "a"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": template("web")},
    });
    let bare = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}, "spec": template("p")["spec"]});
    let mut cluster = cluster(&[node("n", "8"), deployment, bare]);
    assert_eq!(pods(&cluster, "Running").len(), 3);
    cluster.delete(&ObjectKey::node("n")).expect("it exists");
    cluster.settle().expect("it settles");
    let left = cluster.pods();
    assert_eq!(left.len(), 2, "the bare pod is gone, the replicas came back: {left:?}");
    cluster.delete(&ObjectKey::new(kinds::find("", "Namespace").expect("known"), None, "a")).expect("it exists");
    cluster.settle().expect("it settles");
    assert_eq!(cluster.pods(), []);
    assert!(cluster.store().iter().all(|(key, _)| key.namespace.as_deref() != Some("a")));
}

#[test]
fn a_rollout_keeps_within_its_leeway() {
    let deployment = |image: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "a"},
            "spec": {
                "replicas": 4, "selector": {"matchLabels": {"app": "x"}}, "template": template(image),
                "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "25%"}},
            },
        })
    };
    // The node has room for the replicas and no more: without surge, a rollout still gets through.
    let mut cluster = cluster(&[node("n", "4"), deployment("web:1")]);
    let images = |cluster: &Cluster| {
        cluster.store().pods().map(|(_, pod)| pod["spec"]["containers"][0]["image"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(images(&cluster), vec!["\"web:1\""; 4]);
    apply(&mut cluster, &[deployment("web:2")]);
    assert_eq!(images(&cluster), vec!["\"web:2\""; 4]);
    assert_eq!(pods(&cluster, "Running").len(), 4);
    assert_eq!(cluster.store().of_kind("apps", "ReplicaSet", Some("a")).count(), 2, "the old one is kept, empty");
    apply(&mut cluster, &[deployment("web:1")]);
    assert_eq!(images(&cluster), vec!["\"web:1\""; 4]);
    assert_eq!(cluster.store().of_kind("apps", "ReplicaSet", Some("a")).count(), 2, "and used again");
}

#[test]
fn applying_again_replaces_spec_labels_and_annotations_and_keeps_the_rest() {
    let service = |labels: Value, port: u16| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "a", "labels": labels},
            "spec": {"selector": {"app": "x"}, "ports": [{"port": port}]},
        })
    };
    let mut cluster = cluster(&[service(json!({"one": "1"}), 80)]);
    let before = get(&cluster, "", "Service", "s").clone();
    apply(&mut cluster, &[service(json!({"two": "2"}), 80)]);
    let relabelled = get(&cluster, "", "Service", "s").clone();
    apply(&mut cluster, &[service(json!({"two": "2"}), 81)]);
    let after = get(&cluster, "", "Service", "s").clone();
    assert_eq!(after["metadata"]["labels"], json!({"two": "2"}));
    for part in ["uid", "creationTimestamp"] {
        assert_eq!(before["metadata"][part], after["metadata"][part]);
    }
    assert_eq!(
        (&before["metadata"]["generation"], &relabelled["metadata"]["generation"], &after["metadata"]["generation"]),
        (&json!(1), &json!(1), &json!(2)),
        "the generation counts changes of the spec"
    );
    assert_ne!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    apply(&mut cluster, &[service(json!({"two": "2"}), 81)]);
    assert_eq!(get(&cluster, "", "Service", "s"), &after, "the same again changes nothing");
}

#[test]
fn leaving_pods_are_gone_when_their_time_has_come() {
    let pod = |name: &str, priority: i64| {
        let mut spec = template("p")["spec"].clone();
        spec["priority"] = json!(priority);
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "a"}, "spec": spec})
    };
    let mut cluster = Cluster::new(Setup::default());
    cluster.set_eviction_takes(Duration::from_secs(30));
    apply(&mut cluster, &[node("n", "1"), pod("low", 0)]);
    apply(&mut cluster, &[pod("high", 10)]);
    let leaves = |cluster: &Cluster| get(cluster, "", "Pod", "low")["metadata"]["deletionTimestamp"].is_string();
    assert!(leaves(&cluster));
    let condition = get(&cluster, "", "Pod", "low")["status"]["conditions"].as_array().cloned().unwrap_or_default();
    assert!(condition.iter().any(|c| c["type"] == "DisruptionTarget" && c["status"] == "True"), "{condition:?}");
    cluster.wait(Duration::from_millis(29_999)).expect("it settles");
    assert!(leaves(&cluster));
    assert!(get(&cluster, "", "Pod", "high")["spec"].get("nodeName").is_none());
    cluster.wait(Duration::from_millis(1)).expect("it settles");
    assert!(cluster.store().get(&ObjectKey::pod("a", "low")).is_none());
    assert_eq!(get(&cluster, "", "Pod", "high")["spec"]["nodeName"], "n");
    assert_eq!(cluster.take_happened().evicted.len(), 1);
}
