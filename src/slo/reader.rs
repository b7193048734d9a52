//! Reads one objective: its metric, its statistic and its comparison.

use super::threshold::OVER;
use super::words::{METRIC_NAMES, METRICS, nearest, parse_stat, split_joined};
use super::{Metric, Objective, Op, RequestLimit, SloError, Stat, Turns};

/// One part of the list.
pub(super) enum Part {
    Objective(Objective),
    Limit(RequestLimit),
}

/// A place in a text.
pub(super) struct Reader<'a> {
    pub text: &'a str,
    pub at: usize,
}

impl<'a> Reader<'a> {
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub fn error(&self, at: usize, problem: String) -> SloError {
        SloError { text: self.text.to_owned(), at, problem }
    }

    pub fn skip(&mut self, skipped: impl Fn(char) -> bool) {
        self.at = self.text.len() - self.rest().trim_start_matches(skipped).len();
    }

    /// Takes the longest run of characters that `wanted` accepts.
    pub fn take(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// What stands here, for a message.
    pub fn found(&self) -> String {
        let rest = self.rest();
        let word = rest.split(|c: char| c.is_whitespace() || c == ',' || c == ';').next().unwrap_or("");
        match (rest.is_empty(), word.is_empty()) {
            (true, _) => "the end of the text".to_owned(),
            (false, true) => format!("`{}`", rest.chars().take(1).collect::<String>()),
            (false, false) => format!("`{word}`"),
        }
    }

    /// Moves to the next objective; false at the end.
    pub fn next_part(&mut self) -> bool {
        self.skip(|c| c.is_whitespace() || c == ',' || c == ';');
        self.at < self.text.len()
    }

    pub fn part(&mut self) -> Result<Part, SloError> {
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
        let window = self.window()?;
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
        Ok(Part::Objective(Objective { metric, turns, stat, op, threshold, window }))
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
        let mend = if name == OVER {
            "a window follows an objective's threshold: write for example `ttft p95 < 500ms over 30s`"
                .to_owned()
        } else if parse_stat(&name).is_some() {
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
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || c == ':'
}
