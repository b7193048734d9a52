//! The trials of a search, pooled by load.

use crate::observed::ServerFigures;
use crate::search::TrialOutcome;
use crate::slo::{Metric, Slo};
use crate::verdict::Verdict;

/// Part of the answer's load below which a server counts as unloaded.
const UNLOADED: f64 = 1.0 / 3.0;
/// How far beyond the answer's load is looked for what limits it there: far beyond, something else
/// may.
const REACH: f64 = 2.0;

/// What was seen at one load.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Level {
    pub(super) load: f64,
    /// Mean TTFT, seconds.
    pub(super) ttft: Option<f64>,
    /// Mean E2E, seconds.
    pub(super) e2e: Option<f64>,
    /// Time of a token: the figure of an objective on it, else its mean, seconds.
    pub(super) token: Option<f64>,
    /// Requests through the server a second.
    pub(super) rate: f64,
}

/// What the server said near the limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerView {
    pub(super) running_max: f64,
    pub(super) waiting_mean: Option<f64>,
    pub(super) waiting_share: Option<f64>,
    /// Share of queued looks at the largest running count.
    pub(super) pinned: Option<f64>,
    pub(super) kv_mean: Option<f64>,
    pub(super) kv_max: Option<f64>,
    /// Preemptions a request.
    pub(super) preempted: Option<f64>,
    /// Mean time in the queue, seconds.
    pub(super) queue: Option<f64>,
    /// Mean TTFT as the server sees it, seconds.
    pub(super) ttft: Option<f64>,
}

/// All loads, ascending.
pub(super) struct Levels {
    levels: Vec<Level>,
    /// Load, requests through the server, figures.
    told: Vec<(f64, f64, ServerFigures)>,
}

impl Levels {
    pub(super) fn of(slo: &Slo, outcomes: &[&TrialOutcome]) -> Self {
        let valid: Vec<&&TrialOutcome> =
            outcomes.iter().filter(|outcome| !matches!(outcome.verdict, Verdict::Void(_))).collect();
        let mut loads: Vec<f64> = valid.iter().map(|outcome| outcome.spec.load.value()).collect();
        loads.sort_unstable_by(f64::total_cmp);
        loads.dedup();
        let levels = loads.iter().map(|&load| {
            let here = || valid.iter().filter(move |outcome| outcome.spec.load.value() == load);
            Level {
                load,
                ttft: pooled(here().map(|outcome| (weight(outcome), outcome.mean_ttft))),
                e2e: pooled(here().map(|outcome| (weight(outcome), outcome.mean_e2e))),
                token: pooled(here().map(|outcome| (weight(outcome), token(slo, outcome)))),
                rate: pooled(here().map(|outcome| (weight(outcome), Some(outcome.completion_rate))))
                    .unwrap_or(0.0),
            }
        });
        let told = valid.iter().filter_map(|outcome| {
            let requests = outcome.completion_rate * (outcome.ended - outcome.settled);
            Some((outcome.spec.load.value(), requests, outcome.server?))
        });
        Self { levels: levels.collect(), told: told.collect() }
    }

    pub(super) fn lowest(&self) -> Option<&Level> {
        self.levels.first()
    }

    /// The lowest load, if it is far enough below `load`.
    pub(super) fn unloaded(&self, load: f64) -> Option<&Level> {
        self.lowest().filter(|level| level.load <= (load * UNLOADED).max(1.0) && level.ttft.is_some())
    }

    /// Loads just beyond `load` as one; the next one where none is near, the last below where none is
    /// beyond.
    pub(super) fn beyond(&self, load: f64, missed: f64) -> Option<Level> {
        let most = missed.max(REACH * load);
        let known = || self.levels.iter().filter(|level| level.ttft.is_some() || level.token.is_some());
        let near: Vec<&Level> = known().filter(|level| level.load > load && level.load <= most).collect();
        if near.is_empty() {
            return known().find(|level| level.load > load).or_else(|| known().next_back()).copied();
        }
        let mean = |value: fn(&Level) -> Option<f64>| pooled(near.iter().map(|level| (1.0, value(level))));
        Some(Level {
            load: mean(|level| Some(level.load))?.round(),
            ttft: mean(|level| level.ttft),
            e2e: mean(|level| level.e2e),
            token: mean(|level| level.token),
            rate: mean(|level| Some(level.rate))?,
        })
    }

