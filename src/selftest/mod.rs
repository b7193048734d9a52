//! tmp
pub mod lab;
pub mod tally;
