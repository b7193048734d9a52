//! Named, seeded random streams.
//!
//! Each consumer asks for a stream by name, so that one more draw in one place never shifts the
//! numbers that another place sees: the same plan and seed give the same requests.
//!
//! ```
//! use plimsoll::rng::Stream;
//! let mut a = Stream::new(7, "lengths");
//! let mut b = Stream::new(7, "lengths");
//! assert_eq!(a.uniform(), b.uniform());
//! assert_ne!(Stream::new(7, "prompts").uniform(), Stream::new(7, "lengths").uniform());
//! ```

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// One reproducible stream of random numbers (xoshiro256++).
#[derive(Clone, Debug)]
pub struct Stream {
    rng: Xoshiro256PlusPlus,
    spare_normal: Option<f64>,
}

impl Stream {
    /// The stream called `name` of the run's `seed`.
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a: the name must map to the same stream on every platform and in every version.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self { rng: Xoshiro256PlusPlus::seed_from_u64(seed ^ hash.rotate_left(17)), spare_normal: None }
    }

    /// A whole random word.
    pub fn word(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// Uniform on the open interval (0, 1).
    pub fn uniform(&mut self) -> f64 {
        ((self.word() >> 11) as f64 + 0.5) * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform integer in `0..bound` (`bound` of 0 gives 0).
    pub fn below(&mut self, bound: u64) -> u64 {
        // Lemire's multiply-shift; the bias is below 2^-40 for every bound used here.
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// Standard normal (Marsaglia's polar method).
    pub fn normal(&mut self) -> f64 {
        if let Some(value) = self.spare_normal.take() {
            return value;
        }
        loop {
            let u = 2.0 * self.uniform() - 1.0;
            let v = 2.0 * self.uniform() - 1.0;
            let q = u * u + v * v;
            if q < 1.0 && q > 0.0 {
                let scale = (-2.0 * q.ln() / q).sqrt();
                self.spare_normal = Some(v * scale);
                return u * scale;
            }
        }
    }

    /// Exponential with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -self.uniform().ln() * mean
    }

    /// Lognormal with the given arithmetic mean and coefficient of variation.
    pub fn lognormal(&mut self, mean: f64, cv: f64) -> f64 {
        if cv <= 0.0 {
            return mean;
        }
        let variance = (1.0 + cv * cv).ln();
        (mean.ln() - variance / 2.0 + variance.sqrt() * self.normal()).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lognormal_keeps_its_mean_and_spread() {
        let mut stream = Stream::new(1, "test");
        let n = 200_000;
        let draws: Vec<f64> = (0..n).map(|_| stream.lognormal(400.0, 0.6)).collect();
        let mean = draws.iter().sum::<f64>() / n as f64;
        let sd = (draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64).sqrt();
        assert!((mean / 400.0 - 1.0).abs() < 0.01, "mean {mean}");
        assert!((sd / mean / 0.6 - 1.0).abs() < 0.03, "cv {}", sd / mean);
    }

    #[test]
    fn below_reaches_every_value_and_none_beyond() {
        let mut stream = Stream::new(3, "test");
        let mut seen = [0_u32; 7];
        for _ in 0..7000 {
            seen[stream.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| count > 800), "{seen:?}");
    }
}
