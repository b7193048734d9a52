//! Where an objective is crossed, from the trials' log-quantiles.
//!
//! For an objective whose whole trial moves together (TPOT: every request shares the step time),
//! counts waste what was seen: all or none are over. Here the log of each trial's quantile relative
//! to its limit is a line in the log load plus the server's slow noise plus the trial's own:
//!
//! `y_k = s (x_k - c) + B(t_k) + e_k`
//!
//! `B` is an Ornstein-Uhlenbeck process with sd `slow` and correlation time `tc`, averaged over each
//! trial; `e_k` has sd `own` at the mean sample size and grows with the distance from the limit,
//! where the line bends. For each cell of a grid of (`slow`, `tc`, `own`) generalized least squares
//! gives the line in closed form; the cells are weighted by their evidence and by what the parts of the
//! trials say of the noise ([`super::noise`]), so that how noisy the server is comes from the run. The long-run quantile lies above the mean of the trials' quantiles
//! by a correction that is read off the pooled residuals (sectioning).

use super::noise::{self, Block, CORRELATION, SLOW};
use crate::stats::special::normal_quantile;

/// Sd of a trial's own noise, log scale.
pub(super) const OWN: [f64; 6] = [0.003, 0.006, 0.012, 0.03, 0.07, 0.15];
/// The same where a trial's figure is that of the worst of its windows, which is an extreme.
pub(super) const OWN_OF_WORST: [f64; 6] = [0.01, 0.03, 0.07, 0.15, 0.25, 0.4];
/// Slopes: latency elasticity at the crossing.
const SLOPES: usize = 16;
const SLOPE_RANGE: (f64, f64) = (0.2, 24.0);
const SLOPE_PRIOR: (f64, f64) = (0.0, 0.8);
/// Discount of trials away from the limit: sd `BEND * y^2`.
const BEND: f64 = 0.35;
/// Trials farther from the limit than this (log scale) are left to the signs.
pub(super) const REACH: f64 = 0.6;

/// What the line needs of one trial.
#[derive(Clone, Debug)]
pub struct LineTrial {
    /// Log of the quantile relative to its limit.
    pub margin: f64,
    /// Mean log load over the samples' lives.
    pub log_load: f64,
    /// Measured window, seconds on the run's clock.
    pub window: (f64, f64),
    /// Samples.
    pub samples: f64,
    /// Quantiles of the samples' own margins, evenly spaced.
    pub profile: Vec<f32>,
    /// Medians of successive parts of the samples.
    pub blocks: Vec<f32>,
}

/// A mixture of normals for the crossing.
#[derive(Clone, Debug)]
pub struct LinePosterior {
    /// `(mean, sd, weight)` of the crossing, log load.
    pub mixture: Vec<(f64, f64, f64)>,
    /// Posterior mean (geometric) of the slope.
    pub slope: f64,
    /// Posterior mean of the sd of the slow noise, log scale.
    pub slow: f64,
    /// Posterior mean of its correlation time, seconds.
    pub correlation: f64,
    /// Trials that took part.
    pub used: usize,
}

impl LinePosterior {
    /// Log density at each point of `grid` (not normalised).
    pub fn log_density(&self, grid: &[f64]) -> Vec<f64> {
        grid.iter()
            .map(|&c| {
                let density: f64 = self
                    .mixture
                    .iter()
                    .map(|&(mean, sd, weight)| weight / sd * (-0.5 * ((c - mean) / sd).powi(2)).exp())
                    .sum();
                (density + 1e-300).ln()
            })
            .collect()
    }
}

