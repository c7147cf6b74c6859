//! What a scenario is run on: a virtual cluster, or a real one.
//!
//! Whoever runs scenarios implements these two, so that what a step means and what is compared with what is written
//! once, in [`crate::run`] and [`crate::expect`].

use std::sync::Arc;
use std::time::Duration;

use quotient_api::ObjectKey;
use quotient_engine::Reason;
use serde_json::Value;

use crate::cluster::{Cluster, Happened, Outcome, Stuck};
use crate::report::{NodeState, QuotaReport};
use crate::server::Refusal;

/// How a cluster stands that has settled.
pub trait Observed {
    /// The object as it is stored.
    fn object(&self, key: &ObjectKey) -> Option<Arc<Value>>;

    /// All pods.
    fn stored_pods(&self) -> Vec<(ObjectKey, Arc<Value>)>;

    /// Why a pod waits, if it does.
    fn reason_of(&self, pod: &ObjectKey) -> Option<Arc<Reason>>;

    /// All quotas that the engine knows.
    fn quota_reports(&self) -> Vec<(ObjectKey, QuotaReport)>;

    /// All nodes that the engine knows.
    fn node_states(&self) -> Vec<NodeState>;

    /// The events about an object: reasons and messages.
    fn events_about(&self, key: &ObjectKey) -> Vec<(String, String)>;
}

/// Why something that a step says was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// It cannot be done, which is the scenario's fault.
    #[error("{0}")]
    NotDone(String),
    /// Nothing more can be done, which is not.
    #[error("{0}")]
    Stuck(String),
}

/// A cluster to which things can be done.
pub trait Subject: Observed {
    /// The moment after which objects are made that must be seen to be younger than those before. It matters only where
    /// creation times are whole seconds.
    fn part_ages(&mut self) -> Result<(), Trouble>;

    /// From now on, evicted pods take this long to go.
    fn set_eviction_takes(&mut self, takes: Duration) -> Result<(), Trouble>;

    /// Makes or replaces an object. That it is rejected is among what happened, and not an error.
    fn apply(&mut self, object: Value) -> Result<(), Trouble>;

    /// Takes out an object. That this is rejected is among what happened, and not an error.
    fn delete(&mut self, key: &ObjectKey) -> Result<(), Trouble>;

    /// Which of these objects exist now; in a step, after everything was applied.
    fn existing(&mut self, keys: &[ObjectKey]) -> Result<Vec<ObjectKey>, Trouble>;

    /// Ends a pod.
    fn end(&mut self, pod: &ObjectKey, outcome: Outcome) -> Result<(), Trouble>;

    /// The scheduler starts anew and knows only what the objects say.
    fn restart(&mut self) -> Result<(), Trouble>;

    /// Lets time pass, and everything happen that is due meanwhile.
    fn wait(&mut self, duration: Duration) -> Result<(), Trouble>;

    /// Goes on until nothing changes any more.
    fn settle(&mut self) -> Result<(), Trouble>;

    /// What happened since this was last asked.
    fn take_happened(&mut self) -> Result<Happened, Trouble>;
}

impl Observed for Cluster {
    fn object(&self, key: &ObjectKey) -> Option<Arc<Value>> {
        self.store().get(key).cloned()
    }

    fn stored_pods(&self) -> Vec<(ObjectKey, Arc<Value>)> {
        self.store().pods().map(|(key, pod)| (key.clone(), pod.clone())).collect()
    }

    fn reason_of(&self, pod: &ObjectKey) -> Option<Arc<Reason>> {
        self.reason(pod)
    }

    fn quota_reports(&self) -> Vec<(ObjectKey, QuotaReport)> {
        self.keyed_quotas()
    }

    fn node_states(&self) -> Vec<NodeState> {
        self.nodes()
    }

    fn events_about(&self, key: &ObjectKey) -> Vec<(String, String)> {
        self.events(key).map(|(reason, message)| (reason.to_string(), message.to_string())).collect()
    }
}

impl From<Stuck> for Trouble {
    fn from(stuck: Stuck) -> Self {
        Trouble::Stuck(stuck.to_string())
    }
}

/// A rejection is known to the cluster, and may be what the step expects.
fn unless_rejected<T>(outcome: Result<T, Refusal>) -> Result<(), Trouble> {
    match outcome {
        Ok(_) | Err(Refusal::Rejected(_)) => Ok(()),
        Err(refusal) => Err(Trouble::NotDone(refusal.to_string())),
    }
}

impl Subject for Cluster {
    fn part_ages(&mut self) -> Result<(), Trouble> {
        self.next_second_of_creation();
        Ok(())
    }

    fn set_eviction_takes(&mut self, takes: Duration) -> Result<(), Trouble> {
        Cluster::set_eviction_takes(self, takes);
        Ok(())
    }

    fn apply(&mut self, object: Value) -> Result<(), Trouble> {
        unless_rejected(Cluster::apply(self, object))
    }

    fn delete(&mut self, key: &ObjectKey) -> Result<(), Trouble> {
        unless_rejected(Cluster::delete(self, key))
    }

    fn existing(&mut self, keys: &[ObjectKey]) -> Result<Vec<ObjectKey>, Trouble> {
        Ok(keys.iter().filter(|key| self.store().contains(key)).cloned().collect())
    }

    fn end(&mut self, pod: &ObjectKey, outcome: Outcome) -> Result<(), Trouble> {
        Cluster::end(self, pod, outcome).map_err(|refusal| Trouble::NotDone(refusal.to_string()))
    }

    fn restart(&mut self) -> Result<(), Trouble> {
        Cluster::restart(self);
        Ok(())
    }

    fn wait(&mut self, duration: Duration) -> Result<(), Trouble> {
        Ok(Cluster::wait(self, duration)?)
    }

    fn settle(&mut self) -> Result<(), Trouble> {
        Ok(Cluster::settle(self)?)
    }

    fn take_happened(&mut self) -> Result<Happened, Trouble> {
        Ok(Cluster::take_happened(self))
    }
}
