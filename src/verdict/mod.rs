//! What one trial says of its load: met, missed, undecided, or nothing at all.
//!
//! [`Checks`] are what its requests and the client showed, [`void_reason`] decides by them whether it
//! is a measurement at all, and [`warnings`] what a reader of valid trials should know of them.

mod checks;
mod gates;
#[cfg(test)]
mod tests;
mod void;
mod warning;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::slo::{Objective, Slo};

pub use checks::{Checks, Overhead};
pub use gates::void_reason;
pub use void::VoidReason;
pub use warning::{Seen, Warning, warnings};

/// The judgement on one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "is", content = "reason")]
pub enum Verdict {
    /// Every objective is met.
    Met,
    /// At least one objective is missed.
    Missed,
    /// The samples do not tell.
    Undecided,
    /// The measurement is not valid; it counts neither way.
    Void(VoidReason),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Met => "met",
            Verdict::Missed => "missed",
            Verdict::Undecided => "undecided",
            Verdict::Void(_) => "void",
        })
    }
}

/// What one trial says about one objective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reading {
    /// Samples that break the threshold, those of failed and overdue requests among them.
    pub over: u32,
    /// Samples in all. 0 for objectives that are not judged by counting.
    pub of: u32,
    /// The objective's figure (seconds, rate or share), where there were samples.
    pub figure: Option<f64>,
    /// `ln(figure / threshold)`, positive when missed, clipped to ±4.
    #[serde(with = "crate::units::any_number")]
    #[schemars(with = "f64")]
    pub margin: f64,
    /// Variance of `margin` as seen within the trial (batch means).
    #[serde(with = "crate::units::any_number")]
    #[schemars(with = "f64")]
    pub variance: f64,
    /// Time average of `ln load` over the lives of the samples.
    #[serde(with = "crate::units::any_number")]
    #[schemars(with = "f64")]
    pub log_load: f64,
    /// The samples' margins as evenly spaced quantiles, ascending (up to 200 points).
    pub profile: Vec<f32>,
    /// Medians of the margins of successive equal parts of the trial (up to 8): how the server's
    /// pace wandered meanwhile.
    #[serde(default)]
    pub blocks: Vec<f32>,
    /// The windows of an objective that has some: the figure is that of the worst one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<Windows>,
}

/// The windows of a trial that an objective such as `ttft p99 < 800ms over 30s worst` looked at.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Windows {
    /// Length of a window, seconds.
    pub seconds: f64,
    /// Full windows within the measured part of the trial, one after the other from its start.
    pub count: u32,
    /// Those that miss the objective.
    pub missed: u32,
    /// When the worst one began, seconds after the measured part did; null where none held a sample.
    pub worst_from: Option<f64>,
}

impl Reading {
    /// The verdict of the counts as they stand, with no allowance for chance.
    pub fn holds(&self, objective: &Objective) -> Option<bool> {
        match objective.allowed_misses() {
            Some(allowed) if self.of > 0 => Some(f64::from(self.over) <= allowed * f64::from(self.of) + 1e-9),
            Some(_) => None,
            None => self.figure.map(|figure| objective.op.holds(figure, objective.threshold)),
        }
    }

    /// Whether there are enough samples for the objective's percentile to be seen at all: at least
    /// one miss must be allowed (20 samples for a p95, 100 for a p99).
    pub fn has_enough(&self, objective: &Objective) -> bool {
        match objective.allowed_misses() {
            Some(allowed) if allowed > 0.0 => f64::from(self.of) * allowed >= 1.0 - 1e-9,
            _ => self.of > 0 || self.figure.is_some(),
        }
    }
}

/// Judges a trial of a size fixed beforehand by its readings, one for each objective of `slo`.
pub fn judge(slo: &Slo, readings: &[Reading]) -> Verdict {
    let mut verdict = Verdict::Met;
    for (objective, reading) in slo.objectives.iter().zip(readings) {
        match reading.holds(objective) {
            // Misses beyond the allowance of a sample that was large enough cannot be taken back by
            // more samples of the same trial; in a small one they can.
            Some(false) => return Verdict::Missed,
            Some(true) if reading.has_enough(objective) => {}
            Some(true) => verdict = Verdict::Undecided,
            None => return Verdict::Void(untold(objective, reading)),
        }
    }
    verdict
}

/// Why a trial has no figure for an objective.
fn untold(objective: &Objective, reading: &Reading) -> VoidReason {
    let objective = objective.to_string();
    match reading.windows {
        Some(Windows { seconds, count: 0, .. }) => VoidReason::ShortForWindow { objective, window: seconds },
        _ => VoidReason::NoSamples { objective },
    }
}
