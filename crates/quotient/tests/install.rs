//! What `quotient install` prints, on a real API server: it applies, the program runs under the account that it makes
//! with the rights that it gives, and those rights are all that the program uses.

use crate::daemon;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use quotient_cluster::permission::{PERMISSIONS, Place};
use quotient_testenv::{ControlPlane, NodeShape, Options};
use serde_json::{Value, json};

use daemon::{Daemon, ask, eventually, items, quotient};

const NAMESPACE: &str = "quotient-system";

/// Labels and annotations of quota trees.
fn of_tree(key: &str) -> String {
    format!("quota.scheduling.koordinator.sh/{key}")
}

/// What `install` prints.
fn printed(arguments: &[&str]) -> String {
    let output = quotient(&[&["install"], arguments].concat()).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it is text")
}

fn apply(plane: &ControlPlane, manifest: &str) {
    let arguments = ["apply", "--server-side", "-f", "-"];
    plane.kubectl_with(&arguments, manifest).unwrap_or_else(|error| panic!("{error}"));
}

fn get(plane: &ControlPlane, arguments: &[&str]) -> Option<Value> {
    let answer = plane.kubectl(&[&["get", "-o", "json"], arguments].concat()).ok()?;
    serde_json::from_str(&answer).ok()
}

/// What the API server says of objects that it does not take.
fn refusal(plane: &ControlPlane, objects: &[Value]) -> String {
    plane.apply(objects).expect_err("it is refused").to_string()
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

fn pod(namespace: &str, name: &str, cpu: &str) -> Value {
    let requests = json!({"cpu": cpu});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedulerName": "quotient", "terminationGracePeriodSeconds": 0, "containers": [
            {"name": "c", "image": "i", "resources": {"requests": requests, "limits": requests}}]},
    })
}

fn elastic_quota(group: &str, kind: &str, namespace: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("{group}/v1alpha1"), "kind": kind,
        "metadata": {"name": "quota", "namespace": namespace}, "spec": spec})
}

fn tree_quota(name: &str, namespace: &str, parent: &str, min: &str, max: &str) -> Value {
    json!({"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": namespace, "labels": {of_tree("parent"): parent}},
        "spec": {"min": {"cpu": min}, "max": {"cpu": max}}})
}

/// The whole program, installed, under its own account.
struct Installed {
    plane: ControlPlane,
    account: PathBuf,
    log: PathBuf,
    metrics: u16,
    webhook: u16,
}

impl Installed {
    fn new() -> Self {
        let options = Options { audit: true, ..Options::with_all_features() };
        let plane = ControlPlane::start(options).expect("the control plane starts");
        let (metrics, webhook) = (free_port(), free_port());
        // As it is for a cluster that can pull the image, then as it is for a process outside of it; and again.
        let systems = ["--systems", "elastic,tree,queues,jobs"];
        apply(&plane, &printed(&[&systems[..], &["--image", "quotient:test"]].concat()));
        let url = format!("https://127.0.0.1:{webhook}");
        let outside = printed(&[&systems[..], &["--webhook-url", &url]].concat());
        apply(&plane, &outside);
        apply(&plane, &outside);
        plane
            .kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"])
            .expect("they are served");
        eventually(&plane, "the namespace lets the pods of the Deployment in", || {
            let deployment = get(&plane, &["deployment", "quotient", "-n", NAMESPACE])?;
            (deployment["status"]["replicas"] == 2).then_some(())
        });
        let both = ["delete", "deployment", "quotient", "quotient-webhooks", "-n", NAMESPACE];
        plane.kubectl(&both).expect("they are there");
        let account = plane.kubeconfig_of_account(NAMESPACE, "quotient").expect("it has a token");
        let log = plane.folder().join("quotient.log");
        Installed { plane, account, log, metrics, webhook }
    }

    fn start(&self) -> Daemon {
        self.start_on((self.metrics, self.webhook), &[])
    }

