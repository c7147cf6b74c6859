//! Tests of the binary, of what ships, and of the documentation.
//! One program holds them all, since linking is most of what a test program costs.

mod action;
mod any_object;
mod as_it_comes;
mod attacks;
mod book;
mod chart;
mod cli;
mod completion;
mod conformance;
mod daemon;
mod dashboard;
mod docs;
mod faults;
mod files;
mod forgeries;
mod install;
mod install_again;
mod live_scenarios;
mod migrate;
mod moving_in;
mod release;
mod round_trip;
mod run;
mod schema;
mod schemas;
