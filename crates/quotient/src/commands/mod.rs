//! One module for each command, and how a command's outcome becomes an exit code.

mod bench;
mod check;
mod complete;
mod configuration_file;
mod dashboard;
mod demo;
mod describe;
pub mod explain;
mod install;
mod lint;
mod log;
pub mod manifests;
mod mcp;
mod migrate;
mod plan;
mod replay;
mod run;
mod simulate;
mod snapshot;
mod test;
mod top;
mod tree;
mod what_if;

pub use install::{namespace, webhook_url};
pub use run::lease_duration;

use std::io::{self, Write};

use anyhow::Result;

use crate::arguments::{Arguments, Command};
use crate::escape::escaped;
use crate::exit::Exit;

/// Runs the command and says on stderr what went wrong, in one line.
pub fn run(arguments: Arguments) -> Exit {
    let outcome = dispatch(arguments.command);
    match outcome {
        Ok(exit) => exit,
        Err(error) => {
            drop(writeln!(io::stderr(), "error: {}", escaped(&format!("{error:#}"))));
            Exit::BadInput
        }
    }
}

fn dispatch(command: Command) -> Result<Exit> {
    match command {
        Command::Bench(arguments) => bench::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Complete { words } => complete::run(&words),
        Command::Completion { shell } => describe::completion(shell),
        Command::Dashboard(arguments) => dashboard::run(arguments),
        Command::Demo(arguments) => demo::run(arguments),
        Command::Explain(arguments) => explain::run(arguments),
        Command::WhatIf(arguments) => what_if::run(arguments),
        Command::Install(arguments) => install::run(arguments),
        Command::Lint(arguments) => lint::run(arguments),
        Command::Man { folder } => describe::manual(&folder),
        Command::Mcp(arguments) => mcp::run(arguments),
        Command::Migrate(arguments) => migrate::run(arguments),
        Command::Plan(arguments) => plan::run(arguments),
        Command::Replay(arguments) => replay::run(arguments),
        Command::Run(arguments) => run::run(*arguments),
        Command::Simulate(arguments) => simulate::run(arguments),
        Command::Snapshot(arguments) => snapshot::run(arguments),
        Command::Test(arguments) => test::run(arguments),
        Command::Top(arguments) => top::run(arguments),
        Command::Tree(arguments) => tree::run(arguments),
        Command::Version(arguments) => describe::version(arguments),
    }
}
