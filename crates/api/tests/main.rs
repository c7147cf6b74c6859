//! Tests of reading, admission and translation.
//! One program holds them all, since linking is most of what a test program costs.

mod admission;
mod any_json;
mod crd;
mod elastic;
mod facts;
mod keys;
mod limits;
mod requests;
mod told;
mod tree;
mod view;
mod volcano;
mod volcano_job;
mod written_before;
