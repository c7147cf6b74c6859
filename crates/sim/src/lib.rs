//! A virtual cluster around the engine that schedules real ones.
//!
//! What decides what to write is `quotient-host`, as in a live cluster, and so are the engine, the translation and
//! admission. This crate replaces only what is around it: the API server, the clock, the kubelets and the controllers
//! of kube-controller-manager. On top of it are `simulate` (apply files, report) and scenarios (tests of
//! quota policies). Nothing here reads a clock, and draws (of a forecast) are the same each time: the same input gives
//! the same bytes.

pub mod ages;
mod answer;
pub mod bounds;
pub mod clock;
pub mod cluster;
pub mod controllers;
pub mod expect;
mod field;
pub mod forecast;
pub mod junit;
mod naming;
pub mod provisioner;
pub mod quota_names;
pub mod random;
mod replica;
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
pub use naming::is_uid as is_virtual_uid;
pub use report::Report;
pub use run::{ScenarioResult, StepResult, run, run_on};
pub use scenario::Scenario;
pub use simulate::{Input, Progress, Simulation, simulate};
pub use subject::{Observed, Subject, Trouble};
