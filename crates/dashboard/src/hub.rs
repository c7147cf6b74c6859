//! The newest view with its journal and history; whoever watches is told when there is a newer one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::history::History;
use crate::journal::{Eviction, Journal};
use crate::view::View;

/// What is shared between the source of views and the server.
pub struct Hub {
    inner: Mutex<Inner>,
    changed: watch::Sender<u64>,
}

/// The state behind the hub.
pub struct Inner {
    pub view: Arc<View>,
    pub version: u64,
    pub journal: Journal,
    pub history: History,
}

impl Hub {
    /// A hub with a history of frames of this length.
    pub fn new(frame_ms: i64) -> Arc<Self> {
        let (view, history) = (Arc::new(View { whole: true, ..View::default() }), History::new(frame_ms));
        let inner = Inner { view, version: 0, journal: Journal::default(), history };
        Arc::new(Hub { inner: Mutex::new(inner), changed: watch::Sender::new(0) })
    }

    /// The state. Nobody panics while it is held but by a fault; what is there then is still whole.
    pub fn state(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a newer view, and the evictions since the one before.
    pub fn publish(&self, view: View, evictions: &[Eviction]) {
        let version = {
            let mut inner = self.state();
            let Inner { view: current, version, journal, history } = &mut *inner;
            let view = Arc::new(view);
            journal.note(current, &view, evictions);
            history.observe(&view, evictions);
            *current = view;
            *version += 1;
            *version
        };
        self.changed.send_replace(version);
    }

    /// Starts anew from an earlier moment: what came after it is forgotten.
    pub fn go_back(&self, view: View) {
        let version = {
            let mut inner = self.state();
            let at_ms = view.at_ms;
            inner.journal.forget_after(at_ms);
            inner.history.forget_after(at_ms);
            inner.view = Arc::new(view);
            inner.version += 1;
            inner.version
        };
        self.changed.send_replace(version);
    }

    /// Says that something beside the view is different, such as the speed of a demo.
    pub fn touch(&self) {
        let version = {
            let mut inner = self.state();
            inner.version += 1;
            inner.version
        };
        self.changed.send_replace(version);
    }

    /// The versions, as they come.
    pub fn versions(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}
