//! Capacity as a function of the limits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Runs, Trial};
use crate::search::{Judged, Place, SearchOutcome, TrialKind};
use crate::slo::{Metric, Objective, Op, Slo, Stat, Turns};
use crate::stats::isotonic::{Isotonic, Point};
use crate::stats::quantile::quantile;
use crate::units::Interval;

/// Limits of a one-dimensional frontier, and of each side of the map.
const POINTS: usize = 9;
const SIDE: usize = 6;

/// Where the limits of a frontier begin and end, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The tightest.
    pub from: f64,
    /// The loosest.
    pub to: f64,
}

/// The capacity under one SLO.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capacity {
    /// How the judgement ended.
    pub outcome: SearchOutcome,
    /// The largest load, requests in flight; 0 where none meets.
    pub load: u32,
    /// Where it lies.
    pub interval: Option<Interval>,
    /// Whether it was measured there.
    pub place: Place,
}

/// Capacity over the limit of one objective, the other limits left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Frontier {
    /// The objective without its limit, such as `ttft p95`.
    pub of: String,
    /// `(limit in seconds, capacity)`, limits ascending.
    pub points: Vec<(f64, Capacity)>,
}

/// Capacity over the limits of two objectives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Map {
    /// Limits of the first objective (rows), seconds.
    pub rows: Vec<f64>,
    /// Limits of the second (columns), seconds.
    pub columns: Vec<f64>,
    /// Capacity, row by row.
    pub cells: Vec<Vec<Capacity>>,
}

/// The frontier of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Frontiers {
    /// Over the limit of time to first token.
    pub first_token: Frontier,
    /// Over the limit of the time between tokens; absent where responses were not streamed.
    pub between_tokens: Option<Frontier>,
    /// Over both.
    pub map: Option<Map>,
}

impl Capacity {
    /// The capacity that a judgement gives.
    pub fn of(judged: &Judged) -> Self {
        let answer = &judged.answer;
        Self {
            outcome: answer.outcome,
            load: answer.load.map_or(0, |load| load.value() as u32),
            interval: answer.interval,
            place: judged.place,
        }
    }
}

/// The frontier over TTFT and over the time between tokens, with the statistics that `slo` judges
/// (p95 where it judges none). `first` and `between` set the limits; else they span what was measured.
pub fn frontiers(
    runs: &Runs,
    slo: &Slo,
    first: Option<Limits>,
    between: Option<Limits>,
) -> Option<Frontiers> {
    let ttft = objective(slo, &[Metric::Ttft]);
    let pace = objective(slo, &[Metric::Itl, Metric::Tpot]);
    let first = first.or_else(|| span(runs, &ttft))?;
    let between = between.or_else(|| span(runs, &pace));
    let one = |objective: Objective, limits: Limits| {
        let steps = steps(limits, POINTS).into_iter();
        let judged = |limit| (limit, capacity(runs, &[Objective { threshold: limit, ..objective }]));
        let points = not_falling(steps.map(judged).collect());
        Frontier { of: format!("{} {}", objective.metric.name(), objective.stat), points }
    };
    let map = between.map(|between| {
        let (rows, columns) = (steps(first, SIDE), steps(between, SIDE));
        let cell = |&row: &f64, &column: &f64| {
            let both = [Objective { threshold: row, ..ttft }, Objective { threshold: column, ..pace }];
            capacity(runs, &both)
        };
        let cells = rows.iter().map(|row| columns.iter().map(|c| cell(row, c)).collect()).collect();
        Map { rows, columns, cells }
    });
    Some(Frontiers {
        first_token: one(ttft, first),
        between_tokens: between.map(|limits| one(pace, limits)),
        map,
    })
}

