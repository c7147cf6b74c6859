//! The dashboard of a live cluster: views of what the scheduler sees, for whoever signs in with a token.

pub mod bounds;
mod gate;
mod onlooker;
mod questions;
mod source;
mod told;

pub use gate::TokenGate;
pub use onlooker::{FRAME_MS, Watcher};
pub use source::LiveSource;
pub use told::{Pages, listen};
