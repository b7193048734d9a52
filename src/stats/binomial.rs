//! Shares of counts and their intervals.

use crate::stats::special::{beta_quantile, ln_gamma, normal_quantile};
use crate::units::Interval;

/// Natural logarithm of the number of ways to choose `k` of `n`.
pub fn ln_choose(n: u32, k: u32) -> f64 {
    let (n, k) = (f64::from(n), f64::from(k));
    ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0)
}

/// Wilson's score interval of the share behind `k` of `n` independent trials: short, and close to
/// its confidence on average (Brown, Cai and DasGupta, Statistical Science 16, 2001).
pub fn wilson(k: u32, n: u32, confidence: f64) -> Interval {
    if n == 0 {
        return Interval { low: 0.0, high: Some(1.0), confidence };
    }
    let z = normal_quantile(0.5 + confidence / 2.0);
    let n_real = f64::from(n);
    let share = f64::from(k) / n_real;
    let pull = z * z / n_real;
    let center = (share + pull / 2.0) / (1.0 + pull);
    let half = z * (share * (1.0 - share) / n_real + pull / (4.0 * n_real)).sqrt() / (1.0 + pull);
    let low = if k == 0 { 0.0 } else { center - half };
    let high = if k == n { 1.0 } else { center + half };
    Interval { low, high: Some(high), confidence }
}

/// Clopper and Pearson's exact interval of the share behind `k` of `n` independent trials: covers
/// with at least its confidence, whatever the share.
pub fn clopper_pearson(k: u32, n: u32, confidence: f64) -> Interval {
    let tail = (1.0 - confidence) / 2.0;
    let (hits, misses) = (f64::from(k), f64::from(n.saturating_sub(k)));
    let low = if k == 0 { 0.0 } else { beta_quantile(tail, hits, misses + 1.0) };
    let high = if k >= n { 1.0 } else { beta_quantile(1.0 - tail, hits + 1.0, misses) };
    Interval { low, high: Some(high), confidence }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    fn agrees(interval: Interval, low: f64, high: f64) {
        let close = |a: f64, b: f64| (a - b).abs() < 1e-10;
        assert!(
            close(interval.low, low) && close(interval.high.unwrap(), high),
            "{interval:?}, {low}, {high}"
        );
    }

    // Golden vectors: scipy 1.17.1, `binomtest(k, n).proportion_ci(c, "wilson" | "exact")`.

    #[test]
    fn wilson_agrees_with_scipy() {
        agrees(wilson(0, 20, 0.95), 0.0, 0.16112515805281935);
        agrees(wilson(1, 20, 0.95), 0.008881448800795402, 0.23613119344674205);
        agrees(wilson(5, 100, 0.95), 0.021543679154367973, 0.11175046923191914);
        agrees(wilson(50, 1000, 0.99), 0.035025075722532446, 0.0709069726905337);
        agrees(wilson(20, 20, 0.9), 0.8808421626390355, 1.0);
        agrees(wilson(7, 13, 0.95), 0.29143795714506016, 0.767939321904617);
        agrees(wilson(0, 0, 0.95), 0.0, 1.0);
    }

    #[test]
    fn clopper_pearson_agrees_with_scipy() {
        agrees(clopper_pearson(0, 20, 0.95), 0.0, 0.16843347098308548);
        agrees(clopper_pearson(1, 20, 0.95), 0.0012650894979560339, 0.24873276277202772);
        agrees(clopper_pearson(5, 100, 0.95), 0.016431879181728278, 0.11283491110546288);
        agrees(clopper_pearson(50, 1000, 0.99), 0.03392666271022023, 0.0705043752014578);
        agrees(clopper_pearson(20, 20, 0.9), 0.8608916593316243, 1.0);
        agrees(clopper_pearson(7, 13, 0.95), 0.2513454822703054, 0.807767558198712);
        agrees(clopper_pearson(0, 0, 0.95), 0.0, 1.0);
    }
}
