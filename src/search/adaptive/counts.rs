//! Where an objective is crossed, from counts of samples over its limit.
//!
//! Trial `k` at log load `x_k` saw `E_k` of `n_k` samples over the limit. Were requests
//! independent, `E_k` would be binomial with `p(x_k)`; requests of one trial share the server's
//! mood, so the share itself varies from trial to trial: `E_k` is beta-binomial with overdispersion
//! `rho`, which is learned from the trials. The curve is a probit line in the log load,
//! `p(x) = Phi(z_p + b (x - c))`, with `c` the crossing: at `x = c` exactly the allowed share is
//! over. Counts near 0 and near `n` say little more than a sign, so a cliff needs no case of its
//! own.

use crate::stats::special::{ln_beta, ln_gamma, normal_cdf, normal_quantile};

/// Overdispersion values and their prior weights: a share of misses as quiet as independent
/// requests up to trials that are nearly all or nothing.
const RHO: [(f64, f64); 7] =
    [(0.003, 0.12), (0.01, 0.14), (0.03, 0.16), (0.07, 0.16), (0.14, 0.16), (0.25, 0.15), (0.40, 0.11)];
/// Slopes of the probit line per unit of log load: from a gentle curve to a cliff.
const SLOPES: usize = 18;
const SLOPE_RANGE: (f64, f64) = (1.5, 200.0);
/// Prior of the log slope.
const SLOPE_PRIOR: (f64, f64) = (2.6, 1.1);
/// Share of trials that follow no model at all (an outlier): uniform counts.
const OUTLIERS: f64 = 0.01;
/// The grid of probit arguments on which each trial's likelihood is tabulated.
const Z: (f64, f64, usize) = (-4.5, 0.05, 161);

/// The likelihood of one trial's counts as a function of the probit argument and `rho`.
#[derive(Clone, Debug)]
pub struct CountTrial {
    log_load: f64,
    /// When its measured window began, seconds.
    pub at: f64,
    /// `Z.2` rows of one value for each `rho`.
    table: Vec<[f64; RHO.len()]>,
}

impl CountTrial {
    /// Tabulates `over` misses among `of` samples at `log_load`, in a window that began at `at` seconds.
    pub fn new(over: u32, of: u32, log_load: f64, at: f64) -> Self {
        let (over, of) = (f64::from(over), f64::from(of));
        let choose = ln_gamma(of + 1.0) - ln_gamma(over + 1.0) - ln_gamma(of - over + 1.0);
        let table = (0..Z.2)
            .map(|row| {
                let share = normal_cdf(Z.0 + Z.1 * row as f64).clamp(1e-9, 1.0 - 1e-9);
                RHO.map(|(rho, _)| {
                    let scale = (1.0 - rho) / rho;
                    let (alpha, beta) = (share * scale, (1.0 - share) * scale);
                    let log = choose + ln_beta(over + alpha, of - over + beta) - ln_beta(alpha, beta);
                    ((1.0 - OUTLIERS) * log.exp() + OUTLIERS / (of + 1.0)).ln()
                })
            })
            .collect();
        Self { log_load, at, table }
    }
}

/// The posterior of the crossing given the counts.
#[derive(Clone, Debug)]
pub struct CountPosterior {
    /// Log density at each point of the grid (not normalised).
    pub log_density: Vec<f64>,
    /// Posterior mean (geometric) of the probit slope.
    pub slope: f64,
    /// Posterior mean of the overdispersion.
    pub rho: f64,
}

/// Evaluates the posterior of the crossing on `grid` (log load).
///
/// `allowed` is the share of samples that may be over; the log likelihood is divided by `temper`,
/// which allows for what the model leaves out (slow noise shared between trials, looking often).
pub fn posterior(trials: &[CountTrial], allowed: f64, temper: f64, grid: &[f64]) -> CountPosterior {
    let z_allowed = normal_quantile(allowed.clamp(0.002, 0.998));
    let slopes: Vec<f64> = (0..SLOPES)
        .map(|i| {
            let fraction = i as f64 / (SLOPES - 1) as f64;
            (SLOPE_RANGE.0.ln() + fraction * (SLOPE_RANGE.1 / SLOPE_RANGE.0).ln()).exp()
        })
        .collect();
    let prior: Vec<f64> =
        slopes.iter().map(|b| -0.5 * ((b.ln() - SLOPE_PRIOR.0) / SLOPE_PRIOR.1).powi(2)).collect();
    let mut cells = vec![[0.0_f64; RHO.len()]; grid.len() * SLOPES];
    for (c_index, &crossing) in grid.iter().enumerate() {
        for (b_index, &slope) in slopes.iter().enumerate() {
            let cell = &mut cells[c_index * SLOPES + b_index];
            for trial in trials {
                let z = z_allowed + slope * (trial.log_load - crossing);
                let place = ((z - Z.0) / Z.1).clamp(0.0, Z.2 as f64 - 1.001);
                let row = place as usize;
                let fraction = place - row as f64;
                let (low, high) = (&trial.table[row], &trial.table[row + 1]);
                for ((sum, low), high) in cell.iter_mut().zip(low).zip(high) {
                    *sum += low + fraction * (high - low);
                }
            }
            for (sum, (_, weight)) in cell.iter_mut().zip(RHO) {
                *sum = *sum / temper + weight.ln() + prior[b_index];
            }
        }
    }
    let top = cells.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
    let (mut log_density, mut total) = (Vec::with_capacity(grid.len()), 0.0);
    let (mut slope_sum, mut rho_sum) = (0.0, 0.0);
    for c_index in 0..grid.len() {
        let mut here = 0.0;
        for (b_index, slope) in slopes.iter().enumerate() {
            for (value, (rho, _)) in cells[c_index * SLOPES + b_index].iter().zip(RHO) {
                let weight = (value - top).exp();
                here += weight;
                slope_sum += weight * slope.ln();
                rho_sum += weight * rho;
            }
        }
        total += here;
        log_density.push((here + 1e-300).ln());
    }
    CountPosterior { log_density, slope: (slope_sum / total).exp(), rho: rho_sum / total }
}
