//! Drawing a chart on any backend of plotters.

use std::sync::OnceLock;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::data::{Chart, Hue, Mark, Panel, Point, Series};
use super::{PlotError, axis, header};

/// Names a viewer of the SVG looks for, in order; the metrics of the first two are all but the same.
const FONT: &str = "DejaVu Sans, Verdana, sans-serif";

// Sizes in points.
const HEADER: u32 = 92;
const PANEL: u32 = 204;
const FOOTER: u32 = 52;
const LEFT: u32 = 74;
const RIGHT: u32 = 22;
const GAP: u32 = 14;

pub(super) const INK: RGBColor = RGBColor(34, 38, 43);
pub(super) const SOFT: RGBColor = RGBColor(106, 113, 121);
pub(super) const GRID: RGBColor = RGBColor(228, 231, 234);
pub(super) const AXIS: RGBColor = RGBColor(150, 156, 163);
pub(super) const FIGURE: RGBColor = RGBColor(0, 102, 170);
pub(super) const GOOD: RGBColor = RGBColor(0, 138, 96);
pub(super) const THROUGHPUT: RGBColor = RGBColor(130, 138, 146);
pub(super) const LIMIT: RGBColor = RGBColor(200, 66, 20);
pub(super) const BAND: RGBColor = RGBColor(0, 102, 170);

/// Opacity of trials that only steered.
pub(super) const FAINT: f64 = 0.32;

pub(super) type Area<B> = DrawingArea<B, Shift>;
pub(super) type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// Height of a picture of so many panels, points.
pub(super) fn height(panels: u32) -> u32 {
    HEADER + panels * PANEL + FOOTER
}

/// Draws the chart with `scale` dots to a point.
pub(super) fn draw<B: DrawingBackend>(backend: B, chart: &Chart, scale: u32) -> Result<(), PlotError> {
    register_fonts()?;
    let root = backend.into_drawing_area();
    let pen = Pen::new(scale);
    picture(&root, chart, pen).map_err(|error| PlotError(error.to_string()))
}

pub(super) fn register_fonts() -> Result<(), PlotError> {
    static DONE: OnceLock<bool> = OnceLock::new();
    let regular = include_bytes!("../../../assets/DejaVuSans-subset.ttf");
    let bold = include_bytes!("../../../assets/DejaVuSans-Bold-subset.ttf");
    let done = DONE.get_or_init(|| {
        plotters::style::register_font(FONT, FontStyle::Normal, regular).is_ok()
            && plotters::style::register_font(FONT, FontStyle::Bold, bold).is_ok()
    });
    if *done { Ok(()) } else { Err(PlotError("the built-in font cannot be read".to_owned())) }
}

/// Sizes in points -> dots.
#[derive(Clone, Copy)]
pub(super) struct Pen {
    pub(super) scale: f64,
}

impl Pen {
    pub(super) fn new(scale: u32) -> Self {
        Self { scale: f64::from(scale) }
    }

    pub(super) fn px(self, points: impl Into<f64>) -> i32 {
        (points.into() * self.scale).round() as i32
    }

    pub(super) fn width(self, points: f64) -> u32 {
        self.px(points).max(1) as u32
    }

    pub(super) fn text(self, points: f64, colour: RGBColor, anchor: (HPos, VPos)) -> TextStyle<'static> {
        (FONT, points * self.scale).into_font().color(&colour).pos(Pos::new(anchor.0, anchor.1))
    }

    pub(super) fn bold(self, points: f64, colour: RGBColor, anchor: (HPos, VPos)) -> TextStyle<'static> {
        (FONT, points * self.scale, FontStyle::Bold)
            .into_font()
            .color(&colour)
            .pos(Pos::new(anchor.0, anchor.1))
    }
}

fn picture<B: DrawingBackend>(root: &Area<B>, chart: &Chart, pen: Pen) -> Drawn<B> {
    root.fill(&WHITE)?;
    header::draw(root, chart, pen)?;
    let frame = |index: usize, panel: &Panel| Frame {
        left: pen.px(LEFT),
        right: root.dim_in_pixel().0 as i32 - pen.px(RIGHT),
        top: pen.px(HEADER + index as u32 * PANEL + GAP),
        bottom: pen.px(HEADER + (index as u32 + 1) * PANEL),
        loads: chart.loads,
        value_at_top: panel.top,
    };
    for (index, panel) in chart.panels.iter().enumerate() {
        draw_panel(root, chart, panel, frame(index, panel), pen)?;
    }
    if let (Some(first), Some(answer)) = (chart.panels.first(), chart.answer) {
        let frame = frame(0, first);
        let style = pen.bold(13.0, INK, (HPos::Center, VPos::Bottom));
        root.draw_text(&chart.answer_label, &style, (frame.x(answer), frame.top - pen.px(2)))?;
    }
    if let Some(last) = chart.panels.last() {
        load_axis(root, chart.axis, frame(chart.panels.len() - 1, last), pen)?;
    }
    root.present()
}

