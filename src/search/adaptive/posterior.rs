//! The posterior of the boundary: the smallest of the objectives' crossings.

use std::cmp::Ordering;

use crate::plan::LoadRange;
use crate::search::answer::SearchOutcome;
use crate::search::trial::{TrialKind, TrialOutcome};
use crate::slo::{Metric, Slo};

use super::counts::{self, CountTrial};
use super::line::{self, LineTrial};
use super::navigation::users;
use super::settings::Settings;

/// Log probability of a clear navigation verdict being wrong.
const SIGN_ERROR: f64 = -6.9;
/// The same where the objective is judged by counting: near a cliff most short looks find no queue at
/// all though the long-run share of misses is beyond the limit, and a few find one below it.
const COUNTED_SIGN_ERROR: f64 = -1.6;
/// Margin (log scale) from which a navigation verdict is called clear, and its share of sds.
const CLEAR: (f64, f64) = (0.3, 3.0);
/// Probability of binding below which another objective has a say.
const CONTENDED: f64 = 0.95;
/// Spread of the samples within trials, log scale, above which an objective is judged by counting:
/// its samples vary on their own. Below, the whole trial moves together.
const OWN_SPREAD: f64 = 0.2;
/// Points of the grid of crossings.
const GRID: usize = 161;

/// What the trials say about each objective.
#[derive(Clone, Debug)]
pub struct Evidence {
    objectives: Vec<ObjectiveEvidence>,
    temper: f64,
    inflation: f64,
    trials: usize,
}

#[derive(Clone, Debug)]
struct ObjectiveEvidence {
    /// Share of samples that may be over; `None` for objectives that are not judged by counting.
    allowed: Option<f64>,
    /// Whether samples of one request each are counted at all.
    countable: bool,
    /// Whether a trial's figure is that of the worst of its windows.
    windowed: bool,
    counts: Vec<CountTrial>,
    lines: Vec<LineTrial>,
    /// Clear verdicts of navigation: log load, and whether it was missed. Of the worst of windows also
    /// those of measuring trials that the line leaves out.
    signs: Vec<(f64, bool)>,
    latest_margin: f64,
}

impl Evidence {
    /// Nothing known yet.
    pub fn new(slo: &Slo, settings: &Settings) -> Self {
        let objectives = slo
            .objectives
            .iter()
            .map(|objective| ObjectiveEvidence {
                allowed: objective.allowed_misses(),
                countable: objective.allowed_misses().is_some(),
                windowed: objective.window.is_some(),
                counts: Vec::new(),
                lines: Vec::new(),
                signs: Vec::new(),
                latest_margin: if objective.metric == Metric::Errors { -4.0 } else { 0.0 },
            })
            .collect();
        Self { objectives, temper: settings.temper, inflation: settings.inflation, trials: 0 }
    }

    /// Measuring trials taken in.
    pub fn trials(&self) -> usize {
        self.trials
    }

    /// Takes in a trial: a navigation trial as signs, a measuring one in full.
    pub fn add(&mut self, outcome: &TrialOutcome) {
        let log_users = f64::from(users(outcome.spec.load)).ln();
        let steers = outcome.spec.kind == TrialKind::Navigate;
        self.trials += usize::from(!steers);
        for (objective, reading) in self.objectives.iter_mut().zip(&outcome.readings) {
            objective.latest_margin = reading.margin;
            if steers {
                let sd = (reading.variance + 0.01).sqrt();
                // A short look that keeps the limit says nothing of the worst of windows.
                let tells = !objective.windowed || reading.margin > 0.0;
                if tells && reading.margin.abs() > CLEAR.0.max(CLEAR.1 * sd) {
                    objective.signs.push((log_users, reading.margin > 0.0));
                }
                continue;
            }
            if objective.windowed && reading.margin.abs() >= line::REACH {
                objective.signs.push((log_users, reading.margin > 0.0));
            }
            if objective.countable && reading.of > 0 {
                objective.counts.push(CountTrial::new(
                    reading.over,
                    reading.of,
                    reading.log_load,
                    outcome.settled,
                ));
            }
            objective.lines.push(LineTrial {
                margin: reading.margin,
                log_load: reading.log_load,
                window: (outcome.settled, outcome.ended),
                samples: f64::from(reading.of.max(1)),
                profile: reading.profile.clone(),
                blocks: reading.blocks.clone(),
            });
        }
    }

