//! Every scenario on a real API server: the same result as in the simulator, or an exception that is listed.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use quotient_testenv::{ControlPlane, NodeShape, Options, programs};

/// How many scenarios may need more time than usual: more would be a fault of the program.
const AGAIN_MAX: usize = 8;

fn quotient(plane: &ControlPlane, arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quotient"));
    command.args(["test", "--kubeconfig"]).arg(plane.kubeconfig()).args(arguments);
    command.current_dir(root).stdin(Stdio::null()).output().expect("the program runs")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The names of the scenarios in files about PodGroups of Kubernetes itself.
fn about_pod_groups() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/podgroups");
    let files = std::fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("an entry").path());
    let mut names = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file).expect("it can be read");
        let scenarios = text.split("kind: Scenario\n").skip(1);
        let name = |scenario: &str| {
            let name = scenario.lines().next()?.strip_prefix("metadata: {name: ")?;
            name.split([',', '}']).next().map(str::to_string)
        };
        names.extend(scenarios.filter_map(name));
    }
    assert!(names.len() > 10, "{names:?}");
    names
}

#[test]
fn scenarios_come_out_as_in_the_simulator_and_only_an_empty_cluster_is_used() {
    let plane = ControlPlane::start(Options::with_all_features()).expect("the control plane starts");
    plane.install(&quotient_api::crd::definitions()).expect("the kinds are installed");

    plane.make_nodes("somebodys", 1, &NodeShape::default()).expect("the node is made");
    let output = quotient(&plane, &["scenarios/elastic"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("Node/somebodys-0 is there: scenarios empty the cluster"), "{}", said(&output));
    plane.kubectl(&["get", "node", "somebodys-0"]).expect("nothing was touched");
    plane.kubectl(&["delete", "node", "somebodys-0"]).expect("it can be deleted");

    let mut exceptions = include_str!("../../../scenarios/live-exceptions.yaml").to_string();
    if programs::older().is_some() {
        for name in about_pod_groups() {
            exceptions += &format!("{name}: 'sometimes: this Kubernetes has no PodGroups'\n");
        }
    }
    let list = plane.folder().join("exceptions.yaml");
    std::fs::write(&list, &exceptions).expect("it can be written");
    let listed = exceptions.lines().filter(|line| !line.starts_with([' ', '#']) && line.contains(':')).count();
    let output = quotient(&plane, &["--except", &list.display().to_string(), "scenarios"]);
    let wrong: Vec<String> =
        said(&output).lines().filter(|line| !line.starts_with("ok ")).map(ToString::to_string).collect();
    println!("{}", wrong.join("\n"));
    assert_eq!(output.status.code(), Some(0), "{}", wrong.join("\n"));
    let again = wrong.iter().filter(|line| line.starts_with("again ")).count();
    assert!(again <= AGAIN_MAX, "{again} scenarios needed a second run, at most {AGAIN_MAX} may");
    let summary = said(&output).lines().last().unwrap_or_default().to_string();
    assert!(summary.ends_with(&format!("passed, {listed} excepted")), "every exception is of a scenario: {summary}");
    let left = plane.kubectl(&["get", "nodes,pods,queues,elasticquotas", "-A", "-o", "name"]).expect("it can be asked");
    assert_eq!(left, "", "the cluster is left empty");
}
