//! Jobs of several tasks: what is to be made, deleted and written for a job as it stands.
//!
//! A job makes a `PodGroup` first, and its pods once the group was let into its queue. Policies say what follows when
//! a pod fails, is evicted, or a task is done. Everything is worked out from the objects each time anew; what cannot
//! be seen in them any more (a pod that went) is told beside them.
//!
//! ```text
//!               ┌────────── Restarting ◀─────────┐ RestartJob, RestartTask, RestartPod
//!               ▼                                │
//!  (new) ──▶ Pending ──enough pods run──▶ Running ──all pods ended──▶ Completed, Failed
//!               │                            │
//!               └────────────┬───────────────┘
//!     AbortJob ▶ Aborting ▶ Aborted │ CompleteJob ▶ Completing ▶ Completed │ TerminateJob ▶ Terminating ▶ Terminated
//!                              └── ResumeJob ▶ Restarting
//! ```

mod arguments;
mod belongings;
pub(crate) mod bounds;
pub mod declared;
pub mod depends;
pub mod min_resources;
mod phase;
mod pods;
pub mod policy;
pub mod ssh;
mod standing;
mod svc;
mod volumes;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::admission::View;
use crate::object::{ObjectKey, key_of};
use crate::time::parse_timestamp;
use crate::volcano::command::JobCommand;
use crate::volcano::group::GroupPhase;
pub use belongings::Made;
use declared::Declared;
pub use phase::JobPhase;
use policy::{Action, Cause};
use standing::{Counts, Standing};

/// A job with all that belongs to it.
pub struct JobState<'a> {
    pub job: &'a Value,
    /// Its group, if it is there.
    pub group: Option<&'a Value>,
    /// Its pods, in any order.
    pub pods: &'a [&'a Value],
    /// Pods of it that went since it was last looked at, and that nobody deleted on its behalf.
    pub gone: &'a [&'a Value],
    /// For how long it is known what happened to a pod, by its uid: policies may wait for so long.
    pub known_for: &'a dyn Fn(&str) -> Duration,
    /// What somebody wants to be done about it.
    pub command: Option<JobCommand>,
    /// Something that it needs was refused, so that all of that is made again.
    pub lacks: bool,
}

/// What is to be done about a job, in the order of the fields.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// Pods to delete.
    pub delete: Vec<ObjectKey>,
    /// The group's key, where it is to be deleted.
    pub delete_group: Option<ObjectKey>,
    /// The group to make.
    pub make_group: Option<Value>,
    /// What the group's `spec` should be, where it is something else.
    pub group_spec: Option<Value>,
    /// What pods need that has no status to wait for: what plugins make, and volume claims.
    pub belongings: Vec<Made>,
    /// Pods to make.
    pub make: Vec<Value>,
    /// The job's status, where it changed.
    pub status: Option<Value>,
    /// What happened to the job, for its events: reason and message.
    pub events: Vec<(&'static str, String)>,
    /// It was done for as long as it asked to be kept: it is to be deleted.
    pub delete_job: bool,
    /// It will have been so, if time passes.
    pub expires: bool,
    /// The uids of pods to which something happened that a policy waits for a while to act upon.
    pub awaited: Vec<String>,
}

/// The name of a job's group.
pub fn group_name(job: &Value) -> String {
    let text = |pointer: &str| job.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!("{}-{}", text("/metadata/name"), text("/metadata/uid"))
}

/// Which pods stay where a job is wound up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Ended,
    None,
}

/// Works out what is to be done. `now` is a timestamp, as it is written into objects.
pub fn plan(state: &JobState<'_>, view: &dyn View, now: &str) -> Plan {
    let JobState { job, .. } = state;
    let mut planner = Planner {
        state,
        declared: Declared::of(job),
        before: Standing::of(job),
        after: Standing::of(job),
        controlled: job.pointer("/status/controlledResources").and_then(Value::as_object).cloned().unwrap_or_default(),
        plan: Plan::default(),
    };
    planner.look(view);
    planner.expire(now);
    planner.finish(now)
}

struct Planner<'a> {
    state: &'a JobState<'a>,
    declared: Declared<'a>,
    before: Standing,
    after: Standing,
    /// What was made for it, as its status records it.
    controlled: Map<String, Value>,
    plan: Plan,
}

