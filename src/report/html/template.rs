//! Puts the page together.

use serde::Serialize;

use super::data::Page;

const TEMPLATE: &str = include_str!("../../../assets/report/page.html");
const STYLE: &str = include_str!("../../../assets/report/page.css");
/// The parts of the script, in the order in which they build on each other.
const SCRIPTS: [&str; 11] = [
    include_str!("../../../assets/report/dom.js"),
    include_str!("../../../assets/report/chart.js"),
    include_str!("../../../assets/report/answer.js"),
    include_str!("../../../assets/report/loads.js"),
    include_str!("../../../assets/report/distributions.js"),
    include_str!("../../../assets/report/slices.js"),
    include_str!("../../../assets/report/timeline.js"),
    include_str!("../../../assets/report/turns.js"),
    include_str!("../../../assets/report/table.js"),
    include_str!("../../../assets/report/live.js"),
    include_str!("../../../assets/report/main.js"),
];

/// The page as HTML.
pub(super) fn fill(page: &Page<'_>) -> String {
    let script = SCRIPTS.concat();
    let data = json(page);
    let mut out = String::with_capacity(TEMPLATE.len() + STYLE.len() + script.len() + data.len() + 1024);
    let mut rest = TEMPLATE;
    // Once through the template: what is put in is not looked at again.
    while let Some((before, name, after)) = mark(rest) {
        out.push_str(before);
        match name {
            "headline" => out.push_str(&text(&page.headline)),
            "subject" => out.push_str(&text(&page.subject)),
            "style" => out.push_str(STYLE),
            "script" => out.push_str(&script),
            "data" => out.push_str(&data),
            _ => {}
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// What comes before the first mark `{{name}}`, its name, and what comes after.
fn mark(template: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = template.split_once("{{")?;
    let (name, after) = rest.split_once("}}")?;
    Some((before, name, after))
}

/// A text that stands for itself in HTML.
fn text(raw: &str) -> String {
    let mut safe = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(c),
        }
    }
    safe
}

/// JSON that can stand within a script element: no `<` that could end it or begin a comment. Such
/// characters occur within strings only, where an escape means the same.
pub(super) fn json(value: &impl Serialize) -> String {
    // Every key is a text and every value plain data, so that there is nothing to fail on.
    let raw = serde_json::to_string(value).unwrap_or_default();
    let mut safe = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => safe.push_str(&format!("\\u{:04x}", c as u32)),
            _ => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn a_text_cannot_become_markup() {
        assert_eq!(text("<b a='\"'>&"), "&lt;b a=&#39;&quot;&#39;&gt;&amp;");
    }

    #[test]
    fn escaped_json_is_the_same_value() {
        let value = serde_json::json!({"model": "</script><!-- & \u{2028} > ü"});
        let escaped = json(&value);
        assert!(!escaped.contains(['<', '>', '&', '\u{2028}']), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }

    #[test]
    fn every_mark_of_the_template_is_known() {
        let mut rest = TEMPLATE;
        let mut names = Vec::new();
        while let Some((_, name, after)) = mark(rest) {
            names.push(name);
            rest = after;
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names, ["data", "headline", "script", "style", "subject"]);
    }
}
