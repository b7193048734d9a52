//! Lengths of prompts and outputs: their text form, their mean and longest, and their draws.
//!
//! ```
//! use plimsoll::plan::Lengths;
//! let isl = Lengths::Lognormal { mean: 400.0, cv: 0.6, min: 4, max: 2400 };
//! assert_eq!(isl.to_string(), "lognormal(mean=400, cv=0.6, min=4, max=2400)");
//! assert_eq!(isl.longest(), 2400);
//! ```

use std::fmt;

use statrs::function::erf::erfc;

use crate::plan::{Lengths, WorkloadPlan};
use crate::rng::Stream;

impl Lengths {
    /// Draws one length, at least one token. A lognormal draw beyond its cut becomes the cut.
    pub fn draw(&self, stream: &mut Stream) -> u32 {
        match *self {
            Lengths::Fixed { tokens } => tokens.max(1),
            Lengths::Lognormal { mean, cv, min, max } => {
                let (min, max) = cut(min, max);
                stream.lognormal(mean, cv).round().clamp(min, max) as u32
            }
        }
    }

    /// Arithmetic mean of the draws, tokens: after the cut, which [`Lengths::Lognormal`]'s own `mean` is not.
    pub fn mean(&self) -> f64 {
        match *self {
            Lengths::Fixed { tokens } => f64::from(tokens.max(1)),
            Lengths::Lognormal { mean, cv, min, max } => {
                let (min, max) = cut(min, max);
                if cv <= 0.0 || min == max {
                    return mean.clamp(min, max);
                }
                // Johnson, Kotz, Balakrishnan, Continuous Univariate Distributions 1 (1994), 14.3:
                // E[X; X <= k] = E[X] Phi((ln k - mu - sigma^2) / sigma); each end keeps its own mass.
                let variance = (1.0 + cv * cv).ln();
                let sigma = variance.sqrt();
                let z = |length: f64| (length.ln() - mean.ln() + variance / 2.0) / sigma;
                let (below, above) = (phi(z(min)), phi(-z(max)));
                min * below + mean * (phi(z(max) - sigma) - phi(z(min) - sigma)) + max * above
            }
        }
    }

    /// The longest draw there can be, tokens.
    pub fn longest(&self) -> u32 {
        match *self {
            Lengths::Fixed { tokens } => tokens.max(1),
            Lengths::Lognormal { mean, cv, min, max } if cv <= 0.0 => {
                let (min, max) = cut(min, max);
                mean.round().clamp(min, max) as u32
            }
            Lengths::Lognormal { min, max, .. } => cut(min, max).1 as u32,
        }
    }
}

/// Ends of the cut with at least one token, and in order.
fn cut(min: u32, max: u32) -> (f64, f64) {
    let min = min.max(1);
    (f64::from(min), f64::from(max.max(min)))
}

/// Distribution function of the standard normal.
fn phi(z: f64) -> f64 {
    0.5 * erfc(-z / std::f64::consts::SQRT_2)
}

impl fmt::Display for Lengths {
    /// The form that a recipe and a flag take.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lengths::Fixed { tokens } => write!(f, "{tokens}"),
            Lengths::Lognormal { mean, cv, min, max } => {
                write!(f, "lognormal(mean={mean}, cv={cv}, min={min}, max={max})")
            }
        }
    }
}

/// Draws prompt and output lengths, one request after the other.
#[derive(Clone, Debug)]
pub struct LengthSampler {
    isl: Lengths,
    osl: Lengths,
    stream: Stream,
}

impl LengthSampler {
    /// The lengths of a run: the same plan and seed give the same lengths in the same order.
    pub fn new(plan: &WorkloadPlan, seed: u64) -> Self {
        Self { isl: plan.isl, osl: plan.osl, stream: Stream::new(seed, "lengths") }
    }

    /// Prompt and output length of the next request, tokens.
    pub fn draw(&mut self) -> (u32, u32) {
        (self.isl.draw(&mut self.stream), self.osl.draw(&mut self.stream))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::plan::TokenizerPlan;

    const CHAT: Lengths = Lengths::Lognormal { mean: 400.0, cv: 0.6, min: 4, max: 2400 };

    fn plan(isl: Lengths, osl: Lengths) -> WorkloadPlan {
        WorkloadPlan { isl, osl, tokenizer: TokenizerPlan::Auto }
    }

    #[test]
    fn the_same_seed_gives_the_same_lengths_in_the_same_order() {
        let plan = plan(CHAT, Lengths::Lognormal { mean: 90.0, cv: 1.0, min: 1, max: 900 });
        let draws = |seed| {
            let mut sampler = LengthSampler::new(&plan, seed);
            (0..200).map(|_| sampler.draw()).collect::<Vec<_>>()
        };
        assert_eq!(draws(7), draws(7));
        assert_ne!(draws(7), draws(8));
    }

    #[test]
    fn fixed_lengths_do_not_vary() {
        let mut sampler =
            LengthSampler::new(&plan(Lengths::Fixed { tokens: 100 }, Lengths::Fixed { tokens: 64 }), 1);
        assert!((0..50).all(|_| sampler.draw() == (100, 64)));
    }

    #[test]
    fn the_mean_after_a_cut_is_the_mean_of_the_draws() {
        for lengths in [
            CHAT,
            Lengths::Lognormal { mean: 400.0, cv: 0.6, min: 300, max: 500 },
            Lengths::Lognormal { mean: 100.0, cv: 2.0, min: 1, max: 200 },
            Lengths::Lognormal { mean: 100.0, cv: 0.0, min: 1, max: 200 },
        ] {
            let mut stream = Stream::new(5, "test");
            let draws = 200_000;
            let sum: f64 = (0..draws).map(|_| f64::from(lengths.draw(&mut stream))).sum();
            let mean = sum / f64::from(draws);
            assert!((mean / lengths.mean() - 1.0).abs() < 0.01, "{lengths}: {mean} {}", lengths.mean());
        }
    }

    #[test]
    fn the_mean_agrees_with_an_independent_integration() {
        // scipy 1.17: integrate.quad of clip(x, 300, 500) * lognorm(s, scale=exp(mu)).pdf, mean 400, cv 0.6
        let lengths = Lengths::Lognormal { mean: 400.0, cv: 0.6, min: 300, max: 500 };
        assert!((lengths.mean() - 380.268_752_636_092_36).abs() < 1e-6, "{}", lengths.mean());
    }

    proptest! {
        #[test]
        fn no_draw_leaves_its_cut(mean in 1.0..5000.0_f64, cv in 0.0..3.0_f64, min in 0_u32..400, more in 0_u32..4000, seed: u64) {
            let lengths = Lengths::Lognormal { mean, cv, min, max: min + more };
            let mut stream = Stream::new(seed, "test");
            for _ in 0..50 {
                let draw = lengths.draw(&mut stream);
                prop_assert!(draw >= min.max(1) && draw <= (min + more).max(1) && draw <= lengths.longest());
            }
        }
    }
}
