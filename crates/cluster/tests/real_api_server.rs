//! The scheduler on a real API server, with real controllers, and nodes that kwok plays.

use crate::stage;

use std::time::{Duration, Instant};

use quotient_api::Configuration;
use quotient_cluster::lease::{Election, Elector};
use quotient_cluster::{LeaseSettings, Metrics, connect};
use serde_json::{Value, json};
use stage::{pod, stage, text};

fn quota(group: &str, namespace: &str, min: Value, max: Value) -> Value {
    json!({
        "apiVersion": format!("{group}/v1alpha1"), "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": namespace}, "spec": {"min": min, "max": max},
    })
}

#[test]
fn pods_are_bound_run_and_say_why_they_wait() {
    let stage = stage();
    stage.namespace("first");
    stage.node("n-0", json!({"cpu": "4", "memory": "8Gi", "pods": "10"}));
    stage.node("n-1", json!({"cpu": "4", "memory": "8Gi", "pods": "10"}));
    let live = stage.start(Configuration::default());
    let template = pod("first", "", json!({"cpu": "1"}));
    stage.apply(&[
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "first"},
            "spec": {"replicas": 6, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": template["spec"]}},
        }),
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "not-ours", "namespace": "first"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }),
    ]);
    stage.eventually("six pods run", || (stage.running("first").len() == 6).then_some(()));
    stage.apply(&[pod("first", "large", json!({"cpu": "3"}))]);
    let why = stage.eventually("the large pod says why it waits", || stage.waits_for("first", "large"));
    assert!(why.contains("cpu"), "{why}");
    let told = |reason: &str, of: &str| {
        let events = stage.items("events", Some("first"));
        events.iter().any(|event| event["reason"] == reason && text(event, "/involvedObject/name").starts_with(of))
    };
    stage.eventually("events tell of it", || {
        (told("Scheduled", "web-") && told("FailedScheduling", "large")).then_some(())
    });
    let other = stage.get("pod", "first", "not-ours").expect("it is there");
    assert!(other["spec"]["nodeName"].is_null(), "another scheduler's pod is left alone");
    stage.kubectl(&["scale", "deployment", "web", "-n", "first", "--replicas=1"]);
    stage.eventually("the large pod runs when there is room", || {
        stage.running("first").iter().any(|(name, _)| name == "large").then_some(())
    });
    let record = || {
        stage.get("pod", "first", "large")?["metadata"]["annotations"]["quotient.dev/bound-as"]
            .as_str()
            .map(str::to_owned)
    };
    assert_eq!(record(), None, "it answers to nothing");
    stage.kubectl(&["annotate", "pod", "large", "-n", "first", "scheduling.volcano.sh/queue-name=q"]);
    stage.eventually("what it was bound as is recorded", || (record()? == "{}").then_some(()));
    let metrics = live.metrics.text();
    for (held, count) in [("no", 6), ("yes", 1)] {
        let line = format!("quotient_bind_latency_seconds_count{{held=\"{held}\"}} {count}");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
}

/// On an API server as it comes, which serves some kinds and not others.
#[test]
fn it_is_ready_and_stays_so_and_is_again_when_the_api_server_was_replaced() {
    let mut stage = stage();
    // What takes a minute by default shows sooner here.
    let fails_max = Duration::from_secs(3);
    let live = stage.start_with(Configuration::default(), Metrics::default().with_watch_fails_max(fails_max));
    let is_ready_for_long = |stage: &stage::Stage, what: &str| {
        let mut since = Instant::now();
        stage.eventually(what, || {
            if !live.metrics.is_ready() {
                since = Instant::now();
            }
            (since.elapsed() > 3 * fails_max).then_some(())
        });
    };
    is_ready_for_long(&stage, "it is ready and stays so");
    stage.plane().restart_api_server().expect("it comes back");
    is_ready_for_long(&stage, "on another API server it is ready again and stays so");
}

