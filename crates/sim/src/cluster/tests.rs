//! What a virtual cluster says when it does not settle, and of pods that are gone.

use super::*;
use crate::report::PodPhase;
use serde_json::json;

#[test]
fn a_cluster_that_does_not_settle_says_what_changes() {
    let mut cluster = Cluster::new(Setup::default());
    for name in ["a", "b", "c", "d", "e", "f"] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "x"},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        cluster.apply(pod).expect("it is a pod");
    }
    cluster.pass_changes_to_controllers();
    let mut rounds = Rounds::default();
    let stuck = loop {
        if let Err(stuck) = cluster.count_round(&mut rounds) {
            break stuck;
        }
    };
    let text = stuck.to_string();
    assert!(text.contains("these still change: Namespace/x, Pod/x/a, Pod/x/b"), "{text}");
    assert!(text.ends_with("and 2 more"), "{text}");
}

#[test]
fn an_evicted_bare_pod_is_listed_while_it_leaves_and_after() {
    let pod = |name: &str, priority: i32| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "x"},
            "spec": {"priority": priority, "containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}})
    };
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "1", "pods": "10"}}});
    let mut cluster = Cluster::new(Setup::default());
    cluster.set_eviction_takes(Duration::from_secs(1));
    for object in [node, pod("low", 0), pod("high", 1)] {
        cluster.apply(object).expect("it is an object");
        cluster.settle().expect("it settles");
    }
    let phase = |cluster: &Cluster| cluster.pods().iter().find(|pod| pod.name == "low").map(|pod| pod.phase);
    assert_eq!(phase(&cluster), Some(PodPhase::Running));
    cluster.wait(Duration::from_secs(1)).expect("it settles");
    assert_eq!(phase(&cluster), Some(PodPhase::Evicted));
}
