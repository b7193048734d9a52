//! What one trial says of its load: met, missed, undecided, or nothing at all.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::slo::{Objective, Slo};
use crate::units::significant;

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

/// Why a measurement is not valid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "cause")]
pub enum VoidReason {
    /// The whole response came in one burst although more than one token was sent.
    BufferedStream {
        /// Share of the responses that came so.
        share: f64,
    },
    /// Connections could not be opened.
    Infrastructure {
        /// Share of the requests.
        share: f64,
        /// The most frequent message.
        detail: String,
    },
    /// Responses were much shorter or longer than asked.
    OutputLength {
        /// Mean tokens asked for.
        asked: f64,
        /// Mean tokens that came.
        got: f64,
    },
    /// The client was too slow to send or read in time.
    Client {
        /// Delay of the client's own event loop at p99, seconds.
        lag: f64,
    },
    /// No response held a figure that the SLO judges.
    NoSamples {
        /// The objective without samples.
        objective: String,
    },
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

impl fmt::Display for VoidReason {
    /// What was seen and what to do about it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VoidReason::BufferedStream { share } => write!(
                f,
                "{}% of the streams came in one burst, so TTFT and ITL cannot be seen; take away the buffering proxy, \
                 set the engine to stream every token, or judge by e2e",
                significant(share * 100.0)
            ),
            VoidReason::Infrastructure { share, detail } => write!(
                f,
                "{}% of the requests could not connect ({detail}); check that the server is up and accepts this many connections",
                significant(share * 100.0)
            ),
            VoidReason::OutputLength { asked, got } => write!(
                f,
                "responses held {} tokens on average where {} were asked for; name the engine (`--engine`) so that \
                 it is told to ignore EOS, or give the true output lengths (`--osl`)",
                significant(*got),
                significant(*asked)
            ),
            VoidReason::Client { lag } => write!(
                f,
                "this client was late by {} at p99; run it on a machine with a free core",
                crate::units::Seconds(*lag)
            ),
            VoidReason::NoSamples { objective } => write!(
                f,
                "no response held a figure for `{objective}`; check that responses stream and hold more than one token"
            ),
        }
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
            None => {
                return Verdict::Void(VoidReason::NoSamples { objective: objective.to_string() });
            }
        }
    }
    verdict
}
