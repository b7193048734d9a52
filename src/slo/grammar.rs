//! The SLO grammar: text to objectives and back.
//!
//! ```text
//! slo       = objective { ("," | ";") objective }
//! objective = metric [turns] stat op value unit  ttft p99.9 <= 1.2s
//!           | figure op value [unit]             errors < 1%   goodput > 5 req/s
//!           | metric ":" value                   ttft:500      (vLLM's form, milliseconds)
//! turns     = "[first]" | "[later]"              ttft[first] p95 < 1s, ttft[later] p95 < 300ms
//! ```
//!
//! Parts may be set apart by blanks or `:`, or stand together where that is clear
//! (`ttft:p95<300ms`). `[first]` and `[later]` are about the first turn of a conversation alone, or about
//! those that follow it. Names are read without regard to case, `_` is the same as `-`.

use std::fmt;

use thiserror::Error;

use super::words::{METRIC_NAMES, METRICS, in_seconds, nearest, parse_stat, split_joined};
use super::{Metric, Objective, Op, RequestLimit, Slo, Stat, Turns};

/// A text that is not an SLO. It prints as what is wrong and the mend, then the text, then a caret
/// under the character in question.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct SloError {
    /// The text as given.
    pub text: String,
    /// Byte offset of the character at which reading stopped.
    pub at: usize,
    /// What was expected there, and what was found.
    pub problem: String,
}

impl fmt::Display for SloError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SLO: {}", self.problem)?;
        if self.text.trim().is_empty() {
            return Ok(());
        }
        // One column a character, whatever blanks the text holds: the caret must stay below it.
        let line: String = self.text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
        let before = self.text.char_indices().take_while(|&(at, _)| at < self.at).count();
        write!(f, "\n  {line}\n  {:before$}^", "")
    }
}

/// Share of requests that must keep all limits given in vLLM's form.
const VLLM_ATTAINMENT: f64 = 0.95;

pub(super) fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Slo, SloError> {
    let mut objectives: Vec<Objective> = Vec::new();
    let mut given: Vec<RequestLimit> = Vec::new();
    for text in texts {
        let mut reader = Reader { text, at: 0 };
        let mut any = false;
        while reader.next_part() {
            any = true;
            let start = reader.at;
            match reader.part()? {
                Part::Objective(new) => {
                    if objectives
                        .iter()
                        .any(|old| (old.metric, old.turns, old.stat) == (new.metric, new.turns, new.stat))
                    {
                        let name = reader.text[start..reader.at].trim();
                        return Err(reader.error(
                            start,
                            format!("`{name}`: an objective on the same figure is there already; keep one"),
                        ));
                    }
                    objectives.push(new);
                }
                Part::Limit(new) => {
                    if given.iter().any(|old| (old.metric, old.turns) == (new.metric, new.turns)) {
                        return Err(
                            reader.error(start, format!("a second limit on {}; keep one", new.metric.name()))
                        );
                    }
                    given.push(new);
                }
            }
        }
        if !any {
            return Err(
                reader.error(0, "an empty objective; write for example `ttft p95 < 500ms`".to_owned())
            );
        }
    }
    if !given.is_empty() && !objectives.iter().any(|objective| objective.metric == Metric::Attainment) {
        objectives.push(Objective {
            metric: Metric::Attainment,
            turns: Turns::All,
            stat: Stat::Value,
            op: Op::AtLeast,
            threshold: VLLM_ATTAINMENT,
        });
    }
    if objectives.is_empty() {
        return Err(SloError {
            text: String::new(),
            at: 0,
            problem: "no objective is given; write for example `ttft p95 < 500ms`".to_owned(),
        });
    }
    let implied = implied_limits(&objectives);
    let mut limits = given;
    limits.retain(|limit| !implied.contains(limit));
    limits.extend(implied);
    Ok(Slo { objectives, limits })
}

/// The limits that objectives put on each single request, each once.
pub(super) fn implied_limits(objectives: &[Objective]) -> Vec<RequestLimit> {
    let mut limits = Vec::new();
    for limit in objectives.iter().filter_map(limit_of) {
        if !limits.contains(&limit) {
            limits.push(limit);
        }
    }
    limits
}

