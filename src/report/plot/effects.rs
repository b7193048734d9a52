//! What each knob does to what is maximised, value by value.

use plotters::backend::SVGBackend;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::draw::{AXIS, Area, Drawn, FIGURE, GRID, INK, Pen, SOFT, line, register_fonts};
use super::{PlotError, SCALE, WIDTH, axis};
use crate::search::importance::Effect;

/// Heights in points: the title, a knob, and the names of its values below it.
const HEADER: u32 = 64;
const ROW: u32 = 132;
const NAMES: u32 = 26;
/// Where the curves begin; the words stand left of them.
const LEFT: u32 = 360;
const RIGHT: u32 = 30;
/// Letters of a line of words.
const LETTERS: usize = 48;
/// Least span of the scale: what is smaller than some percent shall look small.
const LEAST: f64 = 0.1;

/// The picture as SVG, the largest effect at the top; none without effects.
///
/// # Errors
/// When the drawing library fails.
pub fn effects_svg(title: &str, effects: &[Effect]) -> Result<Option<String>, PlotError> {
    if effects.is_empty() {
        return Ok(None);
    }
    register_fonts()?;
    let height = HEADER + effects.len() as u32 * ROW + 10;
    let size = (WIDTH * SCALE, height * SCALE);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        picture(&root, title, effects, Pen::new(SCALE)).map_err(|error| PlotError(error.to_string()))?;
    }
    let dots = format!("width=\"{}\" height=\"{}\"", size.0, size.1);
    Ok(Some(text.replacen(&dots, &format!("width=\"{WIDTH}\" height=\"{height}\""), 1)))
}

fn picture<B: DrawingBackend>(root: &Area<B>, title: &str, effects: &[Effect], pen: Pen) -> Drawn<B> {
    root.fill(&WHITE)?;
    let at_top = (HPos::Left, VPos::Top);
    root.draw_text(title, &pen.bold(19.0, INK, at_top), (pen.px(20), pen.px(12)))?;
    let subtitle = "each value against the mean over all settings, the other knobs averaged by the model";
    root.draw_text(subtitle, &pen.text(12.5, SOFT, at_top), (pen.px(20), pen.px(38)))?;
    // One scale for all, so that a knob that does little looks flat.
    let values = || effects.iter().flat_map(|effect| effect.curve.iter().map(|(_, gain)| *gain));
    let (low, high) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
    let lacking = (LEAST - (high - low)).max(0.0) / 2.0;
    for (index, effect) in effects.iter().enumerate() {
        row(root, effect, (low - lacking, high + lacking), HEADER + index as u32 * ROW, pen)?;
    }
    root.present()
}

fn row<B: DrawingBackend>(
    root: &Area<B>,
    effect: &Effect,
    (low, high): (f64, f64),
    top: u32,
    pen: Pen,
) -> Drawn<B> {
    let (left, right) = (pen.px(LEFT), pen.px(WIDTH - RIGHT));
    let (up, down) = (pen.px(top + 12), pen.px(top + ROW - NAMES));
    let y = |gain: f64| down - ((gain - low) / (high - low) * f64::from(down - up)).round() as i32;
    let at_top = (HPos::Left, VPos::Top);
    root.draw_text(&effect.knob, &pen.bold(14.0, INK, at_top), (pen.px(20), up))?;
    for (number, words) in wrapped(&effect.words()).iter().enumerate() {
        let at = (pen.px(20), up + pen.px(22 + 16 * number as u32));
        root.draw_text(words, &pen.text(12.0, SOFT, at_top), at)?;
    }
    for tick in axis::linear_ticks(low, high, 4) {
        let colour = if tick == 0.0 { AXIS } else { GRID };
        line(root, (left, y(tick)), (right, y(tick)), colour.stroke_width(pen.width(1.0)))?;
        let style = pen.text(11.0, SOFT, (HPos::Right, VPos::Center));
        root.draw_text(&format!("{:+.0} %", 100.0 * tick), &style, (left - pen.px(8), y(tick)))?;
    }
    let count = effect.curve.len().max(1) as f64;
    let x = |index: usize| left + ((index as f64 + 0.5) / count * f64::from(right - left)).round() as i32;
    let places: Vec<(i32, i32)> =
        effect.curve.iter().enumerate().map(|(index, (_, gain))| (x(index), y(*gain))).collect();
    root.draw(&PathElement::new(places.clone(), FIGURE.stroke_width(pen.width(1.8))))?;
    for ((value, _), place) in effect.curve.iter().zip(places) {
        root.draw(&Circle::new(place, pen.px(3.5), FIGURE.filled()))?;
        let style = pen.text(11.0, INK, (HPos::Center, VPos::Top));
        root.draw_text(&value.to_string(), &style, (place.0, down + pen.px(6)))?;
    }
    Ok(())
}

/// Lines of at most [`LETTERS`], broken at spaces.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= LETTERS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::space::KnobValue;

    #[test]
    fn every_knob_has_its_name_and_its_values_in_the_picture() {
        let effect = |knob: &str, gains: &[f64]| Effect {
            knob: knob.to_owned(),
            curve: gains
                .iter()
                .enumerate()
                .map(|(n, gain)| (KnobValue::Int(100 + n as i64), *gain))
                .collect(),
            span: 0.3,
            doubt: 0.01,
            length: 0.5,
        };
        let effects = [effect("max_num_seqs", &[-0.2, 0.1, 0.05]), effect("swap", &[0.0, 0.001])];
        let svg = effects_svg("what the knobs do", &effects).unwrap().unwrap();
        for text in ["max_num_seqs", "swap", "100", "102", "+10 %", "what the knobs do"] {
            assert!(svg.contains(text), "{text}");
        }
        assert_eq!(svg.matches("<circle").count(), 5);
        assert_eq!(effects_svg("nothing", &[]).unwrap(), None);
        assert_eq!(wrapped(&"word ".repeat(20)).len(), 3);
    }
}
