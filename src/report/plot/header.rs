//! What stands above the panels: the answer, what was measured, and the legend.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::data::{Chart, Mark};
use super::draw::{Area, BAND, Drawn, FAINT, FIGURE, GOOD, INK, LIMIT, Pen, SOFT, THROUGHPUT, line};

/// Title, subtitle and legend.
pub(super) fn draw<B: DrawingBackend>(root: &Area<B>, chart: &Chart, pen: Pen) -> Drawn<B> {
    let left = pen.px(20);
    let room = root.dim_in_pixel().0 as i32 - 2 * left;
    let top = (HPos::Left, VPos::Top);
    let title = fit(root, &chart.title, &pen.bold(21.0, INK, top), room);
    root.draw_text(&title, &pen.bold(21.0, INK, top), (left, pen.px(14)))?;
    let subtitle = fit(root, &chart.subtitle, &pen.text(12.5, SOFT, top), room);
    root.draw_text(&subtitle, &pen.text(12.5, SOFT, top), (left, pen.px(43)))?;

    let mut x = left;
    let y = pen.px(74);
    let text = pen.text(12.0, INK, (HPos::Left, VPos::Center));
    for (sign, label) in legend(chart) {
        draw_sign(root, sign, (x, y), pen)?;
        x += pen.px(20);
        root.draw_text(label, &text, (x, y))?;
        x += root.estimate_text_size(label, &text)?.0 as i32 + pen.px(20);
    }
    Ok(())
}

/// The text, cut with an ellipsis where it is wider than `room`.
fn fit<B: DrawingBackend>(root: &Area<B>, text: &str, style: &TextStyle, room: i32) -> String {
    let wide = |text: &str| root.estimate_text_size(text, style).is_ok_and(|size| size.0 as i32 > room);
    if !wide(text) {
        return text.to_owned();
    }
    let mut cut: Vec<char> = text.chars().collect();
    while cut.pop().is_some() {
        let shorter = cut.iter().collect::<String>().trim_end().to_owned() + "…";
        if !wide(&shorter) {
            return shorter;
        }
    }
    String::new()
}

#[derive(Clone, Copy)]
enum Sign {
    Dot(RGBColor, f64),
    Hollow,
    Beyond,
    Limit,
    Band,
    Answer,
}

fn legend(chart: &Chart) -> Vec<(Sign, &'static str)> {
    let mut signs = vec![(Sign::Dot(THROUGHPUT, 1.0), "throughput"), (Sign::Dot(GOOD, 1.0), "goodput")];
    if chart.panels.len() > 1 {
        signs.push((Sign::Dot(FIGURE, 1.0), "latency, measured"));
        if chart.has(Mark::Navigation) {
            signs.push((Sign::Dot(FIGURE, FAINT), "navigation"));
        }
        signs.push((Sign::Limit, "SLO"));
    }
    if chart.has(Mark::Void) {
        signs.push((Sign::Hollow, "void"));
    }
    if chart.has_beyond() {
        signs.push((Sign::Beyond, "beyond the scale"));
    }
    if chart.answer.is_some() {
        signs.push((Sign::Answer, "answer"));
    }
    if chart.interval.is_some() {
        signs.push((Sign::Band, "its interval"));
    }
    signs
}

fn draw_sign<B: DrawingBackend>(root: &Area<B>, sign: Sign, (x, y): (i32, i32), pen: Pen) -> Drawn<B> {
    let middle = (x + pen.px(7), y);
    match sign {
        Sign::Dot(colour, alpha) => root.draw(&Circle::new(middle, pen.px(4), colour.mix(alpha).filled())),
        Sign::Hollow => root.draw(&Circle::new(middle, pen.px(6), SOFT.stroke_width(pen.width(1.4)))),
        Sign::Beyond => root.draw(&TriangleMarker::new(middle, pen.px(5), FIGURE.filled())),
        Sign::Limit => {
            let style = LIMIT.stroke_width(pen.width(1.6));
            line(root, (x, y), (x + pen.px(6), y), style)?;
            line(root, (x + pen.px(10), y), (x + pen.px(16), y), style)
        }
        Sign::Band => {
            let half = pen.px(6);
            root.draw(&Rectangle::new([(x, y - half), (x + pen.px(14), y + half)], BAND.mix(0.16).filled()))
        }
        Sign::Answer => {
            let half = pen.px(7);
            line(root, (middle.0, y - half), (middle.0, y + half), INK.stroke_width(pen.width(1.2)))
        }
    }
}
