//! The Helm chart: what of it is made from the code is current, it renders what `quotient install` prints, and it can
//! be installed, upgraded, rolled back and uninstalled with Helm 3 and Helm 4.

use crate::daemon;
mod generated;
mod release;
mod render;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn chart() -> PathBuf {
    root().join("charts/quotient")
}

/// Both versions of Helm, built once.
const HELMS: [&str; 2] = ["helm3", "helm4"];

/// A call of Helm that knows no cluster and no files of a user.
fn helm(program: &str, arguments: &[&str]) -> Command {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let built = Command::new(root().join("charts/testing/build.sh")).stderr(Stdio::inherit()).output();
        let built = built.expect("the script runs");
        assert!(built.status.success(), "Helm cannot be built");
        PathBuf::from(String::from_utf8(built.stdout).expect("it prints a path").trim())
    });
    let home = std::env::temp_dir().join(format!("quotient-helm-{}", std::process::id()));
    let mut command = Command::new(folder.join(program));
    command.args(arguments).env("HELM_DATA_HOME", &home).env("HELM_CONFIG_HOME", &home).env("HELM_CACHE_HOME", &home);
    command.env_remove("KUBECONFIG").env("HOME", &home).stdin(Stdio::null());
    command
}

/// What Helm prints; it must succeed.
fn helm_output(program: &str, arguments: &[&str]) -> String {
    let output = helm(program, arguments).output().expect("Helm runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {}: {said}", arguments.join(" "));
    String::from_utf8(output.stdout).expect("it is text")
}
