//! The decision core of Quotient: facts in, decisions out.
//!
//! The engine knows nodes, pods, quotas and budgets as plain data ([`Fact`]) and answers which pods
//! are bound where, who is evicted for whom, and why a pod waits ([`Decision`]). It is pure: it reads
//! no clock, file, environment or network, draws no random number, and iterates no unordered map
//! on the way to a decision, so that the same facts give the same decisions, byte for byte.
//! Amounts are exact integers.

pub mod decision;
pub mod device;
pub mod engine;
pub mod fact;
pub mod quantity;
pub mod reason;

mod budgets;
mod candidates;
mod cap;
mod cards;
mod default_spread;
mod departure;
mod devices;
mod explain;
mod filter;
mod gangs;
mod invariants;
mod ledger;
pub mod limits;
mod load_index;
pub mod lookup;
mod node_rules;
mod nodes;
mod place;
mod pods;
mod policy;
mod preempt;
mod queue;
mod relations;
mod reservations;
mod resources;
mod scan;
mod score;
mod select;
mod shape;
mod sign;
mod topology;
mod tracked;
mod volumes;
mod world;

pub use decision::{
    Budget, Capacity, ClaimBinding, ClaimGrant, Decision, Decisions, DeviceGrants, ExtendedGrant, Rule,
};
pub use engine::{CapSettings, CardSettings, Engine, GroupReport, NodeReport, QuotaReport, Settings, TreeSettings};
pub use explain::NodeVerdict;
pub use fact::{Fact, Tick};
pub use filter::Filter;
pub use filter::taints::tolerates;
pub use policy::PolicyKind;
pub use queue::Turn;
pub use reason::eviction::{
    AmountUse, EvictionCause, EvictionReason, OF_ANOTHER, Overuse, Preemption, QuotaUse, ToldTo,
};
pub use reason::{Code, Numbers, QuotaPath, Reason};
pub use select::{any_term_matches, selects};