/// Fits the line. `own` are the sds that a trial's own noise may have, `allowed` is the share of samples
/// that may be over, `inflation` multiplies the sd of the result. `None` with fewer than two trials within reach of the limit.
pub fn posterior(trials: &[LineTrial], own: &[f64], allowed: f64, inflation: f64) -> Option<LinePosterior> {
    let near: Vec<&LineTrial> = trials.iter().filter(|trial| trial.margin.abs() < REACH).collect();
    if near.len() < 2 {
        return None;
    }
    let count = near.len() as f64;
    let centre = near.iter().map(|trial| trial.log_load).sum::<f64>() / count;
    let mean_samples = near.iter().map(|trial| trial.samples).sum::<f64>() / count;
    let ones = vec![1.0; near.len()];
    let y: Vec<f64> = near.iter().map(|trial| trial.margin).collect();
    let x: Vec<f64> = near.iter().map(|trial| trial.log_load - centre).collect();
    let slopes: Vec<f64> = (0..SLOPES)
        .map(|i| {
            let fraction = i as f64 / (SLOPES - 1) as f64;
            (SLOPE_RANGE.0.ln() + fraction * (SLOPE_RANGE.1 / SLOPE_RANGE.0).ln()).exp()
        })
        .collect();

    let mut cells = Vec::with_capacity(SLOW.len() * CORRELATION.len() * own.len() * SLOPES);
    let noise = noise::weights(&blocks(&near));
    for (j, (tc, _)) in CORRELATION.into_iter().enumerate() {
        let shape = correlations(&near, tc);
        let mean_shape = shape.iter().sum::<f64>() / (count * count);
        for (i, (slow, _)) in SLOW.into_iter().enumerate() {
            let prior = noise[i][j];
            if prior < 1e-4 {
                continue;
            }
            for &own in own {
                let mut matrix = shape.clone();
                matrix.iter_mut().for_each(|value| *value *= slow * slow);
                for (k, trial) in near.iter().enumerate() {
                    let bend = BEND * trial.margin * trial.margin;
                    matrix[k * near.len() + k] += own * own * mean_samples / trial.samples + bend * bend;
                }
                let Some(factor) = Cholesky::new(matrix, near.len()) else { continue };
                let (u, v, w) = (factor.half_solve(&ones), factor.half_solve(&y), factor.half_solve(&x));
                let (uu, uv, uw) = (dot(&u, &u), dot(&u, &v), dot(&u, &w));
                let (vv, vw, ww) = (dot(&v, &v), dot(&v, &w), dot(&w, &w));
                for &s in &slopes {
                    let level = (uv - s * uw) / uu;
                    let misfit = vv - 2.0 * s * vw + s * s * ww - uu * level * level;
                    let log_slope = (s.ln() - SLOPE_PRIOR.0) / SLOPE_PRIOR.1;
                    let log_weight =
                        -0.5 * (factor.log_det() + uu.ln() + misfit + log_slope * log_slope) + prior.ln();
                    cells.push(Cell {
                        level,
                        variance: 1.0 / uu,
                        slope: s,
                        slow,
                        tc,
                        shared: slow * slow * mean_shape,
                        log_weight,
                    });
                }
            }
        }
    }
    let top = cells.iter().map(|cell| cell.log_weight).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = cells.iter().map(|cell| (cell.log_weight - top).exp()).sum();
    let mean = |value: &dyn Fn(&Cell) -> f64| {
        cells.iter().map(|cell| (cell.log_weight - top).exp() * value(cell)).sum::<f64>() / total
    };
    let slope = mean(&|cell| cell.slope.ln()).exp();
    let shared = mean(&|cell| cell.shared);
    let sections = Sections { trials: &near, y: &y, centre, slope, allowed, shared };
    let (shift, shift_variance) = sections.shift();
    let mixture = cells
        .iter()
        .map(|cell| (cell, (cell.log_weight - top).exp() / total))
        .filter(|&(_, weight)| weight > 2e-4)
        .map(|(cell, weight)| {
            let crossing = centre - (cell.level + shift) / cell.slope;
            let variance = cell.variance + shift_variance + 1e-8;
            (crossing, inflation * variance.sqrt() / cell.slope, weight)
        })
        .collect();
    Some(LinePosterior {
        mixture,
        slope,
        slow: mean(&|cell| cell.slow),
        correlation: mean(&|cell| cell.tc),
        used: near.len(),
    })
}

struct Cell {
    level: f64,
    variance: f64,
    slope: f64,
    slow: f64,
    tc: f64,
    /// Variance of the slow noise that the mean over all trials shares.
    shared: f64,
    log_weight: f64,
}

