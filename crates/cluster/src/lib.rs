//! The engine on a real Kubernetes API server.
//!
//! ```text
//!   API server ──watches──▶ Scheduler (translator, engine) ──writes──▶ dispatcher ──calls──▶ API server
//!                               ▲                                          │
//!                               └───────── what did not happen ◀───────────┘
//! ```
//!
//! What decides what to write is `quotient-host`, as in the simulator. This crate brings objects to it and sends its
//! requests. [`limit`] and [`thin`] do no I/O and read no clock; everything that waits for a network is in [`watch`],
//! [`dispatch`], [`lease`], [`live`] and [`webhook`]. Nothing is written without the lease, which is checked when a
//! request is sent; but for the authority of the webhooks' certificates, as webhooks are served without it.

pub mod bulk;
pub mod call;
pub mod clock;
pub mod connect;
pub mod dispatch;
mod door;
pub mod follow;
pub mod install;
pub mod lease;
pub mod limit;
pub mod lines;
pub mod live;
pub mod metrics;
pub mod onlook;
pub mod patience;
pub mod permission;
pub mod profile;
mod quota_figures;
pub mod rehearsal;
pub mod review;
pub mod serve;
pub mod served;
pub mod system;
pub mod thin;
pub mod watch;
pub mod webhook;
pub mod wire;

pub use connect::{Clients, ConnectError, connect};
pub use lease::{Fence, LeaseSettings};
pub use live::{LiveSettings, rehearse, run, run_before};
pub use metrics::Metrics;