    /// Starts one with these ports for metrics and webhooks, and waits until it is ready.
    fn start_on(&self, (metrics_port, webhook_port): (u16, u16), more: &[&str]) -> Daemon {
        let config = self.plane.folder().join("quotient.yaml");
        let text = "apiVersion: quotient.dev/v1alpha1\nkind: QuotientConfiguration\ntree: {revokeAfter: 1s}\n";
        std::fs::write(&config, text).expect("it can be written");
        let (metrics, webhook) = (format!("127.0.0.1:{metrics_port}"), format!("127.0.0.1:{webhook_port}"));
        let daemon = Daemon::start_as(
            &self.account,
            &self.log,
            &[
                &["--config", &config.display().to_string(), "--lease", "quotient-system/quotient"][..],
                &["--lease-duration", "4s", "--metrics", &metrics],
                &["--webhook", &webhook, "--webhook-url", &format!("https://{webhook}")],
                more,
            ]
            .concat(),
        );
        eventually(&self.plane, "it is ready", || ask(metrics_port, "/readyz").filter(|(status, _)| *status == 200));
        daemon
    }

    fn namespace(&self, name: &str) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.plane.apply(&[namespace]).expect("it is made");
        eventually(&self.plane, "the namespace is ready", || {
            self.plane.kubectl(&["get", "serviceaccount", "default", "-n", name]).ok()
        });
    }

    fn apply(&self, objects: &[Value]) {
        self.plane.apply(objects).unwrap_or_else(|error| panic!("{error}"));
    }

    fn runs(&self, namespace: &str, name: &str) {
        eventually(&self.plane, &format!("{namespace}/{name} runs"), || {
            let pod = get(&self.plane, &["pod", name, "-n", namespace])?;
            (pod["status"]["phase"] == "Running").then_some(())
        });
    }

    fn is_gone(&self, namespace: &str, name: &str) {
        eventually(&self.plane, &format!("{namespace}/{name} goes"), || {
            get(&self.plane, &["pod", name, "-n", namespace]).is_none().then_some(())
        });
    }
}

#[test]
fn the_program_runs_under_the_account_that_install_makes_and_uses_what_it_is_granted() {
    let installed = Installed::new();
    let nodes = |prefix: &str, labels: Value| {
        let allocatable = json!({"cpu": "8", "memory": "32Gi", "pods": "110"});
        installed.plane.make_nodes(prefix, 1, &NodeShape { allocatable, labels }).expect("the node is made");
    };
    nodes("pool", json!({"pool": "x"}));
    nodes("other", json!({}));
    let daemon = installed.start();
    elastic_quotas(&installed);
    quota_trees(&installed);
    queues(&installed);
    // An older server does not have them.
    let has_all = quotient_testenv::programs::older().is_none();
    if has_all {
        a_group_of_kubernetes_itself(&installed);
    }
    volumes(&installed);
    let daemon = a_webhook_that_is_down_stops_what_it_guards_and_nothing_else(&installed, daemon);
    a_standby_answers_too(&installed);
    what_slips_through_is_reported(&installed);
    drop(daemon);
    if has_all {
        every_permission_is_used_and_no_other(&installed.plane);
    }
}

