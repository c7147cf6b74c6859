//! At the start the API server may be on its way too: after a power cut, or while it is upgraded.
//!
//! Who gives up at once is started again later and later by its kubelet, up to five minutes apart.

use std::fmt::Display;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, Instant};

use quotient_host::CallError;

use crate::connect::ConnectError;

/// How long until what failed is tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Between half a pause and the whole of it, so that who began at one moment does not go on at one.
pub fn jittered(pause: Duration) -> Duration {
    let chance = RandomState::new().build_hasher().finish() % 1000;
    pause / 2 + pause.mul_f64(chance as f64 / 2000.0)
}

/// The longest that a server may ask to be left alone.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// What the header field `Retry-After` says, in seconds; a date is what nobody here sends.
pub fn retry_after(field: Option<&[u8]>) -> Option<Duration> {
    let seconds: u64 = std::str::from_utf8(field?).ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX)).filter(|after| !after.is_zero())
}

/// What may be better another time.
pub trait Passing: Display {
    fn may_pass(&self) -> bool;
}

impl Passing for ConnectError {
    fn may_pass(&self) -> bool {
        matches!(self, ConnectError::Unreachable { .. })
    }
}

impl Passing for CallError {
    fn may_pass(&self) -> bool {
        matches!(self, CallError::Throttled { .. } | CallError::Broken(_) | CallError::Unavailable(_))
    }
}

/// Until when failures that may pass are borne.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    until: Instant,
}

impl Patience {
    pub fn of(lasts: Duration) -> Self {
        Patience { until: Instant::now() + lasts }
    }

    /// Tries until it succeeds, fails for good, or has failed for too long. The first failure is said.
    pub async fn bear<T, E: Passing>(&self, attempt: impl AsyncFn() -> Result<T, E>) -> Result<T, E> {
        let mut is_said = false;
        loop {
            let error = match attempt().await {
                Err(error) if error.may_pass() => error,
                done => return done,
            };
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(error);
            }
            if !is_said {
                tracing::warn!("{error}; tried again for {} s", left.as_secs());
                is_said = true;
            }
            tokio::time::sleep(AGAIN_AFTER.min(left)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// What comes of an attempt that fails so often, and how often it was tried.
    fn tried(failures: u32, error: &CallError, lasts: Duration) -> (Result<(), CallError>, u32) {
        let tries = Cell::new(0);
        let attempt = async || {
            tries.set(tries.get() + 1);
            if tries.get() <= failures { Err(error.clone()) } else { Ok(()) }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        (runtime.block_on(Patience::of(lasts).bear(attempt)), tries.get())
    }

    #[test]
    fn what_may_pass_is_tried_again_and_nothing_else() {
        let busy = CallError::Unavailable("busy".to_string());
        let refused = CallError::Refused { code: 403, message: "no".to_string() };
        assert_eq!(tried(1, &busy, Duration::from_secs(60)), (Ok(()), 2));
        assert_eq!(tried(9, &busy, Duration::ZERO), (Err(busy), 1));
        assert_eq!(tried(1, &refused, Duration::from_secs(60)), (Err(refused), 1));
    }
}
