//! Jobs of several tasks: carries out what their plan says.
//!
//! A plan is worked out from the objects as they were seen. What it asks for is seen a moment later, and until then the
//! same objects would give the same plan again, or half of it: so a job is not looked at again before everything that
//! was asked for has been seen, was refused, or should have been seen for long. Pods have names that follow from
//! their job, task and index, so that none can be made twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quotient_api::volcano::command::JobCommand;
use quotient_api::volcano::job::{JobState, Made, Plan, group_name, plan};
use quotient_api::volcano::{POD_GROUP, is_job};
use quotient_api::{ObjectKey, View, key_of};
use quotient_engine::Tick;
use quotient_engine::fact::Name;
use serde_json::{Value, json};

use super::{Moment, Settings, Wanted, uid_of};
use crate::event::Remark;
use crate::objects::{Objects, is_made_by};
use crate::patch::difference;
use crate::write::{Amendment, Slot, Write};

/// What was asked for should have been seen after this; the plan is worked out anew then, which does no harm.
const SEEN_AFTER_MS: u64 = 10_000;

/// The pauses after something was refused, in milliseconds: the first, and the longest.
const PAUSE_MIN_MS: u64 = 1_000;
const PAUSE_MAX_MS: u64 = 60_000;

/// The jobs that have to be looked at, and what is known of them beside the objects.
#[derive(Debug, Clone, Default)]
pub struct Jobs {
    due: BTreeSet<ObjectKey>,
    /// Those that wait for what was asked for, or for time to pass.
    waiting: BTreeSet<ObjectKey>,
    books: BTreeMap<ObjectKey, Book>,
    /// The uids of pods that were deleted on behalf of a job, until they are gone.
    deleted: BTreeSet<Name>,
    /// Whose pods and groups were asked for, for what is refused.
    asked_by: BTreeMap<Slot, ObjectKey>,
}

/// What is known of a job beside the objects.
#[derive(Debug, Clone, Default)]
struct Book {
    /// Pods of it that went by themselves, until the job says what follows from that.
    gone: Vec<Value>,
    expected: Option<Expected>,
    refusals: u32,
    /// Not before this.
    again_at: Option<Tick>,
    /// What was refused last and was not told yet.
    untold: Option<String>,
    /// Something that its pods need was refused, so that all of it is made again.
    lacks: bool,
    /// The pods to which something happened that a policy waits for a while to act upon, and since when that is known.
    awaited: BTreeMap<String, Tick>,
}

impl Book {
    /// Forgets the pods that went, but for those that are waited for.
    fn forget_gone(&mut self) {
        let Book { gone, awaited, .. } = self;
        gone.retain(|pod| awaited.contains_key(&*uid_of(pod)));
    }
}

/// What was asked for and was not seen yet.
#[derive(Debug, Clone)]
struct Expected {
    /// The job's status, where it changes, and whether that decides what happens next.
    status: Option<Value>,
    is_decisive: bool,
    made: Vec<ObjectKey>,
    deleted: Vec<(ObjectKey, Name)>,
    slots: Vec<Slot>,
    until: Tick,
}

/// What of a job's status decides what happens next: phase, version, and how often it was tried.
fn standing(status: Option<&Value>) -> [Value; 3] {
    let at = |pointer: &str| status.and_then(|status| status.pointer(pointer)).cloned().unwrap_or_default();
    [at("/state/phase"), at("/version"), at("/retryCount")]
}

impl Expected {
    /// Whether everything was seen. Pods are made in this order: the last one is looked for first, so that a job of
    /// thousands is not gone through for each of them.
    fn is_seen(&mut self, job: &Value, objects: &Objects) -> bool {
        let find = |key: &ObjectKey| objects.job_pod(key).or_else(|| objects.get(key));
        let is_made = |key: &ObjectKey| find(key).is_some_and(|object| is_made_by(object, job));
        let is_deleted = |(key, uid): &(ObjectKey, Name)| {
            find(key).is_none_or(|object| uid_of(object) != *uid || is_leaving(object))
        };
        let says_so = self.status.is_none() || difference(job.get("status"), self.status.as_ref()).is_none();
        while self.made.pop_if(|key| is_made(key)).is_some() {}
        says_so && self.made.is_empty() && self.deleted.iter().all(is_deleted)
    }
}

impl Jobs {
    /// A job has to be looked at.
    pub fn due(&mut self, job: ObjectKey) {
        self.due.insert(job);
    }

