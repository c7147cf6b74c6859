//! Records of what a pod was bound as, forged in every way that a pod comes to be, in a namespace with the policies for
//! tenants and in one without, while a scheduler runs and while none does, with each role that may write.

use serde_json::{Value, json};

use crate::attacks::{ALICE, BOUND_AS, MALLORY, QUEUE, Town, pod, queue, with};
use crate::daemon::{Daemon, eventually};

/// A namespace without the policies for tenants. Mallory has the same rights there.
const OPEN: &str = "open";

/// The record of a pod that is charged to somebody else.
fn forged() -> String {
    json!({"annotations": {QUEUE: ALICE}}).to_string()
}

const LEAVE_OUT: &str = "quotient.dev/bound-as is for the scheduler to write; leave it out";
const KEEPS: &str = "a running pod keeps its quota";

fn in_open(pod: Value) -> Value {
    with(with(pod, &["metadata", "namespace"], json!(OPEN)), &["metadata", "annotations"], json!({QUEUE: OPEN}))
}

/// What the attacker has in both namespaces: a role, and rights that administrators may well give beside it.
fn rights(role: &str, user: &str) -> Vec<Value> {
    let in_namespace = |namespace: &str| {
        let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]);
        let bound = |name: &str, kind: &str, role: &str| {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": {"name": format!("{name}-{user}"), "namespace": namespace}, "subjects": subjects,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}})
        };
        let more = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "more", "namespace": namespace}, "rules": [
            {"apiGroups": [""], "resources": ["pods/resize", "pods/status", "pods/ephemeralcontainers"],
                "verbs": ["get", "patch", "update"]},
            {"apiGroups": [""], "resources": ["pods/binding", "bindings"], "verbs": ["create"]},
            {"apiGroups": ["batch.volcano.sh"], "resources": ["jobs"], "verbs": ["get", "create", "patch"]},
        ]});
        vec![more, bound(role, "ClusterRole", role), bound("more", "Role", "more")]
    };
    [in_namespace(MALLORY), in_namespace(OPEN)].concat()
}

