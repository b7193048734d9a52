//! `summary.json`: a run's answer and figures as data, under a versioned schema.
//!
//! Times are seconds, rates per second, shares 0..1. Fields may be added within a version; none is
//! renamed, removed or changed in meaning. `docs/summary-schema.json` is the schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rate_check::rate_check;
use super::repeats::RepeatsDocument;
use crate::controller::{flags, in_words};
use crate::loadgen::{ClientHealth, Failure};
use crate::metrics::arrivals::ArrivalFigures;
use crate::metrics::{ColdStart, Counts, Distribution, SessionFigures, Slice};
use crate::observed::{GpuFigures, HostFigures, ServerFigures};
use crate::plan::{Engine, Plan, TargetPlan};
use crate::run::{Contents, Cost};
use crate::search::{
    Answer, Bottleneck, Boundary, Goodput, Resolution, SearchOutcome, TrialKind, TrialOutcome, bottleneck,
};
use crate::units::{Interval, Load};
use crate::verdict::{Checks, Verdict, Windows};

/// Version of the schema.
pub const SUMMARY_VERSION: u32 = 1;

/// The answer of a run and the figures that it stands on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "plimsoll summary")]
pub struct Document {
    /// Version of this schema.
    pub schema_version: u32,
    /// How the search ended.
    pub outcome: SearchOutcome,
    /// What it found.
    pub answer: AnswerDocument,
    /// What limits the server beyond the answer's load; null where no limit was reached.
    #[serde(default)]
    pub bottleneck: Option<Bottleneck>,
    /// The objectives, in the SLO grammar.
    pub slo: Vec<String>,
    /// The trials, in the order in which they were run.
    pub trials: Vec<TrialFigures>,
    /// What the first requests of the run cost, against those of the steady state; absent where its warm-up
    /// was too short to tell, or where it had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold_start: Option<ColdStart>,
    /// What the run took.
    pub cost: Cost,
    /// What the reader should know before trusting the figures.
    pub warnings: Vec<String>,
    /// The open-loop check at the request rate of a closed-loop answer (`--verify-rate`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_check: Option<TrialFigures>,
    /// Several whole searches (`--repeats`), whose answer this is; absent for a single one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<RepeatsDocument>,
    /// Users who pause or hold conversations; absent where a user is a request in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<UsersDocument>,
    /// Where the figures come from.
    pub provenance: Provenance,
}

/// Users who pause or hold conversations: a load of `concurrency` is their number then, and one of
/// `request_rate` counts conversations where they hold some.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsersDocument {
    /// Turns of a conversation, as planned; null without conversations.
    pub turns: Option<String>,
    /// How long a user pauses after each answer, as planned; null where nobody does.
    pub think: Option<String>,
    /// Mean of that pause, seconds.
    pub mean_think: f64,
    /// Requests in flight on average at the answer (Little's law); null without an answer.
    pub in_flight: Option<f64>,
}

