//! What the samples of one trial say about each objective.
//!
//! A sample counts at the instant at which it is there: TTFT when the first token comes, TPOT when
//! the request ends. A window then holds long and short requests in the shares in which the server
//! serves them; counting only requests that began *and* ended inside it would favour short ones.

use super::windows;
use crate::loadgen::record::{Failure, Outcome, RequestRecord};
use crate::loadgen::session::{InFlight, LevelHistory};
use crate::slo::{Metric, Objective, Slo, Stat};
use crate::stats::batch;
use crate::stats::binomial::wilson;
use crate::stats::quantile::quantile;
use crate::stats::special::normal_quantile;
use crate::verdict::Reading;

/// Margins are clipped to this on the log scale: beyond 50 times the limit nothing more is said.
const CLIP: f64 = 4.0;
/// Parts of a trial's samples whose medians are kept, at the most, and fewest samples of each.
const BLOCKS: usize = 8;
const SMALLEST_BLOCK: usize = 8;
/// Points of a reading's profile.
const PROFILE: usize = 200;
/// Fewest tokens after which the pace of a request in flight is taken as its TPOT.
const PARTIAL_TOKENS: u32 = 24;
/// Fewer samples than this: a quantile is helped by the shape of a lognormal.
const SMALL: usize = 40;
/// Largest share of failed requests that a mean may leave out. A failure has no latency to average,
/// yet a server that mostly fails must not look quick.
const FAILURES_LEFT_OUT: f64 = 0.05;

/// The samples of a window.
#[derive(Clone, Copy, Debug)]
pub struct Samples<'a> {
    /// Requests that ended in the window, in the order in which they ended.
    pub records: &'a [RequestRecord],
    /// Requests in flight at its end.
    pub pending: &'a [InFlight],
    /// Start of the window, seconds.
    pub from: f64,
    /// End of the window, seconds.
    pub now: f64,
    /// Whether the pace of requests in flight counts as their TPOT: quick, but with a wider tail
    /// than whole requests have; for navigation only.
    pub partial: bool,
    /// Seconds from the start within which windows are looked at, for objectives that have some: the worst
    /// of many is worse than the worst of few, so trials of different lengths are compared by as many.
    pub span: f64,
}

/// Reads each objective of `slo` off the samples.
pub fn readings(slo: &Slo, samples: &Samples<'_>, levels: &LevelHistory) -> Vec<Reading> {
    slo.objectives
        .iter()
        .map(|objective| match objective.window {
            // A trial that only steers may be shorter than a window: what there is steers it.
            Some(window) if !samples.partial => windows::worst(slo, objective, window, samples, levels),
            _ => read(slo, &objective.whole(), samples, levels),
        })
        .collect()
}

/// The values of one objective's samples, failures as infinitely bad, and the mean log load.
#[derive(Default)]
struct Values {
    values: Vec<f64>,
    /// When each sample was there; kept for TTFT only, whose samples do not come in order of time.
    instants: Vec<f64>,
    load_sum: f64,
}

impl Values {
    fn push(&mut self, value: f64, log_load: f64) {
        self.values.push(value);
        self.load_sum += log_load;
    }

    fn push_at(&mut self, value: f64, log_load: f64, instant: f64) {
        self.push(value, log_load);
        self.instants.push(instant);
    }

    /// The values in order of time.
    fn in_time(self) -> Vec<f64> {
        if self.instants.is_empty() {
            return self.values;
        }
        let mut timed: Vec<(f64, f64)> = self.instants.into_iter().zip(self.values).collect();
        timed.sort_by(|a, b| a.0.total_cmp(&b.0));
        timed.into_iter().map(|(_, value)| value).collect()
    }
}

pub(super) fn read(
    slo: &Slo,
    objective: &Objective,
    samples: &Samples<'_>,
    levels: &LevelHistory,
) -> Reading {
    match objective.metric {
        Metric::Goodput => return goodput(slo, objective, samples, levels),
        Metric::Attainment | Metric::Errors => return share(slo, objective, samples, levels),
        _ => {}
    }
    let bad = if objective.op.wants_large() { 0.0 } else { f64::INFINITY };
    let collected = collect(objective, samples, levels, bad);
    let n = collected.values.len();
    let log_load = if n > 0 { collected.load_sum / n as f64 } else { log_load_at(levels, samples.now) };
    let in_time = collected.in_time();
    let over = in_time.iter().filter(|value| !objective.op.holds(**value, objective.threshold)).count();
    let mut sorted = in_time.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let seen = match objective.stat {
        _ if n == 0 => None,
        Stat::Percentile(p) => Some(quantile_seen(objective, &in_time, &sorted, p / 100.0)),
        Stat::Max => Some(quantile_seen(objective, &in_time, &sorted, 1.0)),
        Stat::Mean | Stat::Value => mean_seen(objective, &in_time, bad),
    };
    let seen = seen.unwrap_or(Seen { figure: None, margin: 0.0, variance: 1.0 });
    Reading {
        over: over as u32,
        of: n as u32,
        figure: seen.figure,
        margin: seen.margin,
        variance: seen.variance,
        log_load,
        profile: profile(objective, &sorted),
        blocks: blocks(objective, &in_time),
        windows: None,
    }
}