    /// Forgets everything from before `at`, seconds: trials and navigation's verdicts.
    pub fn forget_before(&mut self, at: f64) {
        for objective in &mut self.objectives {
            objective.counts.retain(|trial| trial.at >= at);
            objective.lines.retain(|trial| trial.window.0 >= at);
            objective.signs.clear();
        }
        self.trials = self.objectives.first().map_or(0, |objective| objective.lines.len());
    }

    /// Seconds that the measuring trials have measured.
    pub fn seconds(&self) -> f64 {
        let lines = self.objectives.first().map_or(&[][..], |objective| &objective.lines);
        lines.iter().map(|trial| trial.window.1 - trial.window.0).sum()
    }

    /// Forgets navigation's clear verdicts of misses at or below `log_load`: they were a dip.
    pub fn forget_misses_to(&mut self, log_load: f64) {
        for objective in &mut self.objectives {
            objective.signs.retain(|&(at, missed)| !(missed && at <= log_load + 1e-9));
        }
    }

    /// The objective with the largest margin in the latest trial.
    pub fn worst_objective(&self) -> usize {
        let mut worst = 0;
        for (index, objective) in self.objectives.iter().enumerate() {
            if objective.latest_margin > self.objectives[worst].latest_margin {
                worst = index;
            }
        }
        worst
    }

    /// Whether an objective is judged by counting: it can be, and its samples vary on their own.
    pub fn is_counted(&self, index: usize) -> bool {
        self.objectives.get(index).is_some_and(ObjectiveEvidence::is_counted)
    }

    /// The posterior of the boundary; `None` while no objective has two trials to go by.
    pub fn crossing(&self, range: LoadRange) -> Option<Crossing> {
        if self.trials < 2 {
            return None;
        }
        let (mut low, mut high) = ((f64::from(range.min) / 2.0).ln(), (2.0 * f64::from(range.max)).ln());
        let mut crossing = None;
        for round in 0..4 {
            let grid: Vec<f64> =
                (0..GRID).map(|i| low + (high - low) * i as f64 / (GRID - 1) as f64).collect();
            let found = self.on_grid(&grid);
            let (a, b) = (found.quantile(0.0005), found.quantile(0.9995));
            let resolved = grid[1] - grid[0] < 0.1 * (found.quantile(0.84) - found.quantile(0.16));
            let margin = 0.1 * (b - a).max(0.01);
            (low, high) = ((a - margin).max(low), (b + margin).min(high));
            crossing = Some(found);
            if round > 0 && resolved {
                break;
            }
        }
        crossing
    }

    fn on_grid(&self, grid: &[f64]) -> Crossing {
        let fits: Vec<Fit> =
            self.objectives.iter().map(|o| o.fit(grid, self.temper, self.inflation)).collect();
        let mut survival = vec![1.0; grid.len()];
        for fit in &fits {
            for (left, cdf) in survival.iter_mut().zip(&fit.cdf) {
                *left *= 1.0 - cdf;
            }
        }
        let cdf: Vec<f64> = survival.iter().map(|left| 1.0 - left).collect();
        let together =
            (0..grid.len()).map(|i| fits.iter().map(|fit| fit.cdf[i]).fold(0.0, f64::max)).collect();
        // The chance that objective m is crossed first: its density times the others' survival.
        let first: Vec<f64> = fits
            .iter()
            .map(|fit| {
                (0..grid.len())
                    .map(|i| fit.mass[i] * survival[i] / (1.0 - fit.cdf[i]).max(1e-12))
                    .sum::<f64>()
            })
            .collect();
        let total: f64 = first.iter().sum::<f64>().max(1e-300);
        let binding_probability: Vec<f64> = first.iter().map(|p| p / total).collect();
        let mut binding = 0;
        for (index, p) in binding_probability.iter().enumerate() {
            if *p > binding_probability[binding] {
                binding = index;
            }
        }
        Crossing {
            grid: grid.to_vec(),
            cdf,
            together,
            binding,
            binding_probability: binding_probability[binding],
            steepness: fits[binding].steepness,
            elasticity: fits[binding].elasticity,
            counted: fits[binding].counted,
            slow: fits[binding].slow,
        }
    }
}

