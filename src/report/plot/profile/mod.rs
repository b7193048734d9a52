//! The pictures of a profile: the prefill curve, the decode surface, the Pareto fronts.

mod fronts;
mod prefill;
mod surface;

use plotters::backend::{BitMapBackend, SVGBackend};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::draw::{self, Area, Drawn, Pen};
use super::{PlotError, SCALE, WIDTH, axis, in_points, to_png};
use crate::profile::{Figures, Pace};
use crate::recipe::ProfileKind;

// Sizes in points.
const HEADER: u32 = 64;
const LEFT: u32 = 84;
const RIGHT: u32 = 26;
const FOOTER: u32 = 12;

/// What a profile's picture is drawn from.
#[derive(Clone, Copy, Debug)]
pub struct ProfilePicture<'a> {
    /// What is drawn.
    pub kind: ProfileKind,
    /// Its figures.
    pub figures: &'a Figures,
    /// The headline.
    pub title: &'a str,
    /// Whether throughput is that of a GPU.
    pub per_gpu: bool,
}

/// A profile as SVG; `None` where no trial was valid.
///
/// # Errors
/// When the drawing library fails.
pub fn svg(picture: ProfilePicture<'_>) -> Result<Option<String>, PlotError> {
    let Some(size) = size(picture) else { return Ok(None) };
    let mut text = String::new();
    draw_on(SVGBackend::with_string(&mut text, size), picture)?;
    Ok(Some(in_points(&text, size)))
}

/// A profile as PNG; `None` where no trial was valid.
///
/// # Errors
/// When the drawing library fails.
pub fn png(picture: ProfilePicture<'_>) -> Result<Option<Vec<u8>>, PlotError> {
    let Some((width, height)) = size(picture) else { return Ok(None) };
    let mut pixels = vec![0; (width * height * 3) as usize];
    draw_on(BitMapBackend::with_buffer(&mut pixels, (width, height)), picture)?;
    Ok(Some(to_png(&pixels, width, height)?))
}

fn size(picture: ProfilePicture<'_>) -> Option<(u32, u32)> {
    let body = match picture.kind {
        ProfileKind::Prefill => prefill::height(picture.figures),
        ProfileKind::Decode => surface::height(picture.figures),
        ProfileKind::Pareto => fronts::height(picture.figures),
    }?;
    Some((WIDTH * SCALE, (HEADER + body + FOOTER) * SCALE))
}

fn draw_on<B: DrawingBackend>(backend: B, picture: ProfilePicture<'_>) -> Result<(), PlotError> {
    draw::register_fonts()?;
    let root = backend.into_drawing_area();
    draw_all(&root, picture, Pen::new(SCALE)).map_err(|error| PlotError(error.to_string()))
}

fn draw_all<B: DrawingBackend>(root: &Area<B>, picture: ProfilePicture<'_>, pen: Pen) -> Drawn<B> {
    root.fill(&WHITE)?;
    let title = pen.bold(16.0, draw::INK, (HPos::Left, VPos::Top));
    root.draw_text(picture.title, &title, (pen.px(20), pen.px(14)))?;
    let about = pen.text(12.0, draw::SOFT, (HPos::Left, VPos::Top));
    let pace = super::super::profile::pace_words(picture.figures.pace.unwrap_or(Pace::Itl));
    let surface = format!("{pace} by requests in flight and output length: the median, and p95 below it");
    let (text, body): (&str, _) = match picture.kind {
        ProfileKind::Prefill => (
            "one request at a time;  filled: median with its 95 % interval;  hollow: p95;  line: the fit",
            prefill::draw(root, picture.figures, pen),
        ),
        ProfileKind::Decode => (&surface, surface::draw(root, picture.figures, pen)),
        ProfileKind::Pareto => (
            "each point is a load, labelled with its requests in flight;  hollow: another load is better on both sides",
            fronts::draw(root, picture.figures, picture.per_gpu, pen),
        ),
    };
    body?;
    root.draw_text(text, &about, (pen.px(20), pen.px(38)))?;
    root.present()
}

/// How values of an axis map to dots.
#[derive(Clone, Copy)]
struct Scale {
    values: (f64, f64),
    dots: (i32, i32),
    log: bool,
}

impl Scale {
    fn at(self, value: f64) -> i32 {
        let (low, high) = self.values;
        let share = if self.log {
            (value / low).ln() / (high / low).ln().max(1e-9)
        } else {
            (value - low) / (high - low).max(1e-300)
        };
        let span = f64::from(self.dots.1 - self.dots.0);
        self.dots.0 + (share.clamp(0.0, 1.0) * span).round() as i32
    }
}

/// A panel with its two axes, and how many units of its labels one unit of its values is.
struct Panel<'a> {
    x: Scale,
    y: Scale,
    units: (f64, f64),
    names: (&'a str, &'a str),
}

impl Panel<'_> {
    fn point(&self, x: f64, y: f64) -> (i32, i32) {
        (self.x.at(x), self.y.at(y))
    }

    /// Grid, ticks, labels and names.
    fn axes<B: DrawingBackend>(&self, root: &Area<B>, pen: Pen) -> Drawn<B> {
        let grid = draw::GRID.stroke_width(pen.width(0.8));
        let line = draw::AXIS.stroke_width(pen.width(1.0));
        let ((left, right), (bottom, top)) = (self.x.dots, self.y.dots);
        let (across, up) = self.units;
        for value in ticks(self.y, up, 5, 0.05) {
            let y = self.y.at(value / up);
            draw::line(root, (left, y), (right, y), grid)?;
            let style = pen.text(12.0, draw::INK, (HPos::Right, VPos::Center));
            root.draw_text(&axis::label(value), &style, (left - pen.px(8), y))?;
        }
        for value in ticks(self.x, across, 8, f64::from(pen.px(46)) / f64::from(right - left)) {
            let x = self.x.at(value / across);
            draw::line(root, (x, top), (x, bottom), grid)?;
            draw::line(root, (x, bottom), (x, bottom + pen.px(4)), line)?;
            let style = pen.text(12.0, draw::INK, (HPos::Center, VPos::Top));
            root.draw_text(&axis::label(value), &style, (x, bottom + pen.px(7)))?;
        }
        draw::line(root, (left, top), (left, bottom), line)?;
        draw::line(root, (left, bottom), (right, bottom), line)?;
        let name = pen.text(12.5, draw::INK, (HPos::Center, VPos::Center));
        root.draw_text(self.names.0, &name, ((left + right) / 2, bottom + pen.px(34)))?;
        let name = name.transform(FontTransform::Rotate270);
        root.draw_text(self.names.1, &name, (pen.px(20), (top + bottom) / 2))
    }
}

fn ticks(scale: Scale, unit: f64, most: usize, apart: f64) -> Vec<f64> {
    let (low, high) = (scale.values.0 * unit, scale.values.1 * unit);
    if scale.log { axis::log_ticks(low, high, apart) } else { axis::linear_ticks(low, high, most) }
}
