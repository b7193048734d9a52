//! Throughput a user against throughput in all, a line for each shape.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::{Area, Drawn, HEADER, LEFT, Panel, Pen, RIGHT, Scale, draw};
use crate::profile::{Figures, FrontPoint};

// Sizes in points.
const PANEL: u32 = 460;
const BELOW: u32 = 56;
const KEY: u32 = 26;
/// Width of an entry of the key, and of its heading.
const ENTRY: u32 = 112;
const HEADING: u32 = 76;
/// Colours that people with any colour vision tell apart (Okabe and Ito, 2008), without the palest.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(70, 70, 70),
];

/// Entries of the key in a row.
const IN_A_ROW: u32 = (super::WIDTH - LEFT - RIGHT - HEADING) / ENTRY;

fn keys(figures: &Figures) -> u32 {
    (figures.fronts.len() as u32).div_ceil(IN_A_ROW)
}

pub(super) fn height(figures: &Figures) -> Option<u32> {
    (!figures.fronts.is_empty()).then(|| PANEL + keys(figures) * KEY)
}

pub(super) fn draw<B: DrawingBackend>(
    root: &Area<B>,
    figures: &Figures,
    per_gpu: bool,
    pen: Pen,
) -> Drawn<B> {
    let value = |point: &FrontPoint| point.per_gpu.filter(|_| per_gpu).unwrap_or(point.total);
    let all = || figures.fronts.iter().flat_map(|front| &front.points);
    let widest = all().map(|point| point.per_user).fold(0.0, f64::max);
    let highest = all().map(value).fold(0.0, f64::max);
    let top = HEADER + keys(figures) * KEY;
    let panel = Panel {
        x: Scale {
            values: (0.0, widest * 1.06),
            dots: (pen.px(LEFT), root.dim_in_pixel().0 as i32 - pen.px(RIGHT)),
            log: false,
        },
        y: Scale {
            values: (0.0, highest * 1.08),
            dots: (pen.px(top + PANEL - BELOW), pen.px(top + 10)),
            log: false,
        },
        units: (1.0, 1.0),
        names: (
            "output tokens a second for the median user",
            if per_gpu { "output tokens a second a GPU" } else { "output tokens a second in all" },
        ),
    };
    panel.axes(root, pen)?;
    let style = pen.text(12.0, draw::SOFT, (HPos::Left, VPos::Center));
    root.draw_text("ISL x OSL", &style, (pen.px(LEFT), pen.px(HEADER + 12)))?;
    for (index, front) in figures.fronts.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let at = |point: &FrontPoint| panel.point(point.per_user, value(point));
        let line: Vec<(i32, i32)> = front.points.iter().filter(|point| point.best).map(at).collect();
        root.draw(&PathElement::new(line, colour.mix(0.75).stroke_width(pen.width(1.6))))?;
        for point in &front.points {
            let at = at(point);
            if point.best {
                root.draw(&Circle::new(at, pen.px(3.8), colour.filled()))?;
                let style = pen.text(10.5, colour, (HPos::Left, VPos::Bottom));
                let label = point.concurrency.to_string();
                root.draw_text(&label, &style, (at.0 + pen.px(4), at.1 - pen.px(3)))?;
            } else {
                root.draw(&Circle::new(at, pen.px(3.4), colour.stroke_width(pen.width(1.2))))?;
            }
        }
        let (row, column) = (index as u32 / IN_A_ROW, index as u32 % IN_A_ROW);
        let corner = (pen.px(LEFT + HEADING + column * ENTRY), pen.px(HEADER + row * KEY + 12));
        root.draw(&Circle::new((corner.0 + pen.px(5), corner.1), pen.px(4.2), colour.filled()))?;
        let style = pen.text(12.0, draw::INK, (HPos::Left, VPos::Center));
        root.draw_text(&front.shape.to_string(), &style, (corner.0 + pen.px(14), corner.1))?;
    }
    Ok(())
}
