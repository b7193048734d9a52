//! From a run's summary to one server's figures.

use crate::capacity::{Curve, Level, ObjectiveCurve, Server};
use crate::report::document::{Document, TrialFigures};
use crate::slo::Slo;
use crate::stats::isotonic::Point;
use crate::units::Load;

/// Confidence of a run that states none.
const CONFIDENCE: f64 = 0.95;

/// One server as the run measured it; `None` where the run has no answer.
pub fn server(document: &Document) -> Option<Server> {
    let answer = &document.answer;
    let load = answer.load?;
    let at = load.value();
    // Of users who pause only those in flight are a load on the server.
    let flying = |load: f64, in_flight: Option<f64>| match (&document.users, in_flight) {
        (Some(_), Some(in_flight)) => in_flight,
        _ => load,
    };
    let in_flight = document.users.as_ref().and_then(|users| users.in_flight);
    let per_load = flying(at, in_flight) / at;
    let points = |figure: &dyn Fn(&TrialFigures) -> Option<f64>| -> Vec<Point> {
        let valid = document.trials.iter().filter(|trial| trial.is_valid() && trial.measured > 0);
        valid
            .filter_map(|trial| {
                let weight = f64::from(trial.measured);
                let x = flying(trial.load.value(), in_flight.map(|_| trial.little_concurrency));
                Some(Point { x, y: figure(trial)?, weight })
            })
            .collect()
    };
    let rates = points(&|trial| Some(trial.requests_per_second));
    let goodput = match answer.goodput {
        Some(goodput) => Level::new(goodput.requests_per_second, goodput.interval),
        None => Level::exact(nearest(document, at)?.goodput),
    };
    let mean = |metric: &str| around(document, at, |trial| Some(trial.metrics.get(metric)?.mean));
    let objectives = Slo::parse(document.slo.iter().map(String::as_str)).map(|slo| slo.objectives);
    let objectives = objectives.unwrap_or_default().into_iter().enumerate();
    let confidence = answer.interval.or(answer.goodput.and_then(|goodput| goodput.interval));
    Some(Server {
        concurrency: matches!(load, Load::Concurrency(_)).then(|| {
            let Level { low, estimate, high } = Level::new(at, answer.interval);
            Level { low: low * per_load, estimate: estimate * per_load, high: high * per_load }
        }),
        goodput,
        throughput: highest(&rates),
        confidence: confidence.map_or(CONFIDENCE, |interval| interval.confidence),
        e2e: mean("e2e"),
        isl: mean("isl"),
        osl: mean("osl"),
        objectives: objectives
            .map(|(index, objective)| ObjectiveCurve {
                objective,
                points: points(&|trial| trial.objectives.get(index)?.figure),
            })
            .collect(),
        rates,
    })
}

/// The highest rate of the curve through all trials: a single short one may be high by chance.
fn highest(rates: &[Point]) -> f64 {
    let curve = Curve::fit(rates);
    curve.end().map_or(0.0, |end| curve.value(end))
}

fn nearest(document: &Document, load: f64) -> Option<&TrialFigures> {
    let distance = |trial: &&TrialFigures| (trial.load.value() - load).abs();
    let valid = document.trials.iter().filter(|trial| trial.is_valid() && trial.measured > 0);
    valid.min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

/// Mean over the requests of the trials within 15 % of a load; of the nearest trial where there is
/// none.
fn around(document: &Document, load: f64, figure: impl Fn(&TrialFigures) -> Option<f64>) -> Option<f64> {
    let near = document
        .trials
        .iter()
        .filter(|trial| trial.is_valid() && (trial.load.value() / load).ln().abs() < 0.14)
        .filter_map(|trial| Some((f64::from(trial.measured), figure(trial)?)));
    let (weight, sum) = near.fold((0.0, 0.0), |(w, s), (weight, value)| (w + weight, s + weight * value));
    if weight > 0.0 { Some(sum / weight) } else { figure(nearest(document, load)?) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::report::sample_document;

    #[test]
    fn the_figures_are_those_of_the_summary() {
        let document = sample_document();
        let server = server(&document).unwrap();
        assert_eq!(server.concurrency, Some(Level { low: 40.0, estimate: 42.0, high: 44.0 }));
        assert_eq!(server.goodput.estimate, 10.4);
        assert!(server.throughput >= 10.4, "{}", server.throughput);
        assert_eq!(server.objectives.len(), 2);
        let near =
            document.trials.iter().find(|trial| trial.is_valid() && trial.load.value() == 42.0).unwrap();
        let e2e = near.metrics["e2e"].mean;
        assert!((server.e2e.unwrap() / e2e - 1.0).abs() < 0.15, "{:?} {e2e}", server.e2e);
    }

    #[test]
    fn void_trials_tell_nothing_and_no_answer_is_no_server() {
        let mut document = sample_document();
        document.trials.retain(|trial| trial.is_valid());
        assert_eq!(server(&document), server(&sample_document()));
        document.answer.load = None;
        assert_eq!(server(&document), None);
    }
}
