//! Now, by both clocks.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use quotient_engine::Tick;
use quotient_host::Now;

use crate::rehearsal::HeldTime;

/// A clock that only grows, with the time of day beside it.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    begun: Instant,
    begun_ms: u64,
    /// Time that stands still, in a rehearsal.
    held: Option<HeldTime>,
}

impl Clock {
    pub(crate) fn new(held: Option<HeldTime>) -> Self {
        Clock { begun: Instant::now(), begun_ms: u64::try_from(wall_us() / 1000).unwrap_or(0), held }
    }

    pub(crate) fn now(&self) -> Now {
        if let Some(held) = &self.held {
            let tick = held.tick();
            return Now { tick, wall_us: i64::try_from(tick.0).unwrap_or(i64::MAX).saturating_mul(1000) };
        }
        let tick = Tick(self.begun_ms + self.begun.elapsed().as_millis() as u64);
        Now { tick, wall_us: wall_us() }
    }

    /// When to look again, if by itself it will ever be so late.
    pub(crate) fn instant_of(&self, tick: Tick) -> Option<Instant> {
        let by_itself = self.held.is_none();
        by_itself.then(|| self.begun + Duration::from_millis(tick.0.saturating_sub(self.begun_ms)))
    }
}

/// Microseconds since the Unix epoch, by a clock that may be set.
pub fn wall_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
