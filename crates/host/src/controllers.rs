//! Controllers: what is to be written about objects so that they are as they should be.
//!
//! Each is a function of the objects as they are and of what the engine says, and compares them with how they should be
//! whatever happened before; what is right is not written. They do no I/O: what they want is a [`Write`], and what came
//! of it is seen in its object.

mod gang;
mod gate;
mod group;
mod job;
mod namespace;
mod profile;
mod quota;

use std::collections::BTreeSet;

use quotient_api::volcano::{self, command, events};
use quotient_api::{Configuration, ObjectKey, Problem, View};
use quotient_engine::fact::Name;
use quotient_engine::{Engine, QuotaReport, Tick};
use serde_json::Value;

use crate::event::Remark;
use crate::objects::{Objects, controller_of, is_owner};
use crate::subject::Subject;
use crate::write::{Slot, Write};

pub use namespace::MARK;

/// Now, as controllers need it.
#[derive(Debug, Clone)]
pub struct Moment {
    pub tick: Tick,
    /// As it is written into objects.
    pub text: String,
}

/// What a controller wants.
#[derive(Debug, Default)]
pub struct Wanted {
    pub writes: Vec<Write>,
    /// What is to be told about objects, with their uids.
    pub remarks: Vec<(ObjectKey, Name, Remark)>,
    /// All that is wrong with objects now, for those that were looked at.
    pub problems: Vec<(ObjectKey, Vec<Problem>)>,
}

impl Wanted {
    fn remark(&mut self, key: &ObjectKey, object: &Value, remark: Remark) {
        self.remarks.push((key.clone(), uid_of(object), remark));
    }
}

fn uid_of(object: &Value) -> Name {
    Name::from(object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default())
}

/// Which controllers run, and whose pods are ours.
#[derive(Debug, Clone)]
struct Settings {
    profiles: bool,
    pod_groups: bool,
    volcano_jobs: bool,
    /// `None`: every pod is.
    scheduler_names: Option<Vec<String>>,
}

impl Settings {
    /// Whether pods with this in `spec.schedulerName` are ours.
    fn is_ours(&self, scheduler_name: &str) -> bool {
        self.scheduler_names.as_ref().is_none_or(|names| names.iter().any(|name| name == scheduler_name))
    }

    /// Whether a pod is ours to place.
    fn is_our_pod(&self, pod: &Value) -> bool {
        let named = || pod.pointer("/spec/schedulerName").and_then(Value::as_str);
        self.scheduler_names.is_none() || named().is_some_and(|name| self.is_ours(name))
    }

    /// Whether the pods of a job of several tasks are ours to make: it names none of the schedulers that others run.
    fn is_our_job(&self, job: &Value) -> bool {
        let named = job.pointer("/spec/schedulerName").and_then(Value::as_str).filter(|name| !name.is_empty());
        named.is_none_or(|name| self.is_ours(name))
    }
}

/// All controllers, with what they still have to look at.
#[derive(Debug, Clone)]
pub struct Controllers {
    settings: Settings,
    quotas: quota::Quotas,
    namespaces: namespace::Namespaces,
    profiles: profile::Profiles,
    gangs: gang::Gangs,
    gates: gate::Gates,
    groups: group::Groups,
    jobs: job::Jobs,
    /// Queues of which is to be said what their owners should know.
    queues_due: BTreeSet<ObjectKey>,
}

impl Controllers {
    /// The controllers of a cluster with this configuration.
    pub fn new(configuration: &Configuration, scheduler_names: Option<Vec<String>>) -> Self {
        let settings = Settings {
            profiles: configuration.runs_profiles,
            pod_groups: configuration.runs_pod_groups,
            volcano_jobs: configuration.runs_volcano_jobs,
            scheduler_names,
        };
        Controllers {
            settings,
            quotas: quota::Quotas::default(),
            namespaces: namespace::Namespaces::default(),
            profiles: profile::Profiles::default(),
            gangs: gang::Gangs::default(),
            gates: gate::Gates::default(),
            groups: group::Groups::default(),
            jobs: job::Jobs::default(),
            queues_due: BTreeSet::new(),
        }
    }

    /// An object was seen: whom it concerns has to look again. Of pods only those are of interest that are kept.
    pub fn seen(&mut self, key: &ObjectKey, object: &Value, objects: &Objects) {
        self.forget_asked(key);
        if (key.group, key.kind) == ("", "Pod") {
            self.gates.seen(&self.settings, key, object);
        }
        match (key.group, key.kind) {
            ("", "Pod") if objects.get(key).is_some() => self.gangs.seen(key, object, objects),
            (volcano::SCHEDULING, volcano::QUEUE) => {
                self.queues_due.insert(key.clone());
            }
            (volcano::SCHEDULING, volcano::POD_GROUP) => {
                self.gangs.group_seen(key);
                self.jobs.group_seen(key, controller_of(object));
            }
            (volcano::BATCH, volcano::JOB) => self.jobs.due(key.clone()),
            (command::BUS, command::COMMAND) => {
                let job = command::target(key, object).filter(volcano::is_job);
                job.filter(|job| objects.get(job).is_some()).into_iter().for_each(|job| self.jobs.due(job));
            }
            _ if is_owner(key) => self.gangs.owner_seen(key, objects),
            _ => {}
        }
    }

