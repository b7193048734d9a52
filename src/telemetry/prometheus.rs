//! The Prometheus text format, read leniently: what cannot be read is left out, the rest counts.
//!
//! ```
//! use plimsoll::telemetry::prometheus::{page, rows};
//! let text = page("# TYPE a gauge\na{x=\"1,\\\"2\\\"\"} 3 # {id=\"4\"} 5\nbroken{\nb NaN");
//! let rows = rows(&text, |_| true);
//! assert_eq!(rows[0].name, "a");
//! assert_eq!(rows[0].label("x"), Some("1,\"2\""));
//! assert_eq!(rows[0].value, 3.0);
//! assert!(rows[1].value.is_nan());
//! ```

use std::borrow::Cow;

/// One sample of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Row<'a> {
    /// Name of the metric, with its suffix (`_total`, `_sum`, ...).
    pub name: &'a str,
    /// Labels, in the order in which they stand.
    pub labels: Vec<(&'a str, Cow<'a, str>)>,
    /// The value; may be infinite or not a number.
    pub value: f64,
}

impl Row<'_> {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| *label == name).map(|(_, value)| value.as_ref())
    }
}

/// The page as it was meant. Some builds of llama-server send it as a JSON string: in quotation
/// marks, with line ends written as `\n`.
pub fn page(body: &str) -> Cow<'_, str> {
    let body = body.trim_start_matches('\u{feff}').trim();
    let Some(inner) = body.strip_prefix('"') else { return Cow::Borrowed(body) };
    Cow::Owned(unescaped(inner.strip_suffix('"').unwrap_or(inner)).into_owned())
}

/// The samples of a page whose name `wanted` accepts, in order.
pub fn rows<'a>(page: &'a str, wanted: impl Fn(&str) -> bool) -> Vec<Row<'a>> {
    page.lines().filter_map(|line| row(line, &wanted)).collect()
}

fn row<'a>(line: &'a str, wanted: &impl Fn(&str) -> bool) -> Option<Row<'a>> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let end = line.find(|c| !is_name(c))?;
    let (name, rest) = line.split_at(end);
    if name.is_empty() || !wanted(name) {
        return None;
    }
    let (labels, rest) = match rest.trim_start().strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None if rest.starts_with(char::is_whitespace) => (Vec::new(), rest),
        None => return None,
    };
    // A time stamp and an exemplar may follow the value.
    let value = number(rest.split_whitespace().next()?)?;
    Some(Row { name, labels, value })
}

/// The labels after an opening brace, and what follows the closing one.
#[allow(clippy::type_complexity)] // named nowhere else
fn labels(mut rest: &str) -> Option<(Vec<(&str, Cow<'_, str>)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, after) = rest.split_once('=')?;
        let value = after.trim_start().strip_prefix('"')?;
        let end = closing_quote(value)?;
        labels.push((name.trim(), unescaped(&value[..end])));
        rest = &value[end + 1..];
    }
}

/// Where a quoted text ends.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at),
            _ => {}
        }
    }
    None
}

fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (c, if c == '\\' { characters.next() } else { None }) {
            ('\\', Some('n')) => plain.push('\n'),
            ('\\', Some('r')) => plain.push('\r'),
            ('\\', Some('t')) => plain.push('\t'),
            ('\\', Some(other)) => plain.push(other),
            _ => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

fn number(text: &str) -> Option<f64> {
    match text {
        "+Inf" | "Inf" | "+inf" | "inf" => Some(f64::INFINITY),
        "-Inf" | "-inf" => Some(f64::NEG_INFINITY),
        "NaN" | "Nan" | "nan" => Some(f64::NAN),
        _ => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    fn all(text: &str) -> Vec<(String, f64)> {
        rows(text, |_| true).into_iter().map(|row| (row.name.to_owned(), row.value)).collect()
    }

    #[test]
    fn what_stands_around_a_value_does_not_matter() {
        let cases = [
            ("a 1", 1.0),
            ("a\t2.5e3", 2500.0),
            ("  a {} 3  ", 3.0),
            ("a{b=\"c\"}4", 4.0),
            ("a{b=\"c\",} 5 1700000000000", 5.0),
            ("a_bucket{le=\"0.5\"} 6 # {trace_id=\"x y\"} 0.3 1700000000.1", 6.0),
            ("a{ b = \"}\" , c=\"\\\\\" } 7\r", 7.0),
            ("a +Inf", f64::INFINITY),
            ("a -Inf", f64::NEG_INFINITY),
        ];
        for (line, value) in cases {
            let found = rows(line, |_| true);
            assert_eq!(found.len(), 1, "{line}");
            assert_eq!(found[0].value, value, "{line}");
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_costs_no_other() {
        let text =
            "a 1\nb{x=\"1} 2\nc{x=1} 2\n{x=\"1\"} 2\nd\ne five\n# f 1\n<html>\ng{x=\"\u{e4}\"} 2\nh-i 1";
        assert_eq!(all(text), [("a".to_owned(), 1.0), ("g".to_owned(), 2.0)]);
    }

    #[test]
    fn a_page_in_quotation_marks_is_read_like_any_other() {
        let plain = "# HELP a \"b\"\n# TYPE a gauge\nllamacpp:a{x=\"1\"} 8\nb 2\n";
        let quoted = format!("\"{}\"", plain.replace('"', "\\\"").replace('\n', "\\n"));
        assert_eq!(all(&page(&quoted)), all(plain));
        assert_eq!(all(&page(&quoted[..quoted.len() - 1])), all(plain));
        assert_eq!(all(&page(plain)).len(), 2);
    }

    #[test]
    fn only_what_is_wanted_is_read() {
        assert_eq!(rows("a 1\nb 2", |name| name == "b").len(), 1);
    }

    proptest! {
        #[test]
        fn any_label_comes_back_as_it_was(value in "\\PC*", number in -1e9_f64..1e9) {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let line = format!("m{{a=\"x\",b=\"{escaped}\"}} {number}");
            let found = rows(&line, |_| true);
            prop_assert_eq!(found.len(), 1);
            prop_assert_eq!(found[0].label("b"), Some(value.as_str()));
            prop_assert_eq!(found[0].value, number);
        }

        #[test]
        fn nothing_makes_it_fail(text in "[a-z{}=\"\\\\, 0-9#\\n\\r.+:-]{0,200}") {
            let whole = page(&text);
            for row in rows(&whole, |_| true) {
                prop_assert_eq!(row.name.is_empty(), false);
            }
        }
    }
}
