//! Ways round a quota, tried on a real API server with RBAC by a tenant who may edit its own namespace and nothing
//! else. Each attack has a name, and must fail in the way that `docs/multi-tenancy.md` says.

use crate::daemon;

use std::path::PathBuf;

use quotient_testenv::{ControlPlane, NodeShape, Options};
use serde_json::{Value, json};

use daemon::{Daemon, eventually, quotient};

/// The tenant who attacks, and the one who is attacked; each has a namespace of its name.
pub(crate) const MALLORY: &str = "mallory";
pub(crate) const ALICE: &str = "alice";
pub(crate) const QUEUE: &str = "scheduling.volcano.sh/queue-name";
pub(crate) const BOUND_AS: &str = "quotient.dev/bound-as";
const AGREED: &str = "quotient.dev/agreed-namespaces";

pub(crate) struct Town {
    pub plane: ControlPlane,
    pub mallory: PathBuf,
    pub daemon: Option<Daemon>,
}

impl Town {
    fn new() -> Self {
        Town::of(&[])
    }

    /// One in which the program is told more.
    pub fn of(more: &[&str]) -> Self {
        let plane = ControlPlane::start(Options { controller_accounts: true, ..Options::default() })
            .expect("the control plane starts");
        let install = ["install", "--tenant-policy", "--webhook-url", "https://127.0.0.1:1", "-o", "json"];
        let printed = quotient(&[&install[..], more].concat()).output().expect("the program runs");
        let printed: Value = serde_json::from_slice(&printed.stdout).expect("it prints JSON");
        let all = printed["items"].as_array().expect("a list").clone();
        // The webhooks have tests of their own; what is closed here is closed without them.
        let of = |kind: &str| all.iter().filter(|o| o["kind"].as_str() == Some(kind)).cloned().collect::<Vec<_>>();
        plane.install(&of("CustomResourceDefinition")).expect("the kinds are served");
        for kind in ["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"] {
            plane.apply(&of(kind)).expect("it applies");
        }
        plane.apply(&of("ValidatingAdmissionPolicy")).expect("the policies apply");
        plane.apply(&of("ValidatingAdmissionPolicyBinding")).expect("the bindings apply");
        let tenant = |name: &str| {
            vec![
                json!({"apiVersion": "v1", "kind": "Namespace",
                    "metadata": {"name": name, "labels": {"quotient.dev/tenant": "true"}}}),
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                    "metadata": {"name": "edit", "namespace": name},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
                    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}]}),
                // What `edit` lacks and administrators may well give.
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": {"name": "resize", "namespace": name},
                "rules": [
                    {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["get", "patch", "update"]},
                    {"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"],
                        "verbs": ["get", "create", "patch", "update"]},
                    {"apiGroups": ["nos.nebuly.com"], "resources": ["elasticquotas", "compositeelasticquotas"],
                        "verbs": ["get", "create", "delete"]},
                ]}),
                json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                    "metadata": {"name": "resize", "namespace": name},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "resize"},
                    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}]}),
                queue(name),
            ]
        };
        plane.apply(&[tenant(MALLORY), tenant(ALICE)].concat()).expect("the tenants apply");
        plane.make_nodes("node", 2, &NodeShape::default()).expect("the nodes are made");
        let mallory = plane.kubeconfig_of(MALLORY, &["tenants"]).expect("it has a kubeconfig");
        let daemon = Daemon::start(&plane.kubeconfig(), &plane.folder().join("quotient.log"), more);
        Town { plane, mallory, daemon: Some(daemon) }
    }

    /// What kubectl says to the attacker.
    pub fn attack(&self, arguments: &[&str], input: &Value) -> Result<String, String> {
        let kubeconfig = self.mallory.display().to_string();
        let arguments = [&["--kubeconfig", &kubeconfig], arguments].concat();
        self.plane.kubectl_with(&arguments, &input.to_string()).map_err(|error| error.to_string())
    }

    /// The attack is refused with these words.
    fn refused(&self, arguments: &[&str], input: &Value, words: &str) {
        let refusal = self.attack(arguments, input).expect_err("the attack is refused");
        assert!(refusal.contains(words), "expected {words:?}: {refusal}");
    }

    pub fn get(&self, arguments: &[&str]) -> Value {
        let answer = self.plane.kubectl(&[&["get", "-o", "json"], arguments].concat()).unwrap_or_default();
        serde_json::from_str(&answer).unwrap_or_default()
    }

    /// The cores that pods of the attacker hold.
    fn held_by_mallory(&self) -> usize {
        let pods = self.get(&["pods", "-n", MALLORY]);
        let holds = |pod: &&Value| {
            let is_over = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
            !pod["spec"]["nodeName"].is_null() && !is_over
        };
        pods["items"].as_array().into_iter().flatten().filter(holds).count()
    }

    /// A pod of the other tenant is bound soon, whatever the attacker did.
    fn alice_is_served(&self, name: &str) {
        let begun = std::time::Instant::now();
        let pod =
            with(with(pod(name, ALICE), &["metadata", "namespace"], json!(ALICE)), &["spec", "priority"], json!(0));
        self.plane.apply(&[pod]).expect("the other's pod is made");
        eventually(&self.plane, "the other tenant's pod runs", || {
            (self.get(&["pod", name, "-n", ALICE])["status"]["phase"] == "Running").then_some(())
        });
        let took = begun.elapsed();
        assert!(took.as_secs() < 30, "the other tenant waited for {took:?}");
        self.plane.kubectl(&["delete", "pod", name, "-n", ALICE, "--wait=true"]).expect("it goes");
    }

    /// Makes a pod as the attacker and waits until it runs.
    fn run(&self, pod: &Value) {
        self.attack(&["create", "-f", "-"], pod).expect("the pod is made");
        let name = pod["metadata"]["name"].as_str().expect("it has a name");
        eventually(&self.plane, "the attacker's own pod runs", || {
            (self.get(&["pod", name, "-n", MALLORY])["status"]["phase"] == "Running").then_some(())
        });
    }
}

