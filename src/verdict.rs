//! What one trial says of its load: met, missed, undecided, or nothing at all.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::loadgen::record::RequestRecord;
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
    /// Medians of the margins of successive equal parts of the trial (up to 8): how the server's
    /// pace wandered meanwhile.
    #[serde(default)]
    pub blocks: Vec<f32>,
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

/// Share of the requests that could not connect above which a trial says nothing of the server.
const CONNECT_SHARE: f64 = 0.1;
/// Share of the streams in one burst above which TTFT and ITL are not measurable.
const BUFFERED_SHARE: f64 = 0.5;
/// A stream whose tokens after the first come faster than this was handed on in one burst, seconds
/// a token: no engine decodes at 5,000 tokens a second for one user.
const BURST_TPOT: f64 = 0.2e-3;
/// Achieved output length, as a share of the one asked for, below which the load was not the one
/// that was asked for.
const LENGTH_SHARE: f64 = 0.5;

/// Why the measured requests of a trial are no valid measurement, if they are not.
pub fn void_reason(slo: &Slo, measured: &[RequestRecord]) -> Option<VoidReason> {
    if measured.is_empty() {
        return None;
    }
    let share = |count: usize, of: usize| count as f64 / of.max(1) as f64;
    let lost: Vec<&RequestRecord> =
        measured.iter().filter(|r| r.failure().is_some_and(|cause| cause.is_infrastructure())).collect();
    let lost_share = share(lost.len(), measured.len());
    if lost_share > CONNECT_SHARE {
        return Some(VoidReason::Infrastructure { share: lost_share, detail: most_frequent_detail(&lost) });
    }
    let whole: Vec<&RequestRecord> = measured.iter().filter(|record| record.is_completed()).collect();
    if slo.needs_streaming() {
        let long: Vec<&&RequestRecord> = whole.iter().filter(|record| record.output_tokens() >= 8).collect();
        let bursts = long.iter().filter(|record| is_burst(record)).count();
        let burst_share = share(bursts, long.len());
        if burst_share > BUFFERED_SHARE {
            return Some(VoidReason::BufferedStream { share: burst_share });
        }
    }
    if !whole.is_empty() {
        let mean = |tokens: fn(&RequestRecord) -> u32| {
            whole.iter().map(|record| f64::from(tokens(record))).sum::<f64>() / whole.len() as f64
        };
        let (asked, got) = (mean(|record| record.osl), mean(RequestRecord::output_tokens));
        if got < LENGTH_SHARE * asked {
            return Some(VoidReason::OutputLength { asked, got });
        }
    }
    None
}

/// Whether a whole response came in one burst after a wait that was far longer.
fn is_burst(record: &RequestRecord) -> bool {
    match (record.tpot(), record.ttft(), record.e2e()) {
        (Some(tpot), Some(ttft), Some(e2e)) => tpot < BURST_TPOT && e2e - ttft < 0.1 * ttft,
        _ => false,
    }
}

fn most_frequent_detail(failed: &[&RequestRecord]) -> String {
    let mut counts = std::collections::BTreeMap::new();
    for record in failed {
        if let crate::loadgen::record::Outcome::Failed { detail, .. } = &record.outcome {
            *counts.entry(detail.as_str()).or_insert(0_u32) += 1;
        }
    }
    counts
        .into_iter()
        .max_by_key(|&(_, count)| count)
        .map_or_else(String::new, |(detail, _)| detail.to_owned())
}
