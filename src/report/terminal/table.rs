//! The table of trials near the boundary.

use super::style::{Ink, Style};
use crate::plan::Plan;
use crate::report::document::{Document, TrialFigures, VerdictWord};
use crate::report::words;
use crate::search::TrialKind;
use crate::units::significant;

/// Rows at the most: what is far from the boundary says little about the answer.
const ROWS: usize = 10;

struct Cell {
    text: String,
    ink: Option<Ink>,
}

/// The trials nearest to the boundary, ascending in load. Columns that do not fit are left out from
/// the right, objectives last of all.
pub(super) fn near_boundary(document: &Document, plan: &Plan, style: Style) -> String {
    let rows = nearest(document);
    if rows.is_empty() {
        return String::new();
    }
    let mut columns: Vec<(String, String, Vec<Cell>)> = vec![
        column("load", "", &rows, |trial| plain(words::level(trial.load.value()))),
        column("kind", "", &rows, |trial| plain(words::kind(trial.kind).to_owned())),
        column("verdict", "", &rows, verdict),
    ];
    for (index, objective) in plan.slo.objectives.iter().enumerate() {
        let heading = (words::name(objective), words::limit(objective));
        columns.push(column(&heading.0, &heading.1, &rows, |trial| {
            let figure = trial.objectives.get(index);
            let text = figure
                .and_then(|figure| figure.figure)
                .map_or("-".to_owned(), |value| words::figure(objective, value));
            let ink = match figure.and_then(|figure| figure.met) {
                _ if !trial.is_valid() => Some(Ink::Faint),
                Some(true) => Some(Ink::Good),
                Some(false) => Some(Ink::Bad),
                None => None,
            };
            Cell { text, ink }
        }));
    }
    columns.push(column("all", "req/s", &rows, |trial| plain(significant(trial.requests_per_second))));
    columns.push(column("good", "req/s", &rows, |trial| plain(significant(trial.goodput))));
    columns.push(column("good", "share", &rows, |trial| {
        plain(format!("{} %", significant(trial.attainment * 100.0)))
    }));
    columns.push(column("counted", "requests", &rows, |trial| plain(words::count(trial.measured.into()))));
    print(columns, rows.len(), style)
}

fn print(columns: Vec<(String, String, Vec<Cell>)>, rows: usize, style: Style) -> String {
    let mut used = 0;
    let mut widths = Vec::new();
    for (first, second, cells) in &columns {
        let texts = cells.iter().map(|cell| cell.text.as_str()).chain([first.as_str(), second.as_str()]);
        let width = texts.map(|text| text.chars().count()).max().unwrap_or(0);
        if used + width + 2 > style.width {
            break;
        }
        used += width + 2;
        widths.push(width);
    }
    let mut out = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = (String, Option<Ink>)>| {
        let mut text = String::new();
        for ((cell, ink), width) in cells.zip(&widths) {
            let pad = " ".repeat(width - cell.chars().count());
            // Words stand at the left, figures at the right.
            let is_word = cell.starts_with(|c: char| c.is_ascii_lowercase()) && ink != Some(Ink::Strong);
            let cell = ink.map_or(cell.clone(), |ink| style.paint(ink, &cell));
            text.push_str("  ");
            text.push_str(&if is_word { cell + &pad } else { pad + &cell });
        }
        out.push_str(text.trim_end());
        out.push('\n');
    };
    let is_figure =
        |cells: &[Cell]| !cells.iter().all(|cell| cell.text.starts_with(|c: char| c.is_ascii_lowercase()));
    for head in [0, 1] {
        line(&mut columns.iter().map(|(first, second, cells)| {
            let text = if head == 0 { first } else { second };
            (text.clone(), if is_figure(cells) { Some(Ink::Strong) } else { None })
        }));
    }
    for row in 0..rows {
        line(&mut columns.iter().map(|(_, _, cells)| (cells[row].text.clone(), cells[row].ink)));
    }
    out
}

fn column(
    first: &str,
    second: &str,
    rows: &[&TrialFigures],
    cell: impl Fn(&TrialFigures) -> Cell,
) -> (String, String, Vec<Cell>) {
    (first.to_owned(), second.to_owned(), rows.iter().map(|trial| cell(trial)).collect())
}

fn plain(text: String) -> Cell {
    Cell { text, ink: None }
}

fn verdict(trial: &TrialFigures) -> Cell {
    let (text, ink) = match trial.verdict {
        VerdictWord::Met => ("met", Ink::Good),
        VerdictWord::Missed => ("missed", Ink::Bad),
        VerdictWord::Undecided => ("undecided", Ink::Faint),
        VerdictWord::Void => ("void", Ink::Warn),
    };
    Cell { text: text.to_owned(), ink: Some(ink) }
}

/// The trials nearest to the boundary on the log scale, ascending in load.
fn nearest(document: &Document) -> Vec<&TrialFigures> {
    let answer = &document.answer;
    let around =
        answer.load.or(answer.largest_met).or(answer.smallest_missed).map(|load| load.value().max(0.5).ln());
    let mut rows: Vec<&TrialFigures> =
        document.trials.iter().filter(|trial| trial.kind != TrialKind::Warmup).collect();
    if let Some(around) = around {
        let distance = |trial: &TrialFigures| (trial.load.value().max(0.5).ln() - around).abs();
        rows.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
    } else {
        rows.reverse();
    }
    rows.truncate(ROWS);
    rows.sort_by(|a, b| a.load.value().total_cmp(&b.load.value()).then(a.id.cmp(&b.id)));
    rows
}
