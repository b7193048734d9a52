//! Doubling, three probes, then isotonic regression and interpolation until the bracket is narrow.
//!
//! The verdict of each trial stands as it is. The fit is that of the objective with the largest
//! margin, in milliseconds, at the highest level tried.

use std::collections::BTreeMap;

use crate::selftest::peers::Found;
use crate::selftest::peers::bench::Bench;
use crate::stats::isotonic::{Isotonic, Point};
use crate::stats::monotone::Pchip;

/// Trials at the most.
const MOST_TRIALS: u32 = 30;
/// Width of the bracket, relative to its upper end, at which the search ends.
const PRECISION: f64 = 0.05;
/// Fits that may ask for more places before one is trusted.
const PATIENT_FITS: u32 = 3;

/// Searches 1 to `highest`.
pub fn search(bench: &mut Bench, highest: u32) -> Found {
    let mut planner = Planner::new(highest);
    if let Some(found) = planner.double(bench) {
        return found;
    }
    let mut queue = planner.inside(&[0.25, 0.5, 0.75]);
    loop {
        for level in queue {
            if bench.trials() >= MOST_TRIALS {
                return planner.found();
            }
            planner.probe(bench, level);
        }
        if bench.trials() >= MOST_TRIALS {
            return planner.found();
        }
        match planner.decide() {
            Some(levels) => queue = levels,
            None => return planner.found(),
        }
    }
}

struct Planner {
    highest: u32,
    /// Margins of each trial, by level.
    trials: BTreeMap<u32, Vec<Vec<f64>>>,
    last: u32,
    met: Option<u32>,
    missed: Option<u32>,
    fits: u32,
    /// A cliff was seen: from here on the bracket is halved.
    cliff: bool,
}

impl Planner {
    fn new(highest: u32) -> Self {
        Self { highest, trials: BTreeMap::new(), last: 1, met: None, missed: None, fits: 0, cliff: false }
    }

    /// Measures a level; whether it met the SLO. A verdict that contradicts the bracket moves nothing.
    fn probe(&mut self, bench: &mut Bench, level: u32) -> bool {
        let measured = bench.measure(level);
        let met = measured.margins.iter().all(|&margin| margin < 0.0);
        self.trials.entry(level).or_default().push(measured.margins);
        self.last = level;
        if met && self.missed.is_none_or(|missed| level < missed) {
            self.met = Some(self.met.map_or(level, |before| before.max(level)));
        } else if !met && self.met.is_none_or(|met| level > met) {
            self.missed = Some(self.missed.map_or(level, |before| before.min(level)));
        }
        met
    }

    /// Doubles from 1 until a level misses; the end of the search where none does or the first one does.
    fn double(&mut self, bench: &mut Bench) -> Option<Found> {
        let mut level = 1;
        while self.probe(bench, level) {
            if level >= self.highest {
                return Some(Found { met: self.highest, low: self.highest, high: None });
            }
            level = level.saturating_mul(2).min(self.highest);
        }
        self.met.is_none().then(|| self.found())
    }

    fn found(&self) -> Found {
        let met = self.met.unwrap_or(0);
        Found { met, low: met, high: self.missed }
    }

    fn bracket(&self) -> (u32, u32) {
        (self.met.unwrap_or(0), self.missed.unwrap_or(self.highest))
    }

    fn is_precise(&self) -> bool {
        let (met, missed) = self.bracket();
        missed - met <= 1 || f64::from(missed - met) / f64::from(missed) < PRECISION
    }

    /// New levels at these shares of the bracket.
    fn inside(&self, shares: &[f64]) -> Vec<u32> {
        let (met, missed) = self.bracket();
        let mut levels = Vec::new();
        if missed - met > 1 {
            for share in shares {
                let step = (f64::from(missed - met) * share).round() as u32;
                let level = (met + step).clamp(met + 1, missed - 1);
                if !self.trials.contains_key(&level) && !levels.contains(&level) {
                    levels.push(level);
                }
            }
        }
        levels
    }

    /// What to measure next; `None` at the end.
    fn decide(&mut self) -> Option<Vec<u32>> {
        let (met, missed) = self.bracket();
        let middle = met + (missed - met) / 2;
        if self.cliff {
            return (!self.is_precise()).then(|| vec![middle]);
        }
        self.fits += 1;
        let (seen, fit) = self.fit()?;
        let candidate = match root(&fit, met, missed) {
            Some(level) => level,
            None if missed - met <= 1 => return None,
            None => middle,
        };
        let mut steps = fit.y.clone();
        steps.dedup();
        if (seen.len() < 4 || steps.len() < 3) && self.fits < PATIENT_FITS {
            let levels = self.inside(&[0.125, 0.625]);
            return Some(if levels.is_empty() { vec![self.last] } else { levels });
        }
        if self.is_precise() {
            return None;
        }
        if self.is_cliff(&seen, &fit) {
            self.cliff = true;
            return Some(vec![middle]);
        }
        (!self.trials.contains_key(&candidate)).then(|| vec![candidate])
    }

    /// The mean margins by level of the objective that is worst at the highest level, and their fit.
    fn fit(&self) -> Option<(Vec<f64>, Isotonic)> {
        let mean = |trials: &[Vec<f64>], objective: usize| {
            trials.iter().map(|margins| margins[objective]).sum::<f64>() / trials.len() as f64
        };
        let (_, top) = self.trials.last_key_value()?;
        let objectives = 0..top.first()?.len();
        let worst = objectives.max_by(|&a, &b| mean(top, a).total_cmp(&mean(top, b)))?;
        let seen: Vec<f64> = self.trials.values().map(|trials| mean(trials, worst)).collect();
        let points: Vec<Point> = (self.trials.keys().zip(&seen))
            .map(|(&level, &y)| Point { x: f64::from(level), y, weight: 1.0 })
            .collect();
        Some((seen, Isotonic::fit(&points)))
    }

    /// Whether the highest level lies far off the fit while the bracket is still wide.
    fn is_cliff(&self, seen: &[f64], fit: &Isotonic) -> bool {
        let (met, missed) = self.bracket();
        let (Some(last), Some(fitted)) = (seen.last(), fit.y.last()) else { return false };
        let tail = &seen[seen.len().saturating_sub(3)..];
        let mean = tail.iter().sum::<f64>() / tail.len() as f64;
        let sd = (tail.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / tail.len() as f64).sqrt();
        tail.len() == 3
            && sd > 0.0
            && (last - fitted).abs() > 3.0 * sd
            && f64::from(missed - met) > PRECISION * f64::from(self.highest)
    }
}

/// The whole level within the bracket at which the curve through the fit crosses zero.
fn root(fit: &Isotonic, met: u32, missed: u32) -> Option<u32> {
    let root = Pchip::new(&fit.x, &fit.y)?.solve(0.0)?;
    if root < f64::from(met) || root > f64::from(missed) {
        return None;
    }
    Some((root.round() as u32).min(missed.saturating_sub(1)).max(met + 1))
}
