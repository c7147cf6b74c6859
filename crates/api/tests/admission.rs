//! What an API server adds to objects, and what it refuses.

use crate::view;

use std::path::{Path, PathBuf};

use quotient_api::{Admitted, Operation, Rejection, Request, admit, key_of, read_path};
use serde_json::{Value, json};

use view::Objects;

fn create(object: Value, view: &Objects) -> Result<Admitted, Rejection> {
    admit(Request { operation: Operation::Create, object, old: None }, view)
}

fn update(old: &Value, object: Value) -> Result<Admitted, Rejection> {
    admit(Request { operation: Operation::Update, object, old: Some(old) }, &Objects::default())
}

fn object(api_version: &str, kind: &str, rest: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "o"}});
    for (key, value) in rest.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    object
}

/// A pod with one container and `spec` beside it.
fn pod(spec: Value) -> Value {
    let mut all = json!({"containers": [{"name": "c", "image": "i"}]});
    for (key, value) in spec.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    object("v1", "Pod", json!({"spec": all}))
}

fn with_resources(resources: Value) -> Value {
    pod(json!({"containers": [{"name": "c", "image": "i", "resources": resources}]}))
}

fn priority_class(name: &str, rest: Value) -> Value {
    let mut class = object("scheduling.k8s.io/v1", "PriorityClass", rest);
    class["metadata"]["name"] = Value::from(name);
    class
}

fn message(result: Result<Admitted, Rejection>) -> String {
    match result {
        Ok(admitted) => format!("admitted {}", admitted.object),
        Err(rejection) => rejection.message,
    }
}

#[test]
fn a_namespace_is_filled_in_and_taken_from_what_has_none() {
    assert_eq!(create(pod(json!({})), &Objects::default()).expect("a pod").object["metadata"]["namespace"], "default");
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "namespace": "a"}});
    assert_eq!(create(node, &Objects::default()).expect("a node").object["metadata"], json!({"name": "n"}));
}

#[test]
fn a_namespace_is_labelled_with_its_name() {
    let namespace = object("v1", "Namespace", json!({}));
    let labels = &create(namespace, &Objects::default()).expect("a namespace").object["metadata"]["labels"];
    assert_eq!(*labels, json!({"kubernetes.io/metadata.name": "o"}));
}

#[test]
fn limits_become_requests() {
    let pod = with_resources(json!({"limits": {"cpu": "2", "nvidia.com/gpu": 1}, "requests": {"cpu": "1"}}));
    let admitted = create(pod, &Objects::default()).expect("a pod").object;
    let requests = &admitted["spec"]["containers"][0]["resources"]["requests"];
    assert_eq!(*requests, json!({"cpu": "1", "nvidia.com/gpu": 1}));
}

#[test]
fn priorities() {
    let classes = [
        priority_class("high", json!({"value": 1000})),
        priority_class("polite", json!({"value": 10, "preemptionPolicy": "Never"})),
    ];
    let default = priority_class("usual", json!({"value": 5, "globalDefault": true}));
    let without = Objects::of(&classes);
    let with = Objects::of(&[&classes[..], &[default]].concat());
    // The spec, and what becomes of class, priority and policy.
    let cases = [
        (json!({}), &without, Ok(json!([null, 0, null]))),
        (json!({}), &with, Ok(json!(["usual", 5, "PreemptLowerPriority"]))),
        (json!({"priority": 7}), &without, Ok(json!([null, 7, null]))),
        (json!({"priority": 7}), &with, Ok(json!([null, 7, null]))),
        (json!({"preemptionPolicy": "Never"}), &without, Ok(json!([null, 0, "Never"]))),
        (json!({"priorityClassName": "high"}), &with, Ok(json!(["high", 1000, "PreemptLowerPriority"]))),
        (json!({"priorityClassName": "polite"}), &with, Ok(json!(["polite", 10, "Never"]))),
        (
            json!({"priorityClassName": "polite", "priority": 10, "preemptionPolicy": "Never"}),
            &with,
            Ok(json!(["polite", 10, "Never"])),
        ),
        (
            json!({"priorityClassName": "system-node-critical"}),
            &without,
            Ok(json!(["system-node-critical", 2_000_001_000, "PreemptLowerPriority"])),
        ),
        (
            json!({"priorityClassName": "system-cluster-critical"}),
            &without,
            Ok(json!(["system-cluster-critical", 2_000_000_000, "PreemptLowerPriority"])),
        ),
        (
            json!({"priorityClassName": "nope"}),
            &with,
            Err("spec.priorityClassName: \"nope\": no PriorityClass of that name exists"),
        ),
        (json!({"priorityClassName": "nope", "priority": 3}), &with, Ok(json!(["nope", 3, null]))),
        (
            json!({"priorityClassName": "high", "priority": 3}),
            &with,
            Err("spec.priority: 3: must be 1000, as PriorityClass \"high\" says, or be left out"),
        ),
        (
            json!({"priorityClassName": "polite", "preemptionPolicy": "PreemptLowerPriority"}),
            &with,
            Err(
                "spec.preemptionPolicy: \"PreemptLowerPriority\": must be \"Never\", as PriorityClass \"polite\" says, or be left out",
            ),
        ),
    ];
    for (spec, view, expected) in cases {
        let got = create(pod(spec.clone()), view);
        let got = got.map(|a| {
            json!([
                a.object["spec"]["priorityClassName"],
                a.object["spec"]["priority"],
                a.object["spec"]["preemptionPolicy"]
            ])
        });
        assert_eq!(got.map_err(|rejection| rejection.message), expected.map_err(str::to_string), "{spec}");
    }
}