/// What a claim tells its driver is stored as it came: nested without end, or with half of a character.
#[test]
fn claims_that_say_what_nobody_can_read_stop_nobody() {
    let mut stage = stage();
    stage.namespace("odd");
    stage.namespace("others");
    stage.node("n", json!({"cpu": "4", "memory": "8Gi", "pods": "10"}));
    let deep = format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200));
    let make = |stage: &mut stage::Stage, name: &str, parameters: &str| {
        let claim = format!(
            r#"{{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {{"name": "{name}"}}, "spec": {{"devices": {{
                "requests": [{{"name": "r", "exactly": {{"deviceClassName": "c"}}}}],
                "config": [{{"opaque": {{"driver": "d.example.com", "parameters": {parameters}}}}}]}}}}}}"#
        );
        let path = "/apis/resource.k8s.io/v1/namespaces/odd/resourceclaims";
        stage.plane().kubectl_with(&["create", "--raw", path, "-f", "-"], &claim).expect("the API server takes it");
    };
    let runs = |stage: &stage::Stage, name: &str| {
        stage.apply(&[pod("others", name, json!({"cpu": "100m"}))]);
        stage.eventually("a pod of somebody else runs", || {
            stage.running("others").iter().any(|(running, _)| running == name).then_some(())
        });
    };
    make(&mut stage, "before", &deep);
    let live = stage.start(Configuration::default());
    runs(&stage, "first");
    make(&mut stage, "deep", &deep);
    make(&mut stage, "half", r#"{"a": "\ud800"}"#);
    runs(&stage, "second");
    let stale = |live: &stage::Live| live.metrics.text().lines().any(|line| line.starts_with("quotient_watch_stale{"));
    assert!(live.metrics.is_ready() && !stale(&live), "{}", live.metrics.text());
    drop(live);
    let live = stage.start(Configuration::default());
    runs(&stage, "third");
    assert!(live.metrics.is_ready() && !stale(&live), "{}", live.metrics.text());
    stage.kubectl(&["delete", "resourceclaims", "--all", "-n", "odd"]);
}

