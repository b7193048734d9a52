//! What the samples of one trial say about each objective.
//!
//! A sample counts at the instant at which it is there: TTFT when the first token comes, TPOT when
//! the request ends. A window then holds long and short requests in the shares in which the server
//! serves them; counting only requests that began *and* ended inside it would favour short ones.

use crate::loadgen::record::{Outcome, RequestRecord};
use crate::loadgen::session::{InFlight, LevelHistory};
use crate::slo::{Metric, Objective, Slo, Stat};
use crate::stats::quantile::quantile;
use crate::verdict::Reading;

/// Margins are clipped to this on the log scale: beyond 50 times the limit nothing more is said.
const CLIP: f64 = 4.0;
/// Points of a reading's profile.
const PROFILE: usize = 200;
/// Fewest tokens after which the pace of a request in flight is taken as its TPOT.
const PARTIAL_TOKENS: u32 = 24;
/// Fewer samples than this: a quantile is helped by the shape of a lognormal.
const SMALL: usize = 40;

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
}

/// Reads each objective of `slo` off the samples.
pub fn readings(slo: &Slo, samples: &Samples<'_>, levels: &LevelHistory) -> Vec<Reading> {
    slo.objectives.iter().map(|objective| read(slo, objective, samples, levels)).collect()
}

/// The values of one objective's samples, failures as infinitely bad, and the mean log load.
#[derive(Default)]
struct Values {
    values: Vec<f64>,
    load_sum: f64,
}

impl Values {
    fn push(&mut self, value: f64, log_load: f64) {
        self.values.push(value);
        self.load_sum += log_load;
    }
}

fn read(slo: &Slo, objective: &Objective, samples: &Samples<'_>, levels: &LevelHistory) -> Reading {
    let log_load_now = levels.mean_log(samples.now, samples.now);
    match objective.metric {
        Metric::Goodput => {
            let good = samples.records.iter().filter(|record| slo.is_good(record)).count();
            let figure = good as f64 / (samples.now - samples.from).max(1e-9);
            let margin = objective.margin(figure).clamp(-CLIP, CLIP);
            let figure = (!samples.records.is_empty()).then_some(figure);
            let variance = 1.0 / (good as f64).max(1.0);
            return Reading {
                over: 0,
                of: 0,
                figure,
                margin,
                variance,
                log_load: log_load_now,
                profile: Vec::new(),
            };
        }
        Metric::Attainment | Metric::Errors => return share(slo, objective, samples, levels),
        _ => {}
    }
    let bad = if objective.op.wants_large() { 0.0 } else { f64::INFINITY };
    let collected = collect(objective, samples, levels, bad);
    let n = collected.values.len();
    let over =
        collected.values.iter().filter(|value| !objective.op.holds(**value, objective.threshold)).count();
    let log_load = if n > 0 { collected.load_sum / n as f64 } else { log_load_now };
    let mut margins: Vec<f64> =
        collected.values.iter().map(|&value| objective.margin(value.min(1e12)).clamp(-CLIP, CLIP)).collect();
    // The share of samples at or below the figure that is judged, on the scale of margins, where
    // large is bad for every objective.
    let p = match objective.stat {
        Stat::Percentile(p) if objective.op.wants_large() => 1.0 - p / 100.0,
        Stat::Percentile(p) => p / 100.0,
        Stat::Max => 1.0,
        Stat::Mean | Stat::Value => f64::NAN,
    };
    let (margin, variance) = if n == 0 {
        (0.0, 1.0)
    } else if p.is_nan() {
        mean_margin(objective, &collected.values)
    } else {
        let (margin, variance) = quantile_margin(&mut margins, p);
        (margin, variance)
    };
    let figure = (n > 0).then(|| figure_at(objective, margin));
    margins.sort_unstable_by(f64::total_cmp);
    Reading {
        over: over as u32,
        of: n as u32,
        figure,
        margin,
        variance,
        log_load,
        profile: profile(&margins),
    }
}

/// The figure that has this margin.
fn figure_at(objective: &Objective, margin: f64) -> f64 {
    let ratio = if objective.op.wants_large() { -margin } else { margin };
    objective.threshold * ratio.exp()
}

