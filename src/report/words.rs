//! Figures and answers in words, the same in every form of the report.

use crate::metrics::{ColdStart, SessionFigures, TurnFigures};
use crate::plan::{ArrivalsPlan, CurvePlan, Plan};
use crate::search::{SearchOutcome, TrialKind};
use crate::slo::{Metric, Objective, Stat};
use crate::units::{Interval, Load, Seconds, rate_figure, significant};
use crate::verdict::Windows;
use crate::workload::{ArrivalProcess, RampShape, UserRamp};

use super::document::Document;

/// A figure of an objective with its unit: `421 ms`, `97.5 %`, `12.3/s`.
pub(crate) fn figure(objective: &Objective, value: f64) -> String {
    match objective.metric {
        Metric::Attainment | Metric::Errors => format!("{} %", significant(value * 100.0)),
        Metric::Goodput => format!("{}/s", significant(value)),
        Metric::OutputTokensPerSecondPerUser => format!("{} tok/s", significant(value)),
        _ => Seconds(value).to_string(),
    }
}

/// A length that was asked for, with no digit more or less than it needs: `30 s`.
pub(crate) fn length(seconds: f64) -> String {
    format!("{} s", (seconds * 1e6).round() / 1e6)
}

/// Which of its windows an objective's figure is from: `worst of 5 windows, from 60.0 s on, 1 missed`.
pub(crate) fn windows(windows: &Windows) -> String {
    let mut text = format!("worst of {}", counted(windows.count.into(), "window"));
    if let Some(from) = windows.worst_from.filter(|_| windows.count > 1) {
        text.push_str(&format!(", from {} on", Seconds(from)));
    }
    if windows.missed > 0 {
        text.push_str(&format!(", {} missed", count(windows.missed.into())));
    }
    text
}

/// What the first requests cost: `first request TTFT 310 ms against 42 ms steady, after 12 requests (1.30 s)`.
pub(crate) fn cold_start(cold: &ColdStart) -> String {
    let metric = if cold.metric == Metric::Ttft { "TTFT" } else { "E2E" };
    let mut text =
        format!("first request {metric} {} against {} steady", Seconds(cold.first), Seconds(cold.steady));
    if cold.requests > 0 {
        let requests = counted(cold.requests.into(), "request");
        text.push_str(&format!(", which is reached after {requests} ({})", Seconds(cold.seconds)));
    }
    text
}

/// A ramp of users: `1 to 64 users (linear, in 60.0 s)`.
pub(crate) fn ramp(ramp: &UserRamp) -> String {
    let shape = match ramp.shape {
        RampShape::Linear => "linear",
        RampShape::Exponential => "exponential",
    };
    format!("{} to {} users ({shape}, in {})", ramp.from, ramp.to, Seconds(ramp.seconds))
}

/// Metric and statistic of an objective, and the window if it has one: `ttft p95`, `ttft p99 over 30 s`.
pub(crate) fn name(objective: &Objective) -> String {
    let name = match (objective.metric, objective.stat) {
        (Metric::OutputTokensPerSecondPerUser, Stat::Value) => "tok/s/user".to_owned(),
        (Metric::OutputTokensPerSecondPerUser, stat) => {
            format!("tok/s/user{} {stat}", objective.turns.suffix())
        }
        (metric, Stat::Value) => metric.name().to_owned(),
        (metric, stat) => format!("{}{} {stat}", metric.name(), objective.turns.suffix()),
    };
    match objective.window {
        Some(window) => format!("{name} over {}", length(window)),
        None => name,
    }
}

/// Comparison and threshold of an objective: `< 500 ms`.
pub(crate) fn limit(objective: &Objective) -> String {
    format!("{} {}", objective.op, threshold(objective))
}

/// The threshold as it was asked for, in the unit that a person would choose and with no digit more
/// or less than it needs: `500 ms`, `1.25 s`, `99.5 %`.
pub(crate) fn threshold(objective: &Objective) -> String {
    let exact = |value: f64| (value * 1e6).round() / 1e6;
    let value = objective.threshold;
    match objective.metric {
        Metric::Attainment | Metric::Errors => format!("{} %", exact(value * 100.0)),
        Metric::Goodput => format!("{}/s", exact(value)),
        Metric::OutputTokensPerSecondPerUser => format!("{} tok/s", exact(value)),
        _ if value < 1.0 => format!("{} ms", exact(value * 1e3)),
        _ => format!("{} s", exact(value)),
    }
}

/// A count with its thousands set apart: `12,345`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun: `1 trial`, `3,214 requests`.
pub(crate) fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

