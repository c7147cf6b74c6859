//! The thread of what comes by the thousand: the answers to writes, and what watches tell.
//!
//! While many requests are under way this thread rests a moment before it looks at its sockets again, and takes in
//! together what came meanwhile: to wake for each answer takes time from the API server on the same machine, and from
//! us. Nothing else runs here: leases, webhooks and probes are answered at once by other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

/// The thread. It ends with the value, which must not be dropped on a thread that answers requests.
#[derive(Debug)]
pub struct Bulk {
    runtime: Runtime,
    rest_us: Arc<AtomicU64>,
}

impl Bulk {
    pub fn begin() -> std::io::Result<Self> {
        let rest_us = Arc::<AtomicU64>::default();
        let rest = rest_us.clone();
        // One thread does more requests than an API server answers: two would only wake each other.
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).thread_name("bulk").enable_all().on_thread_park(move || {
            let rest_us = rest.load(Ordering::Relaxed);
            if rest_us > 0 {
                std::thread::sleep(Duration::from_micros(rest_us));
            }
        });
        Ok(Bulk { runtime: builder.build()?, rest_us })
    }

    pub fn handle(&self) -> BulkHandle {
        BulkHandle { handle: self.runtime.handle().clone(), rest_us: self.rest_us.clone() }
    }
}

/// A way to that thread. Clones lead to the same.
#[derive(Debug, Clone)]
pub struct BulkHandle {
    pub handle: Handle,
    rest_us: Arc<AtomicU64>,
}

impl BulkHandle {
    /// The runtime that this is called in, whose threads do not rest.
    pub fn current() -> Self {
        BulkHandle { handle: Handle::current(), rest_us: Arc::default() }
    }

    /// Says for how long the thread rests before it looks at its sockets again.
    pub fn rest(&self, rest: Duration) {
        self.rest_us.store(rest.as_micros() as u64, Ordering::Relaxed);
    }
}
