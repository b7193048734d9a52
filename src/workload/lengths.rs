//! Lengths of prompts and outputs: their text form, their mean and longest, and their draws.
//!
//! ```
//! use plimsoll::plan::Lengths;
//! let isl = Lengths::Lognormal { mean: 400.0, cv: 0.6, min: 4, max: 2400 };
//! assert_eq!(isl.to_string(), "lognormal(mean=400, cv=0.6, min=4, max=2400)");
//! assert_eq!(isl.longest(), 2400);
//! ```

use std::collections::BTreeMap;
use std::fmt;

use statrs::function::erf::{erfc, erfc_inv};

use crate::plan::{ClassPlan, Lengths, WorkloadPlan};
use crate::rng::Stream;

impl Lengths {
    /// Draws one length, at least one token. A lognormal draw beyond its cut becomes the cut.
    pub fn draw(&self, stream: &mut Stream) -> u32 {
        match self {
            Lengths::Fixed { tokens } => (*tokens).max(1),
            &Lengths::Lognormal { mean, cv, min, max } => {
                let (min, max) = cut(min, max);
                stream.lognormal(mean, cv).round().clamp(min, max) as u32
            }
            &Lengths::Uniform { min, max } => {
                let (min, max) = (min.max(1), max.max(min).max(1));
                min + stream.below(u64::from(max - min) + 1) as u32
            }
            &Lengths::Normal { mean, sd, min, max } => {
                let (min, max) = cut(min, max);
                if sd <= 0.0 {
                    return mean.round().clamp(min, max) as u32;
                }
                // By the inverse of the truncated distribution function: one draw, however narrow it is.
                let (low, high) = (phi((min - 0.5 - mean) / sd), phi((max + 0.5 - mean) / sd));
                let p = low + stream.uniform() * (high - low);
                (mean + sd * normal_quantile(p)).round().clamp(min, max) as u32
            }
            Lengths::Mixture { parts } => {
                let total: f64 = parts.iter().map(|part| part.weight).sum();
                let at = stream.uniform() * total;
                chosen(parts, at, |part| part.weight).map_or(1, |part| part.lengths.draw(stream))
            }
            Lengths::Empirical { tokens, up_to, .. } => {
                let total = up_to.last().copied().unwrap_or(0);
                let at = stream.below(total);
                let index = up_to.partition_point(|&below| below <= at);
                tokens.get(index).copied().unwrap_or(1).max(1)
            }
        }
    }