impl Planner<'_> {
    fn look(&mut self, view: &dyn View) {
        if self.state.command.is_some_and(|command| self.obey(command)) {
            return;
        }
        match self.before.phase {
            JobPhase::Pending | JobPhase::Running => {
                let found = policy::cause(&self.declared, self.state, &self.before, &mut self.plan.awaited);
                match found {
                    Some(cause) => self.act(cause),
                    None => self.keep_going(view),
                }
            }
            // The pods of the last try stay, so that it can be seen what became of them.
            JobPhase::Restarting if self.is_last_try() => {
                self.wind_up(Keep::Ended);
                if self.counts().unended() == 0 {
                    self.after.phase = JobPhase::Failed;
                }
            }
            // Its other pods stay, and so does the group, which is in its queue for them.
            JobPhase::Restarting if self.before.restarts_in_part => {
                let (replicas, leaving) = (self.declared.replicas(), self.counts().terminating);
                if replicas.saturating_sub(leaving) >= self.declared.min_available {
                    self.after.phase = JobPhase::Pending;
                }
            }
            JobPhase::Restarting => {
                self.wind_up(Keep::None);
                if self.state.pods.is_empty() {
                    self.drop_group();
                    self.after.phase = JobPhase::Pending;
                }
            }
            JobPhase::Aborting | JobPhase::Completing | JobPhase::Terminating => {
                self.wind_up(Keep::Ended);
                if self.counts().unended() == 0 {
                    self.after.phase = self.before.phase.end();
                }
            }
            JobPhase::Aborted | JobPhase::Completed | JobPhase::Terminated | JobPhase::Failed => {
                self.wind_up(Keep::Ended);
                if self.counts().unended() == 0 {
                    self.drop_group();
                }
            }
        }
    }

    /// Does what a command says; `false` where the job is not in a state for it, and goes on as it would.
    fn obey(&mut self, command: JobCommand) -> bool {
        use JobPhase::{Aborted, Aborting, Pending, Restarting, Running};
        let phase = self.before.phase;
        match command {
            JobCommand::Act(action) => {
                let is_under_way = matches!(phase, Pending | Running)
                    || phase == Restarting && action != Action::RestartJob && !self.is_last_try();
                if is_under_way {
                    let message = format!("commanded: {}", action.name());
                    self.act(Cause { action, task: String::new(), pod: String::new(), message });
                }
                is_under_way
            }
            JobCommand::Resume if matches!(phase, Aborting | Aborted) => {
                self.plan.events.push(("ResumeJob", "commanded: ResumeJob".to_string()));
                self.after.phase = Restarting;
                self.after.version += 1;
                self.wind_up(Keep::None);
                true
            }
            JobCommand::Resume => false,
        }
    }

    /// Whether it is not tried again.
    fn is_last_try(&self) -> bool {
        self.after.retry_count >= self.declared.max_retry
    }

    fn counts(&self) -> Counts {
        Counts::of(self.state.pods)
    }

    /// Does what a policy says.
    fn act(&mut self, Cause { action, task, pod, message }: Cause) {
        self.plan.events.push((action.name(), message));
        self.after.phase = match action {
            Action::AbortJob => JobPhase::Aborting,
            Action::CompleteJob => JobPhase::Completing,
            Action::TerminateJob => JobPhase::Terminating,
            Action::RestartJob | Action::RestartTask | Action::RestartPod => JobPhase::Restarting,
        };
        let restarts = self.after.phase == JobPhase::Restarting;
        self.after.retry_count += u64::from(restarts);
        let is_last = !restarts || self.is_last_try();
        self.after.restarts_in_part = !is_last && action != Action::RestartJob;
        if self.after.restarts_in_part {
            self.delete(|other| match action {
                Action::RestartTask => declared::task_of(other) == Some(&*task),
                _ => other.pointer("/metadata/name").and_then(Value::as_str) == Some(&*pod),
            });
        } else {
            self.after.version += 1;
            self.wind_up(if is_last { Keep::Ended } else { Keep::None });
        }
    }

    /// Deletes pods that are not on their way out already.
    fn delete(&mut self, is_meant: impl Fn(&Value) -> bool) {
        let pods = self.state.pods.iter().filter(|pod| !standing::is_leaving(pod) && is_meant(pod));
        let mut keys: Vec<ObjectKey> = pods.filter_map(|pod| key_of(pod).ok()).collect();
        keys.sort();
        self.plan.delete.extend(keys);
    }

    fn wind_up(&mut self, keep: Keep) {
        self.delete(|pod| keep == Keep::None || !standing::has_ended(pod));
    }

    fn drop_group(&mut self) {
        self.plan.delete_group = self.state.group.and_then(|group| key_of(group).ok());
    }

    /// Makes what is missing, deletes what is too much, and says how far the job is.
    fn keep_going(&mut self, view: &dyn View) {
        if let Some((_, message)) = bounds::beyond(self.state.job, &self.declared) {
            // Nothing is made, and what there is stays: the job may be ended like any other.
            self.after.problem = Some(message);
            return;
        }
        let waiting = depends::waiting(&self.declared, self.state.pods);
        let wanted = pods::group(self.state.job, &self.declared, &waiting, view);
        (self.plan.belongings, self.controlled) = belongings::missing(self.state.job, &self.declared, self.state.lacks);
        let Some(group) = self.state.group else {
            self.plan.make_group = Some(wanted);
            return;
        };
        if pods::group_spec_differs(group, &wanted) {
            self.plan.group_spec = Some(pods::group_spec(group, &wanted));
        }
        let phase = GroupPhase::of(group.pointer("/status/phase").and_then(Value::as_str));
        let batch = bounds::batch(self.state.job, &self.declared);
        let mut names: BTreeSet<String> = BTreeSet::new();
        let there: BTreeSet<&str> =
            self.state.pods.iter().filter_map(|pod| pod.pointer("/metadata/name").and_then(Value::as_str)).collect();
        for task in &self.declared.tasks {
            for index in 0..task.replicas {
                let name = pods::name(self.state.job, &task.name, index);
                let is_due = phase != GroupPhase::Pending && !waiting.contains(&*task.name);
                if is_due && self.plan.make.len() < batch && !there.contains(&*name) {
                    self.plan.make.push(pods::pod(self.state.job, &self.declared, task, index, &self.before));
                }
                names.insert(name);
            }
        }
        let version = self.before.version;
        self.delete(|pod| {
            let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            !names.contains(name) || declared::version_of(pod).is_some_and(|of_pod| of_pod != version)
        });
        self.after.phase = match self.before.phase {
            JobPhase::Pending if self.counts().started() >= self.declared.min_available => JobPhase::Running,
            JobPhase::Running => self.outcome(),
            phase => phase,
        };
    }

    /// Whether a running job is done, and how.
    fn outcome(&self) -> JobPhase {
        let (declared, counts) = (&self.declared, self.counts());
        let replicas = declared.replicas();
        if declared.min_success.is_some_and(|needed| counts.succeeded >= needed) {
            return JobPhase::Completed;
        }
        if replicas == 0 || counts.succeeded + counts.failed < replicas {
            return JobPhase::Running;
        }
        let needs_each_task = declared.min_available >= declared.task_minimum();
        let is_short = |task: &declared::Task<'_>| {
            let succeeded = |pod: &&&Value| {
                declared::task_of(pod) == Some(&*task.name) && standing::phase_of(pod) == Some("Succeeded")
            };
            let count = u64::try_from(self.state.pods.iter().filter(succeeded).count()).unwrap_or(u64::MAX);
            task.given_minimum.is_some_and(|minimum| count < minimum)
        };
        let lacks = needs_each_task && declared.tasks.iter().any(is_short);
        let needed = declared.min_success.unwrap_or(declared.min_available);
        if lacks || counts.succeeded < needed { JobPhase::Failed } else { JobPhase::Completed }
    }

    /// A job that is done goes after as long as it says.
    fn expire(&mut self, now: &str) {
        let is_done = matches!(
            self.before.phase,
            JobPhase::Aborted | JobPhase::Completed | JobPhase::Terminated | JobPhase::Failed
        );
        let done_at = self.state.job.pointer("/status/state/lastTransitionTime").and_then(Value::as_str);
        let (Some(keeps_s), Some(done_at), Ok(now)) =
            (self.declared.keeps_s, done_at.and_then(|at| parse_timestamp(at).ok()), parse_timestamp(now))
        else {
            return;
        };
        let keeps_us = i64::try_from(keeps_s).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        self.plan.delete_job = is_done && now.saturating_sub(done_at) >= keeps_us;
        self.plan.expires = is_done && !self.plan.delete_job;
    }

    fn finish(self, now: &str) -> Plan {
        let Planner { state, declared, before, after, controlled, mut plan } = self;
        let status = standing::status(state, &declared, &before, &after, &controlled, now);
        if state.job.get("status") != Some(&status) {
            plan.status = Some(status);
        }
        plan
    }
}