/// The parts of all trials, in order of time.
fn blocks(trials: &[&LineTrial]) -> Vec<Block> {
    let mut blocks: Vec<Block> = trials
        .iter()
        .flat_map(|trial| {
            let (from, to) = trial.window;
            let part = (to - from) / trial.blocks.len().max(1) as f64;
            trial.blocks.iter().enumerate().map(move |(k, &median)| Block {
                at: from + part * (k as f64 + 0.5),
                log_load: trial.log_load,
                median: f64::from(median),
            })
        })
        .collect();
    blocks.sort_by(|a, b| a.at.total_cmp(&b.at));
    blocks
}

/// Correlations of the slow noise averaged over the trials' windows, row by row.
fn correlations(trials: &[&LineTrial], tc: f64) -> Vec<f64> {
    let mut matrix = Vec::with_capacity(trials.len() * trials.len());
    for a in trials {
        for b in trials {
            matrix.push(averaged_correlation(a.window, b.window, tc));
        }
    }
    matrix
}

/// Mean of `exp(-|t - u| / tc)` for `t` in one window and `u` in the other: the covariance of the
/// averages of a unit Ornstein-Uhlenbeck process.
fn averaged_correlation(a: (f64, f64), b: (f64, f64), tc: f64) -> f64 {
    // H(d) is the second antiderivative of exp(-|d| / tc).
    let h = |d: f64| tc * d.abs() + tc * tc * ((-d.abs() / tc).exp() - 1.0);
    let (length_a, length_b) = ((a.1 - a.0).max(1e-3), (b.1 - b.0).max(1e-3));
    let (a1, b1) = (a.0 + length_a, b.0 + length_b);
    (h(a1 - b.0) - h(a1 - b1) - h(a.0 - b.0) + h(a.0 - b1)) / (length_a * length_b)
}

/// What the pooled samples say beyond the mean of the trials' quantiles.
struct Sections<'a> {
    trials: &'a [&'a LineTrial],
    y: &'a [f64],
    centre: f64,
    slope: f64,
    allowed: f64,
    /// Variance of the slow noise that the mean over all trials shares.
    shared: f64,
}

impl Sections<'_> {
    /// Groups of the jackknife.
    const GROUPS: usize = 8;
    /// Share of the shift that is doubtful at least, for one trial.
    const DOUBT: f64 = 0.4;

    /// How far the long-run quantile lies above the mean of the trials' quantiles, and the variance
    /// of that: a few stalls make the pooled tail of some trials, which other trials would not have.
    fn shift(&self) -> (f64, f64) {
        let shift = self.without(usize::MAX);
        let count = self.trials.len() as f64;
        let least = (Self::DOUBT * shift).powi(2) / count;
        if self.trials.len() < 4 {
            return (shift, least);
        }
        let groups = self.trials.len().min(Self::GROUPS);
        let left: Vec<f64> = (0..groups).map(|group| self.without(group)).collect();
        let mean = left.iter().sum::<f64>() / groups as f64;
        let spread: f64 = left.iter().map(|value| (value - mean).powi(2)).sum();
        // Delete-a-group jackknife (Shao and Tu, The Jackknife and Bootstrap, 1995, 2.3).
        (shift, least.max(spread * (groups as f64 - 1.0) / groups as f64))
    }

    /// The shift as the trials outside a group tell it.
    fn without(&self, group: usize) -> f64 {
        let groups = self.trials.len().min(Self::GROUPS);
        let kept = || {
            let all = self.trials.iter().zip(self.y).enumerate();
            all.filter(move |(index, _)| group == usize::MAX || index % groups != group).map(|(_, pair)| pair)
        };
        let trend = |trial: &LineTrial| self.slope * (trial.log_load - self.centre);
        let mut residuals: Vec<(f64, f64)> = kept()
            .flat_map(|(trial, _)| {
                let weight = trial.samples / trial.profile.len().max(1) as f64;
                let trend = trend(trial);
                trial.profile.iter().map(move |&value| (f64::from(value) - trend, weight))
            })
            .collect();
        if residuals.is_empty() {
            return 0.0;
        }
        residuals.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let upper = weighted_quantile(&residuals, 1.0 - self.allowed);
        let median = weighted_quantile(&residuals, 0.5);
        let z = normal_quantile((1.0 - self.allowed).clamp(0.501, 0.9999));
        let (sum, count) = kept().fold((0.0, 0.0), |(sum, n), (trial, y)| (sum + y - trend(trial), n + 1.0));
        let spread = ((upper - median) / z).max(1e-3);
        // The mean of all trials has itself wandered with the slow noise: over a long run the
        // distribution is wider by that variance.
        (upper - sum / count) + z * ((spread * spread + self.shared).sqrt() - spread)
    }
}

