//! Events: what people are told about objects.
//!
//! They are kept apart from objects and not as such: nothing depends on them, and there is one for nearly every pod.

use quotient_api::{ObjectKey, ObjectMap, kinds, time};
use quotient_engine::fact::Name;
use quotient_host::event::EventNote;
use quotient_host::{CallError, Verb};
use serde_json::Value;

use super::Server;
use crate::{field, naming};

/// The kind of events, which is not one that is read from files.
const EVENT: &str = "Event";

/// What was said about an object for a reason: how often, and what last.
#[derive(Debug, Clone, PartialEq)]
struct Event {
    about: ObjectKey,
    reason: Box<str>,
    message: Box<str>,
    count: i64,
    last: Box<str>,
}

/// All events, by namespace and name. A copy shares what neither of the two changes.
#[derive(Debug, Clone, Default)]
pub(super) struct Events(ObjectMap<Event>);

impl Events {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// A namespace is gone, and its events with it.
    pub fn forget_namespace(&mut self, namespace: &str) {
        let keys: Vec<ObjectKey> = self.0.of_kind("", EVENT, Some(namespace)).map(|(key, _)| key.clone()).collect();
        keys.iter().for_each(|key| drop(self.0.remove(key)));
    }
}

fn event_key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { group: "", kind: EVENT, namespace: Some(Name::from(namespace)), name: Name::from(name) }
}

/// The object that an event is about.
fn about(event: &Value) -> Option<ObjectKey> {
    let text = |pointer: &str| field::text(event, pointer);
    let group = text("/involvedObject/apiVersion")?.split_once('/').map_or("", |(group, _)| group);
    let kind = kinds::find(group, text("/involvedObject/kind")?)?;
    Some(ObjectKey::new(kind, text("/involvedObject/namespace"), text("/involvedObject/name")?))
}

impl Server {
    /// Notes an event about an object. An object has one event for each reason: it counts how often,
    /// and says what was said last.
    pub fn event(&mut self, about: &ObjectKey, reason: &str, message: &str) {
        if !self.store.contains(about) {
            return;
        }
        let print = naming::fingerprint(&format!("{} {reason}", about.qualified()));
        let namespace = about.namespace.as_deref().unwrap_or("default");
        let key = event_key(namespace, &format!("{}.{print:016x}", about.name));
        let last = time::format_timestamp(self.clock.now_us());
        let count = match self.events.0.get(&key) {
            Some(known) if *known.message == *message && *known.last == *last => return,
            Some(known) => known.count + 1,
            None => 1,
        };
        let (reason, message) = (reason.into(), message.into());
        self.keep_event(key, Event { about: about.clone(), reason, message, count, last: last.into() });
    }

    /// Keeps what the host tells people, as its requests would.
    pub fn tell(&mut self, note: &EventNote) {
        let event = Event {
            about: note.about.clone(),
            reason: note.reason.into(),
            message: note.shown_message().into(),
            count: note.count.into(),
            last: note.shown_last().into(),
        };
        self.keep_event(event_key(note.namespace(), &note.name()), event);
    }

    /// What the API server answers to a request about an event.
    pub(crate) fn answer_event(
        &mut self,
        verb: Verb,
        namespace: &str,
        name: &str,
        body: &Value,
    ) -> Result<Value, CallError> {
        let key = event_key(namespace, name);
        let known = self.events.0.get(&key).cloned();
        let text = |pointer: &str| Box::from(field::text(body, pointer).unwrap_or_default());
        let event = match (verb, known) {
            (Verb::Create, None) => {
                let Some(about) = about(body) else { return Ok(Value::Null) };
                let (reason, message, last) = (text("/reason"), text("/message"), text("/lastTimestamp"));
                Event { about, reason, message, count: field::integer(body, "/count").unwrap_or(1), last }
            }
            (Verb::Create, Some(_)) => return Err(CallError::Conflict(format!("{key} already exists"))),
            (Verb::Patch, Some(known)) => Event {
                message: text("/message"),
                count: field::integer(body, "/count").unwrap_or(known.count),
                last: text("/lastTimestamp"),
                ..known
            },
            (_, None) => return Err(CallError::NotFound(format!("{key} not found"))),
            (_, Some(_)) => return Ok(Value::Null),
        };
        self.keep_event(key, event);
        Ok(Value::Null)
    }

    fn keep_event(&mut self, key: ObjectKey, event: Event) {
        if self.events.0.get(&key) != Some(&event) {
            self.written += 1;
            self.events.0.insert(key, event);
        }
    }

    /// The events about an object, by reason, with their messages.
    pub fn events<'a>(&'a self, about: &'a ObjectKey) -> impl Iterator<Item = (&'a str, &'a str)> {
        let namespace = about.namespace.as_deref().unwrap_or("default");
        let events = self.events.0.of_kind("", EVENT, Some(namespace)).map(|(_, event)| event);
        events.filter(move |event| event.about == *about).map(|event| (&*event.reason, &*event.message))
    }
}
