//! How much room the bursts of open arrivals need.
//!
//! A closed loop holds N requests in flight; behind a balancer the same rate of open arrivals holds N
//! on average only. Servers that share their work among all requests in flight, as continuous
//! batching does, are processor-sharing queues whose total speed depends on the number in flight. The
//! stationary distribution of that number is known in closed form and does not depend on the
//! distribution of the work (Cohen, The multiple phase service network with generalized processor
//! sharing, Acta Informatica 12, 1979; Kelly, Reversibility and Stochastic Networks, 1979, 3.3): with
//! arrivals at rate `a` and a fleet that completes `x(k)` a second with `k` in flight,
//!
//! ```text
//! p(k) / p(k - 1) = a / x(k)
//! ```
//!
//! `x` is the measured curve of one server, `x(k) = m X(k / m)` for m servers behind a balancer that
//! sends each request to the server with the fewest, and constant beyond what a server carries: a
//! fleet that needs more than it may hold is not credited with more speed. With `X(n) = n / W` this is
//! the Poisson distribution of the infinite-server queue, and the room needed beyond the mean grows
//! with its square root: the larger the fleet, the smaller the share (square-root staffing, Halfin
//! and Whitt, Operations Research 29, 1981).
//!
//! Arrivals that are burstier than Poisson are scaled by their peakedness z, at most the squared
//! coefficient of variation of the gaps (Eckberg, Generalized peakedness of teletraffic processes,
//! ITC 10, 1983): as in Hayward's approximation, z requests are taken for one (Fredericks, Bell System
//! Technical Journal 59, 1980). Smoother ones are not credited.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::curve::Curve;

/// How requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "arrivals")]
pub enum Burst {
    /// The number in flight does not fluctuate: a balancer that holds requests back, or users that
    /// always have one in flight.
    None,
    /// Independent users: exponential gaps.
    Poisson,
    /// Gamma-distributed gaps of this shape: 1 is Poisson, below 1 burstier, above 1 smoother.
    Gamma {
        /// Shape; the gaps' squared coefficient of variation is its inverse.
        shape: f64,
    },
}

impl Burst {
    /// Peakedness by which the fluctuation is scaled; `None` without any.
    fn peakedness(self) -> Option<f64> {
        match self {
            Self::None => None,
            Self::Poisson => Some(1.0),
            Self::Gamma { shape } => Some((1.0 / shape).max(1.0)),
        }
    }
}

impl fmt::Display for Burst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Poisson => f.write_str("Poisson arrivals"),
            Self::Gamma { shape } => write!(f, "gamma arrivals of shape {shape}"),
        }
    }
}

impl FromStr for Burst {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        match (text, text.strip_prefix("gamma:").map(str::parse::<f64>)) {
            ("none", _) => Ok(Self::None),
            ("poisson", _) => Ok(Self::Poisson),
            // Below a hundredth, arrivals are so clumped that no rate describes them.
            (_, Some(Ok(shape))) if (0.01..=100.0).contains(&shape) => Ok(Self::Gamma { shape }),
            (_, Some(_)) => Err(format!("`{text}` needs a shape from 0.01 to 100, such as `gamma:0.5`")),
            _ => {
                Err(format!("`{text}` is not one of `poisson`, `gamma:SHAPE` (such as `gamma:0.5`), `none`"))
            }
        }
    }
}

/// States at the most in which the sum is taken; beyond, neighbours are taken together.
const STATES: f64 = 4000.0;

