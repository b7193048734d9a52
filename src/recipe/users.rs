//! Users as people write them: how long they think, and how many turns their conversations have.

use std::str::FromStr;

use super::error::RecipeError;
use super::lengths::TokenLengths;
use super::quantity::{Count, Duration, QuantityError, written_as_text, wrong};
use super::written::{LoadSection, WorkloadSection};
use crate::plan::{Api, DatasetFormat, Lengths, SessionPlan, SourcePlan, Times, WorkloadPlan};
use crate::slo::Slo;
use crate::workload::dataset::Dataset;
use crate::workload::sessions::MOST_TURNS;

/// [`Times`] as written: `2s`, `exponential(2s)`, `lognormal(mean=5s, cv=1)`.
///
/// ```
/// use plimsoll::plan::Times;
/// use plimsoll::recipe::ThinkTime;
/// assert_eq!("exponential(2s)".parse::<ThinkTime>().unwrap().0, Times::Exponential { mean: 2.0 });
/// assert_eq!("500ms".parse::<ThinkTime>().unwrap().0, Times::Fixed { seconds: 0.5 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThinkTime(pub Times);

const EXAMPLE: &str = "`2s`, `exponential(2s)`, `lognormal(mean=5s, cv=1)`, `normal(mean=5s, sd=1s)` or \
                       `uniform(1s..5s)`";
/// The 95th percentile of the standard normal.
const Z95: f64 = 1.644_853_626_951_472_7;
/// Largest coefficient of variation.
const WIDEST: f64 = 10.0;

impl FromStr for ThinkTime {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let text = text.trim();
        if text.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '-') {
            return Ok(Self(Times::Fixed { seconds: seconds(text)? }));
        }
        let unknown = || wrong(format!("`{text}` is not a time to think; write {EXAMPLE}"));
        // `exponential:2s` spares the shell's quotes.
        let Some((kind, rest)) = text.find(['(', ':']).map(|at| text.split_at(at)) else { return unknown() };
        let inside = match rest.strip_prefix(':') {
            Some(inside) => Some(inside),
            None => rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')),
        };
        let Some(inside) = inside.map(str::trim) else { return unknown() };
        let times = match kind.trim() {
            "fixed" => Times::Fixed { seconds: seconds(inside)? },
            "exponential" => {
                Times::Exponential { mean: seconds(inside.strip_prefix("mean=").unwrap_or(inside))? }
            }
            "uniform" => uniform(inside)?,
            "lognormal" => lognormal(&fields(kind, inside)?)?,
            "normal" => normal(&fields(kind, inside)?)?,
            _ => return unknown(),
        };
        Ok(Self(times))
    }
}

fn seconds(text: &str) -> Result<f64, QuantityError> {
    text.trim().parse::<Duration>().map(|Duration(seconds)| seconds)
}

fn uniform(inside: &str) -> Result<Times, QuantityError> {
    let Some((min, max)) = inside.split_once("..") else {
        return wrong("a uniform time needs both ends: `uniform(1s..5s)`");
    };
    let min = match min.trim() {
        "0" | "0s" => 0.0,
        min => seconds(min)?,
    };
    let max = seconds(max)?;
    if min > max {
        return wrong(format!("`uniform({inside})` runs backwards"));
    }
    Ok(Times::Uniform { min, max })
}

/// `name=value` pairs: `cv` as a number, all else as a time in seconds.
fn fields<'a>(kind: &str, inside: &'a str) -> Result<Vec<(&'a str, f64)>, QuantityError> {
    let field = |part: &'a str| {
        let Some((name, value)) = part.split_once('=') else {
            return wrong(format!("`{}` is not `name=value`; write {EXAMPLE}", part.trim()));
        };
        let name = name.trim();
        let value = match name {
            "cv" => match value.trim().parse::<f64>() {
                Ok(cv) if (0.0..=WIDEST).contains(&cv) => cv,
                _ => return wrong(format!("a `cv` of {} is not a number from 0 to 10", value.trim())),
            },
            "mean" | "median" | "p95" | "sd" | "stddev" => seconds(value)?,
            _ => return wrong(format!("a {kind} time has no `{name}`; write {EXAMPLE}")),
        };
        Ok((if name == "stddev" { "sd" } else { name }, value))
    };
    let mut fields: Vec<(&str, f64)> = inside.split(',').map(field).collect::<Result<_, _>>()?;
    fields.sort_unstable_by(|a, b| a.0.cmp(b.0));
    Ok(fields)
}

fn lognormal(fields: &[(&str, f64)]) -> Result<Times, QuantityError> {
    match *fields {
        [("cv", cv), ("mean", mean)] => Ok(Times::Lognormal { mean, cv }),
        [("median", median), ("p95", p95)] if p95 >= median => {
            // median = exp(mu), p95 = exp(mu + z sigma), mean = exp(mu + sigma^2 / 2), cv^2 = exp(sigma^2) - 1.
            let sigma = (p95 / median).ln() / Z95;
            let cv = ((sigma * sigma).exp() - 1.0).sqrt();
            Ok(Times::Lognormal { mean: median * (sigma * sigma / 2.0).exp(), cv })
        }
        _ => wrong(
            "a lognormal time needs `mean` and `cv`, as `lognormal(mean=5s, cv=1)`, or `median` and a larger `p95`",
        ),
    }
}

