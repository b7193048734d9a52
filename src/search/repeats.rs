//! One answer from several whole searches.
//!
//! The interval of one search knows the noise within that run. A server that is started anew, or just
//! on another day, is another server by a few percent, which no single run can see. Whole searches
//! with fresh seeds see it, and are put together as a random-effects meta-analysis of the log
//! capacities: run `i` finds `y_i ~ N(m, s_i^2 + tau^2)`, where `s_i` is what the run itself is unsure
//! of, `tau` the spread from run to run and `m` the capacity that is asked for.
//!
//! Two or three runs say little of `tau`, and the classical answers are of no use there: with two runs
//! the interval of DerSimonian and Laird is far too narrow, that of Hartung and Knapp uses Student's t
//! with one degree of freedom (a factor of 12.7), and both take `tau = 0` at their word whenever the
//! runs happen to agree. So `tau` has a prior, a half-Cauchy of scale 3 %, and is integrated out:
//! servers that were started anew differ by a few percent, and the heavy tail lets the runs say
//! otherwise. Sources: Röver, Bayesian random-effects meta-analysis (J. Stat. Softw. 93(6), 2020), for
//! the model and its posterior; Friede et al., Meta-analysis of few small studies (Res. Synth. Methods
//! 8, 2017), for priors where there are few; Gelman, Prior distributions for variance parameters
//! (Bayesian Analysis 1(3), 2006), for the half-Cauchy.

use crate::search::answer::{Answer, Goodput, SearchOutcome};
use crate::stats::sequential::Known;
use crate::stats::special::{normal_cdf, normal_quantile};
use crate::units::{Interval, Load};

/// Scale of the prior of the spread from run to run (log scale).
pub const PRIOR_SCALE: f64 = 0.03;
/// Stated coverage.
pub const CONFIDENCE: f64 = 0.95;
/// Points of the integral over the spread.
const POINTS: usize = 400;
/// Least sd of one run (log scale): a boundary lies between whole users.
const LEAST_SD: f64 = 0.004;

/// What several runs know together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Combined {
    /// Median of the capacity, in the unit of the runs.
    pub capacity: f64,
    /// Where it lies with [`CONFIDENCE`].
    pub interval: (f64, f64),
    /// Median of the spread from run to run, as a sd on the log scale (0.03: 3 %).
    pub between_run_sd: f64,
}

impl Combined {
    /// The capacity as a posterior that is normal on the log scale.
    pub fn known(&self) -> Known {
        let wide = 2.0 * normal_quantile(0.5 + CONFIDENCE / 2.0);
        Known { capacity: self.capacity, log_sd: (self.interval.1 / self.interval.0).ln() / wide }
    }

    /// The same of one more run: it differs from the others as they do from each other.
    pub fn next_run(&self) -> Known {
        let Known { capacity, log_sd } = self.known();
        Known { capacity, log_sd: log_sd.hypot(self.between_run_sd) }
    }
}

/// One search of several.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeat {
    /// What it found.
    pub answer: Answer,
    /// Its capacity as a posterior, where there is one; else the answer's own interval stands for it.
    pub known: Option<Known>,
}

/// Puts the capacities of runs together; `None` for none, or for one that is not above 0.
///
/// ```
/// use plimsoll::stats::sequential::Known;
/// use plimsoll::search::repeats::combine;
/// let runs = [55.0, 57.0, 54.0].map(|capacity| Known { capacity, log_sd: 0.03 });
/// let all = combine(&runs).unwrap();
/// assert!(all.interval.0 < 54.0 && 57.0 < all.interval.1);
/// ```
pub fn combine(runs: &[Known]) -> Option<Combined> {
    let usable = |run: &Known| run.capacity > 0.0 && run.capacity.is_finite() && run.log_sd.is_finite();
    if runs.is_empty() || !runs.iter().all(usable) {
        return None;
    }
    let logs: Vec<(f64, f64)> =
        runs.iter().map(|run| (run.capacity.ln(), run.log_sd.max(LEAST_SD).powi(2))).collect();
    let parts = posterior(&logs);
    let below = |x: f64| -> f64 { parts.iter().map(|p| p.weight * normal_cdf((x - p.mean) / p.sd)).sum() };
    let least = parts.iter().map(|p| p.mean).fold(f64::INFINITY, f64::min);
    let most = parts.iter().map(|p| p.mean).fold(f64::NEG_INFINITY, f64::max);
    let quantile = |p: f64| {
        let mut reach = 0.1;
        while below(least - reach) > p || below(most + reach) < p {
            reach *= 2.0;
        }
        let (mut low, mut high) = (least - reach, most + reach);
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            if below(middle) < p { low = middle } else { high = middle }
        }
        0.5 * (low + high)
    };
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let mut mass = 0.0;
    let spread = parts.iter().find(|part| {
        mass += part.weight;
        mass >= 0.5
    });
    Some(Combined {
        capacity: quantile(0.5).exp(),
        interval: (quantile(tail).exp(), quantile(1.0 - tail).exp()),
        between_run_sd: spread.map_or(0.0, |part| part.spread),
    })
}

