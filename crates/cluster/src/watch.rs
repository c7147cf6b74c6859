//! One watch for each subject: what there is, then what changes, for ever.
//!
//! After a gap (the server forgot the version we were at) everything is listed again; what was known and is not in the
//! complete list is gone. A server that does not answer, or that refuses, makes no object gone: what was known stays
//! known. While it is listed again it is stale, and so is what may not be read; see [`quotient_host::watched`]. Only a
//! kind that discovery says is not served has no objects.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use kube::Client;
use quotient_api::field;
use quotient_host::watched::{Event, Watched};
use quotient_host::{Seen, Subject};
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use tokio::sync::watch::Receiver;

use crate::follow::{Broken, Follow, Heard};
use crate::metrics::Metrics;
use crate::patience::jittered;
use crate::served::{self, Served};
use crate::thin::fingerprint;

/// How often a kind that is not served, or that we may not read, is tried again.
const UNAVAILABLE_EVERY: Duration = Duration::from_secs(5);

/// A kind that we were never allowed to read is left out after this long: an API server that starts refuses everything
/// for some seconds, and who starts then must not take its quotas to be absent.
const FORBIDDEN_FOR: Duration = Duration::from_secs(30);

/// The pauses between attempts to go on after an error: the first, and the longest. All kinds and all replicas lose
/// their watches at the same moment, so that up to half of a pause is left to chance.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// After so many answers that lead nowhere from one version, everything is listed again.
const ERRORS_AT_VERSION: u32 = 3;

/// What is told of objects that change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tells {
    /// Every version, for whoever waits to see one.
    Versions,
    /// Of nodes, only versions that differ in what is read: most say no more than that the node is alive.
    News,
}

/// Watches for ever and says what it sees; lists again when `relist` changes. Ends when nobody listens.
pub async fn watch(
    client: Client,
    subject: Subject,
    tells: Tells,
    seen: Sender<Seen>,
    metrics: Metrics,
    relist: Receiver<u64>,
) {
    let heartbeats = (tells == Tells::News && is_nodes(subject)).then(Heartbeats::default);
    let watched = Watched::new(subject);
    let mut watch = Watch { client, subject, seen, metrics, relist, watched, heartbeats, available: None, errors: 0 };
    let begun = Instant::now();
    loop {
        match watch.until_listing(begun).await {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return,
        }
    }
}

/// Says of a kind that is not to be read what is said of one that is not served.
pub async fn leave_out(subject: Subject, seen: Sender<Seen>) {
    // Nobody may listen any more.
    let _ = seen.send(Seen::Unavailable(subject)).await;
}

struct Watch {
    client: Client,
    subject: Subject,
    seen: Sender<Seen>,
    metrics: Metrics,
    relist: Receiver<u64>,
    watched: Watched,
    heartbeats: Option<Heartbeats>,
    /// Whether it was served when last it was asked for.
    available: Option<bool>,
    /// How often it failed since it last came further.
    errors: u32,
}