/// `95 % CI 40-44`, the ends as `end` writes them.
pub(crate) fn interval(interval: Interval, end: impl Fn(f64) -> String) -> String {
    let confidence = significant_share(interval.confidence);
    match interval.high {
        Some(high) => format!("{confidence} CI {}-{}", end(interval.low), end(high)),
        None => format!("{confidence} CI from {}", end(interval.low)),
    }
}

/// A probability as a percentage without needless digits: `95 %`, `99.9 %`.
pub(crate) fn significant_share(share: f64) -> String {
    let percent = (share * 1000.0).round() / 10.0;
    format!("{percent} %")
}

/// What the load of a search is called: `max concurrency`, `max users`.
fn load_name(document: &Document, load: Load) -> &'static str {
    match load {
        Load::Concurrency(_) if document.users.is_some() => "max users",
        Load::Concurrency(_) => "max concurrency",
        Load::RequestRate(_) if has_conversations(document) => "max conversation rate",
        Load::RequestRate(_) => "max request rate",
        Load::SpeedUp(_) => "this trace at",
    }
}

fn has_conversations(document: &Document) -> bool {
    document.users.as_ref().is_some_and(|users| users.turns.is_some())
}

/// A load with its unit, as the plan means it: `8 concurrent`, `8 users`, `4.2 conversations/s`.
pub(crate) fn load(plan: &Plan, load: Load) -> String {
    load_of(plan.workload.has_users(), plan.workload.sessions.is_some(), load)
}

/// The same by whether users pause or hold conversations, and whether they hold some.
pub(crate) fn load_of(has_users: bool, has_conversations: bool, load: Load) -> String {
    match load {
        Load::Concurrency(users) if has_users => {
            format!("{users} user{}", if users == 1 { "" } else { "s" })
        }
        Load::RequestRate(rate) if has_conversations => {
            format!("{} conversations/s", rate_figure(rate))
        }
        load => load.to_string(),
    }
}

/// What the loads of a run are, as an axis is labelled.
pub(crate) fn load_axis(document: &Document) -> &'static str {
    let tried = document.trials.iter().find(|trial| trial.kind != TrialKind::Warmup);
    match document.answer.load.or(tried.map(|trial| trial.load)) {
        Some(Load::RequestRate(_)) if has_conversations(document) => "conversations a second",
        Some(Load::RequestRate(_)) => "requests a second",
        Some(Load::SpeedUp(_)) => "speed-up of the trace",
        _ if document.users.is_some() => "users",
        _ => "concurrent requests",
    }
}

/// What the turns of conversations show, in a line each: label and text.
pub(crate) fn turns(sessions: &SessionFigures) -> Vec<(&'static str, String)> {
    let line = |figures: &TurnFigures| {
        let ttft = figures.ttft.as_ref().map_or_else(String::new, |ttft| {
            format!("TTFT p50 {}, p95 {}; ", Seconds(ttft.p50), Seconds(ttft.p95))
        });
        format!("{ttft}{}, {} tokens in", counted(figures.requests.into(), "request"), whole(figures.isl))
    };
    let mut lines = vec![("first turns", line(&sessions.first))];
    if sessions.later.requests > 0 {
        lines.push(("later turns", line(&sessions.later)));
    }
    if sessions.context_full > 0 {
        let n = counted(sessions.context_full.into(), "conversation");
        lines.push(("context", format!("{n} ended because the next turn would not have fitted")));
    }
    lines
}

/// A number without its fraction.
pub(crate) fn whole(value: f64) -> String {
    format!("{value:.0}")
}

/// A load's level without its unit.
pub(crate) fn level(value: f64) -> String {
    if value.fract() == 0.0 { whole(value) } else { rate_figure(value) }
}

/// A load's ends of an interval, which need not be levels: whole users, or rates.
pub(crate) fn end_of(load: Option<Load>) -> fn(f64) -> String {
    match load {
        Some(Load::RequestRate(_) | Load::SpeedUp(_)) => rate_figure,
        _ => whole,
    }
}

/// What a search's load is called on an axis.
pub(crate) fn axis_name(plan: &Plan) -> &'static str {
    if plan.arrivals.as_ref().is_some_and(|arrivals| arrivals.trace_rate().is_some()) {
        return "speed-up of the trace";
    }
    match (plan.arrivals.is_some(), plan.workload.sessions.is_some(), plan.workload.has_users()) {
        (true, true, _) => "conversation rate",
        (true, false, _) => "request rate",
        (false, _, true) => "users",
        (false, _, false) => "concurrency",
    }
}

/// A load as a headline says it: users bare, as its name says what they are; a rate with its unit.
fn in_headline(document: &Document, load: Load) -> String {
    match load {
        Load::Concurrency(users) => users.to_string(),
        Load::RequestRate(rate) if has_conversations(document) => format!("{}/s", rate_figure(rate)),
        rate => rate.to_string(),
    }
}

