//! The dashboard of a live cluster: views of what the scheduler sees, for whoever signs in with a token.

mod gate;
mod onlooker;
mod source;

pub use gate::TokenGate;
pub use onlooker::Watcher;
pub use source::LiveSource;
