//! Objectives that must hold in every window: `ttft p99 < 800ms over 30s worst`.
//!
//! The measured part of a trial is cut into full windows one after the other from its start; what is left
//! at its end is no window. Each is read as a trial of its own would be ([`super::reading`]): a sample
//! counts in the window in which it came. The worst one is the trial's figure.
//!
//! The windows do not slide. A window that may begin anywhere is the worst of more looks, but of how many
//! depends on how dense the requests are, which a load changes; with windows one after the other the same
//! number is looked at under every load, and dashboards cut time in the same way.

use super::reading::{Samples, read};
use crate::loadgen::record::RequestRecord;
use crate::loadgen::session::{InFlight, LevelHistory};
use crate::slo::{Metric, Objective, Slo};
use crate::stats::batch::sample_variance;
use crate::verdict::{Reading, Windows};

/// Share of a window that a clock may be short of without the window being lost.
const SLACK: f64 = 1e-6;
/// Smallest variance of the log of a window's figure.
const LEAST_VARIANCE: f64 = 1e-4;

/// Full windows of `window` seconds within `seconds`.
pub fn full(seconds: f64, window: f64) -> u32 {
    (seconds / window + SLACK).floor().max(0.0) as u32
}

/// Reads the windows of an objective and gives the worst.
pub(super) fn worst(
    slo: &Slo,
    objective: &Objective,
    window: f64,
    samples: &Samples<'_>,
    levels: &LevelHistory,
) -> Reading {
    let within = objective.whole();
    let cut = Cut {
        from: samples.from,
        window,
        count: full((samples.now - samples.from).min(samples.span), window),
    };
    let pending = cut.pending(samples);
    let read_one = |(index, pending): (u32, &Vec<InFlight>)| {
        let (from, now) = (cut.start(index), cut.start(index + 1));
        let records = &samples.records[cut.first_ended(samples.records, from)..];
        let records = &records[..cut.first_ended(records, now)];
        let samples = Samples { records, pending, from, now, partial: false, span: window };
        let mut reading = read(slo, &within, &samples, levels);
        if objective.metric == Metric::Goodput && records.is_empty() && !pending.is_empty() {
            // Requests were there, and none of them came to an end.
            reading.figure = Some(0.0);
        }
        (from, reading)
    };
    let readings: Vec<(f64, Reading)> =
        (0..).zip(&pending).map(read_one).filter(|(_, reading)| reading.figure.is_some()).collect();
    let missed = readings.iter().filter(|(_, reading)| reading.holds(&within) == Some(false)).count() as u32;
    let worst = readings.iter().reduce(|a, b| if b.1.margin > a.1.margin { b } else { a });
    let log_loads = readings.iter().map(|(_, reading)| reading.log_load);
    let log_load = match readings.len() {
        0 => levels.mean_log(samples.from, samples.now),
        n => log_loads.sum::<f64>() / n as f64,
    };
    let margins: Vec<f64> = readings.iter().map(|(_, reading)| reading.margin).collect();
    // How far windows differ, which holds more than what one of them can tell of itself.
    let spread = if margins.len() > 2 { sample_variance(&margins) } else { 0.0 };
    let variance = worst.map_or(1.0, |(_, reading)| reading.variance).max(spread).max(LEAST_VARIANCE);
    Reading {
        over: 0,
        of: 0,
        figure: worst.and_then(|(_, reading)| reading.figure),
        margin: worst.map_or(0.0, |(_, reading)| reading.margin),
        variance,
        log_load,
        profile: Vec::new(),
        blocks: Vec::new(),
        windows: Some(Windows {
            seconds: window,
            count: cut.count,
            missed,
            worst_from: worst.map(|(from, _)| from - samples.from),
        }),
    }
}

/// A stretch of time cut into windows.
#[derive(Clone, Copy)]
struct Cut {
    from: f64,
    window: f64,
    count: u32,
}

impl Cut {
    /// When the window of this index begins.
    fn start(&self, index: u32) -> f64 {
        self.from + f64::from(index) * self.window
    }

    /// The first of the records that ended at `at` or later.
    fn first_ended(&self, records: &[RequestRecord], at: f64) -> usize {
        records.partition_point(|record| record.ended < at)
    }

