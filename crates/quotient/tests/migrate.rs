//! `quotient migrate` on clusters of the four systems: what people read, and that every row it names is on the page.
//!
//! After a change that was meant: `INSTA_UPDATE=always cargo test -p quotient --test it migrate::`, then read the
//! difference.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const SYSTEMS: [&str; 4] = ["scheduler-plugins", "nos", "koordinator", "volcano"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn quotient(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quotient"));
    command.args(arguments).current_dir(root()).stdin(Stdio::null()).env("NO_COLOR", "1");
    command.output().expect("the program runs")
}

fn file(system: &str) -> String {
    format!("examples/migration/{system}.yaml")
}

fn json(arguments: &[&str]) -> Value {
    let output = quotient(&[arguments, &["-o", "json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {said}"))
}

#[test]
fn what_is_told_of_each_system() {
    for system in SYSTEMS {
        let output = quotient(&["migrate", "-f", &file(system)]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{system}: {said}");
        insta::assert_snapshot!(format!("migrate-{system}"), String::from_utf8_lossy(&output.stdout));
    }
}

/// The first cells of the rows of each section, by the section's anchor.
fn rows() -> Vec<(String, Vec<String>)> {
    let page = std::fs::read_to_string(root().join("docs/compatibility.md")).expect("it is there");
    let anchor = |heading: &str| -> String {
        let lower = heading.to_lowercase();
        let kept: String = lower.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect();
        kept.replace(' ', "-")
    };
    let section = |text: &str| {
        let (heading, body) = text.split_once('\n').unwrap_or((text, ""));
        let cells = body.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
        (anchor(heading), cells.map(str::to_owned).collect())
    };
    page.split("\n## ").skip(1).map(section).collect()
}

#[test]
fn every_row_that_is_named_is_on_the_page() {
    let known = rows();
    let mut seen = 0;
    for system in SYSTEMS {
        let answer = json(&["migrate", "-f", &file(system)]);
        for remark in answer["differs"].as_array().expect("a list") {
            let page = remark["row"]["page"].as_str().unwrap_or_else(|| panic!("{remark} names no row"));
            let anchor = page.strip_prefix("docs/compatibility.md#").expect("a link to the page");
            let row = remark["row"]["row"].as_str().expect("a row");
            let of_section = known.iter().find(|(known, _)| known == anchor);
            let (_, of_section) = of_section.unwrap_or_else(|| panic!("there is no section {anchor}"));
            assert!(of_section.iter().any(|known| known == row), "{anchor} has no row {row:?}: {of_section:?}");
            seen += 1;
        }
    }
    assert!(seen > 25, "only {seen} rows were named");
}

/// Remarks that no example brings about lead to rows too: all that the program can name stand in its source.
#[test]
fn every_row_in_the_source_is_on_the_page() {
    let known = rows();
    let is_row = |text: &str| known.iter().any(|(_, rows)| rows.iter().any(|row| row == text));
    for row in ["two quotas in a namespace", "`nos` and `n8s` objects in one cluster", "`extenders`", "`actions`"] {
        assert!(is_row(row), "{row}");
    }
    for row in [
        "arguments of default plugins",
        "other plugins of a KubeSchedulerConfiguration",
        "parents",
        "`weight` of a queue",
    ] {
        assert!(is_row(row), "{row}");
    }
}

#[test]
fn the_proposed_configuration_is_read_and_keeps_what_the_incumbent_had() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("migrate-quotient.yaml");
    let shown = path.display().to_string();
    for (system, expected) in [
        ("scheduler-plugins", vec!["- scheduler-plugins-scheduler"]),
        ("nos", vec!["- nos-scheduler", "nvidiaGPUResourceMemoryGB: 32"]),
        ("koordinator", vec!["- koord-scheduler", "revokeAfter: 300s", "profileController: false"]),
        ("volcano", vec!["- volcano", "cardUnlimitedCpuMemory: true", "crossQuota:", "volcanoJobController: false"]),
    ] {
        let written = quotient(&["migrate", "-f", &file(system), "--write-config", &shown]);
        assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
        let text = std::fs::read_to_string(&path).expect("it is written");
        for part in expected {
            assert!(text.contains(part), "{system}: no {part:?} in\n{text}");
        }
        let used = quotient(&["tree", "-f", &file(system), "--config", &shown]);
        assert!(used.status.success(), "{system}: {}", String::from_utf8_lossy(&used.stderr));
    }
}

#[test]
fn a_configuration_may_be_given_apart_and_a_wrong_one_is_refused() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let conf = folder.join("migrate-volcano.conf");
    std::fs::write(&conf, "actions: allocate\ntiers: [{plugins: [{name: proportion}]}]\n").expect("it is written");
    let conf = conf.display().to_string();
    let answer = json(&["migrate", "-f", "examples/first-steps", "--scheduler-config", &conf]);
    assert_eq!(answer["incumbents"][0]["system"], "Volcano");
    assert!(answer["differs"].to_string().contains("plugin proportion"), "{answer}");
    let wrong = quotient(&["migrate", "-f", "examples/first-steps", "--scheduler-config", "Cargo.toml"]);
    assert_eq!(wrong.status.code(), Some(2));
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(said.contains("Cargo.toml") && said.contains("expected"), "{said}");
}
