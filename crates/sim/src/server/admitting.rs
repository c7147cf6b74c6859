//! The virtual API server as admission sees it.

use std::cell::OnceCell;
use std::sync::Arc;

use quotient_api::{Held, ObjectKey, Sums, View};
use serde_json::Value;

use crate::server::guaranteed::Guaranteed;
use crate::store::Store;

/// What admission may ask: the objects, and what is configured.
pub(super) struct Admitting<'a> {
    pub store: &'a Store,
    pub whole_gpu_gb: Option<u32>,
    pub held: &'a OnceCell<Arc<Held>>,
    pub guaranteed: &'a Guaranteed,
    pub needs_consent: bool,
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

    fn guaranteed(&self, group: &str) -> Sums {
        self.guaranteed.of(group)
    }
}
