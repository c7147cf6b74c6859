//! What comes in Kubernetes' binary format is what comes as JSON.

#[allow(dead_code)] // Only some of it is used here.
use crate::stage;

use http::{Request, header};
use kube::Client;
use kube::client::Body;
use quotient_api::kinds;
use quotient_cluster::thin::{Thin, plan};
use quotient_cluster::wire::{BINARY, Reading, Wire};
use quotient_cluster::{Clients, connect};
use serde_json::{Value, json};
use stage::stage;

/// A pod of which as much is said as can be.
fn pod() -> Value {
    let expression = json!({"key": "zone", "operator": "In", "values": ["a", "b"]});
    let labels = json!({"matchLabels": {"app": "x"}, "matchExpressions": [expression]});
    let term = json!({"topologyKey": "zone", "labelSelector": labels, "namespaces": ["other"], "namespaceSelector": {},
        "matchLabelKeys": ["hash"], "mismatchLabelKeys": ["other"]});
    let node_term = json!({"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["8"]}],
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]});
    let weighted = |term: &Value| json!([{"weight": 7, "podAffinityTerm": term}]);
    let container = |name: &str| {
        json!({"name": name, "image": "i", "command": ["c"], "env": [{"name": "A", "value": "b"}],
            "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "UDP", "hostIP": "10.0.0.1"}],
            "resources": {"requests": {"cpu": "1500m", "memory": "1Gi", "example.com/card": "2"},
                "limits": {"memory": "1Gi", "example.com/card": "2"}, "claims": [{"name": "devices", "request": "one"}]},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "livenessProbe": {"httpGet": {"path": "/", "port": "web"}}})
    };
    let mut sidecar = container("sidecar");
    sidecar["restartPolicy"] = json!("Always");
    sidecar["ports"] = json!([]);
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "binary", "labels": {"app": "x", "empty": ""},
            "annotations": {"a": "ü", "b": "{\"c\": 1}"}, "finalizers": ["example.com/stays"],
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": true,
                "blockOwnerDeletion": false}]},
        "spec": {"schedulerName": "nobody", "priority": 0, "preemptionPolicy": "PreemptLowerPriority",
            "terminationGracePeriodSeconds": 0, "restartPolicy": "Never", "nodeSelector": {"disk": "fast"},
            "schedulingGates": [{"name": "example.com/later"}], "activeDeadlineSeconds": 600, "hostNetwork": false,
            "automountServiceAccountToken": false, "containers": [container("main")], "initContainers": [sidecar],
            "tolerations": [{"key": "t", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 0},
                {"operator": "Exists"}],
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [node_term]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": node_term}]},
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term],
                    "preferredDuringSchedulingIgnoredDuringExecution": weighted(&term)}},
            "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": labels, "minDomains": 3, "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore",
                "matchLabelKeys": ["hash"]}],
            "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": "template"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c", "readOnly": true}},
                {"name": "none", "emptyDir": {}},
                {"name": "csi", "csi": {"driver": "d.example.com", "volumeAttributes": {"a": "b"}}},
                {"name": "own", "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"l": "v"}},
                    "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "volumeName": "",
                        "resources": {"requests": {"storage": "10Gi"}}}}}}]}})
}

/// What the controllers and kubelets of a cluster say of a pod.
fn status() -> Value {
    let state = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled", "startedAt": "2026-01-02T03:04:05Z",
        "finishedAt": "2026-01-02T03:05:05Z"}});
    let container = |name: &str| {
        json!({"name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 3, "state": state,
            "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "2"}}})
    };
    json!({"status": {"phase": "Running", "nominatedNodeName": "n", "reason": "r", "message": "m",
        "startTime": "2026-01-02T03:04:05Z", "resize": "Proposed",
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "none",
            "lastTransitionTime": "2026-01-02T03:04:05Z", "lastProbeTime": "2026-01-02T03:04:06Z"}],
        "containerStatuses": [container("main")], "initContainerStatuses": [container("sidecar")],
        "resourceClaimStatuses": [{"name": "devices", "resourceClaimName": "p-devices"}]}})
}

