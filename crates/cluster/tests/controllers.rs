//! The controllers on a real API server: what they make, write and delete.

use crate::stage;

use quotient_api::{Configuration, crd};
use serde_json::{Value, json};
use stage::{Stage, pod, stage, text};

const ROOTS: &str = "elasticquotas.scheduling.sigs.k8s.io";
const PROFILES: &str = "elasticquotaprofiles.quota.koordinator.sh";
const GROUPS: &str = "podgroups.scheduling.volcano.sh";
const QUEUES: &str = "queues.scheduling.volcano.sh";
const JOBS: &str = "jobs.batch.volcano.sh";

fn condition(object: &Value, kind: &str) -> Option<Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind).cloned()
}

/// Whether there is an event about an object.
fn is_told(stage: &Stage, namespace: &str, about: &str, reason: &str) -> Option<()> {
    let events = stage.items("events", Some(namespace));
    let is_it = |event: &Value| event["reason"] == reason && text(event, "/involvedObject/name") == about;
    events.iter().any(is_it).then_some(())
}

/// Ends a pod; one that fails does so with the exit code 3.
fn end(stage: &Stage, namespace: &str, name: &str, phase: &str) {
    let code = if phase == "Failed" { 3 } else { 0 };
    let container = json!({"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": code}}});
    let status = json!({"status": {"phase": phase, "containerStatuses": [container]}}).to_string();
    let what = ["patch", "pod", name, "-n", namespace, "--subresource=status", "--type=merge", "-p", &status];
    stage.kubectl(&what);
}

#[test]
fn the_root_of_a_tree_follows_its_nodes() {
    let mut stage = stage();
    stage.plane().install(&crd::definitions()).expect("the kinds are installed");
    stage.namespace("kube-quota");
    let gpu = |name: &str| {
        stage.node(name, json!({"cpu": "8", "memory": "16Gi", "pods": "10"}));
        stage.kubectl(&["label", "node", name, "pool=gpu"]);
    };
    gpu("n-0");
    let _live = stage.start(Configuration::default());
    stage.apply(&[json!({
        "apiVersion": "quota.koordinator.sh/v1alpha1", "kind": "ElasticQuotaProfile",
        "metadata": {"name": "gpu-pool", "namespace": "kube-quota"},
        "spec": {"quotaName": "gpu-root", "nodeSelector": {"matchLabels": {"pool": "gpu"}}},
    })]);
    let root_has = |cpu: &str| {
        let root = stage.get(ROOTS, "kube-quota", "gpu-root")?;
        (root["spec"]["min"]["cpu"] == cpu).then_some(root)
    };
    let root = stage.eventually("the root is made", || root_has("8"));
    assert_eq!(root["metadata"]["labels"]["quota.scheduling.koordinator.sh/is-root"], "true");
    let profile_says = |nodes: u64, reason: &str| {
        let profile = stage.get(PROFILES, "kube-quota", "gpu-pool")?;
        let ready = condition(&profile, "Ready")?;
        (profile["status"]["nodes"] == nodes && ready["reason"] == reason).then_some(())
    };
    stage.eventually("the profile says so", || profile_says(1, "RootIsCurrent"));
    gpu("n-1");
    stage.eventually("the root follows a node that comes", || root_has("16"));
    stage.kubectl(&["delete", "node", "n-0"]);
    stage.eventually("and one that goes", || root_has("8"));
    stage.kubectl(&["label", "node", "n-1", "pool-"]);
    stage.eventually("and one that is not of the pool any more", || profile_says(0, "NoNodes"));
    stage.apply(&[json!({
        "apiVersion": "quota.koordinator.sh/v1alpha1", "kind": "ElasticQuotaProfile",
        "metadata": {"name": "younger", "namespace": "kube-quota"},
        "spec": {"quotaName": "gpu-root", "nodeSelector": {"matchLabels": {"pool": "gpu"}}},
    })]);
    stage.eventually("of two that ask for one root the younger has a problem", || {
        let ready = condition(&stage.get(PROFILES, "kube-quota", "younger")?, "Ready")?;
        (ready["status"] == "False" && text(&ready, "/message").contains("gpu-pool")).then_some(())
    });
    let names = [PROFILES, "gpu-pool", "younger"];
    stage.kubectl(&[&["delete", "-n", "kube-quota"], &names[..]].concat());
    stage.eventually("a root that nobody asks for goes", || {
        stage.get(ROOTS, "kube-quota", "gpu-root").is_none().then_some(())
    });
}

