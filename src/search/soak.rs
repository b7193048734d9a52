//! Whether a load that is said to be safe holds for long: consecutive windows at one load, judged
//! together.
//!
//! Each window is a trial on a load that never stops, so that nothing drains or warms up between them.
//! What is looked for are changes that a short search cannot see: the SLO missed in the long run, time
//! that grows, memory that grows, errors and preemptions.
//!
//! The windows are put into at most [`BLOCKS`] blocks, which makes what neighbouring windows share
//! (slow noise) small between blocks. A trend is the slope of a least-squares line through the blocks'
//! logarithms, tested by Student's t on one side with `blocks - 2` degrees of freedom; a missed SLO is
//! the mean of the blocks' misses beyond the allowed share, tested likewise with `blocks - 1`. The rate
//! of false alarms that is asked for is divided by the number of tests (Bonferroni), so that a steady
//! server fails at most that often in all. A trend fails only if it is, besides, larger than what is
//! allowed: over hours even a tenth of a percent can be significant.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{Hold, LoadRange};
use crate::search::Strategy;
use crate::search::answer::{Answer, SearchOutcome};
use crate::search::evidence::warm_up;
use crate::search::judge::judge;
use crate::search::trial::{Ask, Settle, StopRule, TrialKind, TrialOutcome, TrialSpec};
use crate::slo::{Objective, Slo};
use crate::stats::batch::sample_variance;
use crate::stats::special::student_quantile;
use crate::units::Load;
use crate::verdict::Verdict;

/// Most blocks that windows are put into.
pub const BLOCKS: usize = 10;
/// Fewest valid windows that tell anything.
pub const LEAST_WINDOWS: usize = 6;
/// Void windows in a row after which a soak gives up.
const VOIDS: u32 = 3;

/// What a soak allows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SoakLimits {
    /// Chance that a steady server that meets its SLO fails.
    pub false_alarms: f64,
    /// Relative growth of a time, or of memory, over the whole soak.
    pub max_drift: f64,
    /// Share of the requests that may fail.
    pub max_errors: f64,
    /// Preemptions a request.
    pub max_preemptions: f64,
}

impl Default for SoakLimits {
    fn default() -> Self {
        Self { false_alarms: 0.01, max_drift: 0.05, max_errors: 0.001, max_preemptions: 0.0 }
    }
}

/// How a soak ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SoakDecision {
    /// The load was held.
    Held,
    /// It was not.
    Failed,
    /// Too few valid windows to tell.
    Undecided,
}

/// Something that a soak looks for a trend in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Watched {
    /// Mean time per output token.
    TimePerOutputToken,
    /// Mean time to first token.
    TimeToFirstToken,
    /// Mean end-to-end latency, where a stream's parts are not seen.
    Latency,
    /// Memory of this machine in use.
    HostMemory,
    /// Memory of the GPUs in use.
    GpuMemory,
    /// Share of the KV cache in use.
    KvCache,
}

/// A quantity over the soak.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trend {
    /// The quantity.
    pub watched: Watched,
    /// Relative change from the first block to the last along the line (0.1: 10 % more).
    pub change: f64,
    /// The change in its standard errors.
    pub t: f64,
    /// The value of `t` from which it is a trend.
    pub threshold: f64,
}

impl Trend {
    /// Whether the quantity grows, and by more than is allowed.
    pub fn is_drift(&self, limits: &SoakLimits) -> bool {
        self.t > self.threshold && self.change > limits.max_drift
    }
}

/// Why a soak failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum SoakFailure {
    /// An objective is missed in the long run.
    Slo {
        /// The objective, in the SLO grammar.
        objective: String,
        /// Share of its samples beyond the limit; null for an objective that is not judged by counting.
        share: Option<f64>,
        /// Share that may be.
        allowed: Option<f64>,
    },
    /// Windows of an objective that has some are missed, where each must hold.
    Windows {
        /// The objective, in the SLO grammar.
        objective: String,
        /// Windows that are missed.
        missed: u32,
        /// All windows.
        of: u32,
        /// The worst figure, in the unit of the objective's threshold.
        worst: f64,
        /// When that window began, seconds after the first one did.
        at: f64,
    },
    /// A quantity grows.
    Drift(Trend),
    /// Requests failed.
    Errors {
        /// Those that failed.
        failed: u32,
        /// All that ended.
        of: u32,
    },
    /// The server took sequences' caches from them.
    Preemptions {
        /// How often.
        count: f64,
        /// Requests that ended meanwhile.
        of: u32,
    },
}

