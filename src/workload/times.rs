//! Times that are drawn: their text form, their mean, and their draws.
//!
//! ```
//! use plimsoll::plan::Times;
//! let think = Times::Lognormal { mean: 5.0, cv: 1.0 };
//! assert_eq!(think.to_string(), "lognormal(mean=5s, cv=1)");
//! assert_eq!(think.mean(), 5.0);
//! ```

use std::fmt;

use super::lengths::{density, phi};
use crate::plan::Times;
use crate::rng::Stream;

/// Draws of a normal below 0 in a row after which it is taken for 0.
const MOST_REDRAWS: u32 = 1000;

impl Times {
    /// Draws one time, seconds.
    pub fn draw(&self, stream: &mut Stream) -> f64 {
        match *self {
            Times::Fixed { seconds } => seconds,
            Times::Exponential { mean } => stream.exponential(mean),
            Times::Lognormal { mean, cv } => stream.lognormal(mean, cv),
            Times::Normal { mean, sd } => {
                let draws = (0..MOST_REDRAWS).map(|_| mean + sd * stream.normal());
                draws.into_iter().find(|&time| time >= 0.0).unwrap_or(0.0)
            }
            Times::Uniform { min, max } => min + stream.uniform() * (max - min),
        }
    }

    /// Arithmetic mean of the draws, seconds: after the truncation, which [`Times::Normal`]'s own `mean` is
    /// not.
    pub fn mean(&self) -> f64 {
        match *self {
            Times::Fixed { seconds } => seconds,
            Times::Exponential { mean } | Times::Lognormal { mean, .. } => mean,
            // Johnson, Kotz, Balakrishnan, Continuous Univariate Distributions 1 (1994), 13.10.
            Times::Normal { mean, sd } if sd > 0.0 => {
                mean + sd * density(-mean / sd) / phi(mean / sd).max(f64::MIN_POSITIVE)
            }
            Times::Normal { mean, .. } => mean,
            Times::Uniform { min, max } => 0.5 * (min + max),
        }
    }
}

impl fmt::Display for Times {
    /// The form that a recipe and a flag take.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Times::Fixed { seconds } => f.pad(&exact(seconds)),
            Times::Exponential { mean } => write!(f, "exponential({})", exact(mean)),
            Times::Lognormal { mean, cv } => write!(f, "lognormal(mean={}, cv={cv})", exact(mean)),
            Times::Normal { mean, sd } => write!(f, "normal(mean={}, sd={})", exact(mean), exact(sd)),
            Times::Uniform { min, max } => write!(f, "uniform({}..{})", exact(min), exact(max)),
        }
    }
}

/// A time that reads back as the same number: in milliseconds below a second, where that is exact.
fn exact(seconds: f64) -> String {
    let ms = (seconds * 1e9).round() / 1e6;
    if seconds > 0.0 && seconds < 1.0 && ms * 1e-3 == seconds {
        format!("{ms}ms")
    } else {
        format!("{seconds}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_the_draws_is_the_mean_that_is_told() {
        for times in [
            Times::Fixed { seconds: 0.5 },
            Times::Exponential { mean: 2.0 },
            Times::Lognormal { mean: 5.0, cv: 1.0 },
            Times::Normal { mean: 1.0, sd: 1.5 },
            Times::Uniform { min: 1.0, max: 4.0 },
        ] {
            let mut stream = Stream::new(1, "times");
            let draws: Vec<f64> = (0..100_000).map(|_| times.draw(&mut stream)).collect();
            let mean = draws.iter().sum::<f64>() / draws.len() as f64;
            assert!((mean / times.mean() - 1.0).abs() < 0.015, "{times}: {mean} for {}", times.mean());
            assert!(draws.iter().all(|&time| time >= 0.0));
        }
        // Python's math.erfc: 1 + 1.5 phi(-2/3) / (1 - Phi(-2/3))
        let truncated = Times::Normal { mean: 1.0, sd: 1.5 }.mean();
        assert!((truncated - 1.641_026_387_497_244_8).abs() < 1e-9, "{truncated}");
    }
}