#[test]
fn pods_of_a_deployment_start_together() {
    let mut stage = stage();
    stage.plane().install(&crd::definitions()).expect("the kinds are installed");
    stage.namespace("gangs");
    stage.node("n", json!({"cpu": "2", "memory": "8Gi", "pods": "10"}));
    let live = stage.start(Configuration::default());
    let template = pod("gangs", "", json!({"cpu": "1"}));
    // Only the Deployment says so: neither its ReplicaSet's template nor its pods do.
    stage.apply(&[json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "gangs",
            "annotations": {"scheduling.volcano.sh/group-min-member": "3"}},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": template["spec"]}},
    })]);
    let group = || stage.items(GROUPS, Some("gangs")).into_iter().next();
    let waits = stage.eventually("the group says that it waits", || {
        let group = group()?;
        condition(&group, "Unschedulable").map(|condition| (group, condition))
    });
    assert_eq!(waits.0["spec"]["minMember"], 3);
    assert_eq!(waits.0["status"]["phase"], "Inqueue");
    assert!(text(&waits.1, "/message").contains("3/3 tasks in gang unschedulable"), "{waits:?}");
    let pods = stage.items("pods", Some("gangs"));
    let named = |pod: &Value| text(pod, "/metadata/annotations/scheduling.k8s.io~1group-name");
    assert!(pods.iter().all(|pod| named(pod) == text(&waits.0, "/metadata/name")), "{pods:?}");
    assert_eq!(stage.running("gangs"), [], "two of three would have had room");
    // Who comes next knows what was let in already, and still keeps them together.
    live.crash();
    let _live = stage.start(Configuration::default());
    stage.node("m", json!({"cpu": "1", "memory": "8Gi", "pods": "10"}));
    stage.eventually("with room for three they all run", || (stage.running("gangs").len() == 3).then_some(()));
    stage.eventually("the group says so", || {
        let group = group()?;
        let is_over = condition(&group, "Unschedulable").is_some_and(|condition| condition["status"] == "False");
        (group["status"]["phase"] == "Running" && group["status"]["running"] == 3 && is_over).then_some(())
    });
    let name = text(&group().expect("it is there"), "/metadata/name");
    stage.eventually("events tell of it", || {
        is_told(&stage, "gangs", &name, "Unschedulable").and_then(|()| is_told(&stage, "gangs", &name, "Scheduled"))
    });
    stage.kubectl(&["delete", GROUPS, &name, "-n", "gangs"]);
    let count = || group().map(|group| group["status"]["running"].clone());
    stage.eventually("a group that somebody deletes is made anew", || (count() == Some(json!(3))).then_some(()));

    stage.kubectl(&["delete", "deployment", "web", "-n", "gangs"]);
    stage.eventually("its group goes with what made it", || group().is_none().then_some(()));
    let mut members = [pod("gangs", "p-0", json!({"cpu": "1"})), pod("gangs", "p-1", json!({"cpu": "1"}))];
    for member in &mut members {
        member["metadata"]["annotations"] =
            json!({"scheduling.k8s.io/group-name": "pair", "scheduling.volcano.sh/group-min-member": "2"});
        member["spec"]["restartPolicy"] = json!("Never");
    }
    stage.apply(&members);
    stage.eventually("pods that name their group run together", || (stage.running("gangs").len() == 2).then_some(()));
    end(&stage, "gangs", "p-0", "Succeeded");
    end(&stage, "gangs", "p-1", "Succeeded");
    stage.eventually("the group counts those that have ended", || {
        let group = group()?;
        (group["status"]["phase"] == "Completed" && group["status"]["succeeded"] == 2).then_some(())
    });
}

fn job(name: &str, spec: Value) -> Value {
    let task = |name: &str, replicas: u64| {
        let template = pod("jobs", "", json!({"cpu": "1"}));
        let mut spec = template["spec"].clone();
        spec["restartPolicy"] = json!("Never");
        json!({"name": name, "replicas": replicas, "template": {"spec": spec}})
    };
    let mut job = json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name, "namespace": "jobs"},
        "spec": {"schedulerName": "quotient", "tasks": [task("head", 1), task("worker", 2)]},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        job["spec"][field] = value.clone();
    }
    job
}

