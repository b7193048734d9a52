//! Doubling, then halving the bracket on the log scale until it is narrow; each verdict is final.

use crate::selftest::peers::Found;
use crate::selftest::peers::bench::Bench;

/// Width of the bracket, relative to its upper end, at which the search ends.
const PRECISION: f64 = 0.05;

/// Searches 1 to `highest`.
pub fn search(bench: &mut Bench, highest: u32) -> Found {
    let (mut met, mut missed) = (0, None);
    let mut level = 1;
    loop {
        if bench.measure(level).is_met() {
            met = level;
        } else {
            missed = Some(level);
        }
        level = match missed {
            None if met >= highest => return Found { met, low: met, high: None },
            None => met.saturating_mul(2).min(highest),
            Some(missed) if met == 0 || is_narrow(met, missed) => {
                return Found { met, low: met, high: Some(missed) };
            }
            Some(missed) => {
                let middle = (f64::from(met) * f64::from(missed)).sqrt().round() as u32;
                middle.clamp(met + 1, missed - 1)
            }
        };
    }
}

fn is_narrow(met: u32, missed: u32) -> bool {
    missed - met <= 1 || f64::from(missed - met) / f64::from(missed) < PRECISION
}