/// What the search found. Fields are null where the run cannot tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerDocument {
    /// The largest load that meets the SLO, as estimated.
    pub load: Option<Load>,
    /// Where it lies with the stated confidence, in the unit of `load`.
    pub interval: Option<Interval>,
    /// A load that is safe: the lower end of the interval.
    pub safe_load: Option<Load>,
    /// The largest load at which a trial met the SLO.
    pub largest_met: Option<Load>,
    /// The smallest load at which a trial missed the SLO.
    pub smallest_missed: Option<Load>,
    /// Shape of the curve at the boundary.
    pub boundary: Option<Boundary>,
    /// The objective that is missed first as load grows.
    pub binding_objective: Option<String>,
    /// Probability that it is this objective that binds, 0..1.
    pub binding_probability: Option<f64>,
    /// How finely `load` is known, and what finer would cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// Requests a second within the SLO at `load`.
    pub goodput: Option<Goodput>,
    /// What limits the server, in words.
    pub bottleneck: Option<String>,
    /// What the reader should know beside the figures.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialFigures {
    /// Number of the trial within the run, from 1.
    pub id: u32,
    /// The load that it was run at.
    pub load: Load,
    /// What it was for.
    pub kind: TrialKind,
    /// The judgement.
    pub verdict: VerdictWord,
    /// Why the measurement is not valid, and what to do about it; null unless `verdict` is `void`.
    pub void_reason: Option<String>,
    /// The same as one word for programs (`buffered_stream`, `infrastructure`, ...).
    pub void_cause: Option<String>,
    /// How its requests ended.
    pub requests: Counts,
    /// Requests that were counted (completed or failed).
    pub measured: u32,
    /// Each objective of the SLO, in order.
    pub objectives: Vec<ObjectiveFigure>,
    /// `ttft`, `ttst`, `itl`, `tpot`, `stall`, `e2e` in seconds; `output-tokens-per-second-per-user`;
    /// `isl`, `osl` in tokens.
    pub metrics: BTreeMap<String, Distribution>,
    /// Completed requests a second.
    pub requests_per_second: f64,
    /// Prompt tokens a second.
    pub input_tokens_per_second: f64,
    /// Output tokens a second.
    pub output_tokens_per_second: f64,
    /// Requests a second that keep every limit of the SLO.
    pub goodput: f64,
    /// Share of the counted requests that keep every limit.
    pub attainment: f64,
    /// Share of the counted requests that failed.
    pub error_rate: f64,
    /// Failures by kind.
    pub errors: BTreeMap<Failure, u32>,
    /// Requests in flight on average by Little's law.
    pub little_concurrency: f64,
    /// Mean output tokens a chunk.
    pub tokens_per_chunk: f64,
    /// What its requests show of the measurement itself.
    #[serde(default)]
    pub checks: Checks,
    /// How fit the client was over the measured window; null where that is not known.
    #[serde(default)]
    pub client: Option<ClientHealth>,
    /// When the level began to move, seconds on the run's clock.
    pub began: f64,
    /// When the level had settled.
    pub settled: f64,
    /// When the trial ended.
    pub ended: f64,
    /// Length of the trial, seconds.
    pub seconds: f64,
    /// Length of the measured window, seconds.
    pub window_seconds: f64,
    /// What the server said of itself over the measured window, where it says something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerFigures>,
    /// This machine over the measured window, where it can be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostFigures>,
    /// The GPUs over the measured window, where they can be looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuFigures>,
    /// Energy of the GPUs for an output token, joules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy_per_output_token: Option<f64>,
    /// What an open loop did; absent for a closed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<ArrivalFigures>,
    /// What the first requests of the load cost: in a warm-up, and in what `measure --json` prints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold_start: Option<ColdStart>,
    /// The trial slice by slice, where its load moved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<Slice>,
    /// What the turns of conversations show; absent where requests stand alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<SessionFigures>,
}

/// A verdict as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerdictWord {
    /// Every objective is met.
    Met,
    /// At least one objective is missed.
    Missed,
    /// The samples do not tell.
    Undecided,
    /// The measurement is not valid; it counts neither way.
    Void,
}

/// What a trial says of one objective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ObjectiveFigure {
    /// The objective, in the SLO grammar.
    pub objective: String,
    /// Its figure (seconds, a rate, a share), where there were samples.
    pub figure: Option<f64>,
    /// Its threshold, in the same unit.
    pub limit: f64,
    /// Whether the samples as they stand keep it.
    pub met: Option<bool>,
    /// Samples beyond the threshold.
    pub over: u32,
    /// Samples in all; 0 for an objective that is not judged by counting.
    pub of: u32,
    /// The windows of an objective that has some; the figure is that of the worst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<Windows>,
}

/// Where the figures come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Provenance {
    /// Version of plimsoll that measured.
    pub plimsoll: String,
    /// Name of the recipe.
    pub recipe: String,
    /// When the run began, RFC 3339, UTC.
    pub started: String,
    /// Seed of every random stream.
    pub seed: u64,
    /// Hash of `plan.toml`.
    pub plan_hash: String,
    /// What the target said of itself (engine, version, model, hardware).
    pub target: Option<serde_json::Value>,
}

/// One trial on its own, as `measure --json` prints it: an element of [`Document::trials`] with the
/// SLO that it was judged by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialDocument {
    /// Version of the schema.
    pub schema_version: u32,
    /// The figures.
    #[serde(flatten)]
    pub trial: TrialFigures,
    /// The objectives, in the SLO grammar.
    pub slo: Vec<String>,
    /// What the reader should know before trusting the figures.
    pub warnings: Vec<String>,
}

/// The cold start of a run: that of its first warm-up.
pub fn cold_start<'a>(outcomes: impl IntoIterator<Item = &'a TrialOutcome>) -> Option<ColdStart> {
    outcomes.into_iter().find(|outcome| outcome.spec.kind == TrialKind::Warmup)?.cold_start
}

