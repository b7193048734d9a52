//! What the runs of a profile say together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plan::{ProfilePlan, Shape};
use super::prefill::{Estimate, PrefillFit};
use crate::metrics::Distribution;
use crate::recipe::ProfileKind;
use crate::search::{TrialKind, TrialOutcome};
use crate::stats::least_squares::Polynomial;
use crate::units::Interval;
use crate::verdict::Verdict;

/// Stated coverage of the intervals.
const CONFIDENCE: f64 = 0.95;
/// Mean chunks that arrive together above which gaps are not those of tokens; one in ten of random gaps is
/// so short that it looks like one.
const TOGETHER: f64 = 1.25;

/// The middle and the tail of a time, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Median.
    pub p50: f64,
    /// Where the median lies, as far as this one trial can tell.
    pub p50_interval: Option<Interval>,
    /// 95th percentile.
    pub p95: f64,
}

/// One shape of requests at one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// The shape that was asked for.
    #[serde(flatten)]
    pub shape: Shape,
    /// Requests in flight.
    pub concurrency: u32,
    /// Completed requests that were counted.
    pub requests: u32,
    /// Median prompt length, tokens: as the server counts it, where it does.
    pub prompt_tokens: Option<f64>,
    /// Mean output length, tokens.
    pub output_tokens: Option<f64>,
    /// Time to first token.
    pub ttft: Option<Spread>,
    /// Gaps between tokens, each one a sample.
    pub itl: Option<Spread>,
    /// Time per output token, one figure a request.
    pub tpot: Option<Spread>,
    /// Mean number of chunks that arrived together; 1 where each came alone.
    pub chunks_together: f64,
    /// Output tokens a second of the median user: one over the median time of an output token.
    pub tokens_per_second_per_user: Option<f64>,
    /// Output tokens a second in all.
    pub tokens_per_second: f64,
    /// Why the trial is not valid, where it is not.
    pub void: Option<String>,
}

/// Which figure tells how fast tokens follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pace {
    /// The gaps.
    Itl,
    /// The time per output token: where tokens are handed on several at a time the gaps between them say
    /// nothing of how fast they are made, but their mean does.
    Tpot,
}

/// What a decode step is made of, for one output length: `pace(N) = alone + each * (N - 1)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepTime {
    /// Output length, tokens.
    pub osl: u32,
    /// Median time between tokens with one request in flight, seconds: read off the line.
    pub alone: Estimate,
    /// What each further request in flight adds, seconds.
    pub each: Estimate,
    /// Sd of the medians around the line, as a share of them.
    pub residual: f64,
}

/// One load of a shape, from both sides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FrontPoint {
    /// Requests in flight.
    pub concurrency: u32,
    /// Output tokens a second of the median user.
    pub per_user: f64,
    /// Output tokens a second in all.
    pub total: f64,
    /// Output tokens a second a GPU, where the GPUs are named.
    pub per_gpu: Option<f64>,
    /// Whether no other load of the shape is better on one side without being worse on the other.
    pub best: bool,
}

/// The loads of a shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Front {
    /// The shape.
    #[serde(flatten)]
    pub shape: Shape,
    /// Its loads, ascending.
    pub points: Vec<FrontPoint>,
}

/// What the runs of a profile say together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Every shape at every load that was measured.
    pub cells: Vec<Cell>,
    /// The curve of a prefill profile, where its lengths tell one.
    pub prefill: Option<PrefillFit>,
    /// The figure of a decode profile, the same for every cell.
    pub pace: Option<Pace>,
    /// The step times of a decode profile, one for each output length at which enough loads tell.
    pub step_times: Vec<StepTime>,
    /// The fronts of a Pareto profile.
    pub fronts: Vec<Front>,
}

impl Cell {
    /// How fast tokens follow each other.
    pub fn pace(&self, pace: Pace) -> Option<Spread> {
        match pace {
            Pace::Itl => self.itl,
            Pace::Tpot => self.tpot,
        }
    }
}

