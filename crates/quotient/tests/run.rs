//! `quotient run` as a process: its mistakes in one line, its health, and what is left when it is killed.

use crate::daemon;

use std::process::Output;
use std::thread;
use std::time::Duration;

use quotient_testenv::{ControlPlane, NodeShape, Options};
use serde_json::{Value, json};

use daemon::{Daemon, ask, ask_with, eventually, items, quotient};

fn output(arguments: &[&str]) -> Output {
    quotient(arguments).output().expect("the program runs")
}

/// What it says when it cannot run: one line, and the exit code of a mistake.
fn refusal(arguments: &[&str]) -> String {
    let output = output(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert_eq!(said.lines().next_back(), Some(lines[0]), "{said}");
    lines[0].to_string()
}

#[test]
fn mistakes_are_one_line() {
    let folder = std::env::temp_dir().join(format!("quotient-run-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let missing = refusal(&["run"]);
    assert!(missing.contains("--kubeconfig"), "{missing}");
    let gone = refusal(&["run", "--kubeconfig", "/nonexistent/config"]);
    assert!(gone.contains("/nonexistent/config"), "{gone}");
    let nobody = folder.join("nobody");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
    });
    std::fs::write(&nobody, config.to_string()).expect("a file can be written");
    let unreachable = refusal(&["run", "--wait-for-server", "0s", "--kubeconfig", &nobody.display().to_string()]);
    assert!(unreachable.contains("https://127.0.0.1:1/: no API server answers there"), "{unreachable}");
    std::fs::remove_dir_all(&folder).expect("it is ours");
}

#[test]
fn a_user_who_may_not_is_told_what() {
    let options = Options { controller_manager: false, kwok: false, ..Options::default() };
    let plane = ControlPlane::start(options).expect("the control plane starts");
    let nobody = plane.kubeconfig_of("nobody", &[]).expect("a user can be made");
    let said = refusal(&["run", "--kubeconfig", &nobody.display().to_string()]);
    assert!(said.contains("the user may not list pods, which is needed"), "{said}");
    it_does_what_it_can_without_kinds_and_shows_metrics_to_whom_it_should(&plane);
}

/// On an API server that knows none of the kinds: it says so of each, and is ready.
fn it_does_what_it_can_without_kinds_and_shows_metrics_to_whom_it_should(plane: &ControlPlane) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    let (address, log) = (format!("127.0.0.1:{port}"), plane.folder().join("quotient.log"));
    let flags = ["--metrics", &address, "--metrics-access", "authorized"];
    let _daemon = Daemon::start(&plane.kubeconfig(), &log, &flags);
    eventually(plane, "it is ready", || ask(port, "/readyz").filter(|(status, _)| *status == 200));
    let said = std::fs::read_to_string(&log).expect("there is a log");
    let lines = said.lines().filter(|line| line.contains("ElasticQuota") && line.contains("is not served"));
    assert_eq!(lines.count(), 7, "one line for each kind of quota and profile: {said}");

    let account = |name: &str| {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": "default"}});
        plane.apply(&[account]).expect("it is made");
        plane.kubectl(&["create", "token", name, "-n", "default"]).expect("it has a token").trim().to_string()
    };
    let (reader, stranger) = (account("reader"), account("stranger"));
    let right = |kind: &str, more: Value| {
        let mut object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": "reads-metrics"}});
        object.as_object_mut().expect("it is one").extend(more.as_object().expect("it is one").clone());
        object
    };
    let rules = json!({"rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]});
    let bound = json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reads-metrics"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}]});
    plane.apply(&[right("ClusterRole", rules), right("ClusterRoleBinding", bound)]).expect("they apply");
    let status = |token: &str| {
        let header = if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
        ask_with(port, "/metrics", &header).map(|(status, _)| status)
    };
    assert_eq!((status(""), status("made-up"), status(&stranger)), (Some(401), Some(403), Some(403)));
    eventually(plane, "whoever may reads metrics", || status(&reader).filter(|status| *status == 200));
}

/// A server that says that it is Kubernetes 1.20, and nothing else.
#[test]
fn a_server_that_is_too_old_is_said_to_be() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it listens");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let body =
                json!({"major": "1", "minor": "20+", "gitVersion": "v1.20.3", "gitCommit": "c", "gitTreeState": "",
                "buildDate": "", "goVersion": "", "compiler": "", "platform": ""})
                .to_string();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: ";
            let _ = write!(stream, "{head}{}\r\n\r\n{body}", body.len());
        }
    });
    let file = std::env::temp_dir().join(format!("quotient-old-{}", std::process::id()));
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "u", "user": {}}],
    });
    std::fs::write(&file, config.to_string()).expect("a file can be written");
    let said = refusal(&["run", "--kubeconfig", &file.display().to_string()]);
    std::fs::remove_file(&file).expect("it is ours");
    assert!(said.contains("Kubernetes v1.20.3 is too old: expected 1.29 or newer"), "{said}");
}

