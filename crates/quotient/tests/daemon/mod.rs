//! The program as a process on a control plane, for tests that look at it from outside.
// Each test program uses some of it.
#![allow(dead_code)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use quotient_testenv::ControlPlane;
use serde_json::Value;

/// How long something may take to come about. It takes seconds; the rest is for machines that do much else.
const PATIENCE: Duration = Duration::from_secs(180);

/// So many lines of the log are shown when something does not come about.
const LOG_LINES: usize = 60;

pub fn quotient(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quotient"));
    command.args(arguments).env_remove("KUBECONFIG").env("HOME", "/nonexistent").stdin(Stdio::null());
    command
}

/// A scheduler as a process, killed with the value.
pub struct Daemon(Child);

impl Daemon {
    /// One with a lease of a few seconds.
    pub fn start(kubeconfig: &Path, log: &Path, more: &[&str]) -> Self {
        Daemon::start_with(kubeconfig, log, more, |_| {})
    }

    /// The same, in an environment of its own.
    pub fn start_with(kubeconfig: &Path, log: &Path, more: &[&str], set_up: impl FnOnce(&mut Command)) -> Self {
        let lease = ["--lease", "default/quotient", "--lease-duration", "2s"];
        Daemon::spawn(kubeconfig, log, &[&lease[..], more].concat(), set_up)
    }

    /// One as it is told.
    pub fn start_as(kubeconfig: &Path, log: &Path, arguments: &[&str]) -> Self {
        Daemon::spawn(kubeconfig, log, arguments, |_| {})
    }

    fn spawn(kubeconfig: &Path, log: &Path, arguments: &[&str], set_up: impl FnOnce(&mut Command)) -> Self {
        let kubeconfig = kubeconfig.display().to_string();
        let log = std::fs::File::options().create(true).append(true).open(log).expect("the log can be written");
        let arguments = [&["run", "--kubeconfig", &kubeconfig], arguments].concat();
        let mut command = quotient(&arguments);
        set_up(&mut command);
        Daemon(command.stderr(log).spawn().expect("the program runs"))
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Whether it ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().expect("it can be asked after").is_some()
    }

    pub fn kill(mut self) {
        self.0.kill().expect("it can be killed");
        self.0.wait().expect("it is gone");
    }

    /// Tells it to stop, as a kubelet does, and waits until it has: it gives the Lease back.
    pub fn stop(mut self) {
        let told = Command::new("kill").args(["-TERM", &self.id().to_string()]).status();
        assert!(told.expect("there is a kill").success());
        assert!(self.0.wait().expect("it ends").success(), "it ends well");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn eventually<T>(plane: &ControlPlane, what: &str, mut came: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = came() {
            return value;
        }
        if begun.elapsed() > PATIENCE {
            let pods = plane.kubectl(&["get", "pods", "-A", "-o", "wide"]).unwrap_or_default();
            let log = std::fs::read_to_string(plane.folder().join("quotient.log")).unwrap_or_default();
            // What matters comes last: the beginning of a long output is what gets lost.
            let lines: Vec<&str> = log.lines().collect();
            let end = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
            panic!("the end of its log:\n{end}\n{pods}\nafter {} s still not so: {what}", PATIENCE.as_secs());
        }
        thread::sleep(Duration::from_millis(200));
    }
}

pub fn items(plane: &ControlPlane, kind: &str) -> Vec<Value> {
    let answer = plane.kubectl(&["get", kind, "-A", "-o", "json"]).unwrap_or_default();
    let list: Value = serde_json::from_str(&answer).unwrap_or_default();
    list["items"].as_array().cloned().unwrap_or_default()
}

/// Asks for a path, and gives the status and the body.
pub fn ask(port: u16, path: &str) -> Option<(u16, String)> {
    ask_with(port, path, "")
}

/// The same with more headers, each with its end of line.
pub fn ask_with(port: u16, path: &str, headers: &str) -> Option<(u16, String)> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_string()))
}