/// Everything that makes pods from a template, with a forged record in the template.
fn makers(suffix: &str) -> Vec<Value> {
    let made = pod("made", MALLORY);
    let labels = json!({"app": "forged"});
    let template = |restart: &str| {
        let spec = with(made["spec"].clone(), &["restartPolicy"], json!(restart));
        json!({"metadata": {"labels": labels, "annotations": {QUEUE: MALLORY, BOUND_AS: forged()}}, "spec": spec})
    };
    let object = |version: &str, kind: &str, spec: Value| {
        json!({"apiVersion": version, "kind": kind, "spec": spec,
            "metadata": {"name": format!("forged-{suffix}"), "namespace": MALLORY}})
    };
    let kept = json!({"replicas": 1, "selector": {"matchLabels": labels}, "template": template("Always")});
    let of_set = with(kept.clone(), &["serviceName"], json!("none"));
    let everywhere = json!({"selector": {"matchLabels": labels}, "template": template("Always")});
    let job = json!({"template": template("Never")});
    let tasks = json!({"queue": MALLORY, "minAvailable": 1,
        "tasks": [{"name": "t", "replicas": 1, "template": template("Never")}]});
    vec![
        object("apps/v1", "Deployment", kept.clone()),
        object("apps/v1", "ReplicaSet", kept.clone()),
        object("apps/v1", "StatefulSet", of_set),
        object("apps/v1", "DaemonSet", everywhere),
        object("v1", "ReplicationController", with(kept, &["selector"], labels.clone())),
        object("batch/v1", "Job", job.clone()),
        object("batch/v1", "CronJob", json!({"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}})),
        object("batch.volcano.sh/v1alpha1", "Job", tasks),
    ]
}

fn binding(name: &str, namespace: &str, annotations: Value) -> (String, Value) {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
    let body = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-0"}});
    (path, body)
}

fn annotate(town: &Town, name: &str, namespace: &str, annotation: &str) -> Result<String, String> {
    town.attack(&["annotate", "pod", name, "-n", namespace, "--overwrite", annotation], &Value::Null)
}

fn is_refused(answer: Result<String, String>, words: &str, what: &str) {
    let refusal = answer.expect_err(what);
    assert!(refusal.contains(words), "{what}: expected {words:?}: {refusal}");
}

/// Forges records in every way. There are a running pod with ties, one without, and a gated one, by these names.
fn forge(town: &Town, suffix: &str) {
    let create = ["create", "-f", "-"];
    let with_record = |pod: Value| with(pod, &["metadata", "annotations", BOUND_AS], json!(forged()));
    let bare = with_record(pod(&format!("bare-{suffix}"), MALLORY));
    is_refused(town.attack(&create, &bare), LEAVE_OUT, "a pod with a record");
    for maker in makers(suffix) {
        let what = format!("a template in {} {}", maker["apiVersion"], maker["kind"]);
        is_refused(town.attack(&create, &maker), LEAVE_OUT, &what);
    }
    let record = format!("{BOUND_AS}={}", forged());
    // Two policies refuse it; which of them answers is not defined.
    is_refused(annotate(town, "gated", MALLORY, &record), "denied request", "a pending pod is given a record");
    is_refused(annotate(town, "gated", OPEN, &record), KEEPS, "the same without the policies for tenants");
    let removed = format!("{BOUND_AS}-");
    for (name, annotation) in [("tied", &record), ("tied", &removed), ("plain", &record)] {
        is_refused(annotate(town, name, OPEN, annotation), KEEPS, "the record of a running pod changes");
    }
    let queue = format!("{QUEUE}={ALICE}");
    is_refused(annotate(town, "plain", OPEN, &queue), KEEPS, "a running pod without ties is given a queue");
    let placed =
        with(with_record(in_open(pod(&format!("placed-{suffix}"), OPEN))), &["spec", "nodeName"], json!("node-0"));
    is_refused(town.attack(&create, &placed), KEEPS, "a pod with a node and a record");
    let (path, body) = binding("gated", MALLORY, json!({}));
    is_refused(town.attack(&["create", "--raw", &path, "-f", "-"], &body), "placed by the scheduler", "a bind");
    let (path, body) = binding("gated", OPEN, json!({BOUND_AS: forged()}));
    is_refused(town.attack(&["create", "--raw", &path, "-f", "-"], &body), KEEPS, "a bind that leaves a record");
    let ended = json!({"status": {"phase": "Succeeded"}}).to_string();
    let status = ["patch", "pod", "gated", "-n", MALLORY, "--subresource=status", "-p", &ended];
    is_refused(town.attack(&status, &Value::Null), "for nodes and controllers to write", "a status");
    let extra = json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "i",
        "resources": {"requests": {"cpu": "4"}}}]}});
    let ephemeral =
        ["patch", "pod", "sidecar", "-n", MALLORY, "--subresource=ephemeralcontainers", "-p", &extra.to_string()];
    is_refused(town.attack(&ephemeral, &Value::Null), "resources", "an ephemeral container with requests");
    let resources = json!({"requests": {"cpu": "9"}, "limits": {"cpu": "9"}});
    let grown = json!({"spec": {"initContainers": [{"name": "s", "resources": resources}]}}).to_string();
    let resize = ["patch", "pod", "sidecar", "-n", MALLORY, "--subresource=resize", "-p", &grown];
    is_refused(town.attack(&resize, &Value::Null), "requests of a running pod may only shrink", "a sidecar grows");
}

fn allocated(town: &Town, queue: &str) -> String {
    let queue = town.get(&["queue.scheduling.volcano.sh", queue]);
    queue["status"]["allocated"]["cpu"].as_str().unwrap_or("0").to_string()
}

