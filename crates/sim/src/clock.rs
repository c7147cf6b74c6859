//! Virtual time. It stands still until somebody lets it pass.

use std::time::Duration;

use quotient_engine::Tick;

/// When a virtual cluster begins: 2026-01-01T00:00:00Z, in microseconds since the Unix epoch.
const START_US: i64 = 1_767_225_600_000_000;

/// The clock of a virtual cluster.
///
/// Creation times are handed out one microsecond apart at least, so that of two objects one is
/// always the older, also where both were made in the same instant.
#[derive(Debug, Clone)]
pub struct Clock {
    now_us: i64,
    last_created_us: i64,
    /// Creation times are whole seconds, and grow only when somebody lets them.
    in_whole_seconds: bool,
}

impl Default for Clock {
    fn default() -> Self {
        Clock { now_us: START_US, last_created_us: START_US - 1, in_whole_seconds: false }
    }
}

impl Clock {
    /// Now, in microseconds since the Unix epoch.
    pub fn now_us(&self) -> i64 {
        self.now_us
    }

    /// Now, or when the last object was made, whichever is later: what comes after is later than this.
    pub fn last_us(&self) -> i64 {
        self.now_us.max(self.last_created_us)
    }

    /// Now, as the engine counts time.
    pub fn tick(&self) -> Tick {
        Tick(u64::try_from(self.now_us / 1000).expect("virtual time starts after the Unix epoch"))
    }

    /// The moment that the engine calls `tick`, in microseconds.
    pub fn us_of(tick: Tick) -> i64 {
        i64::try_from(tick.0).unwrap_or(i64::MAX / 1000).saturating_mul(1000)
    }

    /// The moment that is `duration` from now, in microseconds.
    pub fn after_us(&self, duration: Duration) -> i64 {
        self.now_us.saturating_add(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
    }

    /// Lets time pass until `us`; never back.
    pub fn advance_to(&mut self, us: i64) {
        self.now_us = self.now_us.max(us);
    }

    /// The creation time of an object that is made now, later than every one before it.
    pub fn created(&mut self) -> i64 {
        if self.in_whole_seconds {
            self.last_created_us = self.last_created_us.max(whole_second(self.now_us));
            return self.last_created_us;
        }
        self.last_created_us = self.now_us.max(self.last_created_us + 1);
        self.last_created_us
    }

    /// From now on creation times are whole seconds, as an API server has them.
    pub fn create_in_whole_seconds(&mut self) {
        self.in_whole_seconds = true;
        self.last_created_us = whole_second(self.now_us);
    }

    /// What is made from now on is a second younger than what was made before.
    pub fn next_second_of_creation(&mut self) {
        if self.in_whole_seconds {
            self.last_created_us += SECOND_US;
        }
    }
}

const SECOND_US: i64 = 1_000_000;

fn whole_second(us: i64) -> i64 {
    us.div_euclid(SECOND_US) * SECOND_US
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creation_times_grow_within_an_instant_and_follow_the_time() {
        let mut clock = Clock::default();
        let first = clock.created();
        let second = clock.created();
        assert_eq!((first, second), (START_US, START_US + 1));
        clock.advance_to(clock.after_us(Duration::from_secs(1)));
        assert_eq!(clock.created(), START_US + 1_000_000);
        clock.advance_to(START_US);
        assert_eq!(clock.now_us(), START_US + 1_000_000, "time does not go back");
    }

    #[test]
    fn whole_seconds_of_creation_grow_when_they_are_told_to_and_with_the_time() {
        let mut clock = Clock::default();
        clock.create_in_whole_seconds();
        assert_eq!([clock.created(), clock.created()], [START_US; 2]);
        clock.next_second_of_creation();
        assert_eq!(clock.created(), START_US + 1_000_000);
        clock.advance_to(START_US + 7_500_000);
        assert_eq!(clock.created(), START_US + 7_000_000);
    }
}
