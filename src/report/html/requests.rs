//! What the page shows of the requests: one pass over the records, then series trial by trial.

use std::collections::BTreeMap;

use serde::Serialize;

use super::digits;
use super::histogram::{Curve, Histogram};
use super::ticks::{TICK, Ticks};
use crate::loadgen::{Outcome, Phase, RequestRecord};
use crate::report::document::TrialFigures;

/// Bins of a trial's time line, about.
const BINS: f64 = 80.0;
/// Dots of all trials together, and of one at the least and at the most.
const DOTS: (usize, usize, usize) = (40_000, 150, 2_000);

/// The requests of a run, as far as the page needs them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    sent: Vec<f64>,
    ended: Vec<f64>,
    completed: Vec<f64>,
    trials: BTreeMap<u32, OfTrial>,
    ticks: Ticks,
}

#[derive(Clone, Debug, Default)]
struct OfTrial {
    dots: Vec<Dot>,
    itl: Histogram,
}

#[derive(Clone, Copy, Debug)]
struct Dot {
    sent: f64,
    ttft: Option<f64>,
    state: u8,
}

/// How a request is drawn.
mod state {
    pub const MEASURED: u8 = 0;
    pub const NOT_COUNTED: u8 = 1;
    pub const FAILED: u8 = 2;
    pub const LET_GO: u8 = 3;
}

/// The time line of one trial. Times are seconds since the trial began.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct TrialSeries {
    /// Number of the trial.
    pub trial: u32,
    /// Where the time line begins: its first request may have been sent before the trial began.
    pub from: f64,
    /// Length of a bin.
    pub step: f64,
    /// Requests in flight on average, bin by bin.
    pub in_flight: Vec<f64>,
    /// Requests sent a second.
    pub sent: Vec<f64>,
    /// Requests completed a second.
    pub completed: Vec<f64>,
    /// Output tokens a second.
    pub tokens: Vec<f64>,
    /// Times without a token from any request although responses were under way.
    pub stalls: Vec<(f64, f64)>,
    /// Requests, of which not all may be drawn.
    pub dots: Dots,
    /// Distribution of TTFT over the measured requests that were sent since the trial began.
    pub ttft: Option<Curve>,
    /// Distribution of ITL over them.
    pub itl: Option<Curve>,
}

/// Requests as columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Dots {
    /// When each was sent.
    pub at: Vec<f64>,
    /// Its TTFT, seconds.
    pub ttft: Vec<Option<f64>>,
    /// 0 measured, 1 not counted (warm-up or settling), 2 failed, 3 let go.
    pub state: Vec<u8>,
    /// Requests that there were.
    pub of: usize,
}

/// The distributions at one load, over its valid trials.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LoadCurves {
    /// The load.
    pub load: f64,
    /// The trials.
    pub trials: Vec<u32>,
    /// TTFT.
    pub ttft: Option<Curve>,
    /// ITL.
    pub itl: Option<Curve>,
}

impl Requests {
    /// Takes a request in.
    pub(crate) fn add(&mut self, record: &RequestRecord) {
        self.sent.push(record.sent);
        self.ended.push(record.ended);
        if record.is_completed() {
            self.completed.push(record.ended);
        }
        self.ticks.add(record);
        let counted = record.phase == Phase::Measured;
        let of_trial = self.trials.entry(record.trial).or_default();
        let state = match record.outcome {
            Outcome::Completed { .. } if counted => state::MEASURED,
            Outcome::Completed { .. } => state::NOT_COUNTED,
            Outcome::Failed { .. } => state::FAILED,
            Outcome::Censored | Outcome::Cancelled => state::LET_GO,
        };
        of_trial.dots.push(Dot { sent: record.sent, ttft: record.ttft(), state });
        if counted && record.is_completed() {
            record.for_each_itl(|gap| of_trial.itl.add(gap));
        }
    }

    /// Whether no request was taken in.
    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// The time lines of the trials.
    pub(crate) fn series(&self, trials: &[TrialFigures]) -> Vec<TrialSeries> {
        let (sent, ended) = (Steps::new(&self.sent), Steps::new(&self.ended));
        let completed = Steps::new(&self.completed);
        let most = (DOTS.0 / trials.len().max(1)).clamp(DOTS.1, DOTS.2);
        let line = |trial: &TrialFigures| {
            let of_trial = self.trials.get(&trial.id)?;
            let length = trial.ended - trial.began;
            let first = of_trial.dots.iter().map(|dot| dot.sent).fold(trial.began, f64::min);
            // Long requests may have been sent long before; their trial is what is to be seen.
            let from = first.max(trial.began - 0.5 * length).max(0.0);
            let step = bin_length((trial.ended - from) / BINS);
            // The last bin is up to half a bin longer or shorter: none is too short to tell a rate.
            let bins = ((trial.ended - from) / step).round().max(1.0) as usize;
            let edges: Vec<f64> = (0..=bins)
                .map(|bin| if bin == bins { trial.ended } else { from + step * bin as f64 })
                .collect();
            let rate = |count: &dyn Fn(f64, f64) -> f64| {
                edges
                    .windows(2)
                    .map(|edge| {
                        let length = (edge[1] - edge[0]).max(TICK);
                        digits(count(edge[0], edge[1]) / length, 4)
                    })
                    .collect::<Vec<f64>>()
            };
            let since_began = |at: f64| thousandths(at - trial.began);
            let gap = of_trial.itl.median().unwrap_or(0.0);
            let stalls = self.ticks.stalls(from, trial.ended, gap);
            Some(TrialSeries {
                trial: trial.id,
                from: since_began(from),
                step,
                in_flight: rate(&|a, b| {
                    (sent.passed(b) - ended.passed(b)) - (sent.passed(a) - ended.passed(a))
                }),
                sent: rate(&|a, b| sent.count(b) - sent.count(a)),
                completed: rate(&|a, b| completed.count(b) - completed.count(a)),
                tokens: rate(&|a, b| self.ticks.tokens(a, b) as f64),
                stalls: stalls.into_iter().map(|(a, b)| (since_began(a), since_began(b))).collect(),
                dots: dots(&of_trial.dots, most, since_began),
                ttft: of_trial.ttft(trial.began).curve(),
                itl: of_trial.itl.curve(),
            })
        };
        trials.iter().filter_map(line).collect()
    }

