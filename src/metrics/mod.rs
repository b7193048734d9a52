//! Records in, figures out: percentiles with their intervals, throughput, goodput, errors.

pub mod summary;

pub use summary::{Counts, Distribution, Summary};
