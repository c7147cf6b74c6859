//! `quotient migrate`: what moving from another scheduler means for a cluster, and how to do it.

use std::path::PathBuf;

use anyhow::{Context, Result};
use quotient_api::read::Kept;
use quotient_api::{Problem, Read, read};
use quotient_sim::Input;

use super::manifests;
use crate::arguments::{MigrateArguments, OutputArguments, SetupArguments, StateArguments};
use crate::exit::Exit;
use crate::live::{self, Which};
use crate::migration::{Evidence, migration, words};
use crate::printer::Printer;
use crate::snapshot;

/// Reads the cluster, and says what a move means.
pub fn run(arguments: MigrateArguments) -> Result<Exit> {
    let MigrateArguments { scheduler_config, write_config, state, output: OutputArguments { output } } = arguments;
    let StateArguments { files, cluster, setup: SetupArguments { from, config, scheduler_name } } = state;
    let mut printer = Printer::paged(output);
    let configuration = match manifests::configuration(&mut printer, config.as_deref()) {
        Ok(configuration) => config.map(|_| configuration),
        Err(exit) => return Ok(exit),
    };
    let mut evidence = Evidence::default();
    let problems = configurations(&mut evidence, &scheduler_config);
    if !problems.is_empty() {
        return Ok(printer.refuse(&problems));
    }
    let files: Vec<PathBuf> = from.into_iter().chain(files).collect();
    let state = match files.is_empty() {
        true => live_state(&mut printer, &mut evidence, &cluster.which(None))?,
        false => match of_files(&mut printer, &mut evidence, &files) {
            Ok(state) => state,
            Err(exit) => return Ok(exit),
        },
    };
    if evidence.confs.is_empty() {
        printer.note("note: no configuration of a scheduler was seen; give it with --scheduler-config");
    }
    printer.progress("deciding");
    let answer = match migration(&evidence, state, configuration, scheduler_name) {
        Ok(answer) => answer,
        Err(stuck) => return Ok(printer.bug(&stuck)),
    };
    if let Some(path) = write_config {
        let text = serde_saphyr::to_string(&answer.configuration).context("cannot write YAML")?;
        std::fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    match printer.is_for_people() {
        true => words::tell(&mut printer, &answer)?,
        false => printer.document(&answer)?,
    }
    printer.finish()?;
    Ok(Exit::Fine)
}

/// Takes in files with configurations of schedulers; says what is wrong with them.
fn configurations(evidence: &mut Evidence, paths: &[PathBuf]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in paths {
        let name = path.display().to_string();
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                problems.push(Problem::new(format!("cannot be read: {error}")).in_file(name.as_str()));
                continue;
            }
        };
        let (values, found) = read::parse(&name, &text);
        problems.extend(found);
        let taken = values.iter().filter(|(_, value)| evidence.take_conf(&name, value)).count();
        if taken == 0 {
            let expected = "holds no scheduler configuration: expected a KubeSchedulerConfiguration, one of Volcano, or a ConfigMap";
            problems.push(Problem::new(expected).in_file(name.as_str()));
        }
    }
    problems
}

fn of_files(printer: &mut Printer, evidence: &mut Evidence, files: &[PathBuf]) -> Result<Input, Exit> {
    let inputs = manifests::objects(printer, files, Kept::Comparable)?;
    let mut all = Read::default();
    for input in inputs {
        all.extend(input.read);
    }
    all.documents.iter().for_each(|document| evidence.take(&document.value));
    // All of it is one cluster, and not one change after another.
    Ok(Input { file: "the cluster".to_owned(), read: all })
}

fn live_state(printer: &mut Printer, evidence: &mut Evidence, which: &Which) -> Result<Input> {
    printer.progress("reading the cluster");
    let mut seen = live::read_with_config_maps(which)?;
    for unseen in seen.unseen.lines() {
        printer.note(format_args!("note: not seen: {unseen}"));
    }
    seen.objects.iter().for_each(|object| evidence.take(object));
    // What ConfigMaps hold is nobody's business from here on.
    seen.objects.retain(|object| object["kind"] != "ConfigMap");
    let file = seen.server.clone();
    let read = snapshot::read_objects(&file, snapshot::of(seen, false));
    Ok(Input { read, file })
}
