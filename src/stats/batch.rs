//! Batch means: how much samples that depend on their neighbours tell.
//!
//! A series is cut into batches of equal length; when a batch is longer than the memory of the
//! series its means are nearly independent, and their spread gives the variance of the overall mean
//! (Law, Simulation Modeling and Analysis, 9.5.3). Starting from many short batches, neighbours are
//! merged while their means still agree more with each other than chance would have it.

/// Fewest batches: their spread must be known to be of use.
const FEWEST: usize = 8;
/// Most batches to begin with.
const MOST: usize = 32;
/// Fewest samples in a batch to begin with.
const SHORTEST: usize = 5;

/// By how much the variance of a mean exceeds that of independent samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DesignEffect {
    /// The ratio of variances, at least 1.
    pub ratio: f64,
    /// Degrees of freedom behind it.
    pub dof: f64,
}

/// Design effect of a series of 0 and 1 (miss or not) in order of time, of which a share of about
/// `p` or `1 - p` are 1. Below 40 samples none can be seen, and 1 is returned.
pub fn design_effect(series: impl ExactSizeIterator<Item = f64>, p: f64) -> DesignEffect {
    let n = series.len();
    let spread = (p * (1.0 - p)).max(1e-9);
    match Batches::of(series) {
        Some(batches) => DesignEffect {
            ratio: (batches.variance() * batches.size as f64 / spread).max(1.0),
            dof: batches.means.len() as f64 - 1.0,
        },
        None => DesignEffect { ratio: 1.0, dof: (n as f64 - 1.0).max(1.0) },
    }
}

/// Variance of the mean of a series in order of time, by batch means; never below what independent
/// samples would give. `None` for fewer than two samples.
pub fn variance_of_mean(series: &[f64]) -> Option<f64> {
    let n = series.len() as f64;
    if series.len() < 2 {
        return None;
    }
    let independent = sample_variance(series) / n;
    let batched =
        Batches::of(series.iter().copied()).map(|batches| batches.variance() / batches.means.len() as f64);
    Some(batched.map_or(independent, |batched| batched.max(independent)))
}

/// The means of batches of equal size.
struct Batches {
    means: Vec<f64>,
    size: usize,
}

impl Batches {
    /// Cuts a series so that the means of neighbouring batches do not hang together.
    fn of(series: impl ExactSizeIterator<Item = f64>) -> Option<Self> {
        let n = series.len();
        let mut count = MOST;
        while count > FEWEST && n / count < 2 * SHORTEST {
            count /= 2;
        }
        let size = n / count;
        if size < SHORTEST {
            return None;
        }
        // The rest that fills no batch is left out at the start, where a transient would be.
        let mut means = vec![0.0; count];
        for (i, value) in series.skip(n - count * size).enumerate() {
            means[i / size] += value / size as f64;
        }
        let mut batches = Self { means, size };
        while batches.means.len() > FEWEST && batches.hang_together() {
            batches.means = batches.means.chunks_exact(2).map(|pair| 0.5 * (pair[0] + pair[1])).collect();
            batches.size *= 2;
        }
        Some(batches)
    }

    fn variance(&self) -> f64 {
        sample_variance(&self.means)
    }

    /// Von Neumann's test of the first serial correlation, one-sided at about 10 %.
    fn hang_together(&self) -> bool {
        let count = self.means.len() as f64;
        let total = self.variance() * (count - 1.0);
        if total <= 0.0 {
            return false;
        }
        let steps: f64 = self.means.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
        let correlation = 1.0 - steps / (2.0 * total);
        correlation > 1.28 * ((count - 2.0) / (count * count - 1.0)).sqrt()
    }
}

/// Unbiased variance of values; 0 for fewer than two.
pub fn sample_variance(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    if values.len() < 2 {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / n;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use crate::rng::Stream;

    fn autoregressive(stream: &mut Stream, correlation: f64, n: usize) -> Vec<f64> {
        let mut x = stream.normal();
        (0..n)
            .map(|_| {
                x = correlation * x + (1.0 - correlation * correlation).sqrt() * stream.normal();
                x
            })
            .collect()
    }

    #[test]
    fn the_variance_of_a_correlated_mean_is_found() {
        let mut stream = Stream::new(2, "batch");
        for correlation in [0.0, 0.5, 0.9] {
            let mean_of = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
            let estimates: Vec<f64> = (0..200)
                .map(|_| variance_of_mean(&autoregressive(&mut stream, correlation, 3200)).unwrap())
                .collect();
            // Known for AR(1) with unit variance: (1 + r) / (1 - r) / n for large n.
            let truth = (1.0 + correlation) / (1.0 - correlation) / 3200.0;
            let ratio = mean_of(estimates) / truth;
            assert!((0.85..1.25).contains(&ratio), "correlation {correlation}: {ratio}");
        }
    }

    #[test]
    fn independent_misses_have_a_design_effect_near_one() {
        let mut stream = Stream::new(3, "batch");
        let mut sum = 0.0;
        for _ in 0..100 {
            let misses: Vec<f64> = (0..960).map(|_| f64::from(u8::from(stream.uniform() < 0.05))).collect();
            sum += design_effect(misses.iter().copied(), 0.95).ratio;
        }
        let mean = sum / 100.0;
        assert!((1.0..1.3).contains(&mean), "{mean}");
    }

    #[test]
    fn misses_that_come_in_runs_have_a_large_design_effect() {
        let misses = (0..1000).map(|i| f64::from(u8::from((300..350).contains(&i))));
        assert!(design_effect(misses, 0.95).ratio > 20.0);
    }

    #[test]
    fn a_short_series_claims_nothing_about_its_memory() {
        let effect = design_effect([0.0; 39].into_iter(), 0.5);
        assert_eq!(effect, DesignEffect { ratio: 1.0, dof: 38.0 });
        assert_eq!(variance_of_mean(&[1.0]), None);
        assert_eq!(variance_of_mean(&[1.0, 3.0]), Some(1.0));
    }
}
