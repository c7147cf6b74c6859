//! What is seen goes in, what is to be written comes out. No network, no clock: time is an argument.

mod decided;
mod reasons;
mod record;
mod seen;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quotient_api::volcano::metrics::{self, Sample, samples};
use quotient_api::volcano::{GROUP_NAMES, QUEUE, SCHEDULING};
use quotient_api::{Configuration, ObjectKey, Problem, Translation, Translator, View, gangs, key_of};
use quotient_engine::fact::{GroupKey, Name, PodKey};
use quotient_engine::{Budget, Code, Engine, EvictionReason, Fact, QuotaReport, Tick};
use serde_json::{Value, json};

use crate::controllers::{Controllers, Moment, Wanted};
use crate::event::{EventBook, Remark, whole_seconds};
use crate::objects::{Arrival, News, Objects, SharedObjects, controller_of};
use crate::patrol::Patrol;
use crate::queue::{Failed, Feedback};
use crate::subject::Subject;
use crate::write::{PodRef, Write};

pub use seen::Seen;
use waiting::Waiting;

/// Now, by both clocks.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Milliseconds that only ever grow, for what is waited for.
    pub tick: Tick,
    /// Microseconds since the Unix epoch, for what is written down.
    pub wall_us: i64,
}

/// Something that happened, to be counted and logged.
#[derive(Debug, Clone, PartialEq)]
pub enum Happened {
    Bound { pod: PodKey, node: Name },
    Evicted { pod: PodKey, node: Name, claimant: Option<PodKey>, reason: Arc<EvictionReason>, message: String },
    Held { pod: PodKey, code: Code, message: String },
    Nominated { pod: PodKey, node: Option<Name> },
    Problem(Problem),
}

/// What came of a cycle.
#[derive(Debug, Default)]
pub struct Round {
    pub writes: Vec<Write>,
    pub happened: Vec<Happened>,
    /// There is more to decide at once.
    pub more: bool,
    /// When time alone will change something next.
    pub wake_at: Option<Tick>,
}

/// The engine with what it takes to tell it of objects, and to write what it decides.
#[derive(Debug)]
pub struct Scheduler {
    translator: Translator,
    engine: Engine,
    /// The objects that others look at too.
    objects: SharedObjects,
    /// What was seen so far, until everything was: until then others look at what was there before.
    beginning: Option<Box<Objects>>,
    controllers: Controllers,
    patrol: Patrol,
    events: EventBook,
    /// What is wrong with each object, so that it is said once and not with every change.
    problems: BTreeMap<ObjectKey, Vec<Problem>>,
    /// What controllers found wrong with each object.
    found: BTreeMap<ObjectKey, Vec<Problem>>,
    waiting: BTreeMap<PodKey, Waiting>,
    /// When something is to be said of pods whose numbers changed.
    unsaid: BTreeSet<(Tick, PodKey)>,
    /// Pods whose record is not that of their bind, with their uid and the record that they are to have.
    unrecorded: BTreeMap<PodKey, (Name, Box<str>)>,
    /// Pods that are gone since this was last asked.
    gone: BTreeSet<PodKey>,
    happened: Vec<Happened>,
    /// The names of our schedulers; `None`: all are.
    names: Option<Vec<String>>,
    /// Until when a scheduler is known to have seen everything before this one.
    watched_until_us: Option<i64>,
    /// It decided once: pods that it sees for the first time from now on are new.
    has_decided: bool,
}

/// A clone goes its own way, with objects of its own: it is how to ask what would happen if.
impl Clone for Scheduler {
    fn clone(&self) -> Self {
        Scheduler {
            translator: self.translator.clone(),
            engine: self.engine.clone(),
            objects: self.objects.fork(),
            beginning: self.beginning.clone(),
            controllers: self.controllers.clone(),
            patrol: self.patrol.clone(),
            events: self.events.clone(),
            problems: self.problems.clone(),
            found: self.found.clone(),
            waiting: self.waiting.clone(),
            unsaid: self.unsaid.clone(),
            unrecorded: self.unrecorded.clone(),
            gone: self.gone.clone(),
            happened: self.happened.clone(),
            names: self.names.clone(),
            watched_until_us: self.watched_until_us,
            has_decided: self.has_decided,
        }
    }
}

impl Scheduler {
    /// A scheduler that knows nothing yet. Pods with one of these names in `spec.schedulerName` are its own; `None`:
    /// every pod is. `objects` are replaced by what it sees when it has seen everything.
    pub fn new(configuration: &Configuration, names: Option<Vec<String>>, objects: SharedObjects) -> Self {
        Scheduler {
            translator: Translator::new(configuration.translator_settings(names.clone())),
            engine: Engine::new(configuration.engine_settings()),
            objects,
            beginning: Some(Box::new(Objects::new(configuration))),
            controllers: Controllers::new(configuration, names.clone()),
            patrol: Patrol::default(),
            events: EventBook::default(),
            problems: BTreeMap::new(),
            found: BTreeMap::new(),
            waiting: BTreeMap::new(),
            unsaid: BTreeSet::new(),
            unrecorded: BTreeMap::new(),
            gone: BTreeSet::new(),
            happened: Vec::new(),
            names,
            watched_until_us: None,
            has_decided: false,
        }
    }

