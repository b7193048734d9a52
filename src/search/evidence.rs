//! What trials of a fixed size have shown so far: the curve of each objective over load, its
//! crossing of the threshold, and the bracket around it.

use std::collections::BTreeMap;

use crate::plan::TrialPlan;
use crate::search::answer::{Answer, Boundary, Goodput, SearchOutcome};
use crate::search::trial::{Settle, StopRule, TrialKind, TrialOutcome, TrialSpec};
use crate::slo::{Metric, Objective, Slo};
use crate::stats::isotonic::{Isotonic, Point};
use crate::stats::monotone::Pchip;
use crate::units::Load;
use crate::verdict::Verdict;

/// Times that a level is tried again when its trial was void.
pub(super) const RETRIES: u32 = 3;
/// Times that a level is measured again, longer, when its samples did not tell.
pub(super) const RERUNS: u32 = 2;
/// Least distance from the threshold of an observation that has a verdict: its sign is the verdict's.
const SIGN: f64 = 1e-3;
/// Margin (log scale) beyond which a load is an overload, to be left by cancelling requests.
const OVERLOAD: f64 = 0.7;
/// Change of the margin (log scale) across the last bracket from which it is called a cliff: the
/// latency grows by two thirds where the load grows by a few percent.
const CLIFF: f64 = 0.5;
/// Requests in a trial for each one that the tightest percentile needs: some of the requests that
/// end in a window have their first token before it.
const RESERVE: f64 = 1.25;

/// The trials of a search, pooled by level.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    slo: Slo,
    levels: BTreeMap<u32, Level>,
}

/// What is known of one level.
#[derive(Clone, Debug, Default)]
struct Level {
    /// Whether a trial here had a verdict.
    judged: bool,
    /// Trials that were valid.
    trials: u32,
    /// One entry for each objective.
    seen: Vec<Seen>,
    /// Good requests and the time they were counted in.
    good: f64,
    seconds: f64,
}

/// The pooled samples of one objective at one level.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    over: u32,
    of: u32,
    /// Weighted sum of margins, and the weights.
    margins: f64,
    weight: f64,
}

/// The fitted curves at the levels that were tried.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    /// Levels, ascending, with the largest fitted margin of all objectives.
    pub worst: Vec<(u32, f64)>,
    /// Where each objective crosses its threshold, `ln load`; `None` where it does not.
    pub crossings: Vec<Option<f64>>,
}

impl Fit {
    /// The largest level that is fitted to meet the SLO, and the smallest that is fitted to miss it.
    pub fn bracket(&self) -> (Option<u32>, Option<u32>) {
        // The worst of curves that do not fall does not fall.
        let split = self.worst.partition_point(|&(_, margin)| margin <= 0.0);
        let met = split.checked_sub(1).map(|last| self.worst[last].0);
        (met, self.worst.get(split).map(|&(level, _)| level))
    }

    /// `ln load` at which the first objective crosses its threshold, and which one it is.
    pub fn crossing(&self) -> Option<(usize, f64)> {
        let crossings = self.crossings.iter().enumerate().filter_map(|(i, &at)| at.map(|at| (i, at)));
        crossings.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The largest fitted margin at a level that was tried.
    pub fn margin(&self, level: u32) -> Option<f64> {
        self.worst.iter().find(|&&(tried, _)| tried == level).map(|&(_, margin)| margin)
    }
}

impl Evidence {
    pub fn new(slo: Slo) -> Self {
        Self { slo, levels: BTreeMap::new() }
    }

    /// Takes in a trial; one that is void says nothing.
    pub fn add(&mut self, outcome: &TrialOutcome) {
        if matches!(outcome.verdict, Verdict::Void(_)) {
            return;
        }
        let level = self.levels.entry(level_of(outcome.spec.load)).or_default();
        level.judged |= matches!(outcome.verdict, Verdict::Met | Verdict::Missed);
        level.trials += 1;
        level.good += outcome.summary.goodput * outcome.summary.window;
        level.seconds += outcome.summary.window;
        level.seen.resize(self.slo.objectives.len(), Seen::default());
        for ((objective, reading), seen) in
            self.slo.objectives.iter().zip(&outcome.readings).zip(&mut level.seen)
        {
            let margin = match reading.holds(objective) {
                Some(true) => reading.margin.min(-SIGN),
                Some(false) => reading.margin.max(SIGN),
                None => continue,
            };
            let weight = f64::from(reading.of.max(outcome.counts.completed).max(1));
            seen.over += reading.over;
            seen.of += reading.of;
            seen.margins += margin * weight;
            seen.weight += weight;
        }
    }

