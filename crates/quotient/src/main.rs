//! The one binary: `quotient`, which is the kubectl plugin `kubectl quotient` too.

mod arguments;
mod bench;
mod commands;
mod crash;
mod exit;
mod printer;
mod story;
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    crash::report_bugs();
    commands::run(arguments::parse()).into()
}