/// What the windows of a soak say.
#[derive(Clone, Debug, PartialEq)]
pub struct Soaked {
    /// How it ended.
    pub decision: SoakDecision,
    /// Why it failed, the weightiest first.
    pub failures: Vec<SoakFailure>,
    /// Every quantity that could be followed.
    pub trends: Vec<Trend>,
    /// Valid windows.
    pub windows: usize,
    /// Void windows.
    pub voids: usize,
}

/// Judges the windows of a soak.
pub fn soaked(slo: &Slo, limits: &SoakLimits, outcomes: &[TrialOutcome]) -> Soaked {
    let windows: Vec<&TrialOutcome> =
        outcomes.iter().filter(|outcome| outcome.spec.kind == TrialKind::Measure).collect();
    let (voids, valid): (Vec<&TrialOutcome>, Vec<&TrialOutcome>) =
        windows.into_iter().partition(|outcome| matches!(outcome.verdict, Verdict::Void(_)));
    let series: Vec<(Watched, Vec<(f64, f64)>)> =
        WATCHED.iter().filter_map(|&watched| Some((watched, logs(watched, &valid)?))).collect();
    let tested = slo.objectives.iter().filter(|objective| objective.window.is_none());
    let tests = series.len() + tested.count();
    let alpha = limits.false_alarms / tests.max(1) as f64;
    let enough = valid.len() >= LEAST_WINDOWS;
    let trends: Vec<Trend> = series
        .iter()
        .filter(|_| enough)
        .filter_map(|(watched, points)| trend(*watched, &blocks(points), alpha))
        .collect();
    let of: u32 = valid.iter().map(|outcome| outcome.counts.completed + outcome.counts.failed).sum();
    let failed: u32 = valid.iter().map(|outcome| outcome.counts.failed).sum();
    let count: f64 = valid
        .iter()
        .filter_map(|outcome| outcome.server.as_ref().and_then(|server| server.preemptions))
        .sum();
    let mut failures: Vec<SoakFailure> = if enough { missed(slo, &valid, alpha) } else { Vec::new() };
    failures.extend(missed_windows(slo, &valid));
    if f64::from(failed) > limits.max_errors * f64::from(of) {
        failures.push(SoakFailure::Errors { failed, of });
    }
    failures
        .extend(trends.iter().filter(|trend| trend.is_drift(limits)).map(|trend| SoakFailure::Drift(*trend)));
    if count > limits.max_preemptions * f64::from(of) {
        failures.push(SoakFailure::Preemptions { count, of });
    }
    let decision = match (failures.is_empty(), enough) {
        (false, _) => SoakDecision::Failed,
        (true, true) => SoakDecision::Held,
        (true, false) => SoakDecision::Undecided,
    };
    Soaked { decision, failures, trends, windows: valid.len(), voids: voids.len() }
}

const WATCHED: [Watched; 6] = [
    Watched::TimePerOutputToken,
    Watched::TimeToFirstToken,
    Watched::Latency,
    Watched::HostMemory,
    Watched::GpuMemory,
    Watched::KvCache,
];

/// A quantity of each window that has it: when, and its logarithm. `None` where fewer than
/// [`LEAST_WINDOWS`] do.
fn logs(watched: Watched, windows: &[&TrialOutcome]) -> Option<Vec<(f64, f64)>> {
    let metric = |outcome: &TrialOutcome, name: &str| {
        outcome.summary.metrics.get(name).filter(|samples| samples.n > 0).map(|samples| samples.mean)
    };
    let value = |outcome: &&TrialOutcome| match watched {
        Watched::TimePerOutputToken => metric(outcome, "tpot"),
        Watched::TimeToFirstToken => metric(outcome, "ttft"),
        Watched::Latency => metric(outcome, "e2e").filter(|_| metric(outcome, "tpot").is_none()),
        Watched::HostMemory => outcome.host.and_then(|host| host.memory_used),
        Watched::GpuMemory => outcome.gpu.and_then(|gpu| gpu.memory_used).map(|memory| memory.mean),
        Watched::KvCache => outcome.server.and_then(|server| server.kv_use).map(|kv| kv.mean),
    };
    let points: Vec<(f64, f64)> = windows
        .iter()
        .filter_map(|outcome| {
            let value = value(outcome).filter(|value| *value > 0.0 && value.is_finite())?;
            Some((0.5 * (outcome.settled + outcome.ended), value.ln()))
        })
        .collect();
    (points.len() >= LEAST_WINDOWS).then_some(points)
}

