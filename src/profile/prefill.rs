//! The prefill curve: what TTFT is made of, from one request at a time.
//!
//! `TTFT(ISL) = fixed + linear * ISL + quadratic * ISL^2`: the way there and back and a step as such, the work
//! that each prompt token takes, and attention, in which each token looks at all before it (Kaplan et al.,
//! Scaling Laws for Neural Language Models, 2020, section 2.1). Figures that vary by a share of themselves
//! are fitted with weights of one over their square; a length is one replicate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::least_squares::Polynomial;
use crate::units::Interval;

/// Stated coverage of the intervals.
const CONFIDENCE: f64 = 0.95;
/// Shortest time of a prompt token that is told from none, seconds.
const LEAST_SLOPE: f64 = 1e-12;

/// A figure and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Where it lies.
    pub interval: Interval,
}

/// The curve through the TTFTs of several prompt lengths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PrefillFit {
    /// What does not depend on the prompt, seconds.
    pub fixed: f64,
    /// Seconds that a prompt token takes, whatever comes before it.
    pub linear: Estimate,
    /// Seconds that a prompt token takes for each one before it, twice; null where it cannot be told from 0:
    /// the curve is a line then.
    pub quadratic: Option<Estimate>,
    /// Share of the TTFT of the longest prompt that a quadratic term makes up: as it is, or at most where it
    /// cannot be told from 0. Null where too few lengths tell.
    pub quadratic_share: Option<f64>,
    /// Prompt tokens a second at the shortest prompt: one over the slope of the curve.
    pub at_shortest: Estimate,
    /// Prompt tokens a second at the longest prompt.
    pub at_longest: Estimate,
    /// Sd of the TTFTs around the curve, as a share of them.
    pub residual: f64,
    /// Prompt lengths that were fitted.
    pub lengths: usize,
}

impl PrefillFit {
    /// Fits the curve to `(prompt tokens, TTFT in seconds)`; `None` where these do not tell it.
    pub fn of(points: &[(f64, f64)]) -> Option<Self> {
        let weighted: Vec<(f64, f64, f64)> =
            points.iter().map(|&(tokens, ttft)| (tokens, ttft, 1.0 / (ttft * ttft))).collect();
        let line = Polynomial::fit(&weighted, 1)?;
        let parabola = Polynomial::fit(&weighted, 2);
        let lengths = || points.iter().map(|point| point.0);
        let (shortest, longest) = (lengths().fold(f64::INFINITY, f64::min), lengths().fold(0.0, f64::max));
        let quadratic = parabola.as_ref().map(|curve| {
            let (value, interval) = curve.combination(&[0.0, 0.0, 1.0], CONFIDENCE);
            Estimate { value, interval }
        });
        let bent = quadratic.filter(|term| term.interval.low > 0.0);
        let curve = match (&parabola, bent) {
            (Some(parabola), Some(_)) => parabola,
            _ => &line,
        };
        let share = quadratic.map(|term| {
            let term = if bent.is_some() { term.value } else { term.interval.high.unwrap_or(term.value) };
            (term * longest * longest / curve.value(longest)).clamp(0.0, 1.0)
        });
        let (value, interval) = curve.combination(&[0.0, 1.0], CONFIDENCE);
        Some(Self {
            fixed: curve.coefficients.first().copied().unwrap_or(0.0),
            linear: Estimate { value, interval },
            quadratic: bent,
            quadratic_share: share,
            at_shortest: rate(curve.slope(shortest, CONFIDENCE))?,
            at_longest: rate(curve.slope(longest, CONFIDENCE))?,
            residual: curve.residual_sd,
            lengths: points.len(),
        })
    }

    /// TTFT of a prompt of so many tokens, seconds.
    pub fn ttft(&self, tokens: f64) -> f64 {
        let quadratic = self.quadratic.map_or(0.0, |term| term.value);
        self.fixed + tokens * (self.linear.value + tokens * quadratic)
    }
}

/// Tokens a second from seconds a token; `None` where more tokens may well take no longer.
fn rate((slope, interval): (f64, Interval)) -> Option<Estimate> {
    let upper = interval.high.unwrap_or(slope);
    (interval.low > LEAST_SLOPE).then(|| Estimate {
        value: 1.0 / slope,
        interval: Interval {
            low: 1.0 / upper,
            high: Some(1.0 / interval.low),
            confidence: interval.confidence,
        },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::rng::Stream;

    const LENGTHS: [f64; 8] = [128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];

    /// TTFTs of a known server, each off by 2 % (sd).
    fn measured(quadratic: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut noise = Stream::new(seed, "prefill");
        let ttft = |tokens: f64| 0.008 + 30e-6 * tokens + quadratic * tokens * tokens;
        LENGTHS.map(|tokens| (tokens, ttft(tokens) * (1.0 + 0.02 * noise.normal()))).to_vec()
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_state_and_a_bend_is_seen_where_there_is_one() {
        let (mut held, mut bent, mut false_bends) = (0, 0, 0);
        for seed in 0..400 {
            let fit = PrefillFit::of(&measured(1e-9, seed)).unwrap();
            let truth = 1.0 / (30e-6 + 2.0 * 1e-9 * 16384.0);
            let interval = fit.at_longest.interval;
            bent += u32::from(fit.quadratic.is_some());
            held += u32::from(interval.low <= truth && interval.high.is_some_and(|high| truth <= high));
            false_bends += u32::from(PrefillFit::of(&measured(0.0, seed)).unwrap().quadratic.is_some());
        }
        assert!((370..=395).contains(&held), "{held} of 400");
        assert!(bent > 395, "{bent} of 400");
        // One side of a 95 % interval: 2.5 %, or 10 of 400.
        assert!(false_bends < 20, "{false_bends} of 400");
    }

    #[test]
    fn the_share_of_attention_and_the_curve_are_those_of_the_terms() {
        let fit = PrefillFit::of(&LENGTHS.map(|t| (t, 0.01 + 2e-5 * t + 1e-9 * t * t))).unwrap();
        assert!((fit.ttft(8192.0) - (0.01 + 2e-5 * 8192.0 + 1e-9 * 8192.0 * 8192.0)).abs() < 1e-9);
        let share = 1e-9 * 16384.0 * 16384.0 / fit.ttft(16384.0);
        assert!((fit.quadratic_share.unwrap() - share).abs() < 1e-6);
        // A server that takes no longer for more tokens has no speed of prefill.
        assert_eq!(PrefillFit::of(&LENGTHS.map(|t| (t, 0.05))), None);
    }
}