#[test]
fn runtime_classes() {
    let kata = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"}, "handler": "kata",
        "overhead": {"podFixed": {"cpu": "250m", "memory": "128Mi"}},
        "scheduling": {"nodeSelector": {"runtime": "kata"}, "tolerations": [{"key": "kata", "operator": "Exists"}]},
    });
    let view = Objects::of(&[kata]);
    let admitted =
        create(pod(json!({"runtimeClassName": "kata", "nodeSelector": {"disk": "ssd"}})), &view).expect("a pod");
    let spec = &admitted.object["spec"];
    assert_eq!(spec["overhead"], json!({"cpu": "250m", "memory": "128Mi"}));
    assert_eq!(spec["nodeSelector"], json!({"disk": "ssd", "runtime": "kata"}));
    assert_eq!(spec["tolerations"][0]["key"], "kata");

    let refused = |spec: Value| message(create(pod(spec), &view));
    assert!(
        create(pod(json!({"runtimeClassName": "kata", "overhead": {"cpu": "0.25", "memory": "131072Ki"}})), &view)
            .is_ok()
    );
    assert_eq!(
        refused(json!({"runtimeClassName": "kata", "overhead": {"cpu": "1"}})),
        r#"spec.overhead: {"cpu":"1"}: must be {"cpu":"250m","memory":"128Mi"}, as RuntimeClass "kata" says, or be left out"#
    );
    assert_eq!(
        refused(json!({"runtimeClassName": "kata", "nodeSelector": {"runtime": "runc"}})),
        r#"spec.nodeSelector.runtime: "runc": RuntimeClass "kata" says "kata""#
    );
    assert_eq!(
        refused(json!({"runtimeClassName": "nope"})),
        r#"spec.runtimeClassName: "nope": no RuntimeClass of that name exists"#
    );
    let running = create(pod(json!({"runtimeClassName": "nope", "nodeName": "n"})), &view).expect("it runs already");
    assert_eq!(running.warnings.len(), 1);
}

#[test]
fn pods_tolerate_a_node_that_is_not_heard_of_for_a_while() {
    let tolerations =
        |spec: Value| create(pod(spec), &Objects::default()).expect("a pod").object["spec"]["tolerations"].clone();
    let keys = |list: &Value| list.as_array().map(|list| list.iter().map(|t| t["key"].clone()).collect::<Vec<_>>());
    let added = json!(["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);
    assert_eq!(keys(&tolerations(json!({}))), added.as_array().cloned());
    let all = json!([{"operator": "Exists"}]);
    assert_eq!(tolerations(json!({"tolerations": all})), all);
    let own = json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}]);
    assert_eq!(tolerations(json!({"tolerations": own})).as_array().map(Vec::len), Some(2));
}