/// How the arrivals of a plan come.
pub(crate) fn arrivals(plan: &ArrivalsPlan) -> String {
    match &plan.curve {
        Some(CurvePlan::Trace { speed_up, fastest: Some(fastest) }) => {
            format!("at the trace's timestamps, {speed_up} to {fastest} times as fast")
        }
        Some(CurvePlan::Trace { speed_up: 1.0, .. }) => "at the trace's timestamps".to_owned(),
        Some(CurvePlan::Trace { speed_up, .. }) => {
            format!("at the trace's timestamps, {speed_up} times as fast")
        }
        Some(CurvePlan::Rates { .. }) => format!("{}, at a rate that moves", process(plan.process)),
        None => process(plan.process),
    }
}

/// How arrivals are spaced.
fn process(process: ArrivalProcess) -> String {
    match process {
        ArrivalProcess::Constant => "at constant gaps".to_owned(),
        ArrivalProcess::Poisson => "Poisson".to_owned(),
        ArrivalProcess::Gamma { shape } => format!("gamma gaps of shape {shape}"),
    }
}

/// What a trial is for, in one word.
pub(crate) fn kind(kind: TrialKind) -> &'static str {
    match kind {
        TrialKind::Warmup => "warmup",
        TrialKind::Navigate => "navigate",
        TrialKind::Measure => "measure",
        TrialKind::Confirm => "confirm",
        TrialKind::Anchor => "anchor",
    }
}

/// The answer in one line.
pub(crate) fn headline(document: &Document) -> String {
    let answer = &document.answer;
    let sure = || {
        let mut parts = Vec::new();
        parts.extend(answer.interval.map(|given| interval(given, end_of(answer.load))));
        parts.extend(answer.safe_load.map(|load| format!("safe: {}", level(load.value()))));
        if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
    };
    match (document.outcome, answer.load) {
        (SearchOutcome::Found, Some(load)) => {
            format!("{} {} under the SLO{}", load_name(document, load), in_headline(document, load), sure())
        }
        (SearchOutcome::Found, None) => "the search ended without a load".to_owned(),
        (SearchOutcome::MissedAtLowest, _) => match answer.smallest_missed {
            Some(Load::Concurrency(users)) if document.users.is_some() => {
                let s = if users == 1 { "" } else { "s" };
                format!("the SLO is missed already at {users} user{s}, the lowest load allowed")
            }
            Some(load) => format!("the SLO is missed already at {load}, the lowest load allowed"),
            None => "the SLO is missed already at the lowest load allowed".to_owned(),
        },
        (SearchOutcome::MetAtHighest, _) => match answer.largest_met.or(answer.load) {
            Some(load @ Load::SpeedUp(_)) => {
                format!("this trace at {load} or more: the SLO is met at the highest speed-up allowed")
            }
            Some(load) => format!(
                "{} at least {}: the SLO is met at the highest load allowed",
                load_name(document, load),
                in_headline(document, load)
            ),
            None => "the SLO is met at the highest load allowed".to_owned(),
        },
        (SearchOutcome::Void, _) => "no answer: no valid measurement could be made".to_owned(),
        (SearchOutcome::Interrupted, Some(load)) => {
            format!(
                "interrupted; so far: {} {} under the SLO{}",
                load_name(document, load),
                in_headline(document, load),
                sure()
            )
        }
        (SearchOutcome::Interrupted, None) => "interrupted before there was an answer".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_set_apart_by_thousands() {
        for (n, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(n), text);
        }
    }

    #[test]
    fn a_threshold_keeps_the_digits_that_were_asked_for() {
        use crate::slo::{Op, Turns};
        let cases = [
            (0.05, "< 50 ms"),
            (0.5, "< 500 ms"),
            (1.0, "< 1 s"),
            (1.234, "< 1.234 s"),
            (0.0125, "< 12.5 ms"),
        ];
        for (threshold, text) in cases {
            let stat = Stat::Percentile(95.0);
            let objective = Objective {
                metric: Metric::Ttft,
                turns: Turns::All,
                stat,
                op: Op::Less,
                threshold,
                window: None,
            };
            assert_eq!(limit(&objective), text);
        }
        let errors = Objective {
            metric: Metric::Errors,
            turns: Turns::All,
            stat: Stat::Value,
            op: Op::AtMost,
            threshold: 0.001,
            window: None,
        };
        assert_eq!(limit(&errors), "<= 0.1 %");
    }

    #[test]
    fn an_interval_without_an_upper_end_says_so() {
        let given = Interval { low: 39.6, high: None, confidence: 0.95 };
        assert_eq!(interval(given, end_of(None)), "95 % CI from 40");
    }
}
