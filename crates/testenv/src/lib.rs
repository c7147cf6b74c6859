//! A real Kubernetes control plane on loopback ports: etcd, kube-apiserver with TLS and RBAC, kube-controller-manager,
//! and kwok, which plays nodes and kubelets.
//!
//! Nothing here is a stand-in: the programs are those that clusters run, built once by `testenv/build.sh`. Tests start
//! one with [`ControlPlane::start`]; `make cluster` gives people the same. Everything stops with the value, with the
//! test that panics, and with the process that is killed.

pub mod certificates;
pub mod control_plane;
pub mod program;
pub mod programs;

pub use control_plane::{ControlPlane, NodeShape, Options};

/// Why there is no control plane.
#[derive(Debug, thiserror::Error)]
pub enum TestenvError {
    #[error("the test control plane cannot be built: {0}")]
    Build(String),
    #[error("{path}: {error}")]
    File { path: String, error: std::io::Error },
    #[error("{program} cannot be started: {error}")]
    Start { program: String, error: std::io::Error },
    #[error("{program} ended before it was ready; its log ends with:\n{log}")]
    Ended { program: String, log: String },
    #[error("{program} was not ready after {seconds} s; its log ends with:\n{log}")]
    Late { program: String, seconds: u64, log: String },
    #[error("a certificate cannot be made: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("kubectl {arguments}: {message}")]
    Kubectl { arguments: String, message: String },
}
