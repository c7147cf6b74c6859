//! Tests of the dashboard.
//! One program holds them all, since linking is most of what a test program costs.

mod bundle;
mod history;
mod story;
mod tenants;
