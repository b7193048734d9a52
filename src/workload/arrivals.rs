//! When requests arrive in an open loop: exact renewal processes, never rescaled to hit a total.
//!
//! A process draws gaps of mean 1; a [`RateCurve`] maps their running sum to seconds by the inverse
//! of the integrated rate, so that a rate may change within a schedule without changing the process.
//! The same seed gives the same offsets, whoever asks for them and from however many threads.
//!
//! ```
//! use plimsoll::workload::arrivals::{ArrivalProcess, Arrivals, RateCurve};
//! let arrivals = Arrivals::new(RateCurve::Constant(4.0), ArrivalProcess::Constant, 7);
//! let offsets: Vec<f64> = arrivals.schedule().take(3).collect();
//! assert_eq!(offsets, [0.25, 0.5, 0.75]);
//! ```

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rng::Stream;

/// How gaps between arrivals vary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum ArrivalProcess {
    /// All gaps alike.
    Constant,
    /// Exponential gaps: independent users, many of them.
    #[default]
    Poisson,
    /// Gamma gaps: below a shape of 1 arrivals come in bursts, at 1 they are Poisson's, above it they
    /// are more even. The shape is what vLLM's `--burstiness` says.
    Gamma {
        /// Shape; the squared coefficient of variation of the gaps is its inverse.
        shape: f64,
    },
}

impl ArrivalProcess {
    /// A gap of mean 1.
    fn gap(self, stream: &mut Stream) -> f64 {
        match self {
            ArrivalProcess::Constant => 1.0,
            ArrivalProcess::Poisson => stream.exponential(1.0),
            ArrivalProcess::Gamma { shape } => gamma(stream, shape) / shape,
        }
    }
}