fn weighted_quantile(sorted: &[(f64, f64)], p: f64) -> f64 {
    let total: f64 = sorted.iter().map(|&(_, weight)| weight).sum();
    let mut sum = 0.0;
    for &(value, weight) in sorted {
        sum += weight;
        if sum >= p * total {
            return value;
        }
    }
    sorted.last().map_or(0.0, |&(value, _)| value)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Lower Cholesky factor of a small symmetric matrix.
struct Cholesky {
    factor: Vec<f64>,
    size: usize,
}

impl Cholesky {
    /// `None` where the matrix is not positive definite.
    fn new(mut matrix: Vec<f64>, size: usize) -> Option<Self> {
        for column in 0..size {
            for row in column..size {
                let mut value = matrix[row * size + column];
                for k in 0..column {
                    value -= matrix[row * size + k] * matrix[column * size + k];
                }
                if row == column {
                    if value <= 0.0 {
                        return None;
                    }
                    matrix[row * size + column] = value.sqrt();
                } else {
                    matrix[row * size + column] = value / matrix[column * size + column];
                }
            }
        }
        Some(Self { factor: matrix, size })
    }

    /// Solves `L z = b`.
    fn half_solve(&self, b: &[f64]) -> Vec<f64> {
        let mut z: Vec<f64> = Vec::with_capacity(self.size);
        for (row, value) in b.iter().enumerate() {
            let known: f64 = z.iter().enumerate().map(|(k, z)| self.factor[row * self.size + k] * z).sum();
            z.push((value - known) / self.factor[row * self.size + row]);
        }
        z
    }

    fn log_det(&self) -> f64 {
        (0..self.size).map(|k| 2.0 * self.factor[k * self.size + k].ln()).sum()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rng::Stream;

    fn trial(k: usize, log_load: f64, margin: f64) -> LineTrial {
        let start = 10.0 * k as f64;
        LineTrial {
            margin,
            log_load,
            window: (start, start + 8.0),
            samples: 100.0,
            profile: Vec::new(),
            blocks: Vec::new(),
        }
    }

    #[test]
    fn a_clean_line_is_found_and_the_noise_is_learned() {
        let crossing = 4.5_f64;
        for (noise, widest) in [(0.002, 0.01), (0.03, 0.09)] {
            let mut stream = Stream::new(5, "line");
            let trials: Vec<LineTrial> = (0..16)
                .map(|k| {
                    let x = crossing + 0.1 * (k as f64 / 7.5 - 1.0);
                    trial(k, x, 0.8 * (x - crossing) + noise * stream.normal())
                })
                .collect();
            let fit = posterior(&trials, &OWN, 0.05, 1.0).unwrap();
            let mean: f64 = fit.mixture.iter().map(|m| m.0 * m.2).sum();
            let sd = fit.mixture.iter().map(|m| m.2 * (m.1 * m.1 + (m.0 - mean).powi(2))).sum::<f64>().sqrt();
            assert!((mean - crossing).abs() < 3.0 * sd, "mean {mean} sd {sd}");
            assert!(sd < widest, "sd {sd}");
        }
    }

    #[test]
    fn averaged_correlation_agrees_with_direct_integration() {
        let (a, b, tc) = ((0.0, 5.0), (3.0, 9.0), 4.0);
        let n = 600;
        let mut sum = 0.0;
        for i in 0..n {
            for j in 0..n {
                let t = a.0 + (a.1 - a.0) * (i as f64 + 0.5) / n as f64;
                let u = b.0 + (b.1 - b.0) * (j as f64 + 0.5) / n as f64;
                sum += (-(t - u).abs() / tc).exp();
            }
        }
        let direct = sum / (n * n) as f64;
        assert!((averaged_correlation(a, b, tc) - direct).abs() < 1e-4);
    }
}