    /// Says until when another scheduler saw everything: what it left without a record had no ties.
    pub fn was_watched_until(&mut self, us: i64) {
        self.watched_until_us = Some(us);
    }

    /// The engine as it is.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Whether reasons leave out which node comes closest to having room.
    pub fn be_brief(&mut self, brief: bool) {
        self.engine.be_brief(brief);
    }

    /// The figures of queues by card.
    pub fn card_samples(&self, quotas: &[QuotaReport]) -> Vec<Sample> {
        let is_queue = |report: &QuotaReport| *report.key.kind == *QUEUE && *report.key.group == *SCHEDULING;
        // Nodes are many, and most clusters have no queues.
        if !quotas.iter().any(is_queue) {
            return Vec::new();
        }
        let objects = self.objects.read();
        let waiting = self.waiting.keys().filter_map(|pod| {
            let object = objects.get(&ObjectKey::pod(&pod.namespace, &pod.name))?;
            let queue = self.engine.quotas_of(pod).into_iter().find(|key| *key.group == *SCHEDULING)?;
            metrics::Waiting::of_pod(object, &queue.name, &self.engine.requests(pod))
        });
        samples(quotas, &self.engine.nodes(), &waiting.collect::<Vec<_>>())
    }

    /// How many pods wait, and for which reasons; `None` is for those that were not looked at yet.
    pub fn waiting(&self) -> BTreeMap<Option<Code>, usize> {
        let mut counts = BTreeMap::new();
        for waiting in self.waiting.values() {
            *counts.entry(waiting.held).or_default() += 1;
        }
        counts
    }

    /// Whether a pod waits for a node, as far as was seen.
    pub fn waits(&self, pod: &PodKey) -> bool {
        self.waiting.contains_key(pod)
    }

    /// The first of the pods that wait.
    pub fn first_waiting(&self) -> Option<PodRef> {
        self.waiting.iter().next().map(|(pod, waiting)| PodRef { key: pod.clone(), uid: waiting.uid.clone() })
    }

    /// Whether this very pod waits, as far as was seen, and was seen before that version only.
    pub fn is_waiting_before(&self, pod: &PodRef, version: u64) -> bool {
        self.waiting.get(&pod.key).is_some_and(|waiting| waiting.uid == pod.uid && waiting.version < version)
    }

    /// Pods that are gone since this was last asked.
    pub fn take_gone(&mut self) -> BTreeSet<PodKey> {
        std::mem::take(&mut self.gone)
    }

    /// Takes in what a watch saw.
    pub fn see(&mut self, now: Now, seen: Seen) {
        match seen {
            Seen::Object(subject, mut object) => {
                let kind = subject.kind();
                // Objects of a list do not say what they are.
                if let Value::Object(fields) = &mut object {
                    fields.entry("kind").or_insert_with(|| json!(kind.kind));
                    fields.entry("apiVersion").or_insert_with(|| json!(kind.api_version()));
                }
                self.see_whole(now, subject, Arrival::Own(object));
            }
            Seen::Gone(Subject::Kind(_), key) => {
                let translation = self.translator.remove(&key);
                self.keep_objects(|objects| objects.gone(&key));
                self.control(|controllers, objects| controllers.gone(&key, objects));
                self.tell(now, &key, translation);
                self.problems.remove(&key);
            }
            Seen::Gone(Subject::JobPods, key) => {
                if let Some((job, pod)) = self.keep_objects(|objects| objects.job_pod_gone(&key)) {
                    self.control(|controllers, objects| controllers.job_pod_gone(job, pod, objects));
                }
            }
            Seen::Gone(Subject::EndedPods, key) => {
                let group = self.keep_objects(|objects| objects.ended_gone(&key));
                self.tell_succeeded(now, group);
            }
            Seen::Listed(subject) => {
                self.tell_groups_served(now, subject, true);
                self.keep_objects(|objects| objects.serves(subject, true));
                self.controllers.served(subject);
            }
            Seen::Unreadable(Subject::Kind(_), key, why) => {
                let message = format!("cannot be read ({why}): what was known of it before counts");
                self.note_problems(&key, vec![Problem::new(message).of_object(&key)]);
            }
            // It is one of its kind too. What is known stays known.
            Seen::Unreadable(Subject::JobPods | Subject::EndedPods, ..) | Seen::Stale(..) => {}
            Seen::Unavailable(subject) => {
                self.tell_groups_served(now, subject, false);
                self.keep_objects(|objects| objects.serves(subject, false));
            }
        }
    }

