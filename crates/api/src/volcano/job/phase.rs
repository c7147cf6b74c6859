//! Where a job is in its life.

/// Where a job is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobPhase {
    /// It is new, or waits for its queue or for nodes.
    Pending,
    /// As many of its pods as it takes have started.
    Running,
    /// Its pods are being deleted, and will be made anew.
    Restarting,
    Aborting,
    Aborted,
    Completing,
    Completed,
    Terminating,
    Terminated,
    Failed,
}

impl JobPhase {
    const ALL: [JobPhase; 10] = [
        JobPhase::Pending,
        JobPhase::Running,
        JobPhase::Restarting,
        JobPhase::Aborting,
        JobPhase::Aborted,
        JobPhase::Completing,
        JobPhase::Completed,
        JobPhase::Terminating,
        JobPhase::Terminated,
        JobPhase::Failed,
    ];

    /// The phase's name, as it is written.
    pub fn name(self) -> &'static str {
        match self {
            JobPhase::Pending => "Pending",
            JobPhase::Running => "Running",
            JobPhase::Restarting => "Restarting",
            JobPhase::Aborting => "Aborting",
            JobPhase::Aborted => "Aborted",
            JobPhase::Completing => "Completing",
            JobPhase::Completed => "Completed",
            JobPhase::Terminating => "Terminating",
            JobPhase::Terminated => "Terminated",
            JobPhase::Failed => "Failed",
        }
    }

    /// The phase of that name. A job that says nothing, or something else, is taken as new.
    pub fn of(name: Option<&str>) -> Self {
        Self::ALL.into_iter().find(|phase| Some(phase.name()) == name).unwrap_or(JobPhase::Pending)
    }

    /// What a phase on the way to an end leads to.
    pub(super) fn end(self) -> Self {
        match self {
            JobPhase::Aborting => JobPhase::Aborted,
            JobPhase::Completing => JobPhase::Completed,
            JobPhase::Terminating => JobPhase::Terminated,
            other => other,
        }
    }
}