/// Gamma variate of unit scale (Marsaglia and Tsang, "A simple method for generating gamma variables",
/// 2000). Below a shape of 1 the draw for `shape + 1` is scaled by `U^(1/shape)`, as they say there.
fn gamma(stream: &mut Stream, shape: f64) -> f64 {
    if shape < 1.0 {
        let boosted = gamma(stream, shape + 1.0);
        return boosted * stream.uniform().powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = stream.normal();
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && stream.uniform().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// The rate of arrivals over time, requests a second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateCurve {
    /// Always the same.
    Constant(f64),
    /// Linear between points of `(seconds, rate)`, ascending in time from 0; the last rate stays.
    Linear(Vec<(f64, f64)>),
    /// Exponential from one rate to another; then that stays.
    Exponential {
        /// Rate at the start.
        from: f64,
        /// Rate at the end.
        to: f64,
        /// Time between.
        seconds: f64,
    },
    /// At given instants, ascending: with [`ArrivalProcess::Constant`] an arrival at each.
    #[serde(skip)]
    Instants(Arc<[f64]>),
}

impl RateCurve {
    /// How long the curve is, seconds; none for one that has no end.
    pub fn length(&self) -> Option<f64> {
        match self {
            RateCurve::Constant(_) => None,
            RateCurve::Linear(points) => points.last().map(|&(at, _)| at),
            RateCurve::Exponential { seconds, .. } => Some(*seconds),
            RateCurve::Instants(instants) => instants.last().copied(),
        }
    }

    /// Arrivals within the curve's length; for one without end, within a second.
    pub fn arrivals(&self) -> f64 {
        match self {
            RateCurve::Constant(rate) => *rate,
            RateCurve::Linear(points) => {
                points.windows(2).map(|pair| 0.5 * (pair[0].1 + pair[1].1) * (pair[1].0 - pair[0].0)).sum()
            }
            RateCurve::Exponential { from, to, seconds } if from == to => from * seconds,
            RateCurve::Exponential { from, to, seconds } => (to - from) * seconds / (to / from).ln(),
            RateCurve::Instants(instants) => instants.len() as f64,
        }
    }

    /// The mean rate over the curve's length.
    pub fn mean(&self) -> f64 {
        self.arrivals() / self.length().unwrap_or(1.0).max(1e-9)
    }

    /// The same arrivals so many times faster: a curve of rates keeps its length and has its rates
    /// multiplied, given instants come closer together.
    #[must_use]
    pub fn faster(&self, factor: f64) -> Self {
        match self {
            RateCurve::Constant(rate) => RateCurve::Constant(rate * factor),
            RateCurve::Linear(points) => {
                RateCurve::Linear(points.iter().map(|&(at, rate)| (at, rate * factor)).collect())
            }
            &RateCurve::Exponential { from, to, seconds } => {
                RateCurve::Exponential { from: from * factor, to: to * factor, seconds }
            }
            RateCurve::Instants(instants) => {
                RateCurve::Instants(instants.iter().map(|at| at / factor).collect())
            }
        }
    }

    /// The rate at an instant.
    pub fn at(&self, seconds: f64) -> f64 {
        match self {
            RateCurve::Constant(rate) => *rate,
            RateCurve::Linear(points) => {
                let after = points.partition_point(|&(at, _)| at <= seconds);
                match (after.checked_sub(1).and_then(|before| points.get(before)), points.get(after)) {
                    (Some(&(t0, r0)), Some(&(t1, r1))) => r0 + (r1 - r0) * (seconds - t0) / (t1 - t0),
                    (Some(&(_, rate)), None) | (None, Some(&(_, rate))) => rate,
                    (None, None) => 0.0,
                }
            }
            RateCurve::Exponential { from, to, seconds: length } => {
                from * (to / from).powf((seconds / length).clamp(0.0, 1.0))
            }
            RateCurve::Instants(_) => self.mean(),
        }
    }

    /// The instant until which `arrivals` are expected: the inverse of the integrated rate. `None`
    /// where so many never come.
    pub fn until(&self, arrivals: f64) -> Option<f64> {
        match self {
            RateCurve::Constant(rate) => (*rate > 0.0).then(|| arrivals / rate),
            RateCurve::Linear(points) => {
                let mut left = arrivals;
                for pair in points.windows(2) {
                    let ((t0, r0), (t1, r1)) = (pair[0], pair[1]);
                    let here = 0.5 * (r0 + r1) * (t1 - t0);
                    if left < here {
                        // r0 t + k t^2 / 2 = left, in the form that keeps its digits for small k.
                        let k = (r1 - r0) / (t1 - t0);
                        return Some(t0 + 2.0 * left / (r0 + (r0 * r0 + 2.0 * k * left).max(0.0).sqrt()));
                    }
                    left -= here;
                }
                let &(end, rate) = points.last()?;
                (rate > 0.0).then(|| end + left / rate)
            }
            RateCurve::Exponential { from, to, seconds } => {
                let growth = (to / from).ln() / seconds;
                let within = if growth.abs() < 1e-12 { from * seconds } else { (to - from) / growth };
                if arrivals >= within {
                    Some(seconds + (arrivals - within) / to)
                } else if growth.abs() < 1e-12 {
                    Some(arrivals / from)
                } else {
                    Some((growth * arrivals / from).ln_1p() / growth)
                }
            }
            RateCurve::Instants(instants) => {
                let index = (arrivals.ceil() as usize).saturating_sub(1);
                instants.get(index).copied()
            }
        }
    }
}

/// Arrivals of an open loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrivals {
    /// How many a second.
    pub curve: RateCurve,
    /// How their gaps vary.
    pub process: ArrivalProcess,
    /// Seed of the run.
    pub seed: u64,
    /// Which of the run's schedules this is; each has offsets of its own.
    pub number: u64,
    /// Most requests in flight at once. An arrival beyond waits its turn, and its waiting counts in
    /// its latency.
    pub in_flight_cap: u32,
}

impl Arrivals {
    /// The first schedule of a run, without a cap.
    pub fn new(curve: RateCurve, process: ArrivalProcess, seed: u64) -> Self {
        Self { curve, process, seed, number: 0, in_flight_cap: u32::MAX }
    }

    /// The offsets of the arrivals from the schedule's start, seconds.
    pub fn schedule(&self) -> Schedule {
        Schedule {
            curve: self.curve.clone(),
            process: self.process,
            stream: Stream::new(self.seed, &format!("arrivals {}", self.number)),
            units: 0.0,
        }
    }
}