fn collect(objective: &Objective, samples: &Samples<'_>, levels: &LevelHistory, bad: f64) -> Values {
    let mut values = Values::default();
    let metric = objective.metric;
    let overdue = |age: f64| metric.is_time() && metric != Metric::Itl && age > objective.threshold;
    for record in samples.records {
        let life = record.first.map_or_else(
            || levels.mean_log(record.sent, record.ended),
            |first| levels.mean_log(first, record.last.unwrap_or(record.ended)),
        );
        let at_sending = levels.mean_log(record.sent, record.sent);
        match (&record.outcome, metric) {
            // A first token counts whatever became of the request later, if it came in the window.
            (Outcome::Completed { .. } | Outcome::Censored | Outcome::Cancelled, Metric::Ttft) => {
                match record.ttft() {
                    Some(ttft) if record.first.is_some_and(|first| first >= samples.from) => {
                        values.push(ttft, at_sending)
                    }
                    Some(_) => {}
                    None if overdue(record.ended - record.sent) => {
                        values.push(record.ended - record.sent, at_sending)
                    }
                    None => {}
                }
            }
            (Outcome::Failed { .. }, Metric::Ttft) => values.push(bad, at_sending),
            (Outcome::Failed { .. }, _) => values.push(bad, life),
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
                    values.push(e2e, levels.mean_log(record.sent, record.ended));
                }
            }
            (Outcome::Completed { .. }, _) => {
                if let Some(value) = metric.of_request(record) {
                    values.push(value, life);
                }
            }
            (Outcome::Censored | Outcome::Cancelled, Metric::E2e) => {
                if overdue(record.ended - record.sent) {
                    values.push(record.ended - record.sent, levels.mean_log(record.sent, record.ended));
                }
            }
            (Outcome::Censored | Outcome::Cancelled, _) => {}
        }
    }
    for flight in samples.pending {
        let at_sending = levels.mean_log(flight.sent, flight.sent);
        let age = samples.now - flight.sent;
        match (metric, flight.first) {
            (Metric::Ttft, Some(first)) if first >= samples.from => {
                values.push(first - flight.sent, at_sending)
            }
            (Metric::Ttft, None) | (Metric::E2e, _) if overdue(age) => values.push(age, at_sending),
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

/// Objectives on a share of requests: attainment and errors.
fn share(slo: &Slo, objective: &Objective, samples: &Samples<'_>, levels: &LevelHistory) -> Reading {
    let (mut over, mut of, mut load_sum) = (0_u32, 0_u32, 0.0);
    for record in samples.records {
        let finished = record.is_completed() || record.failure().is_some();
        if !finished {
            continue;
        }
        let miss = match objective.metric {
            Metric::Errors => record.failure().is_some(),
            _ => !slo.is_good(record),
        };
        of += 1;
        over += u32::from(miss);
        load_sum += levels.mean_log(record.sent, record.ended);
    }
    if objective.metric == Metric::Attainment
        && let Some(limit) = slo.ttft_limit()
    {
        let overdue = samples.pending.iter().filter(|f| f.first.is_none() && samples.now - f.sent > limit);
        for flight in overdue {
            of += 1;
            over += 1;
            load_sum += levels.mean_log(flight.sent, samples.now);
        }
    }
    let missed = f64::from(over) / f64::from(of.max(1));
    let allowed = objective.allowed_misses().unwrap_or(0.5).max(1e-3);
    // The share of misses relative to the allowed one, with half a miss added so that none seen is
    // not an infinite distance.
    let margin = (((f64::from(over) + 0.5) / (f64::from(of) + 1.0)) / allowed).ln().clamp(-CLIP, CLIP);
    let figure = if objective.metric == Metric::Errors { missed } else { 1.0 - missed };
    Reading {
        over,
        of,
        figure: (of > 0).then_some(figure),
        margin,
        variance: 1.0 / (f64::from(over) + 0.5),
        log_load: if of > 0 { load_sum / f64::from(of) } else { levels.mean_log(samples.now, samples.now) },
        profile: Vec::new(),
    }
}

fn mean_margin(objective: &Objective, values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let relative = if mean.is_finite() && mean > 0.0 { 2.0 * variance / (n * mean * mean) } else { 1.0 };
    (objective.margin(mean.min(1e12)).clamp(-CLIP, CLIP), relative + 1e-4)
}

/// The quantile of margins and its variance. `margins` come in order of time and are left sorted.
fn quantile_margin(margins: &mut [f64], p: f64) -> (f64, f64) {
    let n = margins.len();
    let in_time = margins.to_vec();
    margins.sort_unstable_by(f64::total_cmp);
    let seen = quantile(margins, p);
    if n < 6 {
        return (seen, 1.0);
    }
    if n < SMALL {
        let mean = in_time.iter().sum::<f64>() / n as f64;
        let sd = (in_time.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (n as f64 - 1.0)).sqrt();
        // A lognormal of this spread puts the quantile here; never below what was seen.
        let z = if p >= 1.0 { 3.0 } else { crate::stats::special::normal_quantile(p) };
        let shaped = mean + z * sd;
        let margin = shaped.max(0.5 * (seen + shaped)).clamp(-CLIP, CLIP);
        // Doubled, as the requests of one trial share the server's mood.
        return (margin, 2.0 * sd * sd * (1.0 + 0.5 * z * z) / n as f64 + 9e-4);
    }
    // Width of the order-statistic interval, widened by the design effect that batches show.
    let batches = if n >= 100 { 10 } else { 6 };
    let size = n / batches;
    let shares: Vec<f64> = in_time
        .chunks_exact(size)
        .take(batches)
        .map(|batch| batch.iter().filter(|margin| **margin > seen).count() as f64 / size as f64)
        .collect();
    let mean = shares.iter().sum::<f64>() / batches as f64;
    let between = shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / (batches as f64 - 1.0);
    let spread = (p * (1.0 - p)).max(1e-4);
    // Shrunk towards 1 with the weight of six batches.
    let degrees = batches as f64 - 1.0;
    let design = ((between * size as f64 / spread * degrees + 6.0) / (degrees + 6.0)).max(1.0);
    let half = (n as f64 * spread * design).sqrt() / n as f64;
    let low = quantile(margins, (p - half).max(0.5));
    let high = quantile(margins, (p + half).min(1.0 - 0.5 / n as f64));
    (seen, ((high - low) / 2.0).max(1e-4).powi(2))
}

/// Evenly spaced quantiles (mid-ranks) of sorted margins.
fn profile(sorted: &[f64]) -> Vec<f32> {
    let points = sorted.len().min(PROFILE);
    (0..points)
        .map(|i| {
            let rank = (i as f64 + 0.5) / points as f64 * sorted.len() as f64;
            sorted[(rank as usize).min(sorted.len() - 1)] as f32
        })
        .collect()
}
