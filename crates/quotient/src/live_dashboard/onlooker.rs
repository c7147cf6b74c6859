//! Observes the scheduler and makes views for the process of the dashboard.
//!
//! Objects are kept as far as pages show them. A view is made in a thread of its own from a copy of the engine, at most
//! once a second and in at most a twentieth of the time, and only when something changed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quotient_api::{ObjectKey, key_of};
use quotient_cluster::onlook::{Onlooker, whole};
use quotient_dashboard::journal::Eviction;
use quotient_dashboard::shared::Name;
use quotient_dashboard::view::{Sources, View};
use quotient_engine::Engine;
use quotient_host::scheduler::{Happened, Now, Seen};
use quotient_host::subject::Subject;
use serde_json::{Value, json};

use super::Pages;

/// Frames of the history: 720 of them are four hours.
pub const FRAME_MS: i64 = 20_000;

/// Making a view takes at most this part of the time.
const PACE_FACTOR: u32 = 20;

#[derive(Default)]
struct Kept {
    pods: BTreeMap<ObjectKey, Arc<Value>>,
    nodes: BTreeMap<ObjectKey, Arc<Value>>,
    evictions: Vec<Eviction>,
    changed: bool,
}

/// The scheduler's observer for the dashboard.
pub struct Watcher {
    pages: Arc<Pages>,
    kept: Mutex<Kept>,
    /// A view is being made, or it is too early for the next.
    busy: Arc<AtomicBool>,
    next: Mutex<Instant>,
}

impl Watcher {
    /// A watcher that has seen nothing yet.
    pub fn new(pages: Arc<Pages>) -> Arc<Self> {
        Arc::new(Watcher { pages, kept: Mutex::default(), busy: Arc::default(), next: Mutex::new(Instant::now()) })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What pages show of a pod or a node.
fn thinned(object: &Value) -> Value {
    let at = |pointer: &str| object.pointer(pointer).cloned().unwrap_or(Value::Null);
    json!({
        "metadata": {
            "name": at("/metadata/name"), "namespace": at("/metadata/namespace"), "uid": at("/metadata/uid"),
            "creationTimestamp": at("/metadata/creationTimestamp"),
            "deletionTimestamp": at("/metadata/deletionTimestamp"),
            "labels": at("/metadata/labels"), "annotations": at("/metadata/annotations"),
        },
        "spec": {
            "nodeName": at("/spec/nodeName"), "priority": at("/spec/priority"),
            "unschedulable": at("/spec/unschedulable"),
        },
        "status": {
            "phase": at("/status/phase"), "startTime": at("/status/startTime"), "conditions": at("/status/conditions"),
        },
    })
}

impl Onlooker for Watcher {
    fn begins(&self) {
        *self.kept() = Kept::default();
    }

    fn sees(&self, seen: &Seen, _: &Engine) {
        let mut kept = self.kept();
        kept.changed = true;
        match seen {
            Seen::Object(Subject::Kind(kind), object) if kind.group.is_empty() => {
                let object = &whole(kind, object);
                let Ok(key) = key_of(object) else { return };
                match kind.kind {
                    "Pod" => kept.pods.insert(key, Arc::new(thinned(object))),
                    "Node" => kept.nodes.insert(key, Arc::new(thinned(object))),
                    _ => None,
                };
            }
            Seen::Gone(Subject::Kind(_), key) => {
                kept.pods.remove(key);
                kept.nodes.remove(key);
            }
            _ => {}
        }
    }

    fn hears(&self, now: Now, happened: &[Happened]) {
        if happened.is_empty() {
            return;
        }
        let mut kept = self.kept();
        kept.changed = true;
        for happened in happened {
            if let Happened::Evicted { pod, claimant, reason, message, .. } = happened {
                kept.evictions.push(Eviction {
                    at_ms: now.wall_us / 1000,
                    namespace: Name::from(&pod.namespace),
                    name: Name::from(&pod.name),
                    claimant: claimant.as_ref().map(ToString::to_string),
                    rule: reason.rule.name().to_string(),
                    message: message.clone(),
                });
            }
        }
    }

    fn looks(&self, now: Now, engine: &Engine) {
        let due = *self.next.lock().unwrap_or_else(PoisonError::into_inner) <= Instant::now();
        if !due || !self.kept().changed || self.busy.swap(true, Ordering::AcqRel) {
            return;
        }
        let begun = Instant::now();
        let engine = engine.fork();
        let (pods, nodes, evictions) = {
            let mut kept = self.kept();
            kept.changed = false;
            let evictions = std::mem::take(&mut kept.evictions);
            (
                kept.pods.values().cloned().collect::<Vec<_>>(),
                kept.nodes.values().cloned().collect::<Vec<_>>(),
                evictions,
            )
        };
        let (pages, busy) = (self.pages.clone(), self.busy.clone());
        let took = begun.elapsed();
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) =
            begun + (took * PACE_FACTOR).max(Duration::from_millis(900));
        tokio::task::spawn_blocking(move || {
            let reasons = engine.reasons_now();
            let view = View::of(Sources {
                at_us: now.wall_us,
                engine: &engine,
                reasons: &reasons,
                pods: pods.iter().map(|pod| &**pod),
                nodes: nodes.iter().map(|node| &**node),
            });
            pages.publish(view, evictions);
            // Until this ends no other is begun; so much rest after it that it takes a twentieth of the time.
            let rest = begun.elapsed() * PACE_FACTOR;
            std::thread::sleep(rest.min(Duration::from_secs(60)).saturating_sub(begun.elapsed()));
            busy.store(false, Ordering::Release);
        });
    }
}
