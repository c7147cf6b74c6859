//! The reason of a pod that no node fits names what is in the way: taints, claims, features, devices by request.

use quotient_api::ObjectKey;
use quotient_sim::{Cluster, Setup};
use serde_json::{Value, json};

fn apply(cluster: &mut Cluster, objects: &[Value]) {
    for object in objects {
        cluster.apply(object.clone()).unwrap_or_else(|refusal| panic!("{refusal}"));
    }
    cluster.settle().expect("it settles");
}

fn claim(name: &str, request: Value) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "a"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": request}]}}})
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}})
}

#[test]
fn devices_are_counted_by_what_keeps_them_from_a_request() {
    let model = |model: &str| json!({"model": {"string": model}});
    let taint = json!([{"key": "example.com/failing", "effect": "NoSchedule"}]);
    let objects = [
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
            "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}}}),
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}}),
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "gpus"},
            "spec": {"driver": "gpu.example.com", "nodeName": "n",
                "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "a", "attributes": model("large")},
                    {"name": "b", "attributes": model("large"), "taints": taint},
                    {"name": "c", "attributes": model("small")}, {"name": "d", "attributes": model("small")}]}}),
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "nics"},
            "spec": {"driver": "nic.example.com", "nodeName": "n",
                "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "x"}]}}),
    ];
    let mut cluster = Cluster::new(Setup::default());
    apply(&mut cluster, &objects);
    let large = "device.attributes['gpu.example.com'].model == 'large'";
    let request = json!({"deviceClassName": "gpu", "selectors": [{"cel": {"expression": large}}]});
    for name in ["first", "second"] {
        apply(&mut cluster, &[claim(name, request.clone()), pod(name)]);
    }
    let reason = cluster.reason(&ObjectKey::pod("a", "second")).expect("it waits");
    let counted = format!("request gpu: 5 devices, 1 not of class gpu, 2 not selected by {large}, 1 in use, 1 tainted");
    assert!(reason.message.ends_with(&counted), "{}", reason.message);
}

#[test]
fn taints_claims_and_features_are_named() {
    let node = |name: &str, cpu: &str, taints: Value| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"name": name}},
            "spec": {"taints": taints}, "status": {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110"}}})
    };
    let taint = |key: &str, value: &str| json!({"key": key, "value": value, "effect": "NoSchedule"});
    let pod = |name: &str, spec: Value| {
        let resources = json!({"requests": {"cpu": "2"}});
        let container = json!({"name": "c", "image": "i", "resources": resources});
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "a"},
            "spec": {"containers": [container]}});
        spec.as_object().into_iter().flatten().for_each(|(field, value)| pod["spec"][field] = value.clone());
        pod
    };
    let uses = |claim: &str| {
        json!({"nodeSelector": {"name": "open"},
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]})
    };
    let mut cluster = Cluster::new(Setup::default());
    let objects = [
        node("a", "8", json!([taint("dedicated", "gpu")])),
        node("b", "8", json!([taint("old", ""), taint("dedicated", "gpu")])),
        node("c", "8", json!([taint("dedicated", "gpu")])),
        node("open", "4", json!([])),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "waits", "namespace": "a"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "nobodys",
                "resources": {"requests": {"storage": "1Gi"}}}}),
        pod("large", json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "5"}}}]})),
        pod("lost", uses("nowhere")),
        pod("unbound", uses("waits")),
        pod("new", json!({"nodeSelector": {"name": "open"}, "hostNetwork": true, "hostUsers": false})),
    ];
    apply(&mut cluster, &objects);
    for (name, part) in [
        ("large", "3 with an untolerated taint (dedicated=gpu:NoSchedule, old:NoSchedule)"),
        ("lost", "1 where the volumes cannot be bound (PVC nowhere not found)"),
        ("unbound", "1 where the volumes cannot be bound (PVC waits is not bound yet)"),
        ("new", "1 without a feature that the pod needs (UserNamespacesHostNetworkSupport)"),
    ] {
        let reason = cluster.reason(&ObjectKey::pod("a", name)).expect("it waits");
        assert!(reason.message.contains(part), "{name}: {}", reason.message);
    }
}
