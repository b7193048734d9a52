//! Whether a queue grows: a rate above a server's capacity has no steady state.
//!
//! The window is cut into equal parts; in each, the backlog grows by what came less what went. If the
//! queue is stable, the mean growth of a part is 0. Over windows that are short beside the queue's own
//! memory the growths of the parts are nearly independent, and Student's t is exact in the large; over
//! longer ones they cancel each other (a queue that grew must shrink), so that the sum varies less than
//! t supposes and the test errs on the safe side.

use crate::stats::special::student_quantile;

/// Parts of a window.
const PARTS: usize = 16;

/// Growth of a backlog over a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// Items by which it grew.
    pub items: f64,
    /// Items a second.
    pub per_second: f64,
    /// Mean growth of a part in its standard errors.
    pub t: f64,
}

impl Growth {
    /// The growth between `from` and `to` of a backlog into which items came and from which they went
    /// at these instants (in any order; those outside the window do not count).
    pub fn of(
        came: impl IntoIterator<Item = f64>,
        went: impl IntoIterator<Item = f64>,
        from: f64,
        to: f64,
    ) -> Self {
        let mut parts = [0.0_f64; PARTS];
        let length = (to - from).max(1e-12);
        let mut count = |at: f64, step: f64| {
            if at >= from && at < to {
                parts[(((at - from) / length * PARTS as f64) as usize).min(PARTS - 1)] += step;
            }
        };
        came.into_iter().for_each(|at| count(at, 1.0));
        went.into_iter().for_each(|at| count(at, -1.0));
        let n = PARTS as f64;
        let items: f64 = parts.iter().sum();
        let mean = items / n;
        let variance = parts.iter().map(|part| (part - mean).powi(2)).sum::<f64>() / (n - 1.0);
        // Growth that never varies (arrivals on a beat, nothing served) is as sure as can be.
        let error = (variance / n).sqrt().max(1e-9);
        Self { items, per_second: items / length, t: mean / error }
    }

    /// Whether the backlog grows, where a stable one is said to with probability `alpha`.
    pub fn is_sure(&self, alpha: f64) -> bool {
        self.t > student_quantile(1.0 - alpha, (PARTS - 1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    /// Arrivals and departures of a queue with one server and exponential times, from empty.
    fn queue(rate: f64, served: f64, count: usize, seed: u64) -> (Vec<f64>, Vec<f64>) {
        let mut stream = Stream::new(seed, "queue");
        let (mut at, mut free) = (0.0_f64, 0.0_f64);
        (0..count)
            .map(|_| {
                at += stream.exponential(1.0 / rate);
                free = free.max(at) + stream.exponential(1.0 / served);
                (at, free)
            })
            .unzip()
    }

    fn alarms(rate: f64, alpha: f64) -> f64 {
        let alarm = |seed: u64| {
            let (came, went) = queue(rate, 1.0, 1400, seed);
            // The first 600 fill the queue.
            let (from, to) = (came[600], came[1399]);
            Growth::of(came.iter().copied(), went.iter().copied(), from, to).is_sure(alpha)
        };
        (0..1000).filter(|&seed| alarm(seed)).count() as f64 / 1000.0
    }

    #[test]
    fn a_stable_queue_is_called_growing_no_more_often_than_stated() {
        for rate in [0.5, 0.8, 0.9] {
            let share = alarms(rate, 0.01);
            assert!(share <= 0.015, "at {rate}: {share}");
        }
    }

    #[test]
    fn a_queue_above_its_capacity_is_seen_to_grow() {
        let share = alarms(1.3, 0.001);
        assert!(share > 0.8, "{share}");
    }

    #[test]
    fn growth_is_what_came_less_what_went() {
        let came = (0..100).map(f64::from);
        let growth = Growth::of(came, (0..50).map(|k| 2.0 * f64::from(k)), 0.0, 100.0);
        assert_eq!((growth.items, growth.per_second), (50.0, 0.5));
        assert!(growth.is_sure(1e-6));
    }
}
