//! This machine: processors, memory, network. Silent where there is no `/proc`.

use std::fs;
use std::time::Instant;

use crate::loadgen::process_cpu_seconds;
use crate::observed::{Quantity, Values};
use crate::telemetry::proc::{self, CpuTimes};

/// Reads this machine now and then.
#[derive(Debug)]
pub struct Host {
    last: Option<Look>,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    times: CpuTimes,
    own: f64,
}

impl Host {
    /// Begins.
    pub fn new() -> Self {
        Self { last: look() }
    }

    /// What is seen now; shares of processors are since the look before.
    pub fn read(&mut self) -> Values {
        let mut values = Values::default();
        let now = look();
        if let (Some(before), Some(now)) = (self.last, now) {
            shares(&before, &now, &mut values);
        }
        self.last = now;
        if let Some((used, total)) = file("/proc/meminfo").as_deref().and_then(proc::memory) {
            values.set(Quantity::MemoryUsed, used);
            values.set(Quantity::MemoryTotal, total);
        }
        if let Some(text) = file("/proc/net/dev") {
            let (received, sent) = proc::network(&text);
            values.set(Quantity::NetReceived, received);
            values.set(Quantity::NetSent, sent);
        }
        values
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

fn file(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn look() -> Option<Look> {
    let times = proc::cpu_times(&file("/proc/stat")?)?;
    Some(Look { at: Instant::now(), times, own: process_cpu_seconds() })
}

fn shares(before: &Look, now: &Look, values: &mut Values) {
    let total = now.times.total - before.times.total;
    let wall = (now.at - before.at).as_secs_f64();
    if total <= 0.0 || wall <= 0.0 {
        return;
    }
    let cpu = (1.0 - (now.times.idle - before.times.idle) / total).clamp(0.0, 1.0);
    let own = ((now.own - before.own) / (wall * now.times.processors)).clamp(0.0, 1.0);
    values.set(Quantity::Cpu, cpu);
    values.set(Quantity::CpuOwn, own);
    // The two are counted by different clocks: over a short time the difference may be below 0.
    values.set(Quantity::CpuOthers, (cpu - own).max(0.0));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_this_process_does_not_take_others_take() {
        let before = Look {
            at: Instant::now(),
            times: CpuTimes { total: 1000.0, idle: 900.0, processors: 4.0 },
            own: 2.0,
        };
        let now = Look {
            at: before.at + Duration::from_secs(1),
            times: CpuTimes { total: 1400.0, idle: 1100.0, processors: 4.0 },
            own: 2.8,
        };
        let mut values = Values::default();
        shares(&before, &now, &mut values);
        assert_eq!(values.get(Quantity::Cpu), Some(0.5));
        assert!(values.get(Quantity::CpuOwn).is_some_and(|own| (own - 0.2).abs() < 1e-9));
        assert!(values.get(Quantity::CpuOthers).is_some_and(|others| (others - 0.3).abs() < 1e-9));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_machine_can_be_read() {
        let values = Host::new().read();
        assert!(values.get(Quantity::MemoryTotal).is_some_and(|total| total > 1e6));
    }
}
