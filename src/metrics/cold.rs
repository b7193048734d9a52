//! What the first requests after a start cost, against those of the steady state.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::loadgen::record::RequestRecord;
use crate::loadgen::session::InFlight;
use crate::slo::Metric;
use crate::stats::quantile::quantile;

/// Fewest requests that tell a steady state.
const LEAST: usize = 10;
/// Neighbouring requests whose median stands for the level at the first of them: a single slow one is
/// no cold start.
const NEIGHBOURS: usize = 5;
/// The level of the steady state is reached within this factor of its median.
const NEAR: f64 = 1.25;
/// A first request this many times slower than the steady state is worth a word.
const NOTABLE: f64 = 2.0;

/// The first requests of a load. Whatever was sent before the load (to find out the model, to count
/// tokens, to see whether a server that was launched is ready) is not among them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ColdStart {
    /// What is compared: TTFT, or end-to-end latency where responses are not streamed.
    pub metric: Metric,
    /// The figure of the first request, seconds.
    pub first: f64,
    /// The median of the later half of the warm-up's requests, seconds.
    pub steady: f64,
    /// Requests that were sent before the level of the steady state was reached.
    pub requests: u32,
    /// Seconds from the first request until then.
    pub seconds: f64,
    /// Requests that were looked at.
    pub of: u32,
}

impl ColdStart {
    /// The cold start of a warm-up: requests that ended in it, and those in flight at its end. `None` where
    /// they are too few to tell a steady state.
    pub fn of(records: &[RequestRecord], pending: &[InFlight]) -> Option<Self> {
        let done = || records.iter().filter(|record| record.is_completed());
        let streamed = done().any(|record| record.first.is_some());
        let metric = if streamed { Metric::Ttft } else { Metric::E2e };
        let mut series: Vec<(f64, f64)> =
            done().filter_map(|record| Some((record.start(), metric.of_request(record)?))).collect();
        if streamed {
            series.extend(
                pending.iter().filter_map(|flight| Some((flight.start(), flight.first? - flight.start()))),
            );
        }
        series.sort_by(|a, b| a.0.total_cmp(&b.0));
        if series.len() < LEAST {
            return None;
        }
        let steady = median(&series[series.len() / 2..]);
        let reached = (0..=series.len() - NEIGHBOURS)
            .find(|&from| median(&series[from..from + NEIGHBOURS]) <= NEAR * steady)?;
        Some(Self {
            metric,
            first: series[0].1,
            steady,
            requests: reached as u32,
            seconds: series[reached].0 - series[0].0,
            of: series.len() as u32,
        })
    }

    /// Whether a reader should be told.
    pub fn is_notable(&self) -> bool {
        self.first > NOTABLE * self.steady
    }
}

fn median(series: &[(f64, f64)]) -> f64 {
    let mut values: Vec<f64> = series.iter().map(|&(_, value)| value).collect();
    values.sort_unstable_by(f64::total_cmp);
    quantile(&values, 0.5)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::metrics::tests::request;

    fn cold(ttft: impl Fn(u32) -> f64) -> Option<ColdStart> {
        let records: Vec<RequestRecord> = (0..40).map(|k| request(f64::from(k), ttft(k), 0.01, 11)).collect();
        ColdStart::of(&records, &[])
    }

    #[test]
    fn a_cold_start_is_told_from_the_steady_state_with_its_length() {
        let start = cold(|k| 0.04 + 0.4 * (-f64::from(k) / 3.0).exp()).unwrap();
        assert_eq!(start.metric, Metric::Ttft);
        assert!((start.first - 0.44).abs() < 1e-9 && (start.steady - 0.04).abs() < 1e-3, "{start:?}");
        // 0.4 exp(-k / 3) falls below a quarter of 0.04 at k = 11; the median of five looks two ahead.
        assert_eq!((start.requests, start.seconds), (10, 10.0));
        assert!(start.is_notable());
    }

    #[test]
    fn one_slow_request_later_is_no_cold_start() {
        let start = cold(|k| if k == 7 { 3.0 } else { 0.04 }).unwrap();
        assert_eq!((start.requests, start.seconds), (0, 0.0));
        assert!(!start.is_notable());
    }

    #[test]
    fn few_requests_tell_nothing() {
        let records: Vec<RequestRecord> = (0..9).map(|k| request(f64::from(k), 0.1, 0.01, 11)).collect();
        assert_eq!(ColdStart::of(&records, &[]), None);
        let flying = InFlight {
            id: 9,
            scheduled: None,
            sent: 9.0,
            first: Some(9.1),
            latest: None,
            tokens: 1,
            turn: None,
        };
        assert_eq!(ColdStart::of(&records, &[flying]).unwrap().of, 10);
    }
}
