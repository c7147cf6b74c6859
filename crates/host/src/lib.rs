//! What decides what to write: the scheduler's loop, the controllers, events, marks and statuses.
//!
//! ```text
//!   objects seen ──▶ Scheduler (translator, engine, controllers) ──▶ Write ──▶ WriteQueue ──▶ carry_out ──▶ Call
//!                        ▲                                                         │                        │
//!                        └──────────────── what did not happen ◀───────────────────┴──── answer ◀───────────┘
//! ```
//!
//! Both programs run this: the live one sends each [`Call`] to a Kubernetes API server, the simulator to its own. There
//! is no network, no clock, no random number and no runtime here: time is an argument, and whoever carries a write out
//! brings the [`Api`] that answers, and the bytes that secret keys are made of. What waits for an answer is a plain
//! future that any executor can poll.

pub mod asked;
pub mod call;
pub mod carry_out;
pub mod controllers;
pub mod event;
pub mod objects;
pub mod patch;
pub mod patrol;
pub mod queue;
pub mod scheduler;
pub mod session;
pub mod shadow;
mod ssh_key;
pub mod subject;
pub mod victims;
pub mod watched;
pub mod write;

pub use call::{Api, Call, CallError, Content, Target, Verb};
pub use carry_out::{carry_out, probe};
pub use objects::{Arrival, Objects, SharedObjects};
pub use queue::{Failed, Feedback, Outcome, PutOff, WriteQueue};
pub use scheduler::{Happened, Now, Round, Scheduler, Seen};
pub use session::{Hold, Parts, Session, Turn};
pub use ssh_key::base64;
pub use subject::Subject;
pub use watched::Watched;
pub use write::{LANES, Lane, PodRef, Slot, Write};

/// The name under which everything is written: field manager, event source, user agent.
pub const FIELD_MANAGER: &str = "quotient";