fn node() -> Value {
    let amounts = json!({"cpu": "32", "memory": "131072Ki", "pods": "110", "example.com/card": "8"});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "binary", "labels": {"zone": "a"}},
        "spec": {"unschedulable": true, "providerID": "p", "taints": [
            {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:05Z"}]},
        "status": {"allocatable": amounts, "capacity": amounts,
            "images": [{"names": ["a", "b"], "sizeBytes": 5_000_000_000_u64}],
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-02T03:04:05Z"}]}})
}

async fn list(client: &Client, plural: &str, accepted: &str) -> Vec<u8> {
    use http_body_util::BodyExt;
    let request = Request::get(format!("/api/v1/{plural}")).header(header::ACCEPT, accepted);
    let answer = client.send(request.body(Body::empty()).expect("a request")).await.expect("the API server answers");
    let kind = answer.headers()[header::CONTENT_TYPE].to_str().expect("it is text").to_owned();
    assert!(kind.starts_with(accepted), "{kind}");
    answer.into_body().collect().await.expect("it answers").to_bytes().to_vec()
}

/// Without what JSON may show or leave out where there is nothing.
fn without_nothing(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind"));
            fields.map(|(key, value)| (key, without_nothing(value))).filter(|(_, value)| !value.is_null()).collect()
        }
        Value::Array(items) => items.into_iter().map(without_nothing).collect(),
        other => other,
    }
}

async fn compare(clients: &Clients, kind: &str) -> usize {
    let kind = kinds::find("", kind).expect("it is known");
    let text = list(&clients.watch, kind.plural, "application/json").await;
    let text: Value = serde_json::from_slice(&text).expect("it is JSON");
    let items = text["items"].as_array().expect("a list has items");
    let of_text: Vec<Value> =
        items.iter().map(|item| serde_json::from_value::<Thin>(item.clone()).expect("any object").0).collect();
    let bytes = list(&clients.watch, kind.plural, BINARY).await;
    let (plan, mut of_bytes) = (plan(kind).expect("it is read from bytes"), Vec::new());
    let mut reading = Reading::of_answer(&bytes).expect("it can be read");
    while let Some((number, part)) = reading.next().expect("it can be read") {
        if let (2, Wire::Bytes(item)) = (number, part) {
            of_bytes.push(plan.read_bare(item).expect("it can be read"));
        }
    }
    assert_eq!(of_text.len(), of_bytes.len());
    for (text, bytes) in of_text.into_iter().zip(of_bytes) {
        let (text, bytes) = (without_nothing(text), without_nothing(bytes));
        assert_eq!(
            serde_json::to_string_pretty(&sorted(&bytes)).ok(),
            serde_json::to_string_pretty(&sorted(&text)).ok()
        );
    }
    items.len()
}

/// With the fields of every map in one order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            fields.sort_by(|one, other| one.0.cmp(&other.0));
            fields.into_iter().collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[test]
fn pods_and_nodes_are_the_same_in_both_formats() {
    let stage = stage();
    stage.namespace("binary");
    stage.apply(&[node(), pod()]);
    stage.kubectl(&["patch", "pod", "p", "-n", "binary", "--subresource=status", "-p", &status().to_string()]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let clients = connect(Some(&stage.kubeconfig())).await.expect("the API server answers");
        for kind in ["Pod", "Node"] {
            assert!(compare(&clients, kind).await >= 1, "{kind}");
        }
    });
}

#[test]
fn the_layout_is_that_of_the_types_of_kubernetes() {
    // The build of the control plane prints it, from the modules that the control plane is made of.
    let printed = stage().plane().programs().join("layout.txt");
    let printed = std::fs::read_to_string(&printed).unwrap_or_else(|error| panic!("{}: {error}", printed.display()));
    let kept = include_str!("../src/wire/layout.txt");
    assert!(printed == kept, "crates/cluster/src/wire/layout.txt is not what testenv/kubernetes/wire prints");
}