/// The judged figure of some samples, and its distance from the threshold.
struct Seen {
    figure: Option<f64>,
    margin: f64,
    variance: f64,
}

fn log_load_at(levels: &LevelHistory, at: f64) -> f64 {
    levels.mean_log(at, at)
}

fn clipped_margin(objective: &Objective, value: f64) -> f64 {
    objective.margin(value.min(1e12)).clamp(-CLIP, CLIP)
}

fn collect(objective: &Objective, samples: &Samples<'_>, levels: &LevelHistory, bad: f64) -> Values {
    let mut values = Values::default();
    let metric = objective.metric;
    let overdue = |age: f64| metric.is_time() && metric != Metric::Itl && age > objective.threshold;
    let gaps_kept = samples.records.iter().any(|record| !record.gaps_us.is_empty());
    // A navigation trial begins soon after the level has moved: what began at the old level would
    // tell of that one. A measuring trial has settled, and its load is averaged over each life.
    let began_before = |sent: f64, first: Option<f64>| {
        let began = if matches!(metric, Metric::Ttft | Metric::E2e) { Some(sent) } else { first };
        samples.partial && began.is_some_and(|began| began < samples.from)
    };
    for record in samples.records {
        // What is lost on the way is no answer of the server's.
        if !objective.turns.hold(record.turn)
            || began_before(record.start(), record.first)
            || record.is_lost()
        {
            continue;
        }
        let life = record.first.map_or_else(
            || levels.mean_log(record.start(), record.ended),
            |first| levels.mean_log(first, record.last.unwrap_or(record.ended)),
        );
        let at_sending = levels.mean_log(record.start(), record.start());
        match (&record.outcome, metric) {
            // A first token counts whatever became of the request later, if it came in the window.
            (Outcome::Completed { .. } | Outcome::Censored | Outcome::Cancelled, Metric::Ttft) => {
                match record.first {
                    Some(first) if first >= samples.from => {
                        values.push_at(first - record.start(), at_sending, first);
                    }
                    None if overdue(record.ended - record.start()) => {
                        values.push_at(record.ended - record.start(), at_sending, record.ended);
                    }
                    _ => {}
                }
            }
            (Outcome::Failed { cause, .. }, Metric::Ttft) => {
                values.push_at(failed_value(objective, record, *cause, bad), at_sending, record.ended);
            }
            // It misses as often as a request has gaps, or it would weigh next to nothing among them.
            (Outcome::Failed { .. }, Metric::Itl) => {
                let gaps = if gaps_kept { record.osl.saturating_sub(1).max(1) } else { 1 };
                (0..gaps).for_each(|_| values.push(bad, life));
            }
            (Outcome::Failed { cause, .. }, _) => {
                values.push(failed_value(objective, record, *cause, bad), life)
            }
            (Outcome::Completed { .. }, Metric::Itl) => {
                if record.gaps_us.is_empty() {
                    if let Some(tpot) = record.tpot() {
                        values.push(tpot, life);
                    }
                } else {
                    record.for_each_itl(|gap| values.push(gap, life));
                }
            }
            (Outcome::Completed { .. }, Metric::E2e) => {
                if let Some(e2e) = record.e2e() {
                    values.push(e2e, levels.mean_log(record.start(), record.ended));
                }
            }
            (Outcome::Completed { .. }, _) => {
                if let Some(value) = metric.of_request(record) {
                    values.push(value, life);
                }
            }
            (Outcome::Censored | Outcome::Cancelled, Metric::E2e) => {
                if overdue(record.ended - record.start()) {
                    values.push(record.ended - record.start(), levels.mean_log(record.start(), record.ended));
                }
            }
            (Outcome::Censored | Outcome::Cancelled, _) => {}
        }
    }
    for flight in samples.pending {
        if !objective.turns.hold(flight.turn) || began_before(flight.start(), flight.first) {
            continue;
        }
        let at_sending = levels.mean_log(flight.start(), flight.start());
        let age = samples.now - flight.start();
        match (metric, flight.first) {
            (Metric::Ttft, Some(first)) if first >= samples.from => {
                values.push_at(first - flight.start(), at_sending, first);
            }
            (Metric::Ttft, None) if overdue(age) => values.push_at(age, at_sending, samples.now),
            (Metric::E2e, _) if overdue(age) => {
                values.push(age, levels.mean_log(flight.start(), samples.now))
            }
            (Metric::Tpot | Metric::Itl | Metric::OutputTokensPerSecondPerUser, Some(first))
                if samples.partial =>
            {
                if let Some(latest) = flight.latest
                    && flight.tokens >= PARTIAL_TOKENS
                    && first >= samples.from
                {
                    let tpot = (latest - first) / f64::from(flight.tokens - 1);
                    let value =
                        if metric == Metric::OutputTokensPerSecondPerUser { 1.0 / tpot } else { tpot };
                    values.push(value, levels.mean_log(first, latest));
                }
            }
            _ => {}
        }
    }
    values
}