#[test]
fn a_claim_without_a_class_is_of_the_default_one() {
    let class = |name: &str, created: &str, default: bool| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "p",
            "metadata": {"name": name, "creationTimestamp": created, "annotations": {
                "storageclass.kubernetes.io/is-default-class": default.to_string()}},
        })
    };
    let claim = |rest: Value| {
        let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        for (key, value) in rest.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        object("v1", "PersistentVolumeClaim", json!({"spec": spec}))
    };
    let class_of =
        |claim: Value, view: &Objects| create(claim, view).expect("a claim").object["spec"]["storageClassName"].clone();
    let old = class("old", "2026-01-01T00:00:00Z", true);
    let new = class("new", "2026-02-01T00:00:00Z", true);
    let same = class("also-new", "2026-02-01T00:00:00Z", true);
    let plain = class("plain", "2026-03-01T00:00:00Z", false);
    assert_eq!(class_of(claim(json!({})), &Objects::of(std::slice::from_ref(&plain))), Value::Null);
    assert_eq!(class_of(claim(json!({})), &Objects::of(&[old.clone(), plain.clone()])), "old");
    assert_eq!(class_of(claim(json!({})), &Objects::of(&[old.clone(), new.clone()])), "new");
    assert_eq!(class_of(claim(json!({})), &Objects::of(&[old.clone(), new, same])), "also-new");
    assert_eq!(class_of(claim(json!({"storageClassName": ""})), &Objects::of(std::slice::from_ref(&old))), "");
    assert_eq!(class_of(claim(json!({"storageClassName": "plain"})), &Objects::of(&[old])), "plain");
}