    /// The distributions by load, ascending.
    pub(crate) fn by_load(&self, trials: &[TrialFigures]) -> Vec<LoadCurves> {
        let mut loads: Vec<(f64, Vec<&TrialFigures>)> = Vec::new();
        for trial in trials.iter().filter(|trial| trial.is_valid()) {
            match loads.iter_mut().find(|(load, _)| *load == trial.load.value()) {
                Some((_, at_load)) => at_load.push(trial),
                None => loads.push((trial.load.value(), vec![trial])),
            }
        }
        loads.sort_by(|a, b| a.0.total_cmp(&b.0));
        let curves = |(load, trials): (f64, Vec<&TrialFigures>)| {
            let (mut ttft, mut itl) = (Histogram::default(), Histogram::default());
            for trial in &trials {
                if let Some(of_trial) = self.trials.get(&trial.id) {
                    ttft.merge(&of_trial.ttft(trial.began));
                    itl.merge(&of_trial.itl);
                }
            }
            let trials = trials.iter().map(|trial| trial.id).collect();
            LoadCurves { load, trials, ttft: ttft.curve(), itl: itl.curve() }
        };
        loads.into_iter().map(curves).filter(|curves| curves.ttft.is_some() || curves.itl.is_some()).collect()
    }
}

impl OfTrial {
    /// TTFT of the measured requests that were sent since the trial began: a short trial of a
    /// navigation counts others too, which tell of the load before.
    fn ttft(&self, began: f64) -> Histogram {
        let mut histogram = Histogram::default();
        let counted = |dot: &&Dot| dot.state == state::MEASURED && dot.sent >= began;
        self.dots.iter().filter(counted).filter_map(|dot| dot.ttft).for_each(|ttft| histogram.add(ttft));
        histogram
    }
}

/// Instants, sorted, with their running sum, so that what happened up to a time is found at once.
struct Steps {
    at: Vec<f64>,
    sums: Vec<f64>,
}

impl Steps {
    fn new(at: &[f64]) -> Self {
        let mut at = at.to_vec();
        at.sort_unstable_by(f64::total_cmp);
        let mut sums = Vec::with_capacity(at.len() + 1);
        let mut sum = 0.0;
        sums.push(sum);
        for instant in &at {
            sum += instant;
            sums.push(sum);
        }
        Self { at, sums }
    }

    /// Instants before `t`.
    fn count(&self, t: f64) -> f64 {
        self.at.partition_point(|&at| at < t) as f64
    }

    /// Time that has passed at `t` since each instant before it, summed.
    fn passed(&self, t: f64) -> f64 {
        let before = self.at.partition_point(|&at| at < t);
        before as f64 * t - self.sums[before]
    }
}

/// The least of 1, 2 and 5 times a power of ten that is not below `length` (nor below a tick).
fn bin_length(length: f64) -> f64 {
    let length = length.max(5.0 * TICK);
    let unit = 10_f64.powf(length.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| digits(factor * unit, 3))
        .find(|&bin| bin >= length * 0.999)
        .unwrap_or(length)
}

/// The requests in the order in which they were sent, thinned to about `most`: of each group of
/// neighbours the slowest and the first of the others, so that no spike is lost. Failures stay while
/// there is room for them.
fn dots(all: &[Dot], most: usize, since_began: impl Fn(f64) -> f64) -> Dots {
    let mut sorted = all.to_vec();
    sorted.sort_by(|a, b| a.sent.total_cmp(&b.sent));
    let group = if sorted.len() <= most { 1 } else { (2 * sorted.len()).div_ceil(most) };
    let mut dots = Dots { of: sorted.len(), ..Dots::default() };
    let mut keep = |dot: &Dot| {
        dots.at.push(since_began(dot.sent));
        dots.ttft.push(dot.ttft.map(|ttft| digits(ttft, 4)));
        dots.state.push(dot.state);
    };
    for neighbours in sorted.chunks(group) {
        // Without a TTFT last of all: a failed request is drawn as such.
        let rank =
            |dot: &Dot| if dot.state == state::FAILED { f64::INFINITY } else { dot.ttft.unwrap_or(-1.0) };
        let Some(slowest) = (0..neighbours.len())
            .reduce(|a, b| if rank(&neighbours[b]) > rank(&neighbours[a]) { b } else { a })
        else {
            continue;
        };
        let other = (0..neighbours.len()).find(|&index| index != slowest);
        let mut kept: Vec<usize> = other.into_iter().chain([slowest]).collect();
        kept.sort_unstable();
        kept.into_iter().for_each(|index| keep(&neighbours[index]));
    }
    dots
}

