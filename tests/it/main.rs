//! Integration tests: one file a promise.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

mod closed_loop;
mod connections;
mod failures;
mod quirks;
mod secrets;
mod tls;
