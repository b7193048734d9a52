//! Whether the client itself is fit: how late its event loop is, and how busy its threads are.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use crate::loadgen::client::Connects;

/// How fit the client was since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClientHealth {
    /// 99th percentile of the event loop's lag, seconds: how long something that has happened (a
    /// token that came) waits until the loop turns to it.
    pub lag_p99: f64,
    /// The longest lag, seconds.
    pub lag_max: f64,
    /// Samples of the lag.
    pub lag_samples: usize,
    /// Share of its time that the busiest thread of the load engine spent on a CPU, 0..1.
    pub busy: f64,
    /// CPU time of the load engine's threads since the session opened, seconds.
    pub cpu_seconds: f64,
    /// What opening connections has cost since the session opened.
    pub connects: Connects,
}

/// Collects what probes on one thread of the engine see.
#[derive(Default)]
pub(crate) struct Probe {
    lags: Mutex<Vec<f32>>,
    cpu_ns: AtomicU64,
}

impl Probe {
    /// Runs on the thread that is probed; `asked` is when the probe was put into its queue.
    pub(crate) fn answer(&self, asked: Instant) {
        let lag = asked.elapsed().as_secs_f32();
        self.lags.lock().unwrap_or_else(PoisonError::into_inner).push(lag);
        self.cpu_ns.store((clock_seconds(ClockId::ThreadCPUTime) * 1e9) as u64, Relaxed);
    }

    /// The lags seen since the last call.
    pub(crate) fn take_lags(&self) -> Vec<f32> {
        std::mem::take(&mut self.lags.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// CPU time of the thread at the last probe, seconds.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.cpu_ns.load(Relaxed) as f64 * 1e-9
    }
}

/// CPU time of the whole process, seconds.
pub fn process_cpu_seconds() -> f64 {
    clock_seconds(ClockId::ProcessCPUTime)
}

fn clock_seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// The 99th percentile (nearest rank) and the largest of some lags.
pub(crate) fn tail(mut lags: Vec<f32>) -> (f64, f64) {
    lags.sort_by(f32::total_cmp);
    let rank = (lags.len() * 99).div_ceil(100);
    let at = |index: usize| lags.get(index).map_or(0.0, |&lag| f64::from(lag));
    (at(rank.saturating_sub(1)), at(lags.len().saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_nearest_rank() {
        let (p99, max) = tail((1..=200).map(|lag| lag as f32).collect());
        assert_eq!((p99, max), (198.0, 200.0));
        assert_eq!(tail(Vec::new()), (0.0, 0.0));
        assert_eq!(tail(vec![3.0]), (3.0, 3.0));
    }

    #[test]
    fn cpu_time_is_that_of_the_process() {
        let before = process_cpu_seconds();
        let mut sum = 0_u64;
        while process_cpu_seconds() - before < 1e-3 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(before > 0.0);
    }
}
