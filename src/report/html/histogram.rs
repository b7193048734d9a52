//! Samples counted in bins of equal ratio: small, mergeable, and fine enough for a curve.

use serde::Serialize;

/// Lower end of the first bin, seconds; what is smaller is counted in it.
const LOWEST: f64 = 1e-6;
/// Logarithm of the ratio of two bins' ends: a figure read from a bin is off by 0.25 % at the most.
const STEP: f64 = 0.005;
/// Bins: up to 10,000 s.
const BINS: usize = 4606;

/// The probabilities at which a curve has its points: dense in the middle, finer in the upper tail,
/// which is what objectives judge.
pub(super) const PROBABILITIES: [f64; 45] = [
    0.0, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.125, 0.15, 0.175, 0.2, 0.225, 0.25, 0.275, 0.3, 0.35,
    0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.775, 0.8, 0.825, 0.85, 0.875, 0.9, 0.91, 0.92, 0.93, 0.94,
    0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.995, 0.999, 0.9995, 1.0,
];

/// A histogram of durations.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram {
    bins: Vec<u32>,
    n: u64,
    ends: Option<(f64, f64)>,
}

/// A distribution as its quantiles at [`PROBABILITIES`], seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Curve {
    /// Samples.
    pub n: u64,
    /// The quantiles.
    pub at: Vec<f64>,
}

impl Histogram {
    /// Counts one sample, seconds.
    pub(super) fn add(&mut self, seconds: f64) {
        if !seconds.is_finite() {
            return;
        }
        let bin = ((seconds.max(LOWEST) / LOWEST).ln() / STEP) as usize;
        let bin = bin.min(BINS - 1);
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] = self.bins[bin].saturating_add(1);
        self.n += 1;
        let (low, high) = self.ends.unwrap_or((seconds, seconds));
        self.ends = Some((low.min(seconds), high.max(seconds)));
    }

    /// Counts the samples of another histogram too.
    pub(super) fn merge(&mut self, other: &Self) {
        if self.bins.len() < other.bins.len() {
            self.bins.resize(other.bins.len(), 0);
        }
        for (bin, count) in self.bins.iter_mut().zip(&other.bins) {
            *bin = bin.saturating_add(*count);
        }
        self.n += other.n;
        self.ends = match (self.ends, other.ends) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }

    /// The distribution, or nothing where there are no samples.
    pub(super) fn curve(&self) -> Option<Curve> {
        let ends = self.ends?;
        let mut at = Vec::with_capacity(PROBABILITIES.len());
        let (mut bin, mut seen) = (0, 0_u64);
        for p in PROBABILITIES {
            let rank = (p * (self.n - 1) as f64).round() as u64;
            while bin < self.bins.len() && seen + u64::from(self.bins[bin]) <= rank {
                seen += u64::from(self.bins[bin]);
                bin += 1;
            }
            let middle = LOWEST * ((bin as f64 + 0.5) * STEP).exp();
            let value = match p {
                0.0 => ends.0,
                1.0 => ends.1,
                _ => middle.clamp(ends.0, ends.1),
            };
            at.push(super::digits(value, 4));
        }
        Some(Curve { n: self.n, at })
    }

    /// The median, seconds.
    pub(super) fn median(&self) -> Option<f64> {
        let curve = self.curve()?;
        PROBABILITIES.iter().position(|&p| p == 0.5).map(|index| curve.at[index])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::stats::quantile::quantile;

    #[test]
    fn quantiles_are_those_of_the_samples_to_a_quarter_percent_and_a_rank() {
        let samples: Vec<f64> = (1..=5000).map(|k| 0.01 * (f64::from(k) * 0.001).exp()).collect();
        let mut histogram = Histogram::default();
        samples.iter().for_each(|&sample| histogram.add(sample));
        let curve = histogram.curve().unwrap();
        assert_eq!(curve.n, 5000);
        for (p, value) in PROBABILITIES.iter().zip(&curve.at) {
            let exact = quantile(&samples, *p);
            assert!((value / exact - 1.0).abs() < 0.0045, "{p}: {value} against {exact}");
        }
        assert!(curve.at.is_sorted());
    }

    #[test]
    fn merged_histograms_are_the_histogram_of_all_samples() {
        let (mut one, mut two, mut all) = (Histogram::default(), Histogram::default(), Histogram::default());
        for k in 0..400 {
            let sample = 0.001 * f64::from(k);
            if k % 3 == 0 { &mut one } else { &mut two }.add(sample);
            all.add(sample);
        }
        one.merge(&two);
        assert_eq!(one.curve(), all.curve());
        assert_eq!(Histogram::default().curve(), None);
    }

    #[test]
    fn extremes_are_counted_at_the_ends() {
        let mut histogram = Histogram::default();
        [0.0, 1e9, f64::NAN].into_iter().for_each(|sample| histogram.add(sample));
        let curve = histogram.curve().unwrap();
        assert_eq!((curve.n, curve.at[0], *curve.at.last().unwrap()), (2, 0.0, 1e9));
    }
}
