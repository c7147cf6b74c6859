//! The rule of `docs/scheduling.md` as plain code: no index, no cache, every node and every pod, every time.
//!
//! It is written from that page and not from the engine, so that the two can disagree; the property test
//! compares them decision by decision. Whoever changes the rule changes the page, this and the engine.

pub mod affinity;
pub mod claims;
pub mod cycle;
pub mod filters;
pub mod labels;
pub mod node_cap;
pub mod order;
pub mod preemption;
pub mod reserve;
pub mod scores;
pub mod spread;
pub mod volumes;
pub mod world;

#[cfg(test)]
mod tables;

pub use world::World;
