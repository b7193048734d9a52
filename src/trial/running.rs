//! What is kept of a trial while it runs, and how requests flow through the server meanwhile.

use crate::loadgen::record::RequestRecord;
use crate::loadgen::session::InFlight;
use crate::stats::mser::mser5;

/// Requests that a trial will have counted, for the display: those asked for, or as many as come at the
/// pace so far within the seconds asked for.
pub(super) fn expected(seen: u32, requests: u32, elapsed: f64, min_seconds: f64) -> u32 {
    let by_time = f64::from(seen) * (min_seconds / elapsed.max(1e-3)).max(1.0);
    requests.max(by_time as u32)
}

/// A trial that is running.
pub(super) struct Running {
    pub began: f64,
    pub settled: Option<f64>,
    /// In the order in which they ended.
    pub records: Vec<RequestRecord>,
    /// Whether the backlog of an open loop was seen to grow.
    pub unstable: bool,
    /// Whether the load moved within the trial.
    pub moves: bool,
    /// Whether it was ended as its miss was certain.
    pub cut: bool,
}

impl Running {
    pub fn begin(now: f64) -> Self {
        Self { began: now, settled: None, records: Vec::new(), unstable: false, moves: false, cut: false }
    }

    /// The records that ended at `from` or later.
    pub fn since(&self, from: f64) -> &[RequestRecord] {
        let first = self.records.partition_point(|record| record.ended < from);
        &self.records[first..]
    }

    /// The instant at which the series of TTFT and of E2E have lost the mark of their start
    /// (MSER-5), `from` or later; never past the middle of the records.
    pub fn truncated(&self, from: f64) -> f64 {
        let records = self.since(from);
        let cut = |value: fn(&RequestRecord) -> Option<f64>| {
            let series: Vec<f64> = records.iter().filter_map(value).collect();
            if series.len() == records.len() { mser5(&series) } else { 0 }
        };
        let cut = cut(RequestRecord::ttft).max(cut(RequestRecord::e2e)).min(records.len() / 2);
        match records.get(cut) {
            Some(record) if cut > 0 => record.ended,
            _ => from,
        }
    }
}

/// How requests flow through the server at a settled level.
pub(super) struct Flow {
    pub completions: u32,
    pub rate: f64,
    pub mean_ttft: Option<f64>,
    pub mean_e2e: Option<f64>,
}

impl Flow {
    /// First tokens are counted rather than completions: in a steady state both come at the same
    /// rate, and a short window holds whole first tokens where it may hold no whole request.
    pub fn of(measured: &[RequestRecord], flying: &[InFlight], from: f64, window: f64) -> Self {
        let done = measured.iter().filter(|record| record.first.is_some_and(|first| first >= from));
        let begun = flying.iter().filter(|flight| flight.first.is_some_and(|first| first >= from));
        let ttfts: Vec<f64> = done
            .filter_map(RequestRecord::ttft)
            .chain(begun.filter_map(|flight| flight.first.map(|first| first - flight.start())))
            .collect();
        let e2es: Vec<f64> = measured.iter().filter_map(RequestRecord::e2e).collect();
        let mean =
            |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        let events = if ttfts.is_empty() { e2es.len() } else { ttfts.len() };
        Self {
            completions: events as u32,
            rate: events as f64 / window,
            mean_ttft: mean(&ttfts),
            mean_e2e: mean(&e2es),
        }
    }
}
