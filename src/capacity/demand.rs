//! What is to be carried.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::server::Server;

/// What is to be carried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Demand {
    /// Requests a second.
    Rate(f64),
    /// Users that wait for each answer and then think.
    Users {
        /// Users at the same time.
        users: f64,
        /// Seconds between an answer and the user's next request.
        think: f64,
    },
    /// Output tokens a second.
    OutputTokens(f64),
}

/// A demand that a run's figures cannot turn into a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DemandError {
    /// Users need the time of a request.
    #[error("the run has no end-to-end latency, which tells how often a user comes back; give `--rate`")]
    NoLatency,
    /// Tokens need the length of an output.
    #[error("the run has no output lengths, which tell how many tokens a request is; give `--rate`")]
    NoLengths,
}

impl Demand {
    /// Requests a second that this is to a fleet of such servers. A user sends one request each
    /// E2E + think seconds (the interactive response time law; Denning and Buzen, The operational
    /// analysis of queueing network models, Computing Surveys 10, 1978), with the latency measured at
    /// the answer: a fleet that has more room answers sooner and is asked a little more often, with
    /// fewer requests in flight.
    ///
    /// # Errors
    /// When the run lacks the figure that it takes.
    pub fn rate(self, server: &Server) -> Result<f64, DemandError> {
        match self {
            Self::Rate(rate) => Ok(rate),
            Self::Users { users, think } => {
                let e2e = server.e2e.filter(|&e2e| e2e > 0.0).ok_or(DemandError::NoLatency)?;
                Ok(users / (e2e + think))
            }
            Self::OutputTokens(tokens) => {
                let osl = server.osl.filter(|&osl| osl > 0.0).ok_or(DemandError::NoLengths)?;
                Ok(tokens / osl)
            }
        }
    }

    /// Whether the number of requests in flight cannot fluctuate: users that never pause.
    pub fn is_steady(self) -> bool {
        matches!(self, Self::Users { think, .. } if think == 0.0)
    }
}