/// Pods are bound and evicted, quotas have a status, and a second quota for a namespace is refused.
fn elastic_quotas(installed: &Installed) {
    let plane = &installed.plane;
    for name in ["red", "blue", "green"] {
        installed.namespace(name);
    }
    let spec = |cpu: &str| json!({"min": {"cpu": cpu}});
    installed.apply(&[
        elastic_quota("nos.nebuly.com", "ElasticQuota", "red", spec("4")),
        elastic_quota("nos.nebuly.com", "ElasticQuota", "blue", spec("4")),
        elastic_quota("scheduling.x-k8s.io", "ElasticQuota", "green", spec("1")),
        elastic_quota("n8s.nebuly.ai", "ElasticQuota", "green", spec("1")),
    ]);
    let mut second = elastic_quota("nos.nebuly.com", "ElasticQuota", "red", spec("1"));
    second["metadata"]["name"] = json!("second");
    let said = refusal(plane, &[second.clone()]);
    assert!(said.contains("metadata.namespace: \"red\": is governed by ElasticQuota/red/quota already"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    second["metadata"]["namespace"] = json!("default");
    let dry = ["apply", "--server-side", "--dry-run=server", "-f", "-"];
    plane.kubectl_with(&dry, &second.to_string()).expect("it would be fine");
    assert!(get(plane, &["elasticquotas.nos.nebuly.com", "second", "-n", "default"]).is_none());
    // Red borrows what blue has not asked for yet, and gives it back.
    for index in 0..2 {
        installed.apply(&[pod("red", &format!("p-{index}"), "4")]);
        installed.runs("red", &format!("p-{index}"));
    }
    installed.apply(&[pod("blue", "p", "4")]);
    installed.runs("blue", "p");
    eventually(plane, "the quotas say what is used", || {
        let quota = get(plane, &["elasticquotas.nos.nebuly.com", "quota", "-n", "red"])?;
        (quota["status"]["used"]["cpu"] == "4").then_some(())
    });
    // Composite quotas take the place of the others.
    for (group, namespace) in [("nos.nebuly.com", "red"), ("n8s.nebuly.ai", "green")] {
        let spec = json!({"namespaces": [namespace], "min": {"cpu": "4"}});
        let mut composite = elastic_quota(group, "CompositeElasticQuota", "default", spec);
        composite["metadata"]["name"] = json!(namespace);
        installed.apply(&[composite]);
        eventually(plane, "the quota gives place", || {
            get(plane, &[&format!("elasticquotas.{group}"), "quota", "-n", namespace]).is_none().then_some(())
        });
    }
    plane.kubectl(&["delete", "pods", "--all", "-n", "red"]).expect("they go");
    plane.kubectl(&["delete", "pods", "--all", "-n", "blue"]).expect("they go");
}

/// A profile makes a tree; its pods are held to its nodes, and its quotas cannot be bent.
fn quota_trees(installed: &Installed) {
    let plane = &installed.plane;
    installed.namespace("team");
    installed.apply(&[json!({
        "apiVersion": "quota.koordinator.sh/v1alpha1", "kind": "ElasticQuotaProfile",
        "metadata": {"name": "pool", "namespace": "default"},
        "spec": {"quotaName": "root", "quotaLabels": {of_tree("is-parent"): "true"},
            "nodeSelector": {"matchLabels": {"pool": "x"}}},
    })]);
    let quota =
        |name: &str, namespace: &str| get(plane, &["elasticquotas.scheduling.sigs.k8s.io", name, "-n", namespace]);
    let root = eventually(plane, "the profile has its root", || {
        quota("root", "default").filter(|root| root["spec"]["min"]["cpu"] == "8")
    });
    let tree = root["metadata"]["labels"][of_tree("tree-id")].as_str().expect("it has a tree").to_string();
    let mut team = tree_quota("team", "team", "root", "4", "8");
    team["spec"]["max"] = root["spec"]["max"].clone();
    installed.apply(&[team.clone()]);
    let made = quota("team", "team").expect("it is there");
    assert_eq!(made["metadata"]["labels"][of_tree("tree-id")], tree.as_str(), "it is of its parent's tree");
    let moved = json!({"metadata": {"labels": {of_tree("tree-id"): "elsewhere"}}}).to_string();
    let patch = ["patch", "elasticquotas.scheduling.sigs.k8s.io", "team", "-n", "team", "--type=merge", "-p", &moved];
    let said = plane.kubectl(&patch).expect_err("it stays").to_string();
    assert!(said.contains("the id of a quota's tree may not change"), "{said}");
    let delete = ["delete", "elasticquotas.scheduling.sigs.k8s.io", "root", "-n", "default"];
    let said = plane.kubectl(&delete).expect_err("it stays").to_string();
    assert!(said.contains("ElasticQuota/team/team is below it"), "{said}");
    let mut greedy = tree_quota("greedy", "default", "root", "5", "8");
    greedy["spec"]["max"] = root["spec"]["max"].clone();
    let said = refusal(plane, &[greedy]);
    assert!(said.contains("the mins below root would be 9, and its own min is 8"), "{said}");
    // Pods of the namespace, and pods that name the quota from elsewhere.
    eventually(plane, "the namespace is marked", || {
        let namespace = get(plane, &["namespace", "team"])?;
        (namespace["metadata"]["labels"]["quotient.dev/quota-tree"] == "true").then_some(())
    });
    let mut named = pod("default", "named", "1");
    named["metadata"]["labels"] = json!({of_tree("name"): "team"});
    // The API server learns of the label in its own time; the first pods may come before.
    let is_held = |namespace: &str, name: &str| {
        let pod = get(plane, &["pod", name, "-n", namespace]).expect("it is there");
        let required = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        required["nodeSelectorTerms"][0]["matchExpressions"][0]["key"] == "pool"
    };
    eventually(plane, "pods of the namespace are held to the nodes of its tree", || {
        let probe = pod("team", "probe", "1");
        installed.apply(&[probe]);
        let held = is_held("team", "probe");
        plane.kubectl(&["delete", "pod", "probe", "-n", "team", "--force"]).expect("it goes");
        held.then_some(())
    });
    installed.apply(&[named, pod("team", "p", "4"), pod("green", "plain", "100m")]);
    assert!(is_held("default", "named") && is_held("team", "p") && !is_held("green", "plain"));
    for (namespace, name) in [("default", "named"), ("team", "p"), ("green", "plain")] {
        installed.runs(namespace, name);
    }
    // The manifest leaves out what was added, and can be applied again.
    let replace = ["replace", "-f", "-"];
    let mut again = get(plane, &["pod", "named"]).expect("it is there");
    again["metadata"]["labels"]["more"] = json!("yes");
    if let Some(spec) = again["spec"].as_object_mut() {
        spec.remove("affinity");
    }
    plane.kubectl_with(&replace, &again.to_string()).expect("it is no change");
    assert!(is_held("default", "named"));
    // A profile that goes takes the root of its tree with it, if there is nothing below.
    installed.apply(&[json!({
        "apiVersion": "quota.koordinator.sh/v1alpha1", "kind": "ElasticQuotaProfile",
        "metadata": {"name": "short", "namespace": "default"},
        "spec": {"quotaName": "short", "nodeSelector": {"matchLabels": {"pool": "none"}}},
    })]);
    eventually(plane, "there is another tree", || quota("short", "default"));
    plane.kubectl(&["delete", "elasticquotaprofiles.quota.koordinator.sh", "short"]).expect("it goes");
    eventually(plane, "its root is gone", || quota("short", "default").is_none().then_some(()));
    // A quota that becomes too small gives back.
    team["spec"]["min"]["cpu"] = json!("1");
    team["spec"]["max"]["cpu"] = json!("2");
    installed.apply(&[team]);
    installed.is_gone("team", "p");
    eventually(plane, "the quota says how it stands", || {
        let quota = quota("team", "team")?;
        quota["metadata"]["annotations"][of_tree("runtime")].as_str().map(drop)
    });
}

/// Queues are checked, and those that exist always stay.
fn queues(installed: &Installed) {
    let plane = &installed.plane;
    installed.namespace("work");
    let queue = |name: &str, parent: &str| {
        json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name},
            "spec": {"capability": {"cpu": "2"}, "parent": parent}})
    };
    eventually(plane, "the queues that exist always are there", || {
        get(plane, &["queues.scheduling.volcano.sh", "default"])
    });
    let said = plane.kubectl(&["delete", "queues.scheduling.volcano.sh", "default"]).expect_err("it stays").to_string();
    assert!(said.contains("cannot be deleted: it exists always"), "{said}");
    installed.apply(&[queue("q", "root")]);
    let said = refusal(plane, &[queue("lost", "nowhere")]);
    assert!(said.contains("spec.parent: \"nowhere\""), "{said}");
    let group = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "work"}, "spec": {"minMember": 1, "queue": "q"}});
    eventually(plane, "the webhooks know the queue", || plane.apply(std::slice::from_ref(&group)).ok());
    let mut member = pod("work", "member", "1");
    member["metadata"]["annotations"] = json!({"scheduling.k8s.io/group-name": "g"});
    installed.apply(&[member]);
    installed.runs("work", "member");
    eventually(plane, "the queue says what is allocated", || {
        let queue = get(plane, &["queues.scheduling.volcano.sh", "q"])?;
        (queue["status"]["allocated"]["cpu"] == "1").then_some(())
    });
    plane.kubectl(&["delete", "pod", "member", "-n", "work", "--force"]).expect("it goes");
    an_event_that_comes_again_is_counted(installed, queue("later", "root"));
    a_job_of_several_tasks(installed);
}