#[test]
fn a_quota_claims_back_what_is_its_own() {
    let mut stage = stage();
    stage.plane().install(&quotient_api::crd::definitions()).expect("the kinds are installed");
    for namespace in ["team-a", "team-b"] {
        stage.namespace(namespace);
    }
    stage.node("n", json!({"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "4", "pods": "110"}));
    let two = || json!({"nvidia.com/gpu": 2});
    let group = "nos.nebuly.com";
    stage.apply(&[quota(group, "team-a", two(), json!({})), quota(group, "team-b", two(), json!({}))]);
    let _live = stage.start(Configuration::default());
    for index in 0..4 {
        stage.apply(&[pod("team-a", &format!("p-{index}"), json!({"nvidia.com/gpu": "1"}))]);
    }
    stage.eventually("team a borrows what is free", || (stage.running("team-a").len() == 4).then_some(()));
    let status = |namespace: &str, field: &str, amount: &str| {
        let quota = stage.get("elasticquotas.nos.nebuly.com", namespace, "quota")?;
        (quota["status"][field]["nvidia.com/gpu"] == amount).then_some(())
    };
    stage.eventually("the quota says so", || status("team-a", "used", "4"));
    stage.eventually("and what is borrowed", || status("team-a", "borrowed", "2"));
    let marked = |capacity: &str| {
        let pods = stage.items("pods", Some("team-a"));
        let label = |pod: &&Value| pod["metadata"]["labels"]["nos.nebuly.com/capacity"] == capacity;
        pods.iter().filter(label).count()
    };
    stage.eventually("pods are marked", || (marked("in-quota") == 2 && marked("over-quota") == 2).then_some(()));
    stage.apply(&[pod("team-b", "q-0", json!({"nvidia.com/gpu": "1"}))]);
    stage.apply(&[pod("team-b", "q-1", json!({"nvidia.com/gpu": "1"}))]);
    stage.eventually("team b has its own", || (stage.running("team-b").len() == 2).then_some(()));
    let mut left: Vec<String> = stage.running("team-a").into_iter().map(|(name, _)| name).collect();
    left.sort();
    assert_eq!(left, ["p-0", "p-1"], "those that borrowed had to go");
    stage
        .eventually("the quotas say so", || status("team-a", "used", "2").and_then(|()| status("team-b", "used", "2")));
    stage.eventually("the rest is within its quota", || (marked("in-quota") == 2).then_some(()));
}

#[test]
fn a_claim_survives_a_crash_between_eviction_and_bind() {
    let stage = stage();
    stage.namespace("claims");
    stage.node("n", json!({"cpu": "2", "memory": "8Gi", "pods": "10"}));
    stage.apply(&[json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"},
        "value": 1000})]);
    let live = stage.start(Configuration::default());
    for name in ["v-0", "v-1"] {
        let mut victim = pod("claims", name, json!({"cpu": "1"}));
        // It does not go before the test lets it.
        victim["metadata"]["finalizers"] = json!(["quotient.dev/test"]);
        stage.apply(&[victim]);
    }
    stage.eventually("both run", || (stage.running("claims").len() == 2).then_some(()));
    let mut claimant = pod("claims", "claimant", json!({"cpu": "2"}));
    claimant["spec"]["priorityClassName"] = json!("high");
    stage.apply(&[claimant]);
    let leaves = |name: &str| {
        let pod = stage.get("pod", "claims", name)?;
        (!pod["metadata"]["deletionTimestamp"].is_null()).then_some(())
    };
    stage.eventually("both have to go", || leaves("v-0").and_then(|()| leaves("v-1")));
    let nominated = stage.get("pod", "claims", "claimant").expect("it is there");
    assert_eq!(nominated["status"]["nominatedNodeName"], "n", "written before anybody is sent away");
    live.crash();
    let _live = stage.start(Configuration::default());
    stage.apply(&[pod("claims", "rival", json!({"cpu": "1"}))]);
    let free = |name: &str| {
        stage.kubectl(&["patch", "pod", name, "-n", "claims", "-p", r#"{"metadata":{"finalizers":null}}"#]);
        stage.eventually("it is gone", || stage.get("pod", "claims", name).is_none().then_some(()));
    };
    stage.eventually("the rival waits", || stage.waits_for("claims", "rival"));
    free("v-0");
    // Half of the room is there, and would be enough for the rival: it is not its own.
    stage.apply(&[pod("claims", "late", json!({"cpu": "1"}))]);
    stage.eventually("who comes late waits too", || stage.waits_for("claims", "late"));
    assert_eq!(stage.running("claims"), []);
    free("v-1");
    stage.eventually("the claimant has the room", || {
        (stage.running("claims") == [("claimant".to_string(), "n".to_string())]).then_some(())
    });
}

#[test]
fn a_restart_of_the_api_server_loses_nothing() {
    let mut stage = stage();
    stage.namespace("restart");
    stage.node("n", json!({"cpu": "4", "memory": "8Gi", "pods": "10"}));
    let _live = stage.start(Configuration::default());
    stage.apply(&(0..4).map(|i| pod("restart", &format!("p-{i}"), json!({"cpu": "1"}))).collect::<Vec<_>>());
    stage.eventually("all run", || (stage.running("restart").len() == 4).then_some(()));
    stage.plane().restart_api_server().expect("it starts again");
    // Nobody may have seen this happen.
    stage.kubectl(&["delete", "pod", "p-0", "p-1", "-n", "restart"]);
    stage.plane().restart_api_server().expect("it starts again");
    stage.apply(&(4..8).map(|i| pod("restart", &format!("p-{i}"), json!({"cpu": "1"}))).collect::<Vec<_>>());
    stage.eventually("two of them take the room of those that went", || {
        (stage.running("restart").len() == 4).then_some(())
    });
    let names = ["p-4", "p-5", "p-6", "p-7"];
    let waits = || names.into_iter().filter(|name| stage.waits_for("restart", name).is_some()).count();
    stage.eventually("the others say why they wait", || (waits() == 2).then_some(()));
}

/// A kind that the API server knows nothing about but its name.
fn lax_definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "elasticquotas.nos.nebuly.com"},
        "spec": {"group": "nos.nebuly.com", "scope": "Namespaced",
            "names": {"kind": "ElasticQuota", "listKind": "ElasticQuotaList", "plural": "elasticquotas",
                "singular": "elasticquota"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}}}]},
    })
}

#[test]
fn a_kind_that_comes_later_is_picked_up_and_a_malformed_object_stops_nothing() {
    let mut stage = stage();
    stage.namespace("later");
    stage.namespace("broken");
    stage.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "10"}));
    let live = stage.start(Configuration::default());
    stage.apply(&[pod("later", "p-0", json!({"cpu": "1"}))]);
    stage.eventually("without quotas it runs", || (stage.running("later").len() == 1).then_some(()));
    stage.plane().install(&[lax_definition()]).expect("the kind is installed");
    stage.apply(&[
        quota("nos.nebuly.com", "broken", json!({"cpu": "lots", "memory": ["1Gi"]}), json!(3)),
        quota("nos.nebuly.com", "later", json!({"cpu": "2"}), json!({"cpu": "2"})),
    ]);
    stage.eventually("the quota has a status", || {
        let quota = stage.get("elasticquotas.nos.nebuly.com", "later", "quota")?;
        (quota["status"]["used"]["cpu"] == "1").then_some(())
    });
    assert!(live.metrics.text().contains("quotient_problems_total"));
    assert!(!live.metrics.text().contains("quotient_problems_total 0"));
    stage.apply(&[pod("later", "p-1", json!({"cpu": "1"}))]);
    stage.apply(&[pod("later", "p-2", json!({"cpu": "1"}))]);
    let why = stage.eventually("the third is over the max", || stage.waits_for("later", "p-2"));
    assert!(why.contains("quota"), "{why}");
    stage.kubectl(&["delete", "crd", "elasticquotas.nos.nebuly.com"]);
    stage.eventually("without the kind there is no quota", || (stage.running("later").len() == 3).then_some(()));
}