    /// A job is gone.
    pub fn gone(&mut self, key: &ObjectKey) {
        self.due.remove(key);
        self.waiting.remove(key);
        self.books.remove(key);
        self.asked_by.retain(|_, job| job != key);
    }

    /// Those that wait are looked at again: nobody says when time has passed.
    pub fn look_again(&mut self) {
        self.due.append(&mut self.waiting);
    }

    /// What was refused is asked for again at once.
    pub fn retry(&mut self) {
        self.books.values_mut().for_each(|book| book.again_at = None);
        self.look_again();
    }

    /// A group was seen; its job, where that is known.
    pub fn group_seen(&mut self, key: &ObjectKey, job: Option<ObjectKey>) {
        let asked_by = self.asked_by.get(&Slot::Make(key.clone())).cloned();
        self.due.extend(job.filter(is_job).or(asked_by));
    }

    /// A group is gone.
    pub fn group_gone(&mut self, key: &ObjectKey) {
        // The name of a group is that of its job and its uid.
        let is_its = |job: &&ObjectKey| {
            job.namespace == key.namespace
                && key.name.strip_prefix(&*job.name).is_some_and(|rest| rest.starts_with('-'))
        };
        self.due.extend(self.books.keys().filter(is_its).cloned().collect::<Vec<_>>());
    }

    /// A pod of a job is gone.
    pub fn pod_gone(&mut self, job: ObjectKey, pod: Value, objects: &Objects) {
        let was_deleted = self.deleted.remove(&uid_of(&pod));
        let is_its_own = objects.get(&job).is_some_and(|job| is_made_by(&pod, job));
        if !was_deleted && is_its_own {
            self.books.entry(job.clone()).or_default().gone.push(pod);
        }
        if objects.get(&job).is_some() {
            self.due.insert(job);
        }
    }

    /// Something was refused: the job it was for waits a while and says so.
    pub fn refused(&mut self, slot: &Slot, message: &str, now: Tick) {
        let Some(job) = self.asked_by.get(slot).cloned() else { return };
        let book = self.books.entry(job.clone()).or_default();
        book.expected = None;
        book.again_at = Some(Tick(now.0 + (PAUSE_MIN_MS << book.refusals.min(6)).min(PAUSE_MAX_MS)));
        book.refusals += 1;
        if let Slot::Make(key) = slot {
            book.untold = Some(message.to_string());
            // Of these it is not seen whether they are there.
            book.lacks |= key.kind != "Pod" && key.kind != POD_GROUP;
        }
        self.due.insert(job);
    }

    /// What is to be done for jobs that have to be looked at.
    pub fn follow(&mut self, settings: &Settings, objects: &Objects, now: &Moment, wanted: &mut Wanted) {
        // Without all of its pods a job would be taken to have lost them.
        if !objects.knows_job_pods() {
            return;
        }
        for key in std::mem::take(&mut self.due) {
            let job = objects.get(&key).filter(|job| settings.is_our_job(job) && !is_leaving(job));
            match job {
                Some(job) => self.look(settings, objects, &key, job, now, wanted),
                None => {
                    self.books.remove(&key);
                }
            }
        }
    }

