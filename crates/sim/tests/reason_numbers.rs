//! The numbers of a reason while victims leave: what they still hold and what those will hold for whom they leave are
//! not added up.

use std::time::Duration;

use quotient_api::ObjectKey;
use quotient_sim::{Cluster, Setup};
use serde_json::{Value, json};

fn quota(namespace: &str) -> Value {
    json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": "q", "namespace": namespace},
        "spec": {"min": {"nvidia.com/gpu": 2}, "max": {"nvidia.com/gpu": 4}}})
}

fn pod(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}})
}

fn apply(cluster: &mut Cluster, objects: &[Value]) {
    for object in objects {
        cluster.apply(object.clone()).unwrap_or_else(|refusal| panic!("{refusal}"));
    }
    cluster.settle().expect("it settles");
}

#[test]
fn what_leaves_and_what_comes_for_it_are_not_added_up() {
    let mut cluster = Cluster::new(Setup::default());
    cluster.set_eviction_takes(Duration::from_secs(30));
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": 4, "pods": "110"}}});
    apply(&mut cluster, &[node, quota("a"), quota("b")]);
    apply(&mut cluster, &["1", "2", "3", "4"].map(|name| pod("a", name)));
    apply(&mut cluster, &["1", "2", "3"].map(|name| pod("b", name)));
    let reason = |name: &str| cluster.reason(&ObjectKey::pod("b", name)).expect("it waits").message.clone();
    assert!(reason("1").contains("terminating"), "{}", reason("1"));
    assert!(reason("3").contains("4 used + 1 requested > 4 sum of mins (1 over)"), "{}", reason("3"));
}
