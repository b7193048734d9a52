//! Records in, figures out: percentiles with their intervals, throughput, goodput, errors.

pub mod arrivals;
pub mod cold;
pub mod reading;
pub mod sessions;
pub mod slices;
pub mod summary;
#[cfg(test)]
mod tests;
pub mod windows;

pub use cold::ColdStart;
pub use reading::{Samples, readings};
pub use sessions::{OneTurn, SessionFigures, TurnFigures};
pub use slices::{Slice, slices};
pub use summary::{Counts, Distribution, Summary, token_time};
