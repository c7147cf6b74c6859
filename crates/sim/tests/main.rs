//! Tests of the virtual cluster and its scenarios.
//! One program holds them all, since linking is most of what a test program costs.

mod autoscalers;
mod churn;
mod controllers;
mod dice;
mod dumps;
mod expectations;
mod format;
mod node_reasons;
mod quotas;
mod reason_numbers;
mod scenarios;
mod semantics;
mod simulate;
mod storm;
mod trees;
