//! Objects as they were a moment ago, to answer questions from.
//!
//! A question that is answered holds no lock on the objects that the scheduler changes: it may take as long as it
//! likes, and holds up nobody. A snapshot costs a little, and what it shares is copied when it changes: questions at
//! one time share one, and it is forgotten with the last of them.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use quotient_host::objects::{Objects, SharedObjects};

/// For how long questions share a snapshot: less than what a watch takes to tell of a change.
const AGE_MAX: Duration = Duration::from_millis(20);

/// The last snapshot, and since when there is it.
type Last = Option<(Instant, Weak<Objects>)>;

/// Snapshots of objects.
#[derive(Debug, Clone)]
pub struct Snapshots {
    objects: SharedObjects,
    last: Arc<Mutex<Last>>,
}

impl Snapshots {
    pub fn new(objects: SharedObjects) -> Self {
        Snapshots { objects, last: Arc::default() }
    }

    /// Whether everything that there is was seen.
    pub fn is_complete(&self) -> bool {
        self.objects.read().is_complete()
    }

    /// The objects as they are, or were a moment ago.
    pub fn take(&self) -> Arc<Objects> {
        // Whoever panicked left the last snapshot whole.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, objects)) = &*last
            && at.elapsed() < AGE_MAX
            && let Some(objects) = objects.upgrade()
        {
            return objects;
        }
        let objects = Arc::new(self.objects.read().clone());
        *last = Some((Instant::now(), Arc::downgrade(&objects)));
        objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_holds_no_lock_and_stays_as_it_was() {
        let objects = SharedObjects::default();
        let snapshots = Snapshots::new(objects.clone());
        let first = snapshots.take();
        objects.write().complete();
        assert!(!first.is_complete(), "it stays as it was");
        std::thread::sleep(AGE_MAX);
        assert!(snapshots.take().is_complete());
    }
}
