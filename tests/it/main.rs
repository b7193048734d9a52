//! Integration tests: one file a promise.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cli_bad_input;
mod cli_help;
mod cli_recipes;
mod layering;
mod simulator_agreement;
mod simulator_client;
mod simulator_faults;
mod simulator_http;
