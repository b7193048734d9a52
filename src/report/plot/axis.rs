//! Ranges and ticks in steps that people read.

/// Ticks at multiples of 1, 2, 2.5 or 5 times a power of ten within `low..=high`, at most `most`.
pub(super) fn linear_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    if low.is_nan() || high.is_nan() || high <= low || most == 0 {
        return Vec::new();
    }
    let rough = (high - low) / most as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 2.5, 5.0, 10.0].map(|m| m * power).into_iter().find(|&step| step >= rough * (1.0 - 1e-9));
    let step = step.unwrap_or(10.0 * power);
    let (first, last) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
    (first..=last).map(|n| n as f64 * step).collect()
}

/// Ticks for a logarithmic axis of whole numbers: 1, 2, 5, 10, ... where at least four of them fall
/// into the range, else evenly spaced ones; thinned until no two are nearer than the share `apart`
/// of the axis.
pub(super) fn log_ticks(low: f64, high: f64, apart: f64) -> Vec<f64> {
    let mut decade = 1.0;
    let mut ticks = Vec::new();
    while decade <= high {
        ticks.extend(
            [1.0, 2.0, 5.0].map(|m| m * decade).into_iter().filter(|&tick| (low..=high).contains(&tick)),
        );
        decade *= 10.0;
    }
    if ticks.len() < 4 {
        ticks = linear_ticks(low, high, 8);
        ticks.retain(|tick| tick.fract() == 0.0 && *tick >= 1.0);
    }
    let span = (high / low).ln();
    let mut kept: Vec<f64> = Vec::new();
    for tick in ticks {
        if kept.last().is_none_or(|last| (tick / last).ln() >= apart * span) {
            kept.push(tick);
        }
    }
    kept
}

/// The unit in which seconds up to `high` are read, and how many of it a second has.
pub(super) fn time_unit(high: f64) -> (&'static str, f64) {
    if high < 2e-3 {
        ("µs", 1e6)
    } else if high < 5.0 {
        ("ms", 1e3)
    } else {
        ("s", 1.0)
    }
}

/// A tick's label without needless digits.
pub(super) fn label(value: f64) -> String {
    let rounded = (value * 1e6).round() / 1e6;
    if rounded == 0.0 { "0".to_owned() } else { rounded.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round_and_inside() {
        assert_eq!(linear_ticks(0.0, 1.1, 5), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(linear_ticks(0.0, 1000.0, 5), [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        assert_eq!(linear_ticks(0.0, 0.0, 5), Vec::<f64>::new());
        assert_eq!(linear_ticks(f64::NAN, 1.0, 5), Vec::<f64>::new());
    }

    #[test]
    fn log_ticks_suit_wide_and_narrow_ranges() {
        assert_eq!(
            log_ticks(1.0, 1024.0, 0.05),
            [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]
        );
        assert_eq!(log_ticks(31.0, 66.0, 0.05), [35.0, 40.0, 45.0, 50.0, 55.0, 60.0, 65.0]);
        assert_eq!(log_ticks(3.0, 5.2, 0.05), [3.0, 4.0, 5.0]);
        let crowded = log_ticks(1.0, 1e6, 0.05);
        let span = 1e6_f64.ln();
        assert!(crowded.windows(2).all(|pair| (pair[1] / pair[0]).ln() >= 0.05 * span), "{crowded:?}");
    }

    #[test]
    fn labels_have_no_needless_digits() {
        assert_eq!(label(0.30000000000000004), "0.3");
        assert_eq!(label(-0.0), "0");
        assert_eq!(label(1500.0), "1500");
    }
}
