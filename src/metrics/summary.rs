//! The figures of one trial.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::loadgen::record::Failure;
use crate::units::Interval;

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
}