    /// The requests that were in flight at the end of each window, as they were known then.
    fn pending(&self, samples: &Samples<'_>) -> Vec<Vec<InFlight>> {
        let mut pending = vec![Vec::new(); self.count as usize];
        let mut note = |flight: InFlight, ended: f64| {
            let first = ((flight.start() - self.from) / self.window).floor().max(0.0) as u32;
            for index in first..self.count {
                let end = self.start(index + 1);
                if ended < end {
                    break;
                }
                if flight.start() < end {
                    let came = flight.first.filter(|&first| first < end);
                    pending[index as usize].push(InFlight { first: came, latest: None, tokens: 0, ..flight });
                }
            }
        };
        for record in samples.records {
            let flight = InFlight {
                id: record.id,
                scheduled: record.scheduled,
                sent: record.sent,
                first: record.first,
                latest: None,
                tokens: 0,
                turn: record.turn,
            };
            note(flight, record.ended);
        }
        samples.pending.iter().for_each(|flight| note(*flight, f64::INFINITY));
        pending
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::metrics::reading::readings;
    use crate::metrics::tests::request;
    use crate::units::Load;
    use crate::verdict::{Verdict, VoidReason, judge};

    /// Requests sent every 100 ms from 10 s on, of which those of the third 4 s are slow.
    fn requests(seconds: f64) -> Vec<RequestRecord> {
        let mut records: Vec<RequestRecord> = (0..(seconds * 10.0) as u32)
            .map(|k| {
                let sent = 10.0 + 0.1 * f64::from(k);
                let slow = (18.0..22.0).contains(&sent);
                request(sent, if slow { 0.3 } else { 0.1 }, 0.02, 11)
            })
            .collect();
        records.sort_by(|a, b| a.ended.total_cmp(&b.ended));
        records
    }

    fn read_at(text: &str, records: &[RequestRecord], pending: &[InFlight], now: f64) -> Vec<Reading> {
        let mut levels = LevelHistory::default();
        levels.push_load(0.0, Load::Concurrency(5));
        let samples = Samples { records, pending, from: 10.0, now, partial: false, span: f64::INFINITY };
        readings(&Slo::parse([text]).unwrap(), &samples, &levels)
    }

    #[test]
    fn the_worst_window_is_the_figure_and_its_place_is_told() {
        let records = requests(24.0);
        let reading = &read_at("ttft p90 < 200ms over 4s worst", &records, &[], 34.0)[0];
        let windows = reading.windows.unwrap();
        // Those that begin to be slow at 18 s come from 18.3 s on: 8 s after the start.
        assert_eq!((windows.count, windows.missed, windows.worst_from), (6, 1, Some(8.0)));
        assert!((reading.figure.unwrap() - 0.3).abs() < 1e-9, "{reading:?}");
        let slo = Slo::parse(["ttft p90 < 200ms over 4s"]).unwrap();
        assert_eq!(judge(&slo, std::slice::from_ref(reading)), Verdict::Missed);
        // Over the whole trial the same limit holds at p80.
        let whole = &read_at("ttft p80 < 200ms", &records, &[], 34.0)[0];
        assert!(whole.margin < 0.0);
    }

    #[test]
    fn what_is_left_at_the_end_is_no_window_and_a_trial_of_less_than_one_is_void() {
        let records = requests(24.0);
        let reading = |now| read_at("ttft p90 < 200ms over 10s", &records, &[], now)[0].clone();
        assert_eq!(reading(34.0).windows.unwrap().count, 2);
        let slo = Slo::parse(["ttft p90 < 200ms over 10s"]).unwrap();
        let short = reading(19.9);
        assert_eq!(short.figure, None);
        let verdict = judge(&slo, &[short]);
        assert!(matches!(verdict, Verdict::Void(VoidReason::ShortForWindow { .. })), "{verdict:?}");
    }

    #[test]
    fn a_window_is_read_as_a_trial_of_its_own_would_be() {
        // The requests in flight at its end count as they were then: with a first token, or overdue.
        let records = requests(24.0);
        for metric in
            ["ttft p90 < 200ms", "e2e p90 < 400ms", "tpot mean < 30ms", "goodput > 2", "errors < 1%"]
        {
            let windowed = &read_at(&format!("{metric} over 12s"), &records, &[], 34.0)[0];
            let ended = records.partition_point(|record| record.ended < 22.0);
            let flying: Vec<InFlight> = records[ended..]
                .iter()
                .filter(|record| record.sent < 22.0)
                .map(|record| InFlight {
                    id: record.id,
                    scheduled: None,
                    sent: record.sent,
                    first: record.first.filter(|&first| first < 22.0),
                    latest: None,
                    tokens: 0,
                    turn: None,
                })
                .collect();
            let alone = &read_at(metric, &records[..ended], &flying, 22.0)[0];
            let (a, b) = (windowed.figure.unwrap(), alone.figure.unwrap());
            assert!(
                (a - b).abs() < 1e-9 && (windowed.margin - alone.margin).abs() < 1e-9,
                "{metric}: {a} {b}"
            );
        }
    }

    #[test]
    fn a_server_that_stops_answering_misses_in_the_window_in_which_it_stopped() {
        let records: Vec<RequestRecord> = requests(24.0).into_iter().filter(|r| r.sent < 20.0).collect();
        let stuck =
            InFlight { id: 9, scheduled: None, sent: 20.0, first: None, latest: None, tokens: 0, turn: None };
        let reading = &read_at("ttft max < 1s over 4s", &records, &[stuck; 5], 34.0)[0];
        let windows = reading.windows.unwrap();
        assert_eq!((windows.count, windows.missed, windows.worst_from), (6, 4, Some(20.0)));
        assert!((reading.figure.unwrap() - 14.0).abs() < 1e-9, "{reading:?}");
        let goodput = &read_at("goodput > 2 over 4s", &records, &[stuck; 5], 34.0)[0];
        assert_eq!((goodput.figure, goodput.windows.unwrap().missed), (Some(0.0), 3));
    }
}
