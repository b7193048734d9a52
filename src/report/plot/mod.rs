//! The picture of a search: throughput, goodput and each objective against load, with the limits,
//! the answer and its interval.
//!
//! Drawn with a font of its own, so that it looks the same on a machine without fonts.

mod axis;
mod data;
mod draw;
mod effects;
pub mod frontier;
mod header;
pub mod profile;
mod servers;

use plotters::backend::{BitMapBackend, SVGBackend};
use thiserror::Error;

pub use effects::effects_svg;
pub use servers::{ServersChart, ServersPoint, servers_svg};

use crate::plan::Plan;
use crate::report::document::Document;

/// A picture that could not be drawn.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the plot could not be drawn: {0}")]
pub struct PlotError(String);

/// Width of the picture in points.
const WIDTH: u32 = 960;
/// Dots to a point: positions are whole dots, so that one to a point would draw ragged curves.
const SCALE: u32 = 2;

/// The picture as SVG; `None` where no trial has been run that could be drawn.
///
/// # Errors
/// When the drawing library fails.
pub fn svg(document: &Document, plan: &Plan) -> Result<Option<String>, PlotError> {
    let Some(chart) = data::Chart::new(document, plan) else { return Ok(None) };
    let size = size(&chart);
    let mut text = String::new();
    draw::draw(SVGBackend::with_string(&mut text, size), &chart, SCALE)?;
    Ok(Some(in_points(&text, size)))
}

/// An SVG laid out in points: its dots are finer than those of the page.
fn in_points(text: &str, size: (u32, u32)) -> String {
    let dots = format!("width=\"{}\" height=\"{}\"", size.0, size.1);
    let points = format!("width=\"{}\" height=\"{}\"", size.0 / SCALE, size.1 / SCALE);
    text.replacen(&dots, &points, 1)
}

/// The picture as PNG; `None` where no trial has been run that could be drawn.
///
/// # Errors
/// When the drawing library fails.
pub fn png(document: &Document, plan: &Plan) -> Result<Option<Vec<u8>>, PlotError> {
    let Some(chart) = data::Chart::new(document, plan) else { return Ok(None) };
    let (width, height) = size(&chart);
    let mut pixels = vec![0; (width * height * 3) as usize];
    draw::draw(BitMapBackend::with_buffer(&mut pixels, (width, height)), &chart, SCALE)?;
    Ok(Some(to_png(&pixels, width, height)?))
}

fn to_png(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>, PlotError> {
    let failed = |error: png::EncodingError| PlotError(error.to_string());
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Default);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(bytes)
}

