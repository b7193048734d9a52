//! The search: what to measure next, and what the measurements say.
//!
//! A [`Strategy`] is asked for the next trial and told what came of it. It does no I/O and reads no
//! clock: fed the same outcomes it asks the same questions, which is what `replay`, `resume` and
//! `selftest` stand on.

pub mod adaptive;
pub mod answer;
pub mod bayes;
pub mod bisect;
pub mod bottleneck;
pub mod confirm;
pub mod designs;
mod evidence;
pub mod gate;
pub mod grid;
pub mod importance;
pub mod judge;
pub mod race;
pub mod rate;
pub mod repeats;
pub mod soak;
#[cfg(test)]
mod tests;
pub mod trial;
pub mod tuner;
pub mod windows;

pub use adaptive::Adaptive;
pub use answer::{Answer, Boundary, Goodput, Resolution, SearchOutcome};
pub use bisect::Bisect;
pub use bottleneck::{Bottleneck, BottleneckKind, Confidence, bottleneck};
pub use gate::Gate;
pub use grid::Grid;
pub use judge::{Judged, Place, judge};
pub use rate::RateSearch;
pub use soak::Soak;
pub use trial::{Ask, ClearRule, Settle, StopRule, TrialKind, TrialOutcome, TrialSpec};

use crate::plan::{ArrivalsPlan, Budget, Plan, StrategyPlan, TrialPlan};
use crate::slo::Slo;

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
    if let Some(arrivals) = &plan.arrivals {
        return over_rates(&slo, arrivals, &plan.strategy, plan.trial, plan.budget, plan.seed);
    }
    match &plan.strategy {
        StrategyPlan::Adaptive { precision } => {
            let mut settings = adaptive::settings::Settings::new(plan.load, *precision, plan.seed);
            settings.budget = plan.budget;
            Box::new(Adaptive::new(slo, settings))
        }
        StrategyPlan::Bisect { precision } => Box::new(Bisect::new(slo, plan.load, *precision, plan.trial)),
        StrategyPlan::Gate { test } => Box::new(Gate::new(slo, plan.load, *test, plan.budget, plan.seed)),
        StrategyPlan::Soak { hold } => Box::new(Soak::new(slo, plan.load, *hold)),
        StrategyPlan::Grid { levels, warm } => {
            let grid = Grid::new(slo, plan.load, levels, plan.trial);
            let grid = if *warm { grid.warmed() } else { grid };
            Box::new(if plan.ramp.is_some() { grid.once() } else { grid })
        }
    }
}

/// A strategy over the rates of an open loop, or over the speed-up of a trace.
pub fn over_rates(
    slo: &Slo,
    arrivals: &ArrivalsPlan,
    strategy: &StrategyPlan,
    trial: TrialPlan,
    budget: Budget,
    seed: u64,
) -> Box<dyn Strategy> {
    let levels = RateSearch::levels(arrivals);
    let own = slo.clone();
    let inner: Box<dyn Strategy> = match strategy {
        StrategyPlan::Adaptive { precision } => {
            let mut settings = adaptive::settings::Settings::new(levels, *precision, seed);
            settings.budget = budget;
            let inner = Box::new(Adaptive::new(own.clone(), settings));
            return Box::new(RateSearch::adaptive(inner, own, arrivals));
        }
        StrategyPlan::Bisect { precision } => Box::new(Bisect::new(own.clone(), levels, *precision, trial)),
        StrategyPlan::Gate { test } => Box::new(Gate::new(own.clone(), levels, *test, budget, seed)),
        StrategyPlan::Soak { hold } => Box::new(Soak::new(own.clone(), levels, *hold)),
        StrategyPlan::Grid { .. } => {
            let grid = Grid::new(own.clone(), levels, &RateSearch::grid(arrivals), trial);
            let moves = arrivals.curve.is_some() && arrivals.trace_rate().is_none();
            Box::new(if moves { grid.once() } else { grid })
        }
    };
    Box::new(RateSearch::sized(inner, own, arrivals, trial))
}
