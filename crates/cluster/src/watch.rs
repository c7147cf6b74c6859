//! One watch for each subject: what there is, then what changes, for ever.
//!
//! After a gap (the server forgot the version we were at) everything is listed again; what was known and is not in the
//! complete list is gone. A server that does not answer, or that refuses, makes no object gone: what was known stays
//! known. While it is listed again it is stale, and so is what may not be read; see [`quotient_host::watched`]. Only a
//! kind that discovery says is not served has no objects.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use futures::StreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use quotient_host::watched::{Event, Watched};
use quotient_host::{Seen, Subject};
use tokio::sync::mpsc::Sender;

use crate::metrics::Metrics;
use crate::served::{self, Served};
use crate::thin::Thin;

/// How often a kind that is not served, or that we may not read, is tried again.
const UNAVAILABLE_EVERY: Duration = Duration::from_secs(5);

/// A kind that we were never allowed to read is left out after this long: an API server that starts refuses everything
/// for some seconds, and who starts then must not take its quotas to be absent.
const FORBIDDEN_FOR: Duration = Duration::from_secs(30);

/// The pauses between attempts to go on after an error: the first, and the longest. All kinds and all replicas lose
/// their watches at the same moment, so that up to half of a pause is left to chance.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// What is told of objects that change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tells {
    /// Every version, for whoever waits to see one.
    Versions,
    /// Of nodes, only versions that differ in what is read: most say no more than that the node is alive.
    News,
}

/// Watches for ever and says what it sees. Ends when nobody listens.
pub async fn watch(client: Client, subject: Subject, tells: Tells, seen: Sender<Seen>, metrics: Metrics) {
    let heartbeats = (tells == Tells::News && is_nodes(subject)).then(Heartbeats::default);
    let watched = Watched::new(subject);
    let mut watch = Watch { client, subject, seen, metrics, watched, heartbeats, available: None };
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
    watched: Watched,
    heartbeats: Option<Heartbeats>,
    /// Whether it was served when last it was asked for.
    available: Option<bool>,
}

