//! When it may decide and write: what was listed, what is stale, who leads.
//!
//! A *session* begins with nothing known. Without the lease it only takes in what it sees; with the lease it decides
//! and writes, as long as what it knows is current. When the lease is lost the session ends: what it decided and did
//! not write is forgotten, and the next one knows only what the objects say.
//!
//! ```text
//!                 listed              relist, refused, no answer
//!   unlisted ─────────────▶ current ────────────────────────────▶ stale      nothing is decided while a kind that
//!      │                       ▲         complete list              │        deciding depends on is unlisted or stale
//!      │ not served            └────────────────────────────────────┤
//!      └──────▶ absent ◀───────────── not served ───────────────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use quotient_api::{Configuration, is_told};
use quotient_engine::fact::PodKey;
use quotient_engine::{Budget, Tick};

use crate::objects::{SharedObjects, pods_of_kind, watched_kinds};
use crate::queue::{Failed, Feedback};
use crate::scheduler::{Happened, Now, Scheduler, Seen};
use crate::shadow::Shadow;
use crate::subject::Subject;
use crate::victims::Victims;
use crate::write::{PodRef, Slot, Write};

/// A standby that takes over touches a pending pod, and decides nothing before it has seen that ([`Session::probe`]).
/// Where none waits for this long there is nothing to decide that what the last leader wrote could spoil.
const NONE_WAITS_FOR: Duration = Duration::from_secs(10);

/// Which parts run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Decide and report, and write nothing.
    pub shadow: bool,
    /// Bind and evict.
    pub scheduler: bool,
    /// Keep labels and statuses of quotas.
    pub controllers: bool,
}

impl Default for Parts {
    fn default() -> Self {
        Parts { shadow: false, scheduler: true, controllers: true }
    }
}

/// What is known of a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Sight {
    Unlisted,
    Current,
    Stale(String),
    Absent,
}

/// Why nothing is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// Another has the lease, or the scheduler is not among the parts that run.
    NotOurs,
    Unlisted(Subject),
    Stale(Subject, String),
    /// The lease was taken over, and what the last leader wrote was not seen yet.
    TakingOver,
    /// So much waits to be written that no more is decided.
    Full,
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hold::NotOurs => f.write_str("this process does not schedule"),
            Hold::Unlisted(subject) => write!(f, "{} was not listed yet", subject.name()),
            Hold::Stale(subject, why) => write!(f, "{} is not current: {why}", subject.name()),
            Hold::TakingOver => f.write_str("what the last leader wrote was not seen yet"),
            Hold::Full => f.write_str("too many writes wait to be sent"),
        }
    }
}

/// What came of a turn.
#[derive(Debug, Default)]
pub struct Turn {
    pub writes: Vec<Write>,
    pub happened: Vec<Happened>,
    /// There is more to decide at once.
    pub more: bool,
    /// When time alone will change something next.
    pub wake_at: Option<Tick>,
    /// Why nothing was decided, if so.
    pub held: Option<Hold>,
}

/// The scheduler, with what it takes to know when it may decide.
#[derive(Debug, Clone)]
pub struct Session {
    scheduler: Scheduler,
    parts: Parts,
    job_pods: bool,
    ended_pods: bool,
    sight: BTreeMap<Subject, Sight>,
    /// The pods that are watched apart by now.
    watched_apart: BTreeSet<Subject>,
    leads: bool,
    taking_over: Option<TakingOver>,
    victims: Victims,
    shadow: Shadow,
}

/// How far it is to what the last leader wrote.
#[derive(Debug, Clone)]
enum TakingOver {
    /// A pod is to be touched; until when one may come that waits.
    Probes { until: Tick },
    /// A pod was touched, and has this version since.
    Waits { pod: PodRef, version: u64 },
}

impl Session {
    /// A session that knows nothing yet. Pods with one of these names in `spec.schedulerName` are ours, or all pods.
    pub fn new(
        configuration: &Configuration,
        names: Option<Vec<String>>,
        parts: Parts,
        objects: SharedObjects,
    ) -> Self {
        let job_pods = parts.controllers && configuration.runs_volcano_jobs;
        let ended_pods = parts.controllers && configuration.runs_pod_groups;
        let mut session = Session {
            scheduler: Scheduler::new(configuration, names, objects),
            parts,
            job_pods,
            ended_pods,
            sight: BTreeMap::new(),
            watched_apart: BTreeSet::new(),
            leads: false,
            taking_over: None,
            victims: Victims::default(),
            shadow: Shadow::default(),
        };
        let kinds: Vec<Subject> = watched_kinds().map(Subject::Kind).collect();
        // Some pods are watched apart once there is something that they are looked at for.
        let later = watched_kinds().filter_map(pods_of_kind).filter(|subject| session.looks_at(*subject));
        let subjects: Vec<Subject> = kinds.into_iter().chain(later).collect();
        session.sight.extend(subjects.into_iter().map(|subject| (subject, Sight::Unlisted)));
        session
    }

    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    pub fn scheduler_mut(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }

    /// Says until when another scheduler saw everything.
    pub fn was_watched_until(&mut self, us: i64) {
        self.scheduler.was_watched_until(us);
    }

    /// What is watched from the beginning.
    pub fn first_subjects(&self) -> impl Iterator<Item = Subject> {
        watched_kinds().map(Subject::Kind)
    }

    fn looks_at(&self, subject: Subject) -> bool {
        match subject {
            Subject::Kind(_) => true,
            Subject::JobPods => self.job_pods,
            Subject::EndedPods => self.ended_pods,
        }
    }

    /// Takes in what a watch saw. Gives what has to be watched from now on besides.
    pub fn see(&mut self, now: Now, seen: Seen) -> Option<Subject> {
        let sight = match &seen {
            Seen::Listed(subject) => Some((*subject, Sight::Current)),
            Seen::Unavailable(subject) => Some((*subject, Sight::Absent)),
            Seen::Stale(subject, why) => Some((*subject, Sight::Stale(why.clone()))),
            Seen::Object(..) | Seen::Gone(..) | Seen::Unreadable(..) => None,
        };
        self.victims.see(&seen);
        self.shadow.see(&seen);
        self.scheduler.see(now, seen);
        let (subject, sight) = sight?;
        let (is_served, is_absent) = (sight == Sight::Current, sight == Sight::Absent);
        let was_complete = self.is_complete();
        self.sight.insert(subject, sight);
        let pods = match subject {
            Subject::Kind(kind) => pods_of_kind(kind).filter(|pods| self.looks_at(*pods)),
            Subject::JobPods | Subject::EndedPods => None,
        };
        let mut watch_too = None;
        if let Some(pods) = pods {
            // Several kinds may be what the same pods are looked at for.
            let kinds = || watched_kinds().filter(|kind| pods_of_kind(kind) == Some(pods)).map(Subject::Kind);
            let nothing_to_see = || kinds().all(|kind| self.sight.get(&kind) == Some(&Sight::Absent));
            if is_absent && self.sight.get(&pods) == Some(&Sight::Unlisted) && nothing_to_see() {
                self.sight.insert(pods, Sight::Absent);
            }
            if is_served && self.watched_apart.insert(pods) {
                watch_too = Some(pods);
            }
        }
        if !was_complete && self.is_complete() {
            self.scheduler.seen_everything();
        }
        watch_too
    }

    /// Whether everything that there is was listed once.
    pub fn is_complete(&self) -> bool {
        !self.sight.values().any(|sight| *sight == Sight::Unlisted)
    }

    /// The subjects that are not current, and why.
    pub fn stale(&self) -> impl Iterator<Item = (Subject, &str)> {
        self.sight.iter().filter_map(|(subject, sight)| match sight {
            Sight::Stale(why) => Some((*subject, why.as_str())),
            _ => None,
        })
    }

    /// Whether what is known of a subject is current.
    pub fn is_current(&self, subject: Subject) -> bool {
        self.sight.get(&subject) == Some(&Sight::Current)
    }

    /// We have the lease from now on.
    pub fn lead(&mut self, now: Now) {
        if std::mem::replace(&mut self.leads, true) {
            return;
        }
        // What is listed from now on is as new as can be; what was listed before may lag behind what another wrote.
        if self.is_complete() {
            let until = Tick(now.tick.0 + NONE_WAITS_FOR.as_millis() as u64);
            self.taking_over = Some(TakingOver::Probes { until });
        }
    }

    pub fn leads(&self) -> bool {
        self.leads
    }

    /// The pod that has to be touched before anything is decided, if so; what came of it goes to [`Session::probed`].
    pub fn probe(&self) -> Option<PodRef> {
        match self.taking_over {
            Some(TakingOver::Probes { .. }) => self.scheduler.first_waiting(),
            _ => None,
        }
    }

