//! Who may write: the holder of a Lease.
//!
//! Several processes may run; one of them has the lease and writes, the others watch and are ready to go on. The clocks
//! of machines are not compared: each one watches for *changes* of the lease and times them with its own clock that
//! only grows. A lease that did not change for as long as it lasts may be taken; it is taken by writing the version
//! that was read, so that of two who try one succeeds.
//!
//! ```text
//!   |<--------------------- duration, 15 s --------------------->| another may take it
//!   |<---------- renew within, 10 s ---------->|
//!   renewed                          writes stop being sent      and none of ours arrives any more
//! ```

mod watched;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use quotient_api::{ObjectKey, kinds, time};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::call::{CALL_TIMEOUT, Call, CallError, Content, kind_path};
use crate::clock::wall_us;
use crate::lines::Lines;
use crate::metrics::Metrics;
pub use watched::Watched;

/// Which lease, and how long it lasts.
#[derive(Debug, Clone)]
pub struct LeaseSettings {
    pub namespace: String,
    pub name: String,
    /// Who we are, unlike everybody else.
    pub identity: String,
    /// Others may take a lease that was not renewed for this long.
    pub duration: Duration,
}

/// How often the lease is renewed, or looked at by those who do not have it: this part of its duration.
const RENEWALS_PER_DURATION: u32 = 7;

impl LeaseSettings {
    fn retry(&self) -> Duration {
        self.duration / RENEWALS_PER_DURATION
    }

    /// For how long after a renewal was sent we may write: what is sent in the last moment has arrived or was given up
    /// before another may have the lease.
    fn writes_for(&self) -> Duration {
        self.duration - self.call_timeout()
    }

    /// How long a write may take.
    fn call_timeout(&self) -> Duration {
        CALL_TIMEOUT.min(self.duration / 2)
    }
}

/// Says at any moment whether we may write.
#[derive(Debug, Clone)]
pub struct Fence {
    begun: Instant,
    /// Milliseconds after `begun` until which we may write; 0: we may not.
    until_ms: Arc<AtomicU64>,
    /// The same by the time of day, which also counts while the machine sleeps.
    until_wall_ms: Arc<AtomicU64>,
    call_timeout: Duration,
}

impl Fence {
    /// Nothing may be written until it is opened. What is written may take `call_timeout`.
    pub fn closed(call_timeout: Duration) -> Self {
        let never = || Arc::new(AtomicU64::new(0));
        Fence { begun: Instant::now(), until_ms: never(), until_wall_ms: never(), call_timeout }
    }

    /// Everything may be written: for one that is alone.
    pub fn open() -> Self {
        let fence = Fence::closed(CALL_TIMEOUT);
        fence.until_wall_ms.store(u64::MAX, Ordering::Release);
        fence.until_ms.store(u64::MAX, Ordering::Release);
        fence
    }

    /// How long a request may take that is sent now.
    pub fn call_timeout(&self) -> Duration {
        self.call_timeout
    }

    /// Whether we may write now.
    pub fn holds(&self) -> bool {
        // The clock that only grows stands still while the machine sleeps; the time of day does not. Of a time of day
        // that was set back the former is left, and one that was set forward closes the fence until the next renewal.
        (self.begun.elapsed().as_millis() as u64) < self.until_ms.load(Ordering::Acquire)
            && wall_ms() < self.until_wall_ms.load(Ordering::Acquire)
    }

    fn open_until(&self, until: Instant) {
        let ms = until.saturating_duration_since(self.begun).as_millis() as u64;
        let left = until.saturating_duration_since(Instant::now()).as_millis() as u64;
        self.until_wall_ms.store(wall_ms().saturating_add(left), Ordering::Release);
        self.until_ms.store(ms, Ordering::Release);
    }

    fn close(&self) {
        self.until_ms.store(0, Ordering::Release);
    }
}

fn wall_ms() -> u64 {
    u64::try_from(wall_us() / 1000).unwrap_or(0)
}

/// The lease as somebody wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    holder: String,
    renewed: String,
    duration: Duration,
    transitions: i64,
    version: String,
}

impl Record {
    fn read(object: &Value) -> Self {
        let text = |field: &str| object.pointer(field).and_then(Value::as_str).unwrap_or_default().to_string();
        let number = |field: &str| object.pointer(field).and_then(Value::as_i64).unwrap_or(0);
        Record {
            holder: text("/spec/holderIdentity"),
            renewed: text("/spec/renewTime"),
            duration: Duration::from_secs(number("/spec/leaseDurationSeconds").try_into().unwrap_or(0)),
            transitions: number("/spec/leaseTransitions"),
            version: text("/metadata/resourceVersion"),
        }
    }
}

