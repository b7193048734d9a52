//! Whether the client itself is fit: how late its event loop is, and how busy its threads are.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::loadgen::client::Connects;
use crate::loadgen::host::Others;

/// How fit the client was since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientHealth {
    /// 95th percentile of the event loop's lag, seconds.
    pub lag_p95: f64,
    /// 99th percentile of the event loop's lag, seconds: how long something that has happened (a
    /// token that came) waits until the loop turns to it.
    pub lag_p99: f64,
    /// The longest lag, seconds.
    pub lag_max: f64,
    /// Samples of the lag.
    pub lag_samples: usize,
    /// Share of its time that the busiest thread of the load engine spent on a CPU, 0..1.
    pub busy: f64,
    /// Share of its time that this thread was ready to run but waited for a CPU, 0..1.
    pub waiting: f64,
    /// Mean wait for a CPU each time that a thread of the load engine had something to do, seconds:
    /// how much later than it came a token was read from its socket.
    pub read_delay: f64,
    /// CPU time of the load engine's threads since the session opened, seconds.
    pub cpu_seconds: f64,
    /// What opening connections has cost since the session opened.
    pub connects: Connects,
    /// CPU that other processes used, where the server runs on this host too.
    pub others: Option<Others>,
}

impl ClientHealth {
    /// How late the client saw what had happened, seconds: the tail of its event loop's lag, or its
    /// mean wait for a CPU, whichever is longer.
    pub fn delay(&self) -> f64 {
        self.lag_p95.max(self.read_delay)
    }

    /// Share of the time in which the busiest thread ran or waited for a CPU, 0..1.
    pub fn pressure(&self) -> f64 {
        (self.busy + self.waiting).min(1.0)
    }
}

/// Collects what probes on one thread of the engine see.
#[derive(Default)]
pub(crate) struct Probe {
    lags: Mutex<Vec<f32>>,
    cpu_ns: AtomicU64,
    thread: AtomicI32,
}

impl Probe {
    /// Runs on the thread that is probed; `asked` is when the probe was put into its queue.
    pub(crate) fn answer(&self, asked: Instant) {
        let lag = asked.elapsed().as_secs_f32();
        self.lags.lock().unwrap_or_else(PoisonError::into_inner).push(lag);
        self.cpu_ns.store((clock_seconds(ClockId::ThreadCPUTime) * 1e9) as u64, Relaxed);
    }

    /// Runs once on the thread that is probed, before anything else.
    pub(crate) fn settle_in(&self) {
        self.thread.store(rustix::thread::gettid().as_raw_nonzero().get(), Relaxed);
    }

    /// How the system has scheduled the thread so far, where it tells.
    pub(crate) fn scheduled(&self) -> Option<Scheduled> {
        let thread = self.thread.load(Relaxed);
        let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
        Scheduled::parse(&text)
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

/// How the system has scheduled a thread: the second and third figure of Linux's `schedstat`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Scheduled {
    /// Time spent ready to run, waiting for a CPU, seconds.
    pub(crate) waited: f64,
    /// Times that it was given a CPU.
    pub(crate) slices: f64,
}

impl Scheduled {
    fn parse(text: &str) -> Option<Self> {
        let mut figures = text.split_whitespace().map(str::parse::<f64>);
        let (_, waited, slices) = (figures.next()?.ok()?, figures.next()?.ok()?, figures.next()?.ok()?);
        Some(Self { waited: waited * 1e-9, slices })
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

/// The 95th and 99th percentile (nearest rank) and the largest of some lags.
pub(crate) fn tail(mut lags: Vec<f32>) -> (f64, f64, f64) {
    lags.sort_by(f32::total_cmp);
    let at = |percent: usize| {
        let rank = (lags.len() * percent).div_ceil(100);
        lags.get(rank.saturating_sub(1)).map_or(0.0, |&lag| f64::from(lag))
    };
    (at(95), at(99), at(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_nearest_rank() {
        assert_eq!(tail((1..=200).map(|lag| lag as f32).collect()), (190.0, 198.0, 200.0));
        assert_eq!(tail(Vec::new()), (0.0, 0.0, 0.0));
        assert_eq!(tail(vec![3.0]), (3.0, 3.0, 3.0));
    }

    #[test]
    fn the_schedulers_figures_are_read_and_nonsense_is_none() {
        let read = Scheduled::parse("123456 2500000000 40\n");
        assert_eq!(read, Some(Scheduled { waited: 2.5, slices: 40.0 }));
        assert_eq!(Scheduled::parse(""), None);
        assert_eq!(Scheduled::parse("1 x 2"), None);
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