/// The means of at most [`BLOCKS`] blocks of neighbouring points, of about equal size.
fn blocks(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let count = BLOCKS.min(points.len());
    (0..count)
        .map(|block| {
            let part = &points[block * points.len() / count..(block + 1) * points.len() / count];
            let n = part.len() as f64;
            (part.iter().map(|p| p.0).sum::<f64>() / n, part.iter().map(|p| p.1).sum::<f64>() / n)
        })
        .collect()
}

/// The least-squares line through the blocks.
fn trend(watched: Watched, blocks: &[(f64, f64)], alpha: f64) -> Option<Trend> {
    let n = blocks.len() as f64;
    let (first, last) = (blocks.first()?, blocks.last()?);
    let mean = |part: fn(&(f64, f64)) -> f64| blocks.iter().map(part).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = blocks.iter().map(|p| (p.0 - x).powi(2)).sum();
    if blocks.len() < 3 || spread <= 0.0 {
        return None;
    }
    let slope = blocks.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>() / spread;
    let left: f64 = blocks.iter().map(|p| (p.1 - y - slope * (p.0 - x)).powi(2)).sum();
    // A line without any scatter (memory that never moves) is as sure as can be.
    let error = (left / (n - 2.0) / spread).sqrt().max(1e-15);
    Some(Trend {
        watched,
        change: (slope * (last.0 - first.0)).exp_m1(),
        t: slope / error,
        threshold: student_quantile(1.0 - alpha, n - 2.0),
    })
}

/// The objectives that are missed in the long run.
fn missed(slo: &Slo, windows: &[&TrialOutcome], alpha: f64) -> Vec<SoakFailure> {
    let mut missed = Vec::new();
    let tested = slo.objectives.iter().enumerate().filter(|(_, objective)| objective.window.is_none());
    for (index, objective) in tested {
        let allowed = objective.allowed_misses();
        let readings = || windows.iter().filter_map(|outcome| Some((outcome, outcome.readings.get(index)?)));
        let excess: Vec<(f64, f64)> = readings()
            .filter_map(|(outcome, reading)| {
                let beyond = match allowed {
                    Some(allowed) if reading.of > 0 => {
                        f64::from(reading.over) / f64::from(reading.of) - allowed
                    }
                    Some(_) => return None,
                    None => reading.margin,
                };
                beyond.is_finite().then_some((outcome.ended, beyond))
            })
            .collect();
        let parts: Vec<f64> = blocks(&excess).into_iter().map(|block| block.1).collect();
        if parts.len() < 3 {
            continue;
        }
        let n = parts.len() as f64;
        let mean = parts.iter().sum::<f64>() / n;
        let error = (sample_variance(&parts) / n).sqrt().max(1e-15);
        if mean / error > student_quantile(1.0 - alpha, n - 1.0) {
            let (over, of) =
                readings().fold((0, 0), |(over, of), (_, reading)| (over + reading.over, of + reading.of));
            let share = allowed.map(|_| f64::from(over) / f64::from(of.max(1)));
            missed.push(SoakFailure::Slo { objective: objective.to_string(), share, allowed });
        }
    }
    missed
}

