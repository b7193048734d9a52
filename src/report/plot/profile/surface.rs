//! Time between tokens over requests in flight and output length, as a heat map.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::{Area, Drawn, HEADER, LEFT, Pen, RIGHT, draw};
use crate::profile::{Cell, Figures, Pace, Spread};
use crate::units::Seconds;

// Sizes in points.
const ROW: u32 = 62;
const BELOW: u32 = 52;
/// Width of a cell from which its figures have room.
const ROOM: i32 = 64;
/// The slowest cell's colour; the fastest is nearly white.
const SLOW: RGBColor = RGBColor(0, 82, 140);

/// The outputs' lengths from the longest (top) to the shortest, and the loads, ascending.
fn sides(figures: &Figures) -> (Vec<u32>, Vec<u32>) {
    let unique = |mut values: Vec<u32>| {
        values.sort_unstable();
        values.dedup();
        values
    };
    let mut rows = unique(figures.cells.iter().map(|cell| cell.shape.osl).collect());
    rows.reverse();
    (rows, unique(figures.cells.iter().map(|cell| cell.concurrency).collect()))
}

pub(super) fn height(figures: &Figures) -> Option<u32> {
    let valid = figures.cells.iter().any(|cell| cell.pace(pace(figures)).is_some());
    valid.then(|| sides(figures).0.len() as u32 * ROW + BELOW)
}

fn pace(figures: &Figures) -> Pace {
    figures.pace.unwrap_or(Pace::Itl)
}

/// Share of the way from the fastest to the slowest median, on the log scale.
fn shade(median: f64, ends: (f64, f64)) -> f64 {
    if ends.1 > ends.0 * 1.001 {
        ((median / ends.0).ln() / (ends.1 / ends.0).ln()).clamp(0.0, 1.0)
    } else {
        0.0
    }
}

pub(super) fn draw<B: DrawingBackend>(root: &Area<B>, figures: &Figures, pen: Pen) -> Drawn<B> {
    let (rows, columns) = sides(figures);
    let times = |cell: &Cell| cell.pace(pace(figures));
    let medians = || figures.cells.iter().filter_map(times).map(|times| times.p50).filter(|&p| p > 0.0);
    let ends = (medians().fold(f64::INFINITY, f64::min), medians().fold(0.0, f64::max));
    let (left, right) = (pen.px(LEFT), root.dim_in_pixel().0 as i32 - pen.px(RIGHT));
    let x = |column: usize| left + (right - left) * column as i32 / columns.len().max(1) as i32;
    let y = |row: usize| pen.px(HEADER + row as u32 * ROW);
    for (row, &osl) in rows.iter().enumerate() {
        let style = pen.text(12.0, draw::INK, (HPos::Right, VPos::Center));
        root.draw_text(&osl.to_string(), &style, (left - pen.px(8), (y(row) + y(row + 1)) / 2))?;
        for (column, &users) in columns.iter().enumerate() {
            let found = figures.cells.iter().find(|cell| cell.shape.osl == osl && cell.concurrency == users);
            let corners = [(x(column), y(row)), (x(column + 1) - pen.px(1), y(row + 1) - pen.px(1))];
            square(root, found.map(times), corners, ends, pen)?;
        }
    }
    let style = pen.text(12.0, draw::INK, (HPos::Center, VPos::Top));
    for (column, users) in columns.iter().enumerate() {
        let middle = (x(column) + x(column + 1)) / 2;
        root.draw_text(&users.to_string(), &style, (middle, y(rows.len()) + pen.px(6)))?;
    }
    let name = pen.text(12.5, draw::INK, (HPos::Center, VPos::Center));
    root.draw_text("requests in flight", &name, ((left + right) / 2, y(rows.len()) + pen.px(36)))?;
    let name = name.transform(FontTransform::Rotate270);
    root.draw_text("output tokens", &name, (pen.px(20), (y(0) + y(rows.len())) / 2))
}

fn square<B: DrawingBackend>(
    root: &Area<B>,
    cell: Option<Option<Spread>>,
    corners: [(i32, i32); 2],
    ends: (f64, f64),
    pen: Pen,
) -> Drawn<B> {
    let middle = ((corners[0].0 + corners[1].0) / 2, (corners[0].1 + corners[1].1) / 2);
    let Some(times) = cell.flatten() else {
        root.draw(&Rectangle::new(corners, draw::GRID.filled()))?;
        let style = pen.text(11.0, draw::SOFT, (HPos::Center, VPos::Center));
        let text = if cell.is_some() { "void" } else { "-" };
        return root.draw_text(text, &style, middle);
    };
    let shade = shade(times.p50, ends);
    root.draw(&Rectangle::new(corners, SLOW.mix(0.06 + 0.86 * shade).filled()))?;
    if corners[1].0 - corners[0].0 < pen.px(ROOM) {
        return Ok(());
    }
    let ink = if shade > 0.5 { WHITE } else { draw::INK };
    let above = pen.bold(12.5, RGBColor(ink.0, ink.1, ink.2), (HPos::Center, VPos::Bottom));
    root.draw_text(&Seconds(times.p50).to_string(), &above, (middle.0, middle.1))?;
    let below = pen.text(10.5, RGBColor(ink.0, ink.1, ink.2), (HPos::Center, VPos::Top));
    root.draw_text(&Seconds(times.p95).to_string(), &below, (middle.0, middle.1 + pen.px(4)))
}
