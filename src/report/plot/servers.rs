//! Servers against a rate, or over the day.

use plotters::backend::SVGBackend;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::draw::{AXIS, Area, Drawn, GOOD, GRID, INK, LIMIT, Pen, SOFT, line, register_fonts};
use super::{PlotError, SCALE, WIDTH, axis};

const HEIGHT: u32 = 440;
/// Opacity of what lies between the ends of the interval.
const INTERVAL: f64 = 0.3;

/// A picture of server counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServersChart {
    /// What it says.
    pub title: String,
    /// What it stands on.
    pub subtitle: String,
    /// What the x axis shows.
    pub x_name: String,
    /// The counts, at least two points.
    pub points: Vec<ServersPoint>,
    /// Names of the points; without them the x axis has figures.
    pub names: Vec<String>,
    /// The demand, where one point of the x axis is it.
    pub at: Option<f64>,
}

/// Counts at one place.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServersPoint {
    /// Rate, or number of the interval.
    pub x: f64,
    /// Servers by goodput: the fleet.
    pub goodput: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Servers by throughput.
    pub throughput: f64,
}

/// The picture as SVG.
///
/// # Errors
/// When the drawing library fails.
pub fn servers_svg(chart: &ServersChart) -> Result<String, PlotError> {
    register_fonts()?;
    let size = (WIDTH * SCALE, HEIGHT * SCALE);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        picture(&root, chart, Pen { scale: f64::from(SCALE) })
            .map_err(|error| PlotError(error.to_string()))?;
    }
    let dots = format!("width=\"{}\" height=\"{}\"", size.0, size.1);
    Ok(text.replacen(&dots, &format!("width=\"{WIDTH}\" height=\"{HEIGHT}\""), 1))
}

fn picture<B: DrawingBackend>(root: &Area<B>, chart: &ServersChart, pen: Pen) -> Drawn<B> {
    root.fill(&WHITE)?;
    let at_top = (HPos::Left, VPos::Top);
    root.draw_text(&chart.title, &pen.bold(19.0, INK, at_top), (pen.px(20), pen.px(14)))?;
    root.draw_text(&chart.subtitle, &pen.text(12.5, SOFT, at_top), (pen.px(20), pen.px(42)))?;
    legend(root, pen)?;
    let steps = !chart.names.is_empty();
    let last = chart.points.last().map_or(1.0, |point| point.x) + if steps { 1.0 } else { 0.0 };
    let first = chart.points.first().map_or(0.0, |point| point.x);
    let top = chart.points.iter().map(|point| point.goodput.max(point.throughput)).fold(1.0, f64::max) * 1.1;
    let (left, right) = (pen.px(70), pen.px(WIDTH - 24));
    let (up, down) = (pen.px(104), pen.px(HEIGHT - 62));
    let x = |value: f64| left + ((value - first) / (last - first) * f64::from(right - left)).round() as i32;
    let y = |value: f64| down - (value / top * f64::from(down - up)).round() as i32;

    for tick in axis::linear_ticks(0.0, top, 6).into_iter().filter(|tick| tick.fract() == 0.0) {
        line(root, (left, y(tick)), (right, y(tick)), GRID.stroke_width(pen.width(1.0)))?;
        let style = pen.text(12.0, SOFT, (HPos::Right, VPos::Center));
        root.draw_text(&axis::label(tick), &style, (left - pen.px(8), y(tick)))?;
    }
    if steps {
        bars(root, chart, pen, (&x, &y))?;
    } else {
        curves(root, chart, pen, (&x, &y))?;
        for tick in axis::linear_ticks(first, last, 9) {
            let style = pen.text(12.0, SOFT, (HPos::Center, VPos::Top));
            root.draw_text(&axis::label(tick), &style, (x(tick), down + pen.px(7)))?;
        }
    }
    if let Some(at) = chart.at {
        line(root, (x(at), up), (x(at), down), INK.mix(0.6).stroke_width(pen.width(1.2)))?;
    }
    line(root, (left, down), (right, down), AXIS.stroke_width(pen.width(1.0)))?;
    let style = pen.text(12.5, INK, (HPos::Center, VPos::Bottom));
    root.draw_text(&chart.x_name, &style, ((left + right) / 2, pen.px(HEIGHT - 14)))?;
    root.draw_text("servers", &pen.text(12.5, INK, (HPos::Left, VPos::Bottom)), (left, up - pen.px(6)))?;
    root.present()
}

fn legend<B: DrawingBackend>(root: &Area<B>, pen: Pen) -> Drawn<B> {
    let mut at = pen.px(20);
    let signs = [
        (GOOD.to_rgba(), "by goodput: the plan"),
        (GOOD.mix(INTERVAL), "interval of the count"),
        (LIMIT.to_rgba(), "by throughput: too few"),
    ];
    for (colour, text) in signs {
        root.draw(&Rectangle::new([(at, pen.px(65)), (at + pen.px(14), pen.px(75))], colour.filled()))?;
        let style = pen.text(12.0, INK, (HPos::Left, VPos::Center));
        root.draw_text(text, &style, (at + pen.px(20), pen.px(70)))?;
        at += pen.px(46) + root.estimate_text_size(text, &style)?.0 as i32;
    }
    Ok(())
}

type Place<'a> = &'a dyn Fn(f64) -> i32;

fn curves<B: DrawingBackend>(
    root: &Area<B>,
    chart: &ServersChart,
    pen: Pen,
    (x, y): (Place<'_>, Place<'_>),
) -> Drawn<B> {
    // Counts are whole: they rise at once, behind the last rate that the smaller one carries.
    let stairs = |value: fn(&ServersPoint) -> f64| -> Vec<(i32, i32)> {
        let mut corners = Vec::new();
        let mut last = None;
        for point in &chart.points {
            corners.extend(last.map(|from| (from, y(value(point)))));
            corners.push((x(point.x), y(value(point))));
            last = Some(x(point.x));
        }
        corners
    };
    let mut band = stairs(|point| point.goodput);
    band.extend(stairs(|point| point.low).into_iter().rev());
    root.draw(&Polygon::new(band, GOOD.mix(INTERVAL)))?;
    let curve = |corners: Vec<(i32, i32)>, colour: RGBColor| {
        root.draw(&PathElement::new(corners, colour.stroke_width(pen.width(2.2))))
    };
    curve(stairs(|point| point.throughput), LIMIT)?;
    curve(stairs(|point| point.goodput), GOOD)
}

fn bars<B: DrawingBackend>(
    root: &Area<B>,
    chart: &ServersChart,
    pen: Pen,
    (x, y): (Place<'_>, Place<'_>),
) -> Drawn<B> {
    let every = chart.points.len().div_ceil(12);
    for (index, (point, name)) in chart.points.iter().zip(&chart.names).enumerate() {
        let (from, to) = (x(point.x) + pen.px(2), x(point.x + 1.0) - pen.px(2));
        root.draw(&Rectangle::new([(from, y(point.low)), (to, y(0.0))], GOOD.mix(0.8).filled()))?;
        root.draw(&Rectangle::new(
            [(from, y(point.goodput)), (to, y(point.low))],
            GOOD.mix(INTERVAL).filled(),
        ))?;
        let level = y(point.throughput);
        line(root, (from, level), (to, level), LIMIT.stroke_width(pen.width(3.0)))?;
        if index.is_multiple_of(every) {
            let style = pen.text(12.0, SOFT, (HPos::Center, VPos::Top));
            root.draw_text(name, &style, ((from + to) / 2, y(0.0) + pen.px(7)))?;
        }
    }
    Ok(())
}