/// The pods of a large job are made, told of and looked at beside a pod of somebody else, which waits for none of it.
#[test]
fn a_pod_beside_a_job_of_many_is_bound_at_once() {
    const MANY: usize = 1500;
    let mut stage = stage();
    stage.plane().install(&crd::definitions()).expect("the kinds are installed");
    ["jobs", "single"].into_iter().for_each(|name| stage.namespace(name));
    stage.node("n", json!({"cpu": "4", "memory": "8Gi", "pods": "10"}));
    let live = stage.start(Configuration::default());
    stage.apply(&[pod("single", "before", json!({"cpu": "1"}))]);
    let runs = |name: &str| stage.running("single").iter().any(|(running, _)| running == name).then_some(());
    stage.eventually("a pod runs before", || runs("before"));
    let mut spec = pod("jobs", "", json!({"cpu": "100"}))["spec"].clone();
    spec["restartPolicy"] = json!("Never");
    let task = json!({"name": "all", "replicas": MANY, "template": {"spec": spec}});
    stage.apply(&[json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "large", "namespace": "jobs"},
        "spec": {"schedulerName": "quotient", "minAvailable": 1, "tasks": [task]},
    })]);
    let made = || stage.items("pods", Some("jobs")).len();
    stage.eventually("some of its pods are there", || (made() > 0).then_some(()));
    stage.apply(&[pod("single", "beside", json!({"cpu": "1"}))]);
    stage.eventually("the pod beside it is bound", || {
        let found = stage.get("pod", "single", "beside")?;
        condition(&found, "PodScheduled").filter(|condition| condition["status"] == "True")
    });
    // What is to be made was asked for before it.
    assert!(made() < MANY, "it waited until all pods of the job were made");
    assert!(live.metrics.text().contains("lane=\"make\""));
}

#[test]
fn a_job_of_two_tasks_is_restarted_and_completes_and_one_that_is_too_large_waits() {
    let mut stage = stage();
    stage.plane().install(&crd::definitions()).expect("the kinds are installed");
    stage.namespace("jobs");
    stage.node("n", json!({"cpu": "4", "memory": "8Gi", "pods": "10"}));
    stage.apply(&[
        json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "small"},
        "spec": {"capability": {"cpu": "2"}}}),
    ]);
    let live = stage.start(Configuration::default());
    let policies = json!({"policies": [{"exitCode": 3, "action": "RestartJob"}]});
    stage.apply(&[job("train", policies)]);
    let phase = |name: &str| text(&stage.get(JOBS, "jobs", name).unwrap_or_default(), "/status/state/phase");
    let is = |name: &str, wanted: &str| (phase(name) == wanted).then_some(());
    stage.eventually("the job runs", || is("train", "Running"));
    let running = || stage.running("jobs").into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(running(), ["train-head-0", "train-worker-0", "train-worker-1"]);
    let first = stage.get("pod", "jobs", "train-head-0").expect("it is there");
    assert_eq!(first["metadata"]["ownerReferences"][0]["kind"], "Job");
    end(&stage, "jobs", "train-worker-1", "Failed");
    stage.eventually("the job is tried once more", || {
        let job = stage.get(JOBS, "jobs", "train")?;
        let head = stage.get("pod", "jobs", "train-head-0")?;
        let is_new = head["metadata"]["uid"] != first["metadata"]["uid"];
        (job["status"]["retryCount"] == 1 && is_new && phase("train") == "Running").then_some(())
    });
    stage.eventually("an event tells of it", || is_told(&stage, "jobs", "train", "RestartJob"));
    let job_now = stage.get(JOBS, "jobs", "train").expect("it is there");
    assert_eq!((&job_now["status"]["version"], running().len()), (&json!(1), 3), "{job_now}");
    // Who comes next goes on where this one was.
    live.crash();
    let _live = stage.start(Configuration::default());
    for name in ["train-head-0", "train-worker-0", "train-worker-1"] {
        end(&stage, "jobs", name, "Succeeded");
    }
    stage.eventually("the job completes", || is("train", "Completed"));
    let job_now = stage.get(JOBS, "jobs", "train").expect("it is there");
    assert_eq!((&job_now["status"]["succeeded"], &job_now["status"]["retryCount"]), (&json!(3), &json!(1)));
    stage.eventually("its group goes", || stage.items(GROUPS, Some("jobs")).is_empty().then_some(()));
    assert_eq!(stage.items("pods", Some("jobs")).len(), 3, "its pods stay to be looked at");

    stage.apply(&[job("large", json!({"queue": "small"}))]);
    let (group, waits) = stage.eventually("its group says why it waits", || {
        let group = stage.items(GROUPS, Some("jobs")).into_iter().next()?;
        condition(&group, "Unschedulable").map(|condition| (group, condition))
    });
    assert_eq!((&group["status"]["phase"], phase("large").as_str()), (&json!("Pending"), "Pending"));
    assert!(text(&waits, "/message").contains("small"), "{waits}");
    assert_eq!(stage.items("pods", Some("jobs")).len(), 3, "no pod is made before there is room in the queue");
    let capability = r#"{"spec":{"capability":{"cpu":"3"}}}"#;
    stage.kubectl(&["patch", QUEUES, "small", "--type=merge", "-p", capability]);
    stage.eventually("with room in its queue it runs", || is("large", "Running"));
    stage.eventually("the queue counts it", || {
        let queue = stage.get(QUEUES, "default", "small")?;
        (queue["status"]["running"] == 1 && queue["status"]["allocated"]["cpu"] == "3").then_some(())
    });
}

