//! How often the search is right, on simulated servers whose capacity is known.

pub mod tally;