/// Puts the trials of a profile's runs together.
pub fn figures<'a>(
    plan: &ProfilePlan,
    runs: impl IntoIterator<Item = (Shape, Vec<&'a TrialOutcome>)>,
) -> Figures {
    let mut cells = Vec::new();
    for (shape, outcomes) in runs {
        for &level in &plan.levels {
            let at_level = |outcome: &&&TrialOutcome| {
                outcome.spec.kind == TrialKind::Measure && outcome.spec.load.value() == f64::from(level)
            };
            // A void trial is measured again: the last valid one counts, else the last one says why.
            let trials = || outcomes.iter().filter(at_level);
            let valid = trials().rfind(|outcome| !matches!(outcome.verdict, Verdict::Void(_)));
            cells.extend(valid.or_else(|| trials().next_back()).map(|outcome| cell(shape, level, outcome)));
        }
    }
    let of = |kind: ProfileKind| plan.kind == kind;
    let clumped = cells.iter().any(|cell| cell.chunks_together > TOGETHER);
    let pace = if clumped { Pace::Tpot } else { Pace::Itl };
    Figures {
        pace: of(ProfileKind::Decode).then_some(pace),
        prefill: of(ProfileKind::Prefill).then(|| prefill(&cells)).flatten(),
        step_times: if of(ProfileKind::Decode) { step_times(plan, &cells, pace) } else { Vec::new() },
        fronts: if of(ProfileKind::Pareto) { fronts(plan, &cells) } else { Vec::new() },
        cells,
    }
}

fn cell(shape: Shape, concurrency: u32, outcome: &TrialOutcome) -> Cell {
    let void = match &outcome.verdict {
        Verdict::Void(reason) => Some(reason.to_string()),
        _ => None,
    };
    let metric = |name: &str| outcome.summary.metrics.get(name).filter(|_| void.is_none());
    let spread = |of: &Distribution| Spread { p50: of.p50, p50_interval: of.p50_interval, p95: of.p95 };
    Cell {
        shape,
        concurrency,
        requests: metric("e2e").map_or(0, |e2e| e2e.n as u32),
        prompt_tokens: metric("isl").map(|isl| isl.p50),
        output_tokens: metric("osl").map(|osl| osl.mean),
        ttft: metric("ttft").map(spread),
        itl: metric("itl").map(spread),
        tpot: metric("tpot").map(spread),
        chunks_together: outcome.checks.chunks_together.max(1.0),
        tokens_per_second_per_user: metric("tpot").filter(|tpot| tpot.p50 > 0.0).map(|tpot| 1.0 / tpot.p50),
        tokens_per_second: if void.is_none() { outcome.summary.output_tokens_per_second } else { 0.0 },
        void,
    }
}

fn prefill(cells: &[Cell]) -> Option<PrefillFit> {
    let points: Vec<(f64, f64)> = cells
        .iter()
        .filter_map(|cell| Some((cell.prompt_tokens?, cell.ttft.filter(|ttft| ttft.p50 > 0.0)?.p50)))
        .collect();
    PrefillFit::of(&points)
}

/// A line through the median gaps of each output length, weighted as figures that vary by a share of
/// themselves.
fn step_times(plan: &ProfilePlan, cells: &[Cell], pace: Pace) -> Vec<StepTime> {
    let fit = |shape: &Shape| {
        let points: Vec<(f64, f64, f64)> = cells
            .iter()
            .filter(|cell| cell.shape == *shape)
            .filter_map(|cell| {
                let median = cell.pace(pace).filter(|spread| spread.p50 > 0.0)?.p50;
                Some((f64::from(cell.concurrency), median, 1.0 / (median * median)))
            })
            .collect();
        let line = Polynomial::fit(&points, 1)?;
        let estimate = |of: [f64; 2]| {
            let (value, interval) = line.combination(&of, CONFIDENCE);
            Estimate { value, interval }
        };
        let (alone, each) = (estimate([1.0, 1.0]), estimate([0.0, 1.0]));
        Some(StepTime { osl: shape.osl, alone, each, residual: line.residual_sd })
    };
    plan.shapes.iter().filter_map(fit).collect()
}

fn fronts(plan: &ProfilePlan, cells: &[Cell]) -> Vec<Front> {
    let front = |&shape: &Shape| {
        let mut points: Vec<FrontPoint> = cells
            .iter()
            .filter(|cell| cell.shape == shape)
            .filter_map(|cell| {
                let total = Some(cell.tokens_per_second).filter(|&total| total > 0.0)?;
                Some(FrontPoint {
                    concurrency: cell.concurrency,
                    per_user: cell.tokens_per_second_per_user?,
                    total,
                    per_gpu: plan.gpus.map(|gpus| total / f64::from(gpus)),
                    best: false,
                })
            })
            .collect();
        let beaten = |point: &FrontPoint, by: &FrontPoint| {
            by.per_user >= point.per_user
                && by.total >= point.total
                && (by.per_user > point.per_user || by.total > point.total)
        };
        let best: Vec<bool> = points.iter().map(|point| !points.iter().any(|by| beaten(point, by))).collect();
        points.iter_mut().zip(best).for_each(|(point, best)| point.best = best);
        Front { shape, points }
    };
    plan.shapes.iter().map(front).filter(|front| !front.points.is_empty()).collect()
}
