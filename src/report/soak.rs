//! What a soak says, for people and for the systems that run it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document::{TrialFigures, VerdictWord};
use super::words;
use crate::search::TrialKind;
use crate::search::soak::{SoakDecision, SoakFailure, SoakLimits, Soaked, Trend, Watched};
use crate::slo::Slo;
use crate::units::{Load, Seconds, significant};

/// The result of a soak.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SoakDocument {
    /// Version of this schema.
    pub schema_version: u32,
    /// How it ended.
    pub decision: SoakDecision,
    /// The load that was held.
    pub load: Load,
    /// The SLO.
    pub slo: Vec<String>,
    /// What was allowed.
    pub limits: SoakLimits,
    /// Why it failed, the weightiest first.
    pub failures: Vec<SoakFailure>,
    /// Every quantity that could be followed.
    pub trends: Vec<Trend>,
    /// The windows, in order.
    pub windows: Vec<Window>,
    /// Void windows among them.
    pub voids: usize,
    /// Seconds that were measured.
    pub seconds: f64,
    /// The folder of the run whose load was held.
    pub of: String,
    /// The folder of this run.
    pub run: String,
}

/// One window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// Number of the trial within the run.
    pub trial: u32,
    /// When it began, seconds on the run's clock.
    pub from: f64,
    /// When it ended.
    pub to: f64,
    /// The judgement of this window alone.
    pub verdict: VerdictWord,
    /// Completed requests.
    pub completed: u32,
    /// Failed requests.
    pub failed: u32,
    /// Share of the requests that keep every limit.
    pub attainment: f64,
    /// Mean time to first token, seconds.
    pub ttft_mean: Option<f64>,
    /// Mean time per output token, seconds.
    pub tpot_mean: Option<f64>,
    /// Preemptions, where the server tells them.
    pub preemptions: Option<f64>,
}

impl SoakDocument {
    /// Puts the windows and their judgement together.
    pub fn new(
        load: Load,
        slo: Vec<String>,
        limits: SoakLimits,
        soaked: Soaked,
        trials: &[TrialFigures],
        (of, run): (String, String),
    ) -> Self {
        let windows: Vec<Window> =
            trials.iter().filter(|trial| trial.kind == TrialKind::Measure).map(Window::of).collect();
        Self {
            schema_version: 1,
            decision: soaked.decision,
            load,
            slo,
            limits,
            failures: soaked.failures,
            trends: soaked.trends,
            voids: soaked.voids,
            seconds: windows.iter().map(|window| window.to - window.from).sum(),
            windows,
            of,
            run,
        }
    }

    /// The result in one line.
    pub fn line(&self) -> String {
        let held = format!("{} for {}, {} windows", self.load, Seconds(self.seconds), self.windows.len());
        match self.decision {
            SoakDecision::Held => {
                let trends: Vec<String> = self.trends.iter().map(change).collect();
                format!("soak held: {held}; {}", trends.join(", "))
            }
            SoakDecision::Failed => {
                let why: Vec<String> = self.failures.iter().map(reason).collect();
                format!("soak failed: {held}: {}", why.join("; "))
            }
            SoakDecision::Undecided => format!(
                "soak undecided: {held}, {} of them void: too few to tell; hold the load for longer (`--for`)",
                self.voids
            ),
        }
    }
}

impl Window {
    fn of(trial: &TrialFigures) -> Self {
        let mean = |name: &str| trial.metrics.get(name).filter(|m| m.n > 0).map(|m| m.mean);
        Self {
            trial: trial.id,
            from: trial.settled,
            to: trial.ended,
            verdict: trial.verdict,
            completed: trial.requests.completed,
            failed: trial.requests.failed,
            attainment: trial.attainment,
            ttft_mean: mean("ttft"),
            tpot_mean: mean("tpot"),
            preemptions: trial.server.as_ref().and_then(|server| server.preemptions),
        }
    }
}