/// Share of the time in which more than `most` requests a server are in flight, in a fleet of
/// `servers` that arrivals of `rate` a second reach: see the module's text. `curve` gives one server's
/// completions by requests in flight, scaled so that it serves `top` at `most`. 1 where the fleet
/// cannot keep up.
pub fn share_above(servers: u32, rate: f64, most: f64, top: f64, curve: &Curve, burst: Burst) -> f64 {
    let Some(peakedness) = burst.peakedness() else { return 0.0 };
    let m = f64::from(servers);
    if rate >= m * top || most <= 0.0 || top <= 0.0 {
        return 1.0;
    }
    let scale = top / curve.value(most).max(f64::MIN_POSITIVE);
    let limit = (m * most).floor().max(1.0);
    let stride = (limit / STATES).ceil().max(1.0);
    let steps = (limit / stride).floor() as u32;
    // Logarithms of p relative to p(0), and sums relative to the largest so far.
    let (mut log, mut largest) = (0.0_f64, 0.0_f64);
    let (mut within, mut at_end) = (1.0_f64, 1.0_f64);
    for step in 1..=steps {
        let middle = f64::from(step) * stride - (stride - 1.0) / 2.0;
        let speed = m * (scale * curve.value(middle / m)).min(top);
        log += stride / peakedness * (rate / speed.max(f64::MIN_POSITIVE)).ln();
        if log > largest {
            within *= (largest - log).exp();
            largest = log;
        }
        at_end = (log - largest).exp();
        within += at_end;
    }
    // Beyond, each further state is less likely by the same ratio.
    let ratio = (stride / peakedness * (rate / (m * top)).ln()).exp();
    let above = at_end * ratio / (1.0 - ratio);
    above / (within + above)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::stats::isotonic::Point;

    fn line(to: f64, rate: f64) -> Curve {
        Curve::fit(&[Point { x: to, y: rate, weight: 1.0 }]).from_origin()
    }

    #[test]
    fn agrees_with_the_erlang_delay_formula() {
        // m servers that do one request at a time, 1 a second each: above m in flight somebody waits.
        // P(wait) of M/M/c is P(k >= c); P(k > c) is that times the utilisation. Erlang C from its
        // recursion B(c) = a B(c-1) / (c + a B(c-1)), C = B / (1 - u (1 - B)).
        for (servers, load) in [(1_u32, 0.5_f64), (5, 4.0), (20, 17.0), (100, 92.0)] {
            let blocking = (1..=servers).fold(1.0, |b, c| load * b / (f64::from(c) + load * b));
            let utilisation = load / f64::from(servers);
            let waits = blocking / (1.0 - utilisation * (1.0 - blocking));
            let got = share_above(servers, load, 1.0, 1.0, &line(1.0, 1.0), Burst::Poisson);
            assert!((got - waits * utilisation).abs() < 1e-9, "{servers}: {got}, {}", waits * utilisation);
        }
    }

    #[test]
    fn a_larger_fleet_needs_a_smaller_share_of_room() {
        let curve = line(10.0, 5.0);
        let shares: Vec<f64> = [1, 4, 16, 64]
            .map(|m| share_above(m, 0.9 * 5.0 * f64::from(m), 10.0, 5.0, &curve, Burst::Poisson))
            .to_vec();
        assert!(shares.windows(2).all(|pair| pair[1] < pair[0]), "{shares:?}");
    }

    #[test]
    fn taking_states_together_changes_little() {
        let curve = line(100.0, 50.0);
        // 300 servers: 30,000 states in strides of 8; the normal law of a Poisson count with the same
        // mean, 29,400, is 3.5 standard deviations away.
        let got = share_above(300, 300.0 * 49.0, 100.0, 50.0, &curve, Burst::Poisson);
        assert!((1e-4..4e-4).contains(&got), "{got}");
    }

    #[test]
    fn burstier_arrivals_exceed_more_often_and_smoother_ones_are_not_credited() {
        let share = |burst| share_above(8, 30.0, 10.0, 5.0, &line(10.0, 5.0), burst);
        assert!(share(Burst::Gamma { shape: 0.5 }) > 2.0 * share(Burst::Poisson));
        assert_eq!(share(Burst::Gamma { shape: 4.0 }), share(Burst::Poisson));
        assert_eq!(share(Burst::None), 0.0);
    }

    #[test]
    fn arrivals_are_read_as_they_are_written() {
        assert_eq!("gamma:0.5".parse(), Ok(Burst::Gamma { shape: 0.5 }));
        assert_eq!("poisson".parse(), Ok(Burst::Poisson));
        for wrong in ["gamma:0", "gamma:x", "gamma", "uniform", "gamma:nan"] {
            assert!(wrong.parse::<Burst>().unwrap_err().contains(wrong), "{wrong}");
        }
    }
}
