//! How long a trial lasts whose SLO has windows (`ttft p99 < 800ms over 30s worst`).
//!
//! The worst of many windows is worse than the worst of few, under the same load. So that loads can be
//! compared, every measuring trial of a search holds the same number of windows, and none is cut short or
//! drawn out by what it sees.

use crate::slo::Slo;

/// Windows of the longest kind in a measuring trial.
pub const WINDOWS: u32 = 5;
/// Shortest measuring trial, seconds: more windows where they are short.
const LEAST_SECONDS: f64 = 20.0;

/// Seconds that a measuring trial lasts, where the SLO has windows: whole windows of the longest kind.
pub fn trial_seconds(slo: &Slo) -> Option<f64> {
    let window = slo.longest_window()?;
    Some(window * f64::from(WINDOWS).max((LEAST_SECONDS / window).ceil()))
}

/// The same where a trial may last no longer than `most` seconds.
pub fn within(slo: &Slo, most: f64) -> Option<f64> {
    let (window, seconds) = (slo.longest_window()?, trial_seconds(slo)?);
    Some(if seconds <= most { seconds } else { window * (most / window).floor().max(1.0) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_trial_holds_whole_windows_of_the_longest_kind() {
        let seconds = |text| trial_seconds(&Slo::parse([text]).unwrap());
        assert_eq!(seconds("ttft p95 < 1s"), None);
        assert_eq!(seconds("ttft p95 < 1s over 30s; itl p95 < 50ms over 10s"), Some(150.0));
        assert_eq!(seconds("ttft p95 < 1s over 3s"), Some(21.0));
        let slo = Slo::parse(["ttft p95 < 1s over 30s"]).unwrap();
        assert_eq!((within(&slo, 120.0), within(&slo, 600.0)), (Some(120.0), Some(150.0)));
    }
}
