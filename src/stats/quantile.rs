//! The one percentile of the crate, and its intervals.
//!
//! Of the usual definitions this is Hyndman and Fan's type 8 (The American Statistician 50, 1996),
//! which they recommend: whatever the distribution, the estimate is as likely above the true quantile
//! as below it, to a good approximation. NumPy's and the peers' default (type 7) sits below the true
//! p95 more often than above in a small sample, which is the wrong side for a limit; above a few
//! hundred samples the two do not differ.

use crate::stats::batch;
use crate::stats::special::{beta_cdf, student_quantile};
use crate::units::Interval;

/// The `p` quantile (0..=1) of values in ascending order: type 8, NumPy's `median_unbiased`. Infinite
/// values are fine at the ends; NaN for no values.
pub fn quantile(sorted: &[f64], p: f64) -> f64 {
    let n = sorted.len();
    if n == 0 {
        return f64::NAN;
    }
    let rank = ((n as f64 + 1.0 / 3.0) * p + 1.0 / 3.0).clamp(1.0, n as f64);
    let below = rank.floor();
    let low = sorted[below as usize - 1];
    let high = sorted[(below as usize).min(n - 1)];
    let share = rank - below;
    // The comparison keeps infinity minus infinity out.
    if share == 0.0 || low == high { low } else { low + share * (high - low) }
}

/// Interval of the `p` quantile of independent samples in ascending order, from the binomial
/// distribution of the number of samples below it (Conover, Practical Nonparametric Statistics, 3.2).
/// Exact: the stated confidence is a lower bound for continuous distributions. `None` where the
/// samples give no lower end; without an upper end `high` is absent.
pub fn order_interval(sorted: &[f64], p: f64, confidence: f64) -> Option<Interval> {
    let n = sorted.len();
    let tail = (1.0 - confidence) / 2.0;
    // P(X <= k) of the binomial: the smallest rank whose P(X < rank) reaches a target.
    let below = |k: usize| if k >= n { 1.0 } else { beta_cdf(1.0 - p, (n - k) as f64, k as f64 + 1.0) };
    let first_reaching = |target: f64| {
        let (mut low, mut high) = (0, n);
        while low < high {
            let middle = (low + high) / 2;
            if below(middle) > target { high = middle } else { low = middle + 1 }
        }
        low
    };
    let low = first_reaching(tail);
    let high = first_reaching(1.0 - tail - 1e-12);
    let low = sorted.get(low.checked_sub(1)?).copied()?;
    Some(Interval { low, high: sorted.get(high).copied(), confidence })
}

