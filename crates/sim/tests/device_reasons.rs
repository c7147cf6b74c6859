//! The reason of a pod without devices counts them by what keeps them from each request.

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
