//! What the curves are drawn through.

use super::document::{Document, TrialFigures};
use crate::plan::Plan;
use crate::slo::Objective;

/// The objective that binds (the first one where none is known), with its place in the SLO.
pub(crate) fn binding<'a>(document: &Document, plan: &'a Plan) -> Option<(usize, &'a Objective)> {
    let name = document.answer.binding_objective.as_deref();
    let objectives = || plan.slo.objectives.iter().enumerate();
    objectives()
        .find(|(_, objective)| Some(objective.to_string().as_str()) == name)
        .or_else(|| objectives().next())
}

/// Load and figure of an objective, see [`by_load`].
pub(crate) fn of_objective(document: &Document, index: usize) -> Vec<(f64, f64)> {
    // A trial that only steered has no windows: its figure is another one.
    let windows = |trial: &TrialFigures| trial.objectives.get(index).is_some_and(|o| o.windows.is_some());
    let windowed = document.trials.iter().any(windows);
    by_load(document, |trial| trial.objectives.get(index)?.figure.filter(|_| !windowed || windows(trial)))
}

/// Load and figure of the valid trials, one point a load (the mean weighted by requests), ascending.
pub(crate) fn by_load(document: &Document, figure: impl Fn(&TrialFigures) -> Option<f64>) -> Vec<(f64, f64)> {
    let mut sums: Vec<(f64, f64, f64)> = Vec::new();
    for trial in document.trials.iter().filter(|trial| trial.is_valid()) {
        let load = trial.load.value();
        let Some(figure) = figure(trial).filter(|figure| figure.is_finite() && load > 0.0) else { continue };
        let weight = f64::from(trial.measured.max(1));
        match sums.iter_mut().find(|sum| sum.0 == load) {
            Some(sum) => {
                sum.1 += weight * figure;
                sum.2 += weight;
            }
            None => sums.push((load, weight * figure, weight)),
        }
    }
    sums.sort_by(|a, b| a.0.total_cmp(&b.0));
    sums.into_iter().map(|(load, sum, weight)| (load, sum / weight)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample_document;

    #[test]
    fn trials_at_one_load_are_one_point_weighted_by_their_requests() {
        let mut document = sample_document();
        document.trials.retain(|trial| trial.is_valid() && trial.load.value() == 40.0);
        document.trials[0].goodput = 1.0;
        document.trials[0].measured = 300;
        document.trials[1].goodput = 2.0;
        document.trials[1].measured = 100;
        assert_eq!(by_load(&document, |trial| Some(trial.goodput)), [(40.0, 1.25)]);
    }

    #[test]
    fn void_trials_are_in_no_curve() {
        let document = sample_document();
        let loads: Vec<f64> = of_objective(&document, 0).iter().map(|point| point.0).collect();
        assert_eq!(loads, [1.0, 4.0, 16.0, 32.0, 40.0, 41.0, 42.0, 43.0, 44.0, 48.0, 64.0]);
    }
}
