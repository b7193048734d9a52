//! The SLO grammar: text to objectives and back.
//!
//! ```text
//! slo       = objective { ("," | ";") objective }
//! objective = metric [turns] stat op value unit [window]    ttft p99.9 <= 1.2s
//!           | figure op value [unit] [window]               errors < 1%   goodput > 5 req/s
//!           | metric [turns] ":" value                      ttft:500      (vLLM's form, milliseconds)
//! turns     = "[first]" | "[later]"                         ttft[first] p95 < 1s, ttft[later] p95 < 300ms
//! window    = "over" time ["worst"]                         over 30s worst
//! ```
//!
//! Parts may be set apart by blanks or `:`, or stand together where that is clear
//! (`ttft:p95<300ms`). `[first]` and `[later]` are about the first turn of a conversation alone, or about
//! those that follow it. Names are read without regard to case, `_` is the same as `-`.

use std::fmt;

use thiserror::Error;

use super::reader::{Part, Reader};
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
                    if objectives.iter().any(|old| old.is_of_the_same(&new)) {
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
            window: None,
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
    // Each request of a window is held to the window's limit.
    let Objective { metric, turns, stat, op, threshold, .. } = *objective;
    match (metric, stat) {
        (Metric::Goodput | Metric::Attainment | Metric::Errors, _) => None,
        (Metric::Itl, Stat::Percentile(_)) => {
            let allowed_gaps = objective.whole().allowed_misses().unwrap_or(0.0);
            Some(RequestLimit { metric, turns, op, threshold, allowed_gaps })
        }
        // The mean of a request's gaps is its TPOT.
        (Metric::Itl, Stat::Mean) => {
            Some(RequestLimit { metric: Metric::Tpot, turns, op, threshold, allowed_gaps: 0.0 })
        }
        _ => Some(RequestLimit { metric, turns, op, threshold, allowed_gaps: 0.0 }),
    }
}