impl Watch {
    /// Lists and watches until it has to be listed again, and says after which pause; `None`: nobody listens.
    async fn until_listing(&mut self, begun: Instant) -> Option<Duration> {
        let (kind, name) = (self.subject.kind(), self.subject.name());
        served::find_version(&self.client, kind).await;
        // A list in pages of what is there now. A list by way of a watch may be older than what was written before it.
        let mut follow = Follow::new(self.client.clone(), self.subject);
        let mut errors_at_version = 0;
        loop {
            let heard = tokio::select! {
                heard = follow.next() => heard,
                // Nobody asks any more: the session ends.
                Ok(()) = self.relist.changed() => return Some(Duration::ZERO),
            };
            let broken = match heard {
                Ok(heard) => {
                    if self.take(heard).await? {
                        (self.errors, errors_at_version) = (0, 0);
                    }
                    continue;
                }
                Err(broken) => broken,
            };
            let trouble = trouble(broken);
            let is_absent = trouble == Trouble::NotFound && served::look(&self.client, kind).await == Served::Not;
            // That a kind is not served is an answer like another.
            if !is_absent {
                self.metrics.watch_fails(self.subject);
            }
            match trouble {
                Trouble::NotFound if is_absent => {
                    self.metrics.watch_ends(self.subject);
                    self.say_availability(
                        false,
                        "is not served by this API server: its objects are left out until it is",
                    );
                    self.tell(Event::Absent).await?;
                    return Some(jittered(UNAVAILABLE_EVERY));
                }
                Trouble::NotFound => {
                    self.tell(Event::Lost("the API server does not find it".to_string())).await?;
                    return Some(jittered(PAUSE_MIN * 5));
                }
                Trouble::Refused { message, is_forbidden } => {
                    let is_left_out = is_forbidden && !self.watched.was_listed() && begun.elapsed() > FORBIDDEN_FOR;
                    if is_left_out {
                        self.metrics.watch_ends(self.subject);
                        self.say_availability(false, &format!("may not be read, and is left out: {message}"));
                        self.tell(Event::Absent).await?;
                        return Some(jittered(UNAVAILABLE_EVERY));
                    }
                    self.say_availability(
                        false,
                        &format!("may not be read, and nothing is decided without it: {message}"),
                    );
                    self.tell(Event::Lost(message)).await?;
                    return Some(jittered(PAUSE_MIN * 5));
                }
                Trouble::Expired => return Some(jittered(PAUSE_MIN)),
                Trouble::Other { message, is_answer, after } => {
                    self.errors += 1;
                    errors_at_version += u32::from(is_answer);
                    tracing::warn!(kind = name, group = kind.group, "the watch failed and goes on: {message}");
                    if errors_at_version == ERRORS_AT_VERSION {
                        self.tell(Event::Lost(message)).await?;
                    }
                    let pause = jittered((PAUSE_MIN * 2u32.pow(self.errors.min(8))).min(PAUSE_MAX));
                    tokio::time::sleep(pause.max(after.unwrap_or_default())).await;
                    if errors_at_version == ERRORS_AT_VERSION {
                        return Some(Duration::ZERO);
                    }
                }
            }
        }
    }

    /// Takes in what was heard. Whether the watch came further.
    async fn take(&mut self, heard: Heard) -> Option<bool> {
        let event = match heard {
            Heard::Event(event) => event,
            Heard::Answered | Heard::Bookmark => {
                self.metrics.watch_lives(self.subject);
                return Some(matches!(heard, Heard::Bookmark));
            }
        };
        // That it is about to list says nothing about whether it can.
        if matches!(event, Event::Listing) {
            self.metrics.count_listing(self.subject);
            if let Some(heartbeats) = &mut self.heartbeats {
                heartbeats.is_one(&event);
            }
            self.tell(event).await?;
            return Some(false);
        }
        self.metrics.watch_lives(self.subject);
        if matches!(event, Event::Complete) {
            self.say_availability(true, "is served now");
        }
        if !self.heartbeats.as_mut().is_some_and(|heartbeats| heartbeats.is_one(&event)) {
            self.tell(event).await?;
        }
        Some(true)
    }

    async fn tell(&mut self, event: Event) -> Option<()> {
        for seen in self.watched.take(event) {
            self.seen.send(seen).await.ok()?;
        }
        Some(())
    }

    /// Says whether it can be seen, where that changed.
    fn say_availability(&mut self, is_available: bool, message: &str) {
        let (kind, group) = (self.subject.name(), self.subject.kind().group);
        match (is_available, self.available.replace(is_available)) {
            (true, Some(false)) => tracing::info!(kind, group, "{message}"),
            (false, Some(true) | None) => tracing::warn!(kind, group, "{message}"),
            _ => {}
        }
    }
}

fn is_nodes(subject: Subject) -> bool {
    matches!(subject, Subject::Kind(kind) if kind.group.is_empty() && kind.kind == "Node")
}

/// Finds the changes of objects that differ in nothing that is read. What was told of an object is kept as a hash:
/// there are thousands of nodes, and each renews its status again and again.
#[derive(Debug, Default)]
struct Heartbeats {
    told: HashMap<String, u64>,
    state: RandomState,
}