/// Numbers that look random and are always the same.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Kills the scheduler again and again while pods come, go and claim room, then compares what there is with a recount.
#[test]
fn whatever_moment_it_is_killed_in_nothing_is_lost_or_doubled() {
    const NODES: usize = 3;
    const GPUS: usize = 4;
    const TEAMS: usize = 3;
    let plane = ControlPlane::start(Options::default()).expect("the control plane starts");
    plane.install(&quotient_api::crd::definitions()).expect("the kinds are installed");
    let allocatable = json!({"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": GPUS.to_string(), "pods": "110"});
    plane.make_nodes("n", NODES, &NodeShape { allocatable, labels: json!({}) }).expect("the nodes are made");
    for team in 0..TEAMS {
        let name = format!("team-{team}");
        plane
            .apply(&[
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
                json!({"apiVersion": "nos.nebuly.com/v1alpha1", "kind": "ElasticQuota",
                    "metadata": {"name": "quota", "namespace": name},
                    "spec": {"min": {"nvidia.com/gpu": GPUS}, "max": {"nvidia.com/gpu": 2 * GPUS}}}),
            ])
            .expect("the team is made");
        eventually(&plane, "the namespace is ready", || {
            plane.kubectl(&["get", "serviceaccount", "default", "-n", &name]).ok()
        });
    }
    let log = plane.folder().join("quotient.log");
    let mut seed = 8;
    let deployment = |team: usize, replicas: usize| {
        let requests = json!({"nvidia.com/gpu": "1"});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "train", "namespace": format!("team-{team}")},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "train"}},
                "template": {"metadata": {"labels": {"app": "train"}}, "spec": {
                    "schedulerName": "quotient", "terminationGracePeriodSeconds": 0, "containers": [
                        {"name": "c", "image": "i", "resources": {"requests": requests, "limits": requests}}]}}},
        })
    };
    for round in 0..6 {
        let daemon = Daemon::start(&plane.kubeconfig(), &log, &[]);
        // The first team borrows what it can; the others come and claim what is theirs.
        plane.apply(&[deployment(round % TEAMS, 2 * GPUS)]).expect("the work is there");
        thread::sleep(Duration::from_millis(1500 + next(&mut seed) % 3000));
        daemon.kill();
    }
    let _daemon = Daemon::start(&plane.kubeconfig(), &log, &["--metrics", "127.0.0.1:0"]);
    let running = |namespace: &str| {
        let pods = items(&plane, "pods");
        let runs = |pod: &&Value| {
            pod["metadata"]["namespace"] == namespace
                && pod["status"]["phase"] == "Running"
                && pod["metadata"]["deletionTimestamp"].is_null()
        };
        pods.iter().filter(runs).count()
    };
    eventually(&plane, "every team has its own, and all of it is used", || {
        (0..TEAMS).all(|team| running(&format!("team-{team}")) == GPUS).then_some(())
    });
    // Every pod on a node fits it, and each quota says what a recount says.
    let pods = items(&plane, "pods");
    let on = |node: &str| pods.iter().filter(|pod| pod["spec"]["nodeName"] == node).count();
    for node in 0..NODES {
        assert!(on(&format!("n-{node}")) <= GPUS, "a node has more than it can hold");
    }
    eventually(&plane, "the quotas say so", || {
        let quotas = items(&plane, "elasticquotas.nos.nebuly.com");
        let says = |quota: &Value| quota["status"]["used"]["nvidia.com/gpu"] == GPUS.to_string().as_str();
        (quotas.len() == TEAMS && quotas.iter().all(says)).then_some(())
    });
}

#[test]
fn in_the_shadow_it_decides_and_writes_nothing() {
    let plane = ControlPlane::start(Options::default()).expect("the control plane starts");
    plane.make_nodes("n", 1, &NodeShape::default()).expect("the node is made");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
        "spec": {"schedulerName": "quotient", "containers": [{"name": "c", "image": "i"}]},
    });
    plane.apply(&[pod]).expect("the pod is made");
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
    let log = plane.folder().join("quotient.log");
    let address = format!("127.0.0.1:{port}");
    let _daemon = Daemon::start(&plane.kubeconfig(), &log, &["--shadow", "--log", "json", "--metrics", &address]);
    eventually(&plane, "it is ready", || ask(port, "/readyz").filter(|(status, _)| *status == 200));
    eventually(&plane, "it would bind", || {
        let (_, metrics) = ask(port, "/metrics")?;
        metrics.contains(r#"quotient_decisions_total{decision="bind"} 1"#).then_some(())
    });
    assert_eq!(ask(port, "/livez").map(|(status, _)| status), Some(200));
    let said = std::fs::read_to_string(&log).expect("there is a log");
    let line = said.lines().find(|line| line.contains(r#""message":"binds""#)).expect("it says what it would do");
    let line: Value = serde_json::from_str(line).expect("a line is JSON");
    assert_eq!((&line["pod"], &line["node"], &line["shadow"]), (&json!("default/p"), &json!("n-0"), &json!(true)));
    let pod = items(&plane, "pods").into_iter().find(|pod| pod["metadata"]["name"] == "p").expect("it is there");
    assert!(pod["spec"]["nodeName"].is_null());
    assert!(items(&plane, "leases.coordination.k8s.io").iter().all(|lease| lease["metadata"]["name"] != "quotient"));
}

/// A pod of this scheduler.
fn pod_of(scheduler: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]}})
}