    /// Takes in that a pod was touched, and has this version since.
    pub fn probed(&mut self, pod: PodRef, version: u64) {
        if let Some(TakingOver::Probes { .. }) = self.taking_over {
            self.taking_over = Some(TakingOver::Waits { pod, version });
        }
    }

    /// Whether everything was seen that the last leader wrote.
    fn has_taken_over(&mut self, now: Now) -> bool {
        let is_behind = match &self.taking_over {
            None => return true,
            Some(TakingOver::Probes { until }) => now.tick < *until || self.scheduler.first_waiting().is_some(),
            Some(TakingOver::Waits { pod, version }) => self.scheduler.is_waiting_before(pod, *version),
        };
        if !is_behind {
            self.taking_over = None;
        }
        !is_behind
    }

    /// Why nothing is decided now, if so.
    fn hold(&mut self, now: Now) -> Option<Hold> {
        if !self.leads {
            return Some(Hold::NotOurs);
        }
        if let Some(hold) = self.blindness(is_decisive) {
            return Some(hold);
        }
        if !self.has_taken_over(now) {
            return Some(Hold::TakingOver);
        }
        (!self.parts.scheduler).then_some(Hold::NotOurs)
    }

    /// The first subject of these that is not current.
    fn blindness(&self, concerns: impl Fn(Subject) -> bool) -> Option<Hold> {
        self.sight.iter().filter(|(subject, _)| concerns(**subject)).find_map(|(subject, sight)| match sight {
            Sight::Unlisted => Some(Hold::Unlisted(*subject)),
            Sight::Stale(why) => Some(Hold::Stale(*subject, why.clone())),
            Sight::Current | Sight::Absent => None,
        })
    }

    /// Lets controllers do what follows from what was seen, and decides, if it may. `is_full`: too much waits to be
    /// written.
    pub fn turn(&mut self, now: Now, is_full: bool, budget: Budget) -> Turn {
        let mut turn = Turn { happened: self.scheduler.take_happened(), ..Turn::default() };
        turn.held = self.hold(now).or(is_full.then_some(Hold::Full));
        if self.controls() {
            turn.writes = self.scheduler.follow(now);
        }
        if turn.held.is_none() {
            for (fact, problem) in self.victims.overdue(now.tick) {
                self.scheduler.take_fact(now, fact);
                turn.happened.push(Happened::Problem(problem));
            }
            for fact in self.shadow.overdue(now.tick) {
                self.scheduler.take_fact(now, fact);
            }
            let round = self.scheduler.decide(now, budget);
            if self.parts.shadow {
                round.writes.iter().for_each(|write| self.shadow.note(write, now.tick));
            }
            turn.writes.extend(round.writes);
            turn.happened.extend(round.happened);
            (turn.more, turn.wake_at) = (round.more, round.wake_at);
        } else if let Some(TakingOver::Probes { until }) = self.taking_over {
            turn.wake_at = Some(until);
        }
        turn.writes.retain(|write| self.is_ours(write));
        turn.writes.iter().for_each(|write| self.victims.note(write, now.tick));
        let due = self.victims.next_due().into_iter().chain(self.shadow.next_due());
        turn.wake_at = turn.wake_at.into_iter().chain(due).min();
        turn
    }

    /// Takes in that something which was decided, or asked for by a controller, did not happen.
    pub fn take_feedback(&mut self, now: Now, feedback: Feedback) {
        if let Failed::Decision(fact) = &feedback.failed {
            self.victims.failed(fact);
        }
        self.scheduler.take_feedback(now, feedback);
    }

    /// What is to be written so that objects say how things stand; looked at now and then.
    pub fn tell(&mut self, now: Now) -> Vec<Write> {
        if self.is_complete() {
            self.scheduler.patrol();
        }
        if !self.controls() {
            return Vec::new();
        }
        let quotas = self.scheduler.engine().quotas();
        let mut writes = self.scheduler.keep(now);
        writes.extend(self.scheduler.tell_standing(now, &quotas));
        writes.retain(|write| self.is_ours(write));
        writes
    }

    /// Whether controllers may do something now: what they make and delete depends on everything they watch.
    fn controls(&self) -> bool {
        let has_begun = self.taking_over.is_none();
        self.leads && self.parts.controllers && has_begun && self.blindness(|_| true).is_none()
    }

    /// Whether a write is one of those that we are to do.
    pub fn is_ours(&self, write: &Write) -> bool {
        let is_schedulers = matches!(write, Write::Deallocate { .. });
        let is_controllers =
            !is_schedulers && matches!(write.slot(), Slot::Label(_) | Slot::Amend(_) | Slot::Make(_) | Slot::Delete(_));
        !self.parts.shadow && (self.parts.controllers || !is_controllers)
    }

