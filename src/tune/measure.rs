//! What a run says of a setting.

use super::entry::Told;
use crate::controller::Found;
use crate::plan::Plan;
use crate::recipe::TuneObjective;
use crate::search::race::Race;
use crate::search::tuner::FailureKind;
use crate::search::{Answer, SearchOutcome, TrialKind, TrialOutcome};
use crate::units::Load;
use crate::verdict::Verdict;

/// Least standard error of the log of a value: what trials of one launch share is not in them.
const LEAST_ERROR: f64 = 0.01;
/// Standard error where a run gives no interval.
const NO_INTERVAL: f64 = 0.15;
/// Trials this near the answer (log scale) tell the rate for each user there.
const NEAR: f64 = 0.5;

/// What came of a setting whose run has ended: the value of what is maximised (before any cost), and
/// how sure it is.
pub fn told(plan: &Plan, objective: TuneObjective, race: &Race, found: &Found) -> Told {
    let failed = |kind, what: &str| Told::Failed { kind, what: what.to_owned(), log_tail: Vec::new() };
    if let Some((low, high)) = race.abandoned() {
        let (low, high) = (low.max(1e-9), high.max(low.max(1e-9)));
        let error = ((high / low).ln() / 4.0).max(0.05);
        return Told::Measured { value: (low * high).sqrt(), error, abandoned: true };
    }
    if let Some(why) = &found.cut_short {
        return failed(FailureKind::Crash, why);
    }
    let answer = &found.answer;
    match answer.outcome {
        SearchOutcome::MissedAtLowest => {
            return failed(
                FailureKind::MissedAtLowest,
                &format!("the SLO is missed already at {} concurrent", plan.load.min),
            );
        }
        SearchOutcome::Void => {
            let what = answer.notes.first().map_or("no trial was valid", String::as_str);
            return failed(FailureKind::Void, what);
        }
        SearchOutcome::Found | SearchOutcome::MetAtHighest | SearchOutcome::Interrupted => {}
    }
    if answer.load.is_none() {
        return match bracket(objective, &found.outcomes) {
            Some((low, high)) => {
                let error = ((high / low).ln() / 4.0).max(NO_INTERVAL);
                Told::Measured { value: (low * high).sqrt(), error, abandoned: false }
            }
            None => failed(FailureKind::Void, "the run ended before any load had met the SLO"),
        };
    }
    let value = match objective {
        TuneObjective::Concurrency => answer.load.map(Load::value),
        TuneObjective::Goodput | TuneObjective::Cost => goodput(answer, &found.outcomes),
    };
    match value {
        Some(value) if value > 0.0 => {
            let elasticity = match objective {
                TuneObjective::Concurrency => 1.0,
                TuneObjective::Goodput | TuneObjective::Cost => elasticity(&found.outcomes),
            };
            let error = match answer.interval {
                Some(interval) => match interval.high {
                    Some(high) if interval.low > 0.0 => {
                        elasticity * (high / interval.low).ln() / (2.0 * 1.96)
                    }
                    // At the highest load allowed the rate is what it is; only the load has no end.
                    None => LEAST_ERROR,
                    Some(_) => NO_INTERVAL,
                },
                None => NO_INTERVAL,
            };
            Told::Measured { value, error: error.max(LEAST_ERROR), abandoned: false }
        }
        _ => failed(FailureKind::Void, "the run ended before any load had met the SLO"),
    }
}

/// Requests a second within the SLO at the answer: the rate for each user at trials that met it near
/// the answer, times the users of the answer. Trials beyond a cliff would pull a plain mean down.
fn goodput(answer: &Answer, outcomes: &[TrialOutcome]) -> Option<f64> {
    let load = answer.load?.value();
    let mut met: Vec<(f64, f64)> = measured(outcomes)
        .filter(|outcome| outcome.verdict == Verdict::Met)
        .map(|outcome| {
            let users = outcome.spec.load.value();
            ((users / load).ln().abs(), outcome.good_rate / users)
        })
        .filter(|(distance, _)| *distance < NEAR)
        .collect();
    met.sort_by(|a, b| a.0.total_cmp(&b.0));
    met.truncate(4);
    if met.is_empty() {
        return answer.goodput.map(|goodput| goodput.requests_per_second);
    }
    Some(load * met.iter().map(|(_, rate)| rate).sum::<f64>() / met.len() as f64)
}

/// What is maximised at the largest load that met the SLO, and its bound by the smallest that missed it:
/// all that is known of a search that was cut before it had an answer. While levels rise, the rate for
/// each user falls.
fn bracket(objective: TuneObjective, outcomes: &[TrialOutcome]) -> Option<(f64, f64)> {
    let loads = |verdict: Verdict| {
        let of = move |outcome: &&TrialOutcome| {
            outcome.spec.kind != TrialKind::Warmup && outcome.verdict == verdict
        };
        outcomes.iter().filter(of)
    };
    let users = |outcome: &TrialOutcome| outcome.spec.load.value();
    let met = loads(Verdict::Met).max_by(|a, b| users(a).total_cmp(&users(b)))?;
    let (level, rate) = (users(met), met.good_rate);
    let missed =
        loads(Verdict::Missed).map(users).filter(|&missed| missed > level).fold(f64::INFINITY, f64::min);
    let high = if missed.is_finite() { missed } else { level };
    let bounds = match objective {
        TuneObjective::Concurrency => (level, high),
        TuneObjective::Goodput | TuneObjective::Cost => (rate, rate * high / level),
    };
    (bounds.0 > 0.0).then_some(bounds)
}

/// How much the rate grows with the load near the answer, on log scales, from 0.2 to 1.
fn elasticity(outcomes: &[TrialOutcome]) -> f64 {
    let points: Vec<(f64, f64)> = measured(outcomes)
        .filter(|outcome| outcome.completion_rate > 0.0)
        .map(|outcome| (outcome.spec.load.value().ln(), outcome.completion_rate.ln()))
        .collect();
    let n = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
    let (covariance, variance) = points
        .iter()
        .fold((0.0, 0.0), |(c, v), point| (c + (point.0 - x) * (point.1 - y), v + (point.0 - x).powi(2)));
    if variance < 0.01 { 1.0 } else { (covariance / variance).clamp(0.2, 1.0) }
}

fn measured(outcomes: &[TrialOutcome]) -> impl Iterator<Item = &TrialOutcome> {
    outcomes.iter().filter(|outcome| {
        matches!(outcome.spec.kind, TrialKind::Measure | TrialKind::Confirm)
            && !matches!(outcome.verdict, Verdict::Void(_))
    })
}