#[test]
fn what_is_refused() {
    let job = |spec: Value| object("batch/v1", "Job", json!({"spec": {"template": {"spec": spec}}}));
    let deployment = |spec: Value| object("apps/v1", "Deployment", json!({"spec": spec}));
    let containers = json!([{"name": "c", "image": "i"}]);
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}});
    let spread = |constraint: Value| pod(json!({"topologySpreadConstraints": [constraint]}));
    let cases = [
        (object("v1", "Pod", json!({})), "spec: missing: a pod needs it"),
        (pod(json!({"containers": []})), "spec.containers: missing: a pod needs at least one"),
        (
            pod(json!({"containers": [{"name": "c"}, {"name": "c"}]})),
            "spec.containers[1].name: \"c\": is the name of two containers",
        ),
        (
            pod(json!({"initContainers": [{"name": "i", "restartPolicy": "Never"}]})),
            "spec.initContainers[0].restartPolicy: \"Never\": expected Always (a sidecar), or nothing",
        ),
        (
            with_resources(json!({"requests": {"cpu": "-1"}})),
            "spec.containers[0].resources.requests.cpu: \"-1\": must not be negative",
        ),
        (
            with_resources(json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})),
            "spec.containers[0].resources.requests.cpu: \"2\": must not be more than the limit 1",
        ),
        (
            with_resources(json!({"requests": {"cpu": "2 cores"}})),
            "spec.containers[0].resources.requests.cpu: \"2 cores\": \" cores\" is not a unit of quantities",
        ),
        (
            with_resources(json!({"requests": {"mem": "1Gi"}})),
            "spec.containers[0].resources.requests.mem: \"1Gi\": \"mem\" is no resource",
        ),
        (with_resources(json!({"limits": {"nvidia.com/gpu": "500m"}})), "must be a whole number"),
        (
            with_resources(json!({"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}})),
            "spec.containers[0].resources.requests[\"nvidia.com/gpu\"]: \"1\": must be equal to the limit 2",
        ),
        (
            pod(json!({"resources": {"requests": {"nvidia.com/gpu": "1"}}})),
            "spec.resources.requests[\"nvidia.com/gpu\"]: \"1\": \"nvidia.com/gpu\" is no resource",
        ),
        (pod(json!({"overhead": {"cpu": "x"}})), "spec.overhead.cpu: \"x\": \"x\" is not a number"),
        (
            spread(json!({"topologyKey": "z", "maxSkew": 0, "whenUnsatisfiable": "DoNotSchedule"})),
            "spec.topologySpreadConstraints[0].maxSkew: 0: expected a whole number above 0",
        ),
        (
            spread(json!({"topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2})),
            "spec.topologySpreadConstraints[0].minDomains: 2: must be left out with ScheduleAnyway",
        ),
        (
            spread(json!({"topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {
            "matchExpressions": [{"key": "a", "operator": "Is"}]}})),
            "spec.topologySpreadConstraints[0].labelSelector.matchExpressions[0].operator: \"Is\": expected In, NotIn, Exists or DoesNotExist",
        ),
        (
            pod(json!({"topologySpreadConstraints": [
            {"topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"},
            {"topologyKey": "z", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}]})),
            "spec.topologySpreadConstraints[1].topologyKey: \"z\": has two constraints with DoNotSchedule",
        ),
        (
            pod(json!({"tolerations": [{"key": "a", "operator": "Equals", "value": "b"}]})),
            "spec.tolerations[0].operator: \"Equals\": expected Equal, Exists, Lt or Gt",
        ),
        (
            pod(json!({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]})),
            "spec.tolerations[0].value: \"b\": expected no value with the operator Exists",
        ),
        (
            pod(json!({"schedulingGates": [{"name": "g"}, {"name": "g"}]})),
            "spec.schedulingGates[1].name: \"g\": is given twice",
        ),
        (
            pod(json!({"schedulingGates": [{"name": "g"}], "nodeName": "n"})),
            "spec.nodeName: \"n\": must be left out while scheduling gates are set",
        ),
        (
            pod(json!({"preemptionPolicy": "Maybe"})),
            "spec.preemptionPolicy: \"Maybe\": expected PreemptLowerPriority or Never",
        ),
        (
            pod(json!({"volumes": [{"name": "v", "persistentVolumeClaim": {}}]})),
            "spec.volumes[0].persistentVolumeClaim.claimName: expected the name of a claim",
        ),
        (
            object("v1", "Pod", json!({"metadata": {"name": "Web_1"}, "spec": {"containers": containers}})),
            "metadata.name: \"Web_1\": expected at most 253",
        ),
        (
            object(
                "v1",
                "Pod",
                json!({"metadata": {"name": "p", "labels": {"a": "b c"}}, "spec": {"containers": containers}}),
            ),
            "metadata.labels.a: \"b c\": expected at most 63",
        ),
        (
            object(
                "v1",
                "Pod",
                json!({"metadata": {"name": "p", "labels": {"a": 1}}, "spec": {"containers": containers}}),
            ),
            "metadata.labels.a: 1: expected a text",
        ),
        (
            job(json!({"containers": containers})),
            "spec.template.spec.restartPolicy: missing: expected OnFailure or Never in a Job",
        ),
        (
            job(json!({"containers": containers, "restartPolicy": "Always"})),
            "spec.template.spec.restartPolicy: \"Always\": expected OnFailure or Never in a Job",
        ),
        (job(json!({"containers": [], "restartPolicy": "Never"})), "spec.template.spec.containers: missing"),
        (deployment(json!({"template": template})), "spec.selector: missing: it says which pods belong to the object"),
        (
            deployment(json!({"template": template, "selector": {"matchLabels": {"app": "api"}}})),
            "spec.selector: {\"matchLabels\":{\"app\":\"api\"}}: does not select the template's labels",
        ),
        (
            deployment(json!({"template": template, "selector": {"matchLabels": {"app": "web"}}, "replicas": -1})),
            "spec.replicas: -1: must not be negative",
        ),
        (
            deployment(json!({"selector": {"matchLabels": {"app": "web"}}})),
            "spec.template: missing: pods are made from it",
        ),
        (
            object("policy/v1", "PodDisruptionBudget", json!({"spec": {"minAvailable": 1, "maxUnavailable": 1}})),
            "spec.maxUnavailable: 1: must be left out where minAvailable is given",
        ),
        (
            object("policy/v1", "PodDisruptionBudget", json!({"spec": {"minAvailable": "half"}})),
            "spec.minAvailable: \"half\": expected a whole number not below 0, or a percentage such as \"50%\"",
        ),
        (
            object(
                "policy/v1",
                "PodDisruptionBudget",
                json!({"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}}),
            ),
            "spec.selector.matchExpressions[0].values: expected at least one value",
        ),
        (priority_class("p", json!({})), "value: missing: a class needs a priority"),
        (priority_class("p", json!({"value": 1_000_000_001})), "value: 1000000001: must not be more than 1000000000"),
        (
            priority_class("system-mine", json!({"value": 1})),
            "metadata.name: \"system-mine\": must not start with system-",
        ),
        (object("storage.k8s.io/v1", "StorageClass", json!({})), "provisioner: missing"),
        (
            object("storage.k8s.io/v1", "StorageClass", json!({"provisioner": "p", "volumeBindingMode": "Later"})),
            "volumeBindingMode: \"Later\": expected Immediate or WaitForFirstConsumer",
        ),
        (object("node.k8s.io/v1", "RuntimeClass", json!({})), "handler: missing"),
        (
            object("v1", "PersistentVolumeClaim", json!({"spec": {"accessModes": ["ReadWriteOnce"]}})),
            "spec.resources.requests.storage: missing: a claim says how much it needs",
        ),
        (
            object(
                "v1",
                "PersistentVolumeClaim",
                json!({"spec": {"accessModes": ["RWO"], "resources": {"requests": {"storage": "0"}}}}),
            ),
            "spec.accessModes[0]: \"RWO\": expected one of ReadWriteOnce, ReadOnlyMany, ReadWriteMany, ReadWriteOncePod; spec.resources.requests.storage: \"0\": must be more than 0",
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pood", "metadata": {"name": "p"}}),
            "Pood/p: kind: \"Pood\": is not a kind that is known",
        ),
    ];
    for (object, expected) in cases {
        let got = message(create(object.clone(), &Objects::default()));
        assert!(got.contains(expected), "{object}\ngot:      {got}\nexpected: {expected}");
    }
}

#[test]
fn what_is_let_in_with_a_warning() {
    let cases = [
        (pod(json!({"containers": [{"name": "c"}]})), "a container has no image"),
        (pod(json!({"containers": [{"image": "i"}]})), "a container has no name"),
        (with_resources(json!({"requests": {"nvidia.com/gpu": "1"}})), "nvidia.com/gpu is asked for without a limit"),
    ];
    for (object, expected) in cases {
        let warnings = create(object, &Objects::default()).expect("let in").warnings;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with(expected), "{warnings:?}");
    }
}

#[test]
fn an_amount_beyond_counting_is_the_schedulers_to_report() {
    for amount in ["1e20", "1e40"] {
        let admitted = create(with_resources(json!({"requests": {"memory": amount}})), &Objects::default());
        assert!(admitted.is_ok(), "{amount}: {admitted:?}");
    }
}

#[test]
fn only_one_class_is_the_default() {
    let class = |name: &str| priority_class(name, json!({"value": 1, "globalDefault": true}));
    let view = Objects::of(&[class("first")]);
    assert_eq!(
        message(create(class("second"), &view)),
        "globalDefault: true: PriorityClass \"first\" is the default already"
    );
    assert!(create(class("first"), &view).is_ok());
}

#[test]
fn what_may_change_about_a_pod() {
    let manifest = json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}}],
        "nodeSelector": {"disk": "ssd"}});
    let mut stored = create(pod(manifest.clone()), &Objects::default()).expect("a pod").object;
    stored["spec"]["nodeName"] = Value::from("n");
    let mut gated = create(
        pod(json!({"schedulingGates": [{"name": "g"}, {"name": "h"}], "nodeSelector": {"disk": "ssd"}})),
        &Objects::default(),
    )
    .expect("a pod")
    .object;
    let changed = |field: &str, value: Value| {
        let mut spec = manifest.clone();
        spec[field] = value;
        pod(spec)
    };
    let gated_with = |gates: Value, selector: Value| pod(json!({"schedulingGates": gates, "nodeSelector": selector}));
    let ssd = json!({"disk": "ssd"});
    let cases = [
        ("the same manifest", &stored, pod(manifest.clone()), None),
        (
            "other notation",
            &stored,
            changed(
                "containers",
                json!([{"name": "c", "image": "i",
            "resources": {"requests": {"cpu": "1000m"}, "limits": {"memory": "1024Mi"}}}]),
            ),
            None,
        ),
        (
            "an image",
            &stored,
            changed(
                "containers",
                json!([{"name": "c", "image": "j",
            "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}}]),
            ),
            None,
        ),
        ("a toleration more", &stored, changed("tolerations", json!([{"operator": "Exists"}])), None),
        (
            "requests",
            &stored,
            changed("containers", json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}])),
            Some("spec.containers[0].resources: {\"requests\":{\"cpu\":\"2\"}}: may not change after creation"),
        ),
        (
            "a container more",
            &stored,
            changed("containers", json!([{"name": "c"}, {"name": "d"}])),
            Some("containers may not be added or removed after creation"),
        ),
        (
            "the node selector",
            &stored,
            changed("nodeSelector", json!({"disk": "tape"})),
            Some("spec.nodeSelector: {\"disk\":\"tape\"}: may not change after creation"),
        ),
        (
            "no node selector",
            &stored,
            changed("nodeSelector", json!({})),
            Some("spec.nodeSelector: {}: may not change after creation"),
        ),
        (
            "the node",
            &stored,
            changed("nodeName", json!("m")),
            Some("spec.nodeName: \"m\": may not change after creation"),
        ),
        (
            "the priority",
            &stored,
            changed("priority", json!(7)),
            Some("spec.priority: 7: may not change after creation"),
        ),
        (
            "a gate",
            &stored,
            changed("schedulingGates", json!([{"name": "g"}])),
            Some("spec.schedulingGates[0].name: \"g\": gates may only be removed after creation"),
        ),
        ("one gate less", &gated, gated_with(json!([{"name": "h"}]), ssd.clone()), None),
        ("no gate", &gated, gated_with(json!(null), ssd.clone()), None),
        (
            "another gate",
            &gated,
            gated_with(json!([{"name": "i"}]), ssd.clone()),
            Some("gates may only be removed after creation"),
        ),
        (
            "a stricter selector while gated",
            &gated,
            gated_with(json!([{"name": "g"}]), json!({"disk": "ssd", "zone": "a"})),
            None,
        ),
        (
            "a looser selector while gated",
            &gated,
            gated_with(json!([{"name": "g"}]), json!({"zone": "a"})),
            Some("spec.nodeSelector: {\"zone\":\"a\"}: may only be added to after creation"),
        ),
    ];
    for (name, old, new, expected) in cases {
        let got = update(old, new).map(|_| ()).map_err(|rejection| rejection.message);
        match expected {
            None => assert_eq!(got, Ok(()), "{name}"),
            Some(expected) => assert!(got.as_ref().is_err_and(|got| got.contains(expected)), "{name}: {got:?}"),
        }
    }
    gated["spec"]["priority"] = json!(3);
    let kept = update(&gated, gated_with(json!([]), ssd)).expect("ungated").object;
    assert_eq!(kept["spec"]["priority"], 3);
}

