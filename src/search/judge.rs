//! The answer that a set of trials leads to, whatever they were run for.
//!
//! A search decides on its own trials; here trials of a finished run are judged anew (under another
//! SLO, or those of another tool), through the same posterior. Where the new boundary lies among
//! trials of a fixed size, the answer is that posterior's. Elsewhere nothing was measured there: the
//! interval is the bracket of what plainly met and plainly missed, and the load to measure next is
//! named.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::LoadRange;
use crate::search::adaptive::compose::{AT_ANSWER, boundary, goodput_of};
use crate::search::adaptive::posterior::{Crossing, Evidence};
use crate::search::adaptive::settings::Settings;
use crate::search::answer::{Answer, SearchOutcome};
use crate::search::trial::{TrialKind, TrialOutcome};
use crate::slo::Slo;
use crate::units::{Interval, Load};
use crate::verdict::Verdict;

/// A trial of a fixed size on each side of the boundary within this ratio makes it measured.
const REACH: f64 = 1.5;
/// Margin (log scale), and its share of standard errors, from which a trial plainly met or missed.
const PLAIN: (f64, f64) = (0.2, 3.0);
/// Stated coverage.
const CONFIDENCE: f64 = 0.95;

/// What trials say of the boundary.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The answer.
    pub answer: Answer,
    /// Whether the boundary lies among the measured loads.
    pub place: Place,
    /// The posterior that the answer was read off; `None` where it was not.
    pub crossing: Option<Crossing>,
}

/// Where a boundary lies relative to the loads that were measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Place {
    /// Trials of a fixed size lie on both sides of it, near by.
    Within,
    /// It lies where nothing of a fixed size was measured.
    Beyond {
        /// The load to measure next, requests in flight.
        next: u32,
    },
}

/// Judges trials under `slo`, of which each must hold the readings. `range` bounds the posterior.
///
/// Navigation trials, which the data stopped, only exclude loads; warm-ups and void trials count for
/// nothing.
pub fn judge(slo: &Slo, range: LoadRange, outcomes: &[TrialOutcome]) -> Judged {
    let settings = Settings::new(range, 0.0, 0);
    let valid: Vec<&TrialOutcome> = outcomes
        .iter()
        .filter(|outcome| {
            outcome.spec.kind != TrialKind::Warmup && !matches!(outcome.verdict, Verdict::Void(_))
        })
        .collect();
    if valid.is_empty() || slo.objectives.is_empty() {
        return nothing(outcomes);
    }
    let mut evidence = Evidence::new(slo, &settings);
    valid.iter().for_each(|outcome| evidence.add(outcome));
    let sides = Sides::of(&valid);
    if let Some(load) = sides.met {
        // A load that plainly met above: what missed below it was a dip.
        evidence.forget_misses_to(f64::from(load).ln());
    }
    let crossing = evidence.crossing(range);
    let report = crossing.as_ref().map(|crossing| crossing.report(&settings));
    let estimate = report.map(|report| report.estimate);
    let within = estimate.is_some_and(|estimate| is_measured(&valid, estimate))
        || edge(&valid, range, report.map(|report| report.outcome));
    let mut judged = match (report, within) {
        (Some(report), true) => Judged {
            answer: Answer {
                outcome: report.outcome,
                load: (report.outcome != SearchOutcome::MissedAtLowest)
                    .then_some(Load::Concurrency(report.estimate)),
                interval: Some(Interval {
                    low: f64::from(report.interval.0),
                    high: (report.outcome != SearchOutcome::MetAtHighest)
                        .then_some(f64::from(report.interval.1)),
                    confidence: CONFIDENCE,
                }),
                safe_load: report.safe.map(Load::Concurrency),
                ..Answer::bare(report.outcome)
            },
            place: Place::Within,
            crossing: crossing.clone(),
        },
        _ => beyond(&sides, range, estimate),
    };
    let answer = &mut judged.answer;
    let extreme = |verdict: Verdict| valid.iter().filter(move |o| o.verdict == verdict).map(|o| users(o));
    answer.largest_met = extreme(Verdict::Met).max().map(Load::Concurrency);
    answer.smallest_missed = extreme(Verdict::Missed).min().map(Load::Concurrency);
    answer.boundary = crossing.as_ref().filter(|_| judged.place == Place::Within).map(boundary);
    let binding = crossing.as_ref().map(|crossing| (crossing.binding, crossing.binding_probability));
    answer.binding_objective =
        binding.and_then(|(index, _)| slo.objectives.get(index)).map(ToString::to_string);
    answer.binding_probability = binding.filter(|_| slo.objectives.len() > 1).map(|(_, p)| p);
    answer.goodput = answer.load.and_then(|load| {
        let near = |o: &&&TrialOutcome| {
            (o.spec.load.value() / load.value().max(1.0)).ln().abs() < AT_ANSWER
                && o.spec.kind != TrialKind::Navigate
        };
        goodput_of(&valid.iter().filter(near).map(|o| o.good_rate).collect::<Vec<f64>>())
    });
    judged
}

fn users(outcome: &TrialOutcome) -> u32 {
    outcome.spec.load.value() as u32
}

