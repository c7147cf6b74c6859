//! The scenarios of the repository: all of them are read, and all of them pass.

use std::path::{Path, PathBuf};

use quotient_sim::scenario::{self, Scenario};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// The YAML files of a folder, by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a directory entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    assert!(!files.is_empty(), "{} holds no scenario", folder.display());
    files
}

fn load(file: &Path) -> Vec<Scenario> {
    scenario::load(file).unwrap_or_else(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        panic!("{}", lines.join("\n"))
    })
}

/// The files of every folder.
fn all_files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root()).expect("the repository has scenarios");
    let paths = entries.map(|entry| entry.expect("a directory entry").path());
    let mut folders: Vec<PathBuf> = paths.filter(|path| path.is_dir()).collect();
    folders.sort();
    let files: Vec<PathBuf> = folders.iter().flat_map(|folder| files(folder)).collect();
    assert!(files.len() > 100, "only {} files", files.len());
    files
}

#[test]
fn every_scenario_can_be_read() {
    for file in all_files() {
        let scenarios = load(&file);
        assert!(scenarios.iter().all(|scenario| !scenario.steps.is_empty()), "{} has no steps", file.display());
    }
}

#[test]
fn every_scenario_passes() {
    let mut failed = Vec::new();
    let mut steps = 0;
    for file in all_files() {
        for scenario in load(&file) {
            let result = quotient_sim::run(&scenario, &mut |_| steps += 1);
            if let Some(error) = &result.error {
                failed.push(format!("{}: {error}", result.name));
            }
            for step in &result.steps {
                for failure in &step.failures {
                    failed.push(format!("{}: step {:?}: {failure} {:?}", result.name, step.name, step.notes));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{} failures:\n{}", failed.len(), failed.join("\n"));
    assert!(steps > 50, "only {steps} steps were run");
}