fn thousandths(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::loadgen::Failure;
    use crate::report::sample_document;
    use crate::run::sample;

    /// Requests of trial 2 (10 s to 19.5 s), eight in flight at any time from 9 s on.
    fn eight_in_flight() -> Requests {
        let mut requests = Requests::default();
        for user in 0..8_u32 {
            for turn in 0..11_u32 {
                let sent = 9.0 + f64::from(turn) + 0.01 * f64::from(user);
                let (first, ended) = (sent + 0.2 + 0.01 * f64::from(turn), sent + 1.0);
                let phase = if turn < 3 { Phase::Transient } else { Phase::Measured };
                let record = sample::record(u64::from(user * 100 + turn), 2);
                let record =
                    RequestRecord { sent, first: Some(first), last: Some(ended), ended, phase, ..record };
                requests.add(&record);
            }
        }
        requests
    }

    fn trial_two() -> Vec<TrialFigures> {
        sample_document().trials.into_iter().filter(|trial| trial.id == 2).collect()
    }

    #[test]
    fn the_time_line_has_the_requests_in_flight_and_the_rates() {
        let series = &eight_in_flight().series(&trial_two())[0];
        assert_eq!((series.trial, series.from, series.step), (2, -1.0, 0.2));
        assert_eq!(series.in_flight.len(), 53);
        // The first bin is that in which the users came.
        assert!(series.in_flight[1..].iter().all(|&n| (n - 8.0).abs() < 1e-6), "{:?}", series.in_flight);
        let sent: f64 = series.sent.iter().zip([series.step; 53]).map(|(rate, step)| rate * step).sum();
        assert!((sent - 8.0 * 11.0).abs() < 1e-6, "{sent}");
        let tokens: f64 = series.tokens.iter().map(|rate| rate * series.step).sum();
        assert!((tokens - 88.0 * 17.0).abs() < 0.05 * 88.0 * 17.0, "{tokens}");
    }

    #[test]
    fn distributions_are_of_the_measured_requests_alone() {
        let requests = eight_in_flight();
        let series = &requests.series(&trial_two())[0];
        let ttft = series.ttft.as_ref().unwrap();
        assert_eq!(ttft.n, 64);
        assert!((ttft.at[0] - 0.23).abs() < 1e-9, "{:?}", ttft.at);
        assert_eq!(series.itl.as_ref().unwrap().n, 64 * 16);
        let by_load = requests.by_load(&trial_two());
        assert_eq!((by_load.len(), by_load[0].load, by_load[0].trials.as_slice()), (1, 1.0, [2].as_slice()));
        assert_eq!(by_load[0].ttft, series.ttft);
    }

    #[test]
    fn thinned_dots_keep_every_spike_and_are_the_same_each_time() {
        let mut all: Vec<Dot> = (0..10_000)
            .map(|k| Dot { sent: f64::from(k) * 0.01, ttft: Some(0.1), state: state::MEASURED })
            .collect();
        for k in [17, 4_242, 9_999] {
            all[k].ttft = Some(2.0 + k as f64);
        }
        all[500] = Dot { sent: 5.0, ttft: None, state: state::FAILED };
        let once = dots(&all, 1_000, |at| at);
        assert_eq!(once.of, 10_000);
        assert!((900..=1_002).contains(&once.at.len()), "{}", once.at.len());
        let spikes = once.ttft.iter().flatten().filter(|&&ttft| ttft > 1.0).count();
        assert_eq!(spikes, 3);
        assert!(once.state.contains(&state::FAILED));
        all.reverse();
        assert_eq!(dots(&all, 1_000, |at| at), once);
        assert_eq!(dots(&all[..50], 1_000, |at| at).at.len(), 50, "few are all drawn");
    }

    #[test]
    fn failed_and_let_go_requests_are_told_apart() {
        let mut requests = Requests::default();
        let failed = Outcome::Failed { cause: Failure::Reset, detail: "reset".to_owned() };
        for (id, outcome) in [failed, Outcome::Censored, Outcome::Cancelled].into_iter().enumerate() {
            requests.add(&RequestRecord { outcome, sent: 11.0, ..sample::record(id as u64, 2) });
        }
        let series = &requests.series(&trial_two())[0];
        assert_eq!(series.dots.state, [state::FAILED, state::LET_GO, state::LET_GO]);
        assert_eq!(series.ttft, None);
    }
}
