//! Claims on devices: random clusters with claims in every form, and what the program makes of them beside a naive
//! allocator and the rules of quotas, both written from their documents alone.
//!
//! After every step that settles: what claims have is theirs alone and what they asked for; quotas hold what follows
//! from it, and no more than they may; nobody waits beside devices that are free and that its quotas have room for, or
//! that others borrow and it is owed; and a new scheduler with the same objects finds nothing left to do.

pub mod allocator;
pub mod case;
pub mod devices;
pub mod explore;
pub mod judge;