/// Offsets of arrivals, one after the other.
#[derive(Clone, Debug)]
pub struct Schedule {
    curve: RateCurve,
    process: ArrivalProcess,
    stream: Stream,
    /// Sum of the gaps of mean 1 so far.
    units: f64,
}

impl Iterator for Schedule {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        self.units += self.process.gap(&mut self.stream);
        self.curve.until(self.units)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::stats::special::ln_gamma;
    use proptest::prelude::*;

    /// Largest distance between the empirical distribution and `cdf`, times the root of the count:
    /// above 1.95 the draws are another distribution's (0.1 % of the time by chance).
    fn kolmogorov_smirnov(mut draws: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
        draws.sort_unstable_by(f64::total_cmp);
        let n = draws.len() as f64;
        let distance = |(i, &x): (usize, &f64)| {
            let p = cdf(x);
            (p - i as f64 / n).abs().max(((i + 1) as f64 / n - p).abs())
        };
        draws.iter().enumerate().map(distance).fold(0.0, f64::max) * n.sqrt()
    }

    /// Regularized lower incomplete gamma function: its power series, or Lentz's continued fraction.
    fn gamma_p(a: f64, x: f64) -> f64 {
        let front = (a * x.max(1e-300).ln() - x - ln_gamma(a)).exp();
        if x < a + 1.0 {
            let (mut term, mut sum) = (1.0 / a, 1.0 / a);
            for n in 1..500 {
                term *= x / (a + f64::from(n));
                sum += term;
            }
            return front * sum;
        }
        let mut b = x + 1.0 - a;
        let (mut c, mut d) = (1e300, 1.0 / b);
        let mut h = d;
        for n in 1..500 {
            let an = -f64::from(n) * (f64::from(n) - a);
            b += 2.0;
            d = 1.0 / (an * d + b);
            c = b + an / c;
            h *= d * c;
        }
        1.0 - front * h
    }

    #[test]
    fn the_incomplete_gamma_function_of_these_tests_is_right() {
        // scipy.special.gammainc
        for (a, x, p) in [(0.25, 0.1, 0.6083388457), (1.0, 2.0, 0.8646647168), (4.0, 6.0, 0.8487961172)] {
            assert!((gamma_p(a, x) - p).abs() < 1e-8, "{a} {x}: {}", gamma_p(a, x));
        }
    }

    fn gaps(process: ArrivalProcess, rate: f64, seed: u64) -> Vec<f64> {
        let mut last = 0.0;
        Arrivals::new(RateCurve::Constant(rate), process, seed)
            .schedule()
            .take(20_000)
            .map(|at| {
                let gap = at - last;
                last = at;
                gap
            })
            .collect()
    }

    #[test]
    fn gaps_are_those_of_the_process_at_every_rate() {
        for (seed, rate) in [(1, 0.2), (2, 5.0), (3, 200.0), (4, 2000.0)] {
            let poisson = gaps(ArrivalProcess::Poisson, rate, seed);
            let distance = kolmogorov_smirnov(poisson, |x| 1.0 - (-rate * x).exp());
            assert!(distance < 1.95, "Poisson at {rate}: {distance}");
            for shape in [0.25, 0.5, 1.0, 4.0] {
                let gamma = gaps(ArrivalProcess::Gamma { shape }, rate, seed);
                let distance = kolmogorov_smirnov(gamma, |x| gamma_p(shape, shape * rate * x));
                assert!(distance < 1.95, "gamma {shape} at {rate}: {distance}");
            }
        }
    }

    #[test]
    fn the_test_of_the_gaps_can_fail() {
        let wrong = gaps(ArrivalProcess::Gamma { shape: 0.9 }, 5.0, 1);
        assert!(kolmogorov_smirnov(wrong, |x| 1.0 - (-5.0 * x).exp()) > 1.95);
    }