/// A pod that is pending for one reason, then for another, has one event, which counts both.
fn an_event_that_comes_again_is_counted(installed: &Installed, queue: Value) {
    let plane = &installed.plane;
    let mut early = pod("work", "early", "1");
    early["metadata"]["annotations"] = json!({"scheduling.volcano.sh/queue-name": queue["metadata"]["name"]});
    early["spec"]["nodeSelector"] = json!({"pool": "none"});
    installed.apply(&[early]);
    let counted = |count: u64| {
        eventually(plane, &format!("its event counts {count}"), || {
            let selector = "involvedObject.name=early,reason=FailedScheduling";
            let events = get(plane, &["events", "-n", "work", "--field-selector", selector])?;
            let [event] = &events["items"].as_array()?[..] else { return None };
            (event["count"] == count).then_some(())
        });
    };
    counted(1);
    installed.apply(&[queue]);
    counted(2);
    plane.kubectl(&["delete", "pod", "early", "-n", "work", "--force"]).expect("it goes");
}

/// A job gets its group and its pods; when they have ended, so has it.
fn a_job_of_several_tasks(installed: &Installed) {
    let plane = &installed.plane;
    let template = json!({"spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]}});
    let job = |queue: &str| {
        json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j", "namespace": "work"},
            "spec": {"queue": queue, "minSuccess": 1, "tasks": [{"replicas": 2, "template": template}],
                "plugins": {"env": [], "svc": []}, "ttlSecondsAfterFinished": 5}})
    };
    let said = refusal(plane, &[job("nowhere")]);
    assert!(said.contains("spec.queue: \"nowhere\": no such queue"), "{said}");
    installed.apply(&[job("q")]);
    let made = get(plane, &["jobs.batch.volcano.sh", "j", "-n", "work"]).expect("it is there");
    let task = &made["spec"]["tasks"][0]["name"];
    assert_eq!(
        (task, &made["spec"]["minAvailable"]),
        (&json!("default0"), &json!(2)),
        "what it leaves out is filled in"
    );
    eventually(plane, "the job's pods find each other", || {
        get(plane, &["service", "j", "-n", "work"])?;
        get(plane, &["configmap", "j-svc", "-n", "work"])
    });
    // kwok may have let it end already; it does so with pods of a Job, if it comes to it.
    let ended = json!({"status": {"phase": "Succeeded"}}).to_string();
    let patch = ["patch", "pod", "j-default0-0", "-n", "work", "--subresource=status", "--type=merge", "-p", &ended];
    eventually(plane, "the job is done, and its group gone", || {
        let pod = get(plane, &["pod", "j-default0-0", "-n", "work"]);
        if pod.is_some_and(|pod| pod["status"]["phase"] == "Running") {
            plane.kubectl(&patch).ok();
        }
        let job = get(plane, &["jobs.batch.volcano.sh", "j", "-n", "work"])?;
        let groups = get(plane, &["podgroups.scheduling.volcano.sh", "-n", "work"])?;
        let is_gone = groups["items"].as_array()?.iter().all(|group| group["metadata"]["name"] == "g");
        (job["status"]["state"]["phase"] == "Completed" && is_gone).then_some(())
    });
    eventually(plane, "the job goes when its time is up", || {
        get(plane, &["jobs.batch.volcano.sh", "j", "-n", "work"]).is_none().then_some(())
    });
    what_a_job_makes_and_is_told(installed);
}

