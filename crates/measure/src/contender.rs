//! A scheduler as a process, and what it costs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use quotient_testenv::ControlPlane;

/// Who schedules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    Quotient,
    Kube,
}

impl Scheduler {
    /// As pods name it.
    pub fn pod_name(self) -> &'static str {
        match self {
            Scheduler::Quotient => "quotient",
            Scheduler::Kube => "default-scheduler",
        }
    }
}

/// A scheduler that runs. It is killed with the value.
pub struct Contender {
    child: Child,
    log: PathBuf,
}

impl Contender {
    /// Starts one with client limits that do not bind.
    pub fn start(scheduler: Scheduler, plane: &ControlPlane, quotient: &Path) -> Result<Self> {
        let kubeconfig = plane.kubeconfig().display().to_string();
        let log = plane.folder().join("scheduler.log");
        let mut command = match scheduler {
            Scheduler::Quotient => {
                let mut command = Command::new(quotient);
                command.args(["run", "--kubeconfig", &kubeconfig]);
                command
            }
            Scheduler::Kube => {
                let configuration = plane.folder().join("kube-scheduler.yaml");
                let text = format!(
                    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                     leaderElection: {{leaderElect: false}}\n\
                     clientConnection: {{kubeconfig: {kubeconfig}, qps: 5000, burst: 10000}}\n"
                );
                fs::write(&configuration, text)?;
                let mut command = Command::new(plane.programs().join("kube-scheduler"));
                command.arg(format!("--config={}", configuration.display())).arg("--secure-port=0");
                command
            }
        };
        let file = File::create(&log)?;
        let child = command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn();
        Ok(Contender { child: child.with_context(|| format!("{scheduler:?} cannot be started"))?, log })
    }

    pub fn cpu_seconds(&self) -> f64 {
        cpu_seconds(self.child.id())
    }

    /// The most memory it ever had, in MiB.
    pub fn peak_mib(&self) -> f64 {
        peak_mib(self.child.id())
    }

    /// The memory it has now, in MiB.
    pub fn rss_mib(&self) -> f64 {
        status_mib(self.child.id(), "VmRSS:")
    }

    /// How many lines it logged.
    pub fn log_lines(&self) -> usize {
        fs::read(&self.log).unwrap_or_default().iter().filter(|byte| **byte == b'\n').count()
    }

    /// The last lines it logged, for when something did not come about.
    pub fn log_end(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A line of what the kernel says of a process, in MiB; 0 if it is gone.
fn status_mib(process: u32, line: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let found = status.lines().find_map(|found| found.strip_prefix(line)).unwrap_or("0 kB");
    found.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1024.0
}

/// The most memory that a process had so far, in MiB; 0 if it is gone.
pub fn peak_mib(process: u32) -> f64 {
    status_mib(process, "VmHWM:")
}

/// What a process has used of all cores so far.
pub fn cpu_seconds(process: u32) -> f64 {
    /// Clock ticks a second, which Linux fixes for what it tells programs.
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name in brackets may hold anything; what counts is behind it.
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / TICKS
}