/// A bad configuration is refused in one line and the old one stays; a good one is used, without a restart.
#[test]
fn a_configuration_is_read_again_when_it_changes() {
    let plane = ControlPlane::start(Options::default()).expect("the control plane starts");
    plane.make_nodes("n", 1, &NodeShape::default()).expect("the node is made");
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
    let (log, file) = (plane.folder().join("quotient.log"), plane.folder().join("quotient.yaml"));
    let write = |text: &str| std::fs::write(&file, text).expect("a file can be written");
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    let valid = |value: u8| {
        let line = format!("quotient_configuration_valid {value}\n");
        eventually(&plane, &line, || ask(port, "/metrics").filter(|(_, metrics)| metrics.contains(&line)));
    };
    write("schedulerNames: [first]\n");
    let (address, config) = (format!("127.0.0.1:{port}"), file.display().to_string());
    let daemon = Daemon::start(&plane.kubeconfig(), &log, &["--metrics", &address, "--config", &config]);
    eventually(&plane, "it is ready", || ask(port, "/readyz").filter(|(status, _)| *status == 200));
    let process = daemon.id();
    valid(1);

    write("schedulerNames: [second]\nreserveAfter: soon\n");
    valid(0);
    let refusals: Vec<String> =
        said().lines().filter(|line| line.contains("is rejected")).map(str::to_string).collect();
    let [refusal] = &refusals[..] else { panic!("one line: {refusals:?}") };
    for part in ["quotient.yaml", "reserveAfter", "soon", "expected", "the last valid one stays in use"] {
        assert!(refusal.contains(part), "no {part} in {refusal}");
    }
    let bound = |name: &str| {
        eventually(&plane, &format!("{name} is bound"), || {
            let pods = items(&plane, "pods");
            let is_bound = |pod: &Value| pod["metadata"]["name"] == name && pod["spec"]["nodeName"] == "n-0";
            pods.iter().any(is_bound).then_some(())
        });
    };
    plane.apply(&[pod_of("first", "p-1")]).expect("the pod is made");
    bound("p-1");

    // What is logged changes at once, and nothing else.
    assert!(!said().contains("DEBUG"), "{}", said());
    write("schedulerNames: [first]\nlog: debug\n");
    valid(1);
    eventually(&plane, "it logs more", || said().contains("DEBUG").then_some(()));
    assert!(!said().contains("rebuilds its state"), "{}", said());

    write("schedulerNames: [second]\n");
    valid(1);
    plane.apply(&[pod_of("second", "p-2")]).expect("the pod is made");
    bound("p-2");
    assert!(said().contains("rebuilds its state"), "{}", said());
    assert_eq!(daemon.id(), process);
    daemon.stop();
}

/// The files that the documentation has people apply.
#[test]
fn the_examples_for_a_live_cluster_do_what_they_say() {
    let plane = ControlPlane::start(Options::default()).expect("the control plane starts");
    plane.install(&quotient_api::crd::definitions()).expect("the kinds are installed");
    plane.make_nodes("node", 3, &NodeShape::default()).expect("the nodes are made");
    let _daemon = Daemon::start(&plane.kubeconfig(), &plane.folder().join("quotient.log"), &[]);
    let apply = |file: &str| {
        let path = format!("{}/../../examples/live/{file}", env!("CARGO_MANIFEST_DIR"));
        eventually(&plane, "the file is applied", || plane.kubectl(&["apply", "-f", &path]).ok());
    };
    let count = |namespace: &str, phase: &str| {
        let is_so = |pod: &Value| pod["metadata"]["namespace"] == namespace && pod["status"]["phase"] == phase;
        items(&plane, "pods").into_iter().filter(is_so).count()
    };
    apply("1-teams.yaml");
    apply("2-research-borrows.yaml");
    eventually(&plane, "research has all", || (count("research", "Running") == 24).then_some(()));
    apply("3-vision-claims.yaml");
    eventually(&plane, "vision has what it is owed", || {
        let vision = (count("vision", "Running"), count("vision", "Pending"));
        let research = (count("research", "Running"), count("research", "Pending"));
        (vision == (3, 1) && research == (12, 12)).then_some(())
    });
}
