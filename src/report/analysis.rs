//! What an analysis found, as text, as data, as a table of figures.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document::Document;
use super::terminal::{self, Screen, Style};
use super::words;
use crate::analysis::frontier::{Capacity, Frontier, Frontiers, Map};
use crate::analysis::knee::{Knee, Throughput};
use crate::search::{Place, SearchOutcome};
use crate::units::{Interval, Seconds, significant};

/// The answer under another SLO: the document of a search, and what is particular to the analysis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnalysisDocument {
    /// The answer and the trials, as `summary.json` has them.
    #[serde(flatten)]
    pub document: Document,
    /// What is particular to the analysis.
    pub analysis: Analysis,
}

/// What is particular to an analysis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Analysis {
    /// The run folder or file that was read.
    pub source: String,
    /// What another tool said beside what its requests say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// The part of the run that was judged, where it was not the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The SLO that its load was searched for, where it is known.
    pub searched_slo: Vec<String>,
    /// Whether the answer lies within the measured loads.
    pub place: Place,
    /// Tiers that were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<Tier>,
    /// The frontier, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frontier: Option<Frontiers>,
    /// The knees, where they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub knees: Vec<Knee>,
    /// Throughput a user against throughput in all, where it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throughputs: Vec<Throughput>,
}

/// A named SLO and what is carried under it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tier {
    /// Its name.
    pub name: String,
    /// Its objectives.
    pub slo: Vec<String>,
    /// What is carried.
    pub capacity: Capacity,
    /// A load that is safe.
    pub safe_load: Option<u32>,
    /// Requests a second within the SLO there.
    pub goodput: Option<f64>,
    /// The objective that binds.
    pub binding_objective: Option<String>,
}

