//! The one binary: `quotient`, which is the kubectl plugin `kubectl quotient` too.

mod arguments;
mod bench;
mod check;
mod commands;
mod comparison;
mod crash;
mod escape;
mod exit;
mod explanation;
mod final_state;
mod fullness;
mod kin;
mod lineage;
mod live;
mod live_dashboard;
mod live_recording;
mod migration;
mod object_diff;
mod pager;
mod partial;
mod plan;
mod printer;
mod quota_tree;
#[cfg(test)]
mod random_cluster;
mod rehearsal;
mod remedies;
mod report_page;
mod snapshot;
mod standing;
mod state;
mod story;
mod table;
mod trial;
mod watching;
mod when;

use std::process::ExitCode;

/// Objects are many small pieces of memory. The allocator of musl, which static binaries would have, is slow with more
/// than one thread; this one is also faster than that of glibc.
#[cfg(all(target_os = "linux", any(target_env = "gnu", target_arch = "x86_64")))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    crash::report_bugs();
    let arguments = arguments::parse();
    printer::set_looks(arguments.looks);
    commands::run(arguments).into()
}
