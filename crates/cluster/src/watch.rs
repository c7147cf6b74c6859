//! One watch for each subject: what there is, then what changes, for ever.
//!
//! After a gap (the server forgot the version we were at, or we were cut off for too long) everything is listed again;
//! what was known and is not in the list is gone. So nothing is lost and nothing is there twice.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use quotient_api::ObjectKey;
use tokio::sync::mpsc::Sender;

use crate::thin::Thin;
use quotient_host::scheduler::Seen;
use quotient_host::subject::Subject;

/// How often a kind that is not served, or that we may not read, is tried again.
const UNAVAILABLE_EVERY: Duration = Duration::from_secs(5);

/// The pauses between attempts to go on after an error: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// After this many errors in a row everything is listed again: the version we are at may be one that the server does
/// not know, and not one that it has forgotten.
const ERRORS_BEFORE_LISTING: u32 = 5;

/// Watches for ever and says what it sees. Ends when nobody listens.
pub async fn watch(client: Client, subject: Subject, seen: Sender<Seen>) {
    let mut known = Known { subject, keys: BTreeSet::new(), listing: BTreeSet::new() };
    let mut available = None;
    loop {
        match watch_until_listing(&client, &mut known, &seen, &mut available).await {
            Some(pause) => tokio::time::sleep(pause).await,
            None => return,
        }
    }
}

/// Lists and watches until it is better to list again, and says after which pause; `None`: nobody listens.
async fn watch_until_listing(
    client: &Client,
    known: &mut Known,
    seen: &Sender<Seen>,
    available: &mut Option<bool>,
) -> Option<Duration> {
    let Known { subject, .. } = *known;
    let (kind, name) = (subject.kind(), subject.name());
    let api: Api<Thin> = Api::all_with(client.clone(), &kind);
    // A list in pages of what is there now. A list by way of a watch may be older than what was written before it.
    let mut config = watcher::Config::default();
    if let Some(fields) = subject.field_selector() {
        config = config.fields(fields);
    }
    if let Some(labels) = subject.label_selector() {
        config = config.labels(labels);
    }
    let mut events = std::pin::pin!(watcher(api, config));
    let mut errors = 0;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                errors = 0;
                let is_listed = matches!(event, Event::InitDone);
                for seen_now in known.take(event) {
                    seen.send(seen_now).await.ok()?;
                }
                if is_listed && available.replace(true) == Some(false) {
                    tracing::info!(kind = name, group = kind.group, "is served now");
                }
            }
            Err(error) => match trouble(&error) {
                Trouble::Unavailable(why) => {
                    if available.replace(false) != Some(false) {
                        tracing::warn!(kind = name, group = kind.group, "{why}");
                    }
                    for gone in known.sweep() {
                        seen.send(gone).await.ok()?;
                    }
                    seen.send(Seen::Unavailable(subject)).await.ok()?;
                    return Some(UNAVAILABLE_EVERY);
                }
                Trouble::Expired => return Some(Duration::ZERO),
                Trouble::Other(message) => {
                    errors += 1;
                    tracing::warn!(kind = name, group = kind.group, "the watch failed and goes on: {message}");
                    let pause = (PAUSE_MIN * 2u32.pow(errors.min(8))).min(PAUSE_MAX);
                    if errors >= ERRORS_BEFORE_LISTING {
                        return Some(pause);
                    }
                    tokio::time::sleep(pause).await;
                }
            },
        }
    }
    Some(PAUSE_MIN)
}

/// What is wrong with a watch.
enum Trouble {
    /// There is nothing to watch, and why.
    Unavailable(String),
    /// The version that we were at is forgotten.
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
    match status.code {
        404 => Trouble::Unavailable("is not served by this API server: its objects are left out until it is".into()),
        401 | 403 => Trouble::Unavailable(format!("cannot be read, and is left out: {}", status.message)),
        410 => Trouble::Expired,
        _ => Trouble::Other(status.message.clone()),
    }
}