    /// Pods that are gone since this was last asked: what was to be written for them is not.
    pub fn take_gone(&mut self) -> BTreeSet<PodKey> {
        self.scheduler.take_gone()
    }
}

/// Whether decisions depend on a subject, and not only what controllers make.
fn is_decisive(subject: Subject) -> bool {
    match subject {
        Subject::Kind(kind) => is_told(kind),
        Subject::JobPods | Subject::EndedPods => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quotient_api::kinds;
    use serde_json::{Value, json};

    fn kind(name: &str) -> Subject {
        Subject::Kind(kinds::find("", name).expect("it is known"))
    }

    fn at(tick: u64) -> Now {
        Now { tick: Tick(tick), wall_us: 0 }
    }

    fn pod(version: &str) -> Value {
        json!({"metadata": {"name": "p", "namespace": "a", "uid": "1", "resourceVersion": version},
            "spec": {"schedulerName": "quotient", "containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}})
    }

    /// A session that has listed a node and a pod.
    fn session() -> Session {
        let names = Some(vec!["quotient".to_string()]);
        let mut session = Session::new(&Configuration::default(), names, Parts::default(), SharedObjects::default());
        let node = json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1", "pods": "9"}}});
        session.see(at(0), Seen::Object(kind("Node"), node));
        session.see(at(0), Seen::Object(kind("Pod"), pod("5")));
        for subject in session.first_subjects().collect::<Vec<_>>() {
            assert_ne!(held(&mut session, 0), None, "{} was not listed", subject.name());
            let also = session.see(at(0), Seen::Listed(subject));
            also.into_iter().for_each(|subject| assert_eq!(session.see(at(0), Seen::Listed(subject)), None));
        }
        assert!(session.is_complete());
        session
    }

    fn held(session: &mut Session, tick: u64) -> Option<Hold> {
        session.turn(at(tick), false, Budget::default()).held
    }

    #[test]
    fn nothing_is_decided_while_a_kind_that_decisions_depend_on_is_stale() {
        let mut session = session();
        session.leads = true;
        session.see(at(1), Seen::Stale(kind("Node"), "forbidden".to_string()));
        let turn = session.turn(at(1), false, Budget::default());
        assert_eq!(turn.held, Some(Hold::Stale(kind("Node"), "forbidden".to_string())));
        assert_eq!(turn.writes, []);
        session.see(at(2), Seen::Listed(kind("Node")));
        let turn = session.turn(at(2), false, Budget::default());
        assert!(matches!(turn.writes[..], [Write::Bind { .. }]), "{turn:?}");
        // Only what makes pods is stale: decisions go on.
        let jobs = Subject::Kind(kinds::find("batch", "Job").expect("it is known"));
        session.see(at(3), Seen::Stale(jobs, "listed again".to_string()));
        assert_eq!(held(&mut session, 3), None);
        assert!(session.tell(at(3)).is_empty(), "controllers wait");
    }

    #[test]
    fn a_standby_that_takes_over_waits_until_it_has_seen_a_pod_that_it_touched() {
        let mut session = session();
        assert_eq!(held(&mut session, 0), Some(Hold::NotOurs));
        session.lead(at(0));
        assert_eq!(held(&mut session, 60_000), Some(Hold::TakingOver), "a pod waits, and was not touched");
        let probe = session.probe().expect("there is one to touch");
        assert_eq!(probe.key.to_string(), "a/p");
        session.probed(probe, 9);
        assert_eq!((session.probe(), held(&mut session, 1)), (None, Some(Hold::TakingOver)));
        session.see(at(2), Seen::Object(kind("Pod"), pod("8")));
        assert_eq!(held(&mut session, 2), Some(Hold::TakingOver), "this was before");
        session.see(at(3), Seen::Object(kind("Pod"), pod("9")));
        assert_eq!(held(&mut session, 3), None);
    }

    #[test]
    fn a_standby_that_takes_over_where_no_pod_waits_decides_after_a_while() {
        let mut session = session();
        session.see(at(0), Seen::Gone(kind("Pod"), quotient_api::ObjectKey::pod("a", "p")));
        session.lead(at(0));
        assert_eq!((session.probe(), held(&mut session, 9_999)), (None, Some(Hold::TakingOver)));
        assert_eq!(held(&mut session, 10_000), None);
    }
}
