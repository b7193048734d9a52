//! The constants of the adaptive search, in one place; docs/decisions.md says how each was set.

use crate::plan::{Budget, LoadRange};
use crate::search::trial::{ClearRule, Settle};

/// What the adaptive search is set to.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The levels that may be tried.
    pub range: LoadRange,
    /// First level.
    pub start: u32,
    /// Relative width of the interval at which the search may stop.
    pub precision: f64,
    /// Stated coverage of the interval.
    pub confidence: f64,
    /// Hard bounds on cost.
    pub budget: Budget,
    /// Seed of the placement of trials.
    pub seed: u64,
    /// Requests of a measuring trial where the binding objective is judged by counting.
    pub counted_requests: u32,
    /// Requests of a measuring trial where it is judged by a line.
    pub line_requests: u32,
    /// Fewest measuring trials before an answer.
    pub least_trials: usize,
    /// Most measuring trials.
    pub most_trials: usize,
    /// Divisor of the log likelihood of counts.
    pub temper: f64,
    /// Factor on the sd of the line's crossing.
    pub inflation: f64,
    /// Posterior mass of the interval that is reported as `confidence`, for objectives judged by
    /// counting and by a line (calibrated by simulation).
    pub mass: (f64, f64),
    /// Whether a confirmation trial at the safe load ends the search.
    pub confirm: bool,
}

impl Settings {
    /// The defaults for a range of levels and a precision.
    pub fn new(range: LoadRange, precision: f64, seed: u64) -> Self {
        Self {
            range,
            start: 8,
            precision,
            confidence: 0.95,
            budget: Budget::default(),
            seed,
            counted_requests: 200,
            line_requests: 96,
            least_trials: 5,
            most_trials: 120,
            temper: 1.6,
            inflation: 1.15,
            mass: (0.97, 0.99),
            confirm: true,
        }
    }
}

/// The rule of a navigation trial: clear at three standard errors and 12 % beyond the limit.
pub const NAVIGATION: ClearRule = ClearRule {
    least: 16,
    give_up: 32,
    z: 3.0,
    margin: 0.12,
    shared_variance: 0.045 * 0.045 + 0.01,
    max_seconds: 120.0,
};
/// Settling before a navigation trial.
pub const NAVIGATION_SETTLE: Settle = Settle { completions_per_user: 0.15, truncate: false };
/// Settling before a measuring trial after a small step, and after a step of more than 35 %.
pub const SETTLE: (f64, f64) = (1.0, 1.5);
