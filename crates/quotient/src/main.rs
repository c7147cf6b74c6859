//! The one binary: `quotient`, which is the kubectl plugin `kubectl quotient` too.

mod arguments;
mod bench;
mod check;
mod commands;
mod crash;
mod exit;
mod explanation;
mod fullness;
mod live_dashboard;
mod near_names;
mod plan;
mod printer;
mod quota_tree;
mod rehearsal;
mod report_page;
mod standing;
mod state;
mod story;
mod table;
mod trial;

use std::process::ExitCode;

fn main() -> ExitCode {
    crash::report_bugs();
    commands::run(arguments::parse()).into()
}
