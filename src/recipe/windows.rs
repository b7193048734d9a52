//! The length of trials whose SLO has windows (`ttft p99 < 800ms over 30s worst`).

use super::error::RecipeError;
use super::quantity::Duration;
use super::resolve::Purpose;
use super::written::TrialSection;
use crate::metrics::windows::full;
use crate::plan::TrialPlan;
use crate::search::windows::{WINDOWS, trial_seconds, within};
use crate::slo::Slo;
use crate::units::Seconds;

/// A trial that holds whole windows, where objectives have some: in a search always the same number, so
/// that its loads compare; in a measurement as many as are asked for.
pub(super) fn fit_windows(
    slo: &Slo,
    trial: TrialPlan,
    section: &TrialSection,
    purpose: Purpose,
) -> Result<TrialPlan, RecipeError> {
    let longest = slo.objectives.iter().filter(|objective| objective.window.is_some());
    let longest = longest.max_by(|a, b| a.window.unwrap_or(0.0).total_cmp(&b.window.unwrap_or(0.0)));
    let (Some(objective), Some(window)) = (longest, slo.longest_window()) else { return Ok(trial) };
    let most = section.max_duration.map(|Duration(seconds)| seconds);
    if let Some(most) = most.filter(|&most| full(most, window) == 0) {
        return Err(RecipeError::new(format!(
            "a trial lasts at most {} (`trial.max_duration`, `--duration`), less than a window of `{objective}`",
            Seconds(most)
        ))
        .hint(format!(
            "measure for {} or more, or judge by a shorter window",
            Seconds(window * f64::from(WINDOWS))
        )));
    }
    let fitting = within(slo, most.unwrap_or(f64::INFINITY)).unwrap_or(window);
    Ok(match (purpose, section.requests) {
        (Purpose::Search, _) => TrialPlan { min_seconds: fitting, max_seconds: fitting, ..trial },
        (Purpose::Measure, Some(_)) => {
            let min_seconds = trial.min_seconds.max(window);
            TrialPlan { min_seconds, max_seconds: trial.max_seconds.max(min_seconds), ..trial }
        }
        (Purpose::Measure, None) => {
            let min_seconds = trial.min_seconds.max(fitting);
            TrialPlan { min_seconds, max_seconds: trial.max_seconds.max(min_seconds), ..trial }
        }
    })
}

/// Refuses a budget that does not hold the two trials that an estimate needs.
pub(super) fn check_windows_budget(slo: &Slo, budget: Option<Duration>) -> Result<(), RecipeError> {
    let (Some(seconds), Some(Duration(budget))) = (trial_seconds(slo), budget) else {
        return Ok(());
    };
    if budget >= 2.0 * seconds {
        return Ok(());
    }
    Err(RecipeError::new(format!(
        "a budget of {} (`budget.duration`, `--budget`) does not hold two trials of {}, which windows of {} take",
        Seconds(budget),
        Seconds(seconds),
        Seconds(slo.longest_window().unwrap_or_default())
    ))
    .hint("allow more time, or judge by shorter windows"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::recipe::Recipe;

    fn trial(text: &str, purpose: Purpose) -> Result<TrialPlan, String> {
        let recipe = Recipe::from_toml(text, "test.toml").map_err(|error| error.to_string())?;
        recipe.into_plan(None, purpose).map(|plan| plan.trial).map_err(|error| error.to_string())
    }

    #[test]
    fn trials_hold_as_many_windows_as_a_search_compares_or_a_measurement_asks_for() {
        let slo = "slo = ['ttft p95 < 1s over 30s']\n[trial]\n";
        let seconds = |more: &str, purpose| {
            trial(&format!("{slo}{more}"), purpose)
                .map(|trial| (trial.min_seconds, trial.max_seconds))
                .unwrap()
        };
        assert_eq!(seconds("", Purpose::Search), (150.0, 150.0));
        assert_eq!(seconds("max_duration = '100s'", Purpose::Search), (90.0, 90.0));
        assert_eq!(seconds("", Purpose::Measure), (150.0, 150.0));
        assert_eq!(seconds("requests = 500", Purpose::Measure), (30.0, 120.0));
        assert_eq!(seconds("min_duration = '75s'\nmax_duration = '75s'", Purpose::Measure), (75.0, 75.0));
        for (more, problem) in [
            ("max_duration = '29s'", "less than a window of `ttft p95 < 1 s over 30 s worst`"),
            ("[budget]\nduration = '299s'", "does not hold two trials of 2 min 30 s"),
        ] {
            let error = trial(&format!("{slo}{more}"), Purpose::Search).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