/// A time in which we have the lease without a break. A lease that was lost and won again at once is another: whoever
/// looks late sees that there was a break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term(u64);

impl Term {
    /// The only one of a process that is alone.
    pub const ALONE: Term = Term(0);

    /// The one after this.
    pub fn next(self) -> Self {
        Term(self.0 + 1)
    }
}

/// Takes and keeps the lease. What it has is told through `leads` and the fence.
pub struct Elector {
    lines: Lines,
    settings: LeaseSettings,
    fence: Fence,
    leads: watch::Sender<Option<Term>>,
    /// The term that begins when it is won.
    next_term: Term,
    /// What was last seen, and since when by our own clock.
    observed: Option<(Record, Instant)>,
    metrics: Metrics,
    watched: Watched,
}

/// So often it is tried to read the lease before a scheduler begins without what it says.
const READS_MAX: u32 = 5;

impl Elector {
    /// One that does not have the lease yet; whether it has is seen through what is returned.
    pub fn new(
        lines: Lines,
        settings: LeaseSettings,
        metrics: Metrics,
    ) -> (Self, Fence, watch::Receiver<Option<Term>>) {
        let (fence, (leads, receiver)) = (Fence::closed(settings.call_timeout()), watch::channel(None));
        (
            Elector {
                lines,
                settings,
                fence: fence.clone(),
                leads,
                next_term: Term::ALONE,
                observed: None,
                metrics,
                watched: Watched::default(),
            },
            fence,
            receiver,
        )
    }

    /// What the lease says of who had it before, once it could be read; what it is to say later is told there.
    pub async fn watched(&self) -> Watched {
        for _ in 0..READS_MAX {
            match Call::get(&self.key()).send(&self.lines, &Fence::open()).await {
                Ok(lease) => {
                    self.watched.learn(&lease);
                    break;
                }
                Err(CallError::NotFound(_)) => break,
                Err(error) => tracing::warn!(%error, "the lease cannot be read yet"),
            }
            tokio::time::sleep(self.settings.retry()).await;
        }
        self.watched.clone()
    }

    /// Goes on for ever; stop it by dropping, or gently with [`Elector::release`].
    pub async fn run(&mut self) {
        loop {
            let held = self.try_once().await;
            let leads = match held {
                Ok(held) => held,
                // A lease that cannot be renewed is still ours until its time is up.
                Err(error) => {
                    tracing::warn!(%error, "the lease cannot be read or written");
                    self.fence.holds()
                }
            };
            if !leads {
                self.fence.close();
            }
            if leads != self.leads() {
                let LeaseSettings { namespace, name, identity, .. } = &self.settings;
                match leads {
                    true => tracing::info!(lease = format!("{namespace}/{name}"), identity, "has the lease"),
                    false => tracing::warn!(lease = format!("{namespace}/{name}"), identity, "lost the lease"),
                }
                self.leads.send_replace(leads.then_some(self.next_term));
                if leads {
                    self.next_term = self.next_term.next();
                }
                self.metrics.count_lease_transition(leads);
            }
            tokio::time::sleep(self.settings.retry()).await;
        }
    }

    fn leads(&self) -> bool {
        self.leads.borrow().is_some()
    }

    /// Gives the lease back, so that another need not wait.
    pub async fn release(&mut self) {
        self.fence.close();
        let Some((record, _)) = &self.observed else { return };
        if record.holder != self.settings.identity {
            return;
        }
        let mut object = self.object(record, record.transitions);
        object["spec"]["holderIdentity"] = json!("");
        object["spec"]["leaseDurationSeconds"] = json!(1);
        // Whoever waits for it sees that it is free; if this does not arrive they wait until it has run out.
        let _ = self.put(object).await;
    }

