//! Loads that move: ramps of users, and traces at a speed-up.

use std::str::FromStr;

use super::error::RecipeError;
use super::quantity::{Duration, QuantityError, Rates, Speed, written_as_text, wrong};
use super::resolve::Purpose;
use super::written::LoadSection;
use crate::metrics::windows::full;
use crate::plan::{CurvePlan, LoadRange, StrategyPlan};
use crate::slo::Slo;
use crate::units::Seconds;
use crate::workload::{RampShape, UserRamp};

/// Most users of a ramp.
const MOST_USERS: u32 = 100_000;

/// How many times faster a trace is replayed: one factor, or the range of a search, `0.5..10`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speeds {
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

impl FromStr for Speeds {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let Some((low, high)) = text.split_once("..") else {
            let Speed(factor) = text.parse()?;
            return Ok(Self { min: factor, max: factor });
        };
        let high = high.strip_prefix('=').unwrap_or(high);
        let (Speed(min), Speed(max)) = (low.parse()?, high.parse()?);
        if min > max {
            return wrong(format!("`{text}` runs backwards; write `{}..{}`", high.trim(), low.trim()));
        }
        Ok(Self { min, max })
    }
}

/// [`UserRamp`] as written: `linear(1..64 in 60s)` or `exponential(1..64 in 60s)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsersRamp(pub UserRamp);

impl FromStr for UsersRamp {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let example = "write `linear(1..64 in 60s)` or `exponential(1..64 in 60s)`";
        let parts = text.trim().split_once('(').and_then(|(shape, rest)| {
            let (users, seconds) = rest.strip_suffix(')')?.split_once(" in ")?;
            let (from, to) = users.split_once("..")?;
            Some((shape.trim(), from.trim(), to.trim(), seconds))
        });
        let Some((shape, from, to, seconds)) = parts else {
            return wrong(format!("`{text}` is not a ramp of users; {example}"));
        };
        let shape = match shape {
            "linear" => RampShape::Linear,
            "exponential" => RampShape::Exponential,
            _ => return wrong(format!("`{shape}` is not a ramp; {example}")),
        };
        let users = |word: &str| match word.parse::<u32>() {
            Ok(users) if (1..=MOST_USERS).contains(&users) => Ok(users),
            Ok(_) => wrong(format!("a ramp has from 1 to {MOST_USERS} users, not {word}")),
            Err(_) if word.ends_with("/s") => wrong(format!(
                "`{word}` is a rate; a ramp of rates is written `--ramp '{text}'` (`load.ramp`)"
            )),
            Err(_) => wrong(format!("`{word}` is not a number of users; {example}")),
        };
        let (from, to, Duration(seconds)) = (users(from)?, users(to)?, seconds.trim().parse()?);
        if from == to {
            return wrong(format!("`{text}` does not move; `--concurrency {from}` measures one level"));
        }
        Ok(Self(UserRamp { from, to, seconds, shape }))
    }
}

written_as_text! {
    Speeds: {
        "description": "How many times faster a trace is replayed; in a search a range, both ends included.",
        "anyOf": [
            { "type": "string", "pattern": "^ *[0-9.]+ *[xX]? *(\\.\\.=? *[0-9.]+ *[xX]?)? *$" },
            { "type": "number", "exclusiveMinimum": 0 }
        ],
        "examples": [2, "0.5..10"]
    },
    UsersRamp: { "description": "A number of users that rises or falls, one user at a time.", "type": "string",
                 "examples": ["linear(1..64 in 60s)", "exponential(1..64 in 60s)"] },
}

/// A load that moves within a trial, as it is resolved.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Moving {
    /// How it moves.
    pub curve: CurvePlan,
    /// Its mean rate, requests a second: the least and the most that may be tried.
    pub rates: Rates,
    /// How long the shortest trial of it lasts, seconds.
    pub seconds: f64,
}