/// A job gets keys, a volume and the names of its pods, which follow when it is scaled; a command ends it.
fn what_a_job_makes_and_is_told(installed: &Installed) {
    let plane = &installed.plane;
    let claim = json!({"storageClassName": "none", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let job = |replicas: u32| {
        let template = json!({"spec": {"nodeSelector": {"pool": "none"}, "containers": [{"name": "c", "image": "i"}]}});
        json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "k", "namespace": "work"},
            "spec": {"queue": "q", "minAvailable": 1, "tasks": [{"name": "t", "replicas": replicas, "template": template}],
                "plugins": {"svc": [], "ssh": []}, "volumes": [{"mountPath": "/x", "volumeClaim": claim}]}})
    };
    let hosts = |count: &str| {
        eventually(plane, &format!("the ConfigMap has {count} hosts"), || {
            let map = get(plane, &["configmap", "k-svc", "-n", "work"])?;
            (map["data"]["VC_T_NUM"] == count).then_some(())
        });
    };
    installed.apply(&[job(1)]);
    hosts("1");
    let secret = eventually(plane, "the job has keys", || get(plane, &["secret", "k-ssh", "-n", "work"]));
    let names: Vec<&String> = secret["data"].as_object().into_iter().flatten().map(|(name, _)| name).collect();
    assert_eq!(names, ["config", "id_rsa", "id_rsa.pub"]);
    eventually(plane, "the job has a volume claim", || {
        let claims = get(plane, &["persistentvolumeclaims", "-n", "work"])?;
        let is_its = |claim: &Value| claim["metadata"]["ownerReferences"][0]["name"] == "k";
        claims["items"].as_array()?.iter().any(is_its).then_some(())
    });
    installed.apply(&[job(2)]);
    hosts("2");
    installed.apply(&[json!({"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command",
        "metadata": {"name": "stop", "namespace": "work"}, "action": "AbortJob",
        "target": {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "k"}})]);
    eventually(plane, "the job is aborted, and the command gone", || {
        let job = get(plane, &["jobs.batch.volcano.sh", "k", "-n", "work"])?;
        let is_gone = get(plane, &["commands.bus.volcano.sh", "stop", "-n", "work"]).is_none();
        (job["status"]["state"]["phase"] == "Aborted" && is_gone).then_some(())
    });
    plane.kubectl(&["delete", "jobs.batch.volcano.sh", "k", "-n", "work"]).expect("it goes");
}

