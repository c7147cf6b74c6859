//! The record of what a pod was bound as: it counts if its Binding left it, and is written anew where it did not. See
//! [`ties`].

use quotient_api::ties::NO_TIES;
use quotient_api::time::parse_timestamp;
use quotient_api::{ObjectKey, field, ties};
use quotient_engine::Fact;
use quotient_engine::fact::PodKey;
use serde_json::Value;

use super::{Round, Scheduler};
use crate::objects::Arrival;
use crate::write::{PodRef, Write};

/// Since when a pod has been on its node, as far as it says.
fn on_node_since(pod: &Value) -> i64 {
    let conditions = field::at(pod, "/status/conditions").and_then(Value::as_array);
    let scheduled = conditions.into_iter().flatten().find(|condition| condition["type"] == "PodScheduled");
    let bound = scheduled.and_then(|condition| field::text(condition, "/lastTransitionTime"));
    let times = [bound, field::text(pod, "/metadata/creationTimestamp")];
    let times = times.into_iter().flatten().filter_map(|time| parse_timestamp(time).ok());
    times.max().unwrap_or(i64::MAX)
}

impl Scheduler {
    /// A pod on a node counts as it was bound, and is to have the record of it: what others wrote there since, or
    /// before it was bound, is taken for what it is.
    pub(super) fn keep_ties(&mut self, key: &ObjectKey, object: &mut Arrival<'_>) {
        if (key.group, key.kind) != ("", "Pod") || !ties::is_bound(object) {
            return;
        }
        let pod = PodKey { namespace: key.namespace.clone().unwrap_or_default(), name: key.name.clone() };
        let Some(record) = self.true_record(&pod, key, object) else { return };
        let uid = field::text(object, "/metadata/uid").unwrap_or_default().into();
        ties::set_record(object.to_mut(), &record);
        self.unrecorded.insert(pod, (uid, record));
    }

    /// The record that a pod on a node is to have and has not.
    fn true_record(&mut self, pod: &PodKey, key: &ObjectKey, object: &Value) -> Option<Box<str>> {
        let (found, uid) = (ties::recorded(object), field::text(object, "/metadata/uid").unwrap_or_default());
        let waiting = self.waiting.get(pod).filter(|waiting| *waiting.uid == *uid);
        if let Some(bound_as) = waiting.and_then(|waiting| waiting.bound_as.as_deref()) {
            // Pods without ties are bound without a record.
            let is_true = found == Some(bound_as) || found.is_none() && bound_as == NO_TIES && !ties::has_any(object);
            return (!is_true).then(|| bound_as.into());
        }
        if found.is_some() {
            // It came with its node and a record: nobody bound it.
            let is_new = self.has_decided && waiting.is_none() && !self.engine.is_placed(pod, uid);
            return is_new.then(|| ties::record(object).unwrap_or_else(|| NO_TIES.to_string()).into());
        }
        if !ties::has_any(object) {
            return None;
        }
        if !self.engine.is_placed(pod, uid) {
            return self.is_ours(object).then(|| self.record_at_first_sight(object));
        }
        let mut untied = object.clone();
        ties::set_record(&mut untied, NO_TIES);
        // Another scheduler may have bound it with the ties that it has.
        (self.answers_as(key, &untied) && !self.answers_as(key, object)).then(|| NO_TIES.into())
    }

    /// The record of a pod of ours that has ties and none, and that is seen on its node for the first time. Where a
    /// scheduler saw it there before, that one would have written a record of ties: it was given them since.
    fn record_at_first_sight(&self, object: &Value) -> Box<str> {
        let was_seen = self.watched_until_us.is_some_and(|until| on_node_since(object) <= until);
        match ties::record(object).filter(|_| !was_seen) {
            Some(record) => record.into(),
            None => NO_TIES.into(),
        }
    }

    /// Whether a pod names one of our schedulers.
    fn is_ours(&self, object: &Value) -> bool {
        let name = field::text(object, "/spec/schedulerName").unwrap_or_default();
        self.names.as_ref().is_none_or(|names| names.iter().any(|ours| ours == name))
    }

    /// Whether a pod on a node counts as one that this object describes.
    fn answers_as(&mut self, key: &ObjectKey, object: &Value) -> bool {
        let facts = self.translator.upsert_as(key, object).facts;
        facts.iter().any(|fact| matches!(fact, Fact::Pod(pod) if self.engine.answers_as(pod)))
    }

    pub(super) fn write_records(&mut self, round: &mut Round) {
        let unrecorded = std::mem::take(&mut self.unrecorded).into_iter();
        round.writes.extend(unrecorded.map(|(key, (uid, record))| Write::Record { pod: PodRef { key, uid }, record }));
    }
}