fn normal(fields: &[(&str, f64)]) -> Result<Times, QuantityError> {
    match *fields {
        [("mean", mean), ("sd", sd)] => Ok(Times::Normal { mean, sd }),
        [("cv", cv), ("mean", mean)] => Ok(Times::Normal { mean, sd: cv * mean }),
        _ => wrong("a normal time needs `mean` and `sd`, as `normal(mean=5s, sd=1s)`, or `mean` and `cv`"),
    }
}

/// Turns of a conversation as written: `5`, `uniform(2..8)`, or `all` for those of the dataset.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnCount {
    /// As many as each conversation of the dataset has.
    All,
    /// Drawn; of a dataset that many at the most.
    Drawn(Lengths),
}

impl FromStr for TurnCount {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.trim() == "all" {
            return Ok(Self::All);
        }
        let Ok(TokenLengths(turns)) = text.parse() else {
            return wrong(format!(
                "`{text}` is not a number of turns; write `5`, `uniform(2..8)`, or `all` for those of `--dataset`"
            ));
        };
        if matches!(turns, Lengths::Empirical { .. }) {
            return wrong("turns are not read from a file of lengths; write `5` or `uniform(2..8)`");
        }
        if turns.longest() > MOST_TURNS {
            return wrong(format!(
                "a conversation has {MOST_TURNS} turns at the most, not {}",
                turns.longest()
            ));
        }
        Ok(Self::Drawn(turns))
    }
}

written_as_text! {
    ThinkTime: { "description": "A time, or a distribution of times.", "type": "string",
                 "examples": ["2s", "exponential(2s)", "lognormal(mean=5s, cv=1)", "uniform(1s..5s)"] },
    TurnCount: { "description": "Turns of a conversation, or `all` for those of the dataset.",
                 "anyOf": [{ "type": "integer", "minimum": 1 }, { "type": "string" }],
                 "examples": [5, "uniform(2..8)", "all"] },
}

/// Refuses what users cannot do.
pub(super) fn check(
    workload: &WorkloadSection,
    load: &LoadSection,
    api: Api,
    slo: Option<&Slo>,
) -> Result<(), RecipeError> {
    let error = |text: &str, hint: &str| Err(RecipeError::new(text).hint(hint));
    let Some(turns) = &workload.turns else {
        if workload.max_context.is_some() {
            return error(
                "`workload.max_context` (`--max-context`) is about conversations, but no `--turns` is given",
                "add `--turns 5` (`workload.turns`), or leave it out",
            );
        }
        if load.think.is_some() && load.is_open() {
            return error(
                "`load.think` (`--think`) is a user's pause, but arrivals at a rate do not come back",
                "give `--concurrency` (users), or `--turns`, whose later turns come after a pause",
            );
        }
        if let Some(objective) = slo.and_then(|slo| slo.objectives.iter().find(|it| !it.turns.is_all())) {
            return Err(RecipeError::new(format!(
                "`{objective}` is about turns of conversations, but no `--turns` is given"
            ))
            .hint("add `--turns 5` (`workload.turns`), or leave `[first]` and `[later]` out"));
        }
        return Ok(());
    };
    if api == Api::Completions {
        return error(
            "`workload.turns` (`--turns`) sends conversations, which `/v1/completions` does not know",
            "measure the chat call: `--api chat` (`target.api`)",
        );
    }
    if load.replay.is_some() {
        return error(
            "a trace is replayed request by request, but `workload.turns` (`--turns`) is given",
            "leave the turns out, or take `--dataset` with `--rate` or `--concurrency`",
        );
    }
    if *turns == TurnCount::All && workload.dataset.is_none() {
        return error(
            "`workload.turns` (`--turns`) is `all`, but there is no dataset whose turns they are",
            "add `--dataset FILE` with conversations, or say how many: `--turns 5`",
        );
    }
    Ok(())
}

/// The conversations that are asked for, if any.
pub(super) fn resolve(
    turns: Option<TurnCount>,
    max_context: Option<Count>,
    dataset: Option<&Dataset>,
) -> Option<SessionPlan> {
    let max_context = max_context.map(|Count(tokens)| tokens);
    let (turns, as_recorded) = match (turns?, dataset) {
        (TurnCount::Drawn(turns), _) => (turns, false),
        (TurnCount::All, Some(dataset)) => (dataset.turns(), true),
        (TurnCount::All, None) => (Lengths::Fixed { tokens: 1 }, false),
    };
    Some(SessionPlan { turns, as_recorded, max_context })
}