/// Where a panel lies, and how loads and values map to dots.
#[derive(Clone, Copy)]
struct Frame {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    loads: (f64, f64),
    value_at_top: f64,
}

impl Frame {
    fn x(self, load: f64) -> i32 {
        let share = (load / self.loads.0).ln() / (self.loads.1 / self.loads.0).ln();
        self.left + (share * f64::from(self.right - self.left)).round() as i32
    }

    /// A value beyond the scale lies on its edge.
    fn y(self, value: f64) -> i32 {
        let share = (value / self.value_at_top).clamp(0.0, 1.0);
        self.bottom - (share * f64::from(self.bottom - self.top)).round() as i32
    }

    fn load_ticks(self, pen: Pen) -> Vec<f64> {
        axis::log_ticks(self.loads.0, self.loads.1, f64::from(pen.px(40)) / f64::from(self.right - self.left))
    }

    fn at(self, (load, value): (f64, f64)) -> (i32, i32) {
        (self.x(load), self.y(value))
    }
}

/// Draws a straight line.
pub(super) fn line<B: DrawingBackend>(
    root: &Area<B>,
    from: (i32, i32),
    to: (i32, i32),
    style: impl Into<ShapeStyle>,
) -> Drawn<B> {
    root.draw(&PathElement::new([from, to], style))
}

fn draw_panel<B: DrawingBackend>(
    root: &Area<B>,
    chart: &Chart,
    panel: &Panel,
    frame: Frame,
    pen: Pen,
) -> Drawn<B> {
    if let Some((from, to)) = chart.interval {
        let corners = [(frame.x(from), frame.top), (frame.x(to), frame.bottom)];
        root.draw(&Rectangle::new(corners, BAND.mix(0.11).filled()))?;
    }
    axes(root, panel, frame, pen)?;
    if let Some(limit) = &panel.limit {
        let y = frame.y(limit.value);
        let mut x = frame.left;
        while x < frame.right {
            let end = (x + pen.px(6)).min(frame.right);
            line(root, (x, y), (end, y), LIMIT.stroke_width(pen.width(1.6)))?;
            x = end + pen.px(4);
        }
        let (anchor, y) =
            if limit.is_floor { (VPos::Top, y + pen.px(5)) } else { (VPos::Bottom, y - pen.px(2)) };
        let style = pen.text(12.0, LIMIT, (HPos::Left, anchor));
        root.draw_text(&limit.label, &style, (frame.left + pen.px(8), y))?;
    }
    if let Some(answer) = chart.answer {
        let x = frame.x(answer);
        line(root, (x, frame.top), (x, frame.bottom), INK.stroke_width(pen.width(1.2)))?;
    }
    for series in &panel.series {
        for part in clipped(&series.curve, panel.top) {
            let part: Vec<(i32, i32)> = part.into_iter().map(|point| frame.at(point)).collect();
            root.draw(&PathElement::new(part, colour(series.hue).mix(0.75).stroke_width(pen.width(1.6))))?;
        }
    }
    // Faint and hollow marks first, so that they hide nothing.
    for wanted in [Mark::Void, Mark::Navigation, Mark::Measured] {
        for Series { hue, points, .. } in &panel.series {
            for point in points.iter().filter(|point| point.mark == wanted) {
                draw_point(root, point, frame, colour(*hue), pen)?;
            }
        }
    }
    Ok(())
}

/// Labels of the common axis, below the last panel.
fn load_axis<B: DrawingBackend>(root: &Area<B>, name: &str, frame: Frame, pen: Pen) -> Drawn<B> {
    let style = pen.text(12.0, INK, (HPos::Center, VPos::Top));
    for load in frame.load_ticks(pen) {
        root.draw_text(&axis::label(load), &style, (frame.x(load), frame.bottom + pen.px(7)))?;
    }
    let style = pen.text(12.5, INK, (HPos::Center, VPos::Center));
    let middle = ((frame.left + frame.right) / 2, frame.bottom + pen.px(36));
    root.draw_text(name, &style, middle)
}

