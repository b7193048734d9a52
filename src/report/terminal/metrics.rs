//! One trial as a table of metrics by statistics, the form that AIPerf's console has.

use crate::metrics::Distribution;
use crate::report::document::{Document, TrialFigures};
use crate::search::TrialKind;
use crate::units::significant;

/// A metric of the table: its name there, the one in the document, and the factor between the units.
const ROWS: [(&str, &str, f64); 8] = [
    ("Time to First Token (ms)", "ttft", 1e3),
    ("Time to Second Token (ms)", "ttst", 1e3),
    ("Request Latency (ms)", "e2e", 1e3),
    ("Inter Token Latency (ms)", "tpot", 1e3),
    ("Chunk Gap (ms)", "itl", 1e3),
    ("Output Token Throughput Per User (tokens/sec/user)", "output-tokens-per-second-per-user", 1.0),
    ("Output Sequence Length (tokens)", "osl", 1.0),
    ("Input Sequence Length (tokens)", "isl", 1.0),
];
const STATISTICS: [&str; 7] = ["avg", "min", "max", "p99", "p95", "p90", "p50"];

/// The table of a trial: the one with this number, or the largest valid one that is nearest to the
/// answer. `None` where there is none.
pub fn metrics(document: &Document, trial: Option<u32>) -> Option<String> {
    let trial = match trial {
        Some(id) => document.trials.iter().find(|trial| trial.id == id)?,
        None => nearest(document)?,
    };
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for (name, metric, factor) in ROWS {
        let Some(samples) = trial.metrics.get(metric).filter(|samples| samples.n > 0) else { continue };
        let Distribution { mean, min, max, p99, p95, p90, p50, .. } = *samples;
        let cells = [mean, min, max, p99, p95, p90, p50].map(|value| figure(value * factor));
        rows.push((name.to_owned(), cells.to_vec()));
    }
    let single = |name: &str, value: f64| {
        let mut cells = vec![figure(value)];
        cells.resize(STATISTICS.len(), "-".to_owned());
        (name.to_owned(), cells)
    };
    rows.push(single("Output Token Throughput (tokens/sec)", trial.output_tokens_per_second));
    rows.push(single("Request Throughput (requests/sec)", trial.requests_per_second));
    rows.push(single("Goodput (requests/sec)", trial.goodput));
    rows.push(single("Request Count (requests)", f64::from(trial.measured)));
    rows.push(single("Error Request Count (requests)", f64::from(trial.requests.failed)));
    Some(format!("trial {} at {}\n{}", trial.id, trial.load, drawn(&rows)))
}

/// The valid trial nearest to the answer's load; of several the one that counted most.
pub(super) fn nearest(document: &Document) -> Option<&TrialFigures> {
    let answer = document.answer.load.or(document.answer.largest_met);
    let distance = |trial: &TrialFigures| match answer {
        Some(load) if load.value() > 0.0 => (trial.load.value() / load.value()).ln().abs(),
        _ => 0.0,
    };
    let measured = |trial: &&TrialFigures| trial.is_valid() && trial.kind != TrialKind::Navigate;
    document
        .trials
        .iter()
        .filter(measured)
        .min_by(|a, b| distance(a).total_cmp(&distance(b)).then(b.measured.cmp(&a.measured)))
}

fn figure(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { significant(value) }
}

fn drawn(rows: &[(String, Vec<String>)]) -> String {
    let label = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..STATISTICS.len())
        .map(|column| {
            rows.iter()
                .map(|(_, cells)| cells[column].len())
                .chain([STATISTICS[column].len()])
                .max()
                .unwrap_or(0)
        })
        .collect();
    let rule = |left: &str, middle: &str, right: &str| {
        let parts: Vec<String> =
            std::iter::once(label).chain(widths.iter().copied()).map(|width| "─".repeat(width + 2)).collect();
        format!("{left}{}{right}\n", parts.join(middle))
    };
    let line = |name: &str, cells: &[&str]| {
        let cells: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| format!(" {cell:>width$} ")).collect();
        format!("│ {name:>label$} │{}│\n", cells.join("│"))
    };
    let mut out = rule("┌", "┬", "┐");
    out.push_str(&line("Metric", &STATISTICS));
    out.push_str(&rule("├", "┼", "┤"));
    for (name, cells) in rows {
        out.push_str(&line(name, &cells.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    out.push_str(&rule("└", "┴", "┘"));
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::report::sample_document;

    #[test]
    fn the_table_is_that_of_the_trial_nearest_to_the_answer_and_its_lines_are_aligned() {
        let document = sample_document();
        let text = metrics(&document, None).unwrap();
        let trial = nearest(&document).unwrap();
        assert!((trial.load.value() / 42.0).ln().abs() < 0.15, "{}", trial.load);
        assert!(text.starts_with(&format!("trial {} at {}\n", trial.id, trial.load)), "{text}");
        let widths: Vec<usize> = text.lines().skip(1).map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
        let row = text.lines().find(|line| line.contains("Time to First Token")).unwrap();
        assert!(row.contains(&figure(trial.metrics["ttft"].p95 * 1e3)), "{row}");
        let count = text.lines().find(|line| line.contains("│") && line.contains(" Request Count")).unwrap();
        assert!(count.contains(&trial.measured.to_string()) && count.contains(" - "), "{count}");
    }

    #[test]
    fn a_trial_is_chosen_by_its_number_and_an_unknown_one_is_none() {
        let document = sample_document();
        assert!(metrics(&document, Some(2)).unwrap().starts_with("trial 2 at "));
        assert_eq!(metrics(&document, Some(99)), None);
    }
}
