//! A load that moves, slice by slice: how latency follows what is in flight.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::loadgen::record::RequestRecord;
use crate::loadgen::session::InFlight;
use crate::slo::{Metric, Slo};
use crate::stats::quantile::quantile;

/// Slices of a trial: few enough to be read as a table.
const SLICES: u32 = 12;

/// What happened in one slice of a trial. Seconds are since its measured part began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slice {
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// Requests in flight on average, those that wait at the cap of an open loop among them.
    pub in_flight: f64,
    /// Requests that were completed.
    pub completed: u32,
    /// Requests that failed.
    pub failed: u32,
    /// Completed requests a second.
    pub requests_per_second: f64,
    /// Completed requests a second that keep every limit of the SLO.
    pub goodput: f64,
    /// Time to first token of the first tokens that came, seconds.
    pub ttft: Option<Percentiles>,
    /// Time per output token of the requests that ended, seconds.
    pub tpot: Option<Percentiles>,
    /// End-to-end latency of the requests that ended, seconds.
    pub e2e: Option<Percentiles>,
}

/// Percentiles of the samples of a slice, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Percentiles {
    /// Samples.
    pub n: u32,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// Cuts the window from `from` to `to` into slices of one length.
pub fn slices(slo: &Slo, records: &[RequestRecord], pending: &[InFlight], from: f64, to: f64) -> Vec<Slice> {
    if to <= from || records.is_empty() {
        return Vec::new();
    }
    let step = (to - from) / f64::from(SLICES);
    let slice = |index: u32| {
        let (begin, end) = (from + step * f64::from(index), from + step * f64::from(index + 1));
        let within = |at: f64| at >= begin && (at < end || (index + 1 == SLICES && at <= end));
        let ended: Vec<&RequestRecord> = records.iter().filter(|record| within(record.ended)).collect();
        let completed = ended.iter().filter(|record| record.is_completed());
        let lives = records.iter().map(|record| (record.start(), record.ended));
        let lives = lives.chain(pending.iter().map(|flight| (flight.start(), f64::INFINITY)));
        let firsts = records.iter().filter_map(|record| Some((record.first?, record.start())));
        let firsts = firsts.chain(pending.iter().filter_map(|flight| Some((flight.first?, flight.start()))));
        let of =
            |metric: Metric| percentiles(completed.clone().filter_map(|record| metric.of_request(record)));
        let count = completed.clone().count() as u32;
        let good = completed.clone().filter(|record| slo.is_good(record)).count() as f64;
        Slice {
            from: begin - from,
            to: end - from,
            in_flight: lives.map(|(sent, gone)| (gone.min(end) - sent.max(begin)).max(0.0)).sum::<f64>()
                / step,
            completed: count,
            failed: ended.iter().filter(|record| record.failure().is_some()).count() as u32,
            requests_per_second: f64::from(count) / step,
            goodput: good / step,
            ttft: percentiles(firsts.filter(|&(at, _)| within(at)).map(|(at, sent)| at - sent)),
            tpot: of(Metric::Tpot),
            e2e: of(Metric::E2e),
        }
    };
    (0..SLICES).map(slice).collect()
}

fn percentiles(samples: impl Iterator<Item = f64>) -> Option<Percentiles> {
    let mut sorted: Vec<f64> = samples.collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = |p: f64| quantile(&sorted, p);
    (!sorted.is_empty()).then(|| Percentiles {
        n: sorted.len() as u32,
        p50: at(0.5),
        p95: at(0.95),
        p99: at(0.99),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::metrics::tests::request;

    #[test]
    fn slices_hold_every_request_once_and_say_what_was_in_flight() {
        // Ten requests a second that live for 0.3 s: three in flight. From 6 s on they wait longer.
        let mut records: Vec<RequestRecord> = (0..120)
            .map(|k| {
                let sent = 0.1 * f64::from(k);
                request(sent, if sent < 5.95 { 0.1 } else { 0.4 }, 0.02, 11)
            })
            .collect();
        records.sort_by(|a, b| a.ended.total_cmp(&b.ended));
        let slo = Slo::parse(["ttft p95 < 200ms"]).unwrap();
        let slices = slices(&slo, &records, &[], 0.0, 13.2);
        assert_eq!(slices.len(), 12);
        assert_eq!(slices.iter().map(|slice| slice.completed).sum::<u32>(), 120);
        assert_eq!(slices.iter().filter_map(|slice| slice.ttft).map(|ttft| ttft.n).sum::<u32>(), 120);
        assert!(
            (slices[2].in_flight - 3.0).abs() < 0.05 && (slices[9].in_flight - 6.0).abs() < 0.05,
            "{slices:?}"
        );
        assert!((slices[2].ttft.unwrap().p95 - 0.1).abs() < 1e-9);
        assert!((slices[9].ttft.unwrap().p50 - 0.4).abs() < 1e-9);
        assert_eq!((slices[9].goodput, slices[9].failed), (0.0, 0));
        assert!((slices[2].goodput - 10.0).abs() < 0.5);
    }
}