    /// Takes in an object that says what it is.
    pub fn see_whole(&mut self, now: Now, subject: Subject, object: Arrival<'_>) {
        match (subject, key_of(&object)) {
            (subject, Ok(key)) => self.see_keyed(now, subject, &key, object),
            (Subject::Kind(_), Err(problem)) => self.happened.push(Happened::Problem(problem)),
            // It was seen as one of its kind too, and complained of there.
            (Subject::JobPods | Subject::EndedPods, Err(_)) => {}
        }
    }

    /// Takes in an object of which the key is known.
    pub fn see_keyed(&mut self, now: Now, subject: Subject, key: &ObjectKey, object: Arrival<'_>) {
        match subject {
            Subject::Kind(_) => self.see_object(now, key, object),
            Subject::JobPods => {
                self.keep_objects(|objects| objects.job_pod_seen(key, &object));
                if let Some(job) = controller_of(&object) {
                    self.control(|controllers, objects| controllers.job_pod_seen(job, objects));
                }
            }
            Subject::EndedPods => {
                let group = self.keep_objects(|objects| objects.ended_seen(key, &object));
                self.tell_succeeded(now, group);
            }
        }
    }

    /// Tells the engine whether groups are served whose members count when they succeeded, those of others than
    /// Volcano: where they are not, pods need not wait for theirs.
    fn tell_groups_served(&mut self, now: Now, subject: Subject, served: bool) {
        if let Subject::Kind(kind) = subject
            && kind.kind == gangs::POD_GROUP
            && kind.group != SCHEDULING
            && gangs::source_of(kind.group).is_some()
        {
            self.engine.observe(now.tick, Fact::GroupsServed { api_group: kind.group.into(), served });
        }
    }

    /// Tells the engine how many pods of a group have succeeded: they count as there.
    fn tell_succeeded(&mut self, now: Now, group: Option<ObjectKey>) {
        let Some(group) = group else { return };
        let count = self.keep_objects(|objects| objects.succeeded_of(&group));
        let namespace = group.namespace.unwrap_or_default();
        let key = GroupKey { api_group: group.group.into(), namespace, name: group.name };
        self.engine.observe(now.tick, Fact::GroupSucceeded(key, count));
    }

    fn see_object(&mut self, now: Now, key: &ObjectKey, mut object: Arrival<'_>) {
        let News { is_news, joined } = self.keep_objects(|objects| object.keep_in(objects, key));
        let group = self.control(|controllers, objects| {
            if is_news {
                controllers.seen(key, &object, objects);
            }
            controllers.group_of(key, &object, objects)
        });
        if let Some(group) = group {
            // The engine knows at once what the pod is told in a moment: it must not be placed alone meanwhile.
            object.to_mut()["metadata"]["annotations"][GROUP_NAMES[0]] = json!(group);
        }
        self.keep_ties(key, &mut object);
        let translation = self.translator.upsert_as(key, &object);
        self.tell(now, key, translation);
        self.note_shown(key, &object);
        for pod in joined {
            if let Ok(key) = key_of(&pod) {
                self.see_object(now, &key, Arrival::Own(pod));
            }
        }
    }

    /// Takes in that everything was seen that there is.
    pub fn seen_everything(&mut self) {
        if let Some(mut objects) = self.beginning.take() {
            objects.complete();
            *self.objects.write() = *objects;
        }
    }

    fn keep_objects<T>(&mut self, change: impl FnOnce(&mut Objects) -> T) -> T {
        match &mut self.beginning {
            Some(objects) => change(objects),
            None => change(&mut self.objects.write()),
        }
    }

    fn control<T>(&mut self, see: impl FnOnce(&mut Controllers, &Objects) -> T) -> T {
        match &self.beginning {
            Some(objects) => see(&mut self.controllers, objects),
            None => see(&mut self.controllers, &self.objects.read()),
        }
    }

    fn tell(&mut self, now: Now, key: &ObjectKey, translation: Translation) {
        let Translation { facts, problems, elsewhere } = translation;
        for fact in facts {
            self.note_waiting(&fact);
            self.engine.observe(now.tick, fact);
        }
        self.note_problems(key, problems);
        for (key, problems) in elsewhere {
            self.note_problems(&key, problems);
        }
    }

    /// Takes in that something which was decided, or asked for by a controller, did not happen.
    pub fn take_feedback(&mut self, now: Now, feedback: Feedback) {
        match feedback.failed {
            Failed::Decision(fact) => self.take_fact(now, *fact),
            Failed::Asked(slot) => self.controllers.refused(&slot, &feedback.message, now.tick),
        }
    }

