//! Service-level objectives: what they say, and what one request says about them.
//!
//! An SLO is a list of objectives `metric stat op threshold`; it is met when all are. An objective
//! on a percentile is judged by counting: `ttft p95 < 500ms` says that at most 5 % of requests may
//! take 500 ms or longer. That count is linear in the data, so a short trial estimates it without
//! bias, which a percentile of a short trial does not.
//!
//! ```
//! use plimsoll::slo::Slo;
//! let slo = Slo::parse(["ttft p95 < 500ms", "tpot:p90<=50ms"]).unwrap();
//! assert_eq!(slo.objectives[0].to_string(), "ttft p95 < 500 ms");
//! assert_eq!(slo.objectives[1].allowed_misses(), Some(0.1));
//! let slo = Slo::parse(["ttft p99 < 800ms over 30s worst"]).unwrap();
//! assert_eq!(slo.objectives[0].window, Some(30.0));
//! ```
//!
//! An objective with a window must hold in every full window of that length; the worst one is its figure.

mod grammar;
mod reader;
#[cfg(test)]
mod tests;
mod text;
mod threshold;
mod words;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use grammar::SloError;

use crate::loadgen::record::RequestRecord;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Time to first token.
    Ttft,
    /// Time to second token (after the first).
    Ttst,
    /// Inter-token latency: every gap between tokens is a sample.
    Itl,
    /// Time per output token of a request, after the first.
    Tpot,
    /// End-to-end latency.
    E2e,
    /// Longest gap within a request.
    Stall,
    /// Output tokens a second that one user sees: 1 / TPOT.
    OutputTokensPerSecondPerUser,
    /// Requests a second that meet every per-request objective.
    Goodput,
    /// Share of requests that meet every per-request objective.
    Attainment,
    /// Share of requests that failed.
    Errors,
}

/// Which turns of conversations an objective is about. A request that is no conversation's is a first
/// turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Turns {
    /// All of them.
    #[default]
    All,
    /// The first turn: nothing of it has been computed before.
    First,
    /// The later turns: a prefix cache may hold what was said before.
    Later,
}

impl Turns {
    /// Whether all turns are meant.
    #[allow(clippy::trivially_copy_pass_by_ref)] // As serde asks for it.
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }

    /// Whether a request is meant by its turn, counted from 1; none for one that is no conversation's.
    pub fn hold(self, turn: Option<u32>) -> bool {
        match self {
            Self::All => true,
            Self::First => turn.unwrap_or(1) <= 1,
            Self::Later => turn.is_some_and(|turn| turn > 1),
        }
    }

    /// The word of the grammar, `[first]`; empty for all.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::All => "",
            Self::First => "[first]",
            Self::Later => "[later]",
        }
    }
}

/// Which figure of the metric's samples is judged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stat {
    /// Arithmetic mean.
    Mean,
    /// Percentile, in (0, 100).
    Percentile(f64),
    /// Largest sample.
    Max,
    /// The metric is one figure of the whole trial (goodput, attainment, errors).
    Value,
}

/// How the figure is compared with the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

impl Op {
    /// Whether `value` satisfies the comparison with `threshold`.
    pub fn holds(self, value: f64, threshold: f64) -> bool {
        match self {
            Op::Less => value < threshold,
            Op::AtMost => value <= threshold,
            Op::Greater => value > threshold,
            Op::AtLeast => value >= threshold,
        }
    }

    /// Whether large values are the good ones.
    pub fn wants_large(self) -> bool {
        matches!(self, Op::Greater | Op::AtLeast)
    }
}

/// One objective. The threshold is in seconds, tokens a second, requests a second, or a share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Objective {
    /// What is measured.
    pub metric: Metric,
    /// On which turns.
    #[serde(default, skip_serializing_if = "Turns::is_all")]
    pub turns: Turns,
    /// Which figure of it.
    pub stat: Stat,
    /// How it is compared.
    pub op: Op,
    /// With what: seconds, a rate per second, or a share 0..1.
    pub threshold: f64,
    /// Length of the windows that must each hold, seconds; the whole measurement where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<f64>,
}

/// A limit that each single request is held to; requests within all of them are good.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestLimit {
    /// What is measured.
    pub metric: Metric,
    /// On which turns.
    #[serde(default, skip_serializing_if = "Turns::is_all")]
    pub turns: Turns,
    /// How it is compared.
    pub op: Op,
    /// With what: seconds or tokens a second.
    pub threshold: f64,
    /// For [`Metric::Itl`]: the share of a request's own gaps that may exceed the threshold.
    pub allowed_gaps: f64,
}

/// A service-level objective: met when every objective is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
#[schemars(with = "Vec<String>")]
pub struct Slo {
    /// The objectives, in the order given.
    pub objectives: Vec<Objective>,
    /// What makes a single request a good one (goodput and attainment count these).
    pub limits: Vec<RequestLimit>,
}

impl Slo {
    /// No objective at all: what a measurement is judged by when nothing is asked of it.
    pub fn none() -> Self {
        Self { objectives: Vec::new(), limits: Vec::new() }
    }

