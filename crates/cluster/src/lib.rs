//! The engine on a real Kubernetes API server.
//!
//! ```text
//!   API server ──watches──▶ Scheduler (translator, engine) ──writes──▶ dispatcher ──calls──▶ API server
//!                               ▲                                          │
//!                               └───────── what did not happen ◀───────────┘
//! ```
//!
//! Reading and deciding are those of the simulator: [`quotient_api::Translator`] and [`quotient_engine::Engine`]. This
//! crate only brings objects to them and carries decisions out. [`scheduler`], [`controllers`], [`queue`], [`limit`] and
//! [`thin`] do no I/O and read no clock; everything that waits for a network is in [`watch`], [`dispatch`], [`lease`] and [`live`].
//! Nothing is written without the lease, which is checked when a request is sent.

pub mod asked;
pub mod call;
pub mod carry_out;
pub mod connect;
pub mod controllers;
pub mod dispatch;
pub mod event;
pub mod install;
pub mod lease;
pub mod limit;
pub mod live;
pub mod metrics;
pub mod objects;
pub mod patch;
pub mod patrol;
pub mod permission;
pub mod queue;
pub mod rehearsal;
pub mod scheduler;
pub mod serve;
pub mod subject;
pub mod system;
pub mod thin;
pub mod watch;
pub mod webhook;
pub mod write;

pub use connect::{Clients, ConnectError, connect};
pub use lease::{Fence, LeaseSettings};
pub use live::{LiveSettings, rehearse, run};
pub use metrics::Metrics;
pub use objects::{Objects, SharedObjects};

/// The name under which everything is written: field manager, event source, user agent.
pub const FIELD_MANAGER: &str = "quotient";
