//! Integration tests: one file a promise.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cli_bad_input;
mod cli_help;
mod cli_recipes;
mod closed_loop;
mod connections;
mod failures;
mod layering;
mod quirks;
mod secrets;
mod simulator_agreement;
mod simulator_client;
mod simulator_faults;
mod simulator_http;
mod stored_runs;
mod support;
mod tls;
mod tune;
