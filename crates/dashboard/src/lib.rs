//! The dashboard: what its pages read, a history in bounded memory, and the server that answers them.
//!
//! ```text
//!   a simulated cluster (demo)   a live scheduler
//!              └── publish(View) ──┘
//!                       ▼
//!   Hub: the newest View, a Journal of what happened, a History of totals
//!                       ▼
//!   Server: filters by what the Viewer may see, answers JSON and server-sent events
//! ```
//!
//! A [`View`] is plain data about one moment. What a viewer may not see is taken out of it before anything
//! is summed up, so that no total tells of what is hidden. Nothing here decides anything: what-if answers come from a
//! copy of the cluster.

pub mod answers;
mod assets;
pub mod demo;
pub mod gate;
pub mod history;
pub mod hub;
pub mod journal;
pub mod server;
pub mod shared;
pub mod view;
pub mod viewer;
pub mod what_if;

pub use hub::Hub;
pub use view::View;
pub use viewer::Viewer;