    /// Arithmetic mean of the draws, tokens: after the cut, which [`Lengths::Lognormal`]'s own `mean` is not.
    pub fn mean(&self) -> f64 {
        match self {
            Lengths::Fixed { tokens } => f64::from((*tokens).max(1)),
            &Lengths::Lognormal { mean, cv, min, max } => {
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
            &Lengths::Uniform { min, max } => {
                let (min, max) = cut(min, max);
                (min + max) / 2.0
            }
            &Lengths::Normal { mean, sd, min, max } => {
                let (min, max) = cut(min, max);
                if sd <= 0.0 || min == max {
                    return mean.clamp(min, max);
                }
                // The same, 13.10: the mean of a normal that is truncated on both sides.
                let (a, b) = ((min - 0.5 - mean) / sd, (max + 0.5 - mean) / sd);
                mean + sd * (density(a) - density(b)) / (phi(b) - phi(a))
            }
            Lengths::Mixture { parts } => {
                let total: f64 = parts.iter().map(|part| part.weight).sum();
                parts.iter().map(|part| part.weight * part.lengths.mean()).sum::<f64>() / total
            }
            Lengths::Empirical { tokens, up_to, .. } => {
                let mut before = 0;
                let mut sum = 0.0;
                for (&tokens, &up_to) in tokens.iter().zip(up_to) {
                    sum += f64::from(tokens) * (up_to - before) as f64;
                    before = up_to;
                }
                if before > 0 { sum / before as f64 } else { 1.0 }
            }
        }
    }

    /// The longest draw there can be, tokens.
    pub fn longest(&self) -> u32 {
        match self {
            Lengths::Fixed { tokens } => (*tokens).max(1),
            &Lengths::Lognormal { mean, cv: spread, min, max }
            | &Lengths::Normal { mean, sd: spread, min, max }
                if spread <= 0.0 =>
            {
                let (min, max) = cut(min, max);
                mean.round().clamp(min, max) as u32
            }
            &Lengths::Lognormal { min, max, .. }
            | &Lengths::Normal { min, max, .. }
            | &Lengths::Uniform { min, max } => cut(min, max).1 as u32,
            Lengths::Mixture { parts } => parts.iter().map(|part| part.lengths.longest()).max().unwrap_or(1),
            Lengths::Empirical { tokens, .. } => tokens.last().copied().unwrap_or(1).max(1),
        }
    }

    /// Lengths as often as these were seen; `file` is where they are from. Of more than
    /// `MOST_LENGTHS` different ones, neighbours are put together at their mean, the longest kept.
    pub fn empirical(file: &str, seen: &BTreeMap<u32, u64>) -> Self {
        let total: u64 = seen.values().sum();
        let share = total.div_ceil(MOST_LENGTHS).max(1);
        let (mut tokens, mut up_to) = (Vec::new(), Vec::new());
        let (mut weight, mut sum, mut before) = (0_u64, 0_u128, 0_u64);
        let longest = seen.keys().next_back().copied();
        for (&length, &count) in seen {
            if Some(length) == longest && weight > 0 {
                before += std::mem::take(&mut weight);
                tokens.push(mean_of(std::mem::take(&mut sum), before - up_to.last().copied().unwrap_or(0)));
                up_to.push(before);
            }
            weight += count;
            sum += u128::from(length) * u128::from(count);
            if weight >= share || seen.len() as u64 <= MOST_LENGTHS || Some(length) == longest {
                tokens.push(mean_of(std::mem::take(&mut sum), weight));
                before += std::mem::take(&mut weight);
                up_to.push(before);
            }
        }
        Lengths::Empirical { file: file.to_owned(), tokens, up_to }
    }

    /// The paths of files that are still to be read.
    pub fn unread(&mut self) -> Vec<&mut Self> {
        match self {
            Lengths::Empirical { tokens, .. } if tokens.is_empty() => vec![self],
            Lengths::Mixture { parts } => parts.iter_mut().flat_map(|part| part.lengths.unread()).collect(),
            _ => Vec::new(),
        }
    }
}

/// Most different lengths of a file that a plan keeps.
const MOST_LENGTHS: u64 = 2048;

fn mean_of(sum: u128, count: u64) -> u32 {
    let count = u128::from(count.max(1));
    ((sum + count / 2) / count) as u32
}

/// The item whose share of the weights holds `at`; the last one where rounding leaves none.
pub(crate) fn chosen<T>(items: &[T], mut at: f64, weight: impl Fn(&T) -> f64) -> Option<&T> {
    let found = items.iter().find(|item| {
        at -= weight(item);
        at < 0.0
    });
    found.or(items.last())
}

/// Ends of the cut with at least one token, and in order.
fn cut(min: u32, max: u32) -> (f64, f64) {
    let min = min.max(1);
    (f64::from(min), f64::from(max.max(min)))
}

/// Distribution function of the standard normal.
pub(super) fn phi(z: f64) -> f64 {
    0.5 * erfc(-z / std::f64::consts::SQRT_2)
}

/// Its density.
pub(super) fn density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// Its inverse.
fn normal_quantile(p: f64) -> f64 {
    -std::f64::consts::SQRT_2 * erfc_inv(2.0 * p)
}

impl fmt::Display for Lengths {
    /// The form that a recipe and a flag take.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lengths::Fixed { tokens } => write!(f, "{tokens}"),
            Lengths::Lognormal { mean, cv, min, max } => {
                write!(f, "lognormal(mean={mean}, cv={cv}, min={min}, max={max})")
            }
            Lengths::Uniform { min, max } => write!(f, "uniform({min}..{max})"),
            Lengths::Normal { mean, sd, min, max } => {
                write!(f, "normal(mean={mean}, sd={sd}, min={min}, max={max})")
            }
            Lengths::Mixture { parts } => {
                f.write_str("mix(")?;
                for (index, part) in parts.iter().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    write!(f, "{comma}{}: {}", part.weight, part.lengths)?;
                }
                f.write_str(")")
            }
            Lengths::Empirical { file, .. } => write!(f, "file:{file}"),
        }
    }
}