fn name(watched: Watched) -> &'static str {
    match watched {
        Watched::TimePerOutputToken => "time per output token",
        Watched::TimeToFirstToken => "time to first token",
        Watched::Latency => "latency",
        Watched::HostMemory => "memory of this machine",
        Watched::GpuMemory => "GPU memory",
        Watched::KvCache => "KV cache in use",
    }
}

fn change(trend: &Trend) -> String {
    format!("{} {:+.1} %", name(trend.watched), trend.change * 100.0)
}

fn percent(share: f64) -> String {
    format!("{} %", significant(share * 100.0))
}

fn reason(failure: &SoakFailure) -> String {
    match failure {
        SoakFailure::Slo { objective, share: Some(share), allowed: Some(allowed) } => {
            format!(
                "`{objective}` is missed: {} of the samples beyond, {} allowed",
                percent(*share),
                percent(*allowed)
            )
        }
        SoakFailure::Slo { objective, .. } => format!("`{objective}` is missed"),
        SoakFailure::Windows { objective, missed, of, worst, at } => {
            let figure = Slo::parse([objective.as_str()])
                .ok()
                .and_then(|slo| slo.objectives.first().map(|objective| words::figure(objective, *worst)));
            format!(
                "`{objective}` is missed in {missed} of {of} windows, the worst ({}) {} after the start",
                figure.unwrap_or_else(|| significant(*worst)),
                Seconds(*at)
            )
        }
        SoakFailure::Drift(trend) => format!(
            "{} grew by {} (t {:.1}, a trend from {:.1})",
            name(trend.watched),
            percent(trend.change),
            trend.t,
            trend.threshold
        ),
        SoakFailure::Errors { failed, of } => format!("{failed} of {of} requests failed"),
        SoakFailure::Preemptions { count, of } => format!("{count:.0} preemptions over {of} requests"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(decision: SoakDecision, failures: Vec<SoakFailure>) -> SoakDocument {
        let trend = Trend { watched: Watched::TimePerOutputToken, change: 0.012, t: 1.1, threshold: 3.9 };
        let soaked = Soaked { decision, failures, trends: vec![trend], windows: 2, voids: 0 };
        let trials: Vec<TrialFigures> = crate::report::sample_document().trials;
        let paths = ("runs/a".to_owned(), "runs/b".to_owned());
        SoakDocument::new(
            Load::Concurrency(40),
            vec!["ttft p95 < 60 ms".to_owned()],
            SoakLimits::default(),
            soaked,
            &trials,
            paths,
        )
    }

    #[test]
    fn the_line_says_what_held_or_what_failed() {
        let held = document(SoakDecision::Held, Vec::new()).line();
        assert!(held.starts_with("soak held: 40 concurrent for "), "{held}");
        assert!(held.ends_with("; time per output token +1.2 %"), "{held}");
        let drift = Trend { watched: Watched::GpuMemory, change: 0.13, t: 7.25, threshold: 3.94 };
        let failed = document(
            SoakDecision::Failed,
            vec![
                SoakFailure::Slo {
                    objective: "ttft p95 < 60 ms".to_owned(),
                    share: Some(0.081),
                    allowed: Some(0.05),
                },
                SoakFailure::Drift(drift),
                SoakFailure::Errors { failed: 3, of: 900 },
                SoakFailure::Preemptions { count: 12.0, of: 900 },
            ],
        );
        let line = failed.line();
        let (_, why) = line.split_once("windows: ").unwrap_or_default();
        assert_eq!(
            why,
            "`ttft p95 < 60 ms` is missed: 8.10 % of the samples beyond, 5.00 % allowed; GPU memory grew by 13.0 % \
             (t 7.2, a trend from 3.9); 3 of 900 requests failed; 12 preemptions over 900 requests"
        );
        let undecided = document(SoakDecision::Undecided, Vec::new()).line();
        assert!(undecided.contains("0 of them void: too few to tell"), "{undecided}");
    }
}
