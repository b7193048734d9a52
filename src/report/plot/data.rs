//! What is drawn: panels with their points, curves and limits, taken from the document.

use super::axis;
use crate::plan::{Lengths, Plan, TargetPlan};
use crate::report::document::{Document, TrialFigures, VerdictWord};
use crate::report::{series, words};
use crate::search::TrialKind;
use crate::slo::{Metric, Objective, Stat};

/// A whole picture.
pub(super) struct Chart {
    pub title: String,
    pub subtitle: String,
    /// Loads at the ends of the x axis.
    pub loads: (f64, f64),
    /// The answer.
    pub answer: Option<f64>,
    /// Its interval, cut to the x axis.
    pub interval: Option<(f64, f64)>,
    /// The answer as written at its line.
    pub answer_label: String,
    /// What the x axis shows, with its unit.
    pub axis: &'static str,
    pub panels: Vec<Panel>,
}

/// One diagram over the common x axis.
pub(super) struct Panel {
    /// What the y axis shows, with its unit.
    pub name: String,
    /// Top of the y axis; the bottom is 0.
    pub top: f64,
    /// What the y axis' labels are multiplied with.
    pub unit: f64,
    pub series: Vec<Series>,
    pub limit: Option<Limit>,
}

/// A limit of the SLO.
pub(super) struct Limit {
    pub value: f64,
    pub label: String,
    /// Whether figures must stay above it.
    pub is_floor: bool,
}

/// Points of one quantity.
pub(super) struct Series {
    pub hue: Hue,
    /// The curve: one point a load.
    pub curve: Vec<(f64, f64)>,
    pub points: Vec<Point>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hue {
    Throughput,
    Goodput,
    Figure,
}

/// One trial.
pub(super) struct Point {
    pub load: f64,
    pub value: f64,
    pub mark: Mark,
    /// Interval of the value, where the trial tells one.
    pub interval: Option<(f64, f64)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Measured,
    Navigation,
    Void,
}

/// How far above its limit a figure is still drawn, as a multiple of the limit: beyond, the server is
/// overloaded, and how far says nothing about the boundary.
const BEYOND: f64 = 2.2;

impl Chart {
    /// The picture of a run, or nothing where no trial has been run that could be drawn.
    pub fn new(document: &Document, plan: &Plan) -> Option<Self> {
        let drawn: Vec<f64> = drawn(document).map(|trial| trial.load.value()).collect();
        let low = drawn.iter().copied().reduce(f64::min)?;
        let high = drawn.iter().copied().reduce(f64::max)?;
        let margin = (high / low).powf(0.04).max(1.06);
        let loads = (low / margin, high * margin);
        let inside = |load: f64| load.clamp(loads.0, loads.1);
        let answer =
            document.answer.load.map(|load| load.value()).filter(|&load| load >= loads.0 && load <= loads.1);
        let interval = document
            .answer
            .interval
            .and_then(|interval| Some((inside(interval.low), inside(interval.high?))))
            .filter(|(low, high)| answer.is_some() && high > low);
        let mut panels = vec![throughput(document)];
        for (index, objective) in plan.slo.objectives.iter().enumerate() {
            // Goodput has the first panel already.
            if objective.metric != Metric::Goodput {
                panels.push(figures(document, index, objective));
            }
        }
        Some(Self {
            title: words::headline(document),
            subtitle: subtitle(document, plan),
            loads,
            answer,
            interval,
            answer_label: answer.map(words::level).unwrap_or_default(),
            axis: match words::axis_name(plan) {
                "request rate" => "request rate (arrivals a second)",
                "concurrency" => "concurrency (requests in flight)",
                named => named,
            },
            panels,
        })
    }

    /// Whether a kind of mark is to be explained.
    pub fn has(&self, mark: Mark) -> bool {
        self.panels
            .iter()
            .flat_map(|panel| &panel.series)
            .flat_map(|series| &series.points)
            .any(|p| p.mark == mark)
    }