#[test]
fn every_scenario_is_read_and_its_kubernetes_objects_are_let_in() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut directories: Vec<PathBuf> =
        std::fs::read_dir(&root).expect("scenarios").map(|entry| entry.expect("an entry").path()).collect();
    directories.sort();
    // Quotas are refused in scenarios about their admission.
    let groups = ["", "apps", "batch", "policy", "scheduling.k8s.io", "node.k8s.io", "storage.k8s.io"];
    let (mut scenarios, mut objects) = (0, 0);
    for directory in directories.iter().filter(|path| path.is_dir()) {
        let read = read_path(directory);
        assert_eq!(read.problems, []);
        for document in read.documents.iter().filter(|document| document.key.kind == "Scenario") {
            scenarios += 1;
            let mut view = Objects::default();
            let steps = document.value["spec"]["steps"].as_array().expect("steps");
            let applied = steps.iter().flat_map(|step| step["apply"].as_array().into_iter().flatten());
            for object in applied {
                let key = key_of(object).unwrap_or_else(|problem| panic!("{}: {problem}", document.place));
                if !groups.contains(&key.group) {
                    continue;
                }
                let old = view.0.get(&key).cloned();
                let operation = if old.is_some() { Operation::Update } else { Operation::Create };
                match admit(Request { operation, object: object.clone(), old: old.as_ref() }, &view) {
                    Ok(admitted) => view.0.insert(key, admitted.object),
                    Err(rejection) => panic!("{}: {key}: {rejection}", document.place),
                };
                objects += 1;
            }
        }
    }
    assert!(scenarios > 100 && objects > 20, "{scenarios} scenarios, {objects} objects");
}