fn size(chart: &data::Chart) -> (u32, u32) {
    (WIDTH * SCALE, draw::height(chart.panels.len() as u32) * SCALE)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::report::{AnswerDocument, sample_document};
    use crate::run::sample;
    use crate::search::SearchOutcome;
    use crate::units::Load;

    /// A label of the picture: its box (left, top, right, bottom), and the text.
    struct Label {
        edges: [f64; 4],
        text: String,
    }

    fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
        tag.split_once(&format!(" {name}=\""))?.1.split_once('"').map(|(value, _)| value)
    }

    /// The upright labels of an SVG; a character is taken as 0.64 em wide, which DejaVu seldom is.
    fn labels(svg: &str) -> Vec<Label> {
        let mut labels = Vec::new();
        for part in svg.split("<text").skip(1) {
            let (tag, rest) = part.split_once('>').unwrap();
            if attribute(tag, "transform").is_some() {
                continue;
            }
            let number = |name: &str| attribute(tag, name).unwrap().parse::<f64>().unwrap();
            let text = rest.split_once('<').unwrap().0.trim().replace("&lt;", "<");
            let (size, x, y) = (number("font-size"), number("x"), number("y"));
            let width = size * 0.64 * text.chars().count() as f64;
            let left = match attribute(tag, "text-anchor").unwrap() {
                "start" => x,
                "middle" => x - width / 2.0,
                _ => x - width,
            };
            let top = match attribute(tag, "dy").unwrap() {
                "0.76em" => y,
                "0.5ex" => y - size / 2.0,
                _ => y - size,
            };
            labels.push(Label { edges: [left, top, left + width, top + size], text });
        }
        labels
    }

    /// Documents that are hard to draw: usual, wide, one load, nothing but void, no answer.
    fn documents() -> Vec<Document> {
        let usual = sample_document();
        let mut wide = usual.clone();
        for (trial, load) in wide.trials.iter_mut().zip([1, 1, 10, 100, 1000, 10_000].into_iter().cycle()) {
            trial.load = Load::Concurrency(load);
        }
        let mut single = usual.clone();
        single.trials.retain(|trial| trial.load == Load::Concurrency(40));
        let mut void = usual.clone();
        void.trials.retain(|trial| trial.void_cause.is_some());
        let mut early = usual.clone();
        early.outcome = SearchOutcome::Interrupted;
        early.answer = AnswerDocument::default();
        early.trials.truncate(4);
        vec![usual, wide, single, void, early]
    }

    #[test]
    fn no_label_covers_another_or_leaves_the_picture() {
        for document in documents() {
            let text = svg(&document, &sample::plan()).unwrap().unwrap();
            let labels = labels(&text);
            assert!(labels.len() > 12, "{text}");
            let [mut right, mut bottom] = [0.0, 0.0];
            if let Some(view) = attribute(&text, "viewBox") {
                let sizes: Vec<f64> = view.split(' ').map(|size| size.parse().unwrap()).collect();
                [right, bottom] = [sizes[2], sizes[3]];
            }
            for (index, Label { edges: a, text }) in labels.iter().enumerate() {
                assert!(
                    a[0] >= 0.0 && a[1] >= 0.0 && a[2] <= right && a[3] <= bottom,
                    "`{text}` leaves the picture"
                );
                for Label { edges: b, text: other } in &labels[index + 1..] {
                    let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
                    assert!(apart, "`{text}` and `{other}` overlap");
                }
            }
        }
    }

    #[test]
    fn the_picture_says_the_answer_the_limits_and_the_units() {
        let text = svg(&sample_document(), &sample::plan()).unwrap().unwrap();
        let words: Vec<String> = labels(&text).into_iter().map(|label| label.text).collect();
        for word in [
            "max concurrency 42 under the SLO (95 % CI 40-44, safe: 40)",
            "SLO < 500 ms",
            "SLO < 50 ms",
            "void",
            "beyond the scale",
            "42",
        ] {
            assert!(words.iter().any(|found| found == word), "`{word}` is not in {words:?}");
        }
        assert!(text.contains("ttft p95 (ms)") && text.contains("itl p95 (ms)"), "axes have units");
        assert!(text.starts_with("<svg width=\"960\""), "laid out in points");
    }

    #[test]
    fn the_png_is_a_picture_of_the_stated_size_and_the_same_each_time() {
        let bytes = png(&sample_document(), &sample::plan()).unwrap().unwrap();
        let mut reader = png::Decoder::new(bytes.as_slice()).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (1920, 2 * draw::height(3)));
        let inked = pixels.chunks(3).filter(|pixel| pixel != &[255, 255, 255]).count();
        let share = inked as f64 / (pixels.len() / 3) as f64;
        assert!((0.02..0.3).contains(&share), "{share}");
        assert_eq!(bytes, png(&sample_document(), &sample::plan()).unwrap().unwrap());
    }

    #[test]
    fn every_kind_of_run_can_be_drawn_and_one_without_trials_has_no_picture() {
        for document in documents() {
            assert!(png(&document, &sample::plan()).unwrap().is_some());
        }
        let mut empty = sample_document();
        empty.trials.clear();
        assert_eq!(svg(&empty, &sample::plan()), Ok(None));
        assert_eq!(png(&empty, &sample::plan()), Ok(None));
    }
}
