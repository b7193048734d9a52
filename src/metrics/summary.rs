//! The figures of one trial.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::loadgen::record::{Failure, Outcome, Phase, RequestRecord};
use crate::metrics::SessionFigures;
use crate::slo::{Metric, Slo};
use crate::stats::quantile::{interval, quantile};
use crate::units::Interval;

/// Confidence of the intervals of a distribution.
const CONFIDENCE: f64 = 0.95;
/// Fewest samples for which a p99.9 is named.
const LEAST_FOR_P999: usize = 1000;
/// Metrics that are one figure a request.
const PER_REQUEST: [Metric; 6] = [
    Metric::Ttft,
    Metric::Ttst,
    Metric::Tpot,
    Metric::Stall,
    Metric::E2e,
    Metric::OutputTokensPerSecondPerUser,
];

/// How the requests of a trial ended; `issued` is the sum of the others.
///
/// A request counts in the trial during which it ended, so that in a session whose load never
/// drains every request is counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// All of them.
    pub issued: u32,
    /// The response came whole.
    pub completed: u32,
    /// The server or the way to it failed the request.
    pub failed: u32,
    /// Still in flight when the load was closed.
    pub censored: u32,
    /// Given up by the client on purpose.
    pub cancelled: u32,
}

/// The distribution of one metric over the measured samples of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// Samples.
    pub n: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Smallest sample.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile, where there are at least 1,000 samples.
    pub p999: Option<f64>,
    /// Largest sample.
    pub max: f64,
    /// 95 % interval of the median, by batch means over time (knows about autocorrelation).
    pub p50_interval: Option<Interval>,
    /// 95 % interval of the 95th percentile, by the same method.
    pub p95_interval: Option<Interval>,
    /// 95 % interval of the 99th percentile, by the same method.
    pub p99_interval: Option<Interval>,
}

/// The figures of one trial, over its measured requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Measured requests (completed or failed).
    pub requests: u32,
    /// Length of the measured window, seconds.
    pub window: f64,
    /// `ttft`, `ttst`, `itl`, `tpot`, `stall`, `e2e` in seconds; `output-tokens-per-second-per-user`;
    /// `isl`, `osl` in tokens.
    pub metrics: BTreeMap<String, Distribution>,
    /// Completed requests a second in the window.
    pub requests_per_second: f64,
    /// Prompt tokens a second of requests completed in the window.
    pub input_tokens_per_second: f64,
    /// Output tokens a second of requests completed in the window.
    pub output_tokens_per_second: f64,
    /// Good requests a second: those that keep every limit of the SLO.
    pub goodput: f64,
    /// Share of measured requests that are good.
    pub attainment: f64,
    /// Share of measured requests that failed.
    pub error_rate: f64,
    /// Failures by kind.
    pub errors: BTreeMap<Failure, u32>,
    /// Requests in flight on average by Little's law: completion rate times mean latency.
    pub little_concurrency: f64,
    /// Mean output tokens a chunk; above 1 the gaps of a chunk are spread over its tokens.
    pub tokens_per_chunk: f64,
    /// What the turns of conversations show, where the requests are some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<SessionFigures>,
}

impl Counts {
    /// Counts how these requests ended, whatever their phase.
    pub fn of(records: &[RequestRecord]) -> Self {
        let mut counts = Self { issued: records.len() as u32, ..Self::default() };
        for record in records {
            match record.outcome {
                Outcome::Completed { .. } => counts.completed += 1,
                Outcome::Failed { .. } => counts.failed += 1,
                Outcome::Censored => counts.censored += 1,
                Outcome::Cancelled => counts.cancelled += 1,
            }
        }
        counts
    }
}

impl Distribution {
    /// The distribution of samples in order of time; `None` for no samples.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let at = |p| quantile(&sorted, p);
        let around = |p| interval(samples, &sorted, p, CONFIDENCE);
        Some(Self {
            n: samples.len() as u64,
            mean: samples.iter().sum::<f64>() / samples.len() as f64,
            min,
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: (samples.len() >= LEAST_FOR_P999).then(|| at(0.999)),
            max,
            p50_interval: around(0.5),
            p95_interval: around(0.95),
            p99_interval: around(0.99),
        })
    }
}

