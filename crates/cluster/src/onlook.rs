//! Whoever looks on while a live scheduler works: is told what is seen and what is decided, and is never in the way.

use quotient_engine::Engine;
use quotient_host::scheduler::{Happened, Now, Seen};

/// Somebody who looks on, such as a dashboard. Calls come from the scheduler's own task and must return at once.
pub trait Onlooker: Send + Sync {
    /// A session begins, with nothing known.
    fn begins(&self);
    /// An object was seen, or is gone.
    fn sees(&self, seen: &Seen);
    /// Something was decided, or is wrong with an object.
    fn hears(&self, now: Now, happened: &[Happened]);
    /// A moment to look at the engine; it comes about once a second, once everything was seen. Whoever wants to look
    /// for
    /// longer takes a copy.
    fn looks(&self, now: Now, engine: &Engine);
}
