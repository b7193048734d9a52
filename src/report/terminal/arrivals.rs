//! What a reader should know of an open loop, and of a closed loop read as one.

use crate::metrics::arrivals::{ArrivalFigures, LOOK_ALPHA};
use crate::plan::Plan;
use crate::report::document::{Document, TrialFigures, UsersDocument, VerdictWord};
use crate::report::words;
use crate::search::TrialKind;
use crate::units::{Load, Seconds, rate_figure, significant};

/// Trials this near the answer (log scale) tell the request rate there.
const AT_ANSWER: f64 = 0.12;

/// What came, against what was to come.
pub(super) fn came(arrivals: &ArrivalFigures, plan: &Plan) -> String {
    let process = plan.arrivals.as_ref().map(|plan| format!(" ({})", words::arrivals(plan)));
    let held = match arrivals.held_share {
        share if share > 0.0 => {
            format!("; {} % waited at the cap on requests in flight", significant(share * 100.0))
        }
        _ => String::new(),
    };
    format!(
        "{} due, {} a second{}{held}",
        words::count(arrivals.due.into()),
        rate_figure(arrivals.per_second),
        process.unwrap_or_default()
    )
}

/// How late the client was.
pub(super) fn lateness(arrivals: &ArrivalFigures) -> String {
    format!(
        "late by {} at p99, {} at most; latency counts from the scheduled instant",
        Seconds(arrivals.lateness_p99),
        Seconds(arrivals.lateness_max)
    )
}

/// That the backlog grew.
pub(super) fn backlog(arrivals: &ArrivalFigures) -> String {
    format!(
        "the backlog grew by {} requests a second: more arrives than is served, and latency would go on to rise \
         (a look at a stable server says so with a chance of {} %)",
        rate_figure(arrivals.growth),
        LOOK_ALPHA * 100.0
    )
}

/// Request rate and life of a request at a closed-loop answer: the mean of the trials near it.
pub fn rate_at_answer(document: &Document) -> Option<(u32, f64)> {
    let Some(Load::Concurrency(users)) = document.answer.load else { return None };
    let near = |trial: &&TrialFigures| {
        trial.is_valid()
            && trial.kind != TrialKind::Navigate
            && (trial.load.value() / f64::from(users.max(1))).ln().abs() < AT_ANSWER
            && trial.requests_per_second > 0.0
    };
    // Rate for each user, so that levels a little off the answer tell the rate at it.
    let each: Vec<f64> = document
        .trials
        .iter()
        .filter(near)
        .map(|trial| trial.requests_per_second / trial.load.value())
        .collect();
    let mean = each.iter().sum::<f64>() / each.len() as f64;
    (!each.is_empty()).then_some((users, f64::from(users) * mean))
}

/// The request rate at a closed-loop answer, with the caution that users are no rate.
pub(super) fn as_a_rate(document: &Document) -> Option<String> {
    let (users, rate) = rate_at_answer(document)?;
    if let Some(UsersDocument { in_flight: Some(flying), .. }) = document.users {
        return Some(format!(
            "{} requests/s, each {} in flight (Little's law); a user sends one each {}",
            rate_figure(rate),
            Seconds(flying / rate),
            Seconds(f64::from(users) / rate)
        ));
    }
    Some(format!(
        "{} requests/s, each {} in flight (Little's law); {users} users are not {users} requests/s",
        rate_figure(rate),
        Seconds(f64::from(users) / rate)
    ))
}

/// What the open-loop check at that rate gave.
pub(super) fn check(document: &Document, plan: &Plan) -> Option<String> {
    let trial = document.rate_check.as_ref()?;
    let verdict = match trial.verdict {
        VerdictWord::Met => "holds",
        VerdictWord::Missed if trial.arrivals.is_some_and(|arrivals| arrivals.unstable) => {
            "missed: the backlog grew"
        }
        VerdictWord::Missed => "missed",
        VerdictWord::Undecided => "too few requests to tell",
        VerdictWord::Void => "void",
    };
    let figures: Vec<String> = plan
        .slo
        .objectives
        .iter()
        .zip(&trial.objectives)
        .filter_map(|(objective, reading)| {
            let figure = words::figure(objective, reading.figure?);
            Some(format!("{} {figure} ({})", words::name(objective), words::limit(objective)))
        })
        .collect();
    Some(format!("{} as Poisson arrivals: {verdict}; {}", trial.load, figures.join(", ")))
}
