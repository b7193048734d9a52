//! How much load can a language-model server carry under its latency SLO?
//!
//! plimsoll measures a live endpoint with its own load engine, searches for the largest load that
//! still meets the SLO, and says how sure it is.

pub mod analysis;
pub mod capacity;
pub mod controller;
pub mod loadgen;
pub mod metrics;
pub mod observed;
pub mod plan;
pub mod profile;
pub mod recipe;
pub mod report;
pub mod rng;
pub mod run;
pub mod search;
pub mod selftest;
pub mod sim;
pub mod slo;
pub mod space;
pub mod stats;
pub mod target;
pub mod telemetry;
pub mod trial;
pub mod tune;
pub mod units;
pub mod verdict;
pub mod workload;