impl Heartbeats {
    /// Whether an event says nothing that was not told before.
    fn is_one(&mut self, event: &Event) -> bool {
        match event {
            // What is not in the list is gone, and must be told when it comes again.
            Event::Listing | Event::Absent => self.told.clear(),
            Event::Item(object) => drop(self.note(object)),
            Event::Changed(object) => return self.note(object),
            // Whatever it says when it can be read again is news.
            Event::Deleted(object) | Event::Unreadable(object, _) => drop(self.told.remove(name(object))),
            Event::Complete | Event::Lost(_) => {}
        }
        false
    }

    /// Notes what an object says; whether it is what it said before.
    fn note(&mut self, object: &Value) -> bool {
        let print = fingerprint(object, self.state.build_hasher());
        match self.told.get_mut(name(object)) {
            Some(known) => std::mem::replace(known, print) == print,
            None => {
                self.told.insert(name(object).to_string(), print);
                false
            }
        }
    }
}

fn name(object: &Value) -> &str {
    field::text(object, "/metadata/name").unwrap_or_default()
}

/// What is wrong with a watch.
#[derive(Debug, PartialEq, Eq)]
enum Trouble {
    NotFound,
    /// We may not read it, at least for now.
    Refused {
        message: String,
        is_forbidden: bool,
    },
    /// The version that we were at is forgotten, or was never there.
    Expired,
    Other {
        message: String,
        /// The server is there and answered, so that asking the same again may lead nowhere.
        is_answer: bool,
        /// When it may be asked again, if it said so.
        after: Option<Duration>,
    },
}

fn trouble(broken: Broken) -> Trouble {
    let (code, message, after) = match broken {
        Broken::Answered { code, message, after } => (code, message, after),
        Broken::Unreadable(message) => return Trouble::Other { message, is_answer: true, after: None },
        Broken::Other(message) => return Trouble::Other { message, is_answer: false, after: None },
    };
    match code {
        404 => Trouble::NotFound,
        code @ (401 | 403) => Trouble::Refused { message, is_forbidden: code == 403 },
        410 => Trouble::Expired,
        // A server whose storage was restored from before knows no version as late as ours.
        504 if message.contains("Too large resource version") => Trouble::Expired,
        // It has too much to do, or is on its way: later it goes on from the same version.
        429 | 502..=504 => Trouble::Other { message, is_answer: false, after },
        _ => Trouble::Other { message, is_answer: true, after },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thin::Thin;
    use serde_json::json;

    #[test]
    fn a_pause_is_left_to_chance_within_bounds() {
        for _ in 0..100 {
            let pause = jittered(PAUSE_MAX);
            assert!(pause >= PAUSE_MAX / 2 && pause <= PAUSE_MAX, "{pause:?}");
        }
    }

    fn node(version: &str, time: &str, cpu: &str) -> Value {
        let node = json!({"metadata": {"name": "n", "resourceVersion": version}, "status": {"allocatable": {"cpu": cpu},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": time}]}});
        serde_json::from_str::<Thin>(&node.to_string()).expect("it is JSON").0
    }

    #[test]
    fn a_heartbeat_is_what_says_nothing_new_of_a_node_that_was_told() {
        use Event::{Changed, Complete, Deleted, Item, Listing};
        let mut heartbeats = Heartbeats::default();
        let mut is_one = |event| heartbeats.is_one(&event);
        assert!(!is_one(Listing));
        assert!(!is_one(Item(node("1", "10:00", "8"))));
        assert!(!is_one(Complete));
        let mut watched = node("2", "10:10", "8");
        watched["kind"] = json!("Node");
        watched["apiVersion"] = json!("v1");
        assert!(is_one(Changed(watched)), "lists do not name the kind, watches do");
        assert!(!is_one(Changed(node("3", "10:20", "9"))), "it has more cores");
        assert!(is_one(Changed(node("4", "10:30", "9"))));
        assert!(!is_one(Deleted(node("5", "10:30", "9"))));
        assert!(!is_one(Changed(node("6", "10:40", "9"))), "it is a new node");
        assert!(!is_one(Listing));
        assert!(!is_one(Complete));
        assert!(!is_one(Changed(node("7", "10:50", "9"))), "it was gone from the list");
    }
}
