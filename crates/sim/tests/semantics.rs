//! The page on what quotas mean names the scenario of each clause: all of them, and none that does not exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn scenarios(folder: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(root().join("scenarios").join(folder)).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("a directory entry").path());
    paths.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect()
}

/// The scenarios of a folder by their own names, where a file has several.
fn scenarios_by_name(folder: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(root().join("scenarios").join(folder)).expect("the folder is there");
    let texts = entries.map(|entry| std::fs::read_to_string(entry.expect("an entry").path()).expect("it can be read"));
    let name = |line: &str| Some(line.strip_prefix("metadata: {name: ")?.strip_suffix('}')?.to_string());
    texts.flat_map(|text| text.lines().filter_map(name).collect::<Vec<_>>()).collect()
}

/// What stands between backticks within brackets, in prose: `(…, `kep-max`, …)`.
fn named(text: &str) -> BTreeSet<String> {
    let bracketed = text.split('(').skip(1).filter_map(|rest| rest.split(')').next());
    let quoted =
        bracketed.flat_map(|inside| inside.split('`').skip(1).step_by(2).map(str::to_string).collect::<Vec<_>>());
    let is_name = |name: &String| {
        name.contains('-') && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    quoted.filter(is_name).collect()
}

/// Folders whose scenarios other pages explain.
const ELSEWHERE: [&str; 5] = ["controllers", "dra", "kubernetes", "nodecap", "tenancy"];

/// All that the pages may name: scenarios by the names of their files, those of cards with a word before, and those of
/// jobs, of groups and of what peers test by their own names.
fn there() -> BTreeSet<String> {
    let folders = std::fs::read_dir(root().join("scenarios")).expect("the repository has scenarios");
    let folders = folders.map(|entry| entry.expect("a directory entry").path()).filter(|path| path.is_dir());
    let names = folders.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let explained = names.filter(|name| !ELSEWHERE.contains(&name.as_str()));
    let there = explained.flat_map(|folder| match folder.as_str() {
        "cards" => scenarios("cards").into_iter().map(|name| format!("cards-{name}")).collect(),
        "jobs" | "peers" | "podgroups" => scenarios_by_name(&folder),
        _ => scenarios(&folder),
    });
    there.collect()
}

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join("docs").join(name)).expect("the page is there")
}

#[test]
fn every_clause_names_its_scenario_and_every_scenario_has_a_clause() {
    let (named, there) = (named(&page("semantics.md")), there());
    assert_eq!(named.difference(&there).collect::<Vec<_>>(), Vec::<&String>::new(), "named, and not there");
    assert_eq!(there.difference(&named).collect::<Vec<_>>(), Vec::<&String>::new(), "there, and not named");
}

#[test]
fn every_scenario_that_a_difference_names_exists() {
    let (named, there) = (named(&page("compatibility.md")), there());
    assert!(named.len() > 10, "{named:?}");
    assert_eq!(named.difference(&there).collect::<Vec<_>>(), Vec::<&String>::new());
}