    #[test]
    fn counts_vary_as_the_process_says_and_are_not_rescaled() {
        // Of a Poisson process the count in a window has its mean as its variance.
        let mut counts = Vec::new();
        for seed in 0..400 {
            let schedule = Arrivals::new(RateCurve::Constant(50.0), ArrivalProcess::Poisson, seed).schedule();
            counts.push(schedule.take_while(|&at| at < 2.0).count() as f64);
        }
        let mean = counts.iter().sum::<f64>() / 400.0;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 399.0;
        assert!((mean - 100.0).abs() < 2.5, "{mean}");
        assert!((70.0..135.0).contains(&variance), "{variance}");
    }

    #[test]
    fn a_seed_and_a_number_fix_the_offsets_on_every_thread() {
        let arrivals = Arrivals::new(RateCurve::Constant(20.0), ArrivalProcess::Poisson, 7);
        let here: Vec<f64> = arrivals.schedule().take(1000).collect();
        let handles: Vec<_> = (0..4)
            .map(|_| {
                let arrivals = arrivals.clone();
                std::thread::spawn(move || arrivals.schedule().take(1000).collect::<Vec<f64>>())
            })
            .collect();
        for handle in handles {
            assert_eq!(handle.join().unwrap(), here);
        }
        let next: Vec<f64> = Arrivals { number: 1, ..arrivals }.schedule().take(1000).collect();
        assert_ne!(next, here);
    }

    #[test]
    fn given_instants_come_as_they_are_and_faster_where_asked() {
        let curve = RateCurve::Instants([0.0, 0.5, 0.5, 8.0].into());
        let schedule = |curve| Arrivals::new(curve, ArrivalProcess::Constant, 3).schedule();
        assert_eq!(schedule(curve.clone()).collect::<Vec<_>>(), [0.0, 0.5, 0.5, 8.0]);
        assert_eq!(schedule(curve.faster(4.0)).collect::<Vec<_>>(), [0.0, 0.125, 0.125, 2.0]);
        assert_eq!((curve.mean(), curve.faster(4.0).mean()), (0.5, 2.0));
    }

    #[test]
    fn the_mean_of_a_curve_is_its_arrivals_over_its_length() {
        let ramp = RateCurve::Exponential { from: 1.0, to: 50.0, seconds: 60.0 };
        // (50 - 1) / ln 50
        assert!((ramp.mean() - 12.525_489).abs() < 1e-5, "{}", ramp.mean());
        assert!((ramp.faster(2.0).mean() / ramp.mean() - 2.0).abs() < 1e-12);
        assert_eq!(RateCurve::Linear(vec![(0.0, 2.0), (10.0, 4.0)]).mean(), 3.0);
        assert_eq!(ramp.until(ramp.arrivals()).map(|at| at.round()), Some(60.0));
    }

    #[test]
    fn a_rate_of_zero_at_the_end_of_a_series_ends_the_arrivals() {
        let curve = RateCurve::Linear(vec![(0.0, 10.0), (10.0, 0.0)]);
        let arrivals = Arrivals::new(curve, ArrivalProcess::Constant, 1);
        // The area under the line is 50; the last of the arrivals comes where the rate has gone.
        assert!((49..=50).contains(&arrivals.schedule().count()));
    }

    proptest! {
        #[test]
        fn the_inverse_of_the_integrated_rate_is_its_inverse(
            rates in prop::collection::vec(0.1_f64..50.0, 2..6), units in 0.0_f64..400.0,
        ) {
            let points: Vec<(f64, f64)> =
                rates.iter().enumerate().map(|(i, &rate)| (i as f64 * 3.0, rate)).collect();
            let ramp = RateCurve::Exponential { from: rates[0], to: rates[1], seconds: 5.0 };
            for curve in [RateCurve::Linear(points), ramp] {
                let at = curve.until(units).unwrap();
                let steps = 20_000;
                let area: f64 = (0..steps)
                    .map(|i| curve.at(at * (i as f64 + 0.5) / f64::from(steps)) * at / f64::from(steps))
                    .sum();
                prop_assert!((area - units).abs() < 1e-3 * units.max(1.0), "{area} {units} {curve:?}");
            }
        }
    }
}
