//! Tests of the live adapter.
//! One program holds them all, since linking is most of what a test program costs.

mod binary_format;
mod controllers;
mod faulty_servers;
mod real_api_server;
mod scripted;
mod stage;
mod watching;
mod webhooks;
