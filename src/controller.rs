//! A whole run: ask the strategy, run the trial, keep what came of it, tell the strategy.

use std::collections::HashSet;
use std::mem::Discriminant;

use thiserror::Error;

use crate::loadgen::process_cpu_seconds as cpu_seconds;
use crate::loadgen::record::RequestRecord;
use crate::loadgen::session::{Session, SessionError};
use crate::plan::{CurvePlan, Plan};
use crate::run::{Cost, Observer, Progress, RunError, RunFolder};
use crate::search::{self, Answer, Ask, SearchOutcome, Strategy, TrialOutcome, TrialSpec};
use crate::target::{Target, TargetError};
use crate::telemetry::{Telemetry, TelemetryError};
use crate::trial::{Finished, OpenLoad, Trials};
use crate::verdict::{Warning, warnings};
use crate::workload::dataset::Dataset;

/// Times a target that has gone is waited for, and the first wait, seconds; each is twice the last.
const RETURNS: (u32, f64) = (3, 2.0);

/// First rest before a trial that the infrastructure has voided is run again, seconds; each further
/// one in a row is twice the last.
const RESTS: f64 = 1.0;

/// What a run found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The answer.
    pub answer: Answer,
    /// Every trial, those of an earlier part of the run first.
    pub outcomes: Vec<TrialOutcome>,
    /// What the run took.
    pub cost: Cost,
    /// What the reader should know.
    pub warnings: Vec<String>,
    /// Why the run ended before its time, if it did.
    pub cut_short: Option<String>,
}

/// A run that cannot go on.
#[derive(Debug, Error)]
pub enum ControllerError {
    /// The target could not be opened.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Something that was asked for beside the requests cannot be looked at.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// What was measured could not be kept.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The journal holds trials that this version would not have asked for.
    #[error(
        "trial {id} of the journal is not the one that the plan leads to; the run was made by another version: `plimsoll replay` with that version, or start a new run"
    )]
    OtherCourse {
        /// The trial.
        id: u32,
    },
}

/// Runs the plan's search on a target, taking up after `past` trials of the same run.
///
/// # Errors
/// When the target cannot be opened or the run folder not written. A target that is lost in the
/// middle is no error: what was measured is the answer, cut short.
pub async fn search<T: Target>(
    plan: &Plan,
    target: &mut T,
    folder: &mut RunFolder,
    past: &[TrialOutcome],
    spent: Cost,
    observer: &mut dyn Observer,
) -> Result<Found, ControllerError> {
    search_by(search::strategy(plan).as_mut(), plan, target, folder, past, spent, observer).await
}

/// The same with a strategy of the caller's.
///
/// # Errors
/// As [`search()`].
pub async fn search_by<T: Target>(
    strategy: &mut dyn Strategy,
    plan: &Plan,
    target: &mut T,
    folder: &mut RunFolder,
    past: &[TrialOutcome],
    spent: Cost,
    observer: &mut dyn Observer,
) -> Result<Found, ControllerError> {
    replay(strategy, past)?;
    let mut run = Run {
        plan,
        folder,
        observer,
        outcomes: past.to_vec(),
        spent,
        cpu_before: cpu_seconds(),
        warnings: Vec::new(),
        telemetry: match target.client() {
            Some(client) => Some(Telemetry::start(client, &plan.telemetry, &plan.target).await?),
            None => None,
        },
        flagged: HashSet::new(),
    };
    let (cut_short, late) = run.drive(strategy, target).await?;
    if let Some(telemetry) = run.telemetry.take() {
        run.folder.telemetry(telemetry.take_lines())?;
    }
    let mut answer = strategy.answer();
    if cut_short.is_some() && answer.outcome != SearchOutcome::Void {
        answer.outcome = SearchOutcome::Interrupted;
    }
    let cost = run.cost();
    run.folder.ended(&answer, cost, late)?;
    run.observer.finished(&answer);
    let flags = flags(plan, &run.outcomes).into_iter().map(|warning| in_words(plan, &warning));
    let warnings = run.warnings.into_iter().chain(flags).collect();
    Ok(Found { answer, outcomes: run.outcomes, cost, warnings, cut_short })
}

