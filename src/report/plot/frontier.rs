//! The picture of a frontier: capacity over the limit, one panel for each objective.

use plotters::backend::{BitMapBackend, SVGBackend};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::draw::{self, Area, Drawn, Pen};
use super::{PlotError, SCALE, WIDTH, axis, in_points, to_png};
use crate::analysis::frontier::{Capacity, Frontier, Frontiers};
use crate::search::{Place, SearchOutcome};

// Sizes in points.
const HEADER: u32 = 64;
const PANEL: u32 = 250;
const FOOTER: u32 = 12;
const LEFT: u32 = 74;
const RIGHT: u32 = 26;
const BELOW: u32 = 50;

/// The frontier as SVG.
///
/// # Errors
/// When the drawing library fails.
pub fn svg(frontiers: &Frontiers) -> Result<String, PlotError> {
    let size = size(frontiers);
    let mut text = String::new();
    picture(SVGBackend::with_string(&mut text, size), frontiers)?;
    Ok(in_points(&text, size))
}

/// The frontier as PNG.
///
/// # Errors
/// When the drawing library fails.
pub fn png(frontiers: &Frontiers) -> Result<Vec<u8>, PlotError> {
    let (width, height) = size(frontiers);
    let mut pixels = vec![0; (width * height * 3) as usize];
    picture(BitMapBackend::with_buffer(&mut pixels, (width, height)), frontiers)?;
    to_png(&pixels, width, height)
}

fn panels(frontiers: &Frontiers) -> Vec<&Frontier> {
    std::iter::once(&frontiers.first_token).chain(&frontiers.between_tokens).collect()
}

fn size(frontiers: &Frontiers) -> (u32, u32) {
    (WIDTH * SCALE, (HEADER + panels(frontiers).len() as u32 * PANEL + FOOTER) * SCALE)
}

fn picture<B: DrawingBackend>(backend: B, frontiers: &Frontiers) -> Result<(), PlotError> {
    draw::register_fonts()?;
    let root = backend.into_drawing_area();
    draw_all(&root, frontiers, Pen::new(SCALE)).map_err(|error| PlotError(error.to_string()))
}

fn draw_all<B: DrawingBackend>(root: &Area<B>, frontiers: &Frontiers, pen: Pen) -> Drawn<B> {
    root.fill(&WHITE)?;
    let title = pen.bold(16.0, draw::INK, (HPos::Left, VPos::Top));
    root.draw_text("capacity over the latency limit", &title, (pen.px(LEFT), pen.px(14.0)))?;
    let about = pen.text(12.0, draw::SOFT, (HPos::Left, VPos::Top));
    let text = "band: 95 % interval;  filled: measured there;  hollow: between or beyond the measured loads";
    root.draw_text(text, &about, (pen.px(LEFT), pen.px(38.0)))?;
    for (index, frontier) in panels(frontiers).into_iter().enumerate() {
        panel(root, frontier, HEADER + index as u32 * PANEL, pen)?;
    }
    root.present()
}

/// Where a panel lies and how limits and loads map to dots.
struct Frame {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    limits: (f64, f64),
    most: f64,
}

impl Frame {
    fn x(&self, limit: f64) -> i32 {
        let share = (limit / self.limits.0).ln() / (self.limits.1 / self.limits.0).ln().max(1e-9);
        self.left + (share * f64::from(self.right - self.left)).round() as i32
    }

    fn y(&self, load: f64) -> i32 {
        let share = (load / self.most).clamp(0.0, 1.0);
        self.bottom - (share * f64::from(self.bottom - self.top)).round() as i32
    }
}

/// The interval of a point, its open end at `most`.
fn band(capacity: &Capacity, most: f64) -> Option<(f64, f64)> {
    capacity.interval.map(|interval| (interval.low, interval.high.unwrap_or(most)))
}