/// One objective's posterior on a grid.
struct Fit {
    mass: Vec<f64>,
    cdf: Vec<f64>,
    /// Slope of the probit line.
    steepness: f64,
    /// Slope of the log quantile in the log load, where a line was fitted.
    elasticity: Option<f64>,
    slow: Option<(f64, f64)>,
    counted: bool,
}

impl ObjectiveEvidence {
    fn is_counted(&self) -> bool {
        if !self.countable {
            return false;
        }
        let near: Vec<f64> =
            self.lines.iter().filter(|l| l.margin.abs() < 1.0).filter_map(|l| spread(&l.profile)).collect();
        if near.is_empty() {
            return self.lines.is_empty() || self.lines.iter().all(|l| l.margin.abs() >= 1.0);
        }
        near.iter().sum::<f64>() / near.len() as f64 > OWN_SPREAD
    }

    /// The sds that a trial's own noise may have.
    fn own(&self) -> &'static [f64] {
        if self.windowed { &line::OWN_OF_WORST } else { &line::OWN }
    }

    /// Slope of the trials' log quantiles in the log load, by least squares over the trials near the
    /// limit.
    fn elasticity(&self) -> Option<f64> {
        let near: Vec<(f64, f64)> =
            self.lines.iter().filter(|l| l.margin.abs() < 2.0).map(|l| (l.log_load, l.margin)).collect();
        let n = near.len() as f64;
        let (mean_x, mean_y) =
            (near.iter().map(|p| p.0).sum::<f64>() / n, near.iter().map(|p| p.1).sum::<f64>() / n);
        let spread: f64 = near.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
        let shared: f64 = near.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
        (near.len() >= 3 && spread > 1e-4).then(|| shared / spread)
    }

    fn fit(&self, grid: &[f64], temper: f64, inflation: f64) -> Fit {
        let allowed = self.allowed.unwrap_or(0.5);
        let line = if self.is_counted() {
            None
        } else {
            line::posterior(&self.lines, self.own(), allowed, inflation)
        };
        let (mut log_density, steepness, elasticity, slow, counted) = match line {
            Some(line) => {
                let density = line.log_density(grid);
                (
                    density,
                    (8.0 * line.slope).clamp(2.0, 60.0),
                    Some(line.slope),
                    Some((line.slow, line.correlation)),
                    false,
                )
            }
            None => {
                let fit = counts::posterior(&self.counts, allowed, temper, grid);
                (fit.log_density, fit.slope, self.elasticity(), None, true)
            }
        };
        let sign_error = if counted { COUNTED_SIGN_ERROR } else { SIGN_ERROR };
        for &(at, missed) in &self.signs {
            for (value, &c) in log_density.iter_mut().zip(grid) {
                if (missed && c > at) || (!missed && c < at) {
                    *value += sign_error;
                }
            }
        }
        let top = log_density.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut mass: Vec<f64> = log_density.iter().map(|value| (value - top).exp()).collect();
        let total: f64 = mass.iter().sum();
        mass.iter_mut().for_each(|value| *value /= total);
        let mut sum = 0.0;
        let cdf = mass
            .iter()
            .map(|value| {
                sum += value;
                (sum - 0.5 * value).clamp(0.0, 1.0)
            })
            .collect();
        Fit { mass, cdf, steepness, elasticity, slow, counted }
    }
}

/// Spread of a trial's samples on the log scale: the upper tail in sds of a normal.
fn spread(profile: &[f32]) -> Option<f64> {
    let at = |p: f64| profile.get(((profile.len() as f64 * p) as usize).min(profile.len().checked_sub(1)?));
    Some((f64::from(*at(0.95)?) - f64::from(*at(0.5)?)) / 1.645)
}

/// The posterior of the boundary.
#[derive(Clone, Debug)]
pub struct Crossing {
    grid: Vec<f64>,
    /// Of the smallest crossing, were the objectives' errors independent.
    cdf: Vec<f64>,
    /// The same, did they move together.
    together: Vec<f64>,
    /// The objective that most probably is crossed first.
    pub binding: usize,
    /// With what probability.
    pub binding_probability: f64,
    /// Slope of its probit line.
    pub steepness: f64,
    /// Slope of its log quantile in the log load, where known.
    pub elasticity: Option<f64>,
    /// Whether it is judged by counting.
    pub counted: bool,
    /// Sd (log scale) and correlation time (seconds) of the server's slow noise, where known.
    pub slow: Option<(f64, f64)>,
}