/// The posterior of the capacity given one spread, with the posterior weight of that spread.
struct Part {
    spread: f64,
    weight: f64,
    mean: f64,
    sd: f64,
}

/// The posterior on a grid over the spread, evenly spaced in the prior's own probability.
fn posterior(logs: &[(f64, f64)]) -> Vec<Part> {
    let mut parts: Vec<Part> = (0..POINTS)
        .map(|index| {
            let p = (index as f64 + 0.5) / POINTS as f64;
            let spread = PRIOR_SCALE * (p * std::f64::consts::FRAC_PI_2).tan();
            let precision = |variance: f64| 1.0 / (variance + spread * spread);
            let total: f64 = logs.iter().map(|&(_, variance)| precision(variance)).sum();
            let mean = logs.iter().map(|&(y, variance)| precision(variance) * y).sum::<f64>() / total;
            // Log of the likelihood of the spread, the capacity integrated out under a flat prior.
            let fit: f64 = logs
                .iter()
                .map(|&(y, variance)| precision(variance).ln() - precision(variance) * (y - mean).powi(2))
                .sum();
            Part { spread, weight: 0.5 * (fit - total.ln()), mean, sd: total.sqrt().recip() }
        })
        .collect();
    let most = parts.iter().map(|part| part.weight).fold(f64::NEG_INFINITY, f64::max);
    parts.iter_mut().for_each(|part| part.weight = (part.weight - most).exp());
    parts.retain(|part| part.weight > 1e-12);
    let total: f64 = parts.iter().map(|part| part.weight).sum();
    parts.iter_mut().for_each(|part| part.weight /= total);
    parts
}

/// The answer of several searches, with the spread from run to run where two or more found a load.
///
/// Searches that ended without a load within the allowed ones do not enter the figure; a note names
/// them. With a single one that found a load, its answer stands.
pub fn answer(runs: &[Repeat]) -> (Option<Answer>, Option<Combined>) {
    let found: Vec<&Repeat> = runs.iter().filter(|run| known(run).is_some()).collect();
    let Some(first) = found.first().copied() else {
        return (most_common(runs.iter().map(|run| run.answer.clone()), |answer| answer.outcome), None);
    };
    let mut answer = first.answer.clone();
    let mut combined = None;
    if found.len() > 1 {
        let capacities: Vec<Known> = found.iter().filter_map(|run| known(run)).collect();
        combined = combine(&capacities);
        if let Some(all) = combined {
            let (load, interval) = in_loads(&found, &all);
            answer.load = Some(load);
            answer.interval = Some(interval);
            answer.safe_load = safe(load, interval);
        }
        let all = || runs.iter().map(|run| &run.answer);
        answer.largest_met = all().filter_map(|a| a.largest_met).reduce(|a, b| if b > a { b } else { a });
        answer.smallest_missed =
            all().filter_map(|a| a.smallest_missed).reduce(|a, b| if b < a { b } else { a });
        answer.boundary = most_common(found.iter().filter_map(|run| run.answer.boundary), |b| *b);
        answer.goodput = goodput(&found);
        let binding =
            most_common(found.iter().filter_map(|run| run.answer.binding_objective.clone()), |b| b.clone());
        let given: Vec<f64> = found
            .iter()
            .filter_map(|run| {
                let probability = run.answer.binding_probability?;
                Some(if run.answer.binding_objective == binding { probability } else { 1.0 - probability })
            })
            .collect();
        answer.binding_probability =
            (!given.is_empty()).then(|| given.iter().sum::<f64>() / given.len() as f64);
        answer.binding_objective = binding;
    }
    answer.notes = notes(runs);
    (Some(answer), combined)
}

/// The capacity of a run that found one.
fn known(run: &Repeat) -> Option<Known> {
    if run.answer.outcome != SearchOutcome::Found {
        return None;
    }
    let of_interval = || {
        let (load, interval) = (run.answer.load?, run.answer.interval?);
        let high = interval.high.filter(|high| interval.low > 0.0 && *high >= interval.low)?;
        let wide = 2.0 * normal_quantile(0.5 + interval.confidence / 2.0);
        Some(Known { capacity: load.value(), log_sd: (high / interval.low).ln() / wide })
    };
    run.answer.load.and_then(|_| run.known.or_else(of_interval)).filter(|known| known.capacity > 0.0)
}

