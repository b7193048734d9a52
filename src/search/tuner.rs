//! The search over settings: which one to launch next, and which is best.
//!
//! A [`Tuner`] is asked for a setting and told what came of it: the goodput at the capacity that a
//! search within that setting found, or how it failed. It is pure: told the same, it asks the same.

use serde::{Deserialize, Serialize};

use super::bayes::Bayes;
use super::bayes::gp::Gp;
use super::designs::Listed;
use crate::space::{Point, Space, SpaceError};

/// What a tuner wants next.
#[derive(Clone, Debug, PartialEq)]
pub enum TunerAsk {
    /// This setting.
    Try(Point),
    /// Nothing more.
    Done(Enough),
}

/// Why a tuner is done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "because")]
pub enum Enough {
    /// Every setting of the design was tried.
    AllTried,
    /// The launches allowed are used up.
    OutOfLaunches,
    /// The time that all may take is used up.
    OutOfTime,
    /// No untried setting is expected to bring a gain worth a launch.
    NotWorthALaunch {
        /// The largest expected gain, as a share of the best goodput.
        expected_gain: f64,
    },
}

impl Enough {
    /// In a sentence.
    pub fn words(self) -> String {
        match self {
            Enough::AllTried => "every setting was tried".to_owned(),
            Enough::OutOfLaunches => "the launches allowed are used up".to_owned(),
            Enough::OutOfTime => "the time allowed is used up".to_owned(),
            Enough::NotWorthALaunch { expected_gain } => format!(
                "no untried setting is expected to gain more than {:.1} %, which is not worth a launch",
                100.0 * expected_gain
            ),
        }
    }
}

/// What came of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tried {
    /// It was measured.
    Measured {
        /// Natural log of the objective (goodput, or what is maximised in its place).
        log_value: f64,
        /// Variance of that, from the trials of this setting alone.
        variance: f64,
    },
    /// It cannot be used.
    Failed(FailureKind),
}

/// How a setting failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The engine did not start.
    Start,
    /// It ran out of memory.
    OutOfMemory,
    /// It was not ready in time.
    NotReady,
    /// It crashed under load.
    Crash,
    /// It stopped answering.
    Hang,
    /// It misses the SLO already at the lowest load.
    MissedAtLowest,
    /// No valid measurement could be made.
    Void,
}

impl FailureKind {
    /// In words, after "it".
    pub fn words(self) -> &'static str {
        match self {
            FailureKind::Start => "did not start",
            FailureKind::OutOfMemory => "ran out of memory",
            FailureKind::NotReady => "was not ready in time",
            FailureKind::Crash => "crashed under load",
            FailureKind::Hang => "stopped answering",
            FailureKind::MissedAtLowest => "misses the SLO at the lowest load",
            FailureKind::Void => "could not be measured",
        }
    }
}

/// What a setting took, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TrialCost {
    /// The engine's launch; 0 where it ran already.
    pub launch: f64,
    /// The measurement.
    pub measure: f64,
}

/// The setting to use, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommendation {
    /// The setting.
    pub point: Point,
    /// Log of its objective, by all that is known.
    pub log_value: f64,
    /// Standard deviation of that.
    pub sd: f64,
}

/// A way to search settings.
pub trait Tuner {
    /// The next setting, or that there is none. Asked again before it is told, it says the same.
    fn ask(&mut self) -> TunerAsk;

    /// Takes in what came of a setting, asked for or not.
    fn tell(&mut self, point: &Point, tried: Tried, cost: TrialCost);

    /// The best of the settings that were measured; never one that failed.
    fn recommend(&self) -> Option<Recommendation>;

    /// The settings that were measured and never failed, best first.
    fn ranking(&self) -> Vec<Recommendation>;

    /// The posterior of the log of the objective over encoded points, where the design has one.
    fn model(&self) -> Option<&Gp> {
        None
    }
}

/// The ways to search settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Design {
    /// A Gaussian process with expected improvement; see [`super::bayes`].
    #[default]
    Bayes,
    /// A scrambled Sobol sequence.
    Sobol,
    /// A Latin hypercube.
    Lhs,
    /// At random.
    Random,
    /// Every combination of evenly spaced values, as many as the launches allow, shuffled.
    Grid,
    /// The first value of each knob with the first of the others, the second with the second, and so
    /// on; the values must be countable.
    Zip,
}

/// A tuner over `space` that tries at most `launches` settings.
///
/// # Errors
/// When the design pairs values (zip) and a knob's cannot be counted.
pub fn tuner(
    design: Design,
    space: &Space,
    launches: usize,
    seed: u64,
) -> Result<Box<dyn Tuner>, SpaceError> {
    Ok(match design {
        Design::Bayes => Box::new(Bayes::new(space.clone(), launches, seed)),
        Design::Sobol => Box::new(Listed::of(space, space.sobol(launches, seed), launches)),
        Design::Lhs => Box::new(Listed::of(space, space.latin_hypercube(launches, seed), launches)),
        Design::Random => Box::new(Listed::of(space, space.random(launches, seed), launches)),
        Design::Grid => Box::new(Listed::grid(space, launches, seed)),
        Design::Zip => Box::new(Listed::zip(space, launches)?),
    })
}