/// What a failed request says about an objective on latency: worse than anything, except that one
/// which timed out has at least waited that long, which a mean can use.
fn failed_value(objective: &Objective, record: &RequestRecord, cause: Failure, bad: f64) -> f64 {
    let waited = match objective.metric {
        Metric::Ttft => record.first.unwrap_or(record.ended) - record.start(),
        Metric::E2e => record.ended - record.start(),
        _ => return bad,
    };
    if objective.stat == Stat::Mean && cause == Failure::Timeout { waited } else { bad }
}

/// Objectives on the rate of good requests.
fn goodput(slo: &Slo, objective: &Objective, samples: &Samples<'_>, levels: &LevelHistory) -> Reading {
    let good = samples.records.iter().filter(|record| slo.is_good(record)).count() as f64;
    let figure = good / (samples.now - samples.from).max(1e-9);
    Reading {
        over: 0,
        of: 0,
        figure: (!samples.records.is_empty()).then_some(figure),
        margin: clipped_margin(objective, figure),
        variance: 1.0 / good.max(1.0),
        log_load: log_load_at(levels, samples.now),
        profile: Vec::new(),
        blocks: Vec::new(),
        windows: None,
    }
}

/// Objectives on a share of requests: attainment and errors.
fn share(slo: &Slo, objective: &Objective, samples: &Samples<'_>, levels: &LevelHistory) -> Reading {
    let (mut over, mut of, mut load_sum) = (0_u32, 0_u32, 0.0);
    let mut count = |miss: bool, log_load: f64| {
        of += 1;
        over += u32::from(miss);
        load_sum += log_load;
    };
    let judges_ttft = objective.metric == Metric::Attainment && slo.ttft_limit().is_some();
    let overdue = |turn: Option<u32>, first: Option<f64>, sent: f64, now: f64| {
        judges_ttft && slo.ttft_limit_of(turn).is_some_and(|limit| first.unwrap_or(now) - sent > limit)
    };
    for record in samples.records {
        let miss = match objective.metric {
            Metric::Errors => record.failure().is_some(),
            _ => !slo.is_good(record),
        };
        // A request that was let go says nothing, unless it had broken its limit by then.
        let finished = record.is_completed() || record.failure().is_some();
        // An objective on errors counts what users see; the others what the server does.
        let counts = objective.metric == Metric::Errors || !record.is_lost();
        if counts && (finished || overdue(record.turn, record.first, record.start(), record.ended)) {
            count(miss, levels.mean_log(record.start(), record.ended));
        }
    }
    for flight in samples.pending {
        if flight.first.is_none() && overdue(flight.turn, None, flight.start(), samples.now) {
            count(true, levels.mean_log(flight.start(), samples.now));
        }
    }
    let missed = f64::from(over) / f64::from(of.max(1));
    let figure = if objective.metric == Metric::Errors { missed } else { 1.0 - missed };
    // The misses relative to those allowed. The fractions keep no miss from being an infinite
    // distance, and the sign that of the verdict: positive from the first miss too many.
    let allowed = (objective.allowed_misses().unwrap_or(0.0) * f64::from(of) + 1e-9).floor();
    let margin = ((f64::from(over) + 0.25) / (allowed + 0.5)).ln().clamp(-CLIP, CLIP);
    Reading {
        over,
        of,
        figure: (of > 0).then_some(figure),
        margin: if of > 0 { margin } else { 0.0 },
        variance: 1.0 / (f64::from(over) + 0.5),
        log_load: if of > 0 { load_sum / f64::from(of) } else { log_load_at(levels, samples.now) },
        profile: Vec::new(),
        blocks: Vec::new(),
        windows: None,
    }
}

