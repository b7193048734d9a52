//! What can be wrong with what the self-test is asked for.

use thiserror::Error;

use crate::slo::SloError;

/// Why the self-test cannot run.
#[derive(Debug, Error)]
pub enum SelfTestError {
    /// No scenario has this name.
    #[error("no scenario is called `{name}`; there are {}", known.join(", "))]
    UnknownScenario {
        /// The name.
        name: String,
        /// Those that there are.
        known: Vec<&'static str>,
    },
    /// A scenario's SLO cannot be read.
    #[error(transparent)]
    Slo(#[from] SloError),
    /// The peers' methods judge percentiles of latencies only.
    #[error("the peers cannot judge `{0}`: they know percentiles of a request's latencies only")]
    NotAPercentile(String),
    /// The tuner's own problem is broken.
    #[error("the tuner's problem cannot be posed: {0}")]
    Problem(String),
}
