//! What a search found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Interval, Load};

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchOutcome {
    /// The largest load that meets the SLO was found.
    Found,
    /// The SLO is missed already at the lowest load allowed.
    MissedAtLowest,
    /// The SLO is met at the highest load allowed: the answer is a lower bound.
    MetAtHighest,
    /// No valid measurement could be made.
    Void,
    /// The operator or the budget ended the search before it had an answer.
    Interrupted,
}

/// Shape of the latency curve at the boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
    /// Latency rises gently through the limit.
    Smooth,
    /// Latency jumps through the limit: one user more breaks the SLO by far.
    Cliff,
    /// Latency rises in steps.
    Staircase,
}

/// Requests a second within the SLO.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Goodput {
    /// The estimate.
    pub requests_per_second: f64,
    /// Its interval, where there is more than one trial to tell.
    pub interval: Option<Interval>,
}

/// How finely a boundary is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resolution {
    /// Width of the interval relative to the load.
    pub width: f64,
    /// Time that the trials near the boundary have measured, seconds.
    pub measured_seconds: f64,
    /// Width that no method can beat in that time, as the server's own slow noise allows no better;
    /// absent where that noise is not known.
    pub floor: Option<f64>,
    /// Sd of the slow noise as estimated, log scale.
    pub slow_noise: Option<f64>,
    /// Its correlation time, seconds.
    pub slow_noise_seconds: Option<f64>,
}

impl Resolution {
    /// Further seconds of measuring for an interval of this width: what is independent between trials
    /// shrinks with the square root of the time.
    pub fn seconds_for(&self, width: f64) -> f64 {
        self.measured_seconds * ((self.width / width.max(1e-6)).powi(2) - 1.0).max(0.0)
    }
}

/// The answer of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// How the search ended.
    pub outcome: SearchOutcome,
    /// The largest load that meets the SLO, as estimated.
    pub load: Option<Load>,
    /// Where it lies with the stated confidence, in the unit of `load`.
    pub interval: Option<Interval>,
    /// A load that is safe: the lower end of the interval.
    pub safe_load: Option<Load>,
    /// The largest load at which a trial met the SLO.
    pub largest_met: Option<Load>,
    /// The smallest load at which a trial missed the SLO.
    pub smallest_missed: Option<Load>,
    /// Shape of the curve at the boundary.
    pub boundary: Option<Boundary>,
    /// The objective that is missed first as load grows (text of the objective).
    pub binding_objective: Option<String>,
    /// Probability that it is this objective that binds, 0..1.
    pub binding_probability: Option<f64>,
    /// Requests a second within the SLO at `load`.
    pub goodput: Option<Goodput>,
    /// How finely `load` is known, and what finer would cost; absent where it was not estimated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// What the reader should know beside the figures.
    pub notes: Vec<String>,
}

impl Answer {
    /// An answer that knows no more than how the search ended.
    pub fn bare(outcome: SearchOutcome) -> Self {
        Self {
            outcome,
            load: None,
            interval: None,
            safe_load: None,
            largest_met: None,
            smallest_missed: None,
            boundary: None,
            binding_objective: None,
            binding_probability: None,
            goodput: None,
            resolution: None,
            notes: Vec::new(),
        }
    }
}