/// Refuses a file that holds no conversations.
pub(super) fn check_source(source: &SourcePlan) -> Result<(), RecipeError> {
    let has_texts = matches!(source.format, DatasetFormat::Sharegpt | DatasetFormat::Openai);
    if !source.conversations || has_texts {
        return Ok(());
    }
    Err(RecipeError::new(format!(
        "`workload.turns` (`--turns`) needs conversations, but `{}` holds lengths alone",
        source.path
    ))
    .hint("take a ShareGPT or OpenAI-style file, or give lengths with `--isl file:FILE --osl file:FILE`"))
}

/// Refuses a context that not even first turns fit.
pub(super) fn check_context(workload: &WorkloadPlan) -> Result<(), RecipeError> {
    let (prompt, output) = workload.longest();
    match workload.sessions.as_ref().and_then(|sessions| sessions.max_context) {
        Some(most) if u64::from(prompt) + u64::from(output) > u64::from(most) => {
            Err(RecipeError::new(format!(
                "a first turn of up to {prompt} and an answer of up to {output} tokens do not fit \
                 `workload.max_context` (`--max-context`) {most}"
            ))
            .hint("raise it, or lower `--isl` or `--osl` (their `max`)"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::plan::Plan;
    use crate::recipe::{Purpose, Recipe};

    fn plan(text: &str) -> Result<Plan, String> {
        let recipe = Recipe::from_toml(text, "test.toml").map_err(|error| error.to_string())?;
        recipe.into_plan(None, Purpose::Search).map_err(|error| error.to_string())
    }

    #[test]
    fn every_time_reads_back_what_it_shows() {
        for text in [
            "fixed(500ms)",
            "2s",
            "1h30m",
            "exponential(2s)",
            "exponential(mean=1.5s)",
            "lognormal(mean=5s, cv=1)",
            "lognormal:median=3s,p95=20s",
            "normal(mean=5s, sd=700ms)",
            "uniform(0s..5s)",
        ] {
            let times = text.parse::<ThinkTime>().unwrap().0;
            assert_eq!(times.to_string().parse::<ThinkTime>().unwrap().0, times, "{text}: {times}");
        }
        // Python: 3 * math.exp((math.log(20 / 3) / 1.6448536269514727) ** 2 / 2)
        let Times::Lognormal { mean, .. } = "lognormal(median=3s, p95=20s)".parse::<ThinkTime>().unwrap().0
        else {
            panic!()
        };
        assert!((mean - 5.834_217_028_181_723).abs() < 1e-9, "{mean}");
    }

    #[test]
    fn each_slip_is_named() {
        for (text, problem) in [
            ("2", "`2` has no unit"),
            ("soon", "`soon` is not a time to think; write `2s`"),
            ("exponential(2)", "`2` has no unit"),
            ("lognormal(mean=5s)", "a lognormal time needs `mean` and `cv`"),
            ("lognormal(mean=5s, cv=99)", "a `cv` of 99 is not a number from 0 to 10"),
            ("normal(mean=5s, spread=1s)", "a normal time has no `spread`"),
            ("uniform(5s..1s)", "runs backwards"),
            ("0s", "no time at all"),
        ] {
            let error = text.parse::<ThinkTime>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
        for text in ["many", "0", "file:x.csv", "9999"] {
            assert!(text.parse::<TurnCount>().is_err(), "{text}");
        }
    }

    #[test]
    fn users_and_conversations_stand_in_the_plan_and_are_read_back() {
        let text = "slo = ['ttft[first] p95 < 1s', 'ttft[later] p95 < 300ms']\n[load]\nthink = 'exponential(2s)'\n\
                    [workload]\nturns = 'uniform(2..8)'\nmax_context = 3000";
        let plan = plan(text).unwrap();
        assert!(plan.workload.has_users());
        assert_eq!((plan.workload.mean_turns(), plan.workload.mean_think()), (5.0, 2.0));
        let read: Plan = toml::from_str(&toml::to_string(&plan).unwrap()).unwrap();
        assert_eq!(read, plan);
        // The simulated engine's own limit, where none is given.
        let plain = super::tests::plan("[workload]\nturns = 3").unwrap();
        assert_eq!(plain.workload.sessions.unwrap().max_context, Some(4096));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for (text, problem) in [
            ("[workload]\nmax_context = 100", "is about conversations, but no `--turns`"),
            ("[workload]\nturns = 'all'", "there is no dataset whose turns they are"),
            ("[workload]\nturns = 3\nmax_context = 100", "do not fit `workload.max_context`"),
            ("[load]\nrate = '1..5'\nthink = '1s'", "arrivals at a rate do not come back"),
            ("slo = ['ttft[later] p95 < 1s']", "about turns of conversations, but no `--turns`"),
            (
                "slo = ['ttft p95 < 1s']\n[target]\nurl = 'http://a'\napi = 'completions'\n[workload]\nturns = 2",
                "which `/v1/completions` does not know",
            ),
        ] {
            let error = plan(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
