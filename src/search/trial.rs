//! What a strategy asks for, and what it is told.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::loadgen::health::ClientHealth;
use crate::metrics::arrivals::ArrivalFigures;
use crate::metrics::{ColdStart, Counts, Slice, Summary};
use crate::observed::{GpuFigures, HostFigures, ServerFigures};
use crate::slo::{Metric, Objective, Slo};
use crate::units::Load;
use crate::verdict::{Checks, Reading, Seen, Verdict};

/// The next step of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// Run this trial.
    Trial(TrialSpec),
    /// The search is over.
    Done,
}

/// One trial to be run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialSpec {
    /// The load to run it at.
    pub load: Load,
    /// What it is for.
    pub kind: TrialKind,
    /// Whether a lower level is reached by cancelling requests (out of an overload) instead of
    /// letting users leave as their requests end.
    pub retreat: bool,
    /// How the level is left to settle.
    pub settle: Settle,
    /// When it ends.
    pub rule: StopRule,
}

/// What a trial is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrialKind {
    /// Warms the server up; counts for nothing else.
    Warmup,
    /// Finds the way to the boundary; ends as soon as its verdict is clear and only steers.
    Navigate,
    /// Measures, with a size fixed beforehand.
    Measure,
    /// Checks the answer's safe load.
    Confirm,
    /// Returns to an earlier load to see whether the server has drifted.
    Anchor,
}

/// How a level is left to settle before anything counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settle {
    /// Completions at the new level, as a multiple of the level.
    pub completions_per_user: f64,
    /// Whether the start of the series is cut by MSER-5 beyond that.
    pub truncate: bool,
}

/// When a trial ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "rule")]
pub enum StopRule {
    /// After this many measured completions, not before `min_seconds` of measuring, and in any case
    /// `max_seconds` after the level has settled.
    Fixed {
        /// Completions to count.
        requests: u32,
        /// Shortest measured window, seconds.
        min_seconds: f64,
        /// Longest measured window, seconds.
        max_seconds: f64,
    },
    /// As soon as the verdict is clear.
    Clear(ClearRule),
    /// When the step time has stopped falling: two windows in a row that improve by less than
    /// `improvement`.
    Warm {
        /// Length of a window, seconds.
        window: f64,
        /// Relative improvement that still counts as warming up.
        improvement: f64,
        /// Windows at the most.
        windows: u32,
    },
}

impl StopRule {
    /// After so many measured seconds, whatever ends within them.
    pub fn seconds(seconds: f64) -> Self {
        Self::Fixed { requests: 1, min_seconds: seconds, max_seconds: seconds }
    }
}

/// When a navigation trial's verdict is clear.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClearRule {
    /// Samples of TTFT before any verdict; half as many of metrics that take a request's whole life.
    pub least: u32,
    /// Samples of TTFT at which the trial ends unclear.
    pub give_up: u32,
    /// Standard errors that the margin must be away from 0.
    pub z: f64,
    /// Smallest margin (log scale) that is called clear.
    pub margin: f64,
    /// Variance added to the one seen within the trial: what the trial shares with its moment.
    pub shared_variance: f64,
    /// Longest measured window, seconds.
    pub max_seconds: f64,
}

impl ClearRule {
    /// Share of samples over the limit that is a plain miss, whatever the variance.
    const PLAIN_SHARE: f64 = 0.4;
    /// Fewest samples for a plain miss.
    const PLAIN_SAMPLES: u32 = 8;

    /// The verdict of the samples so far, if it is clear (or if there is no use in waiting longer).
    /// Objectives with a window are judged by what there is, as if they had none.
    pub fn judge(&self, slo: &Slo, readings: &[Reading]) -> Option<Verdict> {
        let objectives: Vec<Objective> = slo.objectives.iter().map(Objective::whole).collect();
        let plain = |r: &Reading| {
            r.of >= Self::PLAIN_SAMPLES && f64::from(r.over) > Self::PLAIN_SHARE * f64::from(r.of)
        };
        if objectives
            .iter()
            .zip(readings)
            .any(|(o, r)| o.allowed_misses().is_some_and(|p| p < 0.2) && plain(r))
        {
            return Some(Verdict::Missed);
        }
        let has = |samples: u32| {
            objectives.iter().zip(readings).all(|(objective, reading)| {
                let whole_life = !matches!(objective.metric, Metric::Ttft);
                reading.of >= if whole_life { (self.least / 2).max(6).min(samples) } else { samples }
                    || objective.allowed_misses().is_none()
            })
        };
        if !has(self.least) {
            return None;
        }
        let z = |r: &Reading| r.margin / (r.variance + self.shared_variance).sqrt();
        if readings.iter().any(|r| z(r) > self.z && r.margin > self.margin) {
            Some(Verdict::Missed)
        } else if readings.iter().all(|r| z(r) < -self.z && r.margin < -self.margin) {
            Some(Verdict::Met)
        } else if has(self.give_up) {
            Some(Verdict::Undecided)
        } else {
            None
        }
    }
}

/// What came of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialOutcome {
    /// Number of the trial within the run, from 1.
    pub id: u32,
    /// What was asked for.
    pub spec: TrialSpec,
    /// The judgement.
    pub verdict: Verdict,
    /// What it says about each objective of the SLO, in order.
    pub readings: Vec<Reading>,
    /// When the level began to move, seconds on the run's clock.
    pub began: f64,
    /// When the level had settled.
    pub settled: f64,
    /// When the trial ended.
    pub ended: f64,
    /// Requests that ended during the trial.
    pub counts: Counts,
    /// Requests issued since the run began, at the trial's end.
    pub issued_total: u64,
    /// Requests that pass through the server a second, at the settled level.
    pub completion_rate: f64,
    /// Mean TTFT of the samples, seconds; pending requests count with their age.
    pub mean_ttft: Option<f64>,
    /// Mean end-to-end latency of the samples, seconds.
    pub mean_e2e: Option<f64>,
    /// Median time of an output token of its completed requests, seconds.
    #[serde(default)]
    pub token_time: Option<f64>,
    /// What the first requests cost, of a warm-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold_start: Option<ColdStart>,
    /// The trial slice by slice, where its load moved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<Slice>,
    /// Requests a second that keep every limit, over the measured window.
    pub good_rate: f64,
    /// The figures.
    pub summary: Summary,
    /// What the server said of itself meanwhile, where it says something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerFigures>,
    /// This machine meanwhile, where it can be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostFigures>,
    /// The GPUs meanwhile, where they can be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuFigures>,
    /// What an open loop did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<ArrivalFigures>,
    /// What its requests show of the measurement itself.
    #[serde(default)]
    pub checks: Checks,
    /// How fit the client was over the measured window; none in virtual time.
    #[serde(default)]
    pub client: Option<ClientHealth>,
}

impl TrialOutcome {
    /// Whether the same trial may well be valid a little later, as what failed may come back.
    pub fn may_pass(&self) -> bool {
        matches!(&self.verdict, Verdict::Void(reason) if reason.may_pass())
    }

    /// What the reader of the results should know of it; none of a trial that is not valid.
    pub fn seen(&self) -> Option<Seen<'_>> {
        let valid = self.spec.kind != TrialKind::Warmup && !matches!(self.verdict, Verdict::Void(_));
        valid.then(|| Seen {
            load: self.spec.load,
            counted: self.spec.kind != TrialKind::Navigate,
            checks: &self.checks,
            client: self.client.as_ref(),
            readings: &self.readings,
        })
    }
}