/// Tells a strategy the trials of a journal, checking that it asks for just these.
///
/// # Errors
/// When it asks for another.
pub fn replay(strategy: &mut dyn Strategy, past: &[TrialOutcome]) -> Result<(), ControllerError> {
    for outcome in past {
        match strategy.ask() {
            Ask::Trial(spec) if spec == outcome.spec => strategy.tell(outcome),
            _ => return Err(ControllerError::OtherCourse { id: outcome.id }),
        }
    }
    Ok(())
}

/// The open loop of a plan, with the timestamps of its trace where it replays one.
fn open_load(plan: &Plan) -> Result<Option<OpenLoad>, ControllerError> {
    let Some(arrivals) = &plan.arrivals else { return Ok(None) };
    let instants = match (&arrivals.curve, &plan.workload.source) {
        (Some(CurvePlan::Trace { .. }), Some(source)) => {
            let dataset = Dataset::open(source).map_err(TargetError::from)?;
            Some(dataset.times().map_err(TargetError::from)?.into())
        }
        _ => None,
    };
    Ok(Some(OpenLoad::of(arrivals, plan.seed).at(instants)))
}

struct Run<'a> {
    plan: &'a Plan,
    folder: &'a mut RunFolder,
    observer: &'a mut dyn Observer,
    outcomes: Vec<TrialOutcome>,
    /// What earlier parts of the run took.
    spent: Cost,
    cpu_before: f64,
    warnings: Vec<String>,
    /// What is looked at beside the requests, on a live endpoint.
    telemetry: Option<Telemetry>,
    /// Kinds of warnings that were shown.
    flagged: HashSet<Discriminant<Warning>>,
}

/// What the valid trials of a run give reason to warn of.
pub fn flags<'a>(plan: &Plan, outcomes: impl IntoIterator<Item = &'a TrialOutcome>) -> Vec<Warning> {
    warnings(&plan.slo, outcomes.into_iter().filter_map(TrialOutcome::seen))
}

/// A warning in words, its load called what it is in the plan.
pub fn in_words(plan: &Plan, warning: &Warning) -> String {
    if plan.workload.has_users() { warning.of_users() } else { warning.to_string() }
}