#[test]
fn queues_and_quota_trees_have_their_say() {
    let mut stage = stage();
    stage.plane().install(&quotient_api::crd::definitions()).expect("the kinds are installed");
    stage.namespace("work");
    stage.node("n", json!({"cpu": "8", "memory": "8Gi", "pods": "10"}));
    let live = stage.start(Configuration::default());
    stage.eventually("the queues that exist always are made", || {
        (stage.items("queues.scheduling.volcano.sh", None).len() == 2).then_some(())
    });
    stage.apply(&[
        json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"},
            "spec": {"capability": {"cpu": "2"}}}),
        json!({"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
            "metadata": {"name": "team", "namespace": "work"},
            "spec": {"min": {"cpu": "1"}, "max": {"cpu": "1"}}}),
    ]);
    let running = |with: &str| stage.running("work").iter().filter(|(name, _)| name.starts_with(with)).count();
    let waiting = |with: &str, count: usize| {
        let names = (0..count).map(|index| format!("{with}-{index}"));
        names.filter_map(|name| stage.waits_for("work", &name)).next()
    };
    for index in 0..3 {
        let mut queued = pod("work", &format!("queued-{index}"), json!({"cpu": "1"}));
        queued["metadata"]["annotations"] = json!({"scheduling.volcano.sh/queue-name": "q"});
        stage.apply(&[queued]);
    }
    stage.eventually("two of the queue run", || (running("queued") == 2).then_some(()));
    let why = stage.eventually("the third is beyond the queue's capability", || waiting("queued", 3));
    assert!(why.contains("Queue/q"), "{why}");
    stage.eventually("the queue says what is allocated", || {
        let queue = stage.get("queues.scheduling.volcano.sh", "work", "q")?;
        (queue["status"]["allocated"]["cpu"] == "2" && queue["status"]["state"] == "Open").then_some(())
    });
    for index in 0..2 {
        let mut member = pod("work", &format!("member-{index}"), json!({"cpu": "1"}));
        member["metadata"]["labels"] = json!({"quota.scheduling.koordinator.sh/name": "team"});
        stage.apply(&[member]);
    }
    stage.eventually("one of the team runs", || (running("member") == 1).then_some(()));
    let why = stage.eventually("the other is beyond the team's max", || waiting("member", 2));
    assert!(why.contains("team"), "{why}");
    stage.eventually("the quota says what is used", || {
        let quota = stage.get("elasticquotas.scheduling.sigs.k8s.io", "work", "team")?;
        (quota["status"]["used"]["cpu"] == "1").then_some(())
    });
    let metrics = live.metrics.text();
    assert!(metrics.contains(r#"quota="Queue/q""#) && metrics.contains(r#"policy="tree""#), "{metrics}");
}

#[test]
fn the_lease_is_renewed_while_a_cycle_takes_longer_than_it_lasts() {
    let stage = stage();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let clients = connect(Some(&stage.kubeconfig())).await.expect("the API server answers");
        let text = |text: &str| text.to_string();
        let (namespace, name, identity) = (text("default"), text("quotient"), text("busy"));
        let lease = LeaseSettings { namespace, name, identity, duration: Duration::from_secs(2) };
        let (elector, fence, mut leads) = Elector::new(clients.lease, lease, Metrics::default());
        let election = Election::begin(elector);
        leads.wait_for(Option::is_some).await.expect("it goes on");
        // The task that decides is busy and waits for nothing.
        std::thread::sleep(Duration::from_secs(6));
        assert!(fence.holds() && leads.borrow().is_some(), "the lease was lost");
        election.end().await;
    });
}
