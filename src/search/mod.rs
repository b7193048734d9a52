//! The search: what to measure next, and what the measurements say.
//!
//! A [`Strategy`] is asked for the next trial and told what came of it. It does no I/O and reads no
//! clock: fed the same outcomes it asks the same questions, which is what `replay`, `resume` and
//! `selftest` stand on.

pub mod answer;
pub mod bisect;
mod evidence;
pub mod grid;
#[cfg(test)]
mod tests;
pub mod trial;

pub use answer::{Answer, Boundary, Goodput, SearchOutcome};
pub use bisect::Bisect;
pub use grid::Grid;
pub use trial::{Ask, Settle, StopRule, TrialKind, TrialOutcome, TrialSpec};

/// A way to search: asked for a trial, told its outcome, until it has an answer.
pub trait Strategy {
    /// The next trial to run, or that the search is over.
    fn ask(&mut self) -> Ask;

    /// Takes in the outcome of the trial that was asked for.
    fn tell(&mut self, outcome: &TrialOutcome);

    /// The answer as far as it is known; final once [`Strategy::ask`] has said [`Ask::Done`].
    fn answer(&self) -> Answer;

    /// Expected number of trials still to come, for the progress display.
    fn remaining(&self) -> u32;
}
