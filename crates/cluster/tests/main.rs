//! Tests of the live adapter.
//! One program holds them all, since linking is most of what a test program costs.

mod binary_format;
mod controllers;
mod real_api_server;
mod stage;
mod webhooks;
