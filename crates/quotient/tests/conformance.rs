//! Kubernetes' own end-to-end tests of scheduling, with Quotient as `default-scheduler`, beside kube-scheduler.
//!
//! `make conformance` runs all of them on both, and keeps what each says in `conformance/results.tsv`. Every test that
//! kube-scheduler passes on these nodes has to pass. In every run of the tests the list is checked for that.

use crate::daemon;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use daemon::quotient;
use quotient_testenv::{ControlPlane, NodeShape, Options};
use serde_json::{Value, json};

/// What is about scheduling and needs no kubelet: kwok plays the nodes.
const FOCUS: &str = r"\[sig-scheduling\]|\[DRA\].*control plane";
/// What asks for nodes that can be reached, several zones, or an API that no server serves unless it is told to.
const SKIP: &str = r"Multi-AZ|\[Disruptive\]|\[Flaky\]|DRAResourcePoolStatus|pod overhead";
/// Where we differ on purpose, by a part of the test's name, and why.
const DIFFERS: &[(&str, &str)] = &[(
    "should preempt partial group with Single disruption mode",
    "the minimum of a gang goes whole: `single` is the default, so that it cannot be told from a wish, and half a gang is \
     of no use to anybody",
)];
const NODES: usize = 5;

#[derive(Clone, Copy)]
enum Scheduler {
    Kube,
    Quotient,
}

/// What a test said: `passed`, `failed` or `skipped`, by its name.
type Results = BTreeMap<String, String>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance")
}

/// A program that ends with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(who: Scheduler, plane: &ControlPlane) -> Running {
    let kubeconfig = plane.kubeconfig().display().to_string();
    let mut command = match who {
        Scheduler::Kube => {
            let mut command = Command::new(plane.programs().join("kube-scheduler"));
            command.args(["--kubeconfig", &kubeconfig, "--leader-elect=false", "--secure-port=0"]);
            command.arg("--feature-gates=GenericWorkload=true");
            command
        }
        Scheduler::Quotient => {
            let configuration = plane.folder().join("configuration.yaml");
            let text = "apiVersion: quotient.dev/v1alpha1\nkind: QuotientConfiguration\n\
                        schedulerNames: [default-scheduler]\n";
            fs::write(&configuration, text).expect("a file can be written");
            quotient(&["run", "--kubeconfig", &kubeconfig, "--config", &configuration.display().to_string()])
        }
    };
    let log = File::create(plane.folder().join("scheduler.log")).expect("the log can be written");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    Running(command.spawn().expect("the scheduler starts"))
}

/// Runs the tests with one of the two on a control plane of its own.
fn results(who: Scheduler, program: &Path, focus: &str) -> Results {
    let options = Options { api_server: vec!["--allow-privileged=true".to_string()], ..Options::with_all_features() };
    let plane = ControlPlane::start(options).expect("the control plane starts");
    let allocatable = json!({"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"});
    plane.make_nodes("node", NODES, &NodeShape { allocatable, labels: json!({}) }).expect("the nodes are made");
    for index in 0..NODES {
        let patch = json!({"status": {"addresses": [{"type": "InternalIP", "address": format!("10.0.0.{index}")}]}});
        let (node, patch) = (format!("node-{index}"), patch.to_string());
        let patched = plane.kubectl(&["patch", "node", &node, "--subresource=status", "--type=merge", "-p", &patch]);
        patched.expect("the node has an address");
    }
    let _scheduler = start(who, &plane);
    let report = plane.folder().join("report.json");
    let output = File::create(plane.folder().join("suite.log")).expect("the log can be written");
    let mut suite = Command::new(program);
    suite
        .arg(format!("--kubeconfig={}", plane.kubeconfig().display()))
        .arg(format!("--ginkgo.focus={focus}"))
        .arg(format!("--ginkgo.skip={SKIP}"))
        .arg(format!("--ginkgo.json-report={}", report.display()))
        .args([
            "--provider=skeleton",
            "--ginkgo.seed=1",
            "--ginkgo.timeout=90m",
            "--ginkgo.no-color",
            "--dump-logs-on-failure=false",
        ])
        .current_dir(plane.folder())
        .stdin(Stdio::null())
        .stdout(output.try_clone().expect("a file"))
        .stderr(output);
    // It fails when a test does: which is in the report.
    let _ = suite.status().expect("the suite runs");
    if let Some(kept) = std::env::var_os("CONFORMANCE_LOGS") {
        let kept = PathBuf::from(kept).join(match who {
            Scheduler::Kube => "kube-scheduler",
            Scheduler::Quotient => "quotient",
        });
        fs::create_dir_all(&kept).expect("a folder can be made");
        for name in ["suite.log", "scheduler.log", "report.json"] {
            let _ = fs::copy(plane.folder().join(name), kept.join(name));
        }
    }
    let text = fs::read_to_string(&report).expect("the suite wrote a report");
    let suites: Value = serde_json::from_str(&text).expect("the report is JSON");
    let specs = suites[0]["SpecReports"].as_array().cloned().unwrap_or_default();
    specs.iter().filter(|spec| spec["LeafNodeType"] == "It").filter_map(said).collect()
}

