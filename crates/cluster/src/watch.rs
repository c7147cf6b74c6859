//! One watch for each subject: what there is, then what changes, for ever.
//!
//! After a gap (the server forgot the version we were at) everything is listed again; what was known and is not in the
//! complete list is gone. A server that does not answer, or that refuses, makes no object gone: what was known stays
//! known. While it is listed again it is stale, and so is what may not be read; see [`quotient_host::watched`]. Only a
//! kind that discovery says is not served has no objects.

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

/// Watches for ever and says what it sees. Ends when nobody listens.
pub async fn watch(client: Client, subject: Subject, seen: Sender<Seen>, metrics: Metrics) {
    let mut watch = Watch { client, subject, seen, metrics, watched: Watched::new(subject), available: None };
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

    #[test]
    fn a_pause_is_left_to_chance_within_bounds() {
        for _ in 0..100 {
            let pause = jittered(PAUSE_MAX);
            assert!(pause >= PAUSE_MAX / 2 && pause <= PAUSE_MAX, "{pause:?}");
        }
    }
}
