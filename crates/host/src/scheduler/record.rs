//! The record of what a pod was bound as, for those that were bound without one: see [`ties`].

use quotient_api::{ObjectKey, ties};
use quotient_engine::Fact;
use quotient_engine::fact::PodKey;
use serde_json::Value;

use super::{Round, Scheduler};
use crate::objects::Arrival;
use crate::write::{PodRef, Write};

impl Scheduler {
    /// A pod that was bound without ties, and has some now, counts as it was, and is to have the record of it.
    pub(super) fn keep_untied(&mut self, key: &ObjectKey, object: &mut Arrival<'_>) {
        if (key.group, key.kind) != ("", "Pod") || !ties::lacks_record(object) {
            return;
        }
        let mut untied = Value::clone(object);
        ties::record_none(&mut untied);
        let pod = PodKey { namespace: key.namespace.clone().unwrap_or_default(), name: key.name.clone() };
        let is_being_bound = self.waiting.get(&pod).is_some_and(|waiting| waiting.is_bound_untied);
        // Another scheduler may have bound it with the ties that it has.
        if !is_being_bound && (!self.answers_as(key, &untied) || self.answers_as(key, object)) {
            return;
        }
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().into();
        self.unrecorded.insert(pod, uid);
        *object.to_mut() = untied;
    }

    /// Whether a pod on a node counts as one that this object describes.
    fn answers_as(&mut self, key: &ObjectKey, object: &Value) -> bool {
        let facts = self.translator.upsert_as(key, object).facts;
        facts.iter().any(|fact| matches!(fact, Fact::Pod(pod) if self.engine.answers_as(pod)))
    }

    pub(super) fn record_untied(&mut self, round: &mut Round) {
        let unrecorded = std::mem::take(&mut self.unrecorded).into_iter();
        round.writes.extend(unrecorded.map(|(key, uid)| Write::Record { pod: PodRef { key, uid } }));
    }
}