    /// Forgets all trials.
    pub fn forget(&mut self) {
        self.levels.clear();
    }

    /// Valid trials at a level.
    pub fn trials_at(&self, level: u32) -> u32 {
        self.levels.get(&level).map_or(0, |level| level.trials)
    }

    /// Whether the trials of one level by themselves meet the SLO; `None` where none had a verdict.
    pub fn own_verdict(&self, level: u32) -> Option<bool> {
        let level = self.levels.get(&level).filter(|level| level.judged)?;
        Some(self.slo.objectives.iter().zip(&level.seen).all(|(objective, seen)| seen.holds(objective)))
    }

    /// The largest level that by itself meets the SLO, and the smallest that by itself misses it.
    pub fn seen_bracket(&self) -> (Option<u32>, Option<u32>) {
        let judged = |met: bool| move |level: &&u32| self.own_verdict(**level) == Some(met);
        (
            self.levels.keys().rev().find(judged(true)).copied(),
            self.levels.keys().find(judged(false)).copied(),
        )
    }

    /// The largest level up to `most` that by itself meets the SLO.
    pub fn largest_met_up_to(&self, most: u32) -> Option<u32> {
        self.levels
            .range(..=most)
            .rev()
            .map(|(&level, _)| level)
            .find(|&level| self.own_verdict(level) == Some(true))
    }

    /// Levels whose samples were too few for a verdict.
    pub fn unjudged(&self) -> Vec<u32> {
        self.levels.iter().filter(|(_, level)| !level.judged).map(|(&at, _)| at).collect()
    }

    /// Fits each objective's margin over `ln load` by a curve that does not fall.
    pub fn fit(&self) -> Fit {
        let mut worst: Vec<(u32, f64)> =
            self.levels.keys().map(|&level| (level, f64::NEG_INFINITY)).collect();
        let mut crossings = Vec::with_capacity(self.slo.objectives.len());
        for index in 0..self.slo.objectives.len() {
            let points: Vec<Point> = self
                .levels
                .iter()
                .filter_map(|(&level, known)| Some((level, known.seen.get(index)?)))
                .filter(|(_, seen)| seen.weight > 0.0)
                .map(|(level, seen)| Point {
                    x: log(level),
                    y: seen.margins / seen.weight,
                    weight: seen.weight,
                })
                .collect();
            let fit = Isotonic::fit(&points);
            for (place, worst) in worst.iter_mut() {
                if let Some(at) = fit.x.iter().position(|&x| x == log(*place)) {
                    *worst = worst.max(fit.y[at]);
                }
            }
            crossings.push(Pchip::new(&fit.x, &fit.y).and_then(|curve| curve.solve(0.0)));
        }
        Fit { worst, crossings }
    }

    /// The text of an objective.
    fn objective(&self, index: usize) -> Option<String> {
        self.slo.objectives.get(index).map(Objective::to_string)
    }

    /// The objective with the largest margin at a level.
    fn worst_objective(&self, level: u32) -> Option<String> {
        let seen = &self.levels.get(&level)?.seen;
        let margins = seen.iter().enumerate().filter(|(_, seen)| seen.weight > 0.0);
        let margins = margins.map(|(i, seen)| (i, seen.margins / seen.weight));
        self.objective(margins.max_by(|a, b| a.1.total_cmp(&b.1))?.0)
    }

    fn goodput(&self, level: u32) -> Option<Goodput> {
        let level = self.levels.get(&level).filter(|level| level.seconds > 0.0)?;
        Some(Goodput { requests_per_second: level.good / level.seconds, interval: None })
    }