    fn look(
        &mut self,
        settings: &Settings,
        objects: &Objects,
        key: &ObjectKey,
        job: &Value,
        now: &Moment,
        wanted: &mut Wanted,
    ) {
        let book = self.books.entry(key.clone()).or_default();
        if let Some(message) = book.untold.take() {
            wanted.remark(key, job, Remark { is_warning: true, reason: "FailedCreate", message });
        }
        if let Some(expected) = &mut book.expected {
            let is_seen = expected.is_seen(job, objects);
            if !is_seen && now.tick < expected.until {
                self.waiting.insert(key.clone());
                return;
            }
            // What follows from those that went is written.
            let (is_decisive, slots) = (expected.is_decisive && is_seen, expected.slots.clone());
            if is_decisive {
                book.gone.clear();
            }
            book.refusals = 0;
            for slot in &slots {
                self.asked_by.remove(slot);
            }
            book.expected = None;
        }
        if book.again_at.is_some_and(|again_at| now.tick < again_at) {
            self.waiting.insert(key.clone());
            return;
        }
        book.again_at = None;
        let group_key = ObjectKey::pod_group(key.namespace.as_deref().unwrap_or_default(), &group_name(job));
        let group = objects.get(&group_key);
        let (pods, gone) = (objects.pods_of_job(key, job), book.gone.iter().collect::<Vec<_>>());
        let known_for = |uid: &str| {
            let since = book.awaited.get(uid).map_or(now.tick.0, |since| since.0);
            Duration::from_millis(now.tick.0.saturating_sub(since))
        };
        let order = objects.commands_about(key, job).next();
        let command = order.and_then(|(_, command)| JobCommand::of(command));
        let lacks = std::mem::take(&mut book.lacks);
        let state = JobState { job, group, pods: &pods, gone: &gone, known_for: &known_for, command, lacks };
        let planned = plan(&state, objects, &now.text);
        let Plan { delete, delete_group, make_group, group_spec, belongings, make, status, events, .. } = planned;
        let Plan { delete_job, expires, awaited, .. } = planned;
        let since = |uid: &String| book.awaited.get(uid).copied().unwrap_or(now.tick);
        let awaited: BTreeMap<String, Tick> = awaited.into_iter().map(|uid| (uid.clone(), since(&uid))).collect();
        if expires || !awaited.is_empty() {
            self.waiting.insert(key.clone()); // Time alone decides.
        }
        book.awaited = awaited;
        let mut writes = Vec::new();
        let (mut made, mut deleted) = (Vec::new(), Vec::new());
        let pod_uid = |pod: &ObjectKey| objects.job_pod(pod).map(uid_of);
        self.deleted.extend(delete.iter().filter_map(pod_uid));
        deleted.extend(delete.into_iter().filter_map(|pod| Some((pod.clone(), pod_uid(&pod)?))));
        deleted.extend(delete_group.zip(group.filter(|group| !is_leaving(group)).map(uid_of)));
        deleted.extend(order.map(|(key, command)| (key.clone(), uid_of(command))));
        writes.extend(
            deleted.iter().map(|(object, uid)| Write::Delete { object: object.clone(), uid: Some(uid.clone()) }),
        );
        writes.extend(belongings.into_iter().filter_map(|made| belonging(job, made)));
        for mut object in make_group.into_iter().chain(make) {
            object["metadata"]["ownerReferences"] = json!([made_by(job)]);
            // A pod that leaves the choice to us must not be left to another scheduler.
            let is_open = object.pointer("/spec/schedulerName").is_none_or(Value::is_null);
            if object["kind"] == "Pod"
                && is_open
                && let Some(name) = settings.scheduler_names.as_ref().and_then(|names| names.first())
            {
                object["spec"]["schedulerName"] = json!(name);
            }
            if let Ok(key) = key_of(&object) {
                made.push(key.clone());
                writes.push(Write::Make { key, object });
            }
        }
        if let (Some(group), Some(spec)) = (group, group_spec) {
            let mut renewed = group.clone();
            renewed["spec"] = spec;
            writes.extend(Amendment::between(&group_key, group, &renewed).map(Write::Amend));
        }
        if delete_job {
            writes.push(Write::Delete { object: key.clone(), uid: Some(uid_of(job)) });
        }
        let is_decisive = status.as_ref().is_some_and(|new| standing(Some(new)) != standing(job.get("status")));
        if let Some(status) = &status {
            let mut told = job.clone();
            told["status"] = status.clone();
            writes.extend(Amendment::between(key, job, &told).map(Write::Amend));
        }
        for (reason, message) in events {
            wanted.remark(key, job, Remark { is_warning: false, reason, message });
        }
        let slots: Vec<Slot> = writes.iter().map(Write::slot).collect();
        self.asked_by.extend(slots.iter().map(|slot| (slot.clone(), key.clone())));
        let Some(book) = self.books.get_mut(key) else { return };
        if !is_decisive {
            // Nothing follows from those that went, but that others are made.
            book.forget_gone();
        }
        if !writes.is_empty() {
            let until = Tick(now.tick.0 + SEEN_AFTER_MS);
            book.expected = Some(Expected { status, is_decisive, made, deleted, slots, until });
            self.waiting.insert(key.clone());
        }
        wanted.writes.extend(writes);
    }
}

fn is_leaving(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null())
}

/// The write that makes something that a job needs.
fn belonging(job: &Value, mut made: Made) -> Option<Write> {
    let object = made.object_mut();
    object["metadata"]["ownerReferences"] = json!([made_by(job)]);
    let key = key_of(object).ok()?;
    Some(match made {
        Made::Once(object) => Write::Make { key, object },
        Made::WithKeys(object) => Write::MakeWithKeys { key, object },
        Made::Current(object) => Write::Renew { key, object },
    })
}

/// The reference to the job in what it makes.
fn made_by(job: &Value) -> Value {
    json!({
        "apiVersion": job["apiVersion"], "kind": job["kind"], "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    })
}

#[cfg(test)]
mod tests;