    /// Takes in a fact that no object tells of.
    pub fn take_fact(&mut self, now: Now, fact: Fact) {
        if let Fact::BindFailed { pod, .. } = &fact
            && let Some(waiting) = self.waiting.get_mut(pod)
        {
            waiting.bound_as = None;
        }
        self.engine.observe(now.tick, fact);
    }

    fn note_problems(&mut self, key: &ObjectKey, problems: Vec<Problem>) {
        note_problems(&mut self.problems, &mut self.happened, key, problems);
    }

    /// Decides, and says what is to be written.
    pub fn decide(&mut self, now: Now, budget: Budget) -> Round {
        let decisions = self.engine.decide(now.tick, budget);
        self.has_decided = true;
        let mut round = Round { more: decisions.more, wake_at: decisions.wake_at, ..Round::default() };
        for pod in decisions.endless {
            let message = "reserved room and gave it up without end in one scheduling cycle, and is left out of the \
                           rest of it: report this, it is a defect of Quotient";
            let problem = Problem::new(message).of_object(ObjectKey::pod(&pod.namespace, &pod.name));
            round.happened.push(Happened::Problem(problem));
        }
        for decision in decisions.list {
            self.write(now, decision, &mut round);
        }
        self.say_words(now, &mut round);
        self.say_numbers(now, &mut round);
        self.write_records(&mut round);
        round.happened.append(&mut self.happened);
        round
    }

    /// Looks at a few of the quotas as admission would have, for what got in while nobody was asked.
    pub fn patrol(&mut self) {
        let found = self
            .patrol
            .look(&self.objects.read(), |key| self.problems.contains_key(key) || self.found.contains_key(key));
        self.happened.extend(found.into_iter().map(Happened::Problem));
    }

    /// All that is wrong with objects now.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.problems.values().chain(self.found.values()).flatten()
    }

    /// What happened without a decision.
    pub fn take_happened(&mut self) -> Vec<Happened> {
        std::mem::take(&mut self.happened)
    }

    /// What was refused is asked for again at once, where it is still wanted.
    pub fn retry(&mut self) {
        self.controllers.retry();
    }

    /// What controllers want to be made or deleted because of what was seen: groups, and the pods of jobs.
    pub fn follow(&mut self, now: Now) -> Vec<Write> {
        let wanted = self.controllers.follow(&self.objects.read(), &moment(now));
        self.take_wanted(now, wanted)
    }

    /// What controllers want to be there or not: roots of trees, queues that always exist, quotas that others replace.
    /// Looked at now and then, and only where something changed.
    pub fn keep(&mut self, now: Now) -> Vec<Write> {
        let wanted = self.controllers.keep(&self.objects.read(), &moment(now));
        self.take_wanted(now, wanted)
    }

    /// What controllers want to be written so that objects say how things stand.
    pub fn tell_standing(&mut self, now: Now, quotas: &[QuotaReport]) -> Vec<Write> {
        let wanted = self.controllers.tell(&self.objects.read(), &self.engine, quotas, &moment(now));
        self.take_wanted(now, wanted)
    }

    fn take_wanted(&mut self, now: Now, wanted: Wanted) -> Vec<Write> {
        let Wanted { mut writes, remarks, problems } = wanted;
        for (about, uid, remark) in remarks {
            writes.extend(self.events.note(about, &uid, remark, now.wall_us).map(Write::Event));
        }
        for (key, found) in problems {
            note_problems(&mut self.found, &mut self.happened, &key, found);
        }
        writes
    }

    fn event(&mut self, now: Now, pod: &PodKey, uid: &Name, remark: Remark) -> Option<Write> {
        let about = ObjectKey::pod(&pod.namespace, &pod.name);
        self.events.note(about, uid, remark, now.wall_us).map(Write::Event)
    }

    /// The event that says that a pod was bound; it is said when it is so.
    pub fn bound_event(&mut self, now: Now, pod: &PodRef, node: &Name) -> Option<Write> {
        let message = format!("Successfully assigned {} to {node}", pod.key);
        self.event(now, &pod.key, &pod.uid, Remark { is_warning: false, reason: "Scheduled", message })
    }
}

fn moment(now: Now) -> Moment {
    Moment { tick: now.tick, text: whole_seconds(now.wall_us) }
}

/// Keeps what is wrong with an object; what was said of it before is not said again.
fn note_problems(
    known: &mut BTreeMap<ObjectKey, Vec<Problem>>,
    happened: &mut Vec<Happened>,
    key: &ObjectKey,
    problems: Vec<Problem>,
) {
    let before = known.remove(key).unwrap_or_default();
    happened.extend(problems.iter().filter(|problem| !before.contains(problem)).cloned().map(Happened::Problem));
    if !problems.is_empty() {
        known.insert(key.clone(), problems);
    }
}

#[cfg(test)]
mod tests;
