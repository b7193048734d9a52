//! The search: what to measure next, and what the measurements say.
//!
//! A [`Strategy`] is asked for the next trial and told what came of it. It does no I/O and reads no
//! clock: fed the same outcomes it asks the same questions, which is what `replay`, `resume` and
//! `selftest` stand on.

pub mod adaptive;
pub mod answer;
pub mod bayes;
pub mod bisect;
pub mod confirm;
pub mod designs;
mod evidence;
pub mod grid;
pub mod importance;
pub mod race;
#[cfg(test)]
mod tests;
pub mod trial;
pub mod tuner;

pub use adaptive::Adaptive;
pub use answer::{Answer, Boundary, Goodput, SearchOutcome};
pub use bisect::Bisect;
pub use grid::Grid;
pub use trial::{Ask, ClearRule, Settle, StopRule, TrialKind, TrialOutcome, TrialSpec};

use crate::plan::{Plan, StrategyPlan};

/// A way to search: asked for a trial, told its outcome, until it has an answer.
pub trait Strategy {
    /// The next trial to run, or that the search is over.
    fn ask(&mut self) -> Ask;

    /// Takes in the outcome of the trial that was asked for.
    fn tell(&mut self, outcome: &TrialOutcome);

    /// Ends the search where it stands: the budget is used up in the middle of a trial.
    fn stop(&mut self);

    /// The answer as far as it is known; final once [`Strategy::ask`] has said [`Ask::Done`].
    fn answer(&self) -> Answer;

    /// Expected number of trials still to come, for the progress display.
    fn remaining(&self) -> u32;
}

/// The strategy that a plan asks for.
pub fn strategy(plan: &Plan) -> Box<dyn Strategy> {
    let slo = plan.slo.clone();
    match &plan.strategy {
        StrategyPlan::Adaptive { precision } => {
            let mut settings = adaptive::settings::Settings::new(plan.load, *precision, plan.seed);
            settings.budget = plan.budget;
            Box::new(Adaptive::new(slo, settings))
        }
        StrategyPlan::Bisect { precision } => Box::new(Bisect::new(slo, plan.load, *precision, plan.trial)),
        StrategyPlan::Grid { levels } => Box::new(Grid::new(slo, plan.load, levels, plan.trial)),
    }
}
