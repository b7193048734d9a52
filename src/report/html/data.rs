//! The data of the page: what the script draws.

use serde::Serialize;

use super::digits;
use super::histogram::PROBABILITIES;
use super::requests::{LoadCurves, Requests, TrialSeries};
use super::telemetry::{self, TelemetrySeries};
use crate::plan::{Plan, TargetPlan};
use crate::report::document::Document;
use crate::report::terminal::{facts, remarks};
use crate::report::{series, words};
use crate::run::{Contents, PLAN_FILE};
use crate::search::TrialKind;
use crate::slo::{Metric, Objective, Stat};
use crate::verdict::Reading;

/// A reading with a variance like this has too few samples to tell one.
const UNTOLD: f64 = 1.0;

/// Everything that the page shows.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Page<'a> {
    /// The answer in one line.
    pub headline: String,
    /// What was measured, in one line.
    pub subject: String,
    /// Name of the run's folder.
    pub folder: String,
    /// Whether the run has ended.
    pub ended: bool,
    /// How the run stands, on a page that is served while it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<serde_json::Value>,
    /// Tells two states of a live page apart.
    pub revision: u64,
    /// `summary.json`.
    pub document: &'a Document,
    /// The figures beside the answer, as label and text.
    facts: Vec<(&'static str, String)>,
    /// Void trials, warnings and notes, as kind and text.
    remarks: Vec<(&'static str, String)>,
    /// What loads are called: `concurrent requests`.
    load_name: &'static str,
    objectives: Vec<ObjectiveView>,
    /// Completed requests a second, and good ones, by load.
    throughput: Vec<(f64, f64)>,
    goodput: Vec<(f64, f64)>,
    /// Where the distributions have their points.
    probabilities: &'static [f64],
    loads: Vec<LoadCurves>,
    trials: Vec<TrialSeries>,
    telemetry: Vec<TelemetrySeries>,
    /// `plan.toml`.
    plan: String,
    /// What the reader should know of the page itself.
    notes: Vec<String>,
}

/// An objective of the SLO as it is drawn.
#[derive(Clone, Debug, Serialize)]
struct ObjectiveView {
    /// In the SLO grammar, as in the document.
    text: String,
    /// Metric and statistic.
    name: String,
    /// Comparison and threshold.
    limit: String,
    metric: &'static str,
    /// The quantile that it judges, 0..1, where it judges one.
    quantile: Option<f64>,
    unit: &'static str,
    threshold: f64,
    wants_large: bool,
    binding: bool,
    /// Load and figure, one point a load.
    curve: Vec<(f64, f64)>,
    /// Interval of the figure, trial by trial.
    intervals: Vec<Option<(f64, f64)>>,
}

impl<'a> Page<'a> {
    /// The page of a run with these requests.
    pub(crate) fn new(contents: &Contents, document: &'a Document, requests: &Requests) -> Self {
        let plan = &contents.plan;
        let mut notes = Vec::new();
        let lost: Vec<String> = contents.trials_without_records().map(|id| id.to_string()).collect();
        if !lost.is_empty() {
            notes.push(format!(
                "the requests of trial {} were lost with a damaged file; its figures are from the journal",
                lost.join(", ")
            ));
        }
        if contents.ended.is_none() && !requests.is_empty() {
            notes.push(
                "the run has not ended: requests in flight at the end of its last trial are not on the disk, so that \
                 trial's time line falls off"
                    .to_owned(),
            );
        }
        let stored = std::fs::read_to_string(contents.path.join(PLAN_FILE));
        Self {
            headline: words::headline(document),
            subject: subject(document, plan),
            folder: contents
                .path
                .canonicalize()
                .unwrap_or_else(|_| contents.path.clone())
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            ended: contents.ended.is_some(),
            live: None,
            revision: 0,
            document,
            facts: facts(document, plan),
            remarks: remarks(document).into_iter().map(|(kind, _, text)| (kind, text)).collect(),
            load_name: words::load_axis(document),
            objectives: (0..)
                .zip(&plan.slo.objectives)
                .map(|(i, o)| ObjectiveView::new(document, contents, i, o))
                .collect(),
            throughput: series::by_load(document, |trial| Some(trial.requests_per_second)),
            // A navigation is too short for its share of good requests to be drawn through.
            goodput: series::by_load(document, |trial| {
                (trial.kind != TrialKind::Navigate).then_some(trial.goodput)
            }),
            probabilities: &PROBABILITIES,
            loads: requests.by_load(&document.trials),
            trials: requests.series(&document.trials),
            telemetry: telemetry::read(&contents.path),
            plan: stored.unwrap_or_default(),
            notes,
        }
    }

    /// Adds something that the reader should know of the page.
    pub(crate) fn note(&mut self, text: String) {
        self.notes.push(text);
    }
}

impl ObjectiveView {
    fn new(document: &Document, contents: &Contents, index: usize, objective: &Objective) -> Self {
        let (plan, outcomes) = (&contents.plan, contents.outcomes());
        Self {
            text: objective.to_string(),
            name: words::name(objective),
            limit: words::limit(objective),
            metric: objective.metric.name(),
            quantile: match objective.stat {
                Stat::Percentile(percent) if objective.window.is_none() => Some(percent / 100.0),
                _ => None,
            },
            unit: match objective.metric {
                metric if metric.is_time() => "seconds",
                Metric::Attainment | Metric::Errors => "share",
                Metric::Goodput => "requests/s",
                _ => "tokens/s",
            },
            threshold: objective.threshold,
            wants_large: objective.op.wants_large(),
            binding: series::binding(document, plan).is_some_and(|(binding, _)| binding == index),
            curve: series::of_objective(document, index),
            intervals: outcomes.map(|outcome| interval(outcome.readings.get(index)?, objective)).collect(),
        }
    }
}

/// The 95 % interval of an objective's figure as the trial itself tells it: the reading's variance is
/// that of the figure's logarithm. Whether the server's mood was another one at that time it cannot
/// tell; the interval of the answer can.
fn interval(reading: &Reading, objective: &Objective) -> Option<(f64, f64)> {
    let told = objective.metric.is_time() && reading.variance < UNTOLD && reading.windows.is_none();
    let figure = reading.figure.filter(|&figure| told && figure > 0.0)?;
    let factor = (1.96 * reading.variance.sqrt()).exp();
    Some((digits(figure / factor, 4), digits(figure * factor, 4)))
}

/// What was measured, and when.
fn subject(document: &Document, plan: &Plan) -> String {
    let told = document.provenance.target.as_ref().and_then(|target| target.get("model")?.as_str());
    let target = match &plan.target {
        TargetPlan::Endpoint(endpoint) => match endpoint.model.as_deref().or(told) {
            Some(model) => format!("{model} at {}", endpoint.url),
            None => endpoint.url.clone(),
        },
        TargetPlan::Simulated(simulated) => format!("simulated engine `{}`", simulated.preset),
    };
    let slo: Vec<String> = document.slo.clone();
    let when = document.provenance.started.get(..16).unwrap_or_default().replace('T', " ");
    [target, slo.join(", "), format!("{when} UTC")]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("  ·  ")
}