/// The queue of a tenant, for its namespace alone.
pub(crate) fn queue(tenant: &str) -> Value {
    json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
        "metadata": {"name": tenant, "annotations": {"quotient.dev/allowed-namespaces": tenant}},
        "spec": {"capability": {"cpu": "8"}, "deserved": {"cpu": "4"}, "reclaimable": true}})
}

pub(crate) fn pod(name: &str, queue: &str) -> Value {
    let requests = json!({"cpu": "1"});
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": MALLORY, "annotations": {QUEUE: queue}},
        "spec": {"schedulerName": "quotient", "terminationGracePeriodSeconds": 0, "containers": [{"name": "c",
            "image": "i", "resources": {"requests": requests, "limits": requests}}]}})
}

pub(crate) fn with(mut object: Value, pointer: &[&str], value: Value) -> Value {
    let (last, path) = pointer.split_last().expect("a field has a name");
    let at = path.iter().fold(&mut object, |at, key| &mut at[*key]);
    at[*last] = value;
    object
}

/// One attack: what it is called, and what it does.
type Attack = (&'static str, fn(&Town));

const ATTACKS: [Attack; 19] = [
    ("a pod that names its node", |town| {
        let pod = with(pod("placed", MALLORY), &["spec", "nodeName"], json!("node-0"));
        town.refused(&["create", "-f", "-"], &pod, "spec.nodeName: pods of this namespace are placed");
    }),
    ("a Deployment whose pods name their node", |town| {
        let made = pod("template", MALLORY);
        let mut spec = with(made["spec"].clone(), &["nodeName"], json!("node-0"));
        spec["restartPolicy"] = json!("Always");
        let labels = json!({"app": "placed"});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "placed", "namespace": MALLORY},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels, "annotations": {QUEUE: MALLORY}}, "spec": spec}}});
        town.attack(&["create", "-f", "-"], &deployment).expect("a Deployment may be made");
        eventually(&town.plane, "the ReplicaSet is told", || {
            let events = town.get(&["events", "-n", MALLORY, "--field-selector", "reason=FailedCreate"]).to_string();
            events.contains("spec.nodeName: pods of this namespace are placed").then_some(())
        });
        let pods = town.get(&["pods", "-n", MALLORY, "-l", "app=placed"]);
        assert_eq!(pods["items"], json!([]), "no pod came of it");
    }),
    ("a pod for another scheduler", |town| {
        let pod = with(pod("elsewhere", MALLORY), &["spec", "schedulerName"], json!("default-scheduler"));
        town.refused(&["create", "-f", "-"], &pod, "expected quotient");
    }),
    ("a pod in the queue of another tenant", |town| {
        town.attack(&["create", "-f", "-"], &pod("thief", ALICE)).expect("the pod is made");
        let condition = eventually(&town.plane, "the thief is told why it waits", || {
            let conditions = town.get(&["pod", "thief", "-n", MALLORY])["status"]["conditions"].clone();
            conditions.as_array()?.iter().find(|condition| condition["type"] == "PodScheduled").cloned()
        });
        let message = condition["message"].as_str().unwrap_or_default();
        assert!(message.contains("may not use queue alice"), "{condition}");
    }),
    ("a running pod that moves to another queue", |town| {
        town.run(&pod("mover", MALLORY));
        let annotation = format!("{QUEUE}={ALICE}");
        let arguments = ["annotate", "pod", "mover", "-n", MALLORY, "--overwrite", &annotation];
        town.refused(&arguments, &Value::Null, "a running pod keeps its quota");
    }),
    ("a running pod that changes the record of what it was bound as", |town| {
        town.run(&pod("forger", MALLORY));
        let bound = town.get(&["pod", "forger", "-n", MALLORY])["metadata"]["annotations"][BOUND_AS].clone();
        assert_eq!(bound, json!({"annotations": {QUEUE: MALLORY}}).to_string(), "the bind left its record");
        for annotation in [format!("{BOUND_AS}={{}}"), format!("{BOUND_AS}-")] {
            let arguments = ["annotate", "pod", "forger", "-n", MALLORY, "--overwrite", &annotation];
            town.refused(&arguments, &Value::Null, "a running pod keeps its quota");
        }
    }),
    ("a composite quota that declares that another's namespace agreed", |town| {
        let composite = |agreed: &str| {
            json!({"apiVersion": "nos.nebuly.com/v1alpha1", "kind": "CompositeElasticQuota",
                "metadata": {"name": "grab", "namespace": MALLORY, "annotations": {AGREED: agreed}},
                "spec": {"namespaces": [MALLORY, ALICE], "min": {"cpu": "1"}}})
        };
        let create = ["create", "--dry-run=server", "-f", "-"];
        town.refused(&create, &composite(ALICE), "expected namespaces whose ElasticQuotas the user may create");
        town.attack(&create, &composite(MALLORY)).expect("it has rights in its own namespace");
    }),
    ("a running pod that declares itself unevictable", |town| {
        town.run(&pod("stubborn", MALLORY));
        let arguments = ["annotate", "pod", "stubborn", "-n", MALLORY, "volcano.sh/preemptable=false"];
        town.refused(&arguments, &Value::Null, "a running pod keeps its quota");
    }),
    ("a running pod that grows", |town| {
        town.run(&pod("grower", MALLORY));
        // A kubelet says what a container has; the API server resizes no other.
        let has = json!({"status": {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}});
        let status = ["patch", "pod", "grower", "-n", MALLORY, "--subresource=status", "-p", &has.to_string()];
        town.plane.kubectl(&status).expect("the status is written");
        let resize = |cpu: &str| {
            let resources = json!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
            json!({"spec": {"containers": [{"name": "c", "resources": resources}]}}).to_string()
        };
        let patch = |patch: &str| {
            town.attack(&["patch", "pod", "grower", "-n", MALLORY, "--subresource=resize", "-p", patch], &Value::Null)
        };
        let refusal = patch(&resize("9")).expect_err("it may not grow");
        assert!(refusal.contains("requests of a running pod may only shrink"), "{refusal}");
        patch(&resize("500m")).expect("it may shrink");
    }),
    ("a bind of its own", |town| {
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "thief"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node-0"}});
        let path = format!("/api/v1/namespaces/{MALLORY}/pods/thief/binding");
        town.refused(&["create", "--raw", &path, "-f", "-"], &binding, "orbidden");
    }),
    ("a namespace that is no tenant's any more", |town| {
        town.refused(&["label", "namespace", MALLORY, "quotient.dev/tenant-"], &Value::Null, "orbidden");
    }),
    ("a pod that a finalizer keeps for ever", |town| {
        let undying = with(pod("undying", MALLORY), &["metadata", "finalizers"], json!(["mallory.example/keep"]));
        town.refused(&["create", "-f", "-"], &undying, "metadata.finalizers: a pod that is evicted must be able to go");
        town.run(&pod("mortal", MALLORY));
        let patch = json!({"metadata": {"finalizers": ["mallory.example/keep"]}}).to_string();
        let arguments = ["patch", "pod", "mortal", "-n", MALLORY, "--type=merge", "-p", &patch];
        town.refused(&arguments, &Value::Null, "metadata.finalizers: a pod that is evicted must be able to go");
    }),
    ("a priority class of the cluster itself", |town| {
        let class = json!("system-cluster-critical");
        let pod = with(pod("critical", MALLORY), &["spec", "priorityClassName"], class);
        town.refused(&["create", "-f", "-"], &pod, "spec.priorityClassName: classes that begin with system-");
        let group = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "metadata": {"name": "critical", "namespace": MALLORY},
            "spec": {"minMember": 1, "queue": MALLORY, "priorityClassName": "system-cluster-critical"}});
        town.refused(&["create", "-f", "-"], &group, "spec.priorityClassName: classes that begin with system-");
    }),
    ("a pod in kube-system", |town| {
        let pod = with(pod("hidden", MALLORY), &["metadata", "namespace"], json!("kube-system"));
        town.refused(&["create", "-f", "-"], &pod, "orbidden");
    }),
    ("a group that moves to another queue once it is admitted", |town| {
        let group = |queue: &str| {
            json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
                "metadata": {"name": "movers", "namespace": MALLORY}, "spec": {"minMember": 1, "queue": queue}})
        };
        town.attack(&["create", "-f", "-"], &group(MALLORY)).expect("a group may be made");
        eventually(&town.plane, "the group is admitted", || {
            let phase =
                town.get(&["podgroup.scheduling.volcano.sh", "movers", "-n", MALLORY])["status"]["phase"].clone();
            matches!(phase.as_str(), Some("Inqueue" | "Running")).then_some(())
        });
        let patch = json!({"spec": {"queue": ALICE}}).to_string();
        let arguments =
            ["patch", "podgroup.scheduling.volcano.sh", "movers", "-n", MALLORY, "--type=merge", "-p", &patch];
        town.refused(&arguments, &Value::Null, "spec.queue: a group or job that was admitted keeps its queue");
    }),
    ("gates that are lifted when the queue is full", |town| {
        let gated = |index: usize| {
            let pod =
                with(pod(&format!("gated-{index}"), MALLORY), &["spec", "schedulingGates"], json!([{"name": "g"}]));
            with(pod, &["metadata", "labels"], json!({"attack": "gates"}))
        };
        for index in 0..12 {
            town.attack(&["create", "-f", "-"], &gated(index)).expect("a pod may have gates");
        }
        let lift = json!({"spec": {"schedulingGates": null}}).to_string();
        for index in 0..12 {
            let name = format!("gated-{index}");
            let arguments = ["patch", "pod", &name, "-n", MALLORY, "--type=merge", "-p", &lift];
            town.attack(&arguments, &Value::Null).expect("gates may be lifted");
        }
        eventually(&town.plane, "those beyond the queue's capability are told why they wait", || {
            let pods = town.get(&["pods", "-n", MALLORY, "-l", "attack=gates"]).to_string();
            (pods.contains("Queue/mallory") && pods.contains("exceeded")).then_some(())
        });
        let (used, most) = (town.held_by_mallory(), 8);
        assert!(used <= most, "{used} of {most} cores");
        town.attack(&["delete", "pods", "-n", MALLORY, "-l", "attack=gates", "--wait=false"], &Value::Null)
            .expect("own pods may go");
    }),
    ("huge objects", |town| {
        // Close to what an API server takes: 256 KiB of annotations, and as much again in the environment.
        let text = "x".repeat(200 << 10);
        let huge = with(pod("huge", MALLORY), &["metadata", "annotations", "mallory.example/a"], json!(text));
        let huge = with(huge, &["spec", "nodeSelector"], json!({"no": "node"}));
        town.attack(&["create", "-f", "-"], &huge).expect("it may be made");
        town.alice_is_served("beside-huge");
    }),
    ("many objects", |town| {
        let pods = (0..300).map(|index| {
            let one = with(pod(&format!("many-{index}"), MALLORY), &["metadata", "labels"], json!({"attack": "many"}));
            with(one, &["spec", "nodeSelector"], json!({"no": format!("node-{index}")}))
        });
        let list = json!({"apiVersion": "v1", "kind": "List", "items": pods.collect::<Vec<_>>()});
        town.attack(&["create", "-f", "-"], &list).expect("they may be made");
        town.alice_is_served("beside-many");
    }),
    ("a larger queue", |town| {
        let larger = with(queue(MALLORY), &["spec", "capability", "cpu"], json!("100"));
        town.refused(&["apply", "-f", "-"], &larger, "orbidden");
    }),
];

