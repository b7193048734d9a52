//! How much the server's pace wanders, learned from the run.
//!
//! Each trial leaves the medians of a few successive parts. Over all trials these are a series
//! `m_i = level + s x_i + q x_i^2 + B(t_i) + e_i`, with `B` an Ornstein-Uhlenbeck process (sd `slow`,
//! correlation time `tc`) and `e` white noise. For each (`slow`, `tc`) of a grid a Kalman filter gives
//! the evidence, with the curve's coefficients and the size of `e` integrated out. A trial's one
//! quantile says little of the noise within it; its parts say much.

/// Sd of the slow noise, log scale, with prior weights.
pub const SLOW: [(f64, f64); 7] =
    [(0.0015, 0.10), (0.003, 0.12), (0.007, 0.15), (0.015, 0.18), (0.03, 0.20), (0.05, 0.15), (0.08, 0.10)];
/// Correlation time of the slow noise, seconds, with prior weights.
pub const CORRELATION: [(f64, f64); 4] = [(3.0, 0.2), (10.0, 0.3), (30.0, 0.3), (90.0, 0.2)];
/// Sd of the white noise of a block's median.
const WHITE: [f64; 6] = [0.003, 0.006, 0.012, 0.025, 0.05, 0.1];
/// Divisor of the log evidence: medians of parts have heavier tails than the model.
const TEMPER: f64 = 1.5;
/// Degrees of the curve over the centred log load.
const TERMS: usize = 3;

/// One block of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Its middle, seconds on the run's clock.
    pub at: f64,
    /// Log load.
    pub log_load: f64,
    /// Its median, log scale.
    pub median: f64,
}

/// Posterior weights of the cells of the grid, `SLOW` by `CORRELATION`; they sum to 1.
pub fn weights(blocks: &[Block]) -> [[f64; CORRELATION.len()]; SLOW.len()] {
    let mut log = [[0.0; CORRELATION.len()]; SLOW.len()];
    let enough = blocks.len() >= 12;
    let centre = blocks.iter().map(|block| block.log_load).sum::<f64>() / blocks.len().max(1) as f64;
    for (i, (slow, prior)) in SLOW.iter().enumerate() {
        for (j, (tc, prior_tc)) in CORRELATION.iter().enumerate() {
            log[i][j] = (prior * prior_tc).ln();
            if enough {
                let evidence = WHITE.map(|white| evidence(blocks, centre, *slow, *tc, white));
                let top = evidence.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = evidence.iter().map(|value| (value - top).exp()).sum();
                log[i][j] += (top + (sum / WHITE.len() as f64).ln()) / TEMPER;
            }
        }
    }
    let top = log.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = log.iter().flatten().map(|value| (value - top).exp()).sum();
    log.map(|row| row.map(|value| (value - top).exp() / total))
}

/// Log evidence of one cell.
fn evidence(blocks: &[Block], centre: f64, slow: f64, tc: f64, white: f64) -> f64 {
    // The filter is linear, so the regressors run through it beside the series with the same gains;
    // what it leaves is an ordinary regression on independent innovations.
    let (mut state, mut variance) = ([0.0; TERMS + 1], slow * slow);
    let mut gram = [[0.0; TERMS + 1]; TERMS + 1];
    let mut log_det = 0.0;
    let mut before = f64::NEG_INFINITY;
    for block in blocks {
        let decay = if before.is_finite() { (-(block.at - before).max(0.0) / tc).exp() } else { 0.0 };
        before = block.at;
        variance = decay * decay * variance + slow * slow * (1.0 - decay * decay);
        let x = block.log_load - centre;
        let seen = [1.0, x, x * x, block.median];
        let total = variance + white * white;
        let gain = variance / total;
        let mut innovation = [0.0; TERMS + 1];
        for k in 0..=TERMS {
            let expected = decay * state[k];
            innovation[k] = seen[k] - expected;
            state[k] = expected + gain * innovation[k];
        }
        variance *= 1.0 - gain;
        log_det += total.ln();
        for a in 0..=TERMS {
            for b in 0..=TERMS {
                gram[a][b] += innovation[a] * innovation[b] / total;
            }
        }
    }
    // Sweep the regressors out; a little ridge keeps a single level from being singular.
    let mut log_gram = 0.0;
    for k in 0..TERMS {
        let pivot = gram[k][k] + 1e-6;
        log_gram += pivot.ln();
        let row = gram[k];
        for below in &mut gram[k + 1..] {
            let factor = below[k] / pivot;
            for (value, above) in below.iter_mut().zip(row) {
                *value -= factor * above;
            }
        }
    }
    -0.5 * (log_det + log_gram + gram[TERMS][TERMS])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    fn series(slow: f64, tc: f64, white: f64, seed: u64) -> Vec<Block> {
        let mut stream = Stream::new(seed, "noise");
        let (mut wander, step) = (slow * stream.normal(), 1.2);
        (0..120)
            .map(|i| {
                let decay = f64::exp(-step / tc);
                wander = decay * wander + slow * (1.0 - decay * decay).sqrt() * stream.normal();
                let log_load = 4.5 + 0.08 * f64::from(i / 8 % 2);
                let median = 0.8 * (log_load - 4.5) + wander + white * stream.normal();
                Block { at: step * f64::from(i), log_load, median }
            })
            .collect()
    }

    /// Posterior mean of the sd of the slow noise.
    fn learned(blocks: &[Block]) -> f64 {
        let weights = weights(blocks);
        SLOW.iter().zip(weights).map(|((slow, _), row)| slow * row.iter().sum::<f64>()).sum()
    }

    #[test]
    fn a_quiet_server_is_told_from_one_that_wanders() {
        for seed in 0..20 {
            let quiet = learned(&series(0.003, 10.0, 0.01, seed));
            let loud = learned(&series(0.05, 30.0, 0.01, seed));
            assert!(quiet < 0.012, "quiet {quiet}");
            assert!(loud > 0.02, "loud {loud}");
        }
    }

    #[test]
    fn without_blocks_the_prior_stands() {
        let total: f64 = weights(&[]).iter().flatten().sum();
        assert!((total - 1.0).abs() < 1e-12);
        assert!((learned(&[]) - SLOW.iter().map(|(slow, prior)| slow * prior).sum::<f64>()).abs() < 1e-12);
    }
}