#[test]
fn a_job_is_neither_doubled_nor_restarted_by_crashes() {
    let mut stage = stage();
    stage.plane().install(&crd::definitions()).expect("the kinds are installed");
    stage.namespace("jobs");
    stage.node("n", json!({"cpu": "40", "memory": "8Gi", "pods": "100"}));
    // Whoever takes a pod for lost, or for failed twice, would be seen by the count of restarts.
    let policies = json!([{"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"}]);
    let mut many = job("many", json!({"policies": policies}));
    many["spec"]["tasks"][1]["replicas"] = json!(30);
    let status = |field: &str| stage.get(JOBS, "jobs", "many").unwrap_or_default()["status"][field].clone();
    let pods = || stage.items("pods", Some("jobs")).len();
    let all_run = || {
        let runs = status("state")["phase"] == "Running" && status("running") == 31;
        (runs && stage.running("jobs").len() == 31).then_some(())
    };
    let live = stage.start(Configuration::default());
    stage.apply(&[many]);
    stage.eventually("the first pods are there", || (pods() > 0).then_some(()));
    live.crash();
    let live = stage.start(Configuration::default());
    stage.eventually("all pods run", all_run);
    assert_eq!((pods(), status("retryCount")), (31, json!(0)));
    end(&stage, "jobs", "many-worker-7", "Failed");
    stage.eventually("the job is being restarted", || (status("retryCount") == 1).then_some(()));
    live.crash();
    let live = stage.start(Configuration::default());
    stage.eventually("the pod that failed goes", || {
        let pod = stage.get("pod", "jobs", "many-worker-7").unwrap_or_default();
        (pod["status"]["phase"] != "Failed").then_some(())
    });
    live.crash();
    let _live = stage.start(Configuration::default());
    stage.eventually("all pods run again", all_run);
    assert_eq!((pods(), status("retryCount"), status("version")), (31, json!(1), json!(1)));
}

/// Refuses what is written to a kind, as a webhook of somebody else may.
fn refusal(name: &str, group: &str, resource: &str, operation: &str) -> [Value; 2] {
    let rule = json!({"apiGroups": [group], "apiVersions": ["*"], "operations": [operation], "resources": [resource]});
    let api_version = "admissionregistration.k8s.io/v1";
    [
        json!({"apiVersion": api_version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": "false", "message": "not today"}]}}),
        json!({"apiVersion": api_version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]}}),
    ]
}

