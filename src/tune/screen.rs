//! A tuning in text: a line for each setting while it goes on, a screen at the end.

use std::fmt::Write;

use super::document::{Figures, Outcome, TuneDocument};
use super::entry::{Entry, Role, Told};
use crate::recipe::TuneObjective;
use crate::search::confirm::Finding;
use crate::space::show;
use crate::units::{Interval, Seconds, significant};

/// A setting that was tried, in a line.
pub fn line(entry: &Entry, objective: TuneObjective) -> String {
    let what = match &entry.told {
        Told::Measured { value, abandoned: true, .. } => {
            format!("about {}, given up: it cannot beat the best", amount(*value, objective))
        }
        Told::Measured { value, error, .. } => {
            let load = entry.answer.as_ref().and_then(|answer| answer.load);
            let load = load.map_or_else(String::new, |load| format!(" at {load}"));
            format!("{} ± {:.0} %{load}", amount(*value, objective), 196.0 * error)
        }
        Told::Failed { kind, what, .. } => format!("it {}: {what}", kind.words()),
    };
    let role = match entry.role {
        Role::Explore => "",
        Role::ConfirmDefault { .. } => "default again: ",
        Role::ConfirmCandidate { .. } => "candidate again: ",
    };
    let seconds = Seconds(entry.cost.launch + entry.cost.measure);
    format!("{role}{}: {what}  ({seconds})", show(&entry.setting))
}

/// The answer on one screen.
pub fn screen(document: &TuneDocument) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<11}{value}");
    };
    row("tuned", &format!("{} for {}", document.name, aim(document.objective)));
    row("SLO", &document.slo.join(", "));
    row("", "");
    match (&document.recommended, document.outcome) {
        (None, Outcome::MissedAtLowest) => row("answer", "no setting meets the SLO at the lowest load"),
        (None, Outcome::Interrupted) => row("answer", "interrupted before a setting was measured"),
        (None, _) => row("answer", "no setting could be measured; the failures are in settings.jsonl"),
        (Some(recommended), _) => row("answer", &show(&recommended.setting)),
    }
    match (&document.gain, document.finding) {
        (Some(gain), Some(finding)) => {
            let name = if finding == Finding::Better { "gain" } else { "no gain" };
            row(name, &gain.words());
        }
        _ if document.best.is_some() && document.best == document.default => {
            row("no gain", "the default is the best setting tried");
        }
        _ => {}
    }
    if let Some(default) = &document.default {
        row("default", &figures(default, document.objective));
    }
    if let Some(best) = document.best.as_ref().filter(|best| Some(*best) != document.default.as_ref()) {
        row("best", &figures(best, document.objective));
        if document.recommended.as_ref().is_some_and(|recommended| recommended.setting != best.setting) {
            row("", &show(&best.setting));
        }
    }
    row("", "");
    for (index, effect) in document.effects.iter().enumerate() {
        row(if index == 0 { "knobs" } else { "" }, &effect.words());
    }
    for (index, point) in document.front.iter().enumerate() {
        let words = format!(
            "{} req/s a user, {} req/s a unit of cost at {:.0}: {}",
            significant(point.per_user),
            significant(point.per_cost),
            point.load,
            show(&point.setting)
        );
        row(if index == 0 { "front" } else { "" }, &words);
    }
    if let Some(ended) = document.ended {
        row("ended", &ended.words());
    }
    let cost = document.cost;
    row(
        "cost",
        &format!(
            "{} settings tried ({} failed, {} given up early), {} confirmations; {}, {} of it launches",
            cost.explored,
            cost.failed,
            cost.abandoned,
            cost.confirmations,
            Seconds(cost.seconds),
            Seconds(cost.launch_seconds)
        ),
    );
    for warning in &document.warnings {
        row("note", warning);
    }
    if let Some(command) = &document.command {
        row("", "");
        row("use", command);
    }
    text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn figures(figures: &Figures, objective: TuneObjective) -> String {
    let load = figures.load.map_or_else(String::new, |load| {
        let interval = match figures.interval {
            Some(Interval { low, high: Some(high), confidence }) => {
                format!(" ({:.0} % CI {low:.0}-{high:.0})", 100.0 * confidence)
            }
            Some(Interval { low, high: None, .. }) => format!(" (at least {low:.0})"),
            None => String::new(),
        };
        format!(" at {load}{interval}")
    });
    let binding = figures.binding_objective.as_ref().map_or_else(String::new, |b| format!(", held by {b}"));
    format!("{}{load}{binding}", amount(figures.value, objective))
}

fn amount(value: f64, objective: TuneObjective) -> String {
    match objective {
        TuneObjective::Goodput => format!("{} req/s", significant(value)),
        TuneObjective::Concurrency => format!("{} concurrent", significant(value)),
        TuneObjective::Cost => format!("{} req/s a unit of cost", significant(value)),
    }
}

fn aim(objective: TuneObjective) -> &'static str {
    match objective {
        TuneObjective::Goodput => "the most requests a second within the SLO",
        TuneObjective::Concurrency => "the most concurrent requests within the SLO",
        TuneObjective::Cost => "the least cost for a request within the SLO",
    }
}