/// What a posterior says in whole users.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// How the search ended.
    pub outcome: SearchOutcome,
    /// Median.
    pub estimate: u32,
    /// Lower and upper end of the interval.
    pub interval: (u32, u32),
    /// A load that is safe.
    pub safe: Option<u32>,
}

impl Crossing {
    /// The log load below which the boundary lies with probability `p`.
    ///
    /// All objectives are read off the same trials, so their errors have a correlation between none and
    /// full, which the trials are too few to tell. The smallest of several crossings is lowest where
    /// they err independently and highest where they err together (the bounds of Fréchet and Hoeffding
    /// for non-negative dependence): each end of an interval is taken from its own extreme, and the
    /// median from between them.
    pub fn quantile(&self, p: f64) -> f64 {
        let alone = || self.quantile_of(&self.cdf, p);
        let together = || self.quantile_of(&self.together, p);
        match p.total_cmp(&0.5) {
            Ordering::Less => alone(),
            Ordering::Equal => 0.5 * (alone() + together()),
            Ordering::Greater => together(),
        }
    }

    fn quantile_of(&self, cdf: &[f64], p: f64) -> f64 {
        let index = cdf.partition_point(|&c| c < p);
        match (index.checked_sub(1), cdf.get(index)) {
            (None, _) => self.grid[0],
            (Some(before), None) => self.grid[before],
            (Some(before), Some(&above)) => {
                let below = cdf[before];
                let fraction = if above > below { (p - below) / (above - below) } else { 0.0 };
                self.grid[before] + fraction * (self.grid[index] - self.grid[before])
            }
        }
    }

    /// The interval with the given posterior mass, log load.
    pub fn interval(&self, mass: f64) -> (f64, f64) {
        let tail = (1.0 - mass) / 2.0;
        (self.quantile(tail), self.quantile(1.0 - tail))
    }

    /// Whether the 95 % interval is as narrow as asked for, or as whole users allow.
    pub fn is_narrow(&self, settings: &Settings) -> bool {
        let (low, high) = self.interval(settings.confidence);
        let width = (high - low).exp() - 1.0;
        let (low, high) = (floor_users(low), floor_users(high));
        if high < settings.range.min || low >= settings.range.max {
            return true;
        }
        width <= settings.precision
            || low == high
            || (high - low <= 1 && 1.0 / f64::from(low.max(1)) > settings.precision / 1.5)
    }

    /// Whether the boundary lies between two neighbouring levels that are far apart in relative terms:
    /// nothing finer can be asked for.
    pub fn is_between_neighbours(&self, settings: &Settings) -> bool {
        let (low, high) = self.interval(settings.confidence);
        let (low, high) = (floor_users(low), floor_users(high));
        high - low.min(high) <= 1 && 1.0 / f64::from(low.max(1)) > settings.precision / 2.0
    }

    /// The answer in whole users within the range.
    pub fn report(&self, settings: &Settings) -> Report {
        // Where two objectives contend, the interval is that of both.
        let mass = match self.counted {
            true if self.binding_probability > CONTENDED => settings.mass.0,
            true => settings.mass.0.max(settings.mass.1),
            false => settings.mass.1,
        };
        let (low, high) = self.interval(mass);
        let estimate = floor_users(self.quantile(0.5));
        let range = settings.range;
        let (low, high) = (floor_users(low), floor_users(high));
        let outcome = if estimate < range.min {
            SearchOutcome::MissedAtLowest
        } else if low >= range.max {
            SearchOutcome::MetAtHighest
        } else {
            SearchOutcome::Found
        };
        Report {
            outcome,
            estimate: estimate.min(range.max),
            interval: (low.min(range.max), high.min(range.max)),
            safe: (low >= range.min).then(|| low.min(range.max)),
        }
    }
}

/// The whole users at a log load.
fn floor_users(log_load: f64) -> u32 {
    (log_load.exp() + 1e-9).floor() as u32
}