/// A test's name and what it said, if it was to be run.
fn said(spec: &Value) -> Option<(String, String)> {
    let state = spec["State"].as_str()?;
    // What was not in focus says nothing; what skipped itself says why.
    if state == "pending" || (state == "skipped" && spec["Failure"]["Message"].as_str().is_none_or(str::is_empty)) {
        return None;
    }
    let outer = spec["ContainerHierarchyTexts"].as_array().cloned().unwrap_or_default();
    let texts = outer.iter().chain([&spec["LeafNodeText"]]).filter_map(Value::as_str);
    let name = texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ");
    let state = if matches!(state, "passed" | "skipped") { state } else { "failed" };
    Some((name, state.to_string()))
}

fn differs(name: &str) -> bool {
    DIFFERS.iter().any(|(part, _)| name.contains(part))
}

/// The list that is kept: a test in each line, what kube-scheduler said and what Quotient said.
fn kept() -> Vec<(String, String, String)> {
    let text = fs::read_to_string(folder().join("results.tsv")).expect("the list is there");
    let lines = text.lines().skip(1).map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
        [kube, ours, name] => (name.to_string(), kube.to_string(), ours.to_string()),
        _ => panic!("conformance/results.tsv: {line}: expected three columns"),
    });
    lines.collect()
}

#[test]
fn every_test_that_kube_scheduler_passed_was_passed() {
    let kept = kept();
    assert!(kept.iter().filter(|(_, kube, _)| kube == "passed").count() >= 40, "the list is not whole");
    let is_lost =
        |(name, kube, ours): &&(String, String, String)| kube == "passed" && ours != "passed" && !differs(name);
    let lost: Vec<_> = kept.iter().filter(is_lost).collect();
    assert!(lost.is_empty(), "{lost:#?}");
    for (part, why) in DIFFERS {
        assert!(kept.iter().any(|(name, ..)| name.contains(part)), "{part}: no test has this name ({why})");
    }
}

#[test]
#[ignore = "takes half an hour: `make conformance`"]
fn kubernetes_own_tests() {
    let built = Command::new(folder().join("build.sh")).stderr(Stdio::inherit()).output().expect("there is a shell");
    assert!(built.status.success(), "Kubernetes' tests cannot be built");
    let program = PathBuf::from(String::from_utf8(built.stdout).expect("a path").trim());
    let focus = std::env::var("CONFORMANCE_FOCUS").unwrap_or_else(|_| FOCUS.to_string());
    let run = |who: Scheduler| {
        let (program, focus) = (program.clone(), focus.clone());
        thread::spawn(move || results(who, &program, &focus))
    };
    let (kube, ours) = (run(Scheduler::Kube), run(Scheduler::Quotient));
    let kube = kube.join().expect("kube-scheduler was tested");
    let ours = ours.join().expect("Quotient was tested");
    let said = |of: &Results, name: &str| of.get(name).cloned().unwrap_or_else(|| "missing".to_string());
    let mut page = "kube-scheduler\tQuotient\ttest\n".to_string();
    let mut lost = Vec::new();
    for (name, by_kube) in &kube {
        let by_us = said(&ours, name);
        if by_kube == "passed" && by_us != "passed" && !differs(name) {
            lost.push(name);
        }
        page += &format!("{by_kube}\t{by_us}\t{name}\n");
    }
    if focus == FOCUS {
        fs::write(folder().join("results.tsv"), page).expect("the list can be written");
    }
    let count = |of: &Results| of.values().filter(|said| *said == "passed").count();
    println!("{} tests: kube-scheduler passed {}, Quotient {}", kube.len(), count(&kube), count(&ours));
    assert!(lost.is_empty(), "kube-scheduler passed these and Quotient did not: {lost:#?}");
}