fn panel<B: DrawingBackend>(root: &Area<B>, frontier: &Frontier, top: u32, pen: Pen) -> Drawn<B> {
    let (Some(first), Some(last)) = (frontier.points.first(), frontier.points.last()) else { return Ok(()) };
    let loads = frontier.points.iter().flat_map(|(_, capacity)| {
        let high = capacity.interval.and_then(|interval| interval.high);
        [f64::from(capacity.load), high.unwrap_or(0.0)]
    });
    let most = loads.fold(1.0, f64::max) * 1.12;
    let frame = Frame {
        left: pen.px(LEFT),
        right: root.dim_in_pixel().0 as i32 - pen.px(RIGHT),
        top: pen.px(top + 8),
        bottom: pen.px(top + PANEL - BELOW),
        limits: (first.0 / 1.04, (last.0 * 1.04).max(first.0 * 1.1)),
        most,
    };
    axes(root, frontier, &frame, pen)?;
    let bands: Vec<(f64, (f64, f64))> = frontier
        .points
        .iter()
        .filter_map(|(limit, capacity)| Some((*limit, band(capacity, most)?)))
        .collect();
    let mut outline: Vec<(i32, i32)> =
        bands.iter().map(|&(limit, (low, _))| (frame.x(limit), frame.y(low))).collect();
    outline.extend(bands.iter().rev().map(|&(limit, (_, high))| (frame.x(limit), frame.y(high))));
    if outline.len() > 2 {
        root.draw(&Polygon::new(outline, draw::BAND.mix(0.13)))?;
    }
    let answered = |capacity: &Capacity| capacity.interval.is_some();
    let curve: Vec<(i32, i32)> = frontier
        .points
        .iter()
        .filter(|(_, capacity)| answered(capacity))
        .map(|(limit, capacity)| (frame.x(*limit), frame.y(f64::from(capacity.load))))
        .collect();
    root.draw(&PathElement::new(curve, draw::FIGURE.mix(0.75).stroke_width(pen.width(1.6))))?;
    for (limit, capacity) in frontier.points.iter().filter(|(_, capacity)| answered(capacity)) {
        let at = (frame.x(*limit), frame.y(f64::from(capacity.load)));
        if capacity.place == Place::Within {
            root.draw(&Circle::new(at, pen.px(3.8), draw::FIGURE.filled()))?;
        } else {
            root.draw(&Circle::new(at, pen.px(3.8), WHITE.filled()))?;
            root.draw(&Circle::new(at, pen.px(3.8), draw::FIGURE.stroke_width(pen.width(1.4))))?;
        }
        let bound = if capacity.outcome == SearchOutcome::MetAtHighest { ">=" } else { "" };
        let style = pen.text(11.0, draw::INK, (HPos::Center, VPos::Bottom));
        root.draw_text(&format!("{bound}{}", capacity.load), &style, (at.0, at.1 - pen.px(6.0)))?;
    }
    Ok(())
}

fn axes<B: DrawingBackend>(root: &Area<B>, frontier: &Frontier, frame: &Frame, pen: Pen) -> Drawn<B> {
    let grid = draw::GRID.stroke_width(pen.width(0.8));
    let line = draw::AXIS.stroke_width(pen.width(1.0));
    for load in axis::linear_ticks(0.0, frame.most, 5) {
        let y = frame.y(load);
        draw::line(root, (frame.left, y), (frame.right, y), grid)?;
        let style = pen.text(12.0, draw::INK, (HPos::Right, VPos::Center));
        root.draw_text(&axis::label(load), &style, (frame.left - pen.px(8.0), y))?;
    }
    let (unit, factor) = axis::time_unit(frame.limits.1);
    let mut free_from = i32::MIN;
    for (limit, _) in &frontier.points {
        let x = frame.x(*limit);
        draw::line(root, (x, frame.bottom), (x, frame.bottom + pen.px(4.0)), line)?;
        if x >= free_from {
            let style = pen.text(12.0, draw::INK, (HPos::Center, VPos::Top));
            root.draw_text(&axis::label(limit * factor), &style, (x, frame.bottom + pen.px(7.0)))?;
            free_from = x + pen.px(46.0);
        }
    }
    draw::line(root, (frame.left, frame.top), (frame.left, frame.bottom), line)?;
    draw::line(root, (frame.left, frame.bottom), (frame.right, frame.bottom), line)?;
    let style = pen.text(12.5, draw::INK, (HPos::Center, VPos::Center));
    let below = ((frame.left + frame.right) / 2, frame.bottom + pen.px(32.0));
    root.draw_text(&format!("limit of {} ({unit})", frontier.of), &style, below)?;
    let side = style.transform(FontTransform::Rotate270);
    root.draw_text("max concurrency", &side, (pen.px(18.0), (frame.top + frame.bottom) / 2))
}
