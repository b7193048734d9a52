//! Trials with their requests, and how they are read under another SLO.

use crate::loadgen::record::RequestRecord;
use crate::loadgen::session::{InFlight, LevelHistory};
use crate::metrics::reading::{Samples, readings};
use crate::metrics::windows::full;
use crate::metrics::{ColdStart, Counts, Summary, token_time};
use crate::observed::{GpuFigures, HostFigures, ServerFigures};
use crate::plan::LoadRange;
use crate::search::{Judged, StopRule, TrialKind, TrialOutcome, TrialSpec, judge};
use crate::slo::{Objective, Slo};
use crate::verdict::{Checks, Verdict, VoidReason, judge as verdict_of, void_reason};

/// One trial with the records of its requests.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Number of the trial.
    pub id: u32,
    /// What was asked for.
    pub spec: TrialSpec,
    /// When the level began to move, had settled, and the trial ended, seconds.
    pub window: (f64, f64, f64),
    /// Requests that ended during the trial, in that order.
    pub records: Vec<RequestRecord>,
    /// Requests in flight at its end.
    pub pending: Vec<InFlight>,
    /// A reason to void it that records do not tell (a client that was too slow).
    pub void: Option<VoidReason>,
    /// Requests issued since the run began, at the trial's end.
    pub issued_total: u64,
    /// What was seen beside the requests.
    pub beside: Beside,
}

/// What was seen beside the requests of a trial, where something was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Beside {
    /// What the server said of itself.
    pub server: Option<ServerFigures>,
    /// The client's machine.
    pub host: Option<HostFigures>,
    /// The GPUs.
    pub gpu: Option<GpuFigures>,
}

/// Trials to put new questions to.
#[derive(Clone, Debug)]
pub struct Material {
    /// The trials, in the order in which they were run.
    pub trials: Vec<Trial>,
    /// Requests in flight over time.
    pub levels: LevelHistory,
    /// The loads that the answer may lie in.
    pub range: LoadRange,
}

/// The trials read anew, and what they lead to.
#[derive(Clone, Debug)]
pub struct Anew {
    /// The trials under the new SLO.
    pub outcomes: Vec<TrialOutcome>,
    /// What they say of the boundary.
    pub judged: Judged,
}

impl Material {
    /// Reads every trial under `slo` and judges them together.
    pub fn judged(&self, slo: &Slo) -> Anew {
        let outcomes = self.outcomes(slo, true);
        let judged = judge(slo, self.range, &outcomes);
        Anew { outcomes, judged }
    }

    /// The same without the figures of each trial: for a table of many SLOs.
    pub fn answered(&self, slo: &Slo) -> Judged {
        judge(slo, self.range, &self.outcomes(slo, false))
    }

    /// Every trial under `slo`; `summarise` for the figures of each.
    pub fn outcomes(&self, slo: &Slo, summarise: bool) -> Vec<TrialOutcome> {
        let span = self.span(slo);
        self.trials.iter().map(|trial| trial.outcome(slo, &self.levels, span, summarise)).collect()
    }

    /// Seconds of each trial in which windows are looked at: those of the shortest trial of a fixed size
    /// that holds one, so that all are judged by the worst of as many.
    fn span(&self, slo: &Slo) -> f64 {
        let Some(window) = slo.longest_window() else { return f64::INFINITY };
        self.fixed_seconds().filter(|&seconds| full(seconds, window) > 0).fold(f64::INFINITY, f64::min)
    }

    /// Measured seconds of the trials of a fixed size.
    fn fixed_seconds(&self) -> impl Iterator<Item = f64> {
        let fixed = |trial: &&Trial| !matches!(trial.spec.kind, TrialKind::Warmup | TrialKind::Navigate);
        self.trials.iter().filter(fixed).map(|trial| trial.window.2 - trial.window.1)
    }

    /// An objective of `slo` whose window is longer than every trial of a fixed size, and the seconds of
    /// the longest of these.
    pub fn too_short_for<'a>(&self, slo: &'a Slo) -> Option<(&'a Objective, f64)> {
        let longest = self.fixed_seconds().fold(0.0, f64::max);
        let too_long =
            |objective: &&Objective| objective.window.is_some_and(|window| full(longest, window) == 0);
        slo.objectives.iter().find(too_long).map(|objective| (objective, longest))
    }

    /// Loads at which trials of a fixed size were valid, ascending, each once.
    pub fn fixed_loads(&self) -> Vec<u32> {
        let mut loads: Vec<u32> = self
            .trials
            .iter()
            .filter(|trial| !matches!(trial.spec.kind, TrialKind::Warmup | TrialKind::Navigate))
            .map(|trial| trial.spec.load.value() as u32)
            .collect();
        loads.sort_unstable();
        loads.dedup();
        loads
    }
}

impl Trial {
    /// The records that ended after the level had settled.
    pub fn measured(&self) -> &[RequestRecord] {
        let first = self.records.partition_point(|record| record.ended < self.window.1);
        &self.records[first..]
    }

    /// What the trial says under `slo`.
    fn outcome(&self, slo: &Slo, levels: &LevelHistory, span: f64, summarise: bool) -> TrialOutcome {
        let (began, settled, ended) = self.window;
        let navigates = self.spec.kind == TrialKind::Navigate;
        let measured = self.measured();
        let samples = Samples {
            records: measured,
            pending: &self.pending,
            from: settled,
            now: ended,
            partial: navigates,
            span,
        };
        let readings = readings(slo, &samples, levels);
        // The client's fitness was judged when the trial was run.
        let checks = Checks::of(measured);
        let void = void_reason(slo, &checks, None).or_else(|| self.void.clone());
        let verdict = match (void, self.spec.rule) {
            _ if self.spec.kind == TrialKind::Warmup => Verdict::Undecided,
            (Some(reason), _) => Verdict::Void(reason),
            (None, StopRule::Clear(rule)) => rule.judge(slo, &readings).unwrap_or(Verdict::Undecided),
            (None, _) => verdict_of(slo, &readings),
        };
        let window = (ended - settled).max(1e-9);
        let e2es: Vec<f64> = measured.iter().filter_map(RequestRecord::e2e).collect();
        let ttfts: Vec<f64> = measured.iter().filter_map(RequestRecord::ttft).collect();
        let mean = |of: &[f64]| (!of.is_empty()).then(|| of.iter().sum::<f64>() / of.len() as f64);
        TrialOutcome {
            id: self.id,
            spec: self.spec.clone(),
            verdict,
            readings,
            began,
            settled,
            ended,
            counts: Counts::of(&self.records),
            issued_total: self.issued_total,
            completion_rate: ttfts.len() as f64 / window,
            mean_ttft: mean(&ttfts),
            mean_e2e: mean(&e2es),
            token_time: token_time(measured),
            cold_start: (summarise && self.spec.kind == TrialKind::Warmup)
                .then(|| ColdStart::of(&self.records, &self.pending))
                .flatten(),
            slices: Vec::new(),
            good_rate: measured.iter().filter(|record| slo.is_good(record)).count() as f64 / window,
            summary: if summarise { Summary::of(slo, measured, window) } else { Summary::default() },
            server: self.beside.server,
            host: self.beside.host,
            gpu: self.beside.gpu,
            arrivals: None,
            checks,
            client: None,
        }
    }
}
