//! What is kept of one request: raw instants, never derived figures.
//!
//! Durations are derived later, by methods here and by [`crate::metrics`], so that a finished run
//! can be asked new questions. All instants are seconds on the run's clock (0 = the run's start).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One request that was issued. Every issued request ends in exactly one record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Number of the request within the run, from 0, in the order of the workload.
    pub id: u64,
    /// Trial that was running when the request ended.
    pub trial: u32,
    /// What the request counts as within its trial.
    pub phase: Phase,
    /// Open loop: instant when the request was to be sent. Latency counts from here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scheduled: Option<f64>,
    /// Open loop: how long the request waited for a place under the cap on requests in flight,
    /// seconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub held: Option<f64>,
    /// Instant when the first byte of the request was handed to the socket.
    pub sent: f64,
    /// Arrival of the chunk that held the first output token.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first: Option<f64>,
    /// Arrival of the chunk that held the last output token.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last: Option<f64>,
    /// Instant when the response ended, failed or was given up.
    pub ended: f64,
    /// Gaps between successive chunks that held tokens, in microseconds; the first is from the
    /// first token's chunk to the second's.
    pub gaps_us: Vec<u32>,
    /// Output tokens in each token chunk; empty where every chunk held one token.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub chunk_tokens: Vec<u32>,
    /// Prompt length asked for, tokens (without the chat template).
    pub isl: u32,
    /// Prompt length as the server counted it, tokens.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub isl_server: Option<u32>,
    /// Output length asked for, tokens.
    pub osl: u32,
    /// Output length as the server counted it, tokens.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub osl_server: Option<u32>,
    /// How the request ended.
    pub outcome: Outcome,
    /// Times sent again because a kept-alive connection was found closed before any byte came back.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub resends: u32,
    /// Time in the server's own queue, seconds, where the response tells it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queued: Option<f64>,
    /// The conversation that the request is a turn of, numbered within the run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<u64>,
    /// Which turn of it, from 1.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub turn: Option<u32>,
    /// Whether the conversation ended after this turn because the next one would not have fitted the
    /// context.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub context_full: bool,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// What a request counts as within its trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Sent before the server was warm.
    Warmup,
    /// Sent before the level had settled.
    Transient,
    /// Counted.
    Measured,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Outcome {
    /// The response came whole.
    Completed {
        /// The server's finish reason (`stop`, `length`, ...), where it gave one.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        finish: Option<String>,
    },
    /// The server or the way to it failed the request.
    Failed {
        /// Kind of the failure.
        cause: Failure,
        /// The first words of the server's or the system's message.
        detail: String,
    },
    /// Still in flight when its trial ended, and let go.
    Censored,
    /// Given up by the client on purpose (retreat from an overload, Ctrl-C).
    Cancelled,
}

/// Kinds of failure. Those of [`Failure::is_infrastructure`] are the infrastructure's, not the server's answer to load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// No connection could be opened (refused, no route, DNS).
    Connect,
    /// TLS could not be agreed.
    Tls,
    /// The connection was cut before the response ended.
    Reset,
    /// No answer within the client's time limit.
    Timeout,
    /// HTTP status 429.
    Throttled,
    /// Another HTTP status of 4xx.
    Client,
    /// An HTTP status of 5xx.
    Server,
    /// An `error` object inside a stream that began well.
    InStream,
    /// The body was not what the API promises (HTML, broken JSON, no token at all).
    Malformed,
}

impl Failure {
    /// Whether the failure says nothing about the server's capacity when it comes in numbers.
    pub fn is_infrastructure(self) -> bool {
        matches!(self, Failure::Connect | Failure::Tls | Failure::Reset)
    }
}

impl RequestRecord {
    /// The instant from which latency counts: when the request was to be sent (open loop) or was
    /// sent (closed loop).
    pub fn start(&self) -> f64 {
        self.scheduled.unwrap_or(self.sent)
    }

