//! The rounds of a cluster as they were: what the objects said, and what was decided from them, in order.
//!
//! A report lists what happened by name. Whoever checks decisions from outside needs to know from what each one was
//! made.

use std::sync::Arc;

use quotient_host::Happened as Done;
use serde_json::Value;

use super::Cluster;

/// One round in which something was decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    pub now_us: i64,
    /// All objects before the round.
    pub objects: Vec<Arc<Value>>,
    pub decided: Vec<Decided>,
}

/// A decision that changes who holds or claims what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided {
    Bind {
        namespace: String,
        name: String,
        node: String,
    },
    /// `claimant` is `namespace/name` of the pod that gets the room, if there is one.
    Evict {
        namespace: String,
        name: String,
        claimant: Option<String>,
    },
    Nominate {
        namespace: String,
        name: String,
        node: Option<String>,
    },
}

impl Cluster {
    /// From now on every round in which something is decided is kept until it is taken.
    pub fn record_rounds(&mut self) {
        self.record.get_or_insert_default();
    }

    /// The rounds since they were last taken.
    pub fn take_rounds(&mut self) -> Vec<Round> {
        self.record.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// All objects as they are.
    pub fn objects(&self) -> Vec<Arc<Value>> {
        self.store().iter().map(|(_, object)| object.clone()).collect()
    }

    pub(super) fn record_round(&mut self, done: &[Done]) {
        if self.record.is_none() {
            return;
        }
        let decided: Vec<Decided> = done.iter().filter_map(decided).collect();
        if decided.is_empty() {
            return;
        }
        let round = Round { now_us: self.now_us(), objects: self.objects(), decided };
        self.record.get_or_insert_default().push(round);
    }
}

fn decided(done: &Done) -> Option<Decided> {
    let names = |pod: &quotient_engine::fact::PodKey| (pod.namespace.to_string(), pod.name.to_string());
    match done {
        Done::Bound { pod, node } => {
            let (namespace, name) = names(pod);
            Some(Decided::Bind { namespace, name, node: node.to_string() })
        }
        Done::Evicted { pod, claimant, .. } => {
            let (namespace, name) = names(pod);
            Some(Decided::Evict { namespace, name, claimant: claimant.as_ref().map(ToString::to_string) })
        }
        Done::Nominated { pod, node } => {
            let (namespace, name) = names(pod);
            Some(Decided::Nominate { namespace, name, node: node.as_ref().map(ToString::to_string) })
        }
        Done::Held { .. } | Done::Problem(_) => None,
    }
}