    /// The answer whose largest load is `met` and whose smallest overload is `missed`.
    pub fn answer(&self, outcome: SearchOutcome, met: Option<u32>, missed: Option<u32>) -> Answer {
        let fit = self.fit();
        let (largest_met, smallest_missed) = self.seen_bracket();
        let binding = match (met, missed) {
            (_, None) => None,
            (None, Some(missed)) => self.worst_objective(missed),
            (Some(_), Some(missed)) => match fit.crossing() {
                Some((index, _)) => self.objective(index),
                None => self.worst_objective(missed),
            },
        };
        let boundary = met.zip(missed).and_then(|(met, missed)| {
            let jump = fit.margin(missed)? - fit.margin(met)?;
            // Over a wide bracket a smooth curve rises as much.
            let near = missed - met <= 1 || f64::from(missed) <= 1.1 * f64::from(met);
            near.then_some(if jump > CLIFF { Boundary::Cliff } else { Boundary::Smooth })
        });
        Answer {
            outcome,
            load: met.map(Load::Concurrency),
            interval: None,
            safe_load: None,
            largest_met: largest_met.map(Load::Concurrency),
            smallest_missed: smallest_missed.map(Load::Concurrency),
            boundary,
            binding_objective: binding,
            binding_probability: None,
            goodput: met.and_then(|level| self.goodput(level)),
            resolution: None,
            notes: self.notes(),
        }
    }

    /// What the reader should know of the curve.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let (Some(met), Some(missed)) = self.seen_bracket()
            && met > missed
        {
            notes.push(format!(
                "the SLO was missed at {missed} concurrent but met at {met}: noise, or latency that does not only \
                 rise with load; measure the loads between with `--strategy grid`"
            ));
        }
        let unjudged = self.unjudged();
        if !unjudged.is_empty() {
            notes.push(format!(
                "too few samples for a verdict at {} concurrent; allow more requests or a longer trial",
                list(&unjudged)
            ));
        }
        notes
    }
}

impl Seen {
    fn holds(&self, objective: &Objective) -> bool {
        match objective.allowed_misses() {
            Some(allowed) if self.of > 0 => f64::from(self.over) <= allowed * f64::from(self.of) + 1e-9,
            _ => self.margins <= 0.0,
        }
    }
}

/// A trial of a fixed size at a level. `factor` multiplies the size of an ordinary one; `last` is the
/// level and the margin of the trial before.
pub(super) fn fixed_trial(
    slo: &Slo,
    plan: &TrialPlan,
    level: u32,
    factor: u32,
    last: Option<(u32, f64)>,
) -> TrialSpec {
    let requests = plan.requests.max(level.saturating_mul(2)).max(least_requests(slo));
    TrialSpec {
        load: Load::Concurrency(level),
        kind: TrialKind::Measure,
        retreat: last.is_some_and(|(before, margin)| level < before && margin > OVERLOAD),
        // What is cut off the start would cost a window.
        settle: Settle { completions_per_user: 1.0, truncate: slo.longest_window().is_none() },
        rule: StopRule::Fixed {
            requests: requests.saturating_mul(factor),
            min_seconds: plan.min_seconds,
            max_seconds: plan.max_seconds * f64::from(factor),
        },
    }
}

/// Fewest requests from which the rarest percentile of an SLO can be told.
pub(super) fn least_requests(slo: &Slo) -> u32 {
    let per_request = slo.objectives.iter().filter(|objective| objective.metric != Metric::Itl);
    let rarest = per_request.filter_map(Objective::allowed_misses).filter(|&allowed| allowed > 0.0);
    rarest.map(|allowed| (RESERVE / allowed).ceil()).fold(0.0, f64::max) as u32
}

/// A trial that warms the server up, at a level like those of a light load.
pub(super) fn warm_up(min: u32, max: u32) -> TrialSpec {
    TrialSpec {
        load: Load::Concurrency(8.clamp(min, max)),
        kind: TrialKind::Warmup,
        retreat: false,
        settle: Settle { completions_per_user: 0.0, truncate: false },
        rule: StopRule::Warm { window: 4.0, improvement: 0.02, windows: 15 },
    }
}

/// The largest margin of a trial.
pub(super) fn worst_margin(outcome: &TrialOutcome) -> f64 {
    outcome.readings.iter().map(|reading| reading.margin).fold(f64::NEG_INFINITY, f64::max)
}

pub(super) fn level_of(load: Load) -> u32 {
    load.value() as u32
}

pub(super) fn log(level: u32) -> f64 {
    f64::from(level).ln()
}

/// `1, 2 and 3`
pub(super) fn list(levels: &[u32]) -> String {
    let texts: Vec<String> = levels.iter().map(u32::to_string).collect();
    match texts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => texts.concat(),
    }
}
