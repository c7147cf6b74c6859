//! A program that runs beside us, and does not outlive us.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::TestenvError;

/// A running program. It is killed when this is dropped, and also when our process is gone, whatever ended it: a shell
/// waits for the end of a pipe that only we hold open.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    log: PathBuf,
    watchdog: Child,
    /// Closing it is what the watchdog waits for.
    _lifeline: Option<ChildStdin>,
}

impl Program {
    /// Starts `name` of `folder`; what it says goes to `log_folder/name.log`.
    pub fn start(folder: &Path, name: &str, arguments: &[String], log_folder: &Path) -> Result<Self, TestenvError> {
        let failed = |error| TestenvError::Start { program: name.to_string(), error };
        let log = log_folder.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log).map_err(failed)?;
        let child = Command::new(folder.join(name))
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file.try_clone().map_err(failed)?)
            .stderr(file)
            // An interrupt at the terminal is for us; we stop the others in our order.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let mut watchdog = watch(&format!("kill -9 {} 2>/dev/null", child.id())).map_err(failed)?;
        let lifeline = watchdog.stdin.take();
        Ok(Program { name: name.to_string(), child, log, watchdog, _lifeline: lifeline })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The last lines that it said.
    pub fn log_end(&self) -> String {
        const LINES: usize = 12;
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    /// Ends it at once, as a power cut would.
    pub fn kill(&mut self) {
        // The watchdog goes first: a process number that is free again may be another's.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A shell that runs `script` when the pipe to it closes.
pub fn watch(script: &str) -> std::io::Result<Child> {
    Command::new("sh")
        .args(["-c", &format!("cat >/dev/null; {script}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}