/// The mean of samples in order of time, those of a few failed requests left out.
fn mean_seen(objective: &Objective, in_time: &[f64], bad: f64) -> Option<Seen> {
    let there: Vec<f64> = in_time.iter().copied().filter(|&value| value != bad).collect();
    let failed = in_time.len() - there.len();
    if failed as f64 > FAILURES_LEFT_OUT * in_time.len() as f64 {
        return Some(Seen { figure: Some(bad), margin: clipped_margin(objective, bad), variance: 1e-4 });
    }
    let mean = there.iter().sum::<f64>() / there.len() as f64;
    // By the delta method; a few samples may agree by chance, so never below 1 %.
    let variance = match batch::variance_of_mean(&there) {
        Some(variance) if mean > 0.0 => variance / (mean * mean) + 1e-4,
        _ => 1.0,
    };
    Some(Seen { figure: Some(mean), margin: clipped_margin(objective, mean), variance })
}

/// The `p` quantile of samples, and the variance of its margin.
fn quantile_seen(objective: &Objective, in_time: &[f64], sorted: &[f64], p: f64) -> Seen {
    let n = sorted.len();
    let center = quantile(sorted, p);
    let margin = clipped_margin(objective, center);
    let figure = Some(center);
    if n < 6 {
        return Seen { figure, margin, variance: 1.0 };
    }
    if n < SMALL {
        // A lognormal of this spread puts the quantile here; large margins are bad, so its upper
        // tail is wanted, and half of what was seen keeps a single outlier in view.
        let tail = if objective.op.wants_large() { 1.0 - p } else { p };
        let all: Vec<f64> = in_time.iter().map(|&value| clipped_margin(objective, value)).collect();
        let mut whole: Vec<f64> = all.iter().copied().filter(|margin| *margin < CLIP).collect();
        // A few failures among few samples are no tail: with 2 % errors half of such samples have
        // one. They count when their share is more than may be over, beyond chance.
        let failed = all.len() - whole.len();
        let chance = failed > 0 && whole.len() >= 6 && wilson(failed as u32, n as u32, 0.95).low < 1.0 - tail;
        let (margins, margin) = if chance {
            whole.sort_unstable_by(f64::total_cmp);
            let seen = quantile(&whole, tail);
            (whole, seen)
        } else {
            (all, margin)
        };
        let z = if tail >= 1.0 { 3.0 } else { normal_quantile(tail) };
        let spread = batch::sample_variance(&margins);
        let shaped = margins.iter().sum::<f64>() / n as f64 + z * spread.sqrt();
        let margin = shaped.max(0.5 * (margin + shaped)).clamp(-CLIP, CLIP);
        // Doubled, as the requests of one trial share the server's mood.
        return Seen { figure, margin, variance: 2.0 * spread * (1.0 + 0.5 * z * z) / n as f64 + 9e-4 };
    }
    // Half the width of the order-statistic interval, widened by the design effect that batches
    // show; with few batches that is shrunk towards 1, with the weight of six of them.
    let effect = batch::design_effect(in_time.iter().map(|&value| f64::from(u8::from(value > center))), p);
    let ratio = (effect.ratio * effect.dof + 6.0) / (effect.dof + 6.0);
    let half = ((p * (1.0 - p)).max(1e-4) * ratio / n as f64).sqrt();
    let end = 0.5 / n as f64;
    let low = clipped_margin(objective, quantile(sorted, (p - half).clamp(end, 1.0 - end)));
    let high = clipped_margin(objective, quantile(sorted, (p + half).clamp(end, 1.0 - end)));
    Seen { figure, margin, variance: ((high - low) / 2.0).abs().max(1e-4).powi(2) }
}

/// Medians of successive equal parts of the samples, on the scale of margins.
fn blocks(objective: &Objective, in_time: &[f64]) -> Vec<f32> {
    let count = (in_time.len() / SMALLEST_BLOCK).min(BLOCKS);
    (0..count)
        .map(|block| {
            let range = block * in_time.len() / count..(block + 1) * in_time.len() / count;
            let mut part = in_time[range].to_vec();
            part.sort_unstable_by(f64::total_cmp);
            clipped_margin(objective, quantile(&part, 0.5)) as f32
        })
        .collect()
}

/// Evenly spaced quantiles (mid-ranks) of the margins of sorted values, ascending.
fn profile(objective: &Objective, sorted: &[f64]) -> Vec<f32> {
    let points = sorted.len().min(PROFILE);
    let mut profile: Vec<f32> = (0..points)
        .map(|i| {
            let rank = (i as f64 + 0.5) / points as f64 * sorted.len() as f64;
            clipped_margin(objective, sorted[(rank as usize).min(sorted.len() - 1)]) as f32
        })
        .collect();
    if objective.op.wants_large() {
        profile.reverse();
    }
    profile
}
