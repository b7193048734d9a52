//! Integration tests: one file a promise.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

mod cli_bad_input;
mod cli_help;
mod cli_recipes;
mod closed_loop;
mod connections;
mod failures;
mod layering;
mod quirks;
mod secrets;
mod tls;
