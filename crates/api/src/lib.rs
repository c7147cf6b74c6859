//! Kubernetes objects: reading them, defaulting and checking them, and turning them into engine facts.
//!
//! This is the only crate that knows both what an object looks like and what the engine wants to be
//! told. Objects are plain JSON values here, as they come from a file or from a watch; every reader
//! looks at the fields it needs and ignores the rest, so that an object of a newer API version is read
//! as well as it can be. Nothing in this crate talks to a network or reads a clock, and a malformed
//! object is a [`Problem`] and never a panic.

pub mod admission;
mod budget;
pub mod conditions;
pub mod config;
pub mod crd;
pub mod crossquota;
mod cursor;
pub mod device;
pub mod elastic;
pub mod field;
pub mod gangs;
pub mod gpu_memory;
mod intern;
pub mod json;
mod json_list;
pub mod kinds;
pub mod limits;
pub mod near_names;
mod node;
pub mod object;
mod object_map;
pub mod order;
mod parallel;
mod pod;
pub mod pod_group;
pub mod problem;
mod quota_kinds;
pub mod read;
mod selector;
mod thin;
pub mod time;
pub mod translate;
pub mod tree;
pub mod unknown_fields;
pub mod users;
pub mod volcano;
mod volcano_conf;
mod volume;
mod yaml;

pub use admission::{
    Admitted, CheckedSpecs, Guarded, Operation, Rejection, Request, View, admit, admit_in_place, guarded_kinds, mutate,
    validate,
};
pub use config::Configuration;
pub use crossquota::CrossQuota;
pub use elastic::{Held, Sums};
pub use field::at;
pub use kinds::Kind;
pub use object::{ObjectKey, key_of};
pub use object_map::ObjectMap;
pub use pod::{preemption_message, ties};
pub use problem::Problem;
pub use quota_kinds::is_quota;
pub use read::{Document, Ignored, Place, Read, read, read_path};
pub use translate::{Translation, Translator, TranslatorSettings, is_told, told_kinds};