/// Draws prompt and output lengths, one request after the other.
#[derive(Clone, Debug)]
pub struct LengthSampler {
    /// One where the lengths are independent.
    classes: Vec<ClassPlan>,
    total: f64,
    stream: Stream,
}

impl LengthSampler {
    /// The lengths of a run: the same plan and seed give the same lengths in the same order.
    pub fn new(plan: &WorkloadPlan, seed: u64) -> Self {
        let classes = match plan.classes.as_slice() {
            [] => vec![ClassPlan { weight: 1.0, isl: plan.isl.clone(), osl: plan.osl.clone() }],
            classes => classes.to_vec(),
        };
        let total = classes.iter().map(|class| class.weight).sum();
        Self { classes, total, stream: Stream::new(seed, "lengths") }
    }

    /// Prompt and output length of the next request, tokens.
    pub fn draw(&mut self) -> (u32, u32) {
        let class = match self.classes.as_slice() {
            [class] => Some(class),
            classes => chosen(classes, self.stream.uniform() * self.total, |class| class.weight),
        };
        class.map_or((1, 1), |class| (class.isl.draw(&mut self.stream), class.osl.draw(&mut self.stream)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::plan::PartPlan;

    const CHAT: Lengths = Lengths::Lognormal { mean: 400.0, cv: 0.6, min: 4, max: 2400 };

    fn plan(isl: Lengths, osl: Lengths) -> WorkloadPlan {
        WorkloadPlan::of(isl, osl)
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
            Lengths::Uniform { min: 3, max: 20 },
            Lengths::Normal { mean: 100.0, sd: 80.0, min: 20, max: 150 },
            Lengths::Normal { mean: 100.0, sd: 1e6, min: 99, max: 101 },
            Lengths::Mixture {
                parts: vec![
                    PartPlan { weight: 8.0, lengths: Lengths::Fixed { tokens: 100 } },
                    PartPlan { weight: 2.0, lengths: Lengths::Uniform { min: 1000, max: 4000 } },
                ],
            },
            Lengths::empirical("f", &[(5, 30), (100, 60), (101, 9), (900, 1)].into()),
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

    #[test]
    fn the_mean_of_a_truncated_normal_agrees_with_an_independent_one() {
        // scipy 1.17: truncnorm((19.5-100)/80, (150.5-100)/80, 100, 80).mean()
        let lengths = Lengths::Normal { mean: 100.0, sd: 80.0, min: 20, max: 150 };
        assert!((lengths.mean() - 88.058_079_989_205_15).abs() < 1e-6, "{}", lengths.mean());
    }

    #[test]
    fn a_file_of_many_lengths_is_kept_small_without_moving_its_mean_or_its_longest() {
        let seen: BTreeMap<u32, u64> =
            (1..50_000_u32).map(|tokens| (tokens, u64::from(tokens % 7 + 1))).collect();
        let lengths = Lengths::empirical("big.csv", &seen);
        let Lengths::Empirical { tokens, up_to, .. } = &lengths else { unreachable!() };
        assert!(tokens.len() <= 2 * MOST_LENGTHS as usize && tokens.len() == up_to.len());
        assert_eq!(lengths.longest(), 49_999);
        assert_eq!(up_to.last(), Some(&seen.values().sum::<u64>()));
        let mean = seen.iter().map(|(&l, &n)| f64::from(l) * n as f64).sum::<f64>()
            / seen.values().sum::<u64>() as f64;
        assert!((lengths.mean() / mean - 1.0).abs() < 1e-4);
    }

    #[test]
    fn the_lengths_of_a_class_are_drawn_together() {
        let class = |weight, isl, osl| ClassPlan {
            weight,
            isl: Lengths::Fixed { tokens: isl },
            osl: Lengths::Fixed { tokens: osl },
        };
        let mut workload = WorkloadPlan::of(Lengths::Fixed { tokens: 1 }, Lengths::Fixed { tokens: 1 });
        workload.classes = vec![class(3.0, 100, 200), class(1.0, 4000, 50)];
        let mut sampler = LengthSampler::new(&workload, 1);
        let draws: Vec<_> = (0..20_000).map(|_| sampler.draw()).collect();
        assert!(draws.iter().all(|draw| matches!(draw, (100, 200) | (4000, 50))));
        let documents = draws.iter().filter(|draw| draw.0 == 4000).count();
        assert!((4700..5300).contains(&documents), "{documents}");
    }
}
