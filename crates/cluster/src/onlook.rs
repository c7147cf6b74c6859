//! Observers of a live scheduler: they get what is seen and what is decided, and never delay it.

use std::sync::Arc;

use quotient_api::Kind;
use quotient_engine::Engine;
use quotient_host::scheduler::{Happened, Now, Seen};
use serde_json::{Value, json};

/// An observer, such as a dashboard or a recording. Calls come from the scheduler's own task and must return at once.
pub trait Onlooker: Send + Sync {
    /// A session begins, with nothing known.
    fn begins(&self);
    /// An object was seen, or is gone. The engine has not taken it in yet.
    fn sees(&self, seen: &Seen, engine: &Engine);
    /// Something was decided, or is wrong with an object.
    fn hears(&self, now: Now, happened: &[Happened]);
    /// A moment to read the engine: as soon as everything was seen, and about once a second from then on. What takes
    /// longer works on a copy.
    fn looks(&self, now: Now, engine: &Engine);
}

/// The object with its kind and version. Those of a first listing do not say them.
pub fn whole(kind: &Kind, object: &Value) -> Value {
    let mut object = object.clone();
    if let Value::Object(fields) = &mut object {
        fields.entry("kind").or_insert_with(|| json!(kind.kind));
        fields.entry("apiVersion").or_insert_with(|| json!(kind.api_version()));
    }
    object
}

/// Several observers, in order.
pub struct Onlookers(pub Vec<Arc<dyn Onlooker>>);

impl Onlooker for Onlookers {
    fn begins(&self) {
        self.0.iter().for_each(|onlooker| onlooker.begins());
    }

    fn sees(&self, seen: &Seen, engine: &Engine) {
        self.0.iter().for_each(|onlooker| onlooker.sees(seen, engine));
    }

    fn hears(&self, now: Now, happened: &[Happened]) {
        self.0.iter().for_each(|onlooker| onlooker.hears(now, happened));
    }

    fn looks(&self, now: Now, engine: &Engine) {
        self.0.iter().for_each(|onlooker| onlooker.looks(now, engine));
    }
}