/// The limit that an objective puts on each single request.
fn limit_of(objective: &Objective) -> Option<RequestLimit> {
    let Objective { metric, turns, stat, op, threshold } = *objective;
    match (metric, stat) {
        (Metric::Goodput | Metric::Attainment | Metric::Errors, _) => None,
        (Metric::Itl, Stat::Percentile(_)) => {
            let allowed_gaps = objective.allowed_misses().unwrap_or(0.0);
            Some(RequestLimit { metric, turns, op, threshold, allowed_gaps })
        }
        // The mean of a request's gaps is its TPOT.
        (Metric::Itl, Stat::Mean) => {
            Some(RequestLimit { metric: Metric::Tpot, turns, op, threshold, allowed_gaps: 0.0 })
        }
        _ => Some(RequestLimit { metric, turns, op, threshold, allowed_gaps: 0.0 }),
    }
}

/// One part of the list.
enum Part {
    Objective(Objective),
    Limit(RequestLimit),
}

/// A place in a text.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn error(&self, at: usize, problem: String) -> SloError {
        SloError { text: self.text.to_owned(), at, problem }
    }

    fn skip(&mut self, skipped: impl Fn(char) -> bool) {
        self.at = self.text.len() - self.rest().trim_start_matches(skipped).len();
    }

    /// Takes the longest run of characters that `wanted` accepts.
    fn take(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// What stands here, for a message.
    fn found(&self) -> String {
        let rest = self.rest();
        let word = rest.split(|c: char| c.is_whitespace() || c == ',' || c == ';').next().unwrap_or("");
        match (rest.is_empty(), word.is_empty()) {
            (true, _) => "the end of the text".to_owned(),
            (false, true) => format!("`{}`", rest.chars().take(1).collect::<String>()),
            (false, false) => format!("`{word}`"),
        }
    }

    /// Moves to the next objective; false at the end.
    fn next_part(&mut self) -> bool {
        self.skip(|c| c.is_whitespace() || c == ',' || c == ';');
        self.at < self.text.len()
    }

    fn part(&mut self) -> Result<Part, SloError> {
        let start = self.at;
        let metric = self.metric()?;
        let turns = self.turns(metric)?;
        let before_separator = self.at;
        self.skip(is_separator);
        let colon = self.text[before_separator..self.at].contains(':');
        if self.rest().starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return self.vllm_limit(metric, turns, colon);
        }
        let stat = self.stat(metric, start)?;
        self.skip(is_separator);
        let op = self.op(metric)?;
        self.skip(is_separator);
        let threshold = self.threshold(metric, op)?;
        self.skip(char::is_whitespace);
        if !self.rest().is_empty() && !self.rest().starts_with([',', ';']) {
            let found = self.found();
            return Err(self.error(
                self.at,
                format!(
                    "expected the end of the objective, found {found}; set objectives apart by `,` or `;`"
                ),
            ));
        }
        Ok(Part::Objective(Objective { metric, turns, stat, op, threshold }))
    }

    fn metric(&mut self) -> Result<Metric, SloError> {
        let start = self.at;
        let word = self.take(|c| c.is_alphanumeric() || c == '_' || c == '-');
        if word.is_empty() {
            let found = self.found();
            return Err(self.error(start, format!("expected a metric ({METRIC_NAMES}), found {found}")));
        }
        let name = word.to_lowercase().replace('_', "-");
        if let Some(&(_, metric)) = METRICS.iter().find(|(known, _)| *known == name) {
            return Ok(metric);
        }
        let mend = if parse_stat(&name).is_some() {
            format!("the metric comes first: write for example `ttft {word} < 500ms`")
        } else if let Some((metric, stat)) = split_joined(&name) {
            format!("set the parts apart: write `{metric} {stat}`")
        } else if let Some(near) = nearest(&name) {
            format!("did you mean `{near}`?")
        } else {
            format!("known are {METRIC_NAMES}")
        };
        Err(self.error(start, format!("unknown metric `{word}`; {mend}")))
    }

    /// Which turns are meant: `[first]`, `[later]`, or all where nothing is said.
    fn turns(&mut self, metric: Metric) -> Result<Turns, SloError> {
        let before = self.at;
        self.skip(char::is_whitespace);
        let at = self.at;
        if !self.rest().starts_with('[') {
            self.at = before;
            return Ok(Turns::All);
        }
        let end = self.rest().find(']').map_or(self.text.len(), |end| self.at + end + 1);
        let word = &self.text[at..end];
        let inside = word.trim_start_matches('[').trim_end_matches(']').trim().to_lowercase();
        let turns = match inside.as_str() {
            "first" => Turns::First,
            "later" => Turns::Later,
            _ => {
                return Err(self.error(
                    at,
                    format!(
                        "`{word}` names no turns; write `{name}[first]` (the first turn of a conversation) or \
                         `{name}[later]` (those after it)",
                        name = metric.name()
                    ),
                ));
            }
        };
        if matches!(metric, Metric::Goodput | Metric::Attainment | Metric::Errors) {
            let name = metric.name();
            return Err(self.error(
                at,
                format!("{name} is one figure of the whole trial, not of some turns; write `{name}` alone"),
            ));
        }
        self.at = end;
        Ok(turns)
    }

    fn stat(&mut self, metric: Metric, start: usize) -> Result<Stat, SloError> {
        let at = self.at;
        let word = self.take(|c| c.is_alphanumeric() || c == '.');
        let whole = matches!(metric, Metric::Goodput | Metric::Attainment | Metric::Errors);
        if whole {
            if word.is_empty() {
                return Ok(Stat::Value);
            }
            let name = self.text[start..at].trim_end_matches(is_separator);
            let op = if metric == Metric::Errors { "<" } else { ">=" };
            return Err(self.error(
                at,
                format!(
                    "{name} is one figure of the whole trial and takes no `{word}`; write `{name} {op} ...`"
                ),
            ));
        }
        let name = metric.name();
        if word.is_empty() {
            let found = self.found();
            return Err(self.error(
                at,
                format!(
                    "expected a statistic, found {found}; write `{name} p95`, `{name} mean` or `{name} max`"
                ),
            ));
        }
        match parse_stat(&word.to_lowercase()) {
            Some(Stat::Percentile(p)) if !(p > 0.0 && p < 100.0) => {
                let mend = if p == 100.0 {
                    "write `max`".to_owned()
                } else if word.len() == 4 && p > 900.0 {
                    format!("write `p{}`", p / 10.0)
                } else {
                    "write one like `p95` or `p99.9`".to_owned()
                };
                Err(self
                    .error(at, format!("a percentile lies between p0 and p100, `{word}` does not; {mend}")))
            }
            Some(Stat::Max) if metric == Metric::OutputTokensPerSecondPerUser => Err(self.error(
                at,
                "the largest rate says nothing about the slowest user; write `p5` or `mean`".to_owned(),
            )),
            Some(stat) => Ok(stat),
            None => Err(self.error(
                at,
                format!("unknown statistic `{word}`; write a percentile such as `p95`, `mean` or `max`"),
            )),
        }
    }

    fn op(&mut self, metric: Metric) -> Result<Op, SloError> {
        let at = self.at;
        let word = self.take(|c| matches!(c, '<' | '>' | '=' | '≤' | '≥' | '!'));
        let op = match word {
            "<" => Op::Less,
            "<=" | "≤" => Op::AtMost,
            ">" => Op::Greater,
            ">=" | "≥" => Op::AtLeast,
            "" => {
                let found = self.found();
                return Err(self.error(at, format!("expected `<`, `<=`, `>` or `>=`, found {found}")));
            }
            _ => {
                return Err(
                    self.error(at, format!("unknown comparison `{word}`; write `<`, `<=`, `>` or `>=`"))
                );
            }
        };
        let large_is_good =
            matches!(metric, Metric::OutputTokensPerSecondPerUser | Metric::Goodput | Metric::Attainment);
        if op.wants_large() != large_is_good {
            let name = metric.name();
            let (wanted, bound) = match (op, large_is_good) {
                (Op::Less, _) => (">", "at least"),
                (Op::AtMost, _) => (">=", "at least"),
                (Op::Greater, _) => ("<", "at most"),
                (Op::AtLeast, _) => ("<=", "at most"),
            };
            return Err(self.error(
                at,
                format!(
                    "an objective says how large {name} must be {bound}; write `{wanted}` instead of `{word}`"
                ),
            ));
        }
        Ok(op)
    }

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
        (at, self.take(|c| c.is_alphanumeric() || matches!(c, '%' | '/' | '_')))
    }

    fn threshold(&mut self, metric: Metric, op: Op) -> Result<f64, SloError> {
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
    fn vllm_limit(&mut self, metric: Metric, turns: Turns, colon: bool) -> Result<Part, SloError> {
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

fn is_separator(c: char) -> bool {
    c.is_whitespace() || c == ':'
}