fn nothing(outcomes: &[TrialOutcome]) -> Judged {
    let next = outcomes.iter().map(users).min().unwrap_or(1);
    Judged { answer: Answer::bare(SearchOutcome::Void), place: Place::Beyond { next }, crossing: None }
}

/// Whether trials of a fixed size near `estimate` met below it and missed above it.
fn is_measured(valid: &[&TrialOutcome], estimate: u32) -> bool {
    let fixed = || valid.iter().filter(|outcome| outcome.spec.kind != TrialKind::Navigate);
    let near = |load: u32| {
        let ratio = f64::from(load) / f64::from(estimate.max(1));
        (1.0 / REACH..=REACH).contains(&ratio) || load.abs_diff(estimate) <= 1
    };
    // A load at the boundary itself may fall either way.
    let slack = estimate / 20 + 1;
    // Too few samples for a verdict that keep the limit are on this side of it, for what they are
    // worth: the posterior knows how little that is.
    let met = |o: &TrialOutcome| matches!(o.verdict, Verdict::Met | Verdict::Undecided);
    fixed().any(|o| met(o) && users(o) <= estimate + slack && near(users(o)))
        && fixed().any(|o| o.verdict == Verdict::Missed && users(o) + slack > estimate && near(users(o)))
}

/// Whether the boundary lies at the end of the range, and a trial of a fixed size there says so.
fn edge(valid: &[&TrialOutcome], range: LoadRange, outcome: Option<SearchOutcome>) -> bool {
    let at = |load: u32, verdict: &Verdict| {
        valid.iter().any(|o| o.spec.kind != TrialKind::Navigate && users(o) == load && o.verdict == *verdict)
    };
    match outcome {
        Some(SearchOutcome::MissedAtLowest) => at(range.min, &Verdict::Missed),
        Some(SearchOutcome::MetAtHighest) => at(range.max, &Verdict::Met),
        _ => false,
    }
}

/// The largest load that plainly met, and the smallest above it that plainly missed; where none did, of
/// those that met or missed at all.
#[derive(Clone, Copy, Debug)]
struct Sides {
    met: Option<u32>,
    missed: Option<u32>,
}

impl Sides {
    fn of(valid: &[&TrialOutcome]) -> Self {
        let plain = |outcome: &TrialOutcome, missed: bool| {
            let beyond = |reading: &crate::verdict::Reading| {
                let margin = if missed { reading.margin } else { -reading.margin };
                margin > PLAIN.0.max(PLAIN.1 * (reading.variance + 0.002).sqrt())
            };
            match missed {
                true => outcome.readings.iter().any(beyond),
                false => outcome.readings.iter().all(beyond),
            }
        };
        let met = valid.iter().filter(|o| plain(o, false)).map(|o| users(o)).max();
        let above = |load: &u32| met.is_none_or(|met| *load > met);
        let missed = valid.iter().filter(|o| plain(o, true)).map(|o| users(o)).filter(above).min();
        // Where nothing is plain, a trial of a fixed size says at least on which side it is.
        let fixed = |verdict: Verdict| {
            let judged =
                valid.iter().filter(move |o| o.spec.kind != TrialKind::Navigate && o.verdict == verdict);
            judged.map(|o| users(o)).filter(above)
        };
        let missed = missed.or_else(|| fixed(Verdict::Missed).min());
        let met = if missed.is_none() { fixed(Verdict::Met).max().or(met) } else { met };
        Self { met, missed }
    }
}

/// The answer where the boundary was not measured: the bracket of what is plain.
fn beyond(sides: &Sides, range: LoadRange, estimate: Option<u32>) -> Judged {
    let middle = |low: u32, high: u32| {
        let geometric = (f64::from(low.max(1)) * f64::from(high)).sqrt();
        (estimate.map_or(geometric, f64::from).round() as u32).clamp(low, high.saturating_sub(1).max(low))
    };
    let (outcome, load, interval, next) = match (sides.met, sides.missed) {
        (Some(met), Some(missed)) => {
            let load = middle(met, missed);
            let next = load.clamp(met, missed).max(1);
            (SearchOutcome::Found, Some(load), Some((met, Some(missed - 1))), next)
        }
        (Some(met), None) => {
            let next = estimate.unwrap_or(met).clamp(met + met / 4 + 1, met.saturating_mul(2).max(2));
            (SearchOutcome::MetAtHighest, Some(met), Some((met, None)), next)
        }
        (None, Some(missed)) => {
            let next = estimate.unwrap_or(missed / 2).clamp(1, (missed / 2).max(1));
            let outcome =
                if missed <= range.min { SearchOutcome::MissedAtLowest } else { SearchOutcome::Found };
            let load = (outcome == SearchOutcome::Found).then_some(middle(0, missed));
            (outcome, load, Some((0, Some(missed.saturating_sub(1)))), next)
        }
        (None, None) => (SearchOutcome::Interrupted, None, None, estimate.unwrap_or(range.min).max(1)),
    };
    let answer = Answer {
        load: load.map(Load::Concurrency),
        interval: interval.map(|(low, high)| Interval {
            low: f64::from(low),
            high: high.map(f64::from),
            confidence: CONFIDENCE,
        }),
        safe_load: sides.met.map(Load::Concurrency),
        ..Answer::bare(outcome)
    };
    Judged { answer, place: Place::Beyond { next }, crossing: None }
}