    /// Reads objectives in the SLO grammar: `<metric> <stat> <op> <value><unit>`, parts set apart by
    /// blanks or `:`; several may stand in one text, set apart by `,` or `;`. vLLM's goodput form
    /// `ttft:500 tpot:50` (milliseconds) is understood as limits on each request, of which 95 % must
    /// keep all.
    ///
    /// # Errors
    /// Says what was expected, and at which character.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, SloError> {
        grammar::parse(texts)
    }

    /// Whether a request is good: completed and within every limit.
    pub fn is_good(&self, record: &RequestRecord) -> bool {
        record.is_completed() && self.limits.iter().all(|limit| limit.holds(record))
    }

    /// Whether a limit on time to first token, inter-token gaps or the like is asked for, which only
    /// a streamed response can tell.
    pub fn needs_streaming(&self) -> bool {
        let streamed = |metric: Metric| {
            matches!(
                metric,
                Metric::Ttft
                    | Metric::Ttst
                    | Metric::Itl
                    | Metric::Tpot
                    | Metric::Stall
                    | Metric::OutputTokensPerSecondPerUser
            )
        };
        self.objectives.iter().any(|objective| streamed(objective.metric))
            || self.limits.iter().any(|limit| streamed(limit.metric))
    }

    /// The longest window of an objective, seconds, if one has a window.
    pub fn longest_window(&self) -> Option<f64> {
        self.objectives.iter().filter_map(|objective| objective.window).reduce(f64::max)
    }

    /// The tightest limit on time to first token, seconds, if there is one.
    pub fn ttft_limit(&self) -> Option<f64> {
        self.tightest_ttft(|_| true)
    }

    /// The same of a request by its turn, counted from 1.
    pub fn ttft_limit_of(&self, turn: Option<u32>) -> Option<f64> {
        self.tightest_ttft(|turns| turns.hold(turn))
    }

    /// An objective or a limit that is about the later turns of conversations, or the first ones alone.
    pub fn names_turns(&self) -> bool {
        self.objectives.iter().any(|objective| !objective.turns.is_all())
    }

    fn tightest_ttft(&self, meant: impl Fn(Turns) -> bool) -> Option<f64> {
        self.limits
            .iter()
            .filter(|limit| limit.metric == Metric::Ttft && meant(limit.turns))
            .map(|limit| limit.threshold)
            .reduce(f64::min)
    }
}

impl RequestLimit {
    /// Whether a request keeps this limit; one of other turns does. A figure that the request does not have (TPOT of a single
    /// token) breaks no limit.
    pub fn holds(&self, record: &RequestRecord) -> bool {
        if !self.turns.hold(record.turn) {
            return true;
        }
        if self.metric == Metric::Itl {
            let (mut over, mut all) = (0_u32, 0_u32);
            record.for_each_itl(|gap| {
                all += 1;
                over += u32::from(!self.op.holds(gap, self.threshold));
            });
            return f64::from(over) <= self.allowed_gaps * f64::from(all);
        }
        self.metric.of_request(record).is_none_or(|value| self.op.holds(value, self.threshold))
    }
}

impl Metric {
    /// The metric's figure of one request, where it has one; `None` also for metrics that are not
    /// figures of a request (ITL has many samples, goodput is the trial's).
    pub fn of_request(self, record: &RequestRecord) -> Option<f64> {
        match self {
            Metric::Ttft => record.ttft(),
            Metric::Ttst => record.ttst(),
            Metric::Tpot => record.tpot(),
            Metric::E2e => record.e2e(),
            Metric::Stall => record.stall(),
            // Tokens that were all read at one instant show no rate.
            Metric::OutputTokensPerSecondPerUser => {
                record.tpot().filter(|&tpot| tpot > 0.0).map(|tpot| 1.0 / tpot)
            }
            Metric::Itl | Metric::Goodput | Metric::Attainment | Metric::Errors => None,
        }
    }

    /// The name used in the grammar and in files.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Ttft => "ttft",
            Metric::Ttst => "ttst",
            Metric::Itl => "itl",
            Metric::Tpot => "tpot",
            Metric::E2e => "e2e",
            Metric::Stall => "stall",
            Metric::OutputTokensPerSecondPerUser => "output-tokens-per-second-per-user",
            Metric::Goodput => "goodput",
            Metric::Attainment => "attainment",
            Metric::Errors => "errors",
        }
    }

    /// Whether the metric is a duration.
    pub fn is_time(self) -> bool {
        matches!(self, Metric::Ttft | Metric::Ttst | Metric::Itl | Metric::Tpot | Metric::E2e | Metric::Stall)
    }
}

impl Objective {
    /// The same over a whole measurement, or over one window.
    #[must_use]
    pub fn whole(&self) -> Self {
        Self { window: None, ..*self }
    }

    /// Whether both judge the same figure.
    fn is_of_the_same(&self, other: &Self) -> bool {
        (self.metric, self.turns, self.stat, self.window)
            == (other.metric, other.turns, other.stat, other.window)
    }

    /// The share of samples that may break the threshold, for objectives that are judged by
    /// counting: percentiles, the maximum, attainment and errors. `None` for means and goodput, and for
    /// the worst of several windows, which is one figure of a trial.
    pub fn allowed_misses(&self) -> Option<f64> {
        if self.window.is_some() {
            return None;
        }
        match (self.metric, self.stat) {
            (Metric::Attainment, _) => Some(round_share(1.0 - self.threshold)),
            (Metric::Errors, _) => Some(self.threshold),
            (_, Stat::Percentile(p)) if self.op.wants_large() => Some(round_share(p / 100.0)),
            (_, Stat::Percentile(p)) => Some(round_share(1.0 - p / 100.0)),
            (_, Stat::Max) => Some(0.0),
            _ => None,
        }
    }

    /// Distance of `figure` from the threshold on the log scale, positive when missed: 0.1 is about
    /// 10 % beyond the limit.
    pub fn margin(&self, figure: f64) -> f64 {
        let ratio = (figure.max(1e-12) / self.threshold.max(1e-12)).ln();
        if self.op.wants_large() { -ratio } else { ratio }
    }
}

/// Takes the rounding of binary fractions off a share: 1 - 0.95 is 0.05.
fn round_share(share: f64) -> f64 {
    (share * 1e9).round() / 1e9
}
