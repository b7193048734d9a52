//! Counts of misses that share the mood of their trial.

use crate::stats::binomial::ln_choose;
use crate::stats::special::{ln_beta, ln_gamma};

/// Below this correlation the parameters are so large that differences of their log gammas lose the
/// digits that matter; the binomial is then the same to as many.
const INDEPENDENT: f64 = 1e-9;

/// Natural logarithm of the probability of `k` misses among `n` requests, when each misses with
/// probability `share` on average and any two of the same trial are correlated by `rho`:
/// beta-binomial with `a = share (1 - rho) / rho`, `b = (1 - share)(1 - rho) / rho`.
pub fn ln_pmf(k: u32, n: u32, share: f64, rho: f64) -> f64 {
    if k > n {
        return f64::NEG_INFINITY;
    }
    if share <= 0.0 || share >= 1.0 {
        let certain = if share <= 0.0 { 0 } else { n };
        return if k == certain { 0.0 } else { f64::NEG_INFINITY };
    }
    let (hits, misses) = (f64::from(k), f64::from(n - k));
    if rho < INDEPENDENT {
        return ln_choose(n, k) + hits * share.ln() + misses * (-share).ln_1p();
    }
    let size = (1.0 - rho) / rho;
    let (a, b) = (share * size, (1.0 - share) * size);
    ln_choose(n, k) + ln_beta(hits + a, misses + b) - (ln_gamma(a) + ln_gamma(b) - ln_gamma(size))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn agrees_with_scipy() {
        // scipy 1.17.1: betabinom.logpmf(k, n, pi (1 - rho) / rho, (1 - pi) (1 - rho) / rho);
        // the last three binom.logpmf(k, n, pi).
        let cases = [
            (0, 96, 0.05, 0.07, -1.437625045203975),
            (5, 96, 0.05, 0.07, -2.8892097263005954),
            (96, 96, 0.05, 0.4, -9.180674436753952),
            (12, 250, 0.05, 0.003, -2.4242261997510184),
            (200, 250, 0.9, 0.14, -5.26166750092634),
            (3, 1000, 1e-4, 0.03, -6.931897192275305),
            (1, 1, 0.3, 0.25, -1.2039728043259361),
            (0, 96, 0.05, 0.0, -4.9241562612048515),
            (5, 96, 0.05, 0.0, -1.7179349642784345),
            (12, 250, 0.05, 0.0, -2.1544183953952363),
        ];
        for (k, n, share, rho, expected) in cases {
            let got = ln_pmf(k, n, share, rho);
            assert!((got - expected).abs() < 1e-9, "{k} of {n}, {share}, {rho}: {got} is not {expected}");
        }
    }

    #[test]
    fn certain_shares_leave_one_count_possible() {
        assert_eq!(ln_pmf(0, 9, 0.0, 0.1), 0.0);
        assert_eq!(ln_pmf(1, 9, 0.0, 0.1), f64::NEG_INFINITY);
        assert_eq!(ln_pmf(9, 9, 1.0, 0.1), 0.0);
        assert_eq!(ln_pmf(10, 9, 0.5, 0.1), f64::NEG_INFINITY);
    }

    proptest! {
        #[test]
        fn probabilities_add_up_to_one_with_the_given_mean(
            n in 1_u32..200, share in 0.01_f64..0.99, rho in prop_oneof![Just(0.0), 1e-8_f64..0.5],
        ) {
            let probabilities: Vec<f64> = (0..=n).map(|k| ln_pmf(k, n, share, rho).exp()).collect();
            let total: f64 = probabilities.iter().sum();
            let mean: f64 = probabilities.iter().enumerate().map(|(k, p)| k as f64 * p).sum();
            prop_assert!((total - 1.0).abs() < 1e-6, "{total}");
            prop_assert!((mean / f64::from(n) - share).abs() < 1e-6, "{mean}");
        }
    }
}