impl AnalysisDocument {
    /// As JSON, indented, with a newline at its end.
    pub fn to_json(&self) -> String {
        // Every key is a text and every value plain data, so that there is nothing to fail on.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// The screen: that of a search with the label of the answer, then the tables.
    pub fn screen(&self, screen: &Screen<'_>, style: Style) -> String {
        let text = terminal::search(screen, style);
        let mut label = place_words(self.analysis.place);
        if self.document.answer.interval.is_some() && self.analysis.place != Place::Within {
            label.push_str("\n(the interval is between what plainly met and what plainly missed)");
        }
        if let Some(part) = &self.analysis.part {
            label.push_str(&format!("\nof the run only {part}"));
        }
        if let Some(beside) = &self.analysis.beside {
            label.push('\n');
            label.push_str(beside);
        }
        let mut out = text.replacen("\n\n", &format!("\n{label}\n\n"), 1);
        out.push_str(&self.tables());
        out
    }

    /// The tables that were asked for.
    pub fn tables(&self) -> String {
        let mut out = String::new();
        let mut add = |block: String| {
            out.push('\n');
            out.push_str(&block);
        };
        if !self.analysis.tiers.is_empty() {
            add(tiers(&self.analysis.tiers));
        }
        if let Some(frontier) = &self.analysis.frontier {
            add(one_dimension(&frontier.first_token));
            if let Some(between) = &frontier.between_tokens {
                add(one_dimension(between));
                if let Some(map) = &frontier.map {
                    add(two_dimensions(map, &frontier.first_token.of, &between.of));
                }
            }
        }
        if !self.analysis.knees.is_empty() {
            add(knees(&self.analysis.knees));
        }
        if !self.analysis.throughputs.is_empty() {
            add(throughputs(&self.analysis.throughputs));
        }
        out
    }
}

/// The label of an answer.
pub fn place_words(place: Place) -> String {
    match place {
        Place::Within => "within measured loads".to_owned(),
        Place::Beyond { next } => format!("beyond: measure here next (N = {next})"),
    }
}

/// `54`, `at least 61`, `none`.
fn load_words(capacity: &Capacity) -> String {
    match capacity.outcome {
        SearchOutcome::MetAtHighest => format!("at least {}", capacity.load),
        SearchOutcome::MissedAtLowest => "none".to_owned(),
        SearchOutcome::Void => "-".to_owned(),
        _ if capacity.interval.is_none() => "-".to_owned(),
        _ => capacity.load.to_string(),
    }
}

fn interval_words(interval: Option<Interval>) -> String {
    match interval {
        Some(Interval { low, high: Some(high), .. }) => {
            format!("{}-{}", words::level(low), words::level(high))
        }
        Some(Interval { low, high: None, .. }) => format!("from {}", words::level(low)),
        None => "-".to_owned(),
    }
}

fn measured_words(place: Place) -> String {
    match place {
        Place::Within => "yes".to_owned(),
        Place::Beyond { next } => format!("no: measure N = {next}"),
    }
}

/// Rows under their heads, first column to the left, the others to the right.
pub(super) fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = heads
        .iter()
        .enumerate()
        .map(|(column, head)| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain([head.chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (column, (cell, width)) in cells.zip(&widths).enumerate() {
            let pad = " ".repeat(width.saturating_sub(cell.chars().count()));
            text.push_str("  ");
            text.push_str(&if column == 0 { format!("{cell}{pad}") } else { format!("{pad}{cell}") });
        }
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line(&mut heads.iter().copied());
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
    out
}

fn tiers(tiers: &[Tier]) -> String {
    let rows: Vec<Vec<String>> = tiers
        .iter()
        .map(|tier| {
            vec![
                tier.name.clone(),
                load_words(&tier.capacity),
                interval_words(tier.capacity.interval),
                tier.safe_load.map_or("-".to_owned(), |load| load.to_string()),
                tier.goodput.map_or("-".to_owned(), |rate| format!("{}/s", significant(rate))),
                measured_words(tier.capacity.place),
                tier.binding_objective.clone().unwrap_or_else(|| "-".to_owned()),
            ]
        })
        .collect();
    table(
        &["tier", "concurrency", "95 % CI", "safe", "goodput", "measured there", "binding objective"],
        &rows,
    )
}

fn one_dimension(frontier: &Frontier) -> String {
    let rows: Vec<Vec<String>> = frontier
        .points
        .iter()
        .map(|(limit, capacity)| {
            vec![
                format!("{} < {}", frontier.of, time(*limit)),
                load_words(capacity),
                interval_words(capacity.interval),
                measured_words(capacity.place),
            ]
        })
        .collect();
    table(&["limit", "concurrency", "95 % CI", "measured there"], &rows)
}

fn two_dimensions(map: &Map, row_of: &str, column_of: &str) -> String {
    let heads: Vec<String> = std::iter::once(row_of.to_owned())
        .chain(map.columns.iter().map(|column| format!("< {}", time(*column))))
        .collect();
    let rows: Vec<Vec<String>> = map
        .rows
        .iter()
        .zip(&map.cells)
        .map(|(row, cells)| {
            let texts = cells.iter().map(|cell| {
                let mark = if cell.place == Place::Within { "" } else { "?" };
                format!("{}{mark}", load_words(cell).replace("at least ", ">="))
            });
            std::iter::once(format!("< {}", time(*row))).chain(texts).collect()
        })
        .collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    format!(
        "  concurrency under {row_of} (down) and {column_of} (across); ? where nothing was measured there\n{}",
        table(&heads, &rows)
    )
}

fn knees(knees: &[Knee]) -> String {
    let rows: Vec<Vec<String>> = knees
        .iter()
        .map(|knee| {
            vec![
                format!("{} within {:.0} %", knee.of, knee.degradation * 100.0),
                time(knee.figure),
                knee.lowest.to_string(),
                time(knee.limit),
                load_words(&knee.capacity),
                interval_words(knee.capacity.interval),
                measured_words(knee.capacity.place),
            ]
        })
        .collect();
    table(&["knee", "lightest", "at N", "limit", "concurrency", "95 % CI", "measured there"], &rows)
}

fn throughputs(points: &[Throughput]) -> String {
    let rows: Vec<Vec<String>> = points
        .iter()
        .map(|point| {
            vec![
                point.load.to_string(),
                significant(point.per_user),
                significant(point.total),
                point.requests.to_string(),
                if point.best { "front".to_owned() } else { String::new() },
            ]
        })
        .collect();
    table(&["concurrency", "tok/s a user (median)", "tok/s in all", "requests", "Pareto"], &rows)
}

fn time(seconds: f64) -> String {
    Seconds(seconds).to_string()
}

/// The frontier as CSV: one row a limit or a pair of limits.
pub fn csv(frontiers: &Frontiers) -> String {
    let mut out = String::from(
        "ttft_limit_seconds,between_tokens_limit_seconds,concurrency,low,high,outcome,measured_there,measure_next\n",
    );
    let mut row = |first: Option<f64>, between: Option<f64>, capacity: &Capacity| {
        let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let outcome = serde_json::to_value(capacity.outcome).unwrap_or_default();
        let (there, next) = match capacity.place {
            Place::Within => (true, String::new()),
            Place::Beyond { next } => (false, next.to_string()),
        };
        out.push_str(&format!(
            "{},{},{},{},{},{},{there},{next}\n",
            number(first),
            number(between),
            capacity.load,
            number(capacity.interval.map(|interval| interval.low)),
            number(capacity.interval.and_then(|interval| interval.high)),
            outcome.as_str().unwrap_or_default(),
        ));
    };
    for (limit, capacity) in &frontiers.first_token.points {
        row(Some(*limit), None, capacity);
    }
    for (limit, capacity) in frontiers.between_tokens.iter().flat_map(|frontier| &frontier.points) {
        row(None, Some(*limit), capacity);
    }
    if let Some(map) = &frontiers.map {
        for (first, cells) in map.rows.iter().zip(&map.cells) {
            for (between, capacity) in map.columns.iter().zip(cells) {
                row(Some(*first), Some(*between), capacity);
            }
        }
    }
    out
}
