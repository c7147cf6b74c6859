//! Tests of the decision core.
//! One program holds them all, since linking is most of what a test program costs.

mod cases;
mod elastic;
mod failed_writes;
mod found;
mod gang_evictions;
mod generate;
mod history;
mod many_victims;
mod mixed_gangs;
mod naive;
mod names;
mod node_cap;
mod property;
mod quantity;
mod queues;
mod samples;
mod server;
mod tree;