    /// Whether a point lies above the top of its panel.
    pub fn has_beyond(&self) -> bool {
        self.panels.iter().any(|panel| {
            panel.series.iter().flat_map(|series| &series.points).any(|point| point.value > panel.top)
        })
    }
}

/// The trials that are drawn: all but warm-ups.
fn drawn(document: &Document) -> impl Iterator<Item = &TrialFigures> {
    document.trials.iter().filter(|trial| trial.kind != TrialKind::Warmup && trial.load.value() > 0.0)
}

fn throughput(document: &Document) -> Panel {
    let of = |hue: Hue, value: fn(&TrialFigures) -> f64| Series {
        hue,
        curve: series::by_load(document, |trial| Some(value(trial))),
        points: points(document, |trial| Some(value(trial)), |_| None),
    };
    let series =
        vec![of(Hue::Throughput, |trial| trial.requests_per_second), of(Hue::Goodput, |trial| trial.goodput)];
    let top = series.iter().flat_map(|series| &series.points).map(|point| point.value).fold(0.0, f64::max);
    Panel { name: "requests/s".to_owned(), top: room(top), unit: 1.0, series, limit: None }
}

fn figures(document: &Document, index: usize, objective: &Objective) -> Panel {
    let figure = |trial: &TrialFigures| trial.objectives.get(index)?.figure;
    let interval = |trial: &TrialFigures| {
        if objective.window.is_some() {
            return None;
        }
        let samples = trial.metrics.get(objective.metric.name())?;
        let interval = match objective.stat {
            Stat::Percentile(50.0) => samples.p50_interval,
            Stat::Percentile(95.0) => samples.p95_interval,
            Stat::Percentile(99.0) => samples.p99_interval,
            _ => None,
        }?;
        Some((interval.low, interval.high?))
    };
    let points = points(document, figure, interval);
    let valid = points.iter().filter(|point| point.mark != Mark::Void);
    let largest = valid.map(|point| point.value).fold(objective.threshold, f64::max);
    let top = if objective.op.wants_large() { largest } else { largest.min(objective.threshold * BEYOND) };
    let top = room(top);
    let (unit_name, unit) = match objective.metric {
        metric if metric.is_time() => axis::time_unit(top),
        Metric::Attainment | Metric::Errors => ("%", 100.0),
        _ => ("", 1.0),
    };
    let name = words::name(objective);
    Panel {
        name: if unit_name.is_empty() { name } else { format!("{name} ({unit_name})") },
        top,
        unit,
        series: vec![Series { hue: Hue::Figure, curve: series::of_objective(document, index), points }],
        limit: Some(Limit {
            value: objective.threshold,
            label: format!("SLO {}", words::limit(objective)),
            is_floor: objective.op.wants_large(),
        }),
    }
}

fn points(
    document: &Document,
    value: impl Fn(&TrialFigures) -> Option<f64>,
    interval: impl Fn(&TrialFigures) -> Option<(f64, f64)>,
) -> Vec<Point> {
    drawn(document)
        .filter_map(|trial| {
            let mark = match (trial.verdict, trial.kind) {
                (VerdictWord::Void, _) => Mark::Void,
                (_, TrialKind::Navigate) => Mark::Navigation,
                _ => Mark::Measured,
            };
            let value = value(trial).filter(|value| value.is_finite())?;
            let interval = if mark == Mark::Measured { interval(trial) } else { None };
            Some(Point { load: trial.load.value(), value, mark, interval })
        })
        .collect()
}

/// The top of an axis that shows `largest` with some room above.
fn room(largest: f64) -> f64 {
    if largest > 0.0 { largest * 1.12 } else { 1.0 }
}

/// What was measured, in one line.
fn subtitle(document: &Document, plan: &Plan) -> String {
    let slo: Vec<String> = plan
        .slo
        .objectives
        .iter()
        .map(|objective| format!("{} {}", words::name(objective), words::limit(objective)))
        .collect();
    let target = match &plan.target {
        TargetPlan::Endpoint(endpoint) => {
            let told = document.provenance.target.as_ref().and_then(|target| target.get("model")?.as_str());
            match endpoint.model.as_deref().or(told) {
                Some(model) => format!("{model} at {}", endpoint.url),
                None => endpoint.url.clone(),
            }
        }
        TargetPlan::Simulated(simulated) => format!("simulated engine `{}`", simulated.preset),
    };
    let lengths = |lengths: &Lengths| match lengths {
        Lengths::Fixed { tokens } => tokens.to_string(),
        Lengths::Lognormal { mean, .. } => format!("~{mean:.0}"),
        other => format!("~{:.0}", other.mean()),
    };
    let mut traffic = format!("ISL {}, OSL {}", lengths(&plan.workload.isl), lengths(&plan.workload.osl));
    if let Some(sessions) = &plan.workload.sessions {
        traffic.push_str(&format!(", {} turns", sessions.in_words()));
    }
    if let Some(think) = plan.workload.think {
        traffic.push_str(&format!(", pauses of {think}"));
    }
    let day = document.provenance.started.get(..10).unwrap_or_default();
    [slo.join(", "), target, traffic, day.to_owned()]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("  ·  ")
}
