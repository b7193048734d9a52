//! TTFT over prompt length, and prompt tokens a second.

use plotters::prelude::*;

use super::{Area, Drawn, HEADER, LEFT, Panel, Pen, RIGHT, Scale, axis, draw};
use crate::profile::Figures;

// Sizes in points.
const PANEL: u32 = 290;
const BELOW: u32 = 56;
/// Points of the fitted curve.
const STEPS: u32 = 120;

/// A prompt length: tokens, median TTFT with its interval, and p95, seconds.
struct Point {
    tokens: f64,
    ttft: f64,
    interval: Option<(f64, f64)>,
    p95: f64,
}

fn points(figures: &Figures) -> Vec<Point> {
    let point = |cell: &crate::profile::Cell| {
        let (tokens, ttft) = (cell.prompt_tokens?, cell.ttft?);
        let interval = ttft.p50_interval.map(|interval| (interval.low, interval.high.unwrap_or(ttft.p50)));
        (tokens > 0.0 && ttft.p50 > 0.0).then_some(Point { tokens, ttft: ttft.p50, interval, p95: ttft.p95 })
    };
    figures.cells.iter().filter_map(point).collect()
}

pub(super) fn height(figures: &Figures) -> Option<u32> {
    (!points(figures).is_empty()).then_some(2 * PANEL)
}

pub(super) fn draw<B: DrawingBackend>(root: &Area<B>, figures: &Figures, pen: Pen) -> Drawn<B> {
    let points = points(figures);
    let longest = points.iter().map(|point| point.tokens).fold(1.0, f64::max);
    let shortest = points.iter().map(|point| point.tokens).fold(longest, f64::min);
    let highest = points.iter().map(|point| point.p95.max(point.ttft)).fold(0.0, f64::max);
    let across = (pen.px(LEFT), root.dim_in_pixel().0 as i32 - pen.px(RIGHT));
    let up = |index: u32| (pen.px(HEADER + (index + 1) * PANEL - BELOW), pen.px(HEADER + index * PANEL + 10));
    let (unit, factor) = axis::time_unit(highest);
    let time = Panel {
        x: Scale { values: (0.0, longest * 1.04), dots: across, log: false },
        y: Scale { values: (0.0, highest * 1.08), dots: up(0), log: false },
        units: (1.0, factor),
        names: ("prompt tokens", &format!("TTFT ({unit})")),
    };
    time.axes(root, pen)?;
    let fit = figures.prefill.as_ref();
    let curve = |panel: &Panel<'_>, of: &dyn Fn(f64, f64) -> f64| -> Vec<(i32, i32)> {
        let Some(fit) = fit else { return Vec::new() };
        let at = |k: u32| shortest * (longest / shortest).powf(f64::from(k) / f64::from(STEPS));
        (0..=STEPS).map(at).map(|tokens| panel.point(tokens, of(tokens, fit.ttft(tokens)))).collect()
    };
    let stroke = draw::FIGURE.mix(0.75).stroke_width(pen.width(1.6));
    root.draw(&PathElement::new(curve(&time, &|_, ttft| ttft), stroke))?;
    for point in &points {
        let at = time.point(point.tokens, point.p95);
        root.draw(&Circle::new(at, pen.px(3.2), draw::SOFT.stroke_width(pen.width(1.2))))?;
        if let Some((low, high)) = point.interval {
            let ends = (time.point(point.tokens, low), time.point(point.tokens, high));
            draw::line(root, ends.0, ends.1, draw::FIGURE.mix(0.5).stroke_width(pen.width(1.4)))?;
        }
        let at = time.point(point.tokens, point.ttft);
        root.draw(&Circle::new(at, pen.px(3.8), draw::FIGURE.filled()))?;
    }
    let fastest = points.iter().map(|point| point.tokens / point.ttft).fold(0.0, f64::max);
    let speed = Panel {
        x: Scale { values: (shortest / 1.06, (longest * 1.06).max(shortest * 1.2)), dots: across, log: true },
        y: Scale { values: (0.0, fastest * 1.12), dots: up(1), log: false },
        units: (1.0, 1.0),
        names: ("prompt tokens (log scale)", "prompt tokens / TTFT (1/s)"),
    };
    speed.axes(root, pen)?;
    root.draw(&PathElement::new(curve(&speed, &|tokens, ttft| tokens / ttft), stroke))?;
    for point in &points {
        let at = speed.point(point.tokens, point.tokens / point.ttft);
        root.draw(&Circle::new(at, pen.px(3.8), draw::FIGURE.filled()))?;
    }
    Ok(())
}