/// A gang of Kubernetes' own starts, and its group says so.
fn a_group_of_kubernetes_itself(installed: &Installed) {
    installed.namespace("groups");
    let group = json!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "two", "namespace": "groups"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}});
    let member = |name: &str| {
        let mut pod = pod("groups", name, "1");
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": "two"});
        pod
    };
    installed.apply(&[group, member("a"), member("b")]);
    ["a", "b"].into_iter().for_each(|name| installed.runs("groups", name));
    eventually(&installed.plane, "the group says that it is scheduled", || {
        let group = get(&installed.plane, &["podgroups.scheduling.k8s.io", "two", "-n", "groups"])?;
        let conditions = group["status"]["conditions"].as_array()?.clone();
        conditions.iter().any(|condition| condition["status"] == "True").then_some(())
    });
    for kind in ["pod/a", "pod/b", "podgroups.scheduling.k8s.io/two"] {
        installed.plane.kubectl(&["delete", kind, "-n", "groups", "--wait=false"]).expect("it is there");
    }
}

/// A claim that waits for its pod is bound to a volume that is there, or to one that is made.
fn volumes(installed: &Installed) {
    let plane = &installed.plane;
    let class = |name: &str, provisioner: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"})
    };
    let size = json!({"storage": "1Gi"});
    let claim = |name: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "work"},
            "spec": {"storageClassName": name, "accessModes": ["ReadWriteOnce"], "resources": {"requests": size}}})
    };
    let user = |name: &str| {
        let mut pod = pod("work", name, "100m");
        pod["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": name}}]);
        pod
    };
    let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
        "spec": {"storageClassName": "there", "accessModes": ["ReadWriteOnce"], "capacity": size,
            "hostPath": {"path": "/nowhere"}}});
    installed.apply(&[
        class("there", "kubernetes.io/no-provisioner"),
        class("made", "example.com/nobody"),
        volume,
        claim("there"),
        claim("made"),
        user("there"),
        user("made"),
    ]);
    installed.runs("work", "there");
    eventually(plane, "a volume is asked for near a node", || {
        let claim = get(plane, &["pvc", "made", "-n", "work"])?;
        claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].as_str().map(drop)
    });
}