    /// An object is gone.
    pub fn gone(&mut self, key: &ObjectKey, objects: &Objects) {
        self.forget_asked(key);
        match (key.group, key.kind) {
            ("", "Pod") => {
                self.gates.gone(key);
                self.gangs.gone(key);
            }
            (volcano::SCHEDULING, volcano::QUEUE) => {
                self.queues_due.remove(key);
            }
            (volcano::SCHEDULING, volcano::POD_GROUP) => {
                self.gangs.group_gone(key, objects);
                self.jobs.group_gone(key);
            }
            (volcano::BATCH, volcano::JOB) => self.jobs.gone(key),
            _ => {}
        }
    }

    fn forget_asked(&mut self, key: &ObjectKey) {
        self.quotas.seen(key);
        self.namespaces.asked.seen(key);
        self.profiles.seen(key);
        self.groups.asked.seen(key);
    }

    /// The group that a pod is about to be told because of what its owners say, where it does not know it yet.
    pub fn group_of(&self, key: &ObjectKey, pod: &Value, objects: &Objects) -> Option<String> {
        // Most pods are not kept, and those have no such owner.
        let is_concerned = self.settings.pod_groups && key.kind == "Pod" && objects.get(key).is_some();
        if !is_concerned || !self.settings.is_our_pod(pod) {
            return None;
        }
        gang::gang_of(pod, objects).filter(|gang| gang.is_unnamed).map(|gang| gang.name)
    }

    /// A pod of a job of several tasks was seen.
    pub fn job_pod_seen(&mut self, job: ObjectKey, objects: &Objects) {
        // A job that is seen later is looked at then.
        if objects.get(&job).is_some() {
            self.jobs.due(job);
        }
    }

    /// A pod of a job of several tasks is gone; this is how it was last.
    pub fn job_pod_gone(&mut self, job: ObjectKey, pod: Value, objects: &Objects) {
        self.jobs.pod_gone(job, pod, objects);
    }

    /// Something that was asked for was refused.
    pub fn refused(&mut self, slot: &Slot, message: &str, now: Tick) {
        let named = [&mut self.namespaces.asked, &mut self.groups.asked, &mut self.gates.asked];
        for asked in named.into_iter().chain([self.profiles.asked(), self.gangs.asked()]) {
            asked.refused(slot, message, now);
        }
        self.quotas.refused(slot, message, now);
        self.jobs.refused(slot, message, now);
    }

    /// What was refused is asked for again at once, where it is still wanted.
    pub fn retry(&mut self) {
        self.quotas.retry();
        self.namespaces.asked.retry();
        self.groups.asked.retry();
        self.gates.asked.retry();
        self.profiles.retry();
        self.gangs.retry();
        self.jobs.retry();
    }

    /// The API server serves something, and all there is of it was listed.
    pub fn served(&mut self, subject: Subject) {
        if let Subject::Kind(kind) = subject
            && (kind.group, kind.kind) == (volcano::SCHEDULING, volcano::QUEUE)
        {
            self.quotas.queues_served();
        }
    }

    /// What is to be there, or not, because of what was seen.
    pub fn keep(&mut self, objects: &Objects, now: &Moment) -> Wanted {
        let mut wanted = Wanted::default();
        if self.settings.profiles {
            self.profiles.keep(objects, now, &mut wanted);
        }
        self.quotas.keep(objects, now, &mut wanted);
        wanted
    }

    /// What follows from what was seen: groups and pods that are to be made and deleted.
    pub fn follow(&mut self, objects: &Objects, now: &Moment) -> Wanted {
        let mut wanted = Wanted::default();
        self.gates.follow(now, &mut wanted);
        if self.settings.pod_groups {
            self.gangs.follow(&self.settings, objects, now, &mut wanted);
        }
        if self.settings.volcano_jobs {
            self.jobs.follow(&self.settings, objects, now, &mut wanted);
        }
        for key in std::mem::take(&mut self.queues_due) {
            let Some(queue) = objects.get(&key) else { continue };
            if let Some((reason, message)) = events::of_queue(queue) {
                wanted.remark(&key, queue, Remark { is_warning: true, reason, message });
            }
        }
        wanted
    }

    /// What follows from how quotas and groups stand: looked at now and then, as it changes with every pod.
    pub fn tell(&mut self, objects: &Objects, engine: &Engine, quotas: &[QuotaReport], now: &Moment) -> Wanted {
        let mut wanted = Wanted::default();
        self.groups.tell(&self.settings, objects, engine, now, &mut wanted);
        self.namespaces.tell(objects, now, &mut wanted);
        self.quotas.tell(objects, quotas, now, &mut wanted);
        self.jobs.look_again();
        wanted
    }

    /// Whether the groups of this key are ours to let into their queue.
    pub fn admits(&self, key: &ObjectKey, objects: &Objects) -> bool {
        objects.get(key).is_some_and(|group| group::is_ours(&self.settings, objects, key, group))
    }
}
