//! Reads the end of an objective: its threshold with its unit, and its window.

use super::reader::{Part, Reader};
use super::words::in_seconds;
use super::{Metric, Op, RequestLimit, SloError, Turns};

/// The word before a window's length, and the one that may follow it.
pub(super) const OVER: &str = "over";
pub(super) const WORST: &str = "worst";
/// Shortest and longest window, seconds.
const SHORTEST_WINDOW: f64 = 0.5;
const LONGEST_WINDOW: f64 = 86_400.0;

impl<'a> Reader<'a> {
    fn number(&mut self) -> Result<f64, SloError> {
        let at = self.at;
        if self.rest().starts_with('-') {
            return Err(self.error(at, "a threshold cannot be below zero".to_owned()));
        }
        let word = self.take(|c| c.is_ascii_digit() || c == '.');
        if word.is_empty() {
            let found = self.found();
            return Err(self.error(at, format!("expected a number, found {found}")));
        }
        match word.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value),
            _ => Err(self.error(at, format!("`{word}` is not a number"))),
        }
    }

    /// A word that could be a unit, and where it begins; the place is moved behind it.
    fn unit(&mut self) -> (usize, &'a str) {
        self.skip(char::is_whitespace);
        let at = self.at;
        let word = self.take(|c| c.is_alphanumeric() || matches!(c, '%' | '/' | '_'));
        if word.eq_ignore_ascii_case(OVER) {
            self.at = at;
            return (at, "");
        }
        (at, word)
    }

    /// The window that the figure is taken over, seconds: `over 30s`, `over 30s worst`.
    pub fn window(&mut self) -> Result<Option<f64>, SloError> {
        self.skip(char::is_whitespace);
        if !self.word_is(OVER) {
            return Ok(None);
        }
        self.at += OVER.len();
        self.skip(char::is_whitespace);
        let at = self.at;
        let number = self.number()?;
        let end = self.at;
        let (unit_at, word) = self.unit();
        let Some(seconds) = in_seconds(number, &word.to_lowercase()) else {
            return Err(if word.is_empty() || word.eq_ignore_ascii_case(WORST) {
                self.error(end, format!("a window needs its unit: write `{OVER} {number}s`"))
            } else {
                self.error(unit_at, format!("`{word}` is no unit of a window; write `s` or `min`"))
            });
        };
        if !(SHORTEST_WINDOW..=LONGEST_WINDOW).contains(&seconds) {
            return Err(self.error(
                at,
                format!("a window lasts from {SHORTEST_WINDOW} s to a day; write one like `{OVER} 30s`"),
            ));
        }
        self.skip(char::is_whitespace);
        if self.word_is(WORST) {
            self.at += WORST.len();
        }
        Ok(Some(seconds))
    }

    /// Whether the next word is this one.
    fn word_is(&self, word: &str) -> bool {
        let rest = self.rest();
        let length = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        rest[..length].eq_ignore_ascii_case(word)
    }

    pub fn threshold(&mut self, metric: Metric, op: Op) -> Result<f64, SloError> {
        let at = self.at;
        let number = self.number()?;
        let end = self.at;
        let (unit_at, word) = self.unit();
        let unit = word.to_lowercase();
        if metric.is_time() {
            let Some(seconds) = in_seconds(number, &unit) else {
                let name = metric.name();
                return Err(if word.is_empty() {
                    // The caret belongs where the unit is wanted, right behind the number.
                    let as_seconds = number / 1e3;
                    self.error(end, format!("a time needs its unit: write `{number}ms` or `{as_seconds}s`"))
                } else {
                    self.error(unit_at, format!("`{word}` is no unit of {name}; write `ms` or `s`"))
                });
            };
            if seconds <= 0.0 {
                return Err(
                    self.error(at, "a limit of zero can never be kept; write a time above 0".to_owned())
                );
            }
            return Ok(seconds);
        }
        match metric {
            Metric::Attainment | Metric::Errors => {
                let share = self.share(number, at, end, unit_at, word)?;
                let never = match (metric, op) {
                    (Metric::Attainment, Op::Greater) => share >= 1.0,
                    (Metric::Errors, Op::Less) => share <= 0.0,
                    _ => false,
                };
                if never {
                    let mend = if metric == Metric::Errors { "<=" } else { ">=" };
                    return Err(self.error(at, format!("no share is beyond that; write `{mend}`")));
                }
                if metric == Metric::Attainment && share <= 0.0 {
                    return Err(
                        self.error(at, "an attainment of 0% always holds; write one like `95%`".to_owned())
                    );
                }
                Ok(share)
            }
            _ => {
                let known: &[&str] = if metric == Metric::Goodput {
                    &["", "req/s", "requests/s", "request/s", "rps", "/s"]
                } else {
                    &["", "tok/s", "tokens/s", "token/s", "t/s", "tps", "/s"]
                };
                if !known.contains(&unit.as_str()) {
                    let wanted = known[1];
                    return Err(self.error(
                        unit_at,
                        format!("`{word}` is no unit of {}; write `{wanted}` or nothing", metric.name()),
                    ));
                }
                if number <= 0.0 {
                    return Err(self.error(at, "a rate above 0 always holds; write a larger one".to_owned()));
                }
                Ok(number)
            }
        }
    }

    /// A share, written `95%` or `0.95`.
    fn share(&self, number: f64, at: usize, end: usize, unit_at: usize, word: &str) -> Result<f64, SloError> {
        match word {
            "%" if number <= 100.0 => Ok(number / 100.0),
            "%" => Err(self.error(at, format!("a share lies between 0% and 100%, {number}% does not"))),
            // A bare 1 may be meant as 1 % or as all: only what is clear is read.
            "" if number < 1.0 => Ok(number),
            "" => {
                Err(self.error(end, format!("a share needs its unit: write `{number}%` or a number below 1")))
            }
            _ => Err(self.error(unit_at, format!("`{word}` is no unit of a share; write `%`"))),
        }
    }

    /// The rest of `ttft:500`: a limit in milliseconds for each request.
    pub fn vllm_limit(&mut self, metric: Metric, turns: Turns, colon: bool) -> Result<Part, SloError> {
        let at = self.at;
        let name = metric.name();
        if !metric.is_time() || metric == Metric::Itl {
            let mend = match metric {
                Metric::Itl => format!(
                    "write `itl p95 < {}ms`, or `tpot:...` to limit each request",
                    self.found_number()
                ),
                Metric::Errors => format!("write `errors < {}%`", self.found_number()),
                Metric::Attainment => format!("write `attainment >= {}%`", self.found_number()),
                Metric::Goodput => format!("write `goodput > {}`", self.found_number()),
                _ => format!("write `{name} p5 > {}`", self.found_number()),
            };
            return Err(self.error(at, format!("expected a comparison, found a number; {mend}")));
        }
        if !colon {
            return Err(self.error(
                at,
                format!(
                    "expected a statistic, found a number; write `{name} p95 < {number}ms`, or `{name}:{number}` \
                     to limit each request",
                    number = self.found_number()
                ),
            ));
        }
        let number = self.number()?;
        let end = self.at;
        let (unit_at, word) = self.unit();
        let unit = if word.is_empty() { "ms".to_owned() } else { word.to_lowercase() };
        let seconds = match in_seconds(number, &unit) {
            Some(seconds) => seconds,
            None if unit_at > end => {
                // The next pair, not a unit.
                self.at = unit_at;
                number / 1e3
            }
            None => {
                return Err(self.error(unit_at, format!("`{word}` is no unit of {name}; write `ms` or `s`")));
            }
        };
        if seconds <= 0.0 {
            return Err(self.error(at, "a limit of zero can never be kept; write a time above 0".to_owned()));
        }
        Ok(Part::Limit(RequestLimit { metric, turns, op: Op::AtMost, threshold: seconds, allowed_gaps: 0.0 }))
    }

    /// The number that stands here, as written.
    fn found_number(&self) -> &'a str {
        let rest = self.rest();
        &rest[..rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len())]
    }
}
