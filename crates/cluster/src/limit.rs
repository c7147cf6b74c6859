//! How many requests are under way at once: as many as the API server answers well.
//!
//! The limit grows by one for each good answer until the server first says that it has too much to do, or does not
//! answer. Then it is halved, and grows by one for each limit's worth of good answers. So it comes to rest near what
//! the server can take, without anybody setting a rate.

use std::time::{Duration, Instant};

use crate::call::CallError;

/// The limit never falls below this: something must be tried to see whether things are better.
const CONCURRENT_MIN: u32 = 2;

/// A halving is given this long to have an effect before the next one: the answers to requests that were sent before it
/// say nothing about it.
const HALVE_EVERY: Duration = Duration::from_secs(1);

/// A limit that follows what the server can take.
#[derive(Debug)]
pub struct Limit {
    max: u32,
    limit: u32,
    /// Good answers since the limit last grew.
    good: u32,
    halved_at: Option<Instant>,
    /// Nothing is sent before this.
    paused_until: Option<Instant>,
    /// How often in a row the server had too much to do.
    refusals: u32,
}

impl Limit {
    /// A limit that starts at `start` and never passes `max`.
    pub fn new(start: u32, max: u32) -> Self {
        Limit { max, limit: start.min(max), good: 0, halved_at: None, paused_until: None, refusals: 0 }
    }

    /// How many requests may be under way now.
    pub fn allowed(&self, now: Instant) -> usize {
        if self.paused_until.is_some_and(|until| now < until) { 0 } else { self.limit as usize }
    }

    /// Until when nothing is sent, if so.
    pub fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.paused_until.filter(|until| now < *until)
    }

    /// Takes in what came of a request: only that the server has too much to do, or does not answer, says something
    /// about other requests.
    pub fn learn(&mut self, now: Instant, error: Option<&CallError>) {
        match error {
            Some(CallError::Throttled { after, .. }) => self.overloaded(now, *after),
            Some(CallError::Unavailable(_)) => self.overloaded(now, None),
            Some(CallError::Fenced) => {}
            // One object that the server fails at says nothing about the others.
            _ => self.answered(),
        }
    }

    /// The server answered, whatever it said, in good time.
    fn answered(&mut self) {
        self.refusals = 0;
        self.good += 1;
        if self.halved_at.is_none() || self.good >= self.limit {
            self.good = 0;
            self.limit = (self.limit + 1).min(self.max);
        }
    }

    /// The server has too much to do and asks for `after`, or did not answer at all.
    fn overloaded(&mut self, now: Instant, after: Option<Duration>) {
        if self.halved_at.is_none_or(|at| now.duration_since(at) >= HALVE_EVERY) {
            self.halved_at = Some(now);
            self.limit = (self.limit / 2).max(CONCURRENT_MIN);
            self.good = 0;
            self.refusals += 1;
        }
        let own = Duration::from_millis(100) * 2u32.pow(self.refusals.min(6));
        let until = now + after.unwrap_or(own).max(own);
        self.paused_until = self.paused_until.max(Some(until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::call_error;
    use kube::core::Status;

    #[test]
    fn what_the_server_says_of_one_object_throttles_no_other() {
        let now = Instant::now();
        for (code, is_paused) in
            [(404, false), (409, false), (422, false), (500, false), (429, true), (502, true), (503, true), (504, true)]
        {
            let mut limit = Limit::new(8, 10);
            let error = call_error(kube::Error::Api(Status { code, ..Status::default() }.boxed()));
            limit.learn(now, Some(&error));
            assert_eq!(limit.allowed(now) == 0, is_paused, "{code}: {error:?}");
        }
    }

    #[test]
    fn it_grows_with_good_answers_and_is_halved_once_for_a_burst_of_refusals() {
        let begun = Instant::now();
        let mut limit = Limit::new(8, 10);
        limit.answered();
        assert_eq!(limit.allowed(begun), 9, "nothing speaks against more");
        (0..100).for_each(|_| limit.answered());
        assert_eq!(limit.allowed(begun), 10, "never more than its maximum");
        (0..5).for_each(|_| limit.overloaded(begun, None));
        assert_eq!(limit.allowed(begun), 0, "it pauses");
        let later = begun + Duration::from_secs(10);
        assert_eq!(limit.allowed(later), 5);
        (0..4).for_each(|_| limit.answered());
        assert_eq!(limit.allowed(later), 5, "it was too much once");
        limit.answered();
        assert_eq!(limit.allowed(later), 6);
        limit.overloaded(later, Some(Duration::from_secs(30)));
        assert_eq!(limit.paused_until(later), Some(later + Duration::from_secs(30)), "as the server asks");
        for second in 0..10 {
            limit.overloaded(later + Duration::from_secs(second), None);
        }
        assert_eq!(limit.allowed(later + Duration::from_secs(100)), CONCURRENT_MIN as usize);
    }
}