impl Watch {
    /// Lists and watches until it has to be listed again, and says after which pause; `None`: nobody listens.
    async fn until_listing(&mut self, begun: Instant) -> Option<Duration> {
        let (kind, name) = (self.subject.kind(), self.subject.name());
        let version = served::version(&self.client, kind).await;
        let api: Api<Thin> = Api::all_with(self.client.clone(), &(kind, version));
        // A list in pages of what is there now. A list by way of a watch may be older than what was written before it.
        let mut config = watcher::Config::default();
        if let Some(fields) = self.subject.field_selector() {
            config = config.fields(fields);
        }
        if let Some(labels) = self.subject.label_selector() {
            config = config.labels(labels);
        }
        let mut events = std::pin::pin!(watcher(api, config));
        let mut errors = 0;
        while let Some(event) = events.next().await {
            let error = match event {
                Ok(event) => {
                    errors = 0;
                    self.metrics.watch_lives(self.subject);
                    self.take(event).await?;
                    continue;
                }
                Err(error) => error,
            };
            self.metrics.watch_fails(self.subject);
            match trouble(&error) {
                Trouble::NotFound if served::look(&self.client, kind).await == Served::Not => {
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
                Trouble::Other(message) => {
                    errors += 1;
                    tracing::warn!(kind = name, group = kind.group, "the watch failed and goes on: {message}");
                    tokio::time::sleep(jittered((PAUSE_MIN * 2u32.pow(errors.min(8))).min(PAUSE_MAX))).await;
                }
            }
        }
        Some(jittered(PAUSE_MIN))
    }

    async fn take(&mut self, event: watcher::Event<Thin>) -> Option<()> {
        if matches!(event, watcher::Event::Init) {
            self.metrics.count_listing(self.subject);
        }
        if matches!(event, watcher::Event::InitDone) {
            self.say_availability(true, "is served now");
        }
        if self.heartbeats.as_mut().is_some_and(|heartbeats| heartbeats.is_one(&event)) {
            return Some(());
        }
        self.tell(meaning(event)).await
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
    fn is_one(&mut self, event: &watcher::Event<Thin>) -> bool {
        match event {
            // What is not in the list is gone, and must be told when it comes again.
            watcher::Event::Init => self.told.clear(),
            watcher::Event::InitApply(thin) => drop(self.note(thin)),
            watcher::Event::Apply(thin) => return self.note(thin),
            watcher::Event::Delete(thin) => drop(self.told.remove(thin.name())),
            watcher::Event::InitDone => {}
        }
        false
    }

    /// Notes what an object says; whether it is what it said before.
    fn note(&mut self, thin: &Thin) -> bool {
        let print = thin.fingerprint(self.state.build_hasher());
        match self.told.get_mut(thin.name()) {
            Some(known) => std::mem::replace(known, print) == print,
            None => {
                self.told.insert(thin.name().to_string(), print);
                false
            }
        }
    }
}

fn meaning(event: watcher::Event<Thin>) -> Event {
    match event {
        watcher::Event::Init => Event::Listing,
        watcher::Event::InitApply(thin) => Event::Item(thin.value),
        watcher::Event::InitDone => Event::Complete,
        watcher::Event::Apply(thin) => Event::Changed(thin.value),
        watcher::Event::Delete(thin) => Event::Deleted(thin.value),
    }
}

/// Between half a pause and the whole of it.
fn jittered(pause: Duration) -> Duration {
    let chance = RandomState::new().build_hasher().finish() % 1000;
    pause / 2 + pause.mul_f64(chance as f64 / 2000.0)
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
    Other(String),
}

fn trouble(error: &watcher::Error) -> Trouble {
    let status = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status,
        other => return Trouble::Other(other.to_string()),
    };
    let message = status.message.clone();
    match status.code {
        404 => Trouble::NotFound,
        code @ (401 | 403) => Trouble::Refused { message, is_forbidden: code == 403 },
        410 => Trouble::Expired,
        // A server whose storage was restored from before knows no version as late as ours.
        504 if message.contains("Too large resource version") => Trouble::Expired,
        _ => Trouble::Other(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pause_is_left_to_chance_within_bounds() {
        for _ in 0..100 {
            let pause = jittered(PAUSE_MAX);
            assert!(pause >= PAUSE_MAX / 2 && pause <= PAUSE_MAX, "{pause:?}");
        }
    }

    fn node(version: &str, time: &str, cpu: &str) -> Thin {
        let node = json!({"metadata": {"name": "n", "resourceVersion": version}, "status": {"allocatable": {"cpu": cpu},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": time}]}});
        serde_json::from_str(&node.to_string()).expect("it is JSON")
    }

    #[test]
    fn a_heartbeat_is_what_says_nothing_new_of_a_node_that_was_told() {
        use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
        let mut heartbeats = Heartbeats::default();
        let mut is_one = |event| heartbeats.is_one(&event);
        assert!(!is_one(Init));
        assert!(!is_one(InitApply(node("1", "10:00", "8"))));
        assert!(!is_one(InitDone));
        let mut watched = node("2", "10:10", "8");
        watched.value["kind"] = json!("Node");
        watched.value["apiVersion"] = json!("v1");
        assert!(is_one(Apply(watched)), "lists do not name the kind, watches do");
        assert!(!is_one(Apply(node("3", "10:20", "9"))), "it has more cores");
        assert!(is_one(Apply(node("4", "10:30", "9"))));
        assert!(!is_one(Delete(node("5", "10:30", "9"))));
        assert!(!is_one(Apply(node("6", "10:40", "9"))), "it is a new node");
        assert!(!is_one(Init));
        assert!(!is_one(InitDone));
        assert!(!is_one(Apply(node("7", "10:50", "9"))), "it was gone from the list");
    }
}