impl Document {
    /// Puts a run's answer and trials together.
    pub fn new<'a>(
        plan: &Plan,
        answer: &Answer,
        outcomes: impl IntoIterator<Item = &'a TrialOutcome>,
        cost: Cost,
        warnings: &[String],
        provenance: Provenance,
    ) -> Self {
        let outcomes: Vec<&TrialOutcome> = outcomes.into_iter().collect();
        let engine = engine_of(plan, provenance.target.as_ref());
        let bottleneck = bottleneck(&plan.slo, engine, answer, outcomes.iter().copied());
        let bottleneck = if plan.workload.has_users() { bottleneck.map(of_users) } else { bottleneck };
        let line = bottleneck.as_ref().map(Bottleneck::line);
        let cold_start = cold_start(outcomes.iter().copied());
        let trials: Vec<TrialFigures> =
            outcomes.into_iter().map(|outcome| TrialFigures::new(plan, outcome)).collect();
        Self {
            schema_version: SUMMARY_VERSION,
            users: users(plan, answer.load.or(answer.largest_met), &trials),
            outcome: answer.outcome,
            answer: AnswerDocument { bottleneck: line, ..AnswerDocument::from(answer) },
            bottleneck,
            slo: plan.slo.clone().into(),
            trials,
            cold_start,
            cost,
            warnings: warnings.to_vec(),
            rate_check: None,
            repeats: None,
            provenance,
        }
    }

    /// The document of a run folder. A run that was killed before it had an answer is interrupted;
    /// what its trials have met and missed so far is told.
    pub fn of_run(contents: &Contents) -> Self {
        let answer = match &contents.ended {
            Some(ended) => ended.answer.clone(),
            None => so_far(contents.outcomes()),
        };
        let provenance = Provenance {
            plimsoll: contents.started.version.clone(),
            recipe: contents.plan.name.clone(),
            started: contents.started.utc.clone(),
            seed: contents.plan.seed,
            plan_hash: contents.started.plan_hash.clone(),
            target: contents.target.clone(),
        };
        let flags = flags(&contents.plan, contents.outcomes());
        let flags = flags.iter().map(|warning| in_words(&contents.plan, warning));
        let (check, problem) = match rate_check(&contents.path) {
            Ok(check) => (check, None),
            Err(problem) => (None, Some(problem)),
        };
        let warnings: Vec<String> = contents.warnings.iter().cloned().chain(flags).chain(problem).collect();
        let all = contents.outcomes();
        let mut document = Self::new(&contents.plan, &answer, all, contents.cost, &warnings, provenance);
        document.rate_check = check;
        document
    }

    /// The document as JSON, indented, with a newline at its end.
    pub fn to_json(&self) -> String {
        to_json(self)
    }
}

impl TrialDocument {
    /// A trial with the SLO of its plan.
    pub fn new(plan: &Plan, outcome: &TrialOutcome, warnings: &[String]) -> Self {
        Self {
            schema_version: SUMMARY_VERSION,
            trial: TrialFigures::new(plan, outcome),
            slo: plan.slo.clone().into(),
            warnings: warnings.to_vec(),
        }
    }

    /// The same with the cold start of its run, which lies before this trial.
    #[must_use]
    pub fn after(mut self, cold_start: Option<ColdStart>) -> Self {
        self.trial.cold_start = cold_start;
        self
    }

    /// The document as JSON, indented, with a newline at its end.
    pub fn to_json(&self) -> String {
        to_json(self)
    }
}

pub(super) fn to_json(document: &impl Serialize) -> String {
    // Every key is a text and every value plain data, so that there is nothing to fail on.
    let mut text = serde_json::to_string_pretty(document).unwrap_or_default();
    text.push('\n');
    text
}

/// The kind of server, for advice: as the target said, else as planned.
fn engine_of(plan: &Plan, target: Option<&serde_json::Value>) -> Option<Engine> {
    let said = target.and_then(|target| target.get("engine")).cloned();
    let planned = match &plan.target {
        TargetPlan::Endpoint(endpoint) => endpoint.engine,
        TargetPlan::Simulated(_) => Some(Engine::Simulated),
    };
    said.and_then(|engine| serde_json::from_value(engine).ok()).or(planned)
}

/// Loads this near each other (log scale) have about the same share of users in flight.
const NEARBY: f64 = 0.2;

/// What the users of a plan do, and how many of them are in flight at a load.
fn users(plan: &Plan, load: Option<Load>, trials: &[TrialFigures]) -> Option<UsersDocument> {
    let workload = &plan.workload;
    let near = load.map(|load| {
        let near = trials.iter().filter(|trial| {
            trial.is_valid()
                && trial.kind != TrialKind::Navigate
                && (trial.load.value() / load.value()).ln().abs() < NEARBY
        });
        let each: Vec<f64> = near.map(|trial| trial.little_concurrency / trial.load.value()).collect();
        load.value() * each.iter().sum::<f64>() / each.len() as f64
    });
    workload.has_users().then(|| UsersDocument {
        turns: workload.sessions.as_ref().map(|sessions| sessions.in_words()),
        think: workload.think.map(|think| think.to_string()),
        mean_think: workload.mean_think(),
        in_flight: near.filter(|flying| flying.is_finite()),
    })
}