/// A looser limit is met by no fewer: loads that contradict each other are drawn together (isotonic
/// regression), those that were measured with four times the weight of the others.
fn not_falling(mut points: Vec<(f64, Capacity)>) -> Vec<(f64, Capacity)> {
    let answered = |capacity: &Capacity| capacity.interval.is_some();
    let known: Vec<Point> = points
        .iter()
        .filter(|(_, capacity)| answered(capacity))
        .map(|(limit, capacity)| Point {
            x: *limit,
            y: f64::from(capacity.load),
            weight: if capacity.place == Place::Within { 4.0 } else { 1.0 },
        })
        .collect();
    let fit = Isotonic::fit(&known);
    for (limit, capacity) in points.iter_mut().filter(|(_, capacity)| answered(capacity)) {
        let Some(at) = fit.x.iter().position(|x| x == limit) else { continue };
        capacity.load = fit.y[at].round() as u32;
        if let Some(interval) = &mut capacity.interval {
            interval.low = interval.low.min(f64::from(capacity.load));
            interval.high = interval.high.map(|high| high.max(f64::from(capacity.load)));
        }
    }
    points
}

fn capacity(runs: &Runs, objectives: &[Objective]) -> Capacity {
    let texts: Vec<String> = objectives.iter().map(ToString::to_string).collect();
    // Written by the grammar's own printer, so that it reads back; limits follow from the objectives.
    match Slo::parse(texts.iter().map(String::as_str)) {
        Ok(slo) => Capacity::of(&runs.answered(&slo)),
        Err(_) => Capacity {
            outcome: SearchOutcome::Void,
            load: 0,
            interval: None,
            place: Place::Beyond { next: 1 },
        },
    }
}

/// The objective of `slo` on one of `metrics`, else `p95` of the last of them.
fn objective(slo: &Slo, metrics: &[Metric]) -> Objective {
    let given = slo.objectives.iter().find(|objective| {
        metrics.contains(&objective.metric) && matches!(objective.stat, Stat::Percentile(_) | Stat::Mean)
    });
    // Trials that were not sized for windows tell of whole trials.
    given.map(Objective::whole).unwrap_or(Objective {
        metric: metrics.last().copied().unwrap_or(Metric::Ttft),
        turns: Turns::All,
        stat: Stat::Percentile(95.0),
        op: Op::Less,
        threshold: 1.0,
        window: None,
    })
}

/// The limits between the objective's figure at light load and at the heaviest.
fn span(runs: &Runs, objective: &Objective) -> Option<Limits> {
    let p = match objective.stat {
        Stat::Percentile(p) => p / 100.0,
        _ => 0.5,
    };
    let trials = || runs.trials().filter(|trial| trial.spec.kind != TrialKind::Warmup);
    let figure = |trial: &Trial| {
        let mut samples = Vec::new();
        for record in trial.measured().iter().filter(|record| record.is_completed()) {
            match objective.metric {
                Metric::Itl => record.for_each_itl(|gap| samples.push(gap)),
                metric => samples.extend(metric.of_request(record)),
            }
        }
        samples.sort_unstable_by(f64::total_cmp);
        (samples.len() >= 10).then(|| quantile(&samples, p)).filter(|figure| *figure > 0.0)
    };
    let low = trials().filter_map(figure).reduce(f64::min)?;
    // Trials that only steered ended in whatever state they were in.
    let fixed = trials().filter(|trial| trial.spec.kind != TrialKind::Navigate).filter_map(figure);
    let high = fixed.reduce(f64::max).or_else(|| trials().filter_map(figure).reduce(f64::max))?;
    // From just above the best that was seen to where the worst still passes.
    Some(Limits { from: round(low * 1.05), to: round((high * 1.2).max(low * 1.5)) })
}

/// Limits evenly apart on the log scale, each a number that people write.
fn steps(limits: Limits, count: usize) -> Vec<f64> {
    let ratio = (limits.to / limits.from).max(1.0);
    let mut steps: Vec<f64> = (0..count)
        .map(|k| {
            let exact = limits.from * ratio.powf(k as f64 / (count - 1) as f64);
            if k == 0 {
                limits.from
            } else if k == count - 1 {
                limits.to
            } else {
                round(exact)
            }
        })
        .collect();
    steps.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
    steps
}

/// Two significant digits.
fn round(value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor() - 1.0);
    // Through micro-units, so that no digits of the division stay.
    ((value / unit).round() * unit * 1e7).round() / 1e7
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_round_ascending_and_end_where_asked() {
        let limits = steps(Limits { from: 0.2, to: 2.0 }, 5);
        assert_eq!(limits, [0.2, 0.36, 0.63, 1.1, 2.0]);
        assert_eq!(steps(Limits { from: 0.5, to: 0.5 }, 4), [0.5]);
    }
}
