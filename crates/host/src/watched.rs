//! What one watch has seen, and what its events mean.
//!
//! An object is gone when the watch says that it was deleted, when a complete list does not have it any more, or when
//! discovery says that its kind is not served. A list that breaks off, a refusal or a server that does not answer say
//! nothing about any object: what was known stays known, and is said to be stale until the next list is complete.

use std::collections::BTreeSet;

use quotient_api::ObjectKey;
use serde_json::Value;

use crate::scheduler::Seen;
use crate::subject::Subject;

/// Something that a watch says.
#[derive(Debug, Clone)]
pub enum Event {
    /// A list begins.
    Listing,
    /// An object of the list.
    Item(Value),
    /// The list is complete.
    Complete,
    Changed(Value),
    Deleted(Value),
    /// An object that is there, of the list or changed, and why it cannot be read. There is no more of it than its
    /// name.
    Unreadable(Value, String),
    /// It cannot go on, and why.
    Lost(String),
    /// Discovery says that the kind is not served.
    Absent,
}

/// The objects of a watch that were seen and are not gone.
#[derive(Debug, Clone)]
pub struct Watched {
    subject: Subject,
    keys: BTreeSet<ObjectKey>,
    /// Those of a list that is not complete yet.
    listing: BTreeSet<ObjectKey>,
    /// All there is was listed once, so that what is known may be stale.
    was_listed: bool,
    is_stale: bool,
}

impl Watched {
    /// A watch that has seen nothing.
    pub fn new(subject: Subject) -> Self {
        let (keys, listing) = (BTreeSet::new(), BTreeSet::new());
        Watched { subject, keys, listing, was_listed: false, is_stale: false }
    }

    /// Whether all there is was listed once.
    pub fn was_listed(&self) -> bool {
        self.was_listed
    }

    /// What an event means. What cannot be named is left to the translator to complain about.
    pub fn take(&mut self, event: Event) -> Vec<Seen> {
        match event {
            Event::Listing => {
                self.listing.clear();
                self.stale("is listed again")
            }
            Event::Item(object) => {
                if let Some(key) = self.key(&object) {
                    self.listing.insert(key.clone());
                    self.keys.insert(key);
                }
                vec![Seen::Object(self.subject, object)]
            }
            Event::Complete => {
                let listed = std::mem::take(&mut self.listing);
                let gone = self.keys.difference(&listed).cloned().map(|key| Seen::Gone(self.subject, key));
                let seen = gone.chain([Seen::Listed(self.subject)]).collect();
                (self.keys, self.was_listed, self.is_stale) = (listed, true, false);
                seen
            }
            Event::Changed(object) => {
                self.keys.extend(self.key(&object));
                vec![Seen::Object(self.subject, object)]
            }
            Event::Deleted(object) => match self.key(&object) {
                Some(key) => {
                    self.keys.remove(&key);
                    vec![Seen::Gone(self.subject, key)]
                }
                None => Vec::new(),
            },
            // It is there: what a list has is not gone, and what was known of it stays known.
            Event::Unreadable(object, why) => match self.key(&object) {
                Some(key) => {
                    self.listing.insert(key.clone());
                    self.keys.insert(key.clone());
                    vec![Seen::Unreadable(self.subject, key, why)]
                }
                None => vec![Seen::Object(self.subject, object)],
            },
            Event::Lost(why) => self.stale(&why),
            Event::Absent => {
                self.listing.clear();
                (self.was_listed, self.is_stale) = (false, false);
                let gone = std::mem::take(&mut self.keys).into_iter().map(|key| Seen::Gone(self.subject, key));
                gone.chain([Seen::Unavailable(self.subject)]).collect()
            }
        }
    }

    /// What is known may not be so any more; said once.
    fn stale(&mut self, why: &str) -> Vec<Seen> {
        if !self.was_listed || std::mem::replace(&mut self.is_stale, true) {
            return Vec::new();
        }
        vec![Seen::Stale(self.subject, why.to_string())]
    }

