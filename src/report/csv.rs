//! `curve.csv`: one row a trial, for a spreadsheet or a script.
//!
//! Times are seconds, rates per second, shares 0..1, as in `summary.json`; a figure that a trial does
//! not have is an empty cell.

use super::document::{Document, TrialFigures};
use crate::metrics::Distribution;
use crate::units::Load;

/// The metrics that have columns.
const METRICS: [&str; 6] = ["ttft", "ttst", "itl", "tpot", "stall", "e2e"];

/// Takes a figure from a distribution.
type Figure = fn(&Distribution) -> f64;

/// The figures of a metric that have columns.
const FIGURES: [(&str, Figure); 5] = [
    ("mean", |samples| samples.mean),
    ("p50", |samples| samples.p50),
    ("p90", |samples| samples.p90),
    ("p95", |samples| samples.p95),
    ("p99", |samples| samples.p99),
];

/// The table, with a header row. The objectives' own figures stand in the last columns, which are
/// called by the objectives.
pub fn curve(document: &Document) -> String {
    let mut rows = vec![header(document)];
    rows.extend(document.trials.iter().map(row));
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        // Into memory, and every row as long as the header: there is nothing to fail on.
        let _ = writer.write_record(&row);
    }
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

fn header(document: &Document) -> Vec<String> {
    let fixed = [
        "trial",
        "kind",
        "concurrency",
        "request_rate",
        "speed_up",
        "verdict",
        "void_cause",
        "issued",
        "completed",
        "failed",
        "censored",
        "cancelled",
        "measured",
        "seconds",
        "window_seconds",
        "requests_per_second",
        "input_tokens_per_second",
        "output_tokens_per_second",
        "goodput",
        "attainment",
        "error_rate",
    ];
    let mut names: Vec<String> = fixed.map(str::to_owned).to_vec();
    for metric in METRICS {
        names.extend(FIGURES.map(|(figure, _)| format!("{metric}_{figure}")));
    }
    names.extend(
        document.trials.iter().take(1).flat_map(|trial| &trial.objectives).map(|o| o.objective.clone()),
    );
    names
}

fn row(trial: &TrialFigures) -> Vec<String> {
    let requests = trial.requests;
    let mut cells = vec![
        trial.id.to_string(),
        word(&trial.kind),
        if let Load::Concurrency(users) = trial.load { users.to_string() } else { String::new() },
        if let Load::RequestRate(rate) = trial.load { number(rate) } else { String::new() },
        if let Load::SpeedUp(factor) = trial.load { number(factor) } else { String::new() },
        word(&trial.verdict),
        trial.void_cause.clone().unwrap_or_default(),
    ];
    cells.extend(
        [
            requests.issued,
            requests.completed,
            requests.failed,
            requests.censored,
            requests.cancelled,
            trial.measured,
        ]
        .map(|n| n.to_string()),
    );
    cells.extend(
        [
            trial.seconds,
            trial.window_seconds,
            trial.requests_per_second,
            trial.input_tokens_per_second,
            trial.output_tokens_per_second,
            trial.goodput,
            trial.attainment,
            trial.error_rate,
        ]
        .map(number),
    );
    for metric in METRICS {
        let samples = trial.metrics.get(metric).filter(|samples| samples.n > 0);
        cells.extend(
            FIGURES.map(|(_, figure)| samples.map_or(String::new(), |samples| number(figure(samples)))),
        );
    }
    cells.extend(trial.objectives.iter().map(|objective| objective.figure.map_or(String::new(), number)));
    cells
}

/// The word that stands for a value in the files.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// Seven significant digits: more than any clock here tells.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return String::new();
    }
    let rounded: f64 = format!("{value:.6e}").parse().unwrap_or(value);
    rounded.to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::report::sample_document;

    #[test]
    fn every_trial_is_a_row_under_the_header() {
        let text = curve(&sample_document());
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let header = reader.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 14);
        let cell = |row: usize, name: &str| {
            let column =
                header.iter().position(|found| found == name).unwrap_or_else(|| panic!("no column {name}"));
            rows[row][column].to_owned()
        };
        assert_eq!(cell(5, "void_cause"), "buffered_stream");
        assert_eq!(
            (cell(6, "concurrency"), cell(6, "verdict"), cell(6, "kind")),
            ("32".into(), "met".into(), "measure".into())
        );
        assert_eq!(cell(6, "ttft_p95"), cell(6, "ttft p95 < 500 ms"));
        assert_eq!(cell(6, "tpot_p95"), "", "no samples, no figure");
    }

    #[test]
    fn numbers_are_plain_and_not_longer_than_they_are_sure() {
        for (value, text) in
            [(0.1 + 0.2, "0.3"), (1_234.567_89, "1234.568"), (0.0, "0"), (f64::NAN, ""), (3.0, "3")]
        {
            assert_eq!(number(value), text);
        }
    }
}
