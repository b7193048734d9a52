//! What makes a step of the same work take longer or shorter.

use crate::rng::Stream;
use crate::sim::model::params::Disturbance;

/// The running state of a [`Disturbance`].
#[derive(Clone, Debug)]
pub(super) struct Noise {
    params: Disturbance,
    step: Stream,
    slow: Stream,
    stall: Stream,
    /// Log of the slow factor now.
    level: f64,
    /// Until when `level` has been carried forward.
    carried: f64,
}

impl Noise {
    pub(super) fn new(params: Disturbance, seed: u64) -> Self {
        let mut slow = Stream::new(seed, "sim.slow");
        // The first level is drawn from the stationary distribution: no burn-in.
        let level = params.slow_sd * slow.normal();
        Self {
            params,
            step: Stream::new(seed, "sim.step"),
            slow,
            stall: Stream::new(seed, "sim.stall"),
            level,
            carried: 0.0,
        }
    }

    /// The real length of a step that begins at `now` and would take `work` undisturbed.
    pub(super) fn apply(&mut self, work: f64, now: f64) -> f64 {
        let p = self.params;
        let mut took = work;
        if p.cold_extra > 0.0 {
            took *= 1.0 + p.cold_extra * (-now / p.cold_time).exp();
        }
        took *= 1.0 + p.drift * now;
        if now >= p.swap_at {
            took *= p.swap_factor;
        }
        let mut log = 0.0;
        if p.slow_sd > 0.0 {
            // Exact transition of the Ornstein-Uhlenbeck process since the last step began, idle
            // time included.
            let keep = ((self.carried - now) / p.slow_time).exp();
            self.level = keep * self.level + p.slow_sd * (1.0 - keep * keep).sqrt() * self.slow.normal();
            self.carried = now;
            log += self.level;
        }
        if p.step > 0.0 {
            log += p.step * self.step.normal();
        }
        took *= log.exp();
        if p.stall_rate > 0.0 && self.stall.uniform() < p.stall_rate * took {
            took += self.stall.exponential(p.stall_mean);
        }
        took
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_undisturbed_step_takes_exactly_its_work() {
        let mut noise = Noise::new(Disturbance::NONE, 1);
        for step in 0..100 {
            assert_eq!(noise.apply(0.02, f64::from(step)), 0.02);
        }
    }

    #[test]
    fn slow_noise_has_the_stated_spread_and_correlation_time() {
        let params = Disturbance { slow_sd: 0.04, slow_time: 30.0, ..Disturbance::NONE };
        let mut noise = Noise::new(params, 5);
        // Samples 30 s apart: neighbours correlate by 1/e.
        let levels: Vec<f64> = (0..40_000).map(|k| noise.apply(1.0, 30.0 * f64::from(k)).ln()).collect();
        let n = levels.len() as f64;
        let variance = levels.iter().map(|x| x * x).sum::<f64>() / n;
        let neighbours = levels.windows(2).map(|w| w[0] * w[1]).sum::<f64>() / n / variance;
        assert!((variance.sqrt() / 0.04 - 1.0).abs() < 0.03, "sd {}", variance.sqrt());
        assert!((neighbours - (-1_f64).exp()).abs() < 0.03, "correlation {neighbours}");
    }

    #[test]
    fn stalls_come_at_the_stated_rate_of_computing_time() {
        let params = Disturbance { stall_rate: 0.5, stall_mean: 2.0, ..Disturbance::NONE };
        let mut noise = Noise::new(params, 5);
        let steps = 200_000;
        let extra: f64 = (0..steps).map(|_| noise.apply(0.01, 0.0) - 0.01).sum();
        // 2,000 s of computing, 0.5 stalls a second, 2 s each: 2,000 s.
        assert!((extra / 2000.0 - 1.0).abs() < 0.1, "{extra}");
    }

    #[test]
    fn a_cold_server_is_slow_at_first_and_a_drifting_one_later() {
        let params = Disturbance { cold_extra: 1.0, cold_time: 20.0, drift: 1e-3, ..Disturbance::NONE };
        let mut noise = Noise::new(params, 1);
        assert!((noise.apply(0.01, 0.0) - 0.02).abs() < 1e-12);
        assert!((noise.apply(0.01, 1000.0) - 0.02).abs() < 1e-12);
    }

    #[test]
    fn steps_stay_finite_where_noise_shortens_them() {
        let params = Disturbance { step: 0.5, slow_sd: 0.3, slow_time: 0.5, ..Disturbance::NONE };
        let mut noise = Noise::new(params, 1);
        let mut now = 0.0;
        for _ in 0..10_000 {
            let took = noise.apply(0.01, now);
            assert!(took.is_finite() && took > 0.0);
            now += took;
        }
    }
}
