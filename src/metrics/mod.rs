//! Records in, figures out: percentiles with their intervals, throughput, goodput, errors.

pub mod arrivals;
pub mod reading;
pub mod sessions;
pub mod summary;
#[cfg(test)]
mod tests;

pub use reading::{Samples, readings};
pub use sessions::{OneTurn, SessionFigures, TurnFigures};
pub use summary::{Counts, Distribution, Summary, token_time};