#[test]
fn no_attack_of_a_tenant_succeeds() {
    let town = Town::new();
    eventually(&town.plane, "the policies hold", || {
        let pod = with(pod("probe", MALLORY), &["spec", "nodeName"], json!("node-0"));
        town.attack(&["create", "--dry-run=server", "-f", "-"], &pod).err().filter(|e| e.contains("spec.nodeName"))
    });
    for (name, attack) in ATTACKS {
        attack(&town);
        println!("closed: {name}");
    }
    the_schedulers_account_is_confined(&town);
    println!("closed: the scheduler's account changes pod security");
    eventually(&town.plane, "nothing is charged to alice, who has no pod any more", || {
        let queue = town.get(&["queue.scheduling.volcano.sh", ALICE]);
        (queue["status"]["allocated"]["cpu"].as_str().unwrap_or("0") == "0").then_some(())
    });
}

/// What our own account may do to namespaces, which RBAC cannot confine: it changes one label and nothing else.
fn the_schedulers_account_is_confined(town: &Town) {
    let account = town.plane.kubeconfig_of_account("quotient-system", "quotient").expect("it has a token");
    let label = |key: &str| {
        let kubeconfig = account.display().to_string();
        let arguments = ["--kubeconfig", &kubeconfig, "apply", "--server-side", "--field-manager=quotient", "-f", "-"];
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": MALLORY, "labels": {key: "baseline"}}});
        town.plane.kubectl_with(&arguments, &namespace.to_string()).map_err(|error| error.to_string())
    };
    let refusal = label("pod-security.kubernetes.io/enforce").expect_err("it may not change pod security");
    assert!(refusal.contains("changes the label quotient.dev/quota-tree"), "{refusal}");
    label("quotient.dev/quota-tree").expect("its own label may change");
}
