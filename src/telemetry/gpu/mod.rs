//! GPUs of this machine.
//!
//! `utilization.gpu`, which every tool shows, is the share of time in which *any* kernel ran: one
//! small kernel after another makes it 100 %. It is kept as `kernel_time`; how busy the chip is say
//! the activity of the multiprocessors and of the memory, where the driver has them (GPM).

mod nvml;

pub use nvml::open;

use crate::observed::{Quantity, Values};
use crate::telemetry::names::HELD_BACK;

/// GPUs that can be read.
pub trait Gpu: Send {
    /// What each of them says now.
    fn read(&mut self) -> Vec<GpuReading>;
}

/// What one GPU says. A figure that the driver does not give is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GpuReading {
    /// Power, watts.
    pub power: Option<f64>,
    /// Energy since the driver was loaded, joules.
    pub energy: Option<f64>,
    /// Memory in use, bytes.
    pub memory_used: Option<f64>,
    /// Memory, bytes.
    pub memory_total: Option<f64>,
    /// Clock of the multiprocessors, hertz.
    pub sm_clock: Option<f64>,
    /// Clock of the memory, hertz.
    pub memory_clock: Option<f64>,
    /// Temperature, degrees Celsius.
    pub temperature: Option<f64>,
    /// Share of time and multiprocessors with work on them, since the reading before.
    pub sm_activity: Option<f64>,
    /// Share of the memory's bandwidth that was used, since the reading before.
    pub memory_activity: Option<f64>,
    /// Share of time in which any kernel ran.
    pub kernel_time: Option<f64>,
    /// Why the clocks are not higher (the driver's bits).
    pub throttle_reasons: Option<u64>,
}

/// The readings of all GPUs as one look: sums of power, energy and memory, means of the rest. A sum
/// is only given where every GPU has its part.
pub fn combined(readings: &[GpuReading]) -> Values {
    let mut values = Values::default();
    if readings.is_empty() {
        return values;
    }
    values.set(Quantity::Gpus, readings.len() as f64);
    let all =
        |part: fn(&GpuReading) -> Option<f64>| -> Option<Vec<f64>> { readings.iter().map(part).collect() };
    let mut sum = |quantity, part| {
        if let Some(parts) = all(part) {
            values.set(quantity, parts.iter().sum());
        }
    };
    sum(Quantity::Power, |gpu| gpu.power);
    sum(Quantity::Energy, |gpu| gpu.energy);
    sum(Quantity::GpuMemoryUsed, |gpu| gpu.memory_used);
    sum(Quantity::GpuMemoryTotal, |gpu| gpu.memory_total);
    let mut mean = |quantity, part| {
        if let Some(parts) = all(part) {
            values.set(quantity, parts.iter().sum::<f64>() / parts.len() as f64);
        }
    };
    mean(Quantity::SmClock, |gpu| gpu.sm_clock);
    mean(Quantity::MemoryClock, |gpu| gpu.memory_clock);
    mean(Quantity::SmActivity, |gpu| gpu.sm_activity);
    mean(Quantity::MemoryActivity, |gpu| gpu.memory_activity);
    mean(Quantity::KernelTime, |gpu| gpu.kernel_time);
    mean(Quantity::Throttled, |gpu| {
        gpu.throttle_reasons.map(|reasons| f64::from(u8::from(reasons & HELD_BACK != 0)))
    });
    if let Some(hottest) = readings.iter().filter_map(|gpu| gpu.temperature).max_by(f64::total_cmp) {
        values.set(Quantity::Temperature, hottest);
    }
    values
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::observed::Series;

    /// Readings played back.
    struct Trace(Vec<Vec<GpuReading>>);

    impl Gpu for Trace {
        fn read(&mut self) -> Vec<GpuReading> {
            self.0.remove(0)
        }
    }

    /// A trace of two H100 in the form in which it was recorded: seconds, GPU, watts, millijoules, MiB
    /// used, SM clock MHz, SM activity, memory activity, `utilization.gpu` in percent, throttle bits.
    const TRACE: &str = "\
0 0 310.5 5000000 71000 1980 0.42 0.61 100 0
0 1 305.5 4000000 71000 1980 0.40 0.60 100 0
1 0 690.0 5500000 71200 1755 0.80 0.66 100 4
1 1 510.0 4400000 71200 1980 0.78 0.64 100 0
2 0 695.0 6200000 71200 1740 0.82 0.66 100 4
2 1 505.0 4900000 71200 1980 0.78 0.64 100 0
";

    fn trace() -> Trace {
        let mut seconds: Vec<Vec<GpuReading>> = Vec::new();
        for line in TRACE.lines() {
            let fields: Vec<f64> = line.split(' ').map(|field| field.parse().unwrap()).collect();
            if fields[1] == 0.0 {
                seconds.push(Vec::new());
            }
            seconds.last_mut().unwrap().push(GpuReading {
                power: Some(fields[2]),
                energy: Some(fields[3] * 1e-3),
                memory_used: Some(fields[4] * 1_048_576.0),
                memory_total: None,
                sm_clock: Some(fields[5] * 1e6),
                sm_activity: Some(fields[6]),
                memory_activity: Some(fields[7]),
                kernel_time: Some(fields[8] / 100.0),
                throttle_reasons: Some(fields[9] as u64),
                ..GpuReading::default()
            });
        }
        Trace(seconds)
    }

    #[test]
    fn a_recorded_trace_gives_power_energy_and_what_the_chip_really_did() {
        let mut gpus = trace();
        let mut series = Series::default();
        for second in 0..3 {
            series.push(f64::from(second), combined(&gpus.read()));
        }
        let figures = series.gpu(0.0, 2.0).unwrap();
        assert_eq!(figures.gpus, Some(2.0));
        assert_eq!(figures.power.unwrap().max, 1200.0);
        // 6,200 + 4,900 J at the end, 9,000 J at the beginning.
        assert!((figures.energy.unwrap() - 2100.0).abs() < 1e-9);
        assert!((figures.energy_per_token(4200.0).unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(figures.kernel_time, Some(1.0));
        assert!((figures.sm_activity.unwrap() - 4.0 / 6.0).abs() < 1e-9);
        assert!((figures.throttled.unwrap() - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(figures.memory_total, None);
    }

    #[test]
    fn no_gpu_says_nothing() {
        assert!(combined(&[]).is_empty());
    }

    #[test]
    fn a_sum_that_lacks_a_part_is_not_given() {
        let values =
            combined(&[GpuReading { power: Some(300.0), ..GpuReading::default() }, GpuReading::default()]);
        assert_eq!(values.get(Quantity::Power), None);
        assert_eq!(values.get(Quantity::Gpus), Some(2.0));
    }
}