/// Interval of the `p` quantile of samples in order of time, which may depend on their neighbours.
///
/// The share of samples above the quantile is averaged in batches over time; how much more these
/// shares vary than independent samples would let them is the design effect, and the ranks of the
/// interval are that much wider. Unlike the quantiles of batches, the shares have no bias in short
/// batches. `sorted` holds the same samples in ascending order. `None` below 20 samples.
pub fn interval(in_time: &[f64], sorted: &[f64], p: f64, confidence: f64) -> Option<Interval> {
    let n = sorted.len() as f64;
    if sorted.len() < 20 {
        return None;
    }
    let center = quantile(sorted, p);
    let effect = batch::design_effect(in_time.iter().map(|&value| f64::from(u8::from(value > center))), p);
    let t = student_quantile(0.5 + confidence / 2.0, effect.dof);
    let half = t * (p * (1.0 - p) * effect.ratio / n).sqrt();
    // An end beyond the extreme order statistics is not seen in the samples.
    let beyond = p + half >= 1.0 - 0.5 / n;
    let low = quantile(sorted, (p - half).max(0.0));
    Some(Interval { low, high: (!beyond).then(|| quantile(sorted, p + half)), confidence })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use proptest::prelude::*;

    use super::*;
    use crate::rng::Stream;

    #[test]
    fn the_quantile_agrees_with_numpy_median_unbiased() {
        // numpy 2.4.6: np.quantile(z, p, method="median_unbiased")
        let mut z = [0.448, 0.266, 0.78, 1.523, 3.114, 1.116, 0.575, 0.456, 2.114, 5.128, 1.314];
        z.sort_by(f64::total_cmp);
        let cases = [
            (0.01, 0.266),
            (0.1, 0.3509333333333334),
            (0.5, 1.116),
            (0.9, 4.188133333333333),
            (0.95, 5.128),
            (1.0, 5.128),
            (0.0, 0.266),
        ];
        for (p, expected) in cases {
            assert!((quantile(&z, p) - expected).abs() < 1e-12, "p = {p}: {}", quantile(&z, p));
        }
        assert!((quantile(&[1.0, 3.0], 0.7) - 2.933333333333333).abs() < 1e-12);
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn infinite_samples_give_an_infinite_tail_and_no_nan() {
        let z = [1.0, 2.0, 3.0, f64::INFINITY, f64::INFINITY];
        assert_eq!(quantile(&z, 0.5), 3.0);
        assert_eq!(quantile(&z, 0.95), f64::INFINITY);
        assert_eq!(quantile(&z, 0.62), f64::INFINITY);
    }

    #[test]
    fn ranks_of_the_exact_interval_are_those_of_the_binomial() {
        // scipy 1.17.1: the largest l with binom.cdf(l - 1) <= a/2, the smallest u with
        // binom.cdf(u - 1) >= 1 - a/2; ranks from 1.
        let cases = [
            (100, 0.5, 0.95, 40, Some(61)),
            (100, 0.95, 0.95, 90, Some(100)),
            (1000, 0.95, 0.95, 936, Some(964)),
            (50, 0.95, 0.95, 44, None),
            (1000, 0.99, 0.99, 981, Some(998)),
            (30, 0.1, 0.9, 1, Some(7)),
        ];
        for (n, p, confidence, low, high) in cases {
            let ranks: Vec<f64> = (1..=n).map(f64::from).collect();
            let interval = order_interval(&ranks, p, confidence).unwrap();
            assert_eq!(
                (interval.low, interval.high),
                (f64::from(low), high.map(f64::from)),
                "n = {n}, p = {p}"
            );
        }
        assert_eq!(order_interval(&[1.0, 2.0], 0.05, 0.95), None);
    }

    /// Share of 300 series of an AR(1) process of 600 samples whose interval holds the true quantile.
    fn coverage(correlation: f64, p: f64, z: f64) -> f64 {
        let mut stream = Stream::new(11, "coverage");
        let held = (0..300)
            .filter(|_| {
                let mut x = stream.normal();
                let series: Vec<f64> = (0..600)
                    .map(|_| {
                        x = correlation * x + (1.0 - correlation * correlation).sqrt() * stream.normal();
                        x
                    })
                    .collect();
                let mut sorted = series.clone();
                sorted.sort_by(f64::total_cmp);
                let interval = interval(&series, &sorted, p, 0.95).unwrap();
                interval.low <= z && interval.high.is_none_or(|high| z <= high)
            })
            .count();
        held as f64 / 300.0
    }

    #[test]
    fn the_interval_holds_for_correlated_samples() {
        for (correlation, least) in [(0.0, 0.93), (0.8, 0.90), (0.95, 0.82)] {
            for (p, z) in [(0.5, 0.0), (0.95, 1.6448536269514722)] {
                let covered = coverage(correlation, p, z);
                assert!(covered >= least, "correlation {correlation}, p = {p}: {covered}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_quantile_lies_between_samples_and_rises_with_p(
            mut values in prop::collection::vec(-1e6_f64..1e6, 1..80),
            p in 0.0_f64..=1.0,
            q in 0.0_f64..=1.0,
        ) {
            values.sort_by(f64::total_cmp);
            let (low, high) = (quantile(&values, p.min(q)), quantile(&values, p.max(q)));
            prop_assert!(values[0] <= low && low <= high && high <= values[values.len() - 1]);
        }

        #[test]
        fn an_interval_holds_its_own_estimate(
            values in prop::collection::vec(0.0_f64..1e3, 20..300),
            p in 0.05_f64..0.99,
        ) {
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let interval = interval(&values, &sorted, p, 0.95).unwrap();
            let estimate = quantile(&sorted, p);
            prop_assert!(interval.low <= estimate);
            prop_assert!(interval.high.is_none_or(|high| high >= estimate));
        }
    }
}