impl Run<'_> {
    /// Runs trials until the strategy is done or the run is cut short. Gives the reason for the
    /// latter, and the records of what was in flight at the end.
    async fn drive<T: Target>(
        &mut self,
        strategy: &mut dyn Strategy,
        target: &mut T,
    ) -> Result<(Option<String>, Vec<RequestRecord>), ControllerError> {
        let mut late = Vec::new();
        let mut returns = 0;
        loop {
            let Ask::Trial(_) = strategy.ask() else { return Ok((None, late)) };
            let clock = self.outcomes.last().map_or(0.0, |outcome| outcome.ended);
            let next_request = self.spent.requests;
            let session = target.open(clock.max(self.spent.seconds), next_request).await?;
            if let Some(telemetry) = &self.telemetry {
                telemetry.set_clock(session.now());
            }
            let first = self.outcomes.last().map_or(1, |outcome| outcome.id + 1);
            let open = open_load(self.plan)?;
            let mut trials = Trials::new(session, self.plan.slo.clone(), self.plan.budget, first, true)
                .after(next_request)
                .with_open_loop(open)
                .with_user_ramp(self.plan.ramp)
                .with_users(&self.plan.workload);
            let ended = self.trials(strategy, &mut trials).await?;
            self.spent = Cost { seconds: trials.now(), requests: trials.issued(), ..self.spent };
            late.extend(trials.close().await);
            match ended {
                None => {}
                Some(SessionError::Unreachable { detail, .. }) if returns < RETURNS.0 => {
                    let wait = RETURNS.1 * f64::from(1_u32 << returns);
                    returns += 1;
                    self.warn(format!(
                        "the target was lost ({detail}); trying again in {wait:.0} s, {returns} of {}",
                        RETURNS.0
                    ))?;
                    tokio::time::sleep(std::time::Duration::from_secs_f64(wait)).await;
                }
                Some(SessionError::OutOfBudget) => {
                    strategy.stop();
                    return Ok((None, late));
                }
                Some(error) => return Ok((Some(error.to_string()), late)),
            }
        }
    }

    /// Runs trials on one load until the strategy is done; of a trace whose speed-up is searched, one trial,
    /// as a trace is replayed from its beginning on a load of its own.
    async fn trials<S: Session>(
        &mut self,
        strategy: &mut dyn Strategy,
        trials: &mut Trials<S>,
    ) -> Result<Option<SessionError>, ControllerError> {
        let mut in_a_row = 0;
        while let Ask::Trial(spec) = strategy.ask() {
            self.folder.trial_asked(&spec)?;
            self.observer.trial_started(&spec, strategy.remaining());
            match self.one(&spec, trials).await {
                Ok(Finished { mut outcome, records }) => {
                    if let Some(telemetry) = &self.telemetry {
                        let seen = telemetry.figures(outcome.settled, outcome.ended);
                        outcome.server = seen.server.or(outcome.server);
                        (outcome.host, outcome.gpu) = (seen.host, seen.gpu);
                        self.folder.telemetry(telemetry.take_lines())?;
                    }
                    self.spent =
                        Cost { seconds: outcome.ended, requests: outcome.issued_total, ..self.spent };
                    let cost = self.cost();
                    self.folder.trial_ended(&outcome, cost, records)?;
                    self.observer.trial_ended(&outcome);
                    strategy.tell(&outcome);
                    let wait = outcome.may_pass().then(|| RESTS * f64::from(1_u32 << in_a_row.min(4)));
                    in_a_row = if wait.is_some() { in_a_row + 1 } else { 0 };
                    self.outcomes.push(outcome);
                    self.note_flags();
                    if let Some(wait) = wait
                        && let Err(error) = trials.rest(wait).await
                    {
                        return Ok(Some(error));
                    }
                    if self.plan.arrivals.as_ref().is_some_and(|plan| plan.trace_rate().is_some()) {
                        return Ok(None);
                    }
                }
                Err(error) => return Ok(Some(error)),
            }
        }
        Ok(None)
    }

    async fn one<S: Session>(
        &mut self,
        spec: &TrialSpec,
        trials: &mut Trials<S>,
    ) -> Result<Finished, SessionError> {
        let observer = &mut *self.observer;
        trials
            .run(spec, &mut |glance| {
                observer.trial_progress(&Progress {
                    elapsed: glance.elapsed,
                    samples: if glance.settled { glance.samples.0 } else { 0 },
                    wanted: glance.samples.1,
                    figures: glance.readings.iter().map(|reading| reading.figure).collect(),
                });
            })
            .await
    }

    /// Shows what the trials so far give reason to warn of, each kind once. It is not stored: whoever
    /// reads the trials draws it from them again, with the figures of the whole run.
    fn note_flags(&mut self) {
        for warning in flags(self.plan, &self.outcomes) {
            let kind = std::mem::discriminant(&warning);
            // A later trial of the same level may still bring the requests that are missing.
            let early = matches!(warning, Warning::FewSamples { .. });
            if !early && self.flagged.insert(kind) {
                self.observer.warning(&in_words(self.plan, &warning));
            }
        }
    }

    fn cost(&self) -> Cost {
        Cost {
            client_cpu_seconds: self.spent.client_cpu_seconds + cpu_seconds() - self.cpu_before,
            ..self.spent
        }
    }

    fn warn(&mut self, text: String) -> Result<(), RunError> {
        self.observer.warning(&text);
        self.folder.warn(&text)?;
        self.warnings.push(text);
        Ok(())
    }
}
