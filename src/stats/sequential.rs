//! A sequential test between two capacities: is more lost than may be?
//!
//! Both are known as a median and an sd of the log load. With `m = -ln(1 - max_loss)`, the test is
//! between "nothing is lost" (a difference of 0) and "twice the margin is lost" (-2m): Wald's
//! sequential probability ratio test on the difference of the medians, whose variance is the sum of
//! both. Being a likelihood ratio, it may be looked at after any trial, and its rates of false alarms
//! and of misses are at most those asked for (Wald, Sequential Analysis, 1947).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A capacity as far as it is known: median and sd of the log load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Known {
    /// Median, requests in flight.
    pub capacity: f64,
    /// Sd on the log scale, calibrated as the intervals of a search are.
    pub log_sd: f64,
}

/// What is tested.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateTest {
    /// Capacity of the baseline.
    pub baseline: Known,
    /// Share of it that may be lost.
    pub max_loss: f64,
    /// Chance that a server that has lost nothing fails.
    pub false_alarms: f64,
    /// Chance that a server that has lost twice `max_loss` passes.
    pub misses: f64,
}

/// What the test says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateDecision {
    /// The capacity is kept.
    Passed,
    /// More than the margin is lost.
    Failed,
    /// The trials do not tell yet.
    Undecided,
}

impl GateTest {
    /// Decides between the baseline and the present capacity.
    pub fn decide(&self, now: Known) -> GateDecision {
        let ratio = self.log_ratio(now);
        if ratio >= ((1.0 - self.misses) / self.false_alarms).ln() {
            GateDecision::Failed
        } else if ratio <= (self.misses / (1.0 - self.false_alarms)).ln() {
            GateDecision::Passed
        } else {
            GateDecision::Undecided
        }
    }

    /// Log likelihood ratio of "twice the margin is lost" to "nothing is lost".
    pub fn log_ratio(&self, now: Known) -> f64 {
        let margin = self.margin();
        let difference = (now.capacity / self.baseline.capacity).ln();
        let variance = self.baseline.log_sd.powi(2) + now.log_sd.powi(2);
        -2.0 * margin * (difference + margin) / variance
    }

    /// Largest sd of the baseline (log scale) with which a server that has lost nothing passes at its
    /// expected figure, were the present capacity known exactly.
    pub fn widest_baseline(&self) -> f64 {
        let margin = self.margin();
        let needed = ((1.0 - self.misses) / self.false_alarms).ln();
        (2.0 * margin * margin / needed).sqrt()
    }

    fn margin(&self) -> f64 {
        -(1.0 - self.max_loss).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    fn test(log_sd: f64) -> GateTest {
        let baseline = Known { capacity: 100.0, log_sd };
        GateTest { baseline, max_loss: 0.05, false_alarms: 0.05, misses: 0.05 }
    }

    #[test]
    fn the_decision_is_symmetric_about_the_margin_and_waits_where_little_is_known() {
        let exact = test(0.01);
        let now = |capacity| Known { capacity, log_sd: 0.01 };
        assert_eq!(exact.decide(now(100.0)), GateDecision::Passed);
        assert_eq!(exact.decide(now(90.0)), GateDecision::Failed);
        assert_eq!(exact.decide(now(95.0)), GateDecision::Undecided);
        assert!(exact.log_ratio(now(95.0)).abs() < 1e-9);
        let vague = Known { capacity: 100.0, log_sd: 0.2 };
        assert_eq!(exact.decide(vague), GateDecision::Undecided);
        assert_eq!(exact.decide(Known { capacity: 20.0, log_sd: 0.2 }), GateDecision::Failed);
    }

    #[test]
    fn with_known_variance_the_rates_of_error_are_as_stated() {
        // The differences are drawn outright, a look after each: an independent check of Wald's bounds.
        let (mut alarms, mut misses, runs) = (0, 0, 4000);
        let test = test(1e-6);
        let margin = test.margin();
        for (truth, count, wrong) in
            [(0.0, &mut alarms, GateDecision::Failed), (-2.0 * margin, &mut misses, GateDecision::Passed)]
        {
            let mut stream = Stream::new(11, "wald");
            for _ in 0..runs {
                let (mut sum, mut n) = (0.0, 0.0);
                loop {
                    sum += truth + 0.08 * stream.normal();
                    n += 1.0;
                    let now = Known { capacity: 100.0 * (sum / n).exp(), log_sd: 0.08 / f64::sqrt(n) };
                    match test.decide(now) {
                        GateDecision::Undecided => {}
                        decision => {
                            *count += u32::from(decision == wrong);
                            break;
                        }
                    }
                }
            }
        }
        assert!(f64::from(alarms) / 4000.0 <= 0.055, "{alarms}");
        assert!(f64::from(misses) / 4000.0 <= 0.055, "{misses}");
        assert!(alarms + misses > 100, "the bounds are not far from tight: {alarms} {misses}");
    }
}
