//! What programs that make nodes go by: the reason of a pod's condition `PodScheduled`.

use quotient_api::ObjectKey;
use quotient_sim::{Cluster, Setup};
use serde_json::{Value, json};

fn apply(cluster: &mut Cluster, objects: &[Value]) {
    for object in objects {
        cluster.apply(object.clone()).unwrap_or_else(|refusal| panic!("{refusal}"));
    }
    cluster.settle().expect("it settles");
}

fn node(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"}}})
}

fn quota(namespace: &str, cpu: &str) -> Value {
    json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": namespace}, "spec": {"min": {"cpu": cpu}, "max": {"cpu": cpu}}})
}

fn group(namespace: &str, name: &str, members: u32) -> Value {
    json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"minMember": members}})
}

fn pods(namespace: &str, name: &str, count: usize, cpu: &str, metadata: &Value) -> Vec<Value> {
    let pod = |index: usize| {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}});
        pod["metadata"]["namespace"] = json!(namespace);
        pod["metadata"]["name"] = json!(format!("{name}-{index}"));
        pod
    };
    (0..count).map(pod).collect()
}

fn of_group(name: &str) -> Value {
    json!({"labels": {"scheduling.x-k8s.io/pod-group": name}})
}

/// The reason by which a pod says why it is not scheduled, with the sentence.
fn said(cluster: &Cluster, namespace: &str, name: &str) -> (String, String) {
    let pod = cluster.store().get(&ObjectKey::pod(namespace, name)).expect("the pod is there");
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let condition = conditions.into_iter().find(|condition| condition["type"] == "PodScheduled").unwrap_or_default();
    let text = |field: &str| condition[field].as_str().unwrap_or_default().to_string();
    (text("reason"), text("message"))
}

fn words(cluster: &Cluster, namespace: &str, name: &str, count: usize) -> Vec<String> {
    (0..count).map(|index| said(cluster, namespace, &format!("{name}-{index}")).0).collect()
}

#[test]
fn pods_that_more_nodes_cannot_help_say_their_code() {
    let mut cluster = Cluster::new(Setup::default());
    let mut objects = vec![node("n", "8"), quota("a", "2")];
    objects.push(json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
        "metadata": {"name": "closed"}, "spec": {"capability": {"cpu": "8"}}, "status": {"state": "Closed"}}));
    objects.extend(pods("a", "beyond", 4, "1", &json!({})));
    let closed = json!({"annotations": {"scheduling.volcano.sh/queue-name": "closed"}});
    objects.extend(pods("b", "closed", 1, "1", &closed));
    objects.extend(pods("b", "alone", 1, "1", &of_group("none")));
    objects.extend(pods("b", "large", 1, "9", &json!({})));
    apply(&mut cluster, &objects);
    assert_eq!(words(&cluster, "a", "beyond", 4)[2..], ["QuotaMaxExceeded", "QuotaMaxExceeded"]);
    for (name, expected) in [("closed-0", "QueueClosed"), ("alone-0", "GangIncomplete"), ("large-0", "Unschedulable")] {
        assert_eq!(said(&cluster, "b", name).0, expected, "{name}");
    }
}

#[test]
fn no_more_pods_are_unschedulable_than_their_quota_admits() {
    let mut cluster = Cluster::new(Setup::default());
    apply(&mut cluster, &[node("n", "2"), quota("a", "9")]);
    apply(&mut cluster, &pods("a", "p", 4, "3", &json!({})));
    assert_eq!(words(&cluster, "a", "p", 4), ["Unschedulable", "Unschedulable", "Unschedulable", "QuotaMaxExceeded"]);
    assert!(said(&cluster, "a", "p-3").1.ends_with("to have what its quota has left"));
    cluster.delete(&ObjectKey::pod("a", "p-0")).expect("it is there");
    cluster.settle().expect("it settles");
    assert_eq!(said(&cluster, "a", "p-3").0, "Unschedulable", "it is the third now");
}

#[test]
fn a_gang_that_lacks_room_is_unschedulable_as_a_whole_or_not_at_all() {
    let mut cluster = Cluster::new(Setup::default());
    let mut objects = vec![node("n", "2"), quota("b", "9"), group("b", "four", 4), group("b", "two", 2)];
    objects.extend(pods("b", "four", 4, "3", &of_group("four")));
    objects.extend(pods("b", "two", 4, "3", &of_group("two")));
    apply(&mut cluster, &objects);
    assert_eq!(words(&cluster, "b", "four", 4), ["QuotaMaxExceeded"; 4]);
    assert_eq!(words(&cluster, "b", "two", 4), ["Unschedulable", "Unschedulable", "Unschedulable", "QuotaMaxExceeded"]);
    apply(&mut cluster, &[node("m", "9")]);
    assert_eq!(cluster.store().pods().filter(|(_, pod)| pod["status"]["phase"] == "Running").count(), 3);
}

#[test]
fn a_gangs_reason_counts_what_is_used_and_not_its_own_trial() {
    let mut cluster = Cluster::new(Setup::default());
    let mut objects = vec![node("n", "64"), quota("a", "40"), group("a", "g", 37)];
    objects.extend(pods("a", "single", 4, "1", &json!({})));
    objects.extend(pods("a", "g", 37, "1", &of_group("g")));
    apply(&mut cluster, &objects);
    let expected = "cpu limit of ElasticQuota/a/quota exceeded: 4 used + 37 requested > 40 limit (1 over)";
    assert_eq!(said(&cluster, "a", "g-36").1, expected);
}
