//! A simulated cluster of mixed cards, with teams under different quota systems, that lives in accelerated time.
//!
//! [`core`] is the cluster with what is due in it; it is deterministic, so that a seed gives the same story each time
//! and going back in time is a matter of starting from an earlier copy. [`story`] is what is told in it. [`player`]
//! lets
//! it run in real time behind the dashboard.

pub mod core;
pub mod objects;
pub mod player;
pub mod story;

pub use core::Core;
pub use player::Player;
