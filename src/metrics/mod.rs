//! Records in, figures out: percentiles with their intervals, throughput, goodput, errors.

pub mod reading;
pub mod summary;

pub use reading::{Samples, readings};
pub use summary::{Counts, Distribution, Summary};