fn a_webhook_that_is_down_stops_what_it_guards_and_nothing_else(installed: &Installed, daemon: Daemon) -> Daemon {
    let plane = &installed.plane;
    daemon.kill();
    installed.apply(&[pod("green", "meanwhile", "100m"), pod("default", "meanwhile", "100m")]);
    plane.kubectl(&["label", "pod", "meanwhile", "-n", "green", "a=b"]).expect("it can be labelled");
    plane.kubectl(&["label", "pod", "named", "-n", "default", "a=b"]).expect("nothing that is guarded changes");
    let mut named = pod("green", "guarded", "100m");
    named["metadata"]["labels"] = json!({of_tree("name"): "team"});
    let spec = json!({"min": {"cpu": "1"}});
    for guarded in [
        named,
        pod("team", "guarded", "100m"),
        elastic_quota("nos.nebuly.com", "ElasticQuota", "green", spec),
        tree_quota("later", "default", "koordinator-root-quota", "0", "1"),
    ] {
        let said = refusal(plane, &[guarded]);
        assert!(said.contains("failed calling webhook"), "{said}");
    }
    // Somebody breaks the Secret meanwhile: another authority is made, and the API server told of it.
    let secret = ["secret", "quotient-webhook-authority", "-n", NAMESPACE];
    plane.kubectl(&[&["annotate"], &secret[..], &["quotient.dev/ca-name-"]].concat()).expect("it is there");
    let daemon = installed.start();
    installed.runs("green", "meanwhile");
    let guarded = pod("team", "guarded", "100m");
    eventually(plane, "the webhooks answer again", || plane.apply(std::slice::from_ref(&guarded)).ok());
    installed.runs("team", "guarded");
    daemon
}

