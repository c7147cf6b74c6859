//! What admission makes of objects, and the virtual API server as admission sees it.

use std::sync::{Arc, OnceLock};

use quotient_api::{CheckedSpecs, Held, ObjectKey, Operation, Problem, Rejection, Sums, View, admit_in_place};
use serde_json::Value;

use crate::field;
use crate::server::guaranteed::Guaranteed;
use crate::server::{Refusal, Rejected, Server};
use crate::store::Store;

/// What admission may ask: the objects, and what is configured.
struct Admitting<'a> {
    pub store: &'a Store,
    pub whole_gpu_gb: Option<u32>,
    pub held: &'a OnceLock<Arc<Held>>,
    pub guaranteed: &'a Guaranteed,
    pub needs_consent: bool,
    pub checked: &'a CheckedSpecs,
}

impl View for Admitting<'_> {
    fn get(&self, key: &ObjectKey) -> Option<&Value> {
        View::get(self.store, key)
    }

    fn list(&self, group: &str, kind: &str, namespace: Option<&str>) -> Vec<&Value> {
        self.store.list(group, kind, namespace)
    }

    fn needs_consent(&self) -> bool {
        self.needs_consent
    }

    fn whole_gpu_gb(&self) -> u32 {
        self.whole_gpu_gb.unwrap_or_else(|| self.store.whole_gpu_gb())
    }

    fn held(&self) -> Arc<Held> {
        let add_up = || Arc::new(Held::by(&self.list("", "Node", None), self.whole_gpu_gb()));
        self.held.get_or_init(add_up).clone()
    }

    fn checked_specs(&self) -> Option<&CheckedSpecs> {
        Some(self.checked)
    }

    fn guaranteed(&self, group: &str) -> Sums {
        self.guaranteed.of(group)
    }
}

impl Server {
    /// What admission makes of an object.
    pub fn admitted(
        &mut self,
        operation: Operation,
        key: &ObjectKey,
        mut object: Value,
        old: Option<&Value>,
    ) -> Result<Value, Refusal> {
        match self.admit(operation, key, &mut object, old) {
            Ok(()) => Ok(object),
            Err(rejection) => Err(self.reject(Rejected { object: key.clone(), message: rejection.message })),
        }
    }

    fn admit(
        &mut self,
        operation: Operation,
        key: &ObjectKey,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Rejection> {
        let view = Admitting {
            store: &self.store,
            whole_gpu_gb: self.whole_gpu_gb,
            held: &self.held,
            guaranteed: &self.guaranteed,
            needs_consent: self.needs_consent,
            checked: &self.checked,
        };
        let warnings = admit_in_place(operation, object, old, &view)?;
        let warn = |message| Problem::new(message).of_object(key);
        // What is to be said of a template was said of whatever makes pods from it.
        if !warnings.is_empty() && field::controller(object).is_none() {
            self.warnings.extend(warnings.into_iter().map(warn));
        }
        Ok(())
    }

    /// A pod that runs in the cluster it is from. Where admission would refuse it now, it runs all the same.
    pub(super) fn adopted(&mut self, key: &ObjectKey, mut pod: Value) -> Value {
        if let Err(Rejection { message: why, .. }) = self.admit(Operation::Create, key, &mut pod, None) {
            let message = format!("runs and is counted, though it would be refused if it were made now: {why}");
            self.warnings.push(Problem::new(message).of_object(key));
        }
        pod
    }
}
