//! Events: what is told to people, once.

use std::collections::BTreeMap;

use quotient_api::{ObjectKey, time};
use quotient_engine::fact::Name;
use quotient_engine::lookup::LookupMap;
use serde_json::{Value, json};

use crate::FIELD_MANAGER;

/// What is said about an object. An object has one event for each reason: it counts how often, and says what was said
/// last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventNote {
    pub about: ObjectKey,
    pub uid: Name,
    /// Something went wrong, or did not.
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
    pub count: u32,
    pub first_us: i64,
    pub last_us: i64,
}

/// Something to be said about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// Something went wrong, or did not.
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
}

/// The reason of the event that says why a pod is pending.
pub const FAILED_SCHEDULING: &str = "FailedScheduling";

/// The most objects and reasons of which we remember what was said. Beyond it the one that was said of longest ago is
/// forgotten, and counted from one again.
const REMEMBERED_MAX: usize = 1 << 16;

/// What was said last about an object for a reason.
#[derive(Debug, Clone)]
struct Said {
    uid: Name,
    message: String,
    count: u32,
    first_us: i64,
    turn: u64,
}

/// What was said so far, so that it is not said again.
#[derive(Debug, Clone, Default)]
pub struct EventBook {
    said: LookupMap<(ObjectKey, &'static str), Said>,
    by_turn: BTreeMap<u64, (ObjectKey, &'static str)>,
    turn: u64,
}

impl EventBook {
    /// The event to write, if this is news.
    pub fn note(&mut self, about: ObjectKey, uid: &Name, remark: Remark, now_us: i64) -> Option<EventNote> {
        let Remark { is_warning, reason, message } = remark;
        let key = (about.clone(), reason);
        let known = self.said.remove(&key);
        if let Some(known) = &known {
            self.by_turn.remove(&known.turn);
        }
        self.turn += 1;
        let same_pod = known.filter(|known| known.uid == *uid);
        let is_news = same_pod.as_ref().is_none_or(|known| known.message != message);
        let (count, first_us) = match &same_pod {
            Some(known) => (known.count.saturating_add(u32::from(is_news)), known.first_us),
            None => (1, now_us),
        };
        self.by_turn.insert(self.turn, key.clone());
        self.said.insert(key, Said { uid: uid.clone(), message: message.clone(), count, first_us, turn: self.turn });
        if self.said.len() > REMEMBERED_MAX
            && let Some((_, oldest)) = self.by_turn.pop_first()
        {
            self.said.remove(&oldest);
        }
        let uid = uid.clone();
        is_news.then_some(EventNote { about, uid, is_warning, reason, message, count, first_us, last_us: now_us })
    }
}

impl EventNote {
    /// The event's namespace: its object's, or the one for objects without.
    pub fn namespace(&self) -> &str {
        self.about.namespace.as_deref().unwrap_or("default")
    }

    /// The event's name, which is the same for the same object and reason.
    pub fn name(&self) -> String {
        // FNV-1a: the same in every process, which a map's hasher is not.
        let text = format!("{} {} {}", self.about.qualified(), self.uid, self.reason);
        let print = text
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        // Names of objects may be as long as names can be; the fingerprint must fit behind.
        const NAME_MAX: usize = 253 - 17;
        format!("{}.{print:016x}", first_chars(&self.about.name, NAME_MAX))
    }

    /// The message as the API server keeps it.
    pub fn shown_message(&self) -> String {
        shortened(&self.message)
    }

    /// When it was last said, as the event has it.
    pub fn shown_last(&self) -> String {
        whole_seconds(self.last_us)
    }

    /// What changes about an event that was told before.
    pub fn renewal(&self) -> Value {
        json!({"message": self.shown_message(), "count": self.count, "lastTimestamp": self.shown_last()})
    }

    /// The event as an object to make.
    pub fn object(&self) -> Value {
        let EventNote { about, uid, is_warning, reason, message: _, count, first_us, last_us: _ } = self;
        let api_version = about.kind_entry().map(quotient_api::Kind::api_version).unwrap_or_default();
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": self.name(), "namespace": self.namespace()},
            "involvedObject": {"apiVersion": api_version, "kind": about.kind, "namespace": about.namespace.as_deref(),
                "name": *about.name, "uid": **uid},
            "type": if *is_warning { "Warning" } else { "Normal" },
            "reason": reason, "message": self.shown_message(), "count": count,
            "firstTimestamp": whole_seconds(*first_us), "lastTimestamp": self.shown_last(),
            "source": {"component": FIELD_MANAGER}, "reportingComponent": FIELD_MANAGER,
        })
    }
}

/// The API server keeps no more of a message than 1,024 characters.
fn shortened(message: &str) -> String {
    first_chars(message, 1024).to_string()
}

/// So many characters of a text at most.
fn first_chars(text: &str, max: usize) -> &str {
    // Most are short: a text has no more characters than bytes.
    let end = if text.len() <= max { None } else { text.char_indices().nth(max) };
    end.map_or(text, |(end, _)| &text[..end])
}

/// A time as most objects have it, which is to the second.
pub fn whole_seconds(us: i64) -> String {
    time::format_timestamp(us.div_euclid(1_000_000) * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_once_and_what_changes_is_counted() {
        let mut book = EventBook::default();
        let (pod, uid) = (ObjectKey::pod("a", "p"), Name::from("1"));
        let mut note = |uid: &Name, message: &str, now: i64| {
            let remark = Remark { is_warning: true, reason: "FailedScheduling", message: message.to_string() };
            book.note(pod.clone(), uid, remark, now)
        };
        let first = note(&uid, "no room", 1_000_000).expect("it is news");
        assert_eq!(note(&uid, "no room", 2_000_000), None);
        let second = note(&uid, "no quota", 3_000_000).expect("it is news");
        assert_eq!((second.count, second.first_us, second.last_us), (2, 1_000_000, 3_000_000));
        assert_eq!(first.name(), second.name(), "one object for both");
        let other = note(&"2".into(), "no quota", 4_000_000).expect("another pod of that name");
        assert_eq!(other.count, 1);
        assert_ne!(other.name(), first.name());
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        assert_eq!(shortened("no room"), "no room");
        assert_eq!(shortened(&"é".repeat(1024)), "é".repeat(1024));
        assert_eq!(shortened(&"é".repeat(2000)), "é".repeat(1024));
    }

    #[test]
    fn times_are_whole_seconds() {
        assert_eq!(whole_seconds(1_767_225_600_900_000), "2026-01-01T00:00:00Z");
    }
}
