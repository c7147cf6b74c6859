//! `make cluster`: a control plane to play with, until it is interrupted.

use std::process::ExitCode;

use quotient_testenv::{ControlPlane, NodeShape, Options, TestenvError};

const USAGE: &str = "usage: quotient-testenv [NODES]   (a number, 3 if left out)";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let nodes = match (arguments.next().map(|text| text.parse()), arguments.next()) {
        (None, _) => 3,
        (Some(Ok(nodes)), None) => nodes,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(nodes) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(nodes: usize) -> Result<(), TestenvError> {
    let plane = ControlPlane::start(Options::default())?;
    plane.install(&quotient_api::crd::definitions())?;
    plane.make_nodes("node", nodes, &NodeShape::default())?;
    eprintln!("A Kubernetes cluster with {nodes} nodes is ready. Ctrl-C stops it and removes all of it. Elsewhere:\n");
    println!("export KUBECONFIG={}", plane.kubeconfig().display());
    println!("export PATH={}:$PATH", plane.programs().display());
    eprintln!("\nkubectl get nodes");
    // Whoever started this ends it: with an interrupt, which the watchdogs of the programs notice.
    loop {
        std::thread::park();
    }
}
