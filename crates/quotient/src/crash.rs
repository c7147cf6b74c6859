//! A panic is a bug of ours: it ends the program with one line that says so, and exit code 70.

use std::fmt::Display;
use std::panic;

use crate::exit::Exit;

/// The one line that says that the program, and not its input, is wrong.
pub fn message(what: &impl Display) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("bug: {what} (quotient {version}): please report this, with the input that led to it")
}

/// From here on a panic prints one line and ends the process. `RUST_BACKTRACE` adds where it happened.
pub fn report_bugs() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map_or_else(String::new, |at| format!(" at {}:{}", at.file(), at.line()));
        let what = info.payload_as_str().unwrap_or("panic").lines().next().unwrap_or_default();
        eprintln!("{}", message(&format_args!("{what}{place}")));
        if std::env::var_os("RUST_BACKTRACE").is_some_and(|v| v != "0") {
            eprintln!("{}", std::backtrace::Backtrace::force_capture());
        }
        std::process::exit(i32::from(Exit::Bug.code()));
    }));
}