    /// Reads the lease, renews it or takes it where we may; says whether it is ours.
    async fn try_once(&mut self) -> Result<bool, CallError> {
        let begun = Instant::now();
        let led = self.leads();
        let found = match Call::get(&self.key()).send(&self.lines, &self.fence).await {
            Ok(object) => {
                self.watched.learn(&object);
                Record::read(&object)
            }
            Err(CallError::NotFound(_)) if led => return Ok(false),
            Err(CallError::NotFound(_)) => return self.create(begun).await,
            Err(error) => return Err(error),
        };
        let known = self.observed.take().filter(|(known, _)| *known == found);
        let since = known.map_or(begun, |(_, since)| since);
        self.observed = Some((found.clone(), since));
        let ours = found.holder == self.settings.identity;
        // Another had it meanwhile, and may have given it back: what was decided before that is not to be written.
        if led && !ours {
            return Ok(false);
        }
        let lasts = found.duration.max(Duration::from_secs(1));
        if !ours && !found.holder.is_empty() && begun.duration_since(since) < lasts {
            return Ok(false);
        }
        let transitions = found.transitions + i64::from(!ours);
        match self.put(self.object(&found, transitions)).await {
            Ok(written) => {
                self.won(begun, &written);
                Ok(true)
            }
            // Another was faster. One that is ours may have been touched by somebody else: it is read again.
            Err(CallError::Conflict(_)) if !ours => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn create(&mut self, begun: Instant) -> Result<bool, CallError> {
        let nobody = Record {
            holder: String::new(),
            renewed: String::new(),
            duration: Duration::ZERO,
            transitions: 0,
            version: String::new(),
        };
        let kind = kinds::find("coordination.k8s.io", "Lease").expect("the kind is in the table");
        let path = kind_path(kind, Some(&self.settings.namespace));
        let call = Call::at(Method::POST, path, Content::Json, self.object(&nobody, 0));
        match call.send(&self.lines, &Fence::open()).await {
            Ok(written) => {
                self.won(begun, &written);
                Ok(true)
            }
            Err(CallError::Conflict(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The lease is ours. It counts from when we asked for it, not from when we were told.
    fn won(&mut self, begun: Instant, written: &Value) {
        self.observed = Some((Record::read(written), begun));
        self.fence.open_until(begun + self.settings.writes_for());
    }

    /// The lease itself is not fenced: it is what the fence hangs on.
    async fn put(&self, object: Value) -> Result<Value, CallError> {
        Call::new(Method::PUT, &self.key(), None, Content::Json, object).send(&self.lines, &Fence::open()).await
    }

    fn key(&self) -> ObjectKey {
        let kind = kinds::find("coordination.k8s.io", "Lease").expect("the kind is in the table");
        ObjectKey::new(kind, Some(&self.settings.namespace), &self.settings.name)
    }

    fn object(&self, found: &Record, transitions: i64) -> Value {
        let LeaseSettings { namespace, name, identity, duration } = &self.settings;
        let now = micro_time(wall_us());
        let mut metadata = json!({"name": name, "namespace": namespace});
        if !found.version.is_empty() {
            metadata["resourceVersion"] = json!(found.version);
        }
        if let Some(until) = self.watched.to_tell() {
            metadata["annotations"] = json!({watched::WATCHED_UNTIL: until});
        }
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata,
            "spec": {"holderIdentity": identity, "leaseDurationSeconds": duration.as_secs().max(1), "renewTime": now,
                "leaseTransitions": transitions},
        })
    }
}

/// The election, in a task of its own: the lease is renewed however long a cycle takes.
pub struct Election {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Election {
    pub fn begin(mut elector: Elector) -> Self {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = elector.run() => {}
                _ = stopped => elector.release().await,
            }
        });
        Election { stop, task }
    }

    /// Gives the lease back.
    pub async fn end(self) {
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

/// A time as a Lease has it: with six digits after the second, always.
fn micro_time(us: i64) -> String {
    let seconds = time::format_timestamp(us.div_euclid(1_000_000) * 1_000_000);
    format!("{}.{:06}Z", seconds.trim_end_matches('Z'), us.rem_euclid(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_opens_for_a_while() {
        let fence = Fence::closed(CALL_TIMEOUT);
        assert!(!fence.holds());
        fence.open_until(Instant::now() + Duration::from_secs(60));
        assert!(fence.holds());
        fence.open_until(Instant::now());
        assert!(!fence.holds(), "its time is up");
        assert!(Fence::open().holds());
    }

    #[test]
    fn writes_stop_before_another_may_begin() {
        for seconds in [1, 4, 15, 60] {
            let duration = Duration::from_secs(seconds);
            let (namespace, name, identity) = (String::new(), String::new(), String::new());
            let settings = LeaseSettings { namespace, name, identity, duration };
            assert!(settings.writes_for() + settings.call_timeout() <= duration);
            assert!(settings.retry() * 2 < settings.writes_for(), "a renewal may fail once");
        }
    }

    #[test]
    fn times_have_six_digits() {
        assert_eq!(micro_time(1_767_225_600_000_042), "2026-01-01T00:00:00.000042Z");
    }
}