    /// How late the client was with the request, seconds: sent later than scheduled, without the wait
    /// for a place under the cap. None in a closed loop.
    pub fn lateness(&self) -> Option<f64> {
        self.scheduled.map(|scheduled| (self.sent - scheduled - self.held.unwrap_or(0.0)).max(0.0))
    }

    /// Time to first token, seconds: [`RequestRecord::start`] to the first output token received.
    pub fn ttft(&self) -> Option<f64> {
        self.first.map(|first| first - self.start())
    }

    /// End-to-end latency, seconds: [`RequestRecord::start`] to the last token received.
    pub fn e2e(&self) -> Option<f64> {
        self.last.map(|last| last - self.start())
    }

    /// Output tokens: the server's count where it gave one, else as counted from the chunks.
    pub fn output_tokens(&self) -> u32 {
        match self.osl_server {
            Some(count) => count,
            None if !self.chunk_tokens.is_empty() => self.chunk_tokens.iter().sum(),
            None if self.first.is_some() => self.gaps_us.len() as u32 + 1,
            None => 0,
        }
    }

    /// Time per output token after the first, seconds: `(E2E - TTFT) / (OSL - 1)`.
    pub fn tpot(&self) -> Option<f64> {
        let tokens = self.output_tokens();
        match (self.first, self.last) {
            (Some(first), Some(last)) if tokens > 1 => Some((last - first) / f64::from(tokens - 1)),
            _ => None,
        }
    }

    /// Time to the second token, seconds: first token received to the second one (0 where both came
    /// in one chunk).
    pub fn ttst(&self) -> Option<f64> {
        if self.chunk_tokens.first().is_some_and(|&tokens| tokens > 1) {
            return Some(0.0);
        }
        self.gaps_us.first().map(|&gap| f64::from(gap) * 1e-6)
    }

    /// Longest gap between chunks, seconds.
    pub fn stall(&self) -> Option<f64> {
        self.gaps_us.iter().max().map(|&gap| f64::from(gap) * 1e-6)
    }

    /// Whether the response came whole.
    pub fn is_completed(&self) -> bool {
        matches!(self.outcome, Outcome::Completed { .. })
    }

    /// The kind of failure, if the request failed.
    pub fn failure(&self) -> Option<Failure> {
        match &self.outcome {
            Outcome::Failed { cause, .. } => Some(*cause),
            _ => None,
        }
    }

    /// The HTTP status of a failure that had one.
    pub fn http_status(&self) -> Option<u16> {
        match &self.outcome {
            Outcome::Failed { detail, .. } => detail.strip_prefix("HTTP ")?.get(..3)?.parse().ok(),
            _ => None,
        }
    }

    /// Whether the request was lost on the way: no connection, a connection that was cut, or a gateway
    /// that found no server behind it (502). It says nothing of the load and counts neither way.
    pub fn is_lost(&self) -> bool {
        match self.failure() {
            Some(Failure::Server) => self.http_status() == Some(502),
            Some(cause) => cause.is_infrastructure(),
            None => false,
        }
    }

    /// Inter-token latencies, seconds. A gap before a chunk of `k` tokens is spread evenly: `k`
    /// latencies of `gap / k` each; the tokens after the first within the first chunk arrived with
    /// it and give latencies of zero.
    pub fn for_each_itl(&self, mut visit: impl FnMut(f64)) {
        if self.chunk_tokens.is_empty() {
            self.gaps_us.iter().for_each(|&gap| visit(f64::from(gap) * 1e-6));
            return;
        }
        for _ in 1..self.chunk_tokens.first().copied().unwrap_or(1) {
            visit(0.0);
        }
        for (&gap, &tokens) in self.gaps_us.iter().zip(self.chunk_tokens.iter().skip(1)) {
            for _ in 0..tokens {
                visit(f64::from(gap) * 1e-6 / f64::from(tokens));
            }
        }
    }
}