/// The load and its interval as levels: whole users as a search rounds them, or rates.
fn in_loads(found: &[&Repeat], all: &Combined) -> (Load, Interval) {
    let interval = |low, high| Interval { low, high: Some(high), confidence: CONFIDENCE };
    let loads: Vec<Load> = found.iter().filter_map(|run| run.answer.load).collect();
    let (low, high) = all.interval;
    match loads.first() {
        Some(Load::RequestRate(_)) => (Load::RequestRate(all.capacity), interval(low, high)),
        Some(Load::SpeedUp(_)) => (Load::SpeedUp(all.capacity), interval(low, high)),
        first => {
            let floor = |users: f64| (users + 1e-9).floor();
            let within: Vec<(f64, f64)> = found
                .iter()
                .filter_map(|run| run.answer.interval.and_then(|i| Some((i.low, i.high?))))
                .collect();
            let sure = |&(low, high): &(f64, f64)| high - low <= 1.0;
            match first {
                // A cliff at one number of users: what differs from run to run does not reach the next.
                Some(&load) if loads.iter().all(|other| *other == load) && within.iter().all(sure) => {
                    let low = within.iter().map(|ends| ends.0).fold(load.value(), f64::min);
                    let high = within.iter().map(|ends| ends.1).fold(load.value(), f64::max);
                    (load, interval(low, high))
                }
                _ => (Load::Concurrency(floor(all.capacity) as u32), interval(floor(low), floor(high))),
            }
        }
    }
}

/// The interval's lower end as a load; none where no user at all is safe.
fn safe(load: Load, interval: Interval) -> Option<Load> {
    match load {
        Load::Concurrency(_) => (interval.low >= 1.0).then_some(Load::Concurrency(interval.low as u32)),
        Load::RequestRate(_) => Some(Load::RequestRate(interval.low)),
        Load::SpeedUp(_) => Some(Load::SpeedUp(interval.low)),
    }
}

/// Goodput at the answer, put together as the capacities are; a plain mean where a run has no interval.
fn goodput(found: &[&Repeat]) -> Option<Goodput> {
    let all: Vec<Goodput> = found.iter().filter_map(|run| run.answer.goodput).collect();
    let known: Vec<Known> = all
        .iter()
        .filter_map(|goodput| {
            let interval = goodput.interval?;
            let half = 0.5 * (interval.high? - interval.low);
            let z = normal_quantile(0.5 + interval.confidence / 2.0);
            let capacity = goodput.requests_per_second;
            Some(Known { capacity, log_sd: half / (z * capacity) })
        })
        .collect();
    if all.is_empty() {
        return None;
    }
    let mean = all.iter().map(|goodput| goodput.requests_per_second).sum::<f64>() / all.len() as f64;
    Some(match combine(&known).filter(|_| known.len() == all.len()) {
        Some(combined) => {
            let (low, high) = combined.interval;
            let interval = Interval { low, high: Some(high), confidence: CONFIDENCE };
            Goodput { requests_per_second: combined.capacity, interval: Some(interval) }
        }
        None => Goodput { requests_per_second: mean, interval: None },
    })
}

/// Notes of the runs, each text once, and which runs did not find a load.
fn notes(runs: &[Repeat]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let text = match run.answer.outcome {
            SearchOutcome::Found if known(run).is_some() => None,
            SearchOutcome::Found => Some("found a load without an interval"),
            SearchOutcome::MissedAtLowest => Some("missed the SLO at the lowest load"),
            SearchOutcome::MetAtHighest => Some("met the SLO at the highest load allowed"),
            SearchOutcome::Void => Some("had no valid measurement"),
            SearchOutcome::Interrupted => Some("ended before it had an answer"),
        };
        notes.extend(text.map(|text| format!("run {} {text}; it is not in the combined figure", index + 1)));
        for (n, note) in run.answer.notes.iter().enumerate() {
            if !runs[..index].iter().any(|run| run.answer.notes.contains(note))
                && !run.answer.notes[..n].contains(note)
            {
                notes.push(format!("run {}: {note}", index + 1));
            }
        }
    }
    notes
}

/// The value whose key is most common; of equally common ones the first.
fn most_common<T, K: PartialEq>(values: impl Iterator<Item = T>, key: impl Fn(&T) -> K) -> Option<T> {
    let mut counts: Vec<(T, usize)> = Vec::new();
    for value in values {
        match counts.iter_mut().find(|(known, _)| key(known) == key(&value)) {
            Some((_, count)) => *count += 1,
            None => counts.push((value, 1)),
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max()?;
    counts.into_iter().find(|(_, count)| *count == most).map(|(value, _)| value)
}

#[cfg(test)]
mod tests;