    fn key(&self, object: &Value) -> Option<ObjectKey> {
        let metadata = object.get("metadata")?;
        let text = |field: &str| metadata.get(field).and_then(Value::as_str);
        Some(ObjectKey::new(self.subject.kind(), text("namespace"), text("name")?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str) -> Value {
        json!({"metadata": {"name": name, "namespace": "a", "resourceVersion": "1"}})
    }

    fn shown(seen: Vec<Seen>) -> Vec<String> {
        let show = |seen: &Seen| match seen {
            Seen::Object(_, object) => format!("seen {}", object["metadata"]["name"].as_str().unwrap_or("?")),
            Seen::Gone(_, key) => format!("gone {}", key.name),
            Seen::Unreadable(_, key, why) => format!("unreadable {}: {why}", key.name),
            Seen::Listed(_) => "listed".to_string(),
            Seen::Stale(_, why) => format!("stale: {why}"),
            Seen::Unavailable(_) => "unavailable".to_string(),
        };
        seen.iter().map(show).collect()
    }

    #[test]
    fn an_object_is_gone_when_a_complete_list_does_not_have_it_and_not_before() {
        let kind = quotient_api::kinds::find("", "Pod").expect("it is known");
        let mut watched = Watched::new(Subject::Kind(kind));
        let mut take = |event| shown(watched.take(event));
        assert!(take(Event::Lost("403".to_string())).is_empty(), "nothing was known");
        assert!(take(Event::Listing).is_empty());
        assert_eq!(take(Event::Item(pod("p"))), ["seen p"]);
        assert_eq!(take(Event::Item(pod("q"))), ["seen q"]);
        assert_eq!(take(Event::Complete), ["listed"]);
        assert_eq!(take(Event::Changed(pod("r"))), ["seen r"]);
        assert_eq!(take(Event::Deleted(pod("q"))), ["gone q"]);
        // A refusal and a list that breaks off say nothing about what they did not come to.
        assert_eq!(take(Event::Lost("403".to_string())), ["stale: 403"]);
        assert!(take(Event::Lost("403".to_string())).is_empty(), "it was said");
        assert!(take(Event::Listing).is_empty());
        assert_eq!(take(Event::Item(pod("r"))), ["seen r"]);
        assert!(take(Event::Listing).is_empty());
        assert_eq!(take(Event::Item(pod("p"))), ["seen p"]);
        assert_eq!(take(Event::Complete), ["gone r", "listed"]);
        assert_eq!(take(Event::Listing), ["stale: is listed again"]);
        assert_eq!(take(Event::Absent), ["gone p", "unavailable"]);
        assert_eq!(take(Event::Absent), ["unavailable"]);
    }

    #[test]
    fn an_object_that_cannot_be_read_is_not_gone_until_it_is_deleted() {
        let kind = quotient_api::kinds::find("", "Pod").expect("it is known");
        let mut watched = Watched::new(Subject::Kind(kind));
        let mut take = |event| shown(watched.take(event));
        let unreadable = |name: &str| Event::Unreadable(pod(name), "too deep".to_string());
        assert!(take(Event::Listing).is_empty());
        assert_eq!(take(Event::Item(pod("p"))), ["seen p"]);
        assert_eq!(take(unreadable("q")), ["unreadable q: too deep"]);
        assert_eq!(take(Event::Complete), ["listed"]);
        assert_eq!(take(unreadable("p")), ["unreadable p: too deep"]);
        assert_eq!(take(Event::Listing), ["stale: is listed again"]);
        assert_eq!(take(unreadable("p")), ["unreadable p: too deep"]);
        assert_eq!(take(Event::Complete), ["gone q", "listed"], "the list has one of them");
        assert_eq!(take(Event::Deleted(pod("p"))), ["gone p"]);
    }
}