impl Moving {
    /// The rates of whole factors of speed, where those are searched.
    pub fn rate_of(&self, level: f64) -> f64 {
        match self.curve {
            CurvePlan::Trace { speed_up, .. } => level * self.rates.min / speed_up,
            CurvePlan::Rates { .. } => level,
        }
    }

    /// Refuses what cannot be measured, or not be searched.
    pub fn check(&self, purpose: Purpose, slo: &Slo, budget: Option<f64>) -> Result<(), RecipeError> {
        match (purpose, &self.curve) {
            (Purpose::Measure, CurvePlan::Trace { speed_up, fastest: Some(fastest) }) => {
                return Err(RecipeError::new(format!(
                    "`load.replay.speed_up` (`--speed-up`) is the range {speed_up}..{fastest}, and one is measured"
                ))
                .hint("give one factor; `plimsoll search --trace FILE --speed-up MIN..MAX` searches a range"));
            }
            (Purpose::Search, CurvePlan::Trace { speed_up, fastest: None }) => {
                return Err(RecipeError::new(format!(
                    "a search over a trace needs a range of speed-ups (`load.replay.speed_up`, `--speed-up`), not {speed_up}"
                ))
                .hint("for example `--speed-up 0.5..10`; `plimsoll measure --trace FILE` measures one"));
            }
            (Purpose::Search, CurvePlan::Rates { .. }) => {
                return Err(RecipeError::new("a rate series or a ramp is measured, not searched").hint(
                    "for example `plimsoll measure --ramp 'linear(1..50 in 60s)'`; `plimsoll search --rate` finds the \
                     largest rate that holds",
                ));
            }
            _ => {}
        }
        check_window(slo, self.seconds)?;
        match budget {
            Some(budget) if purpose == Purpose::Search && budget < self.seconds => {
                Err(RecipeError::new(format!(
                    "a budget of {} (`budget.duration`, `--budget`) holds no replay: at the highest speed-up one takes {}",
                    Seconds(budget),
                    Seconds(self.seconds)
                ))
                .hint("replay a part of the trace (`--window 0s..60s`), or allow more time"))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses a load that is shorter than the window of an objective.
fn check_window(slo: &Slo, seconds: f64) -> Result<(), RecipeError> {
    let too_long = |window: f64| full(seconds, window) == 0;
    let objective = slo.objectives.iter().find(|objective| objective.window.is_some_and(too_long));
    objective.map_or(Ok(()), |objective| {
        Err(RecipeError::new(format!(
            "the load lasts {}, less than a window of `{objective}`",
            Seconds(seconds)
        ))
        .hint("take a longer part of it, or judge by a shorter window"))
    })
}

/// The ramp of users that is asked for, if one is, and the strategy and loads that go with it.
pub(super) fn resolve_ramp(
    load: &LoadSection,
    purpose: Purpose,
    slo: &Slo,
) -> Result<Option<(UserRamp, StrategyPlan, LoadRange)>, RecipeError> {
    let Some(UsersRamp(ramp)) = load.ramp_users else { return Ok(None) };
    if purpose == Purpose::Search {
        return Err(RecipeError::new("a ramp of users (`load.ramp_users`) is measured, not searched").hint(
            "`plimsoll measure --ramp-users ...` measures it; `plimsoll search --concurrency MIN..MAX` searches",
        ));
    }
    check_window(slo, ramp.seconds)?;
    let range = LoadRange { min: ramp.from.min(ramp.to), max: ramp.most() };
    Ok(Some((ramp, StrategyPlan::Grid { levels: vec![ramp.most()], warm: false }, range)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::plan::Plan;
    use crate::recipe::Recipe;

    fn plan(text: &str, purpose: Purpose) -> Result<Plan, String> {
        let recipe = Recipe::from_toml(text, "test.toml").map_err(|error| error.to_string())?;
        recipe.into_plan(None, purpose).map_err(|error| error.to_string())
    }

    #[test]
    fn a_ramp_of_users_is_read_and_told_from_one_of_rates() {
        let ramp =
            |text: &str| text.parse::<UsersRamp>().map(|UsersRamp(ramp)| ramp).map_err(|e| e.to_string());
        let expected = UserRamp { from: 1, to: 64, seconds: 60.0, shape: RampShape::Linear };
        assert_eq!(ramp("linear(1..64 in 60s)"), Ok(expected));
        assert_eq!(
            ramp(" exponential( 64 .. 1 in 1m )"),
            Ok(UserRamp { from: 64, to: 1, shape: RampShape::Exponential, ..expected })
        );
        for (text, mend) in [
            ("linear(1..50/s in 60s)", "`--ramp 'linear(1..50/s in 60s)'`"),
            ("linear(0..5 in 60s)", "from 1 to"),
            ("linear(1.5..5 in 60s)", "not a number of users"),
            ("linear(5..5 in 60s)", "`--concurrency 5`"),
            ("cubic(1..5 in 60s)", "`cubic` is not a ramp"),
            ("1..5", "write `linear(1..64 in 60s)`"),
        ] {
            assert!(ramp(text).unwrap_err().contains(mend), "{text}: {:?}", ramp(text));
        }
    }

    #[test]
    fn a_ramp_of_users_is_a_plan_of_its_own_and_survives_its_file() {
        let text = "[load]\nramp_users = 'linear(4..32 in 30s)'";
        let measured = plan(text, Purpose::Measure).unwrap();
        assert_eq!(measured.load, LoadRange { min: 4, max: 32 });
        assert_eq!(measured.strategy, StrategyPlan::Grid { levels: vec![32], warm: false });
        assert_eq!(toml::from_str::<Plan>(&toml::to_string(&measured).unwrap()).unwrap(), measured);
        assert!(plan(text, Purpose::Search).unwrap_err().contains("measured, not searched"));
        let slo = format!("slo = ['ttft p95 < 1s over 31s']\n{text}");
        assert!(plan(&slo, Purpose::Measure).unwrap_err().contains("less than a window of `ttft p95"));
        let both = format!("{text}\nrate = 5");
        assert!(plan(&both, Purpose::Measure).unwrap_err().contains("and another one as well"), "{both}");
    }

    #[test]
    fn a_search_over_a_trace_takes_a_range_and_a_measurement_one_factor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, "timestamp,isl,osl\n0,10,5\n1,20,5\n4,30,5\n8,40,5\n").unwrap();
        let text = |speed: &str, more: &str| {
            format!(
                "{more}\n[workload]\ndataset = '{}'\n[load.replay]\nspeed_up = {speed}",
                path.to_string_lossy()
            )
        };
        let searched = plan(&text("'0.5..10'", ""), Purpose::Search).unwrap();
        let arrivals = searched.arrivals.clone().unwrap();
        assert_eq!((arrivals.min, arrivals.max, arrivals.trace_rate()), (0.25, 5.0, Some(0.5)));
        assert_eq!(toml::from_str::<Plan>(&toml::to_string(&searched).unwrap()).unwrap(), searched);
        let grid = plan(&text("'1..10'", "[strategy]\nlevels = [1, 4, 20]"), Purpose::Search).unwrap();
        assert_eq!(grid.arrivals.unwrap().levels, [0.5, 2.0]);
        for (speed, more, purpose, problem) in [
            ("'0.5..10'", "", Purpose::Measure, "and one is measured"),
            ("2", "", Purpose::Search, "needs a range of speed-ups"),
            ("'10..0.5'", "", Purpose::Search, "runs backwards"),
            ("'1..4'", "[budget]\nduration = '1s'", Purpose::Search, "holds no replay"),
            ("'1..4'", "slo = ['ttft p95 < 1s over 3s']", Purpose::Search, "less than a window of"),
        ] {
            let error = plan(&text(speed, more), purpose).unwrap_err();
            assert!(error.contains(problem), "{speed} {more}: {error}");
        }
    }
}