/// The objects that were seen and are not gone.
#[derive(Debug)]
struct Known {
    subject: Subject,
    keys: BTreeSet<ObjectKey>,
    /// Those of a list that is not complete yet.
    listing: BTreeSet<ObjectKey>,
}

impl Known {
    /// What an event means. What cannot be named is left to the translator to complain about.
    fn take(&mut self, event: Event<Thin>) -> Vec<Seen> {
        match event {
            Event::Init => {
                self.listing.clear();
                Vec::new()
            }
            Event::InitApply(thin) => {
                if let Some(key) = self.key(&thin) {
                    self.listing.insert(key.clone());
                    self.keys.insert(key);
                }
                vec![Seen::Object(self.subject, thin.value)]
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listing);
                let gone: Vec<Seen> =
                    self.keys.difference(&listed).cloned().map(|key| Seen::Gone(self.subject, key)).collect();
                self.keys = listed;
                gone.into_iter().chain([Seen::Listed(self.subject)]).collect()
            }
            Event::Apply(thin) => {
                self.keys.extend(self.key(&thin));
                vec![Seen::Object(self.subject, thin.value)]
            }
            Event::Delete(thin) => match self.key(&thin) {
                Some(key) => {
                    self.keys.remove(&key);
                    vec![Seen::Gone(self.subject, key)]
                }
                None => Vec::new(),
            },
        }
    }

    /// All that was known is gone.
    fn sweep(&mut self) -> Vec<Seen> {
        self.listing.clear();
        std::mem::take(&mut self.keys).into_iter().map(|key| Seen::Gone(self.subject, key)).collect()
    }

    fn key(&self, thin: &Thin) -> Option<ObjectKey> {
        let metadata = thin.value.get("metadata")?;
        let text = |field: &str| metadata.get(field).and_then(serde_json::Value::as_str);
        Some(ObjectKey::new(self.subject.kind(), text("namespace"), text("name")?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str) -> Thin {
        let object = json!({"metadata": {"name": name, "namespace": "a", "resourceVersion": "1"}});
        serde_json::from_value(object).expect("it is JSON")
    }

    fn shown(seen: Vec<Seen>) -> Vec<String> {
        let show = |seen: &Seen| match seen {
            Seen::Object(_, object) => format!("seen {}", object["metadata"]["name"].as_str().unwrap_or("?")),
            Seen::Gone(_, key) => format!("gone {}", key.name),
            Seen::Listed(_) => "listed".to_string(),
            Seen::Unavailable(_) => "unavailable".to_string(),
        };
        seen.iter().map(show).collect()
    }

    #[test]
    fn after_a_gap_what_is_not_listed_any_more_is_gone() {
        let kind = quotient_api::kinds::find("", "Pod").expect("it is known");
        let mut known = Known { subject: Subject::Kind(kind), keys: BTreeSet::new(), listing: BTreeSet::new() };
        let mut take = |event| shown(known.take(event));
        assert!(take(Event::Init).is_empty());
        assert_eq!(take(Event::InitApply(pod("p"))), ["seen p"]);
        assert_eq!(take(Event::InitApply(pod("q"))), ["seen q"]);
        assert_eq!(take(Event::InitDone), ["listed"]);
        assert_eq!(take(Event::Apply(pod("r"))), ["seen r"]);
        assert_eq!(take(Event::Delete(pod("q"))), ["gone q"]);
        // A list that breaks off says nothing about what it did not come to.
        assert!(take(Event::Init).is_empty());
        assert_eq!(take(Event::InitApply(pod("r"))), ["seen r"]);
        assert!(take(Event::Init).is_empty());
        assert_eq!(take(Event::InitApply(pod("p"))), ["seen p"]);
        assert_eq!(take(Event::InitDone), ["gone r", "listed"]);
        assert_eq!(shown(known.sweep()), ["gone p"]);
        assert!(known.sweep().is_empty());
    }
}
