//! Replays a workload trace through the real engine, in virtual time.
//!
//! A [`Trace`] is objects with the time at which each was submitted and how long each pod runs. [`replay`] submits them
//! to the engine with the nodes and quotas of a [`Configuration`](quotient_api::Configuration) and reports waits, use,
//! fragmentation, fairness and evictions. Reading, admission and translation are those of the live program; this crate
//! replaces the API server, the kubelets and the clock, as `quotient-sim` does, but stores no pod as an object: a trace
//! has too many of them. Nothing here reads a clock, so that the same trace gives the same figures.
//!
//! [`page`] writes what came of it as one HTML file that needs nothing else.

mod books;
pub mod figures;
pub mod forecasts;
pub mod lines;
mod measure;
pub mod openb;
pub mod page;
pub mod plot;
pub mod tell;
pub mod trace;
mod world;

pub use figures::Figures;
pub use trace::{Event, Life, Trace, TraceError};
pub use world::{Progress, Stuck, replay, replay_asking};
