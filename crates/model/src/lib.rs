//! The rules of quotas once more, written from their documents alone and apart from the engine.
//!
//! The model is simple and slow: exact integers, all sets of victims, each rule a function with the sentence it
//! implements. It watches a virtual cluster decide, and says where a decision differs from the rules. Where the
//! documents can be read in two ways, a difference is one only if it is one in both.
//!
//! It must not know the engine's code. It sees objects and decisions, as anybody outside does.

pub mod amount;
pub mod case;
pub mod check;
pub mod claims;
pub mod cost;
pub mod crowd;
pub mod difference;
pub mod drive;
pub mod explore;
pub mod fit;
pub mod order;
pub mod quota;
pub mod returning;
pub mod rights;
pub mod runtime;
pub mod search;
pub mod shrink;
pub mod world;
pub mod yaml;
