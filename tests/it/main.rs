//! Integration tests: one file a promise.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bottleneck;
mod cli_bad_input;
mod cli_check;
mod cli_help;
mod cli_plan;
mod cli_recipes;
mod closed_loop;
mod connections;
mod failures;
mod gates;
mod layering;
mod live_page;
mod managed;
mod open_loop;
mod quirks;
mod report_page;
mod secrets;
mod simulator_agreement;
mod simulator_client;
mod simulator_faults;
mod simulator_http;
mod stored_runs;
mod support;
mod tls;
mod watch;
