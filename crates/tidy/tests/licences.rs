//! Everything the program is built from may be used under a licence that goes with ours.

use std::path::Path;
use std::process::Command;

/// Licences without conditions beyond naming the authors. `deny.toml` has the same list.
const ALLOWED: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    // The list of authorities that browsers trust, as data.
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Whether an SPDX expression leaves a choice that is allowed. AND binds tighter than OR; old crates write `/` for OR.
fn is_allowed(expression: &str) -> bool {
    let tokens = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = tokens.split_whitespace().collect();
    let mut at = 0;
    any(&tokens, &mut at) && at == tokens.len()
}

fn any(tokens: &[&str], at: &mut usize) -> bool {
    let mut allowed = every(tokens, at);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        allowed |= every(tokens, at);
    }
    allowed
}

fn every(tokens: &[&str], at: &mut usize) -> bool {
    let mut allowed = one(tokens, at);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        allowed &= one(tokens, at);
    }
    allowed
}

fn one(tokens: &[&str], at: &mut usize) -> bool {
    if tokens.get(*at) == Some(&"(") {
        *at += 1;
        let allowed = any(tokens, at);
        *at += 1;
        return allowed;
    }
    let mut name = tokens.get(*at).copied().unwrap_or_default().to_owned();
    *at += 1;
    if tokens.get(*at) == Some(&"WITH") {
        name = format!("{name} WITH {}", tokens.get(*at + 1).copied().unwrap_or_default());
        *at += 2;
    }
    ALLOWED.contains(&name.as_str())
}

/// Name, version, licence and source of every package in the lock file.
fn packages() -> Vec<(String, Option<String>, Option<String>)> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    metadata["packages"]
        .as_array()
        .expect("cargo metadata has packages")
        .iter()
        .map(|p| (format!("{} {}", p["name"], p["version"]), text(&p["license"]), text(&p["source"])))
        .collect()
}

#[test]
fn every_licence_is_allowed() {
    let packages = packages();
    assert!(packages.len() > 10, "only {} packages found", packages.len());
    let bad: Vec<String> = packages
        .iter()
        .filter(|(_, licence, _)| !licence.as_deref().is_some_and(is_allowed))
        .map(|(name, licence, _)| format!("{name}: {licence:?}"))
        .collect();
    assert!(bad.is_empty(), "licences that are not allowed:\n{}", bad.join("\n"));
}

#[test]
fn everything_comes_from_the_registry_or_from_here() {
    let strange: Vec<String> = packages()
        .into_iter()
        .filter_map(|(name, _, source)| source.filter(|s| !s.starts_with("registry+")).map(|s| format!("{name}: {s}")))
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
}

#[test]
fn expressions_are_understood() {
    for (expression, allowed) in [
        ("MIT", true),
        ("MIT OR Apache-2.0", true),
        ("MIT/Apache-2.0", true),
        ("GPL-3.0-only", false),
        ("GPL-3.0-only OR MIT", true),
        ("GPL-3.0-only AND MIT", false),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("(MIT OR Apache-2.0) AND GPL-2.0-only", false),
        ("Apache-2.0 WITH LLVM-exception OR GPL-2.0-only", true),
        ("Apache-2.0 WITH Strange-exception", false),
        ("MIT GPL-2.0-only", false),
        ("", false),
    ] {
        assert_eq!(is_allowed(expression), allowed, "{expression}");
    }
}

#[test]
fn the_list_is_the_one_for_cargo_deny() {
    let deny = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deny.toml"))
        .expect("deny.toml can be read");
    let line = deny.lines().find(|line| line.starts_with("allow = [")).expect("deny.toml has a list of licences");
    let listed: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
    assert_eq!(listed, ALLOWED);
}
