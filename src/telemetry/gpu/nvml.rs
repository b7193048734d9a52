//! GPUs by NVML, the library of NVIDIA's driver, which is loaded when it is asked for.

use std::sync::OnceLock;

use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::gpm::gpm_metrics_get;
use nvml_wrapper::{Device, GpmSample, Nvml};

use super::{Gpu, GpuReading};

/// What is asked of the driver's performance monitor.
const ACTIVITY: [GpmMetricId; 2] = [GpmMetricId::SmUtil, GpmMetricId::DramBwUtil];

/// The driver stays loaded for the life of the process: devices and samples borrow it.
static DRIVER: OnceLock<Result<Nvml, String>> = OnceLock::new();

/// The GPUs of this machine.
///
/// # Errors
/// The driver's words where there is no driver or no GPU.
pub fn open() -> Result<Box<dyn Gpu>, String> {
    let driver = DRIVER.get_or_init(|| Nvml::init().map_err(|error| error.to_string()));
    let nvml = driver.as_ref().map_err(Clone::clone)?;
    let count = nvml.device_count().map_err(|error| error.to_string())?;
    let devices: Vec<One> = (0..count)
        .filter_map(|index| nvml.device_by_index(index).ok())
        .map(|device| {
            let has_gpm = device.gpm_support().unwrap_or(false);
            One { has_gpm, sample: None, device }
        })
        .collect();
    if devices.is_empty() {
        return Err("the driver knows no GPU".to_owned());
    }
    Ok(Box::new(Driver { nvml, devices }))
}

struct Driver {
    nvml: &'static Nvml,
    devices: Vec<One>,
}

struct One {
    device: Device<'static>,
    has_gpm: bool,
    /// The performance monitor's sample of the reading before.
    sample: Option<GpmSample<'static>>,
}

impl Gpu for Driver {
    fn read(&mut self) -> Vec<GpuReading> {
        let nvml = self.nvml;
        self.devices.iter_mut().map(|one| one.read(nvml)).collect()
    }
}

impl One {
    fn read(&mut self, nvml: &'static Nvml) -> GpuReading {
        let device = &self.device;
        let memory = device.memory_info().ok();
        let hertz = |clock| device.clock_info(clock).ok().map(|megahertz| f64::from(megahertz) * 1e6);
        let mut reading = GpuReading {
            power: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) * 1e-3),
            energy: device.total_energy_consumption().ok().map(|millijoules| millijoules as f64 * 1e-3),
            memory_used: memory.as_ref().map(|memory| memory.used as f64),
            memory_total: memory.as_ref().map(|memory| memory.total as f64),
            sm_clock: hertz(Clock::SM),
            memory_clock: hertz(Clock::Memory),
            temperature: device.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
            sm_activity: None,
            memory_activity: None,
            kernel_time: device.utilization_rates().ok().map(|rates| f64::from(rates.gpu) * 1e-2),
            throttle_reasons: device.current_throttle_reasons().ok().map(|reasons| reasons.bits()),
        };
        if self.has_gpm
            && let Ok(now) = device.gpm_sample()
        {
            if let Some(before) = &self.sample
                && let Ok(results) = gpm_metrics_get(nvml, before, &now, &ACTIVITY)
            {
                let share = |index: usize| {
                    let result = results.get(index)?.as_ref().ok()?;
                    Some(result.value * 1e-2)
                };
                reading.sm_activity = share(0);
                reading.memory_activity = share(1);
            }
            self.sample = Some(now);
        }
        reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_gpus_or_says_why_not() {
        match open() {
            Ok(mut gpus) => assert!(!gpus.read().is_empty()),
            Err(why) => assert!(!why.is_empty()),
        }
    }
}