/// Median time of an output token of the completed requests, seconds.
pub fn token_time(records: &[RequestRecord]) -> Option<f64> {
    let done = records.iter().filter(|record| record.is_completed());
    let mut times: Vec<f64> = done.filter_map(RequestRecord::tpot).filter(|time| *time > 0.0).collect();
    times.sort_unstable_by(f64::total_cmp);
    (!times.is_empty()).then(|| quantile(&times, 0.5))
}

impl Summary {
    /// The figures of the measured requests that ended within a window of `window` seconds, in the
    /// order in which they ended. Latencies and tokens are those of completed requests; failed ones
    /// count in the shares; censored and cancelled ones in nothing.
    pub fn of(slo: &Slo, records: &[RequestRecord], window: f64) -> Self {
        let measured = || records.iter().filter(|record| record.phase == Phase::Measured);
        let completed: Vec<&RequestRecord> = measured().filter(|record| record.is_completed()).collect();
        let mut errors = BTreeMap::new();
        for cause in measured().filter_map(RequestRecord::failure) {
            *errors.entry(cause).or_insert(0) += 1;
        }
        let failed: u32 = errors.values().sum();
        let requests = completed.len() as u32 + failed;
        let good = completed.iter().filter(|record| slo.is_good(record)).count() as f64;
        let share = |count: f64| if requests > 0 { count / f64::from(requests) } else { 0.0 };
        let rate = |total: f64| if window > 0.0 { total / window } else { 0.0 };
        let prompt = |record: &RequestRecord| f64::from(record.isl_server.unwrap_or(record.isl));
        let output = |record: &RequestRecord| f64::from(record.output_tokens());
        let input_tokens: f64 = completed.iter().map(|record| prompt(record)).sum();
        let output_tokens: f64 = completed.iter().map(|record| output(record)).sum();
        let in_flight_time: f64 = completed.iter().map(|record| record.ended - record.start()).sum();
        let streamed = || completed.iter().filter(|record| record.first.is_some());
        let chunks: usize = streamed().map(|record| record.gaps_us.len() + 1).sum();
        let streamed_tokens: f64 = streamed().map(|record| output(record)).sum();
        Self {
            requests,
            window,
            metrics: distributions(&completed, prompt, output),
            requests_per_second: rate(completed.len() as f64),
            input_tokens_per_second: rate(input_tokens),
            output_tokens_per_second: rate(output_tokens),
            goodput: rate(good),
            attainment: share(good),
            error_rate: share(f64::from(failed)),
            errors,
            little_concurrency: rate(in_flight_time),
            tokens_per_chunk: if chunks > 0 { streamed_tokens / chunks as f64 } else { 0.0 },
            sessions: SessionFigures::of(records),
        }
    }
}

fn distributions(
    completed: &[&RequestRecord],
    prompt: impl Fn(&RequestRecord) -> f64,
    output: impl Fn(&RequestRecord) -> f64,
) -> BTreeMap<String, Distribution> {
    let mut metrics = BTreeMap::new();
    let mut add = |name: &str, samples: &[f64]| {
        if let Some(distribution) = Distribution::of(samples) {
            metrics.insert(name.to_owned(), distribution);
        }
    };
    for metric in PER_REQUEST {
        // Tokens that were read all at once have no pace: their rate would be infinite.
        let samples: Vec<f64> = completed
            .iter()
            .filter_map(|record| metric.of_request(record))
            .filter(|value| value.is_finite())
            .collect();
        add(metric.name(), &samples);
    }
    let mut gaps = Vec::new();
    for record in completed {
        record.for_each_itl(|gap| gaps.push(gap));
    }
    add(Metric::Itl.name(), &gaps);
    add("isl", &completed.iter().map(|record| prompt(record)).collect::<Vec<f64>>());
    add("osl", &completed.iter().map(|record| output(record)).collect::<Vec<f64>>());
    metrics
}