#[test]
fn what_is_refused_is_written_when_it_is_not_refused_any_more() {
    let mut stage = stage();
    stage.plane().install(&crd::definitions()).expect("the kinds are installed");
    stage.namespace("jobs");
    stage.node("n", json!({"cpu": "4", "memory": "8Gi", "pods": "10"}));
    for (name, resource, operation) in [("status", "queues/status", "UPDATE"), ("groups", "podgroups", "CREATE")] {
        stage.apply(&refusal(name, "scheduling.volcano.sh", resource, operation));
    }
    // It takes the API server a moment to go by a policy.
    let group = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "jobs"}, "spec": {"minMember": 1}});
    let tried = ["create", "--dry-run=server", "-f", "-"];
    while stage.plane().kubectl_with(&tried, &group.to_string()).is_ok() {
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let live = stage.start(Configuration::default());
    stage.apply(&[job("train", json!({}))]);
    stage.eventually("the job says what is refused", || is_told(&stage, "jobs", "train", "FailedCreate"));
    let refused = |what: &str| format!(r#"quotient_writes_total{{what="{what}",outcome="refused"}}"#);
    stage.eventually("both are refused", || {
        let metrics = live.metrics.text();
        (metrics.contains(&refused("amend")) && metrics.contains(&refused("make"))).then_some(())
    });
    stage.kubectl(&["delete", "validatingadmissionpolicybindings,validatingadmissionpolicies", "--all"]);
    stage.eventually("the job runs all the same", || {
        let job = stage.get(JOBS, "jobs", "train")?;
        (job["status"]["state"]["phase"] == "Running").then_some(())
    });
    stage.eventually("and its queue says so", || {
        let queue = stage.get(QUEUES, "default", "default")?;
        (queue["status"]["running"] == 1).then_some(())
    });
}

#[test]
fn queues_are_told_of_and_counted_by_card() {
    let mut stage = stage();
    stage.plane().install(&crd::definitions()).expect("the kinds are installed");
    stage.namespace("cards");
    stage.node("n", json!({"cpu": "8", "memory": "8Gi", "nvidia.com/gpu": "4", "pods": "10"}));
    stage.kubectl(&["label", "node", "n", "nvidia.com/gpu.product=A100", "nvidia.com/gpu.count=4"]);
    let live = stage.start(Configuration::default());
    let queue = |name: &str, annotations: Value| {
        json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
            "metadata": {"name": name, "annotations": annotations}, "spec": {}})
    };
    stage.apply(&[queue("team", json!({"volcano.sh/card.quota": r#"{"A100": 1}"#})), queue("open", json!({}))]);
    for index in 0..2 {
        let mut pod = pod("cards", &format!("p-{index}"), json!({"nvidia.com/gpu": "1"}));
        pod["metadata"]["annotations"] =
            json!({"scheduling.volcano.sh/queue-name": "team", "volcano.sh/card.name": "A100"});
        stage.apply(&[pod]);
    }
    stage.eventually("one runs", || (stage.running("cards").len() == 1).then_some(()));
    let names = ["p-0", "p-1"];
    let waits = || names.into_iter().find(|name| stage.waits_for("cards", name).is_some());
    let other = stage.eventually("the other waits", waits);
    stage.eventually("its event has the queue's own word", || {
        is_told(&stage, "cards", other, "InsufficientScalarQuota")
    });
    stage.eventually("a queue without a limit is told of", || {
        is_told(&stage, "default", "open", "EmptyQueueCapability")
    });
    let line = |metric: &str, value: u32| {
        let line = format!(r#"volcano_queue_card_{metric}{{queue_name="team",card_name="A100"}} {value}"#);
        live.metrics.text().lines().any(|found| found.starts_with(&line)).then_some(())
    };
    stage.eventually("the figures are there", || {
        line("allocated", 1).and_then(|()| line("request", 2)).and_then(|()| line("capacity", 1))
    });
    assert!(live.metrics.text().ends_with("# EOF\n"));

    // A group that was let in keeps its cards, whoever comes to lead.
    stage.apply(&[queue("one", json!({"volcano.sh/card.quota": r#"{"A100": 1}"#}))]);
    let group = |name: &str| {
        json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "cards",
                "annotations": {"volcano.sh/card.request": r#"{"A100": 1}"#}},
            "spec": {"minMember": 1, "queue": "one", "minResources": {"nvidia.com/gpu": "1"}}})
    };
    let phase = |name: &str| text(&stage.get(GROUPS, "cards", name).unwrap_or_default(), "/status/phase");
    stage.apply(&[group("first")]);
    stage.eventually("the first is let in", || (phase("first") == "Inqueue").then_some(()));
    stage.apply(&[group("second")]);
    stage.eventually("the second waits", || {
        condition(&stage.get(GROUPS, "cards", "second")?, "Unschedulable").map(drop)
    });
    live.crash();
    let _live = stage.start(Configuration::default());
    stage.apply(&[pod("cards", "late", json!({"cpu": "1"}))]);
    stage.eventually("the next one has decided", || {
        stage.running("cards").iter().any(|(name, _)| name == "late").then_some(())
    });
    assert_eq!((phase("first").as_str(), phase("second").as_str()), ("Inqueue", "Pending"));
    stage.kubectl(&["delete", GROUPS, "first", "-n", "cards"]);
    stage.eventually("the second is let in when the first is gone", || (phase("second") == "Inqueue").then_some(()));
}
