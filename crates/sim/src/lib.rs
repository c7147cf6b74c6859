//! A virtual cluster around the engine that schedules real ones.
//!
//! The same engine, the same translation and the same admission run here as in a live cluster; this
//! crate replaces only what is around them: the API server, the clock, the kubelets and the
//! controllers that make pods. On top of it are `simulate` (apply files, report) and scenarios (tests of
//! quota policies). Nothing here reads a clock or draws a random number: the same input gives the
//! same bytes.

pub mod ages;
pub mod bounds;
pub mod clock;
pub mod cluster;
mod controllers;
pub mod expect;
mod field;
pub mod junit;
mod naming;
pub mod provisioner;
pub mod quota_names;
pub mod report;
pub mod run;
pub mod scenario;
pub mod server;
mod shape;
pub mod simulate;
pub mod store;
pub mod subject;

pub use ages::Partings;
pub use cluster::{Cluster, Setup, Stuck};
pub use junit::junit;
pub use report::Report;
pub use run::{ScenarioResult, StepResult, run, run_on};
pub use scenario::Scenario;
pub use simulate::{Input, Progress, Simulation, simulate};
pub use subject::{Observed, Subject, Trouble};
