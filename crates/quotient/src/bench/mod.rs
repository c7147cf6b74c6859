//! Measuring the engine: workloads, cases, memory, goals.
//!
//! The engine is used as the scheduler uses it, by `observe` and `decide` and nothing else, and it is told facts the
//! way the readers of manifests make them: every pod brings a spec of its own, however alike they are.

pub mod case;
pub mod goal;
pub mod growth;
pub mod memory;
pub mod workload;