/// The objectives that must hold in every window, and do not. Nothing is tested here: a window that is
/// missed is what such an objective forbids.
fn missed_windows(slo: &Slo, trials: &[&TrialOutcome]) -> Vec<SoakFailure> {
    let start = trials.first().map_or(0.0, |outcome| outcome.settled);
    let windowed = slo.objectives.iter().enumerate().filter(|(_, objective)| objective.window.is_some());
    let failure = |(index, objective): (usize, &Objective)| {
        let readings = || {
            trials.iter().filter_map(move |outcome| {
                let reading = outcome.readings.get(index)?;
                Some((outcome, reading, reading.windows?))
            })
        };
        let (missed, of) = readings()
            .fold((0, 0), |(missed, of), (_, _, windows)| (missed + windows.missed, of + windows.count));
        let (outcome, reading, windows) = readings().max_by(|a, b| a.1.margin.total_cmp(&b.1.margin))?;
        (missed > 0).then(|| SoakFailure::Windows {
            objective: objective.to_string(),
            missed,
            of,
            worst: reading.figure.unwrap_or_default(),
            at: outcome.settled + windows.worst_from.unwrap_or_default() - start,
        })
    };
    windowed.filter_map(failure).collect()
}

/// Holds one load for consecutive windows.
#[derive(Clone, Debug)]
pub struct Soak {
    slo: Slo,
    range: LoadRange,
    hold: Hold,
    outcomes: Vec<TrialOutcome>,
    voids: u32,
    windows: u32,
    stopped: bool,
}

impl Soak {
    /// A soak at `hold`, within `range`.
    pub fn new(slo: Slo, range: LoadRange, hold: Hold) -> Self {
        let hold = Hold { users: hold.users.clamp(range.min, range.max), ..hold };
        Self { slo, range, hold, outcomes: Vec::new(), voids: 0, windows: 0, stopped: false }
    }

    fn is_over(&self) -> bool {
        self.stopped || self.windows >= self.hold.windows || self.voids >= VOIDS
    }
}

impl Strategy for Soak {
    fn ask(&mut self) -> Ask {
        if self.is_over() {
            return Ask::Done;
        }
        if self.outcomes.is_empty() {
            return Ask::Trial(warm_up(self.hold.users, self.hold.users));
        }
        let seconds = self.hold.window_seconds;
        // The first window waits until the level has settled; the others go on with it.
        let completions_per_user = if self.windows == 0 { 3.0 } else { 0.0 };
        Ask::Trial(TrialSpec {
            load: Load::Concurrency(self.hold.users),
            kind: TrialKind::Measure,
            retreat: false,
            settle: Settle { completions_per_user, truncate: false },
            rule: StopRule::seconds(seconds),
        })
    }

    fn tell(&mut self, outcome: &TrialOutcome) {
        if outcome.spec.kind == TrialKind::Measure {
            self.windows += 1;
            self.voids = if matches!(outcome.verdict, Verdict::Void(_)) { self.voids + 1 } else { 0 };
        }
        self.outcomes.push(outcome.clone());
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn answer(&self) -> Answer {
        let mut answer = judge(&self.slo, self.range, &self.outcomes).answer;
        if !self.is_over() || self.stopped {
            answer.outcome = SearchOutcome::Interrupted;
        }
        answer
    }

    fn remaining(&self) -> u32 {
        if self.is_over() {
            return 0;
        }
        self.hold.windows - self.windows + u32::from(self.outcomes.is_empty())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rng::Stream;

    #[test]
    fn false_alarms_of_a_trend_are_as_rare_as_stated() {
        // White noise, and slow noise whose memory is a fifth of a block: drawn outright, 30 windows each.
        for (memory, most) in [(0.0, 0.013), (0.5, 0.02)] {
            let mut stream = Stream::new(5, "soak");
            const SOAKS: usize = 4000;
            let mut alarms = 0;
            for _ in 0..SOAKS {
                let mut x = stream.normal();
                let points: Vec<(f64, f64)> = (0..30)
                    .map(|i| {
                        x = memory * x + f64::sqrt(1.0 - memory * memory) * stream.normal();
                        (f64::from(i), 0.03 * x)
                    })
                    .collect();
                let trend = trend(Watched::Latency, &blocks(&points), 0.01).unwrap();
                alarms += usize::from(trend.t > trend.threshold);
            }
            let rate = alarms as f64 / SOAKS as f64;
            // Two standard errors above the rate.
            assert!(rate <= most + 0.003, "memory {memory}: {rate}");
            assert!(rate >= 0.005, "the test is not far from exact: {rate}");
        }
    }
}