/// The same with loads called what they are.
fn of_users(bottleneck: Bottleneck) -> Bottleneck {
    let evidence = bottleneck.evidence.iter().map(|text| text.replace(" concurrent", " users")).collect();
    Bottleneck { evidence, ..bottleneck }
}

/// What the trials of an unfinished search have met and missed.
fn so_far<'a>(outcomes: impl Iterator<Item = &'a TrialOutcome>) -> Answer {
    let (mut largest_met, mut smallest_missed) = (None, None);
    for outcome in outcomes.filter(|outcome| outcome.spec.kind != TrialKind::Warmup) {
        let load = outcome.spec.load;
        match outcome.verdict {
            Verdict::Met if largest_met.is_none_or(|best| load > best) => largest_met = Some(load),
            Verdict::Missed if smallest_missed.is_none_or(|best| load < best) => smallest_missed = Some(load),
            _ => {}
        }
    }
    Answer { largest_met, smallest_missed, ..Answer::bare(SearchOutcome::Interrupted) }
}

impl From<&Answer> for AnswerDocument {
    fn from(answer: &Answer) -> Self {
        Self {
            load: answer.load,
            interval: answer.interval,
            safe_load: answer.safe_load,
            largest_met: answer.largest_met,
            smallest_missed: answer.smallest_missed,
            boundary: answer.boundary,
            binding_objective: answer.binding_objective.clone(),
            binding_probability: answer.binding_probability,
            resolution: answer.resolution,
            goodput: answer.goodput,
            bottleneck: None,
            notes: answer.notes.clone(),
        }
    }
}

impl TrialFigures {
    fn new(plan: &Plan, outcome: &TrialOutcome) -> Self {
        let summary = &outcome.summary;
        let (void_reason, void_cause) = match &outcome.verdict {
            Verdict::Void(reason) => {
                let tagged = serde_json::to_value(reason).unwrap_or_default();
                let cause = tagged.get("cause").and_then(|cause| cause.as_str()).map(str::to_owned);
                (Some(reason.to_string()), cause)
            }
            _ => (None, None),
        };
        let objectives = plan.slo.objectives.iter().zip(&outcome.readings);
        Self {
            id: outcome.id,
            load: outcome.spec.load,
            kind: outcome.spec.kind,
            verdict: VerdictWord::from(&outcome.verdict),
            void_reason,
            void_cause,
            requests: outcome.counts,
            measured: summary.requests,
            objectives: objectives
                .map(|(objective, reading)| ObjectiveFigure {
                    objective: objective.to_string(),
                    figure: reading.figure,
                    limit: objective.threshold,
                    met: reading.holds(objective),
                    over: reading.over,
                    of: reading.of,
                    windows: reading.windows,
                })
                .collect(),
            metrics: summary.metrics.clone(),
            requests_per_second: summary.requests_per_second,
            input_tokens_per_second: summary.input_tokens_per_second,
            output_tokens_per_second: summary.output_tokens_per_second,
            goodput: summary.goodput,
            attainment: summary.attainment,
            error_rate: summary.error_rate,
            errors: summary.errors.clone(),
            little_concurrency: summary.little_concurrency,
            tokens_per_chunk: summary.tokens_per_chunk,
            checks: outcome.checks.clone(),
            client: outcome.client,
            began: outcome.began,
            settled: outcome.settled,
            ended: outcome.ended,
            seconds: outcome.ended - outcome.began,
            window_seconds: summary.window,
            server: outcome.server,
            host: outcome.host,
            gpu: outcome.gpu,
            energy_per_output_token: outcome
                .gpu
                .and_then(|gpu| gpu.energy_per_token(summary.output_tokens_per_second * summary.window)),
            arrivals: outcome.arrivals,
            cold_start: outcome.cold_start,
            slices: outcome.slices.clone(),
            sessions: summary.sessions.clone(),
        }
    }

    /// Whether the trial's figures may be drawn as the server's: neither void nor a warm-up.
    pub fn is_valid(&self) -> bool {
        self.verdict != VerdictWord::Void && self.kind != TrialKind::Warmup
    }
}

impl From<&Verdict> for VerdictWord {
    fn from(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Met => Self::Met,
            Verdict::Missed => Self::Missed,
            Verdict::Undecided => Self::Undecided,
            Verdict::Void(_) => Self::Void,
        }
    }
}

#[cfg(test)]
mod tests;
