//! Two runs beside each other, in words.

use super::analysis::{place_words, table};
use super::terminal::Style;
use super::terminal::style::Ink;
use crate::analysis::compare::{Comparison, Ratio};
use crate::search::Place;
use crate::units::{Seconds, significant};

/// The comparison as one screen; `names` are those of the two runs.
pub fn screen(comparison: &Comparison, names: (&str, &str), style: Style) -> String {
    let mut out = style.paint(Ink::Strong, &headline(comparison));
    out.push_str("\n\n");
    let mut rows = Vec::new();
    if let Some(capacity) = &comparison.capacity {
        rows.push(row("max concurrency", capacity, &|value| format!("{value:.0}")));
    }
    if let Some(goodput) = &comparison.goodput {
        rows.push(row("goodput there", goodput, &|value| format!("{}/s", significant(value))));
    }
    out.push_str(&format!(
        "  A  {}\n  B  {}\n  judged by {}\n\n",
        names.0,
        names.1,
        comparison.slo.join(", ")
    ));
    if !rows.is_empty() {
        out.push_str(&table(&["", "A", "B", "B against A", "95 % CI"], &rows));
        out.push('\n');
    }
    let mut loads: Vec<u32> = comparison.figures.iter().map(|figure| figure.load).collect();
    loads.dedup();
    for load in loads {
        let rows: Vec<Vec<String>> = comparison
            .figures
            .iter()
            .filter(|figure| figure.load == load)
            .map(|figure| {
                let is_rate = matches!(figure.figure.as_str(), "goodput" | "throughput");
                row(&figure.figure, &figure.ratio, &|value| match is_rate {
                    true => format!("{}/s", significant(value)),
                    false => Seconds(value).to_string(),
                })
            })
            .collect();
        out.push_str(&table(&[&format!("at {load} concurrent"), "A", "B", "B against A", "95 % CI"], &rows));
        out.push('\n');
    }
    if comparison.figures.is_empty() {
        out.push_str("  no load was measured by both; search with overlapping `--concurrency` ranges\n\n");
    }
    for (name, place) in [("A", comparison.places.0), ("B", comparison.places.1)] {
        if place != Place::Within {
            out.push_str(&format!("  note     {name}: {}\n", place_words(place)));
        }
    }
    for text in &comparison.compared {
        out.push_str(&format!("  note     {text}\n"));
    }
    for text in &comparison.differences {
        out.push_str(&style.paint(Ink::Warn, "  warning"));
        out.push_str(&format!("  not like for like: {text}\n"));
    }
    out
}

/// `B carries 12 % more (95 % CI 5-19 %)`.
pub fn headline(comparison: &Comparison) -> String {
    let Some(capacity) = &comparison.capacity else {
        return "no capacity to compare: a run has no load that meets the SLO".to_owned();
    };
    match capacity.interval {
        None => format!(
            "B carries {:.0} where A carries {:.0}; not measured well enough for an interval",
            capacity.b, capacity.a
        ),
        Some(interval) => {
            let high = interval.high.unwrap_or(f64::INFINITY);
            if interval.low <= 1.0 && high >= 1.0 {
                return format!(
                    "no difference is shown: B carries {} (95 % CI {} to {})",
                    change(capacity.ratio),
                    signed(interval.low),
                    signed(high)
                );
            }
            let (near, far) = match capacity.ratio >= 1.0 {
                true => (interval.low - 1.0, high - 1.0),
                false => (1.0 - high, 1.0 - interval.low),
            };
            format!(
                "B carries {} (95 % CI {}-{} %)",
                change(capacity.ratio),
                significant_percent(near),
                significant_percent(far)
            )
        }
    }
}

/// `12 % more`, `3 % less`, `as much`.
fn change(ratio: f64) -> String {
    let percent = significant_percent((ratio - 1.0).abs());
    match ratio {
        _ if percent == "0" => "as much".to_owned(),
        _ if ratio > 1.0 => format!("{percent} % more"),
        _ => format!("{percent} % less"),
    }
}

fn signed(ratio: f64) -> String {
    // Adding 0 to what rounds to none makes it +0, never -0.
    format!("{:+.0} %", ((ratio - 1.0) * 100.0).round() + 0.0)
}

fn significant_percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.abs() < 1.95 && percent.abs() >= 0.05 {
        format!("{percent:.1}")
    } else {
        format!("{percent:.0}")
    }
}

fn row(name: &str, ratio: &Ratio, text: &dyn Fn(f64) -> String) -> Vec<String> {
    let interval = ratio.interval.map_or("-".to_owned(), |interval| {
        let high = interval.high.unwrap_or(f64::INFINITY);
        // A single degree of freedom or two tell next to nothing: thousands of percent.
        if high > 20.0 {
            "too few trials".to_owned()
        } else {
            format!("{} to {}", signed(interval.low), signed(high))
        }
    });
    vec![name.to_owned(), text(ratio.a), text(ratio.b), signed(ratio.ratio), interval]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Interval;

    fn said(ratio: f64, low: f64, high: f64) -> String {
        let interval = Some(Interval { low, high: Some(high), confidence: 0.95 });
        headline(&Comparison {
            slo: Vec::new(),
            capacity: Some(Ratio { a: 100.0, b: 100.0 * ratio, ratio, interval }),
            places: (Place::Within, Place::Within),
            goodput: None,
            figures: Vec::new(),
            differences: Vec::new(),
            compared: Vec::new(),
        })
    }

    #[test]
    fn the_headline_says_more_less_or_that_nothing_is_shown() {
        assert_eq!(said(1.12, 1.05, 1.19), "B carries 12 % more (95 % CI 5-19 %)");
        assert_eq!(said(0.8, 0.7, 0.9), "B carries 20 % less (95 % CI 10-30 %)");
        assert_eq!(
            said(1.03, 0.97, 1.09),
            "no difference is shown: B carries 3 % more (95 % CI -3 % to +9 %)"
        );
    }
}