/// Grid, axes, ticks and the panel's name.
fn axes<B: DrawingBackend>(root: &Area<B>, panel: &Panel, frame: Frame, pen: Pen) -> Drawn<B> {
    let Frame { left, right, top, bottom, .. } = frame;
    let grid = GRID.stroke_width(pen.width(0.8));
    let axis = AXIS.stroke_width(pen.width(1.0));
    let tick = pen.px(4);
    for value in axis::linear_ticks(0.0, panel.top * panel.unit, 5) {
        let y = frame.y(value / panel.unit);
        line(root, (left, y), (right, y), grid)?;
        line(root, (left - tick, y), (left, y), axis)?;
        let style = pen.text(12.0, INK, (HPos::Right, VPos::Center));
        root.draw_text(&axis::label(value), &style, (left - pen.px(8), y))?;
    }
    for load in frame.load_ticks(pen) {
        let x = frame.x(load);
        line(root, (x, top), (x, bottom), grid)?;
        line(root, (x, bottom), (x, bottom + tick), axis)?;
    }
    line(root, (left, top), (left, bottom), axis)?;
    line(root, (left, bottom), (right, bottom), axis)?;
    let style = pen.text(12.5, INK, (HPos::Center, VPos::Center)).transform(FontTransform::Rotate270);
    root.draw_text(&panel.name, &style, (pen.px(18), (top + bottom) / 2))
}

fn draw_point<B: DrawingBackend>(
    root: &Area<B>,
    point: &Point,
    frame: Frame,
    colour: RGBColor,
    pen: Pen,
) -> Drawn<B> {
    let (x, y) = frame.at((point.load, point.value));
    let alpha = if point.mark == Mark::Navigation { FAINT } else { 1.0 };
    let is_void = point.mark == Mark::Void;
    if point.value > frame.value_at_top {
        let style = if is_void { SOFT.mix(0.6).filled() } else { colour.mix(alpha).filled() };
        return root.draw(&TriangleMarker::new((x, y + pen.px(6)), pen.px(5), style));
    }
    if let Some((from, to)) = point.interval {
        line(root, (x, frame.y(from)), (x, frame.y(to)), colour.mix(0.5).stroke_width(pen.width(1.4)))?;
    }
    if is_void {
        // Wider than a dot: it stays visible where the trial was repeated with the same figure.
        return root.draw(&Circle::new((x, y), pen.px(6), SOFT.stroke_width(pen.width(1.4))));
    }
    root.draw(&Circle::new((x, y), pen.px(if alpha < 1.0 { 3.4 } else { 3.8 }), colour.mix(alpha).filled()))
}

fn colour(hue: Hue) -> RGBColor {
    match hue {
        Hue::Throughput => THROUGHPUT,
        Hue::Goodput => GOOD,
        Hue::Figure => FIGURE,
    }
}

/// The parts of a curve that lie below `top`.
fn clipped(curve: &[(f64, f64)], top: f64) -> Vec<Vec<(f64, f64)>> {
    let mut parts: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut part: Vec<(f64, f64)> = Vec::new();
    // Straight on the logarithmic axis, as it is drawn.
    let crossing = |a: (f64, f64), b: (f64, f64)| {
        let share = (top - a.1) / (b.1 - a.1);
        ((a.0.ln() + share * (b.0.ln() - a.0.ln())).exp(), top)
    };
    let mut before: Option<(f64, f64)> = None;
    for &point in curve {
        match before {
            Some(last) if last.1 > top && point.1 <= top => part.push(crossing(last, point)),
            Some(last) if last.1 <= top && point.1 > top => {
                part.push(crossing(last, point));
                parts.push(std::mem::take(&mut part));
            }
            _ => {}
        }
        if point.1 <= top {
            part.push(point);
        }
        before = Some(point);
    }
    parts.push(part);
    parts.retain(|part| part.len() > 1);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_cut_where_it_leaves_the_scale_and_taken_up_where_it_returns() {
        let curve = [(1.0, 0.5), (4.0, 1.5), (16.0, 2.5), (64.0, 0.5)];
        let parts = clipped(&curve, 1.0);
        assert_eq!(parts.len(), 2);
        assert!((parts[0][1].0 - 2.0).abs() < 1e-12, "{parts:?}");
        assert_eq!(parts[1].len(), 2);
        assert_eq!(parts[1][1], (64.0, 0.5));
        assert_eq!(clipped(&[(1.0, 2.0)], 1.0), Vec::<Vec<(f64, f64)>>::new());
    }
}
