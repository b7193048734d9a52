//! The paired confirmation: is the best setting better than the default, and by how much?
//!
//! Best and default are launched anew in turns, with fresh seeds, so that what drifts slowly touches
//! both alike. Each pair gives one difference of logs of the objective; the gain and its interval
//! are Student's t on those, so the launch-to-launch noise counts in full.

use serde::{Deserialize, Serialize};

use crate::stats::special::student_quantile;

/// A gain over the default, as a share: 0.1 is 10 % more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Gain {
    /// The estimate.
    pub estimate: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Stated probability that the interval holds the gain.
    pub confidence: f64,
    /// Pairs measured.
    pub pairs: usize,
}

/// What the confirmation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The best setting is better than the default.
    Better,
    /// No difference can be told: no setting tried beats the default by more than the upper end of
    /// the interval.
    NoneBetter,
    /// The best setting is worse than the default.
    Worse,
}

/// The gain from pairs of logs `(candidate, default)`. None for fewer than two pairs.
///
/// `known` is the variance of one difference that the measurements state themselves; pairs that
/// agree by luck do not make the interval narrower than that allows.
pub fn gain(pairs: &[(f64, f64)], known: f64, confidence: f64) -> Option<Gain> {
    let count = pairs.len();
    if count < 2 {
        return None;
    }
    let differences: Vec<f64> = pairs.iter().map(|(candidate, default)| candidate - default).collect();
    let n = count as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let seen = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let tail = 0.5 + confidence / 2.0;
    let by_pairs = student_quantile(tail, n - 1.0) * (seen / n).sqrt();
    let by_measurement = crate::stats::special::normal_quantile(tail) * (known / n).sqrt();
    let half = by_pairs.max(by_measurement);
    Some(Gain {
        estimate: mean.exp_m1(),
        low: (mean - half).exp_m1(),
        high: (mean + half).exp_m1(),
        confidence,
        pairs: count,
    })
}

impl Gain {
    /// What the interval says.
    pub fn finding(&self) -> Finding {
        if self.low > 0.0 {
            Finding::Better
        } else if self.high < 0.0 {
            Finding::Worse
        } else {
            Finding::NoneBetter
        }
    }

    /// In a sentence.
    pub fn words(&self) -> String {
        let percent = |share: f64| format!("{:+.1} %", 100.0 * share);
        let interval = format!(
            "{:.0} % CI {} to {}, {} pairs",
            100.0 * self.confidence,
            percent(self.low),
            percent(self.high),
            self.pairs
        );
        match self.finding() {
            Finding::Better => format!("{} against the default ({interval})", percent(self.estimate)),
            Finding::NoneBetter => {
                format!(
                    "no setting tried beats the default by more than {:.1} % ({interval})",
                    100.0 * self.high.max(0.0)
                )
            }
            Finding::Worse => format!("the default is the best setting tried ({interval})"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::rng::Stream;

    #[test]
    fn the_interval_is_students_on_the_differences() {
        // scipy 1.17: ttest_1samp([0.1, 0.14, 0.09], 0).confidence_interval(0.95)
        //  = (0.0442758..., 0.1757242...), t.ppf(0.975, 2) = 4.302652729749462.
        let gain = gain(&[(1.1, 1.0), (1.14, 1.0), (1.09, 1.0)], 0.0, 0.95).unwrap();
        let sd = (((0.1_f64 - 0.11).powi(2) + 0.03_f64.powi(2) + 0.02_f64.powi(2)) / 2.0).sqrt();
        let half = 4.302652729749462 * sd / 3.0_f64.sqrt();
        assert!((gain.estimate - 0.11_f64.exp_m1()).abs() < 1e-12);
        assert!((gain.low - (0.11 - half).exp_m1()).abs() < 1e-9, "{gain:?}");
        assert_eq!(gain.finding(), Finding::Better);
        assert!(gain.words().starts_with("+11.6 % against the default (95 % CI +"), "{}", gain.words());
    }

    #[test]
    fn pairs_that_agree_by_luck_do_not_make_certainty() {
        let gain = gain(&[(1.01, 1.0), (1.01, 1.0)], 0.0032, 0.95).unwrap();
        assert!(gain.low < 0.0 && gain.high > 0.05, "{gain:?}");
        assert_eq!(gain.finding(), Finding::NoneBetter);
        assert!(gain.words().starts_with("no setting tried beats the default by more than "));
        assert_eq!(super::gain(&[(1.0, 1.0)], 0.0, 0.95), None);
    }

    #[test]
    fn equal_settings_are_told_apart_no_more_often_than_stated() {
        let mut stream = Stream::new(5, "test");
        let runs = 2000;
        let wrong = (0..runs)
            .filter(|_| {
                let pairs: Vec<(f64, f64)> =
                    (0..3).map(|_| (0.04 * stream.normal(), 0.04 * stream.normal())).collect();
                gain(&pairs, 0.0, 0.95).unwrap().finding() != Finding::NoneBetter
            })
            .count();
        assert!(wrong as f64 / f64::from(runs) < 0.07, "{wrong}");
    }
}
