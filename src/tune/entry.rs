//! What is kept of each setting that was tried: one line of `settings.jsonl`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::search::Answer;
use crate::search::tuner::{FailureKind, TrialCost, Tried};
use crate::space::Setting;

/// A setting that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Number of the try, from 1.
    pub id: u32,
    /// What it was for.
    pub role: Role,
    /// The knobs.
    pub setting: Setting,
    /// What came of it.
    pub told: Told,
    /// What it took.
    pub cost: TrialCost,
    /// The answer of its run, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Folder of its run, within the tuning's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// File with the engine's output, within the tuning's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

/// What a try is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "stage")]
pub enum Role {
    /// To find the best setting.
    Explore,
    /// To hold the default against the candidates, in turns.
    ConfirmDefault {
        /// The turn, from 0.
        turn: usize,
    },
    /// To hold a candidate against the default.
    ConfirmCandidate {
        /// The turn, from 0.
        turn: usize,
        /// Which one: 0 is the best of the exploration, 1 the runner-up.
        candidate: usize,
    },
}

/// What came of a try.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum Told {
    /// It was measured.
    Measured {
        /// What is maximised: requests a second within the SLO, concurrent requests, or requests a
        /// second for a unit of cost.
        value: f64,
        /// Standard error of its natural log.
        error: f64,
        /// Whether the search was given up early, as it could not beat the best; `value` is between
        /// what was met and the bound then.
        abandoned: bool,
    },
    /// It cannot be used.
    Failed {
        /// How it failed.
        kind: FailureKind,
        /// In a line.
        what: String,
        /// The last lines of the engine's log.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        log_tail: Vec<String>,
    },
}

impl Told {
    /// In the tuner's terms.
    pub fn tried(&self) -> Tried {
        match self {
            Told::Measured { value, error, .. } => {
                Tried::Measured { log_value: value.ln(), variance: error * error }
            }
            Told::Failed { kind, .. } => Tried::Failed(*kind),
        }
    }

    /// What was measured, where something was.
    pub fn value(&self) -> Option<f64> {
        match self {
            Told::Measured { value, .. } => Some(*value),
            Told::Failed { .. } => None,
        }
    }
}
