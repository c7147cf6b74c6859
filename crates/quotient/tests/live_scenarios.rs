//! Every scenario on a real API server: the same result as in the simulator, or an exception that is listed.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use quotient_testenv::{ControlPlane, NodeShape, Options};

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

    let exceptions = include_str!("../../../scenarios/live-exceptions.yaml");
    let listed = exceptions.lines().filter(|line| !line.starts_with([' ', '#']) && line.contains(':')).count();
    let output = quotient(&plane, &["--except", "scenarios/live-exceptions.yaml", "scenarios"]);
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