/// The webhooks of one that does not have the lease, or that only answers, do so like those of the one that has it.
fn a_standby_answers_too(installed: &Installed) {
    let plane = &installed.plane;
    let metrics = |port: u16| ask(port, "/metrics").map(|(_, text)| text).unwrap_or_default();
    let refused = elastic_quota("scheduling.x-k8s.io", "ElasticQuota", "green", json!({"min": {"a b": "1"}}));
    for more in [&[][..], &["--only", "webhooks"]] {
        let ports = (free_port(), free_port());
        let _standby = installed.start_on(ports, more);
        apply(plane, &printed(&["--webhook-url", &format!("https://127.0.0.1:{}", ports.1)]));
        eventually(plane, "the standby is asked", || {
            refusal(plane, std::slice::from_ref(&refused));
            metrics(ports.0).contains(r#"quotient_reviews_total{path="/validate",outcome="refused"}"#).then_some(())
        });
        let (leader, standby) = (metrics(installed.metrics), metrics(ports.0));
        assert!(leader.contains("quotient_leader 1") && standby.contains("quotient_leader 0"), "{more:?}: {standby}");
    }
}

/// Without webhooks a quota comes in that should not: it is reported, and the rest goes on.
fn what_slips_through_is_reported(installed: &Installed) {
    let plane = &installed.plane;
    let both = "mutatingwebhookconfigurations,validatingwebhookconfigurations";
    plane.kubectl(&["delete", both, "quotient"]).expect("they are there");
    let spec = json!({"min": {"a b": "1", "cpu": "1"}});
    let odd = elastic_quota("scheduling.x-k8s.io", "ElasticQuota", "work", spec);
    eventually(plane, "nobody is asked any more", || plane.apply(std::slice::from_ref(&odd)).ok());
    eventually(plane, "it is reported", || {
        let log = std::fs::read_to_string(&installed.log).ok()?;
        log.contains("ElasticQuota/work/quota: spec.min").then_some(())
    });
    installed.apply(&[pod("green", "after", "100m")]);
    installed.runs("green", "after");
}

/// Verbs by group, resource and place.
type Verbs = BTreeMap<(String, String, Place), BTreeSet<String>>;

/// What a run of these tests does not use, each with its reason.
const NOT_USED_HERE: &[(&str, &str, &str, &str)] = &[
    ("resource.k8s.io", "resourceclaims", "get", "device claims have tests of their own"),
    ("resource.k8s.io", "resourceclaims", "patch", "device claims have tests of their own"),
    ("resource.k8s.io", "resourceclaims", "create", "device claims have tests of their own"),
    ("resource.k8s.io", "resourceclaims", "delete", "device claims have tests of their own"),
    ("resource.k8s.io", "resourceclaims/status", "patch", "device claims have tests of their own"),
    ("resource.k8s.io", "resourceclaims/binding", "patch", "the API server asks whether it is granted"),
    ("resource.k8s.io", "resourceclaims/binding", "update", "the API server asks whether it is granted"),
    ("scheduling.x-k8s.io", "podgroups/status", "patch", "gangs of Coscheduling have scenarios of their own"),
    ("scheduling.sigs.k8s.io", "podgroups/status", "patch", "gangs of Koordinator have scenarios of their own"),
    ("", "pods", "get", "looked at when a bind was not answered and is tried again"),
    ("authentication.k8s.io", "tokenreviews", "create", "asked when somebody signs in to the dashboard"),
    ("authorization.k8s.io", "subjectaccessreviews", "create", "asked when somebody signs in to the dashboard"),
];

fn every_permission_is_used_and_no_other(plane: &ControlPlane) {
    let mut granted = Verbs::new();
    for permission in PERMISSIONS.iter() {
        let key = (permission.group.to_string(), permission.resource.to_string(), permission.place);
        granted.entry(key).or_default().extend(permission.verbs.iter().map(ToString::to_string));
    }
    let user = format!("system:serviceaccount:{NAMESPACE}:quotient");
    let mut used = Verbs::new();
    let log = std::fs::read_to_string(plane.audit_log()).expect("there is a log");
    for line in log.lines() {
        let entry: Value = serde_json::from_str(line).expect("a line is JSON");
        let object = &entry["objectRef"];
        // Everybody may ask for the version, and what he may do.
        if entry["user"]["username"] != user || object.is_null() || object["apiGroup"] == "authorization.k8s.io" {
            continue;
        }
        assert_ne!(entry["responseStatus"]["code"], 403, "{line}");
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let resource = match text("subresource") {
            "" => text("resource").to_string(),
            part => format!("{}/{part}", text("resource")),
        };
        let place = |place: Place| (text("apiGroup").to_string(), resource.clone(), place);
        // What is granted everywhere is granted in our own namespace too.
        let is_own = text("namespace") == NAMESPACE && granted.contains_key(&place(Place::Own));
        let key = place(if is_own { Place::Own } else { Place::Everywhere });
        used.entry(key).or_default().insert(entry["verb"].as_str().unwrap_or_default().to_string());
    }
    let none = BTreeSet::new();
    let beyond = |these: &Verbs, others: &Verbs| -> Vec<String> {
        let each = these.iter().flat_map(|(key, verbs)| verbs.iter().map(move |verb| (key, verb)));
        let missing = each.filter(|(key, verb)| !others.get(*key).unwrap_or(&none).contains(*verb));
        missing.map(|((group, resource, place), verb)| format!("{verb} {group}/{resource} {place:?}")).collect()
    };
    assert_eq!(beyond(&used, &granted), [""; 0], "used and not in the table");
    for (group, resource, verb, _) in NOT_USED_HERE {
        let key = (group.to_string(), resource.to_string(), Place::Everywhere);
        assert!(used.entry(key).or_default().insert(verb.to_string()), "{verb} {group}/{resource} is used after all");
    }
    assert_eq!(beyond(&granted, &used), [""; 0], "in the table and not used");
    // The log is that of a run in which much happened.
    assert!(items(plane, "leases").iter().any(|lease| lease["metadata"]["namespace"] == NAMESPACE));
}
