//! Bounds on a process that computes for others: what it asks for beyond them ends it, and nobody else.

use std::io::{Error, Result};

use rustix::process::{Resource, Rlimit, nice, setrlimit};

/// The memory of the process that serves pages: views of 150,000 pods, four hours of history and the rights of 200
/// people are well below.
pub const PAGES_BYTES_MAX: u64 = 2 << 30;

/// The memory of a trial, and its time on a core. It holds the cluster three times.
pub const TRIAL_BYTES_MAX: u64 = 2 << 30;
pub const TRIAL_CPU_S_MAX: u64 = 60;

/// How much less of a busy machine such a process gets than a scheduler.
const NICENESS: i32 = 10;

/// Sets the bounds of this process; they cannot be widened again.
pub fn confine(bytes_max: u64, cpu_s_max: Option<u64>) -> Result<()> {
    let set = |resource, max| setrlimit(resource, Rlimit { current: Some(max), maximum: Some(max) });
    set(Resource::Data, bytes_max).map_err(Error::from)?;
    if let Some(seconds) = cpu_s_max {
        set(Resource::Cpu, seconds).map_err(Error::from)?;
    }
    // Both are wishes: the bounds hold without them. Where a container runs out of memory, this process goes first.
    let _ = nice(NICENESS);
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    Ok(())
}
