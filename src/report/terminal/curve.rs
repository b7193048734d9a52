//! A small curve in braille: the binding objective against load, with the limit and the crossing.

use super::style::{Ink, Style};
use crate::plan::Plan;
use crate::report::document::Document;
use crate::report::series::{binding, of_objective};
use crate::report::words;
use crate::slo::Objective;

/// Rows of text that the curve takes.
const ROWS: usize = 8;
/// Height of the topmost dots above the lowest.
const TOP: f64 = (4 * ROWS - 1) as f64;
/// Largest figure that is shown, as a multiple of the limit: beyond, the server is overloaded, and how
/// far says nothing about the boundary.
const BEYOND: f64 = 2.0;

/// A curve of the objective that binds (the first one where none is known), or nothing where fewer
/// than three loads have been measured.
pub(super) fn render(document: &Document, plan: &Plan, style: Style) -> String {
    let Some((index, objective)) = binding(document, plan) else { return String::new() };
    let points = of_objective(document, index);
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return String::new() };
    if points.len() < 3 {
        return String::new();
    }
    let scale = Scale::new(&points, objective.threshold);
    let label_width = scale.labels(objective).iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let columns = style.width.saturating_sub(label_width + 4).min(64);
    let mut canvas = Canvas::new(columns);
    let x = |load: f64| (load.ln() - first.0.ln()) / (last.0.ln() - first.0.ln()) * (2 * columns - 1) as f64;
    let at = |&(load, figure): &(f64, f64)| (x(load), scale.position(figure) * TOP);
    for pair in points.windows(2) {
        canvas.line(at(&pair[0]), at(&pair[1]));
    }
    let limit_row = canvas.row_of(scale.position(objective.threshold) * TOP);
    let crossing =
        document.answer.load.map(|load| load.value()).filter(|&load| load >= first.0 && load <= last.0);
    let crossing_column = crossing.map(|load| (x(load) / 2.0) as usize);

    let mut out = format!("  {} against {}\n", words::name(objective), words::axis_name(plan));
    let labels = scale.labels(objective);
    for row in 0..ROWS {
        // The limit's own label is the one that must be there.
        let (label, tick) = if row == limit_row {
            (labels[1].clone(), '┼')
        } else if row == 0 && limit_row > 1 {
            (labels[2].clone(), '┤')
        } else if row == ROWS - 1 && limit_row + 2 < ROWS {
            (labels[0].clone(), '┤')
        } else {
            (String::new(), '│')
        };
        out.push_str(&format!("  {label:>label_width$} {tick}"));
        out.push_str(&canvas.text_of_row(row, limit_row, crossing_column, style));
        out.push('\n');
    }
    out.push_str(&format!("  {:label_width$} └{}\n", "", "─".repeat(columns)));
    let mut marks: Vec<(usize, String, bool)> = Vec::new();
    if let (Some(column), Some(load)) = (crossing_column, crossing) {
        marks.push((column, words::level(load), true));
    }
    marks.push((0, words::level(first.0), false));
    marks.push((columns - 1, words::level(last.0), false));
    let axis = axis_labels(columns, &marks);
    out.push_str(&format!("  {:label_width$}  {}\n", "", axis.trim_end()));
    out
}

/// The vertical scale, linear: from 0 or the smallest figure to the largest that is worth showing.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn new(points: &[(f64, f64)], limit: f64) -> Self {
        let low = points.iter().map(|point| point.1).fold(limit, f64::min);
        let high = points.iter().map(|point| point.1).fold(limit, f64::max).min(limit * BEYOND);
        let low = if low > high / 2.0 { low } else { 0.0 };
        Self { low, high }
    }

    /// 0 at the bottom, 1 at the top, more for a figure that is not shown.
    fn position(&self, figure: f64) -> f64 {
        if self.high > self.low { (figure - self.low) / (self.high - self.low) } else { 0.5 }
    }

    fn labels(&self, objective: &Objective) -> [String; 3] {
        let figure = |value| words::figure(objective, value);
        [figure(self.low), words::threshold(objective), figure(self.high)]
    }
}

/// Dots of two by four to a character.
struct Canvas {
    columns: usize,
    dots: Vec<u8>,
}

impl Canvas {
    fn new(columns: usize) -> Self {
        Self { columns, dots: vec![0; columns * ROWS] }
    }

    /// Row of text (0 at the top) of a height in dots above the bottom.
    fn row_of(&self, height: f64) -> usize {
        ((TOP - height.round()).max(0.0) as usize / 4).min(ROWS - 1)
    }

    /// Sets a dot; one outside the canvas is not drawn.
    fn dot(&mut self, x: f64, height: f64) {
        // Bits of the braille block, by row and column of the dot.
        const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        let (x, height) = (x.round(), height.round());
        if (0.0..2.0 * self.columns as f64).contains(&x) && (0.0..=TOP).contains(&height) {
            let (x, y) = (x as usize, (TOP - height) as usize);
            self.dots[y / 4 * self.columns + x / 2] |= BITS[y % 4][x % 2];
        }
    }

    /// Draws a line; what is above the canvas is left out.
    fn line(&mut self, from: (f64, f64), to: (f64, f64)) {
        let steps = (to.0 - from.0).abs().max((to.1 - from.1).abs()).ceil().clamp(1.0, 10_000.0);
        for step in 0..=steps as usize {
            let share = step as f64 / steps;
            self.dot(from.0 + share * (to.0 - from.0), from.1 + share * (to.1 - from.1));
        }
    }

    fn text_of_row(&self, row: usize, limit_row: usize, crossing: Option<usize>, style: Style) -> String {
        let mut text = String::new();
        let mut run = String::new();
        let mut ink = None;
        let flush = |run: &mut String, ink: Option<Ink>, text: &mut String| {
            text.push_str(&ink.map_or(run.clone(), |ink| style.paint(ink, run)));
            run.clear();
        };
        for column in 0..self.columns {
            let dots = self.dots[row * self.columns + column];
            let (mark, next) = if dots != 0 {
                (char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' '), Some(Ink::Curve))
            } else if row == limit_row && crossing == Some(column) {
                ('┼', Some(Ink::Strong))
            } else if row == limit_row {
                ('╌', Some(Ink::Bad))
            } else if row > limit_row && crossing == Some(column) {
                ('┊', Some(Ink::Strong))
            } else {
                (' ', None)
            };
            if next != ink {
                flush(&mut run, ink, &mut text);
                ink = next;
            }
            run.push(mark);
        }
        if ink.is_some() {
            flush(&mut run, ink, &mut text);
        }
        text
    }
}

/// Labels under an axis, centred on their columns; those given first win where two would touch.
fn axis_labels(columns: usize, marks: &[(usize, String, bool)]) -> String {
    let mut line: Vec<char> = vec![' '; columns + 8];
    for (column, label, _) in marks {
        let width = label.chars().count();
        let start = column.saturating_sub(width / 2);
        let clear = start.saturating_sub(1)..(start + width + 1).min(line.len());
        if start + width <= line.len() && line[clear].iter().all(|&c| c == ' ') {
            for (index, c) in label.chars().enumerate() {
                line[start + index] = c;
            }
        }
    }
    line.into_iter().collect()
}
