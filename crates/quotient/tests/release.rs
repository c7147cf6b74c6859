//! What `make release` puts together from built binaries: archives, the krew plugin, the chart, checksums.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn output(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it is text")
}

/// Puts a release together; this machine's program stands for the binaries of all.
fn release(folder: &Path) -> PathBuf {
    let _ = fs::remove_dir_all(folder);
    let targets = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];
    for target in targets {
        let place = folder.join("built").join(target).join("release");
        fs::create_dir_all(&place).expect("a folder can be made");
        let program = place.join("quotient");
        let text = format!("#!/bin/sh\nexec '{}' \"$@\"\n", env!("CARGO_BIN_EXE_quotient"));
        fs::write(&program, text).expect("a file can be written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    let dist = folder.join("dist");
    fs::create_dir_all(&dist).expect("a folder can be made");
    let mut command = Command::new("sh");
    command.arg(root().join("packaging/release.sh")).arg(VERSION).arg(folder.join("built")).arg("release");
    output(command.args(targets).env("DIST", &dist).env("SOURCE_DATE_EPOCH", "1700000000"));
    dist
}

/// The rules that krew has for a plugin, beside those that its index has.
fn faults_of_plugin(plugin: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let mut rule = |holds: bool, what: &str| {
        if !holds {
            faults.push(what.to_string());
        }
    };
    let text = |pointer: &str| plugin.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let is_version = |version: &str| {
        let parts: Vec<&str> = version.strip_prefix('v').unwrap_or_default().split('.').collect();
        parts.len() == 3 && parts.iter().all(|part| part.parse::<u64>().is_ok())
    };
    rule(text("/apiVersion") == "krew.googlecontainertools.github.com/v1alpha2", "apiVersion");
    rule(text("/kind") == "Plugin", "kind");
    rule(is_name(text("/metadata/name")), "metadata.name");
    rule(is_version(text("/spec/version")), "spec.version: a semantic version after v");
    let short = text("/spec/shortDescription");
    rule(!short.is_empty() && short.len() <= 50 && !short.ends_with('.'), "spec.shortDescription");
    rule(!text("/spec/description").is_empty(), "spec.description");
    rule(text("/spec/homepage").starts_with("https://"), "spec.homepage");
    let platforms = plugin.pointer("/spec/platforms").and_then(Value::as_array).cloned().unwrap_or_default();
    rule(!platforms.is_empty(), "spec.platforms");
    for platform in &platforms {
        let text = |pointer: &str| platform.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let is_sum = |sum: &str| sum.len() == 64 && sum.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
        rule(["linux", "darwin", "windows"].contains(&text("/selector/matchLabels/os")), "os");
        rule(["amd64", "arm64"].contains(&text("/selector/matchLabels/arch")), "arch");
        rule(text("/uri").starts_with("https://") && text("/uri").ends_with(".tar.gz"), "uri");
        rule(is_sum(text("/sha256")), "sha256");
        rule(!text("/bin").is_empty() && !text("/bin").contains(".."), "bin");
    }
    let known = ["selector", "uri", "sha256", "bin", "files"];
    let keys = platforms.iter().filter_map(Value::as_object).flat_map(|platform| platform.keys());
    rule(keys.into_iter().all(|key| known.contains(&key.as_str())), "a key of a platform that is not known");
    faults
}

#[test]
fn a_release_is_whole_and_its_krew_plugin_can_be_installed() {
    let dist = release(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("release"));
    let names: BTreeSet<String> = fs::read_dir(&dist)
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    let expected = [
        "SHA256SUMS",
        "alerts.yaml",
        "grafana-dashboard.json",
        &format!("quotient-{VERSION}-linux-amd64.tar.gz"),
        &format!("quotient-{VERSION}-linux-arm64.tar.gz"),
        &format!("quotient-{VERSION}.tgz"),
        &format!("quotient-{VERSION}.yaml"),
        "quotient.krew.yaml",
    ];
    assert_eq!(names, expected.map(str::to_string).into());
    output(Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&dist));

    let text = fs::read_to_string(dist.join("quotient.krew.yaml")).expect("it is there");
    let (plugins, problems) = quotient_api::read::parse("quotient.krew.yaml", &text);
    assert!(problems.is_empty() && plugins.len() == 1, "{problems:?}");
    let plugin = &plugins[0].1;
    assert_eq!(faults_of_plugin(plugin), [""; 0], "{text}");
    for platform in plugin["spec"]["platforms"].as_array().expect("a list") {
        let archive = platform["uri"].as_str().and_then(|uri| uri.rsplit('/').next()).expect("a name");
        let sum = output(Command::new("sha256sum").arg(archive).current_dir(&dist));
        assert_eq!(sum.split(' ').next(), platform["sha256"].as_str());
        let listed = output(Command::new("tar").args(["-tvzf", archive]).current_dir(&dist));
        // krew unpacks files and folders, and gives up at anything else.
        assert!(listed.lines().all(|line| line.starts_with(['-', 'd'])), "{listed}");
        let bin = format!("./{}", platform["bin"].as_str().expect("a name"));
        for file in [&bin, "./LICENSE", "./completions/quotient.bash", "./man/quotient-migrate.1"] {
            assert!(listed.lines().any(|line| line.ends_with(&format!(" {file}"))), "no {file} in {listed}");
        }
    }
}

#[test]
fn faults_of_a_plugin_are_found() {
    let text = fs::read_to_string(root().join("packaging/krew.yaml")).expect("it is there");
    let (plugins, _) = quotient_api::read::parse("krew.yaml", &text);
    let faults = faults_of_plugin(&plugins[0].1);
    assert_eq!(faults, ["spec.version: a semantic version after v", "spec.platforms"]);
}