/// The pods that attacks are made on.
fn prepare(town: &Town) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPEN}});
    town.plane.apply(&[namespace, queue(OPEN)]).expect("the namespace applies");
    town.plane.apply(&rights("edit", MALLORY)).expect("the rights apply");
    let gates = json!([{"name": "g"}]);
    let gated = with(pod("gated", MALLORY), &["spec", "schedulingGates"], gates);
    let mut plain = in_open(pod("plain", OPEN));
    plain["metadata"]["annotations"] = json!({});
    let sidecar = json!([{"name": "s", "image": "i", "restartPolicy": "Always",
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]);
    let sidecar = with(pod("sidecar", MALLORY), &["spec", "initContainers"], sidecar);
    let forged = with(in_open(pod("forged", OPEN)), &["metadata", "annotations", BOUND_AS], json!(forged()));
    for pod in [gated.clone(), in_open(gated), in_open(pod("tied", OPEN)), plain, sidecar, forged] {
        town.attack(&["create", "-f", "-"], &pod).expect("the pod is made");
    }
    for (name, namespace) in [("tied", OPEN), ("plain", OPEN), ("sidecar", MALLORY), ("forged", OPEN)] {
        eventually(&town.plane, "the pod runs", || {
            (town.get(&["pod", name, "-n", namespace])["status"]["phase"] == "Running").then_some(())
        });
    }
    // A kubelet says what each container has; the API server resizes no pod of which it does not.
    let says = |name: &str| json!([{"name": name, "resources": {"requests": {"cpu": "1"}}}]);
    let has = json!({"status": {"initContainerStatuses": says("s"), "containerStatuses": says("c")}});
    let status = ["patch", "pod", "sidecar", "-n", MALLORY, "--subresource=status", "-p", &has.to_string()];
    town.plane.kubectl(&status).expect("the status is written");
}

fn is_charged_to_its_own(town: &Town) {
    let record = town.get(&["pod", "forged", "-n", OPEN])["metadata"]["annotations"][BOUND_AS].clone();
    assert_eq!(record, json!({"annotations": {QUEUE: OPEN}}).to_string(), "the Binding wrote over it");
    eventually(&town.plane, "what runs is charged to its own queue", || {
        (allocated(town, OPEN) == "2" && allocated(town, ALICE) == "0").then_some(())
    });
}

#[test]
fn no_record_counts_that_the_scheduler_did_not_write() {
    let mut town = Town::of(&["--systems", "elastic,tree,queues,jobs"]);
    prepare(&town);
    is_charged_to_its_own(&town);
    let edit = town.mallory.clone();
    let admin = town.plane.kubeconfig_of("boss", &["tenants"]).expect("it has a kubeconfig");
    town.plane.apply(&rights("admin", "boss")).expect("the rights apply");
    for (role, kubeconfig) in [("edit", edit), ("admin", admin)] {
        town.mallory = kubeconfig;
        eventually(&town.plane, "the policies hold", || {
            let answer = annotate(&town, "plain", OPEN, &format!("{QUEUE}={ALICE}"));
            answer.err().filter(|refusal| refusal.contains(KEEPS))
        });
        forge(&town, role);
        println!("closed: {role}, while a scheduler runs");
    }
    town.daemon.take().expect("it runs").kill();
    forge(&town, "unwatched");
    println!("closed: admin, while no scheduler runs");
    let log = town.plane.folder().join("quotient.log");
    town.daemon = Some(Daemon::start(&town.plane.kubeconfig(), &log, &["--systems", "elastic,tree,queues,jobs"]));
    is_charged_to_its_own(&town);
    forge(&town, "after");
    println!("closed: admin, after a restart");
    town.mallory = town.plane.kubeconfig_of("guest", &["tenants"]).expect("it has a kubeconfig");
    let guest = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "guest", "namespace": OPEN},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "guest"}]});
    town.plane.apply(&[guest]).expect("the rights apply");
    let pod = in_open(pod("guest", OPEN));
    is_refused(town.attack(&["create", "-f", "-"], &pod), "orbidden", "who may view makes no pod");
    is_refused(annotate(&town, "plain", OPEN, "a=b"), "orbidden", "who may view changes no pod");
    println!("closed: view");
}