    /// The highest rate around `load`, of the loads that more than one trial or request tells of.
    pub(super) fn best_rate(&self, load: f64) -> f64 {
        let around = |level: &&Level| level.load >= 0.7 * load && level.load <= REACH * load;
        let rates = self.levels.iter().filter(around).map(|level| level.rate);
        let (sum, count) = rates.fold((0.0, 0.0), |(sum, count), rate| (sum + rate, count + 1.0));
        if count > 0.0 { sum / count } else { 0.0 }
    }

    /// What the server said beyond `load`, over the trials there.
    pub(super) fn server_beyond(&self, load: f64, missed: f64) -> Option<ServerView> {
        let most = missed.max(REACH * load);
        let near = |&&(at, _, _): &&(f64, f64, ServerFigures)| at > load && at <= most;
        let mut told: Vec<&(f64, f64, ServerFigures)> = self.told.iter().filter(near).collect();
        if told.is_empty() {
            let next = self.told.iter().map(|told| told.0).filter(|&at| at > load).min_by(f64::total_cmp)?;
            told = self.told.iter().filter(|told| told.0 == next).collect();
        }
        let looks = |figures: &ServerFigures| f64::from(figures.looks);
        let mean = |value: fn(&ServerFigures) -> Option<f64>| {
            pooled(told.iter().map(|(_, _, figures)| (looks(figures), value(figures))))
        };
        let most = |value: fn(&ServerFigures) -> Option<f64>| {
            told.iter().filter_map(|(_, _, figures)| value(figures)).max_by(f64::total_cmp)
        };
        let running_max = most(|figures| figures.running.map(|running| running.max));
        // A cap is the same number in every trial; where the largest count differs, none is.
        let pinned = told.iter().map(|(_, _, figures)| {
            let same = figures.running.zip(running_max).is_some_and(|(own, all)| own.max >= 0.95 * all);
            let queued = looks(figures) * figures.waiting_share.unwrap_or(0.0);
            (queued, figures.pinned.map(|pinned| if same { pinned } else { 0.0 }))
        });
        let requests: f64 = told.iter().map(|told| told.1).sum();
        let preemptions: Option<f64> = told.iter().map(|(_, _, figures)| figures.preemptions).sum();
        Some(ServerView {
            running_max: running_max.unwrap_or(f64::INFINITY),
            waiting_mean: mean(|figures| figures.waiting.map(|waiting| waiting.mean)),
            waiting_share: mean(|figures| figures.waiting_share),
            pinned: pooled(pinned),
            kv_mean: mean(|figures| figures.kv_use.map(|kv| kv.mean)),
            kv_max: most(|figures| figures.kv_use.map(|kv| kv.max)),
            preempted: preemptions.filter(|_| requests > 0.0).map(|count| count / requests),
            queue: mean(|figures| figures.queue.and_then(|queue| queue.mean())),
            ttft: mean(|figures| figures.ttft.and_then(|ttft| ttft.mean())),
        })
    }
}

fn weight(outcome: &TrialOutcome) -> f64 {
    f64::from(outcome.counts.completed.max(1))
}

/// The time of a token in a trial, seconds.
fn token(slo: &Slo, outcome: &TrialOutcome) -> Option<f64> {
    let judged = slo.objectives.iter().zip(&outcome.readings).find_map(|(objective, reading)| {
        let figure = reading.figure.filter(|figure| figure.is_finite() && *figure > 0.0)?;
        match objective.metric {
            Metric::Tpot | Metric::Itl => Some(figure),
            Metric::OutputTokensPerSecondPerUser => Some(1.0 / figure),
            _ => None,
        }
    });
    judged.or_else(|| outcome.summary.metrics.get("tpot").map(|tpot| tpot.mean))
}

/// The weighted mean of those that are there.
fn pooled(values: impl Iterator<Item = (f64, Option<f64>)>) -> Option<f64> {
    let (sum, weight) = values
        .filter_map(|(weight, value)| Some((weight, value?)))
        .fold((0.0, 0.0), |(sum, total), (weight, value)| (sum + weight * value, total + weight));
    (weight > 0.0).then(|| sum / weight)
}
