//! Which objects are kept, and which leave a name behind.

use super::*;
use quotient_api::key_of;

fn owned(kind: &str, name: &str, annotations: Value, owner: Option<(&str, &str)>) -> Value {
    let api_version = if kind == "Pod" { "v1" } else { "apps/v1" };
    let references = owner.map(
        |(kind, name)| json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true}]),
    );
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "a", "uid": name,
        "annotations": annotations, "ownerReferences": references}})
}

fn see(objects: &mut Objects, object: &Value) -> ObjectKey {
    let key = key_of(object).expect("it is an object");
    let _ = objects.seen(&key, object);
    key
}

fn pods(objects: &Objects) -> Vec<&str> {
    let pods = objects.list("", "Pod", None);
    pods.into_iter().filter_map(|pod| pod["metadata"]["name"].as_str()).collect()
}

#[test]
fn one_ordinary_pod_stands_for_all_of_its_namespace() {
    let mut objects = Objects::default();
    let mut see = |name: &str, labels: Value| {
        let mut pod = owned("Pod", name, json!({}), None);
        pod["metadata"]["labels"] = labels;
        see(&mut objects, &pod)
    };
    let first = see("p-0", json!({}));
    see("p-1", json!({}));
    let named = see("q", json!({tree::keys::QUOTA_NAME: "team"}));
    assert_eq!(pods(&objects), ["q", "p-0"]);
    assert!(objects.get(&named).is_some() && objects.get(&first).is_none());
    assert_eq!(objects.list("", "Pod", Some("b")), Vec::<&Value>::new());
    objects.gone(&first);
    assert_eq!(pods(&objects), ["q", "p-1"]);
    for name in ["p-1", "q"] {
        objects.gone(&ObjectKey::pod("a", name));
    }
    assert_eq!(pods(&objects), Vec::<&str>::new());
}

#[test]
fn a_pod_is_kept_while_its_owners_may_speak_of_a_group() {
    let gang = || json!({GROUP_MIN_MEMBER: "2"});
    for (annotations, is_kept) in [(gang(), true), (json!({}), false)] {
        let mut objects = Objects::default();
        let pod = see(&mut objects, &owned("Pod", "p", json!({}), Some(("ReplicaSet", "web-1"))));
        assert!(objects.get(&pod).is_some(), "nothing is known of its owner");
        see(&mut objects, &owned("ReplicaSet", "web-1", json!({}), Some(("Deployment", "web"))));
        assert!(objects.get(&pod).is_some(), "nothing is known of what made its owner");
        see(&mut objects, &owned("Deployment", "web", annotations, None));
        assert_eq!(objects.get(&pod).is_some(), is_kept);
        assert_eq!(
            objects.owners_of(&owned("Pod", "p", json!({}), Some(("ReplicaSet", "web-1")))).count(),
            usize::from(is_kept)
        );
        objects.gone(&pod);
        assert_eq!(pods(&objects), Vec::<&str>::new());
        assert!(objects.undecided.is_empty());
    }
}

#[test]
fn lists_are_of_one_kind_and_namespace() {
    let mut objects = Objects::default();
    for (group, namespace) in [("nos.nebuly.com", "a"), ("nos.nebuly.com", "b"), ("n8s.nebuly.ai", "a")] {
        let quota = json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "ElasticQuota",
            "metadata": {"name": "q", "namespace": namespace}});
        see(&mut objects, &quota);
    }
    let count = |group, namespace| objects.list(group, "ElasticQuota", namespace).len();
    assert_eq!(count("nos.nebuly.com", None), 2);
    assert_eq!(count("nos.nebuly.com", Some("b")), 1);
    assert_eq!(count("n8s.nebuly.ai", Some("b")), 0);
    assert_eq!(count("nothing", None), 0);
}

#[test]
fn what_nodes_hold_is_added_up_anew_when_a_node_changes_or_is_gone() {
    let mut objects = Objects::default();
    let mut set = |name: &str, cpu: Option<&str>| {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {
            "allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]}});
        match cpu {
            Some(_) => drop(see(&mut objects, &node)),
            None => objects.gone(&ObjectKey::node(name)),
        }
        objects.held().amount("cpu")
    };
    for (name, cpu, held) in [
        ("n", Some("1"), 1_000),
        ("m", Some("2"), 3_000),
        ("n", Some("4"), 6_000),
        ("n", Some("4"), 6_000),
        ("m", None, 4_000),
    ] {
        assert_eq!(set(name, cpu), held, "{name} {cpu:?}");
    }
}
